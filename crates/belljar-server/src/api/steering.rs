//! What a person changes of a run that goes on or waits.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use belljar_agent::{Policy, Raise, Steering};
use serde::Deserialize;
use utoipa::ToSchema;

use super::runs::{BudgetAsked, PolicyAsked, RunView, check_policy};
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
) -> Result<Answer<RunView>, Problem> {
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
    let steering = Steering::Budget(raise);
    service.runs.steer(&caller.tenant, &run, steering).await?;
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    Ok(Answer(RunView::of(recorded, &service).await?))
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
) -> Result<Answer<RunView>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let policy = Policy::from(asked.approvals);
    check_policy(policy, &service)?;
    let steering = Steering::Policy(policy);
    service.runs.steer(&caller.tenant, &run, steering).await?;
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    Ok(Answer(RunView::of(recorded, &service).await?))
}
