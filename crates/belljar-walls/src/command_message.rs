//! Messages between the host and a session's command server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The longest [`CommandSpec`], in bytes of JSON.
pub const MAX_SPEC: usize = 1 << 20;

/// A request for a command server. The message carries its end of a channel to the host, the
/// namespaces of the session as [`InitEvent::Namespaces`](crate::InitEvent) has them, and what it
/// joins the session's cgroups by.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandServerRequest {
    /// The fork slot, if the session is a fork.
    pub slot: Option<PathBuf>,
    /// Whether commands are under the filters: seccomp and Landlock.
    pub filters: bool,
    /// Limits of each process.
    pub limits: ProcessLimits,
}

/// Limits that the kernel keeps for each process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// With 1, and no other number, the kernel writes no core dump and starts no program of the
    /// host for it either.
    pub core: u64,
    /// Queued signals and timers, which are counted for the host's user too.
    pub signals: u64,
    /// Open files.
    pub open_files: u64,
    /// Size of a file.
    pub file_size: u64,
    /// Private writable memory.
    pub data: u64,
    /// Processes of the user.
    pub processes: u64,
}

/// Requests of the host to a command server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum CommandRequest {
    /// Prepare the process of a command. The message carries its end of a stream socket. On this the
    /// process waits for its [`CommandSpec`], as JSON after four bytes for its length, with
    /// descriptors: its terminal, or standard output and standard error and, if it has one, standard
    /// input. It writes [`BEGUN`] before it becomes its program, and text if it could not.
    Prepare {
        /// The host's number for it.
        id: u64,
        /// Whether it will have a terminal.
        terminal: bool,
    },
    /// Send a signal to the process group of a command.
    Signal {
        /// The group.
        group: i32,
        /// The signal's number.
        signal: i32,
    },
}

/// What the process of a command writes before it becomes its program.
pub const BEGUN: u8 = 0;

/// What a command is. It does not pass through the memory of the command server, which other commands
/// are copies of: it may hold secrets.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Program and arguments. A program without a slash is looked up in `PATH`.
    pub argv: Vec<String>,
    /// Its whole environment, as `NAME=value`.
    pub environment: Vec<String>,
    /// Where it starts.
    pub directory: PathBuf,
}

/// Reports of a command server. Processes have their ids in the session's pid namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CommandEvent {
    /// It is ready.
    Ready,
    /// It could not be started.
    Failed {
        /// Which step failed, and how.
        error: String,
    },
    /// The process of a command is ready. Carries the process.
    Prepared {
        /// The host's number for it.
        id: u64,
        /// The process.
        pid: i32,
        /// Its process group.
        group: i32,
    },
    /// The process of a command could not be made.
    NotPrepared {
        /// The host's number for it.
        id: u64,
        /// Why.
        error: String,
    },
    /// A process has ended: a command, or what one left behind.
    Exited {
        /// The process.
        pid: i32,
        /// Its raw wait status.
        status: i32,
    },
}
