//! Live runs of all tenants, for admins.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::run_views::RunState;
use super::sessions::Nothing;
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::tenants::Act;

/// A live run, as admins see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnyRun {
    id: String,
    tenant: String,
    state: RunState,
    model: String,
    /// Turns of the model so far.
    steps: u32,
}

/// The live runs of all tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AnyRunList {
    /// Sorted by id.
    runs: Vec<AnyRun>,
}

/// Lists the live runs of all tenants on this node: running ones, and those that wait and still have their session.
#[utoipa::path(
    get, path = "/v1/admin/runs", tag = "runs", operation_id = "list_all_runs",
    responses((status = 200, description = "The runs.", body = AnyRunList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
) -> Result<JsonResponse<AnyRunList>, Problem> {
    let mut runs = Vec::new();
    for (id, tenant) in service.runs.live() {
        let recorded = match service.runs.read(&tenant, id.as_str()).await {
            Ok(recorded) => recorded,
            // Deleted meanwhile.
            Err(problem) if problem.code == Code::RunNotFound => continue,
            Err(problem) => return Err(problem),
        };
        let state = RunState::from_recorded(&recorded);
        if !matches!(state, RunState::Running | RunState::Waits) {
            continue;
        }
        let start = recorded.run.start();
        runs.push(AnyRun {
            id: id.to_string(),
            tenant: tenant.to_string(),
            state,
            model: start.map(|start| start.model.clone()).unwrap_or_default(),
            steps: recorded.run.spent().steps,
        });
    }
    Ok(JsonResponse(AnyRunList { runs }))
}

/// Cancels a live run of any tenant, with the best answer so far.
#[utoipa::path(
    post, path = "/v1/admin/runs/{id}/cancel", tag = "runs", operation_id = "cancel_any_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 204, description = "The run is ending."))
)]
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<StatusCode, Problem> {
    let mut live = service.runs.live().into_iter();
    let Some((run, tenant)) = live.find(|(run, _)| run.as_str() == id) else {
        let detail = "no live run of this node has this id";
        return Err(Problem::new(Code::RunNotFound, detail));
    };
    let act = Act {
        actor: &caller.prefix,
        what: "run_cancelled",
        tenant: Some(&tenant),
        detail: &id,
    };
    // What can't be written down is not done.
    service.tenants.record(act).await?;
    service.runs.cancel(&tenant, &run).await?;
    Ok(StatusCode::NO_CONTENT)
}
