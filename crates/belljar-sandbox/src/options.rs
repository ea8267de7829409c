//! Options of an engine and its sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_protocol::{SetBy, ToolStub};

use crate::disk::DiskAllowance;
use crate::limits::Limits;
use crate::session::network::Network;
use crate::session::packages::Packages;
use crate::snapshot_store::SnapshotStore;
use crate::variables::{Secrets, Variables};

/// Options of a session. [`Limits`] alone suffice: `engine.session_with(limits)`.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Its limits.
    pub limits: Limits,
    /// When checkpoints are made, from which the session continues if its process dies.
    pub checkpoints: Checkpoints,
    /// What it may reach on the network: nothing by default.
    pub network: Network,
    /// Which packages [`install`](crate::Session::install) may install: none by default. The engine
    /// must be built with [`packages`](crate::EngineBuilder::packages), too.
    pub packages: Packages,
    /// Names of the engine's [directories of the host](crate::EngineBuilder::mount) that it sees, in `/data`: none by
    /// default.
    pub mounts: Vec<String>,
    /// The tools of the host that its code may call: none by default. Each cell says whether its
    /// caller answers calls ([`Cell::answers`](crate::Cell)).
    pub tools: Vec<ToolStub>,
    /// Environment variables of its code and its commands.
    pub variables: Variables,
    /// The same for credentials: the host keeps them in memory only, and replaces their values by
    /// `[secret NAME]` in all that the session sends. Forks get those that are
    /// [granted](crate::Session::fork_with).
    pub secrets: Secrets,
    /// Idle time before the session [hibernates](crate::Session::hibernate); `None`: never. What a
    /// snapshot can't hold is lost, and the first outcome after waking reports it.
    pub hibernate_after: Option<Duration>,
    /// Directory of its snapshot while it is hibernated, which must exist. `None`: that of the engine, among the
    /// temporary files. A [detached](crate::Session::detach) session needs one that outlives the engine.
    pub hibernate_in: Option<PathBuf>,
    /// Where its snapshot is kept while it is hibernated, once it is written; `None`: in that directory.
    pub snapshot_store: Option<Arc<dyn SnapshotStore>>,
    /// The allowance for its bytes on disk: while it is hibernated, and while a
    /// [snapshot](crate::Session::snapshot) is written. If too little is left, the session stays
    /// awake and the snapshot is not written. `None`: not counted.
    pub disk: Option<Arc<DiskAllowance>>,
    /// The tenant of the session. Sessions of one template have the same hash seed and memory
    /// layout, which code in one session could use against another. Therefore sessions of different
    /// tenants never come from the same template. The template of a tenant costs its import time
    /// once, and its memory; it is ended after ten idle minutes.
    pub tenant: Option<String>,
    /// Who sets these options: outcomes that name one say it in those terms.
    pub set_by: SetBy,
}

impl From<Limits> for SessionOptions {
    fn from(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }
}

/// When checkpoints of a session are made. They share memory with the session until it changes, and
/// count towards its limits. A checkpoint takes a few milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoints {
    /// Only on request, by [`Session::checkpoint`](crate::Session::checkpoint) or
    /// [`OnFailure::Restore`](crate::OnFailure). Without any, a session whose process dies is lost.
    Off,
    /// After each cell, while the caller is idle. If the next cell follows at once, a checkpoint is
    /// made only if the last one is older than 50 ms: a crash can cost the work of that time, and
    /// the outcome names the cell of the restored state. Without walls there are no checkpoints,
    /// and this is `Off`.
    #[default]
    Auto,
    /// After each cell, before its outcome is returned. Refused without walls.
    Every,
}

/// Where the interpreter of a session comes from, for an environment of this host. The walls are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A fork of a warmed template: ready in milliseconds.
    #[default]
    Warm,
    /// An interpreter started for this session alone, with its own hash seed and memory layout:
    /// ready once its preload list is imported.
    Fresh,
}

/// When a template is replaced by a new one, with another hash seed and memory layout. The old one
/// serves until the new one is warm. Live sessions are not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// After this number of sessions.
    pub sessions: Option<u32>,
    /// After this time; checked when a session is requested.
    pub age: Option<Duration>,
}
