//! What the list of sessions takes a session with.

use std::time::SystemTime;

use belljar_sandbox::protocol::Walls;
use belljar_sandbox::{Session, SessionOptions};

use crate::admission::Permit;
use crate::label::Label;
use crate::notebook::KeptNotebook;
use crate::tenants::TenantName;

/// What a session is held with.
#[derive(Clone, Debug)]
pub(crate) struct NewSession {
    pub(crate) tenant: TenantName,
    pub(crate) options: SessionOptions,
    pub(crate) allow: Vec<String>,
    pub(crate) environment: String,
    pub(crate) isolation: Walls,
    pub(crate) label: Label,
    pub(crate) forked_from: Option<String>,
    /// How many cells have run in it.
    pub(crate) cells: u32,
}

/// A session of an earlier service, or its loss.
#[derive(Debug)]
pub(crate) struct OldSession {
    pub(crate) id: String,
    pub(crate) created: SystemTime,
    pub(crate) live: Result<(Session, Permit), String>,
    pub(crate) notebook: KeptNotebook,
}
