//! Errors of the host and of the caller. A failing cell is not an error but an [`Outcome`].
//!
//! [`Outcome`]: belljar_protocol::Outcome

use std::collections::BTreeMap;
use std::io;

use belljar_protocol::CallId;
use belljar_walls::{BeneathError, CgroupError, SetupError, StartError};

use crate::backend::container::error::ContainerError;
use crate::capabilities::Unsupported;
use crate::host_directory::DirectoryError;
use crate::session::archive_plan::ArchiveError;
use crate::session::packages::PackageError;
use crate::session::port_error::PortError;
use crate::session::table_error::TableError;
use crate::session::tools_error::ToolsError;
use crate::state::checkpoint::CheckpointRef;
use crate::state::snapshot::SnapshotError;
use crate::variables::VariableError;

/// A fault of the host or of the caller, never of the program in a cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Limits can't be enforced, so nothing runs.
    #[error(
        "this host cannot enforce the limits of a session: {0}\nhint: `belljar doctor` shows what is missing. An ordinary user needs cgroup version 2 and a systemd scope (`systemd-run --user --scope -p Delegate=yes …`); a container needs the settings in docs/operations.md"
    )]
    Cgroup(#[from] CgroupError),
    /// A process behind the walls could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The walls could not be raised, so nothing runs.
    #[error(
        "the walls could not be raised: {0}\nhint: `belljar doctor` shows what this host lacks"
    )]
    Walls(#[source] SetupError),
    /// The environment's Python did not become a template.
    #[error("the template of environment `{environment}` did not start: {why}")]
    Template {
        /// The environment.
        environment: String,
        /// The reason.
        why: String,
    },
    /// A session could not be started.
    #[error(
        "the session could not be started: {0}\nhint: `belljar doctor` checks whether this host has what sessions need"
    )]
    Session(#[source] SetupError),
    /// The session has ended, by its own crash or because it was closed.
    #[error("the session has ended ({0})\nhint: start a new session")]
    Ended(String),
    /// The session is running another cell, and the caller asked not to wait.
    #[error("the session is busy with another cell\nhint: wait for the cell, or interrupt it")]
    Busy,
    /// The session has no such checkpoint.
    #[error("no such checkpoint: {0}\nhint: list the checkpoints of the session")]
    NoCheckpoint(CheckpointRef),
    /// The snapshot of a session is in a store that this engine does not have.
    #[error("the snapshot of the session is in a store, and this engine has none")]
    NoSnapshotStore,
    /// The session has the maximum number of named checkpoints.
    #[error(
        "the session already has {limit} named checkpoints, the maximum\nhint: reuse one of their names, or forget one"
    )]
    TooManyCheckpoints {
        /// The limit.
        limit: usize,
    },
    /// The session has no such namespace.
    #[error("no such namespace: `{0}`\nhint: list the namespaces of the session")]
    NoNamespace(String),
    /// The name or directory of a new namespace is invalid.
    #[error("the namespace is invalid: {0}")]
    InvalidNamespace(&'static str),
    /// A namespace can't be created or removed.
    #[error("the namespace is refused: {0}")]
    Namespace(String),
    /// The checkpoint could not be made. The session continues unchanged.
    #[error("the checkpoint could not be made: {0}")]
    NotCheckpointed(String),
    /// The session could not be forked.
    #[error("the session could not be forked: {0}")]
    Fork(String),
    /// The session's backend can't do this. See [`Engine::capabilities`](crate::Engine::capabilities).
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The session could not be hibernated. It continues unchanged.
    #[error("the session cannot hibernate: {0}")]
    NotHibernated(&'static str),
    /// The session is hibernated, so its files are out of reach.
    #[error("the session is hibernated, and its files with it\nhint: wake the session first")]
    Hibernated,
    /// The session was or is being [detached](crate::Session::detach): another engine continues it.
    #[error(
        "the session is detached from this engine\nhint: attach it to an engine, and retry there"
    )]
    Detached,
    /// The tools of a session can't be granted to it.
    #[error("the tools cannot be granted: {0}")]
    Tools(#[source] Box<ToolsError>),
    /// No cell waits for an answer to this call.
    #[error("no cell waits for an answer to call {call}: it was answered, cancelled or never made")]
    NoCall {
        /// The call.
        call: CallId,
    },
    /// An answer to a question is too long.
    #[error("the answer is longer than {limit} bytes")]
    InputTooLong {
        /// The most bytes.
        limit: usize,
    },
    /// The session was forked during a call, and still waits in that call.
    #[error(
        "the fork waits in the call during which it was made\nhint: `resume` it with an answer"
    )]
    Waiting,
    /// The session did not answer a request about its state.
    #[error("the session did not answer in time")]
    Unresponsive,
    /// The cell is too long.
    #[error("the cell is too large: {bytes} bytes, at most {limit}")]
    CellTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An environment variable or a secret is refused.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// Some names could not be seeded.
    #[error("names could not be bound: {}", list(.0))]
    Seed(BTreeMap<String, String>),
    /// A directory of the host can't be shown.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A command could not be started, or does not take what it was sent.
    #[error("the command could not be run: {0}")]
    Command(String),
    /// A port of the session could not be reached.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A table of the session could not be read. The session continues unchanged.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file of the workspace could not be reached.
    #[error(transparent)]
    File(#[from] BeneathError),
    /// A container could not be had.
    #[error(transparent)]
    Container(Box<ContainerError>),
    /// An archive can't be unpacked, or a directory not be packed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file is over the limit for transfers.
    #[error("`{path}` is too large: {bytes} bytes, at most {limit} can be transferred")]
    FileTooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The session has the maximum number of watches.
    #[error("the session already has {limit} watches, the maximum\nhint: end one of them")]
    TooManyWatches {
        /// The limit.
        limit: usize,
    },
    /// Packages were not installed. The session continues unchanged.
    #[error(transparent)]
    Packages(#[from] PackageError),
    /// A snapshot can't be loaded.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The operating system refused something the engine needs.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// A session that could not be started, in the words of another process or library.
    pub(crate) fn session(why: impl Into<Box<dyn std::error::Error>>) -> Self {
        Self::Session(SetupError::Reported(why.into().to_string()))
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl From<ContainerError> for Error {
    fn from(error: ContainerError) -> Self {
        Self::Container(Box::new(error))
    }
}

impl From<ToolsError> for Error {
    fn from(error: ToolsError) -> Self {
        Self::Tools(Box::new(error))
    }
}

fn list(refused: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = refused
        .iter()
        .map(|(name, why)| format!("`{name}` ({why})"))
        .collect();
    parts.join(", ")
}
