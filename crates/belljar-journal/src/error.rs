//! Errors of the journal.

use std::io;
use std::path::{Path, PathBuf};

use crate::{BlobHash, RunId, StorageFault};

/// A fault of the journal, of the machine below it, or of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The journal's path is not a directory.
    #[error("`{0}` is not a directory\nhint: the journal needs a directory of its own")]
    NotADirectory(PathBuf),
    /// The disk is full. Nothing of the failed write is left.
    #[error("`{0}` cannot be written: the disk is full\nhint: free some space and try again")]
    DiskFull(PathBuf),
    /// Another process has locked the database for too long.
    #[error(
        "the journal `{0}` is locked: another process has been writing to it for seconds\nhint: try again, or stop that process"
    )]
    Locked(PathBuf),
    /// The file is damaged, or was never a journal.
    #[error("the journal `{path}` is damaged: {why}\nhint: restore it from a backup")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What was noticed.
        why: String,
    },
    /// The journal was written by a later version of the program.
    #[error(
        "the journal `{path}` was made by a newer Belljar: its schema has version {found}, this Belljar supports up to {known}\nhint: update Belljar"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest supported version.
        known: i64,
    },
    /// There is no such run.
    #[error("there is no run `{0}`")]
    UnknownRun(RunId),
    /// There is no such blob.
    #[error("there is no blob `{0}`")]
    UnknownBlob(BlobHash),
    /// The file of a blob has other contents than its name says.
    #[error("the blob `{0}` is damaged\nhint: restore it from a backup")]
    CorruptBlob(BlobHash),
    /// A blob exceeds the limit of this store.
    #[error("the blob is too large: {bytes} bytes, at most {limit}")]
    BlobTooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Another fault of the file system.
    #[error("`{path}`: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another fault of the database.
    #[error("the journal `{path}` cannot be used: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// Its error.
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
    /// Another writer has appended to the run: the caller's view of it is outdated.
    #[error(
        "the run has {actual} events, but {expected} were expected: another process writes to it"
    )]
    Conflict {
        /// The last sequence number that the caller knew.
        expected: u64,
        /// The actual last one.
        actual: u64,
    },
    /// An event is too large.
    #[error(
        "the event is too large: {bytes} bytes, at most {limit}\nhint: put large values into blobs"
    )]
    EventTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The journal failed. If the disk itself fails at the very end, it is unknown whether the
    /// events are there: read the last sequence number before retrying.
    #[error(transparent)]
    Journal(#[from] Error),
}
