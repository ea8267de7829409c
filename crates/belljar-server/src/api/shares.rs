//! Share links of a run: made, listed and revoked by its tenant; and what they show to whoever has one.

use std::sync::Arc;

use axum::Extension;
use axum::Json as JsonResponse;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_agent::{Doubt, Ending, Evidence, ExitReason, Seen, Spent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run_views::{RunState, evidence_schema, reason_schema, spent_schema};
use super::steps::{StepPage, StepsAsked, page};
use crate::body::{Json, Named, Query};
use crate::credentials::bearer;
use crate::problem::{Code, Problem};
use crate::runs::Recorded;
use crate::service::{Caller, Service};
use crate::tenants::{MAX_SHARES, ShareInfo, Shared, SharedPart};

/// A share link, without its token.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShareView {
    id: String,
    /// The one step that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    /// The one value that it shows: its place in the evidence of the answer, from 1. Without step and value, it shows the
    /// run.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u32>,
    /// Creation time, in seconds since 1970.
    created_at: i64,
    /// Prefix of the key that made it.
    key: String,
}

impl From<ShareInfo> for ShareView {
    fn from(share: ShareInfo) -> Self {
        let (step, value) = step_and_value(share.part);
        Self {
            id: share.id,
            step,
            value,
            created_at: share.created,
            key: share.actor,
        }
    }
}

fn step_and_value(part: SharedPart) -> (Option<u32>, Option<u32>) {
    match part {
        SharedPart::Run => (None, None),
        SharedPart::Step(step) => (Some(step), None),
        SharedPart::Value(value) => (None, Some(value)),
    }
}

/// Share links of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShareList {
    /// Oldest first.
    shares: Vec<ShareView>,
}

/// Lists the share links of a run.
#[utoipa::path(
    get, path = "/v1/runs/{id}/shares", tag = "runs", operation_id = "list_shares",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The links.", body = ShareList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<ShareList>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let tenants = &service.tenants;
    let shares = tenants.shares_of_run(&caller.tenant, run.as_str()).await?;
    let shares = shares.into_iter().map(ShareView::from).collect();
    Ok(JsonResponse(ShareList { shares }))
}

/// A share link to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateShare {
    /// The one step to show; without step and value, the link shows the run.
    #[schema(minimum = 1)]
    step: Option<u32>,
    /// The one value to show: its place in the evidence of the answer, from 1.
    #[schema(minimum = 1)]
    value: Option<u32>,
}

/// A new share link.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreatedShare {
    /// Its token, not shown again. The page is `/#/shared/TOKEN`.
    token: String,
    #[serde(flatten)]
    share: ShareView,
}

/// Creates a share link: a read-only view of a run, a step or a value of the answer, for whoever has its token.
///
/// The view has the task, the answer with its evidence, and the steps, as they are when somebody looks. It has no
/// files, and nothing else of the tenant. A link to one step has the task and that step. A link to one value has the task,
/// the lines of the answer that have the value, its evidence, and the step that computed it.
#[utoipa::path(
    post, path = "/v1/runs/{id}/shares", tag = "runs", operation_id = "create_share",
    params(("id" = String, Path, description = "The run.")),
    request_body = CreateShare,
    responses((status = 201, description = "The link.", body = CreatedShare))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<CreateShare>,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let part = match (asked.step, asked.value) {
        (None, None) => SharedPart::Run,
        (Some(step), None) => {
            if !recorded.run.steps().iter().any(|one| one.number == step) {
                let detail = format!("the run has no step {step}");
                return Err(Problem::new(Code::StepNotFound, detail));
            }
            SharedPart::Step(step)
        }
        (None, Some(value)) => {
            if value_of(&recorded, value).is_none() {
                let detail = format!("the evidence of the answer has no value {value}");
                return Err(Problem::new(Code::ValueNotFound, detail));
            }
            SharedPart::Value(value)
        }
        (Some(_), Some(_)) => {
            let detail = "a link shows either a step or a value; send one of them";
            return Err(Problem::new(Code::BadRequest, detail));
        }
    };
    let run = recorded.id.clone();
    drop(recorded);
    let made = service
        .tenants
        .share_run(&caller.tenant, run.as_str(), part, &caller.prefix);
    let Some((token, share)) = made.await? else {
        let detail = format!("a run can have at most {MAX_SHARES} share links; revoke one");
        return Err(Problem::new(Code::LimitTooHigh, detail));
    };
    let share = share.into();
    let made = JsonResponse(CreatedShare { token, share });
    Ok((StatusCode::CREATED, made).into_response())
}

/// Revokes a share link: it shows nothing from then on.
#[utoipa::path(
    delete, path = "/v1/runs/{id}/shares/{share}", tag = "runs", operation_id = "revoke_share",
    params(
        ("id" = String, Path, description = "The run."),
        ("share" = String, Path, description = "The link."),
    ),
    responses((status = 204, description = "The link is revoked."))
)]
pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, share)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let tenants = &service.tenants;
    let revoked = tenants.revoke_share(&caller.tenant, run.as_str(), &share);
    if revoked.await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(not_found())
}

fn not_found() -> Problem {
    let detail = "the link was revoked, its run was deleted, or there was none";
    Problem::new(Code::ShareNotFound, detail)
}

/// Lets nobody pass without the token of a share link. Responses say nothing of what the tenant may still do.
pub(super) async fn authorize(
    State(service): State<Arc<Service>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(token) = bearer(request.headers()) else {
        let detail = "send `Authorization: Bearer TOKEN` with the token of a share link";
        return Problem::new(Code::Unauthorized, detail).into_response();
    };
    let shared = service.tenants.find_share(token).await;
    match shared {
        Ok(Some(shared)) => {
            // It is charged to the tenant, and has no scope.
            request.extensions_mut().insert(Caller {
                tenant: shared.tenant.clone(),
                prefix: "shared".to_owned(),
                scopes: Vec::new(),
            });
            request.extensions_mut().insert(shared);
            next.run(request).await
        }
        Ok(None) => not_found().into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

async fn read(service: &Service, shared: &Shared) -> Result<Recorded, Problem> {
    let recorded = service.runs.read(&shared.tenant, &shared.run).await;
    recorded.map_err(|problem| match problem.code {
        // Not by its id, which is the tenant's.
        Code::RunNotFound => not_found(),
        _ => problem,
    })
}

/// A run as a share link shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SharedRun {
    /// The one step that the link shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    /// The one value that the link shows, as the answer has it. Without step and value, it shows the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    task: String,
    model: String,
    state: RunState,
    /// Reason of the end; not for a link to a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = reason_schema)]
    reason: Option<ExitReason>,
    /// Answer; not for a link to a step. For a link to a value, the lines that have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Last output of a run without an answer. It is not an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Evidence of the answer.
    #[schema(schema_with = evidence_schema)]
    evidence: Vec<Evidence>,
    /// Use so far; only for a link to a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = spent_schema)]
    spent: Option<Spent>,
}

/// Shows a shared run, to whoever has the token of its link: `Authorization: Bearer TOKEN`.
#[utoipa::path(
    get, path = "/v1/shared", tag = "shared", operation_id = "show_shared", security(("share" = [])),
    responses((status = 200, description = "The run.", body = SharedRun))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Extension(shared): Extension<Shared>,
) -> Result<JsonResponse<SharedRun>, Problem> {
    let recorded = read(&service, &shared).await?;
    let label = service.tenants.run_label(&shared.tenant, &shared.run);
    let title = label.await?.title;
    let start = recorded.run.start().cloned();
    let start = start.ok_or_else(|| Problem::internal("a run", "it has no first event"))?;
    let is_whole = shared.part == SharedPart::Run;
    let (mut reason, mut answer, mut last_output) = (None, None, None);
    let (mut evidence, mut value) = (Vec::new(), None);
    match (shared.part, recorded.run.ending().cloned()) {
        (SharedPart::Run, Some(ending)) => {
            (reason, answer) = (Some(ending.reason), ending.answer);
            (last_output, evidence) = (ending.last_output, ending.evidence);
        }
        (SharedPart::Value(place), _) => {
            let (ending, found) = value_of(&recorded, place).ok_or_else(not_found)?;
            reason = Some(without_others(ending.reason.clone(), &found.value));
            answer = ending
                .answer
                .as_deref()
                .map(|text| lines_with(text, &found.value));
            value = Some(found.value.clone());
            evidence = vec![found.clone()];
        }
        _ => {}
    }
    let (step, _) = step_and_value(shared.part);
    Ok(JsonResponse(SharedRun {
        step,
        value,
        title,
        task: start.task,
        model: start.model,
        state: RunState::from_recorded(&recorded),
        reason,
        answer,
        last_output,
        evidence,
        spent: is_whole.then(|| recorded.run.spent()),
    }))
}

/// A value of the answer by its place in the evidence, from 1.
fn value_of(recorded: &Recorded, place: u32) -> Option<(&Ending, &Evidence)> {
    let ending = recorded.run.ending()?;
    let at = usize::try_from(place).ok()?.checked_sub(1)?;
    Some((ending, ending.evidence.get(at)?))
}

/// The lines of an answer that have a value.
fn lines_with(answer: &str, value: &str) -> String {
    let lines: Vec<&str> = answer.lines().filter(|line| line.contains(value)).collect();
    if lines.is_empty() {
        return value.to_owned();
    }
    lines.join("\n")
}

/// The reason without doubts about other values.
fn without_others(reason: ExitReason, value: &str) -> ExitReason {
    let ExitReason::Unverified { mut doubts } = reason else {
        return reason;
    };
    doubts.retain(|doubt| match doubt {
        Doubt::Unseen { value: other } | Doubt::WrittenInCode { value: other } => other == value,
        _ => true,
    });
    ExitReason::Unverified { doubts }
}

/// Lists the parsed steps of a shared run, with outcomes of cells; of a link to a part, the step of that part.
#[utoipa::path(
    get, path = "/v1/shared/steps", tag = "shared", operation_id = "list_shared_steps",
    security(("share" = [])), params(StepsAsked),
    responses((status = 200, description = "The steps, in order.", body = StepPage))
)]
pub(super) async fn steps(
    State(service): State<Arc<Service>>,
    Extension(shared): Extension<Shared>,
    Query(asked): Query<StepsAsked>,
) -> Result<JsonResponse<StepPage>, Problem> {
    let recorded = read(&service, &shared).await?;
    let _transfer = service.admission.transfer(&shared.tenant)?;
    let only = match shared.part {
        SharedPart::Run => None,
        SharedPart::Step(step) => Some(step),
        SharedPart::Value(place) => {
            let (_, found) = value_of(&recorded, place).ok_or_else(not_found)?;
            match found.seen {
                Some(Seen::Output { step, .. } | Seen::Code { step, .. }) => Some(step),
                // None has this number.
                Some(Seen::Task | Seen::File) | None => Some(0),
            }
        }
    };
    let page = page(&recorded, &asked, only).await?;
    Ok(JsonResponse(page))
}
