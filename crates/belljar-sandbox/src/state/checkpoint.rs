//! Checkpoints as a caller names and lists them.

use std::fmt;

/// A checkpoint of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The cell after which it was made; 0 before the first one.
    pub cell: u32,
    /// Its name, if it was made by [`Session::checkpoint`](crate::Session::checkpoint).
    pub name: Option<String>,
    /// Memory that it holds alone, and that would be freed with it (the kernel's private pages),
    /// without memory shared with the session or another checkpoint. `None` if the kernel doesn't
    /// report it.
    pub memory_bytes: Option<u64>,
}

/// A reference to a checkpoint: by cell or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointRef {
    /// The newest one that was made after this cell.
    Cell(u32),
    /// The one with this name.
    Name(String),
}

impl From<u32> for CheckpointRef {
    fn from(cell: u32) -> Self {
        Self::Cell(cell)
    }
}

impl From<&str> for CheckpointRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl fmt::Display for CheckpointRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(cell) => write!(f, "cell {cell}"),
            Self::Name(name) => write!(f, "`{name}`"),
        }
    }
}
