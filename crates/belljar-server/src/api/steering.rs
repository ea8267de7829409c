//! Changes of running or waiting runs, and runs that continue others.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::Response;
use belljar_agent::{Policy, Raise, Start, Steering};
use belljar_journal::RunId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::run_create::{BudgetAsked, PolicyAsked, accepted, check_policy, check_task};
use super::run_views::RunView;
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::runs::fault;
use crate::service::{Caller, Service};

/// Raises the budget of a run, at most to the service's maximum.
///
/// Omitted parts, and parts below the current budget, stay unchanged.
#[utoipa::path(
    post, path = "/v1/runs/{id}/budget", tag = "runs", operation_id = "raise_budget",
    params(("id" = String, Path, description = "The run.")),
    request_body = BudgetAsked,
    responses((status = 200, description = "The run, with its new budget.", body = RunView))
)]
pub(super) async fn budget(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<BudgetAsked>,
) -> Result<JsonResponse<RunView>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    asked.take(&mut service.runs.options().budget.clone())?;
    let raise = Raise {
        steps: asked.steps,
        tokens: asked.tokens,
        money: asked.money,
        seconds: asked.seconds,
        calls: asked.calls,
    };
    if raise == Raise::default() {
        let detail = "the budget is empty: give steps, tokens, money, seconds or calls";
        return Err(Problem::new(Code::BadBody, detail));
    }
    steered(&service, &caller, &run, Steering::Budget(raise)).await
}

/// New approval policy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetPolicy {
    approvals: PolicyAsked,
}

/// Sets the approval policy for the rest of a run, at least as strict as the service's.
///
/// Pending approvals stay pending.
#[utoipa::path(
    post, path = "/v1/runs/{id}/policy", tag = "runs", operation_id = "set_policy",
    params(("id" = String, Path, description = "The run.")),
    request_body = SetPolicy,
    responses((status = 200, description = "The run.", body = RunView))
)]
pub(super) async fn policy(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<SetPolicy>,
) -> Result<JsonResponse<RunView>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let policy = Policy::from(asked.approvals);
    check_policy(policy, &service)?;
    steered(&service, &caller, &run, Steering::Policy(policy)).await
}

/// Changes a run, and shows it as it is then.
async fn steered(
    service: &Service,
    caller: &Caller,
    run: &RunId,
    steering: Steering,
) -> Result<JsonResponse<RunView>, Problem> {
    service.runs.steer(&caller.tenant, run, steering).await?;
    Ok(JsonResponse(
        RunView::read(service, caller, run.as_str()).await?,
    ))
}

/// A follow-up of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowUp {
    /// Task for the model.
    #[schema(min_length = 1, max_length = 65_536)]
    task: String,
}

/// Starts a follow-up: a run that continues the end of another one, in its session.
///
/// If the session was not kept, the cells of that run are executed again. If one of them needs approval, the
/// session is new and empty instead. The model gets a note about this.
#[utoipa::path(
    post, path = "/v1/runs/{id}/follow-up", tag = "runs", operation_id = "follow_up_run",
    params(("id" = String, Path, description = "The ended run.")),
    request_body = FollowUp,
    responses((status = 202, description = "The started run.", body = RunView))
)]
pub(super) async fn follow_up(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<FollowUp>,
) -> Result<Response, Problem> {
    go_on_from(&service, &caller, &id, None, Some(asked.task)).await
}

/// A branch of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchFrom {
    /// Last step that the new run keeps.
    #[schema(minimum = 1)]
    step: u32,
    /// Task for the model [default: the task of that run].
    #[schema(min_length = 1, max_length = 65_536)]
    task: Option<String>,
}

/// Starts a branch: a run that continues a step of another one, which stays unchanged.
///
/// The cells up to that step are executed again. If one of them needs approval, the session is new and empty
/// instead.
#[utoipa::path(
    post, path = "/v1/runs/{id}/branch", tag = "runs", operation_id = "branch_run",
    params(("id" = String, Path, description = "The run.")),
    request_body = BranchFrom,
    responses((status = 202, description = "The started run.", body = RunView))
)]
pub(super) async fn branch(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<BranchFrom>,
) -> Result<Response, Problem> {
    go_on_from(&service, &caller, &id, Some(asked.step), asked.task).await
}

/// A run to continue, and the start of the run that does, with the task of that run.
pub(super) async fn start_after(
    service: &Service,
    caller: &Caller,
    id: &str,
    step: Option<u32>,
) -> Result<(RunId, Start), Problem> {
    let runs = &service.runs;
    let recorded = runs.read(&caller.tenant, id).await?;
    if step.is_none() && recorded.run.ending().is_none() {
        let detail = "a follow-up continues from the end of a run";
        return Err(Problem::new(Code::RunNotEnded, detail));
    }
    let start = recorded.run.start().cloned();
    let mut start = start.ok_or_else(|| Problem::internal("a run", "it has no first event"))?;
    // As much again as that run had by its end, and as often asked.
    start.budget = recorded.run.budget().clone();
    let least = runs.options().approvals.policy;
    start.approvals.policy = recorded.run.policy().max(least);
    start.parent = None;
    // The tenant's default, if that run began before there was a minimum.
    let least = service.admission.isolation.get(&caller.tenant);
    start.isolation = start
        .isolation
        .filter(|isolation| least.is_none_or(|least| isolation.is_at_least(least)));
    Ok((recorded.id.clone(), start))
}

async fn go_on_from(
    service: &Arc<Service>,
    caller: &Caller,
    id: &str,
    step: Option<u32>,
    task: Option<String>,
) -> Result<Response, Problem> {
    let runs = &service.runs;
    let (parent, mut start) = start_after(service, caller, id, step).await?;
    if let Some(task) = task {
        check_task(&task)?;
        start.task = task;
    }
    let id = runs.new_id()?;
    let admitted = runs.admit(&caller.tenant, &mut start).await?.for_run(&id);
    let copied = admitted.agent.copy_files(&parent, &start.files).await;
    copied.map_err(fault)?;
    let parent = Some((&parent, step));
    runs.start(admitted, id.clone(), start, parent).await?;
    accepted(service, caller, &id).await
}
