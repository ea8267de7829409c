//! Directories of the host that sessions can see.

use std::path::{Path, PathBuf};

use belljar_walls::SetupError;

/// The most directories of the host in a session.
pub const MAX_MOUNTS: usize = 16;

/// The longest name of a directory.
const NAME_BYTES: usize = 64;

/// A directory of the host, for [`EngineBuilder::mount`](crate::EngineBuilder::mount).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDirectory {
    name: String,
    path: PathBuf,
    writable: bool,
}

/// Why a directory of the host can't be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The name is not one.
    #[error(
        "`{0}` cannot be the name of a directory\nhint: use up to 64 letters, digits, `-`, `_` and `.`, and no `.` at the beginning"
    )]
    Name(String),
    /// The path is not that of a directory.
    #[error("the directory `{path}` cannot be shown: {why}")]
    Path {
        /// The path.
        path: String,
        /// What the host says.
        why: String,
    },
    /// The engine has no directory of this name.
    #[error("no directory named `{0}` is offered")]
    Unknown(String),
    /// There are too many.
    #[error("a session can have at most {} directories of the host", MAX_MOUNTS)]
    TooMany,
    /// It could not be mounted.
    #[error("the directory `{name}` cannot be mounted: {why}")]
    NotMounted {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        why: Box<SetupError>,
    },
}

impl HostDirectory {
    /// This directory, which sessions see read-only as `/data/NAME`.
    ///
    /// # Errors
    /// If the name is none, or there is no such directory.
    pub fn new(name: impl Into<String>, path: &Path) -> Result<Self, DirectoryError> {
        let name = name.into();
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty()
            || name.len() > NAME_BYTES
            || name.starts_with('.')
            || !name.chars().all(known)
        {
            return Err(DirectoryError::Name(name));
        }
        let not = |why: String| DirectoryError::Path {
            path: path.display().to_string(),
            why,
        };
        let path = path
            .canonicalize()
            .map_err(|error| not(error.to_string()))?;
        if !path.is_dir() {
            return Err(not("it is not a directory".into()));
        }
        Ok(Self {
            name,
            path,
            writable: false,
        })
    }

    /// Lets sessions write it, too. What they create belongs to the directory's owner.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether sessions can write it.
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}
