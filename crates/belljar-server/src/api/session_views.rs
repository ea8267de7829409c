//! Sessions as a client sees them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_sandbox::{Checkpoints, Packages, SessionUse};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::isolation::isolation_schema;
use super::lease::LeaseView;
use crate::label::LeaseEnd;
use crate::sessions::SessionEntry;

/// When checkpoints of a session are made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckpointPolicy {
    /// Only on request.
    Off,
    /// After each cell, in the background.
    Auto,
    /// After each cell, before its outcome is returned.
    Every,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    id: String,
    /// Creation time, in seconds since 1970.
    created_at: u64,
    state: SessionState,
    /// Whether a cell is running.
    busy: bool,
    /// Number of the last started cell.
    cells: u32,
    /// Revision of its notebook, once one was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    notebook: Option<u64>,
    /// Environment of the session.
    environment: String,
    /// Isolation of the session.
    #[schema(schema_with = isolation_schema)]
    isolation: &'static str,
    limits: LimitsView,
    checkpoints: CheckpointPolicy,
    /// Hosts that the session may reach.
    allow: Vec<String>,
    packages: PackagesView,
    /// Directories of the host, in `/data/NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<String>,
    /// Names of its environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<String>,
    /// Names of its secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    /// When the session ends by itself, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// Its lease, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseView>,
    /// Id of the session that this is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<String>,
    /// Why a restart of the service lost the session, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_because: Option<String>,
    /// Current resource use. Only for a single, awake session; not part of the `ETag`.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub(super) in_use: Option<UseView>,
}

/// Package policy of a session.
#[derive(Debug, Serialize, ToSchema)]
struct PackagesView {
    policy: PackagePolicy,
    /// The permitted names, if the policy is `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
}

/// Which packages a session may install.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PackagePolicy {
    /// None.
    Deny,
    /// The listed ones.
    Allow,
    /// Any.
    Any,
}

impl PackagesView {
    fn new(packages: &Packages) -> Self {
        let (policy, allow) = match packages {
            Packages::Deny => (PackagePolicy::Deny, Vec::new()),
            Packages::Any => (PackagePolicy::Any, Vec::new()),
            Packages::Allow(names) => (PackagePolicy::Allow, names.iter().cloned().collect()),
        };
        Self { policy, allow }
    }
}

/// Resource use of a session, including its checkpoints.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UseView {
    /// Memory of the session, including its files, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// CPU time since the session started or woke, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
}

impl From<SessionUse> for UseView {
    fn from(used: SessionUse) -> Self {
        Self {
            memory_bytes: used.memory_bytes,
            cpu_ms: used.cpu_time.map(milliseconds),
            processes: used.processes,
        }
    }
}

/// State of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SessionState {
    /// Live.
    Awake,
    /// Hibernated: a snapshot that wakes at the next use.
    Hibernated,
    /// Ended: its processes are gone.
    Ended,
}

/// Limits of a session.
#[derive(Debug, Serialize, ToSchema)]
struct LimitsView {
    memory_bytes: u64,
    milli_cpus: u64,
    processes: u64,
    workspace_bytes: u64,
    wall_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time_ms: Option<u64>,
    transfer_bytes: u64,
}

impl SessionView {
    pub(super) fn from_entry(entry: &SessionEntry) -> Self {
        let limits = &entry.options.limits;
        let label = entry.label();
        Self {
            id: entry.id.clone(),
            created_at: seconds(entry.created),
            state: match entry.any_session() {
                _ if entry.is_hibernated() => SessionState::Hibernated,
                Ok(_) => SessionState::Awake,
                Err(_) => SessionState::Ended,
            },
            lost_because: entry.why_lost(),
            busy: entry.is_busy(),
            cells: entry.last_cell(),
            notebook: entry.notebook().revision(),
            environment: entry.environment.clone(),
            isolation: entry.isolation.as_str(),
            limits: LimitsView {
                memory_bytes: limits.memory_bytes,
                milli_cpus: limits.milli_cpus,
                processes: limits.processes,
                workspace_bytes: limits.workspace_bytes,
                wall_time_ms: milliseconds(limits.wall_time),
                cpu_time_ms: limits.cpu_time.map(milliseconds),
                transfer_bytes: limits.transfer_bytes,
            },
            checkpoints: match entry.options.checkpoints {
                Checkpoints::Off => CheckpointPolicy::Off,
                Checkpoints::Auto => CheckpointPolicy::Auto,
                Checkpoints::Every => CheckpointPolicy::Every,
            },
            allow: entry.allow.clone(),
            packages: PackagesView::new(&entry.options.packages),
            mounts: entry.options.mounts.clone(),
            variables: entry.options.variables.as_map().keys().cloned().collect(),
            secrets: entry.options.secrets.names().map(str::to_owned).collect(),
            lease: LeaseView::from_label(&label),
            expires_at: label
                .expires
                .filter(|_| label.then == LeaseEnd::End)
                .map(seconds),
            name: label.name,
            metadata: label.metadata,
            forked_from: entry.forked_from.clone(),
            in_use: None,
        }
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
