//! How an engine and its sessions are to be.

use std::sync::Arc;
use std::time::Duration;

use belljar_protocol::ToolStub;

use crate::disk::DiskAllowance;
use crate::limits::Limits;
use crate::network::Network;
use crate::packages::Packages;

/// What a session is asked for with. [`Limits`] alone will do: `engine.session_with(limits)`.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// What it may use.
    pub limits: Limits,
    /// When copies of its state are made, to go on from when its process dies.
    pub checkpoints: Checkpoints,
    /// What it may reach on the network: nothing by default.
    pub network: Network,
    /// Which packages it may be given by [`install`](crate::Session::install): none by default. The
    /// engine must have been built with [`packages`](crate::EngineBuilder::packages), too.
    pub packages: Packages,
    /// The tools of the host that its code may call: none by default. Each cell says whether somebody
    /// answers its calls ([`Cell::answers`](crate::Cell)).
    pub tools: Vec<ToolStub>,
    /// How long it may be without a cell, or another use, before it
    /// [sleeps](crate::Session::hibernate); `None`: as long as it likes. What a snapshot can't hold is
    /// then lost, and told by the first outcome after it.
    pub hibernate_after: Option<Duration>,
    /// What its bytes on disk are counted in: while it sleeps, and while a
    /// [snapshot](crate::Session::snapshot) is written. Where that has too little left, it stays
    /// awake and the snapshot is not written. None: they are not counted.
    pub disk: Option<Arc<DiskAllowance>>,
    /// Whose session it is. Sessions of one template have the same hash seed and memory layout,
    /// which code in one of them could use against another: those of different tenants never come
    /// from the same template. Each tenant's costs its import time once and its memory; it is given
    /// up after ten minutes without use.
    pub tenant: Option<String>,
}

impl From<Limits> for SessionOptions {
    fn from(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }
}

/// When frozen copies of a session are made. They share memory with the session until it changes,
/// and count within its limits; a copy takes a few milliseconds to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoints {
    /// Only where the caller asks for one, by [`Session::checkpoint`](crate::Session::checkpoint)
    /// or [`OnFailure::Restore`](crate::OnFailure). Without any, a session whose process dies is
    /// lost.
    Off,
    /// After each cell, while the caller thinks about its outcome. Where the next cell comes at
    /// once, a copy is made only if the last one is older than 50 ms: what a crash can cost is the
    /// work of that time, and the outcome tells which cell the state is from. Without walls
    /// there are no copies, and this is `Off`.
    #[default]
    Auto,
    /// After each cell, before its outcome is told. Refused without walls.
    Every,
}

/// Where a session's interpreter comes from. The walls are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A fork of a warmed template: ready in milliseconds.
    #[default]
    Warm,
    /// An interpreter started for this session alone, with a hash seed and a memory layout that no
    /// other session knows: ready once its preload list is imported.
    Fresh,
}

/// When a template is replaced by a new one, with another hash seed and memory layout. The old one
/// serves until the new one is warm. Sessions that run are not touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// After so many sessions.
    pub sessions: Option<u32>,
    /// After this time; seen when a session is asked for.
    pub age: Option<Duration>,
}
