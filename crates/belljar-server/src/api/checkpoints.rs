//! `/v1/sessions/{id}/checkpoints`, restoring and forking.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use belljar_sandbox::CheckpointRef;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::sessions::SessionView;
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::NewSession;

/// The longest name of a checkpoint, in bytes.
const MAX_NAME: usize = 100;

/// The most forks of one request.
const MAX_FORKS: u32 = 16;

/// A frozen copy of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointView {
    /// The cell after which it was made; 0 before the first one.
    cell: u32,
    /// Its name, if it was made by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Memory that it holds alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
}

/// The copies of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointList {
    /// The newest last.
    checkpoints: Vec<CheckpointView>,
}

/// Lists the copies that are kept of a session. Waits for a cell that runs.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/checkpoints", tag = "checkpoints", operation_id = "list_checkpoints",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The copies.", body = CheckpointList))
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
    /// Its name; a copy of the same name is given up.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
}

/// Keeps a copy of a session under a name. Waits for a cell that runs.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/checkpoints", tag = "checkpoints", operation_id = "create_checkpoint",
    params(("id" = String, Path, description = "The session.")),
    request_body = CreateCheckpoint,
    responses((status = 204, description = "It is kept."))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<CreateCheckpoint>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    if asked.name.is_empty() || asked.name.len() > MAX_NAME {
        let detail = format!("`name` has 1 to {MAX_NAME} bytes");
        return Err(Problem::new(Code::BadBody, detail));
    }
    let made = entry.session()?.checkpoint(&asked.name).await;
    made.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives up the copy of a name.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/checkpoints/{name}", tag = "checkpoints", operation_id = "forget_checkpoint",
    params(
        ("id" = String, Path, description = "The session."),
        ("name" = String, Path, description = "The name of the copy."),
    ),
    responses((status = 204, description = "It is gone."))
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

/// A copy to go back to: by its cell or by its name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreCheckpoint {
    /// The newest copy that was made after this cell.
    cell: Option<u32>,
    /// The copy of this name.
    name: Option<String>,
}

/// Takes a session back to a copy: its variables, not its files. Waits for a cell that runs.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/restore", tag = "checkpoints", operation_id = "restore_session",
    params(("id" = String, Path, description = "The session.")),
    request_body = RestoreCheckpoint,
    responses((status = 204, description = "It is as it was."))
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
            let detail = "one of `cell` and `name` is needed";
            return Err(Problem::new(Code::BadBody, detail));
        }
    };
    let restored = entry.session()?.restore(checkpoint).await;
    restored.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// How many forks to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkSession {
    /// One, unless it is said otherwise.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 16)]
    count: u32,
}

fn one() -> u32 {
    1
}

/// The sessions that were made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Forks {
    sessions: Vec<SessionView>,
}

/// Makes new sessions that start as copies of this one. Waits for a cell that runs.
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
    if !(1..=MAX_FORKS).contains(&asked.count) {
        let detail = format!("`count` is from 1 to {MAX_FORKS}");
        return Err(Problem::new(Code::BadBody, detail));
    }
    let session = entry.session()?;
    let memory = entry.options.limits.memory_bytes;
    let count = asked.count as usize;
    let permits = service.admission.sessions(&caller.tenant, count, memory)?;
    let forks = session.fork(asked.count).await;
    let forks = forks.map_err(|error| entry.explain(error))?;
    let mut sessions = Vec::new();
    for (fork, permit) in forks.into_iter().zip(permits) {
        let new = NewSession {
            tenant: caller.tenant.clone(),
            options: entry.options.clone(),
            allow: entry.allow.clone(),
            forked_from: Some(entry.id.clone()),
            cells: entry.last_cell(),
        };
        let fork = service.sessions.hold(fork, permit, new)?;
        sessions.push(SessionView::from_entry(&fork, &service));
    }
    Ok((StatusCode::CREATED, JsonResponse(Forks { sessions })).into_response())
}
