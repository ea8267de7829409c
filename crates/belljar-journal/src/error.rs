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
    /// The address of a database is not valid.
    #[error(
        "the address of the database is not valid: {0}\nhint: postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    InvalidDatabase(String),
    /// The database server can't be reached, or can't serve now. The same may succeed later.
    #[error(
        "the database `{path}` cannot be reached: {source}\nhint: try again, or see whether its server runs"
    )]
    Unreachable {
        /// The database, without its password.
        path: PathBuf,
        /// The error.
        source: sqlx::Error,
    },
    /// The database is not one that can have a journal.
    #[error("the database `{path}` cannot have a journal: {why}")]
    Unsuitable {
        /// The database, without its password.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A node or a run of a cluster can't be as described.
    #[error("not possible in a cluster: {0}")]
    Invalid(String),
    /// The life of this node is over: other nodes have declared it dead, and drive its runs.
    #[error("this node was declared dead: it must join the cluster again")]
    LifeOver,
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
    /// The address of an object store is not valid.
    #[error(
        "the address of the object store is not valid: {0}\nhint: s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION"
    )]
    InvalidObjects(String),
    /// There are no credentials for an object store.
    #[error(
        "there are no credentials for the object store: {0}\nhint: set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_SHARED_CREDENTIALS_FILE`"
    )]
    ObjectCredentials(String),
    /// An object store can't be reached, or can't serve now. The same may succeed later.
    #[error(
        "the object store `{store}` cannot be reached: {why}\nhint: try again, or see whether it runs"
    )]
    ObjectsUnreachable {
        /// Its endpoint and bucket.
        store: String,
        /// The reason.
        why: String,
    },
    /// An object store refuses what this program needs.
    #[error(
        "the object store `{store}` cannot be used: {why}\nhint: check the bucket, and whether its credentials permit to write, read, list and delete"
    )]
    ObjectsRefused {
        /// Its endpoint and bucket.
        store: String,
        /// The reason.
        why: String,
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
            Self::Locked(_)
            | Self::Unreachable { .. }
            | Self::ObjectsUnreachable { .. }
            | Self::ObjectsRefused { .. } => Some(StorageFault::Failed),
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
    /// The run has another owner: nothing of this writer is accepted any more.
    #[error("the run has another owner, which has taken it over")]
    Fenced,
    /// The database has lost acknowledged events of the run.
    #[error(
        "the database has {actual} events of the run, but had {known}: it was restored, or failed over to a replica \
        that was behind"
    )]
    Rewound {
        /// The last sequence number that was acknowledged.
        known: u64,
        /// The last one now.
        actual: u64,
    },
    /// This node has not reached the database for most of its lease: until it does, it must not act for its runs.
    #[error("the lease of this node has expired: it has not reached the database in time")]
    LeaseExpired,
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
    /// The journal failed. If the disk fails at the very end, or the connection to a database is
    /// lost, it is unknown whether the events are there: read the last sequence number before
    /// retrying.
    #[error(transparent)]
    Journal(#[from] Error),
}
