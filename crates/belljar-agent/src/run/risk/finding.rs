//! What is found in the code of a cell: a capability, and where it shows.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The minor version of Python whose modules are known.
pub(super) const NEWEST: u8 = 14;

/// The most characters of a literal that a finding shows, and of a path.
pub(super) const SHOWN: usize = 60;

/// A capability of code.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// It reads or lists files.
    FilesRead,
    /// It creates or changes files.
    FilesWritten,
    /// It uses the network.
    Network,
    /// It starts processes or sends signals to them.
    Processes,
    /// It deletes files or their contents.
    Deletions,
    /// It installs packages.
    Installs,
    /// Its effects can't be seen from its code.
    Unknown,
}

impl Capability {
    /// Whether the policy `risky` asks for it.
    pub fn is_risky(self) -> bool {
        !matches!(self, Self::FilesRead | Self::FilesWritten)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FilesRead => "files_read",
            Self::FilesWritten => "files_written",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Deletions => "deletions",
            Self::Installs => "installs",
            Self::Unknown => "unknown",
        })
    }
}

/// A place in the code that shows a capability.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Finding {
    /// The line, counted from 1 by line feeds.
    pub line: u32,
    /// The capability.
    pub capability: Capability,
    /// The code there: the function by its full name, and the text that it is given.
    pub what: String,
}
