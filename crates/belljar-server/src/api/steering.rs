//! What a person changes of a run that goes on or waits, and runs that go on from others.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::Response;
use belljar_agent::{Policy, Raise, Steering};
use belljar_journal::RunId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::run_create::{BudgetAsked, PolicyAsked, accepted, check_policy, check_task};
use super::run_views::RunView;
use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// Raises parts of the budget of a run, at most to what the service gives. What is not named, or is lower than what
/// the run has, stays as it is.
#[utoipa::path(
    post, path = "/v1/runs/{id}/budget", tag = "runs", operation_id = "raise_budget",
    params(("id" = String, Path, description = "The run.")),
    request_body = BudgetAsked,
    responses((status = 200, description = "The run, with what it may use now.", body = RunView))
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
        let detail = "it names no part of the budget: steps, tokens, money, seconds or calls";
        return Err(Problem::new(Code::BadBody, detail));
    }
    steered(&service, &caller, &run, Steering::Budget(raise)).await
}

/// When a person is to be asked from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetPolicy {
    approvals: PolicyAsked,
}

/// Says when a person is asked in the rest of a run, at least as often as the service wants. What waits for a
/// person waits on.
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
    let recorded = service.runs.read(&caller.tenant, run.as_str()).await?;
    Ok(JsonResponse(RunView::from_recorded(recorded).await?))
}

/// A task for after a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowUp {
    /// What is to be done.
    #[schema(min_length = 1, max_length = 65_536)]
    task: String,
}

/// Starts a run that goes on from the end of another one, in its session, as it was kept; where it was not, the
/// cells of that run are run again, unless a person must approve one of them: then the session is a new one. The model
/// is told what was done.
#[utoipa::path(
    post, path = "/v1/runs/{id}/follow-up", tag = "runs", operation_id = "follow_up_run",
    params(("id" = String, Path, description = "The run, which has ended.")),
    request_body = FollowUp,
    responses((status = 202, description = "The new run, which has begun.", body = RunView))
)]
pub(super) async fn follow_up(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<FollowUp>,
) -> Result<Response, Problem> {
    go_on_from(&service, &caller, &id, None, Some(asked.task)).await
}

/// Another way from a step of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchFrom {
    /// The last of its steps that counts.
    #[schema(minimum = 1)]
    step: u32,
    /// What is to be done; the task of that run, if it is left out.
    #[schema(min_length = 1, max_length = 65_536)]
    task: Option<String>,
}

/// Starts a run that goes on from a step of another one, with the session as it was then: its cells up to there are
/// run again, unless a person must approve one of them: then the session is a new one. That run is left as it is.
#[utoipa::path(
    post, path = "/v1/runs/{id}/branch", tag = "runs", operation_id = "branch_run",
    params(("id" = String, Path, description = "The run.")),
    request_body = BranchFrom,
    responses((status = 202, description = "The new run, which has begun.", body = RunView))
)]
pub(super) async fn branch(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<BranchFrom>,
) -> Result<Response, Problem> {
    go_on_from(&service, &caller, &id, Some(asked.step), asked.task).await
}

async fn go_on_from(
    service: &Arc<Service>,
    caller: &Caller,
    id: &str,
    step: Option<u32>,
    task: Option<String>,
) -> Result<Response, Problem> {
    let runs = &service.runs;
    let recorded = runs.read(&caller.tenant, id).await?;
    if step.is_none() && recorded.run.ending().is_none() {
        let detail = "its follow-up goes on from its end";
        return Err(Problem::new(Code::RunNotEnded, detail));
    }
    let start = recorded.run.start().cloned();
    let mut start = start.ok_or_else(|| Problem::internal("a run", "it has no beginning"))?;
    if let Some(task) = task {
        check_task(&task)?;
        start.task = task;
    }
    // As much again as that run had by its end, and as often asked.
    start.budget = recorded.run.budget().clone();
    let least = runs.options().approvals.policy;
    start.approvals.policy = recorded.run.policy().max(least);
    start.parent = None;
    let parent = recorded.id.clone();
    drop(recorded);
    let admitted = runs.admit(&caller.tenant, &mut start).await?;
    let id = runs.new_id()?;
    let parent = Some((&parent, step));
    runs.start(admitted, id.clone(), start, parent).await?;
    accepted(service, caller, &id).await
}
