//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

use crate::{BlobHash, RunId, StorageFault};

/// A fault of the journal, of the machine below it, or of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal's place is taken by something that is no directory.
    #[error("`{0}` is not a directory; the journal needs one of its own")]
    NotADirectory(PathBuf),
    /// There is no room left. Nothing of what was being written is there.
    #[error(
        "the disk is full: nothing more can be written to `{0}`; free some space and try again"
    )]
    DiskFull(PathBuf),
    /// Another process kept the database for too long.
    #[error(
        "the journal `{0}` is locked: another process has been writing to it for seconds; try again, or end that process"
    )]
    Locked(PathBuf),
    /// The file is damaged, or was never a journal.
    #[error("the journal `{path}` is damaged: {why}; restore it from a backup")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What was noticed.
        why: String,
    },
    /// The journal was written by a later version of the program.
    #[error(
        "the journal `{path}` was made by a newer Belljar (its schema is version {found}, this one knows up to {known}); use that one"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    UnknownRun(RunId),
    /// There is no such blob.
    #[error("there is no blob `{0}`")]
    UnknownBlob(BlobHash),
    /// The file of a blob has other contents than its name says.
    #[error("the blob `{0}` is damaged; restore it from a backup")]
    CorruptBlob(BlobHash),
    /// A blob is larger than this store takes.
    #[error("a blob of {bytes} bytes is too large; at most {limit} are kept")]
    BlobTooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// Another fault of the file system.
    #[error("`{path}`: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another fault of the database.
    #[error("the journal `{path}` could not be used: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// What it said.
        source: sqlx::Error,
    },
}

impl Error {
    /// The fault of the storage that this is, if it is one: the same may succeed later.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        match self {
            Self::DiskFull(_) => Some(StorageFault::Full),
            Self::Locked(_) => Some(StorageFault::Failed),
            Self::Io { source, .. } => StorageFault::from_io(source),
            Self::Database { source, .. } => StorageFault::from_database(source),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull(path.to_owned())
            }
            io::ErrorKind::NotADirectory => Self::NotADirectory(path.to_owned()),
            _ => Self::Io {
                path: path.to_owned(),
                source,
            },
        }
    }
}

/// Why events were not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Someone else has appended to the run: the caller's view of it is old.
    #[error(
        "the run has {actual} events where {expected} were expected: someone else writes to it"
    )]
    Conflict {
        /// The last sequence number that the caller knew.
        expected: u64,
        /// The last one that there is.
        actual: u64,
    },
    /// An event is too large.
    #[error(
        "an event of {bytes} bytes is too large, at most {limit} are kept; put large values into blobs"
    )]
    EventTooLarge {
        /// Its size.
        bytes: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// The journal could not do it. When the disk itself fails at the very end, nobody can say
    /// whether the events are there: ask for the last sequence number before trying again.
    #[error(transparent)]
    Journal(#[from] Error),
}
