//! Messages between the host, the spawner and the inits.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::command_message::CommandServerRequest;

/// The user and group that code in a session sees itself as.
pub const GUEST_ID: u32 = 1000;

/// The address of the host's proxy inside a session, if its policy allows one.
pub const PROXY_PORT: u16 = 3128;

/// Requests of the host to the spawner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Start a template; the message carries its end of a channel to the host, its log, and the
    /// descriptor by which it joins its own share of the CPUs, if it has one.
    Template {
        /// Program and arguments.
        argv: Vec<String>,
        /// Its whole environment, as `NAME=value`.
        environment: Vec<String>,
    },
    /// Start a session's init; on a privileged host the message carries its directories of the host, opened.
    Init(InitRequest),
    /// Start a process that writes files into a workspace; the message carries its end of a stream
    /// socket, the workspace, a file to copy from if there is one and, where there are walls, what
    /// it joins the session's memory by.
    Writer {
        /// Whether there is a file to copy from.
        source: bool,
    },
    /// Make a fork slot; the message carries the mount namespace of the fork.
    ForkSlot(ForkSlotRequest),
    /// Remove a fork slot, or the workspace in it; carries the mount namespace, too.
    ReleaseSlot {
        /// Where it is.
        path: PathBuf,
    },
    /// Start the command server of a session; see [`CommandServerRequest`] for what the message
    /// carries.
    CommandServer(CommandServerRequest),
    /// A ping.
    Ping,
}

/// The most forks that live at once in the namespaces of one session.
pub const MOST_FORKS: u32 = 63;

/// The directory of the fork slots of a session: a directory for each, under its number.
pub(crate) const FORKS: &str = "/forks";

/// A request for a fork slot.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForkSlotRequest {
    /// The fork.
    pub id: u64,
    /// Where it is: see [`slot_path`](crate::slot_path).
    pub slot: PathBuf,
    /// Owner of its files, as an id of the spawner's user namespace.
    pub owner: u32,
    /// Size of its workspace.
    pub workspace_bytes: u64,
    /// Files and directories in it.
    pub inodes: u64,
}

/// A request for an init.
#[derive(Debug, Serialize, Deserialize)]
pub struct InitRequest {
    /// The session.
    pub id: u64,
    /// Owner of the session's files and processes, as an id of the spawner's user namespace.
    pub owner: u32,
    /// Size of the workspace.
    pub workspace_bytes: u64,
    /// Size of `/tmp` and of `/dev/shm`, each.
    pub temporary_bytes: u64,
    /// Files and directories in each of the three.
    pub inodes: u64,
    /// Whether the host will answer on [`PROXY_PORT`] of the session's loopback.
    pub proxy: bool,
    /// The directories of the host that it sees.
    pub directories: Vec<DirectoryMount>,
}

/// A directory of the host in a session.
#[derive(Debug, Serialize, Deserialize)]
pub struct DirectoryMount {
    /// Its number in [`RootSpec::directories`](crate::RootSpec), where it is not opened by the host.
    pub number: usize,
    /// Its name below [`DIRECTORIES`](crate::DIRECTORIES).
    pub name: String,
    /// Whether the session can write it.
    pub writable: bool,
}

/// Requests of the host to an init. Processes have their ids in the session's pid namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum InitTask {
    /// Report how a process ends.
    Watch {
        /// The process.
        pid: i32,
    },
    /// Move a process into cgroups; the message carries their files `cgroup.procs`.
    Move {
        /// The process.
        pid: i32,
    },
    /// Send the session's namespaces.
    Namespaces,
    /// Send the session's `/tmp`, on the channel that the message carries: who asks may be no task.
    Temporary,
    /// Send a TCP socket of the session's network namespace, not connected, on the channel that the message carries.
    Socket,
}

/// Reports of an init.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum InitEvent {
    /// A watched process has ended.
    Exited {
        /// The process.
        pid: i32,
        /// Its raw wait status.
        status: i32,
    },
    /// A process was moved, or could not be.
    Moved {
        /// The process.
        pid: i32,
        /// Why it could not.
        error: Option<String>,
    },
    /// The session's namespaces: carries pid, user, mount, net, ipc, uts. None if they can't be opened.
    Namespaces,
    /// The session's `/tmp`: carries it, or nothing if it can't be opened.
    Temporary,
    /// A socket: carries it, or nothing if it can't be made.
    Socket,
}

/// Reports of the spawner and the inits to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Report {
    /// The spawner is ready.
    Up,
    /// The walls could not be raised.
    Failed {
        /// Which step failed, and how.
        error: String,
    },
    /// A template was started; carries its process.
    Template,
    /// The answer to a ping.
    Pong,
    /// An init is ready; carries init, the workspace, a channel for [`InitTask`], the namespaces
    /// pid, user, mount, net, ipc, uts, the Landlock rules, and the proxy's listener if one was
    /// requested. Or a fork slot is ready; carries the workspace and the Landlock rules.
    Init {
        /// The session.
        id: u64,
    },
    /// An init could not prepare its session, or a fork slot could not be made.
    InitFailed {
        /// The session.
        id: u64,
        /// Which step failed, and how.
        error: String,
    },
    /// An init has ended, and with it all processes of its session.
    InitExited {
        /// The session.
        id: u64,
    },
    /// A process that nobody else waits for has ended: a session's interpreter whose template is
    /// gone, or the template itself.
    Exited {
        /// Its id in the outer pid namespace.
        pid: i32,
        /// Its raw wait status.
        status: i32,
    },
}
