//! `/v1/sessions/{id}/checkpoints`, restoring and forking.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar_sandbox::{CheckpointRef, SecretGrant, SessionOptions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session_views::SessionView;
use super::variables::grant;
use crate::body::{Json, Named};
use crate::label::{Label, LeaseEnd};
use crate::new_session::NewSession;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Maximum length of a checkpoint's name, in bytes.
const MAX_NAME: usize = 100;

/// Maximum number of forks of one request.
const MAX_FORKS: u32 = 16;

/// A checkpoint of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointView {
    /// Cell after which it was made; 0 before the first cell.
    cell: u32,
    /// Name of the checkpoint, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Memory that only this checkpoint holds, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
}

/// The checkpoints of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointList {
    /// Newest last.
    checkpoints: Vec<CheckpointView>,
}

/// Lists the checkpoints of a session. Waits for a running cell.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/checkpoints", tag = "checkpoints", operation_id = "list_checkpoints",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The checkpoints.", body = CheckpointList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<CheckpointList>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let list = entry.session()?.checkpoints().await;
    let list = list.map_err(|error| entry.explain(error))?;
    let checkpoints = list.into_iter().map(|checkpoint| CheckpointView {
        cell: checkpoint.cell,
        name: checkpoint.name,
        memory_bytes: checkpoint.memory_bytes,
    });
    Ok(JsonResponse(CheckpointList {
        checkpoints: checkpoints.collect(),
    }))
}

/// A checkpoint to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateCheckpoint {
    /// Name; replaces a checkpoint of the same name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
}

/// Makes a named checkpoint of a session. Waits for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/checkpoints", tag = "checkpoints", operation_id = "create_checkpoint",
    params(("id" = String, Path, description = "The session.")),
    request_body = CreateCheckpoint,
    responses((status = 204, description = "The checkpoint is made."))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<CreateCheckpoint>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    if asked.name.is_empty() || asked.name.len() > MAX_NAME {
        let detail = format!("`name` must have 1 to {MAX_NAME} bytes");
        return Err(Problem::new(Code::BadBody, detail));
    }
    let made = entry.session()?.checkpoint(&asked.name).await;
    made.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a named checkpoint.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/checkpoints/{name}", tag = "checkpoints", operation_id = "forget_checkpoint",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "Name of the checkpoint."),
    ),
    responses((status = 204, description = "Deleted."))
)]
pub(super) async fn forget(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let gone = entry.session()?.forget(&name).await;
    gone.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The checkpoint to restore, by cell or by name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreCheckpoint {
    /// The newest checkpoint after this cell.
    cell: Option<u32>,
    /// The checkpoint of this name.
    name: Option<String>,
}

/// Restores the variables of a checkpoint; files stay. Waits for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/restore", tag = "checkpoints", operation_id = "restore_session",
    params(("id" = String, Path, description = "The session.")),
    request_body = RestoreCheckpoint,
    responses((status = 204, description = "The variables are restored."))
)]
pub(super) async fn restore(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<RestoreCheckpoint>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let checkpoint = match (asked.cell, asked.name) {
        (Some(cell), None) => CheckpointRef::Cell(cell),
        (None, Some(name)) => CheckpointRef::Name(name),
        _ => {
            let detail = "either `cell` or `name` is required";
            return Err(Problem::new(Code::BadBody, detail));
        }
    };
    let restored = entry.session()?.restore(checkpoint).await;
    restored.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Number of forks to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkSession {
    /// Number of forks [default: 1].
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 16)]
    count: u32,
    /// Names of the secrets that the forks get; `["*"]` for all [default: none].
    #[serde(default)]
    #[schema(max_items = 64)]
    secrets: Vec<String>,
}

fn one() -> u32 {
    1
}

/// The new sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Forks {
    sessions: Vec<SessionView>,
}

/// Forks a session. Waits for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/fork", tag = "checkpoints", operation_id = "fork_session",
    params(("id" = String, Path, description = "The session.")),
    request_body = ForkSession,
    responses((status = 201, description = "The new sessions.", body = Forks))
)]
pub(super) async fn fork(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<ForkSession>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let forks = fork_entry(&service, &entry, asked.count, grant(asked.secrets)).await?;
    let sessions = forks.iter().map(|fork| SessionView::from_entry(fork));
    let sessions = sessions.collect();
    Ok((StatusCode::CREATED, JsonResponse(Forks { sessions })).into_response())
}

/// Forks a session, within what its tenant may use.
pub(super) async fn fork_entry(
    service: &Service,
    entry: &SessionEntry,
    count: u32,
    grant: SecretGrant,
) -> Result<Vec<Arc<SessionEntry>>, Problem> {
    if !(1..=MAX_FORKS).contains(&count) {
        let detail = format!("`count` must be from 1 to {MAX_FORKS}");
        return Err(Problem::new(Code::BadBody, detail));
    }
    let session = entry.session()?;
    let memory = entry.options.limits.memory_bytes;
    let permits =
        service
            .admission
            .sessions(&entry.tenant, count as usize, memory, entry.isolation)?;
    let options = SessionOptions {
        secrets: entry.options.secrets.granted(&grant),
        ..entry.options.clone()
    };
    let forks = session.fork_with(count, grant).await;
    let forks = forks.map_err(|error| entry.explain(error))?;
    let mut held = Vec::new();
    for (fork, permit) in forks.into_iter().zip(permits) {
        let new = NewSession {
            tenant: entry.tenant.clone(),
            options: options.clone(),
            allow: entry.allow.clone(),
            environment: entry.environment.clone(),
            isolation: entry.isolation,
            // A fork can't hibernate.
            label: Label {
                then: LeaseEnd::End,
                // Clients of Jupyter's wire know one session by the kernel's id.
                kernel: None,
                ..entry.label()
            },
            forked_from: Some(entry.id.clone()),
            cells: entry.last_cell(),
        };
        held.push(service.sessions.hold(fork, permit, new)?);
    }
    Ok(held)
}
