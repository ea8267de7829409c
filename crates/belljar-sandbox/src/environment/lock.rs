//! Reading `requirements.lock` as `uv pip compile --generate-hashes` writes it.
//!
//! By hand, because the part of the format that uv writes is three kinds of lines, while a crate
//! for the whole of pip's format would bring a resolver's worth of dependencies.

use serde::{Deserialize, Serialize};

use super::EnvironmentError;

/// A package that is part of an environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LockedPackage {
    /// The name as the package index spells it.
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The hashes (`sha256:…`) of the files it may be installed from. Empty when nothing was
    /// locked, as with [`Environment::from_python`](super::Environment::from_python).
    pub hashes: Vec<String>,
}

/// The packages of a lock. Refuses what is not pinned to a version with at least one hash.
pub(super) fn parse(text: &str) -> Result<Vec<LockedPackage>, EnvironmentError> {
    let mut packages: Vec<LockedPackage> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = || EnvironmentError::Lock {
            line: index + 1,
            text: line.trim().to_owned(),
        };
        let content = line.trim().trim_end_matches('\\').trim_end();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if let Some(hash) = content.strip_prefix("--hash=") {
            let package = packages.last_mut().ok_or_else(wrong)?;
            package.hashes.push(hash.to_owned());
            continue;
        }
        if packages.last().is_some_and(|last| last.hashes.is_empty()) {
            return Err(wrong());
        }
        // A marker may follow: `colorama==0.4.6 ; sys_platform == 'win32' \`.
        let requirement = content.split(';').next().unwrap_or_default().trim();
        let (name, version) = requirement.split_once("==").ok_or_else(wrong)?;
        // Extras do not change what is installed under this name: `pandas[excel]==2.3.0`.
        let name = name.split('[').next().unwrap_or_default().trim();
        let version = version.trim();
        let plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        if !plain(name) || !plain(version) {
            return Err(wrong());
        }
        packages.push(LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: Vec::new(),
        });
    }
    if let Some(last) = packages.last()
        && last.hashes.is_empty()
    {
        return Err(EnvironmentError::Lock {
            line: text.lines().count(),
            text: format!("`{}` has no hash", last.name),
        });
    }
    packages.sort();
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, hashes: &[&str]) -> LockedPackage {
        LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            hashes: hashes.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_lock_is_read_with_all_its_hashes() {
        let text = "\
six==1.17.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via
    #   python-dateutil
et-xmlfile==2.0.0 \\
    --hash=sha256:cc
    # via openpyxl

pandas[excel]==3.1.1 ; python_full_version >= '3.11' \\
    --hash=sha256:dd
";
        assert_eq!(
            parse(text).unwrap(),
            [
                package("et-xmlfile", "2.0.0", &["sha256:cc"]),
                package("pandas", "3.1.1", &["sha256:dd"]),
                package("six", "1.17.0", &["sha256:aa", "sha256:bb"]),
            ]
        );
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse("# nothing\n\n").unwrap(), []);
    }

    #[test]
    fn what_is_not_pinned_and_hashed_is_refused() {
        for (text, line) in [
            ("six==1.17.0\n", 1),
            ("six==1.17.0\nidna==3.20 \\\n  --hash=sha256:aa\n", 2),
            ("six>=1 \\\n  --hash=sha256:aa\n", 1),
            ("--hash=sha256:aa\n", 1),
            ("local @ file:///somewhere\n", 1),
            ("== \\\n --hash=sha256:aa", 1),
        ] {
            match parse(text) {
                Err(EnvironmentError::Lock { line: found, .. }) => {
                    assert_eq!(found, line, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
