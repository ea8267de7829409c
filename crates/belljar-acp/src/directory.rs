//! Files below the directory of a session: no link and no `..` leads out of it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::words::quoted;

/// The largest file that a prompt may name.
pub(crate) const MAX_FILE: u64 = 64 << 20;

/// The directory that an editor works in.
pub(crate) struct Directory {
    path: PathBuf,
    /// The same without links.
    real: PathBuf,
    opened: OwnedFd,
}

/// A file that is not there, or can't be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It does not exist; its directory does, below that of the session.
    Missing,
    /// Why not, in words.
    Refused(String),
}

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let shown = quoted(&path.to_string_lossy());
        if !path.is_absolute() {
            return Err(format!("`cwd` must be an absolute path, not {shown}"));
        }
        let unusable = |error: &dyn std::fmt::Display| format!("`cwd` {shown}: {error}");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        Ok(Self {
            path: path.to_owned(),
            real: path.canonicalize().map_err(|error| unusable(&error))?,
            opened: opened.map_err(|error| unusable(&error))?,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name below this directory of a file that a URI names; none if it is not the URI of a file.
    pub(crate) fn name(&self, uri: &str) -> Result<Option<String>, String> {
        let Some(rest) = uri.strip_prefix("file://") else {
            return Ok(None);
        };
        let outside = || {
            format!(
                "The file {} is not below the directory of this session, {}: it was not read.",
                quoted(uri),
                quoted(&self.path.to_string_lossy())
            )
        };
        let rest = rest.strip_prefix("localhost").unwrap_or(rest);
        // An editor may name lines of the file there.
        let rest = rest.split(['#', '?']).next().unwrap_or(rest);
        let path = decode(rest).map(PathBuf::from).ok_or_else(outside)?;
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(is_plain) {
            return Err(outside());
        }
        let below = path.strip_prefix(&self.path);
        let below = below.or_else(|_| path.strip_prefix(&self.real));
        let name = below.ok().and_then(Path::to_str);
        match name {
            Some(name) if !name.is_empty() => Ok(Some(name.to_owned())),
            _ => Err(outside()),
        }
    }

    /// Reads a file by its name below this directory.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Unread> {
        let refused = |why: &str| Unread::Refused(format!("The file {} {why}.", quoted(name)));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match self.beneath(Path::new(name), flags) {
            Ok(file) => File::from(file),
            Err(Errno::XDEV | Errno::LOOP) => {
                return Err(refused(
                    "leads out of the directory of this session: it was not read",
                ));
            }
            Err(Errno::NOENT) => {
                let parent = Path::new(name)
                    .parent()
                    .filter(|it| !it.as_os_str().is_empty());
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let found = self.beneath(parent.unwrap_or(Path::new(".")), flags);
                return Err(match found {
                    Ok(_) => Unread::Missing,
                    Err(_) => refused("does not exist"),
                });
            }
            Err(error) => return Err(refused(&format!("cannot be read: {error}"))),
        };
        let failed = |error: std::io::Error| refused(&format!("cannot be read: {error}"));
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(refused("is not a regular file"));
        }
        let mut contents = Vec::new();
        // It may grow meanwhile.
        let read = file.take(MAX_FILE + 1).read_to_end(&mut contents);
        read.map_err(failed)?;
        if contents.len() as u64 > MAX_FILE {
            return Err(refused(&format!("is larger than {} MiB", MAX_FILE >> 20)));
        }
        Ok(contents)
    }

    fn beneath(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.opened, path, flags, Mode::empty(), resolve)
    }
}

/// The URI of a file.
pub(crate) fn file_uri(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Percent-decoded text; none if it is not text, or has a byte 0.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_uri_names_a_file_below_the_directory_or_none() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("pro ject");
        std::fs::create_dir(&root).unwrap();
        let directory = Directory::open(&root).unwrap();
        let uri = |name: &str| file_uri(&root.join(name));
        for name in ["a.csv", "data/Zoë #1?.csv", "100%.txt"] {
            assert_eq!(directory.name(&uri(name)), Ok(Some(name.to_owned())));
        }
        let lines = uri("a.py") + "#L1:7";
        assert_eq!(directory.name(&lines), Ok(Some("a.py".to_owned())));
        assert_eq!(directory.name("https://example.org/a.csv"), Ok(None));
        let root = root.to_str().unwrap();
        for outside in [
            "file:///etc/passwd",
            "file://etc/passwd",
            "file://",
            "file:///",
            "file:///%00",
            "file:///%ff",
            "file:///%2",
            &format!("file://{root}"),
            &format!("file://{root}2/x"),
            &format!("file://{root}/../x"),
            &format!("file://{root}/%2e%2e/x"),
            &format!("file://{root}/a/../../x"),
            &format!("file://elsewhere{root}/x"),
        ] {
            let name = directory.name(outside);
            assert!(name.is_err(), "{outside}: {name:?}");
        }
    }

    #[test]
    fn no_link_leads_out() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("project");
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::write(scratch.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("data/a"), "inside").unwrap();
        symlink("data/a", root.join("link")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        let directory = Directory::open(&root).unwrap();
        assert_eq!(directory.read("data/a").unwrap(), b"inside");
        assert_eq!(directory.read("link").unwrap(), b"inside");
        for out in [
            "out",
            "absolute",
            "up/secret",
            "../secret",
            "magic/etc/passwd",
            "up/new",
        ] {
            let read = directory.read(out);
            assert!(matches!(read, Err(Unread::Refused(_))), "{out}: {read:?}");
        }
        assert_eq!(directory.read("data/new"), Err(Unread::Missing));
        for not_a_file in ["data", "no/such/file"] {
            let read = directory.read(not_a_file);
            assert!(matches!(read, Err(Unread::Refused(_))), "{read:?}");
        }
        assert!(Directory::open(Path::new("project")).is_err());
        assert!(Directory::open(&root.join("data/a")).is_err());
    }
}
