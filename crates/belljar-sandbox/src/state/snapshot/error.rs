//! Why a snapshot can't be loaded.

use std::io;

/// Why a snapshot can't be loaded. Its variables were not opened then, and no session is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file is something else.
    #[error("this file is not a snapshot")]
    NotASnapshot,
    /// It has a format that this version does not support.
    #[error("the snapshot has format {0}, which this version of Belljar does not support")]
    Version(u32),
    /// It was changed after it was written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    /// Pickles of code are only good for the same minor version of Python.
    #[error(
        "the snapshot was made by Python {}.{}, but this environment has Python {}.{}\nhint: load it in an environment with the same Python version",
        .snapshot.0, .snapshot.1, .here.0, .here.1
    )]
    Python {
        /// The version that wrote it.
        snapshot: (u8, u8, u8),
        /// The version of the engine's environment.
        here: (u8, u8, u8),
    },
    /// Values of a hibernated session are only good for the packages that made them.
    #[error(
        "the session was saved with other packages: {}\nhint: use the environment that it was saved with, or load its snapshot into a new session",
        .0.join(", ")
    )]
    Packages(Vec<String>),
    /// The new session died, or did not answer, while it loaded the variables.
    #[error("the session ended while it loaded the snapshot: {0}")]
    Lost(String),
    /// It could not be read.
    #[error("the snapshot cannot be read: {0}")]
    Io(#[from] io::Error),
}
