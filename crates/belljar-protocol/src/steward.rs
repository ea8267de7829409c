//! Messages between the host and a steward: our process 1 inside a container.
//!
//! They travel as frames over one byte stream. The steward is ours, but it runs beside hostile code, in an image of
//! somebody else: the host bounds and checks all that it says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::frame::FrameLimits;

/// The version of these messages.
pub const STEWARD_VERSION: u32 = 1;

/// What the host reads from a steward at most.
pub const STEWARD_LIMITS: FrameLimits = FrameLimits {
    header: 8 << 20,
    blob: 1 << 20,
};

/// How many bytes of a session may be on their way in one direction.
pub const STEWARD_WINDOW: usize = 1 << 20;

/// What the host says to a steward.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToSteward<'a> {
    /// The first frame, before the steward itself is there: the files that follow as the blob, with their sizes.
    Files {
        /// Path and size.
        files: Vec<(&'a str, usize)>,
    },
    /// The first message: answered by [`FromSteward::Attest`].
    Hello {
        /// [`STEWARD_VERSION`].
        version: u32,
        /// It ends if it hears nothing for so long.
        silence_s: Option<u32>,
        /// Which of these modules are installed, and all packages, are part of the answer.
        modules: Option<&'a [String]>,
    },
    /// Import modules: answered by [`FromSteward::Warm`].
    Warm {
        /// The modules.
        preload: &'a [String],
        /// Font files for plots.
        fonts: &'a [std::path::PathBuf],
    },
    /// Make a session of the process that imported them: answered by [`FromSteward::Started`].
    Start {
        /// The user of the session.
        uid: u32,
        /// Its group.
        gid: u32,
        /// The limits of each process; those without a number are not set.
        limits: StewardLimits,
        /// When checkpoints are made.
        checkpoints: &'a str,
        /// Whether system calls are filtered.
        filters: bool,
        /// Environment variables.
        variables: BTreeMap<&'a str, &'a str>,
    },
    /// Bytes for the session.
    Control,
    /// Interrupt the session's cell.
    Interrupt {
        /// The cell.
        cell: u32,
    },
    /// Signal a process.
    Signal {
        /// Its id in the container.
        pid: i32,
        /// The signal.
        signal: StewardSignal,
    },
    /// Report the end of a process.
    Watch {
        /// Its id in the container.
        pid: i32,
    },
    /// End all other processes of the session: answered by [`FromSteward::Cleared`].
    EndAllBut {
        /// Those that stay.
        pids: &'a [i32],
    },
    /// Something with files: answered by [`FromSteward::File`].
    File {
        /// Number of the request.
        id: u64,
        /// `/workspace` or `/tmp`.
        root: &'a str,
        /// What to do.
        #[serde(flatten)]
        request: FileRequest<'a>,
    },
    /// Report the use of resources, or stop to report it.
    Measure {
        /// Whether to report it.
        on: bool,
    },
    /// So many bytes of the session's output were taken.
    Credit {
        /// The bytes.
        bytes: usize,
    },
    /// Nothing, to be heard.
    Alive,
}

/// A signal to a process of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StewardSignal {
    /// It is killed.
    Kill,
    /// A checkpoint becomes the session.
    Wake,
}

/// Limits of each process of a session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StewardLimits {
    /// Core dumps.
    pub core: Option<u64>,
    /// Queued signals.
    pub signals: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Size of a file.
    pub file_size: Option<u64>,
    /// Private writable memory.
    pub data: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
    /// Memory that a process may map beside what it has at its start, where the kernel does not keep the limit on private
    /// writable memory: gVisor's does not.
    pub growth: Option<u64>,
}

/// A request about files of a session. Paths are relative to its root.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FileRequest<'a> {
    /// All that is beneath a directory.
    List {
        /// The directory.
        path: &'a str,
        /// The most entries.
        limit: usize,
    },
    /// What is known of a file.
    Stat {
        /// The path.
        path: &'a str,
    },
    /// Where a link leads.
    ReadLink {
        /// The path.
        path: &'a str,
    },
    /// A part of a file.
    Read {
        /// The path.
        path: &'a str,
        /// Where it begins.
        offset: u64,
        /// The most bytes.
        bytes: usize,
    },
    /// Remove a file, a link or an empty directory.
    Remove {
        /// The path.
        path: &'a str,
    },
    /// Remove a directory with all that is in it.
    RemoveAll {
        /// The path.
        path: &'a str,
    },
    /// Make a directory and its parents.
    Directory {
        /// The path.
        path: &'a str,
    },
    /// Give a file another name.
    Rename {
        /// The name it has.
        from: &'a str,
        /// The name it gets.
        to: &'a str,
    },
    /// Begin a file.
    Begin {
        /// The path.
        path: &'a str,
        /// Whether it can be executed.
        executable: bool,
    },
    /// Add the blob to the file that was begun.
    Data,
    /// Give the file that was begun its name.
    Keep,
    /// Remove the file that was begun.
    Abandon,
}

/// What a steward says.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromSteward {
    /// What it found of the container.
    Attest(Box<Attest>),
    /// The modules are imported.
    Warm {
        /// Threads of the process that imported them.
        threads: u32,
        /// Its private writable memory.
        data_bytes: u64,
        /// Modules that could not be imported, and why.
        failed: BTreeMap<String, String>,
    },
    /// The session has begun.
    Started {
        /// Its process in the container.
        pid: i32,
    },
    /// A step failed.
    Failed {
        /// The step.
        step: String,
        /// Why.
        error: String,
    },
    /// Bytes of the session.
    Control,
    /// Bytes that the session printed.
    Stdout,
    /// Bytes that the session printed as errors.
    Stderr,
    /// A process ended.
    Exited {
        /// Its id in the container.
        pid: i32,
        /// Its wait status, if that is known.
        status: Option<i32>,
    },
    /// All other processes are gone, or not.
    Cleared {
        /// Whether they are gone.
        cleared: bool,
    },
    /// An answer about files.
    File {
        /// Number of the request.
        id: u64,
        /// The answer.
        #[serde(flatten)]
        answer: FileAnswer,
    },
    /// The use of resources.
    Counts(Counts),
    /// So many bytes of [`ToSteward::Control`] were taken.
    Credit {
        /// The bytes.
        bytes: usize,
    },
}

/// What a steward found of its container.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Attest {
    /// Its version of these messages.
    pub version: u32,
    /// The version of Python.
    pub python: (u8, u8, u8),
    /// `cpython`, or another.
    pub implementation: String,
    /// The path of Python.
    pub executable: String,
    /// The architecture.
    pub machine: String,
    /// The release of the kernel.
    pub kernel: String,
    /// Its user.
    pub uid: u32,
    /// Its effective capabilities.
    pub capabilities: u64,
    /// Capabilities that it and its children could have.
    pub bounding: u64,
    /// Whether programs can't gain privileges.
    pub no_new_privileges: bool,
    /// The kernel's number for its filter of system calls: 2 if there is one.
    pub seccomp: u32,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Whether the root file system can be written to.
    pub root_writable: bool,
    /// The limits of the container, as seen from inside.
    pub limits: AttestedLimits,
    /// The file systems of the session's directories.
    pub mounts: BTreeMap<String, AttestedMount>,
    /// Whether Python has `ctypes`, which sessions need.
    pub ctypes: bool,
    /// Name and version of all packages, if they were asked for.
    #[serde(default)]
    pub packages: Vec<(String, String)>,
    /// Those of the modules asked for that are installed.
    #[serde(default)]
    pub modules: Vec<String>,
}

/// The limits of a container, as seen from inside.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct AttestedLimits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Thousandths of a CPU.
    pub milli_cpus: Option<u64>,
}

/// The file system of a directory.
#[derive(Clone, Debug, Deserialize)]
pub struct AttestedMount {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size.
    pub bytes: u64,
}

/// The use of a container's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Bytes of memory now.
    pub memory: u64,
    /// CPU time since it began.
    pub cpu_us: u64,
    /// Processes and threads.
    pub tasks: u64,
    /// Processes that were killed because memory ran out.
    pub memory_kills: u64,
}

/// An answer about files: the fields of the request's answer, or an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FileAnswer {
    /// The kernel's number of an error.
    pub errno: Option<i32>,
    /// Path, kind and size of entries.
    pub entries: Vec<(String, FileKind, u64)>,
    /// Whether there are more entries.
    pub more: bool,
    /// What it is.
    pub kind: FileKind,
    /// Its size.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in seconds.
    pub modified: f64,
    /// Where a link leads.
    pub target: Option<String>,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else.
    #[default]
    Other,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_have_one_flat_header() {
        let request = FileRequest::Read {
            path: "a",
            offset: 5,
            bytes: 7,
        };
        let message = serde_json::to_value(ToSteward::File {
            id: 3,
            root: "/tmp",
            request,
        })
        .unwrap();
        let expected = json!({"type": "file", "id": 3, "op": "read", "root": "/tmp", "path": "a", "offset": 5, "bytes": 7});
        assert_eq!(message, expected);
        let data = FileRequest::Data;
        let message = serde_json::to_value(ToSteward::File {
            id: 4,
            root: "/tmp",
            request: data,
        })
        .unwrap();
        assert_eq!(
            message,
            json!({"type": "file", "id": 4, "root": "/tmp", "op": "data"})
        );
    }

    #[test]
    fn answers_may_lack_fields() {
        let answer = r#"{"type": "file", "id": 3, "errno": 2}"#;
        let FromSteward::File { id: 3, answer } = serde_json::from_str(answer).unwrap() else {
            panic!("another message");
        };
        assert_eq!((answer.errno, answer.kind), (Some(2), FileKind::Other));
        let unknown = r#"{"type": "gossip"}"#;
        assert!(serde_json::from_str::<FromSteward>(unknown).is_err());
    }
}
