//! The control API: sandboxes as sessions with a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use belljar_sandbox::SecretGrant;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::access::is_paused;
use super::errors::not_supported;
use super::sandbox::{SandboxDetails, SandboxView, access, find, moment, take_over, view};
use crate::api::checkpoints::fork_entry;
use crate::api::files::{awake, with_files};
use crate::api::session_create::CreateSession;
use crate::api::session_views::seconds;
use crate::api::sessions::{self, in_use};
use crate::api::snapshots::hibernate_entry;
use crate::api::variables::VariablesAsked;
use crate::body::{Json, Named};
use crate::label::{LabelChange, LeaseEnd, SandboxLabel};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// Templates that are the service's first environment.
const DEFAULT_TEMPLATES: [&str; 3] = ["base", "code-interpreter-v1", "default"];

/// Seconds of a lease that the client does not name.
const LEASE: u64 = 300;

/// Seconds of the lease of a fork that names none.
const FORK_LEASE: u64 = 15;

/// How long the CPU time of a sandbox is looked at.
const SAMPLE: Duration = Duration::from_millis(100);

/// A sandbox to start. Fields that would change nothing here are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    auto_pause: Option<bool>,
    auto_pause_memory: Option<bool>,
    auto_resume: Option<AutoResume>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    network: Option<NetworkOptions>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    mcp: Option<Value>,
    iam: Option<Value>,
    volume_mounts: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct AutoResume {
    #[serde(default)]
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkOptions {
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// `timeout` or, of old clients, `duration`; and whether its memory is to be kept.
#[derive(Default, Deserialize)]
pub(super) struct LeaseAsked {
    #[serde(alias = "duration")]
    timeout: Option<u64>,
    memory: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct ForkAsked {
    count: Option<u32>,
    timeout: Option<u64>,
}

impl NewSandbox {
    fn check(&self) -> Result<(), Problem> {
        let set = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
        if set(&self.mcp) || self.template_id == "mcp-gateway" {
            return Err(not_supported("`mcp`: sandboxes run no MCP gateway"));
        }
        if set(&self.iam) {
            return Err(not_supported("`iam`: sandboxes have no identities"));
        }
        if self
            .volume_mounts
            .as_ref()
            .is_some_and(|all| !all.is_empty())
        {
            let detail = "`volumeMounts`: there are no volumes; upload files instead";
            return Err(not_supported(detail));
        }
        if self.auto_pause_memory == Some(false) {
            return Err(only_with_memory());
        }
        Ok(())
    }

    /// The hosts that it may reach: all that the operator permits, unless the client names fewer.
    fn allow(&self, permitted: &[String]) -> Result<Vec<String>, Problem> {
        if self.allow_internet_access == Some(false) {
            return Ok(Vec::new());
        }
        let Some(network) = &self.network else {
            return Ok(permitted.to_vec());
        };
        let mut others = network.others.iter().filter(|(_, value)| !value.is_null());
        if let Some((name, _)) = others.next() {
            let detail = format!(
                "`network.{}`: only `allowOut` is possible",
                name.escape_debug()
            );
            return Err(not_supported(detail));
        }
        let everything = |entry: &String| entry == "0.0.0.0/0";
        if !network.deny_out.iter().flatten().all(everything) {
            let detail = "`network.denyOut`: hosts are denied unless they are allowed";
            return Err(not_supported(detail));
        }
        match &network.allow_out {
            Some(allow) => Ok(allow.clone()),
            None if network.deny_out.is_some() => Ok(Vec::new()),
            None => Ok(permitted.to_vec()),
        }
    }
}

fn only_with_memory() -> Problem {
    let detail = "`memory: false`: a paused sandbox keeps its variables and files, and cannot drop one of them";
    Problem::new(Code::BadBody, detail)
}

/// Starts a sandbox.
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(asked): Json<NewSandbox>,
) -> Result<Response, Problem> {
    asked.check()?;
    let is_default = DEFAULT_TEMPLATES.contains(&asked.template_id.as_str());
    let lease = asked.timeout.unwrap_or(LEASE).max(1);
    let resumes = asked.auto_resume.as_ref().is_some_and(|auto| auto.enabled);
    let label = LabelChange {
        metadata: asked.metadata.clone(),
        ttl_seconds: Some(lease),
        then: match asked.auto_pause {
            Some(true) => LeaseEnd::Sleep,
            _ => LeaseEnd::End,
        },
        sandbox: Some(SandboxLabel {
            key: caller.prefix.clone(),
            template: asked.template_id.clone(),
            auto_resume: resumes.then_some(lease),
        }),
        ..LabelChange::default()
    };
    let mut session = CreateSession::default();
    session.environment = (!is_default).then(|| asked.template_id.clone());
    session.network.allow = asked.allow(&service.options.allow)?;
    session.variables = VariablesAsked(asked.env_vars.unwrap_or_default());
    let entry = sessions::start(&service, caller, session, label).await?;
    let access = JsonResponse(access(&service, &entry)?);
    Ok((StatusCode::CREATED, access).into_response())
}

/// Shows a sandbox.
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let entry = find(&service, &caller, &id)?;
    let label = entry.label();
    let resumes = label
        .sandbox
        .is_some_and(|sandbox| sandbox.auto_resume.is_some());
    let details = SandboxDetails {
        envd_access_token: access(&service, &entry)?.envd_access_token,
        domain: service.options.e2b_domain.clone(),
        allow_internet_access: !entry.allow.is_empty(),
        lifecycle: json!({
            "autoResume": resumes,
            "onTimeout": match label.then { LeaseEnd::End => "kill", LeaseEnd::Sleep => "pause" },
        }),
    };
    let view = SandboxView {
        details: Some(details),
        ..view(&entry)
    };
    let view = serde_json::to_value(view);
    view.map(JsonResponse)
        .map_err(|error| Problem::internal("a sandbox", error))
}

/// Ends a sandbox.
pub(super) async fn kill(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    find(&service, &caller, &id)?;
    let entry = service.sessions.remove(&caller.tenant, &id)?;
    entry.close().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Connects to a sandbox, and wakes it. Its lease only grows.
pub(super) async fn connect(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<LeaseAsked>,
) -> Result<Response, Problem> {
    let entry = find(&service, &caller, &id)?;
    if asked.memory == Some(false) {
        return Err(only_with_memory());
    }
    let was_paused = is_paused(&entry);
    let lease = Duration::from_secs(asked.timeout.unwrap_or(LEASE));
    let known = entry.label().expires;
    let is_longer = known.is_none_or(|known| SystemTime::now() + lease > known);
    take_over(&service, &entry, &caller, is_longer.then_some(lease))?;
    awake(&entry).await?;
    let status = if was_paused {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, JsonResponse(access(&service, &entry)?)).into_response())
}

/// The same for old clients.
pub(super) async fn resume(
    service: State<Arc<Service>>,
    caller: Caller,
    id: Named<String>,
    asked: Json<LeaseAsked>,
) -> Result<Response, Problem> {
    let mut response = connect(service, caller, id, asked).await?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// Moves the lease of a sandbox, earlier or later. Old clients have another route for it.
pub(super) async fn set_timeout(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<LeaseAsked>,
) -> Result<StatusCode, Problem> {
    let entry = find(&service, &caller, &id)?;
    let lease = Duration::from_secs(asked.timeout.unwrap_or(LEASE));
    take_over(&service, &entry, &caller, Some(lease))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hibernates a sandbox until its client wants it back.
pub(super) async fn pause(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<LeaseAsked>,
) -> Result<Response, Problem> {
    let entry = find(&service, &caller, &id)?;
    if asked.memory == Some(false) {
        return Err(only_with_memory());
    }
    if is_paused(&entry) {
        let body = json!({"code": 409, "message": "the sandbox is paused already"});
        return Ok((StatusCode::CONFLICT, JsonResponse(body)).into_response());
    }
    hibernate_entry(&service, &entry).await?;
    entry.relabel(LabelChange {
        ttl_seconds: Some(0),
        ..LabelChange::default()
    })?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Forks a sandbox.
pub(super) async fn fork(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<ForkAsked>,
) -> Result<Response, Problem> {
    let entry = find(&service, &caller, &id)?;
    let lease = Duration::from_secs(asked.timeout.unwrap_or(FORK_LEASE));
    let count = asked.count.unwrap_or(1);
    let forks = fork_entry(&service, &entry, count, SecretGrant::All).await?;
    let mut views = Vec::new();
    for fork in forks {
        take_over(&service, &fork, &caller, Some(lease))?;
        views.push(json!({"sandbox": access(&service, &fork)?}));
    }
    Ok((StatusCode::CREATED, JsonResponse(views)).into_response())
}

/// What a sandbox uses now.
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    let entry = find(&service, &caller, &id)?;
    let Some(before) = in_use(&entry).await else {
        return Ok(JsonResponse(json!([])));
    };
    tokio::time::sleep(SAMPLE).await;
    let after = in_use(&entry).await.unwrap_or(before);
    let cpu = match (before.cpu_time, after.cpu_time) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => Duration::ZERO,
    };
    let cpus = entry.options.limits.milli_cpus.div_ceil(1000);
    let listing = with_files(&entry, |session| session.list("")).await?;
    let disk: u64 = listing.entries.iter().map(|file| file.size).sum();
    let now = SystemTime::now();
    Ok(JsonResponse(json!([{
        "timestamp": moment(now),
        "timestampUnix": seconds(now),
        "cpuCount": cpus,
        "cpuUsedPct": 100.0 * cpu.as_secs_f64() / SAMPLE.as_secs_f64(),
        "memUsed": after.memory_bytes.unwrap_or(0),
        "memTotal": entry.options.limits.memory_bytes,
        "memCache": 0,
        "diskUsed": disk,
        "diskTotal": entry.options.limits.workspace_bytes,
    }])))
}

/// Sandboxes write no logs of their own.
pub(super) async fn logs(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Value>, Problem> {
    find(&service, &caller, &id)?;
    Ok(JsonResponse(json!({"logs": [], "logEntries": []})))
}

/// The network of a session is that of its start.
pub(super) async fn network(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    find(&service, &caller, &id)?;
    let detail = "the network of a sandbox cannot change; set `network` or `allow_internet_access` when it is created";
    Err(not_supported(detail))
}
