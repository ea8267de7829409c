//! What can go wrong on our side. What goes wrong in a cell is an [`Outcome`].
//!
//! [`Outcome`]: belljar_protocol::Outcome

use std::collections::BTreeMap;
use std::io;

use belljar_protocol::CallId;
use belljar_walls::{BeneathError, CgroupError, StartError};

use crate::checkpoints::CheckpointRef;
use crate::packages::PackageError;
use crate::snapshot::SnapshotError;

/// A fault of the host or of the caller, never of the program in a cell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Limits can't be enforced, so nothing runs.
    #[error(
        "this host can't limit what a session uses: {0}\nhint: `belljar doctor` says what is missing here. An ordinary user needs cgroup version 2 and a scope of systemd (`systemd-run --user --scope -p Delegate=yes …`); a container needs the settings in docs/operations.md"
    )]
    Cgroup(#[from] CgroupError),
    /// A process behind the walls could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The walls could not be raised, so nothing runs.
    #[error(
        "the walls could not be raised: {0}\nhint: `belljar doctor` tells what this host lacks"
    )]
    Walls(String),
    /// The environment's Python did not become a template.
    #[error("the template of environment `{environment}` did not start: {why}")]
    Template {
        /// The environment.
        environment: String,
        /// What it said.
        why: String,
    },
    /// A session could not be started.
    #[error(
        "the session could not be started: {0}\nhint: `belljar doctor` tells whether this host has what sessions need"
    )]
    Session(String),
    /// The session has ended, by its own crash or because it was closed.
    #[error("the session has ended ({0}); start a new one")]
    Ended(String),
    /// The session is running another cell, and the caller asked not to wait.
    #[error("the session is busy with another cell; wait for it, or interrupt it")]
    Busy,
    /// No such copy of the session's state is kept.
    #[error("no copy is kept {0}; `checkpoints()` lists those that are")]
    NoCheckpoint(CheckpointRef),
    /// The session keeps as many named copies as it may.
    #[error(
        "the session keeps {limit} named copies already; use one of their names again, or `forget` one"
    )]
    TooManyCheckpoints {
        /// The limit.
        limit: usize,
    },
    /// The session could not be copied. It goes on as it is.
    #[error("no copy of the session could be made: {0}")]
    NotCheckpointed(String),
    /// The session could not be forked.
    #[error("the session could not be forked: {0}")]
    Fork(String),
    /// The session could not be put to sleep. It goes on as it is.
    #[error("the session does not sleep: {0}")]
    NotHibernated(&'static str),
    /// The session sleeps, and its files with it.
    #[error("the session sleeps; `wake` it to reach its files")]
    Hibernated,
    /// The tools of a session can't be offered to it.
    #[error("these tools can't be granted: {0}")]
    Tools(String),
    /// No cell waits for an answer to this call.
    #[error(
        "no cell waits for the answer to call {call}: it was answered or cancelled, or never made"
    )]
    NoCall {
        /// The call.
        call: CallId,
    },
    /// The session is a fork that was made at a call, and waits there.
    #[error("the fork waits in the call that it was made at; `resume` it with an answer")]
    Waiting,
    /// The session did not answer a question about its state.
    #[error("the session did not answer in time")]
    Unresponsive,
    /// The cell is too long.
    #[error("the cell has {bytes} bytes; at most {limit} can be run at once")]
    CellTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Some names could not be seeded.
    #[error("these names could not be bound: {}", list(.0))]
    Seed(BTreeMap<String, String>),
    /// A file of the workspace could not be reached.
    #[error(transparent)]
    File(#[from] BeneathError),
    /// A file is over the limit for transfers.
    #[error("`{path}` has {bytes} bytes; at most {limit} can be transferred")]
    FileTooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Packages were not installed. The session goes on as it is.
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
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

fn list(refused: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = refused
        .iter()
        .map(|(name, why)| format!("`{name}` ({why})"))
        .collect();
    parts.join(", ")
}
