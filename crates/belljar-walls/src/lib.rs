//! The walls of a session: namespaces, mounts, cgroups, seccomp, Landlock, and every `unsafe` line of Belljar.
//!
//! Four kinds of process stand between the host and hostile code:
//!
//! * the **keeper**, this binary started again, outside all namespaces. It builds the rest, waits
//!   for the host to go away for whatever reason, and then removes every trace;
//! * the **spawner**, process 1 of an outer pid namespace in a user namespace without any power
//!   over the host. It starts the template, and one init for each session;
//! * a **command server** for each session with commands (programs beside the interpreter), which
//!   starts them;
//! * an **init** for each session, process 1 of the session's own namespaces. It makes the
//!   session's private mounts, reaps, and when it dies the kernel ends everything in the session.
//!
//! The template (in `belljar-guest`) forks sessions that join an init's namespaces.

mod beneath;
mod cgroup;
mod channel;
mod command_message;
mod commands;
mod computation;
mod directories;
mod error;
mod holder;
mod identity;
mod init;
mod keeper;
mod landlock;
mod layout;
mod message;
mod process;
mod root;
mod seccomp;
mod spawner;
mod start;
mod sys;
mod writer;

pub use beneath::{
    Beneath, BeneathError, Entry, EntryKind, FileStatus, TEMPORARY_NAMES, check_path,
};
pub use cgroup::{
    Busy, CgroupError, CgroupLimits, Cgroups, MemoryRoom, SessionCgroup, SessionUse, remove_tree,
};
pub use channel::{Channel, receive_message, send_bytes, send_message};
pub use command_message::{
    BEGUN, CommandEvent, CommandRequest, CommandServerRequest, CommandSpec, MAX_SPEC, ProcessLimits,
};
pub use computation::{ComputationLimits, ConfineError, compute_confined};
pub use directories::{DIRECTORIES, open_directory};
pub use error::SetupError;
pub use identity::{SessionIds, session_ids};
pub use keeper::{KeeperPlan, WallsSpec};
pub use landlock::{COVERS_EMPTYING, LANDLOCK_FLOOR, landlock_version};
pub use layout::lay_out_root;
pub use message::{
    DirectoryMount, ForkSlotRequest, GUEST_ID, InitEvent, InitRequest, InitTask, MOST_FORKS,
    PROXY_PORT, Report, Request,
};
pub use process::{Process, raise_open_files, spawn_limited};
pub use root::{HOME, RootSpec, slot_path, slot_workspace};
pub use seccomp::{seccomp_program, seccomp_works};
pub use start::{Keeper, StartError};
pub use sys::{has_admin_capability, is_read, limit_heaps, start_writing, user_namespaces_work};
pub use writer::{FileWriter, Writing};
