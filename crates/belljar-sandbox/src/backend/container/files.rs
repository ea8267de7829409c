//! Files of a session in a container, by requests to its steward.

use std::fs::{File, Permissions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use belljar_protocol::{FileAnswer, FileKind, FileRequest};
use belljar_walls::{BeneathError, Entry, EntryKind, FileStatus, check_path};

use super::steward::Steward;

/// How much of a file is in one message.
const PIECE: usize = 1 << 20;

/// The kernel's number of an input or output error.
const EIO: i32 = 5;

/// The longest path that an entry may have.
const LONGEST_PATH: usize = 4096;

/// A directory of a session in a container.
#[derive(Clone, Debug)]
pub(crate) struct ContainerFiles {
    steward: Arc<Steward>,
    root: &'static str,
}

impl ContainerFiles {
    pub(crate) fn new(steward: &Arc<Steward>, root: &'static str) -> Self {
        Self {
            steward: Arc::clone(steward),
            root,
        }
    }

    fn ask(&self, path: &str, request: FileRequest<'_>) -> Result<FileAnswer, BeneathError> {
        self.send(path, request, &[]).map(|(answer, _)| answer)
    }

    fn send(
        &self,
        path: &str,
        request: FileRequest<'_>,
        blob: &[u8],
    ) -> Result<(FileAnswer, Vec<u8>), BeneathError> {
        let is_look = matches!(
            request,
            FileRequest::List { .. }
                | FileRequest::Stat { .. }
                | FileRequest::ReadLink { .. }
                | FileRequest::Read { .. }
        );
        let mut answer = self.steward.file(self.root, request, blob);
        // Code in the session may have ended the helper meanwhile: there is another by now.
        if is_look && matches!(&answer, Some((answer, _)) if answer.errno == Some(EIO)) {
            answer = self.steward.file(self.root, request, blob);
        }
        let (answer, blob) = answer.ok_or_else(|| BeneathError::Io {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::TimedOut, "the container did not answer"),
        })?;
        match answer.errno {
            None => Ok((answer, blob)),
            Some(errno) => Err(self.refused(path, errno)),
        }
    }

    fn refused(&self, path: &str, errno: i32) -> BeneathError {
        let source = io::Error::from_raw_os_error(errno);
        match source.kind() {
            io::ErrorKind::OutOfMemory => BeneathError::NoMemory {
                path: path.to_owned(),
                limit: self.steward.memory_limit(),
            },
            // A directory, a pipe or a socket that was to be read.
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
                BeneathError::NotRegular(path.to_owned())
            }
            _ => BeneathError::from_kernel(path, source),
        }
    }

    /// A copy of a regular file, to be read. One that is larger than `most` is not copied: what is returned is as long,
    /// and empty.
    pub(crate) fn read(&self, path: &str, most: u64) -> Result<File, BeneathError> {
        check_path(path)?;
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        let mut copy = tempfile::tempfile().map_err(failed)?;
        let (mut offset, mut size) = (0, None);
        loop {
            let bytes = PIECE;
            let request = FileRequest::Read {
                path,
                offset,
                bytes,
            };
            let (answer, piece) = self.send(path, request, &[])?;
            let size = *size.get_or_insert(answer.size);
            if size > most {
                copy.set_len(size).map_err(failed)?;
                return Ok(copy);
            }
            let mode = Permissions::from_mode(answer.mode & 0o777);
            copy.set_permissions(mode).map_err(failed)?;
            copy.write_all(&piece).map_err(failed)?;
            offset += piece.len() as u64;
            // What it had at first: it may grow as fast as it is read.
            if piece.len() < PIECE || offset >= size {
                copy.rewind().map_err(failed)?;
                return Ok(copy);
            }
        }
    }

    pub(crate) fn list(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), BeneathError> {
        let path = match path.trim_end_matches('/') {
            "" | "." => "",
            path => {
                check_path(path)?;
                path
            }
        };
        let answer = self.ask(path, FileRequest::List { path, limit })?;
        let entries = answer.entries.into_iter().take(limit);
        let entries = entries.filter(|(path, ..)| !path.is_empty() && path.len() <= LONGEST_PATH);
        let entry = |(path, kind, size)| Entry {
            path,
            kind: entry_kind(kind),
            size,
        };
        Ok((entries.map(entry).collect(), answer.more))
    }

    pub(crate) fn remove(&self, path: &str) -> Result<(), BeneathError> {
        check_path(path)?;
        self.ask(path, FileRequest::Remove { path }).map(drop)
    }

    pub(crate) fn remove_all(&self, path: &str) -> Result<(), BeneathError> {
        check_path(path)?;
        self.ask(path, FileRequest::RemoveAll { path }).map(drop)
    }

    pub(crate) fn stat(&self, path: &str) -> Result<FileStatus, BeneathError> {
        if !path.is_empty() {
            check_path(path)?;
        }
        let answer = self.ask(path, FileRequest::Stat { path })?;
        // Code in the session sets the time as it likes.
        let since = Duration::try_from_secs_f64(answer.modified).unwrap_or_default();
        let modified = SystemTime::UNIX_EPOCH.checked_add(since);
        Ok(FileStatus {
            kind: entry_kind(answer.kind),
            size: answer.size,
            mode: answer.mode & 0o7777,
            modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        })
    }

    pub(crate) fn read_link(&self, path: &str) -> Result<Option<String>, BeneathError> {
        check_path(path)?;
        let answer = self.ask(path, FileRequest::ReadLink { path })?;
        Ok(answer.target)
    }
}

fn entry_kind(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::File => EntryKind::File,
        FileKind::Directory => EntryKind::Directory,
        FileKind::Other => EntryKind::Other,
    }
}

/// Files on their way into a container.
#[derive(Debug)]
pub(crate) struct ContainerWriting<'a> {
    pub(crate) files: &'a ContainerFiles,
    /// The file of the host that parts are copied from.
    pub(crate) source: Option<&'a File>,
    pub(crate) reserve: u64,
    pub(crate) path: String,
}

impl ContainerWriting<'_> {
    pub(crate) fn directory(&mut self, path: &str) -> Result<(), BeneathError> {
        check_path(path)?;
        self.files
            .ask(path, FileRequest::Directory { path })
            .map(drop)
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), BeneathError> {
        check_path(from)?;
        check_path(to)?;
        let renamed = self.files.ask(from, FileRequest::Rename { from, to });
        renamed.map(drop).map_err(|error| match error {
            BeneathError::Exists(_) => BeneathError::Exists(to.to_owned()),
            error => error,
        })
    }

    /// Begins a file; [`Self::keep`] gives it its name.
    pub(crate) fn begin(&mut self, path: &str, executable: bool) -> Result<(), BeneathError> {
        check_path(path)?;
        path.clone_into(&mut self.path);
        let request = FileRequest::Begin { path, executable };
        self.files.ask(path, request).map(drop)
    }

    pub(crate) fn keep(&mut self) -> Result<(), BeneathError> {
        self.files.ask(&self.path, FileRequest::Keep).map(drop)
    }

    pub(crate) fn abandon(&mut self) {
        let _ = self.files.ask(&self.path, FileRequest::Abandon);
    }

    pub(crate) fn check_room(&mut self, bytes: u64) -> Result<(), BeneathError> {
        let limit = self.files.steward.memory_limit();
        let used = self.files.steward.in_use().memory_bytes.unwrap_or(0);
        if used.saturating_add(bytes).saturating_add(self.reserve) > limit {
            let path = self.path.clone();
            return Err(BeneathError::NoMemory { path, limit });
        }
        Ok(())
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) -> Result<(), BeneathError> {
        for piece in bytes.chunks(PIECE) {
            self.files.send(&self.path, FileRequest::Data, piece)?;
        }
        Ok(())
    }

    pub(crate) fn copy(&mut self, from: u64, bytes: u64) -> Result<(), BeneathError> {
        self.check_room(bytes)?;
        let failed = |source| BeneathError::Io {
            path: self.path.clone(),
            source,
        };
        let none = || failed(io::ErrorKind::InvalidInput.into());
        let source = self.source.ok_or_else(none)?;
        let (mut at, end) = (from, from + bytes);
        let mut piece = vec![0; PIECE];
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            source
                .read_exact_at(&mut piece[..length], at)
                .map_err(failed)?;
            self.files
                .send(&self.path, FileRequest::Data, &piece[..length])?;
            at += length as u64;
        }
        Ok(())
    }
}
