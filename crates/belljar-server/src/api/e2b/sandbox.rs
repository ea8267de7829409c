//! Sandboxes: sessions that clients of this wire made, as they see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::access::is_paused;
use super::errors::not_supported;
use crate::label::{LabelChange, SandboxLabel};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// The version of its inside that a client sees.
const ENVD_VERSION: &str = "0.6.7";

/// The end of a sandbox without a lease, from now.
const A_YEAR: Duration = Duration::from_hours(365 * 24);

/// A sandbox, for the client that may use it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxAccess {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(rename = "sandboxID")]
    sandbox_id: String,
    #[serde(rename = "clientID")]
    client_id: &'static str,
    envd_version: &'static str,
    pub(super) envd_access_token: String,
    traffic_access_token: String,
    domain: Option<String>,
}

/// A sandbox, for its owner.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxView {
    #[serde(rename = "templateID")]
    pub(super) template_id: String,
    #[serde(rename = "sandboxID")]
    pub(super) sandbox_id: String,
    #[serde(rename = "clientID")]
    pub(super) client_id: &'static str,
    pub(super) started_at: String,
    pub(super) end_at: String,
    pub(super) cpu_count: u64,
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    pub(super) disk_size_mb: u64,
    pub(super) state: &'static str,
    pub(super) envd_version: &'static str,
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(super) details: Option<SandboxDetails>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxDetails {
    pub(super) envd_access_token: String,
    pub(super) domain: Option<String>,
    pub(super) allow_internet_access: bool,
    pub(super) lifecycle: Value,
}

/// A moment as this wire has it.
pub(super) fn moment(time: SystemTime) -> String {
    let time = time::OffsetDateTime::from(time);
    let text = time.format(&time::format_description::well_known::Rfc3339);
    text.unwrap_or_default()
}

/// A sandbox of this tenant. That of another, and a session that is none, are as one that is not there.
pub(super) fn find(
    service: &Service,
    caller: &Caller,
    id: &str,
) -> Result<Arc<SessionEntry>, Problem> {
    let found = service.sessions.find(&caller.tenant, id)?;
    match found.any_session() {
        Ok(_) if found.label().sandbox.is_some() => Ok(found),
        Err(problem) if problem.code != Code::SessionEnded => Err(problem),
        _ => {
            let detail = format!("no sandbox has the id `{}`", id.escape_debug());
            Err(Problem::new(Code::SessionNotFound, detail))
        }
    }
}

/// Gives a sandbox a lease, and its token to the key of this caller.
pub(super) fn take_over(
    service: &Service,
    entry: &SessionEntry,
    caller: &Caller,
    lease: Option<Duration>,
) -> Result<(), Problem> {
    let label = entry.label();
    let change = LabelChange {
        // No seconds would be no lease.
        ttl_seconds: lease.map(|lease| lease.as_secs().max(1)),
        then: label.then,
        sandbox: label.sandbox.map(|sandbox| SandboxLabel {
            key: caller.prefix.clone(),
            ..sandbox
        }),
        ..LabelChange::default()
    };
    entry.relabel(change.within(service.options.max_lease)?)
}

pub(super) fn access(service: &Service, entry: &SessionEntry) -> Result<SandboxAccess, Problem> {
    let tokens = service.tokens.as_ref();
    let tokens = tokens.ok_or_else(|| not_supported("the operator has not switched it on"))?;
    let token = tokens.token(&entry.id);
    Ok(SandboxAccess {
        template_id: template(entry),
        sandbox_id: entry.id.clone(),
        client_id: "belljar",
        envd_version: ENVD_VERSION,
        envd_access_token: token.clone(),
        traffic_access_token: token,
        domain: service.options.e2b_domain.clone(),
    })
}

fn template(entry: &SessionEntry) -> String {
    entry
        .label()
        .sandbox
        .map(|sandbox| sandbox.template)
        .unwrap_or_default()
}

pub(super) fn state(entry: &SessionEntry) -> &'static str {
    if is_paused(entry) {
        "paused"
    } else {
        "running"
    }
}

pub(super) fn view(entry: &SessionEntry) -> SandboxView {
    let label = entry.label();
    let limits = &entry.options.limits;
    let end = label.expires.unwrap_or_else(|| SystemTime::now() + A_YEAR);
    SandboxView {
        template_id: template(entry),
        sandbox_id: entry.id.clone(),
        client_id: "belljar",
        started_at: moment(entry.created),
        end_at: moment(end),
        cpu_count: limits.milli_cpus.div_ceil(1000),
        memory_mb: limits.memory_bytes >> 20,
        disk_size_mb: limits.workspace_bytes >> 20,
        state: state(entry),
        envd_version: ENVD_VERSION,
        metadata: label.metadata,
        details: None,
    }
}
