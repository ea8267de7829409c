//! Values of the options that every command with sessions has.

use std::path::PathBuf;
use std::time::Duration;

use belljar_sandbox::{HostDirectory, Packages, Requirement};

/// What `--packages` says.
#[derive(Clone, Debug)]
pub(crate) struct PackageChoice {
    pub(crate) policy: Packages,
    pub(crate) named: Vec<Requirement>,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected a number of seconds above 0, at most 86400 (one day)".into())
    }
}

pub(crate) fn packages(text: &str) -> Result<PackageChoice, String> {
    let named = match text {
        "deny" | "any" => Vec::new(),
        _ => Requirement::list(text).map_err(|error| error.to_string())?,
    };
    let policy = match text {
        "deny" => Packages::Deny,
        "any" => Packages::Any,
        _ => Packages::allow(named.iter().map(Requirement::name)),
    };
    Ok(PackageChoice { policy, named })
}

/// A directory of the host, with its name in sessions: its own, unless another is given.
pub(crate) fn mount(text: &str) -> Result<HostDirectory, String> {
    let (text, writable) = match text.strip_suffix(":rw") {
        Some(text) => (text, true),
        None => (text.strip_suffix(":ro").unwrap_or(text), false),
    };
    let (path, name) = match text.rsplit_once(':') {
        Some((path, name)) => (PathBuf::from(path), Some(name.to_owned())),
        None => (PathBuf::from(text), None),
    };
    let name = name.unwrap_or_else(|| {
        // That of `.` is known only in full.
        let full = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = full.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let directory = HostDirectory::new(name, &path).map_err(|error| error.to_string())?;
    Ok(if writable {
        directory.writable()
    } else {
        directory
    })
}

pub(crate) fn memory(text: &str) -> Result<u64, String> {
    size(text, 64)
}

pub(crate) fn disk(text: &str) -> Result<u64, String> {
    size(text, 1)
}

/// Bytes, at least this many MiB; a number without a unit is in MiB.
fn size(text: &str, least: u32) -> Result<u64, String> {
    let wrong = || format!("expected a size from {least}M to 1T, such as 512M or 2G");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.to_ascii_lowercase();
    let unit = unit
        .strip_suffix("ib")
        .or_else(|| unit.strip_suffix('b'))
        .unwrap_or(&unit);
    let mebibytes: u32 = match unit {
        "" | "m" => 1,
        "g" => 1 << 10,
        "t" => 1 << 20,
        _ => return Err(wrong()),
    };
    let size = number.parse::<f64>().map_err(|_| wrong())? * f64::from(mebibytes);
    if !(f64::from(least)..=f64::from(1 << 20)).contains(&size) {
        return Err(wrong());
    }
    // A whole number of MiB, as the kernel's pages are smaller.
    Ok(Duration::from_secs_f64(size).as_secs() << 20)
}

/// Thousandths of a CPU.
pub(crate) fn cpus(text: &str) -> Result<u64, String> {
    let milli = seconds(text).map(|time| time.as_millis());
    match milli.map(u64::try_from) {
        // Less than a hundredth is less than the kernel can give out.
        Ok(Ok(milli @ 10..=1_024_000)) => Ok(milli),
        _ => Err("expected a number of CPUs from 0.01 to 1024".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::memory;

    #[test]
    fn sizes_have_units() {
        for (text, mebibytes) in [
            ("64", 64),
            ("2048", 2048),
            ("512M", 512),
            ("512MiB", 512),
            ("2G", 2048),
            ("2g", 2048),
            ("2GB", 2048),
            ("1.5GiB", 1536),
            ("1T", 1 << 20),
        ] {
            assert_eq!(memory(text), Ok(mebibytes << 20), "{text}");
        }
        for text in [
            "", "G", "63", "2K", "1.1T", "-1G", "2 G", "1e3", "nan", "2GG",
        ] {
            assert!(memory(text).is_err(), "{text}");
        }
    }
}
