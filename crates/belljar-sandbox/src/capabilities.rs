//! What a backend can do.

use std::fmt;

use belljar_protocol::Walls;

/// Something that not every backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Checkpoints of a live session, and restoring them.
    Checkpoints,
    /// Forks of a live session.
    Forks,
    /// Access to the hosts of an allow-list, and to nothing else of the network.
    AllowLists,
    /// Limits on memory, CPUs and processes, and the session's use of them.
    ResourceLimits,
    /// Commands: programs beside the cells.
    Commands,
    /// Directories of the host.
    Directories,
    /// Connections to ports of the session.
    Ports,
    /// Packages that are installed in a live session.
    Packages,
    /// Reports of changes in a directory of the session.
    Watches,
    /// The exact peak of memory of each cell, instead of samples of its use.
    ExactPeak,
}

impl Capability {
    /// Its name, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoints => "checkpoints",
            Self::Forks => "forks",
            Self::AllowLists => "allow_lists",
            Self::ResourceLimits => "resource_limits",
            Self::Commands => "commands",
            Self::Directories => "directories",
            Self::Ports => "ports",
            Self::Packages => "packages",
            Self::Watches => "watches",
            Self::ExactPeak => "exact_peak",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Checkpoints => "checkpoints",
            Self::Forks => "forks",
            Self::AllowLists => "allow-lists of hosts",
            Self::Commands => "commands",
            Self::Directories => "directories of the host",
            Self::Ports => "ports",
            Self::Packages => "packages that are installed in a session",
            Self::Watches => "watching a directory",
            Self::ResourceLimits => "limits on memory, CPUs and processes",
            Self::ExactPeak => "the exact peak of memory",
        })
    }
}

/// The refusal of something that the session's backend can't do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the session's backend does not support {0}\nhint: use a session with the walls of this host"
)]
pub struct Unsupported(pub Capability);

/// What the backend of an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(&'static [Capability]);

impl Capabilities {
    /// The capabilities of a backend with these walls.
    pub(crate) const fn new(walls: Walls) -> Self {
        Self(match walls {
            Walls::Full | Walls::Unfiltered => &[
                Capability::Checkpoints,
                Capability::Forks,
                Capability::AllowLists,
                Capability::ResourceLimits,
                Capability::Commands,
                Capability::Directories,
                Capability::Ports,
                Capability::Packages,
                Capability::Watches,
                Capability::ExactPeak,
            ],
            Walls::Container => &[Capability::Checkpoints, Capability::ResourceLimits],
            Walls::Gvisor => &[
                Capability::Checkpoints,
                Capability::ResourceLimits,
                Capability::ExactPeak,
            ],
            Walls::None => &[Capability::Packages, Capability::Watches],
        })
    }

    /// Whether it can do this.
    pub fn has(self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// All that it can do.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        self.0.iter().copied()
    }

    /// Refuses what it can't do.
    pub(crate) fn require(self, capability: Capability) -> Result<(), Unsupported> {
        if self.has(capability) {
            Ok(())
        } else {
            Err(Unsupported(capability))
        }
    }
}
