//! Files beneath a directory whose contents are hostile.
//!
//! Every path is resolved by the kernel (`openat2`) beneath the directory, without symbolic links
//! and without crossing a mount, so no check here can race with the code inside.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat2, readlinkat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Why a file could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// The path can't be inside.
    #[error("`{path}` is not a path inside the workspace: {why}")]
    BadPath {
        /// The path, with control characters made visible.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No path of the session that the host reaches.
    #[error(
        "`{0}`: permission denied\nhint: only `/workspace` (also `/home/user`) and `/tmp` of a session can be reached from outside"
    )]
    Outside(String),
    /// There is no such file.
    #[error("`{0}` does not exist")]
    NotFound(String),
    /// Something is there already.
    #[error("`{0}` already exists")]
    Exists(String),
    /// Its directories are nested more deeply than they are followed.
    #[error("`{0}` has more than {MOST_LEVELS} levels of directories")]
    TooDeep(String),
    /// It is neither a regular file nor a directory, or a link is on the way.
    #[error("`{0}` is not a regular file")]
    NotRegular(String),
    /// The session would exceed its memory limit.
    #[error(
        "`{path}` was not written: files and variables of the session together can use {limit} bytes of memory\nhint: delete some of them, or start a session with a higher memory limit"
    )]
    NoMemory {
        /// The path.
        path: String,
        /// The session's memory limit.
        limit: u64,
    },
    /// The kernel refused.
    #[error("`{path}`: {source}")]
    Io {
        /// The path.
        path: String,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl BeneathError {
    /// What an error of the kernel means for a path.
    pub fn from_kernel(path: &str, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => from_errno(path, errno),
            None => io_error(path, error),
        }
    }

    /// The inverse of [`from_errno`], and the path.
    pub(crate) fn to_errno(&self) -> (Errno, &str) {
        match self {
            Self::BadPath { path, .. } => (Errno::INVAL, path),
            Self::Outside(path) => (Errno::ACCESS, path),
            Self::NotFound(path) => (Errno::NOENT, path),
            Self::Exists(path) => (Errno::EXIST, path),
            Self::TooDeep(path) => (Errno::NAMETOOLONG, path),
            Self::NotRegular(path) => (Errno::LOOP, path),
            Self::NoMemory { path, .. } => (Errno::NOMEM, path),
            Self::Io { path, source } => (Errno::from_io_error(source).unwrap_or(Errno::IO), path),
        }
    }

    /// The same about a path as the caller has it.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        let (Self::BadPath { path, .. }
        | Self::Outside(path)
        | Self::NotFound(path)
        | Self::Exists(path)
        | Self::TooDeep(path)
        | Self::NotRegular(path)
        | Self::NoMemory { path, .. }
        | Self::Io { path, .. }) = &mut self;
        path.insert_str(0, prefix);
        self
    }
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a pipe, a socket: shown, never opened.
    Other,
}

impl EntryKind {
    fn new(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the workspace; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes, for a file.
    pub size: u64,
}

/// What is known of a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// What it is.
    pub kind: EntryKind,
    /// Bytes, for a file.
    pub size: u64,
    /// Its permissions, as `chmod` has them.
    pub mode: u32,
    /// When it was changed.
    pub modified: SystemTime,
}

impl FileStatus {
    fn new(stat: &Stat) -> Self {
        let kind = EntryKind::new(stat);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self {
            kind,
            size: match kind {
                EntryKind::File => u64::try_from(stat.st_size).unwrap_or(0),
                EntryKind::Directory | EntryKind::Other => 0,
            },
            mode: stat.st_mode & 0o7777,
            // Code in the session sets the time as it likes.
            modified: SystemTime::UNIX_EPOCH
                .checked_add(Duration::new(seconds, nanoseconds.min(999_999_999)))
                .unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

/// A directory beneath which files are reached.
#[derive(Debug)]
pub struct Beneath(OwnedFd);

impl Beneath {
    /// Takes the descriptor of the directory.
    pub fn new(directory: OwnedFd) -> Self {
        Self(directory)
    }

    /// Opens a regular file for reading.
    pub fn read(&self, path: &str) -> Result<File, BeneathError> {
        // Nonblocking, so that a pipe planted there does not hang the host.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        regular(&file, path)?;
        Ok(File::from(file))
    }

    /// Begins a file, making the directories it needs. It has the name `temporary` until it is
    /// [kept](NewFile::keep), and is removed otherwise.
    pub(crate) fn create(&self, path: &str, temporary: &str) -> Result<NewFile, BeneathError> {
        check_path(path)?;
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (self.make_directories(parent)?, name),
            None => (self.open_directory(".")?, path),
        };
        if let Ok(stat) = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
            && FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        {
            return Err(BeneathError::NotRegular(path.to_owned()));
        }
        // A name of its own, which code in the session can't have planted as a link.
        let file = openat2(
            &parent,
            temporary,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o644),
            RESOLVE,
        )
        .map_err(|error| from_errno(path, error))?;
        Ok(NewFile {
            file: File::from(file),
            parent,
            path: path.to_owned(),
            temporary: temporary.to_owned(),
        })
    }

    /// Makes a directory and its missing parents.
    pub(crate) fn make_directory(&self, path: &str) -> Result<(), BeneathError> {
        check_path(path)?;
        self.make_directories(path)
            .map(drop)
            .map_err(|error| match error {
                BeneathError::NotRegular(path) => BeneathError::Exists(path),
                error => error,
            })
    }

    /// Lists everything beneath `path` (`""` for all), at most `limit` entries, and of their paths so many bytes as a
    /// listing of short ones has.
    /// The flag says whether there was more.
    pub fn list(&self, path: &str, limit: usize) -> Result<(Vec<Entry>, bool), BeneathError> {
        // What a shell would call the same, so that it is asked for in one way below.
        let path = match path.trim_end_matches('/') {
            "." => "",
            path => path,
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut pending = vec![path.to_owned()];
        while let Some(directory) = pending.pop() {
            let shown = if directory.is_empty() {
                "."
            } else {
                &directory
            };
            let descriptor = match self.open_directory(shown) {
                Ok(descriptor) => descriptor,
                // It was there a moment ago; the code inside is free to remove it, to put a link
                // in its place, or to close it.
                Err(_) if directory != path => continue,
                Err(error) => return Err(error),
            };
            let reader = Dir::read_from(&descriptor).map_err(|error| from_errno(path, error))?;
            for entry in reader {
                let entry = entry.map_err(|error| from_errno(path, error))?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                if entries.len() >= limit || bytes > limit * USUAL_PATH {
                    return Ok((entries, true));
                }
                let Ok(stat) = statat(&descriptor, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                let shown = name.to_string_lossy();
                let full = if directory.is_empty() {
                    shown.clone().into_owned()
                } else {
                    format!("{directory}/{shown}")
                };
                let FileStatus { kind, size, .. } = FileStatus::new(&stat);
                if kind == EntryKind::Directory && full.len() < MAX_PATH && name.to_str().is_ok() {
                    pending.push(full.clone());
                }
                bytes += full.len();
                entries.push(Entry {
                    path: full,
                    kind,
                    size,
                });
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, false))
    }

    /// Removes a file, a link or an empty directory.
    pub fn remove(&self, path: &str) -> Result<(), BeneathError> {
        let (parent, name) = self.open_parent(path)?;
        let removed = match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(&parent, name, AtFlags::REMOVEDIR),
            other => other,
        };
        removed.map_err(|error| from_errno(path, error))
    }

    /// What is known of a file, a directory, or a link, which is not followed.
    pub fn stat(&self, path: &str) -> Result<FileStatus, BeneathError> {
        let stat = match path {
            "" | "." => fstat(&self.0),
            path => {
                let (parent, name) = self.open_parent(path)?;
                statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        let stat = stat.map_err(|error| from_errno(path, error))?;
        Ok(FileStatus::new(&stat))
    }

    /// Where a link leads, in its own words; none for what is no link, or leads to a name that is not UTF-8.
    pub fn read_link(&self, path: &str) -> Result<Option<String>, BeneathError> {
        if matches!(path, "" | ".") {
            return Ok(None);
        }
        let (parent, name) = self.open_parent(path)?;
        match readlinkat(&parent, name, Vec::new()) {
            Ok(target) => Ok(target.into_string().ok()),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(from_errno(path, error)),
        }
    }

    /// Gives a file or a directory another name, replacing a file of that name, and makes the directories it needs.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), BeneathError> {
        let (from_parent, from_name) = self.open_parent(from)?;
        check_path(to)?;
        let (to_parent, to_name) = match to.rsplit_once('/') {
            Some((parent, name)) => (self.make_directories(parent)?, name),
            None => (self.open_directory(".")?, to),
        };
        renameat(&from_parent, from_name, &to_parent, to_name).map_err(|error| match error {
            // Only a file replaces a file, and a directory an empty one.
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => {
                BeneathError::Exists(to.to_owned())
            }
            error => from_errno(from, error),
        })
    }

    /// Removes a file or a directory with all that is in it. Code in the session may add to it meanwhile, so the work
    /// is bounded: an error says that some is left.
    pub fn remove_all(&self, path: &str) -> Result<(), BeneathError> {
        let (parent, name) = self.open_parent(path)?;
        let name = CString::new(name).map_err(|error| io_error(path, error.into()))?;
        let (mut levels, mut attempts) = (MOST_LEVELS, MOST_REMOVED);
        remove_tree(&parent, &name, &mut levels, &mut attempts).map_err(|error| {
            if levels == 0 {
                BeneathError::TooDeep(path.to_owned())
            } else {
                from_errno(path, error)
            }
        })
    }

    /// Opens a directory, `""` for all of it.
    pub fn directory(&self, path: &str) -> Result<OwnedFd, BeneathError> {
        self.open_directory(if path.is_empty() { "." } else { path })
    }

    fn open_parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), BeneathError> {
        check_path(path)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        Ok((self.open_directory(parent)?, name))
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, BeneathError> {
        if path != "." {
            check_path(path)?;
        }
        openat2(
            &self.0,
            path,
            flags | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
            RESOLVE,
        )
        .map_err(|error| from_errno(path, error))
    }

    fn open_directory(&self, path: &str) -> Result<OwnedFd, BeneathError> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn make_directories(&self, path: &str) -> Result<OwnedFd, BeneathError> {
        let mut current = self.open_directory(".")?;
        for name in path.split('/') {
            match mkdirat(&current, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(from_errno(path, error)),
            }
            let next = openat2(
                &current,
                name,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
                RESOLVE,
            )
            .map_err(|error| from_errno(path, error))?;
            current = next;
        }
        Ok(current)
    }
}

impl AsFd for Beneath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A file that is being written. It is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    parent: OwnedFd,
    path: String,
    temporary: String,
}

impl NewFile {
    /// Gives it its name, replacing a file of that name.
    pub(crate) fn keep(self) -> Result<(), BeneathError> {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        renameat(&self.parent, &self.temporary, &self.parent, name)
            .map_err(|error| from_errno(&self.path, error))
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // There is none where it was kept.
        let _ = unlinkat(&self.parent, &self.temporary, AtFlags::empty());
    }
}

/// How the names of files begin that are being written.
pub const TEMPORARY_NAMES: &str = ".belljar-put-";

/// Where a file for this path is while it is written: a name of its own beside it.
pub(crate) fn temporary_beside(path: &str) -> String {
    let name = format!("{TEMPORARY_NAMES}{:016x}", random());
    match path.rsplit_once('/') {
        Some((parent, _)) => format!("{parent}/{name}"),
        None => name,
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

const MAX_PATH: usize = 4000;

/// How many entries are removed at once: more than any workspace has by default.
const MOST_REMOVED: usize = 1_000_000;

/// How deep directories are followed: each level takes two descriptors of this process.
const MOST_LEVELS: usize = 128;

/// Bytes of a path that is not unusually long. Those of a listing are held in memory.
const USUAL_PATH: usize = 256;

/// Refuses early what can't be a path inside, so that the message can say why. The kernel's
/// resolution is the wall; this is courtesy.
pub fn check_path(path: &str) -> Result<(), BeneathError> {
    let why = if path.is_empty() {
        "it is empty"
    } else if path.len() > MAX_PATH {
        "it is too long"
    } else if path.contains('\0') {
        "it has a NUL character"
    } else if path.starts_with('/') {
        "give it relative to the workspace, without a leading `/`"
    } else if path.ends_with('/') {
        "it ends with `/`"
    } else if !Path::new(path)
        .components()
        .all(|c| matches!(c, Component::Normal(_)))
        || path.split('/').any(|part| part.is_empty() || part == ".")
    {
        "`.`, `..` and empty parts are not allowed"
    } else {
        return Ok(());
    };
    Err(BeneathError::BadPath {
        path: path
            .chars()
            .take(200)
            .collect::<String>()
            .escape_debug()
            .to_string(),
        why,
    })
}

/// Removes an entry with all that is in it, by its name as the kernel has it. What takes its place meanwhile is
/// removed, never followed. `levels` is 0 afterwards if there are more.
fn remove_tree(
    parent: &OwnedFd,
    name: &CStr,
    levels: &mut usize,
    attempts: &mut usize,
) -> Result<(), Errno> {
    loop {
        *attempts = attempts.checked_sub(1).ok_or(Errno::NOTEMPTY)?;
        let removed = match unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(parent, name, AtFlags::REMOVEDIR),
            removed => removed,
        };
        match removed {
            Err(Errno::NOTEMPTY) => {}
            // It was another kind of thing a moment ago.
            Err(Errno::NOTDIR) => continue,
            removed => return removed,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat2(parent, name, flags, Mode::empty(), RESOLVE) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => continue,
            Err(error) => return Err(error),
        };
        *levels -= 1;
        if *levels == 0 {
            return Err(Errno::NAMETOOLONG);
        }
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match remove_tree(&directory, name, levels, attempts) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        *levels += 1;
    }
}

fn regular(file: &OwnedFd, path: &str) -> Result<(), BeneathError> {
    let stat = fstat(file).map_err(|error| from_errno(path, error))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(())
    } else {
        Err(BeneathError::NotRegular(path.to_owned()))
    }
}

pub(crate) fn io_error(path: &str, source: io::Error) -> BeneathError {
    BeneathError::Io {
        path: path.to_owned(),
        source,
    }
}

pub(crate) fn from_errno(path: &str, error: Errno) -> BeneathError {
    match error {
        Errno::NOENT => BeneathError::NotFound(path.to_owned()),
        Errno::EXIST => BeneathError::Exists(path.to_owned()),
        // A link, another mount, a socket, or a file where a directory should be.
        Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::NOTDIR => {
            BeneathError::NotRegular(path.to_owned())
        }
        other => io_error(path, other.into()),
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Only a name that must not clash by chance; the file is made with O_EXCL.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn workspace() -> (tempfile::TempDir, Beneath) {
        let directory = tempfile::tempdir().unwrap();
        let descriptor = rustix::fs::open(
            directory.path(),
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
        (directory, Beneath::new(descriptor))
    }

    fn put(beneath: &Beneath, path: &str, text: &str) -> Result<(), BeneathError> {
        let mut new = beneath.create(path, "temporary")?;
        new.file.write_all(text.as_bytes()).unwrap();
        new.keep()
    }

    #[test]
    fn what_is_put_can_be_read_listed_and_removed() {
        let (_directory, beneath) = workspace();
        put(&beneath, "a/b/c.txt", "one").unwrap();
        put(&beneath, "a/b/c.txt", "two").unwrap();
        let mut text = String::new();
        beneath
            .read("a/b/c.txt")
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "two");
        let (entries, more) = beneath.list("", 10).unwrap();
        let paths: Vec<_> = entries.iter().map(|e| e.path.as_str()).collect();
        assert_eq!((paths, more), (vec!["a", "a/b", "a/b/c.txt"], false));
        assert!(beneath.list("", 2).unwrap().1);
        for same in [".", "./", "/"] {
            assert_eq!(beneath.list(same, 10).unwrap().0, entries, "{same}");
        }
        assert_eq!(beneath.list("a/b/", 10).unwrap().0, entries[2..]);
        for missing in ["gone", "gone/"] {
            let listed = beneath.list(missing, 10);
            assert!(
                matches!(listed, Err(BeneathError::NotFound(_))),
                "{missing}"
            );
        }
        beneath.remove("a/b/c.txt").unwrap();
        beneath.remove("a/b").unwrap();
        assert!(matches!(
            beneath.read("a/b/c.txt"),
            Err(BeneathError::NotFound(_))
        ));
    }

    #[test]
    fn paths_that_lead_outside_are_refused() {
        let (directory, beneath) = workspace();
        std::os::unix::fs::symlink("/etc", directory.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("leak")).unwrap();
        for path in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a//b",
            "./a",
            "a/",
            "a\0b",
            &"x/".repeat(3000),
        ] {
            assert!(
                matches!(beneath.read(path), Err(BeneathError::BadPath { .. })),
                "{path:?}"
            );
            assert!(
                matches!(put(&beneath, path, ""), Err(BeneathError::BadPath { .. })),
                "{path:?}"
            );
        }
        for path in ["etc/passwd", "leak"] {
            assert!(
                matches!(beneath.read(path), Err(BeneathError::NotRegular(_))),
                "{path}"
            );
            assert!(
                matches!(put(&beneath, path, "x"), Err(BeneathError::NotRegular(_))),
                "{path}"
            );
        }
        assert!(matches!(
            beneath.remove("etc/passwd"),
            Err(BeneathError::NotRegular(_))
        ));
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn a_pipe_does_not_hang_the_reader() {
        let (directory, beneath) = workspace();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.path().join("pipe.csv"),
            FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        assert!(matches!(
            beneath.read("pipe.csv"),
            Err(BeneathError::NotRegular(_))
        ));
        assert!(matches!(
            beneath.read("."),
            Err(BeneathError::NotRegular(_))
        ));
    }

    #[test]
    fn a_file_that_is_not_kept_leaves_nothing() {
        let (_directory, beneath) = workspace();
        let new = beneath.create("x", "temporary").unwrap();
        assert_eq!(beneath.list("", 10).unwrap().0.len(), 1);
        drop(new);
        assert_eq!(beneath.list("", 10).unwrap().0, vec![]);
    }
}
