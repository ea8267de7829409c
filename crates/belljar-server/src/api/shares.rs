//! Share links of a run: made, listed and revoked by its tenant; and what they show to whoever has one.

use std::sync::Arc;

use axum::Extension;
use axum::Json as JsonResponse;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_agent::{Evidence, ExitReason, Spent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run_views::{RunState, evidence_schema, reason_schema, spent_schema};
use super::steps::{StepPage, StepsAsked, page};
use crate::body::{Json, Named, Query};
use crate::credentials::bearer;
use crate::problem::{Code, Problem};
use crate::runs::Recorded;
use crate::service::{Caller, Service};
use crate::tenants::{MAX_SHARES, ShareInfo, Shared};

/// A share link, without its token.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShareView {
    id: String,
    /// The one step that it shows; without it, it shows the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    /// Creation time, in seconds since 1970.
    created_at: i64,
    /// Prefix of the key that made it.
    key: String,
}

impl From<ShareInfo> for ShareView {
    fn from(share: ShareInfo) -> Self {
        Self {
            id: share.id,
            step: share.step,
            created_at: share.created,
            key: share.actor,
        }
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
    /// The one step to show; without it, the link shows the run.
    #[schema(minimum = 1)]
    step: Option<u32>,
}

/// A new share link.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreatedShare {
    /// Its token, not shown again. The page is `/#/shared/TOKEN`.
    token: String,
    #[serde(flatten)]
    share: ShareView,
}

/// Creates a share link: a read-only view of a run, or of one step, for whoever has its token.
///
/// The view has the task, the answer with its evidence, and the steps, as they are when somebody looks. It has no
/// files, and nothing else of the tenant. A link to one step has the task and that step.
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
    if let Some(step) = asked.step
        && !recorded.run.steps().iter().any(|one| one.number == step)
    {
        let detail = format!("the run has no step {step}");
        return Err(Problem::new(Code::StepNotFound, detail));
    }
    let run = recorded.id.clone();
    drop(recorded);
    let made = service
        .tenants
        .share_run(&caller.tenant, run.as_str(), asked.step, &caller.prefix);
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
    /// The one step that the link shows; without it, it shows the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    task: String,
    model: String,
    state: RunState,
    /// Reason of the end; not for a link to a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = reason_schema)]
    reason: Option<ExitReason>,
    /// Answer; not for a link to a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Last output of a run without an answer. It is not an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Evidence of the answer.
    #[schema(schema_with = evidence_schema)]
    evidence: Vec<Evidence>,
    /// Use so far; not for a link to a step.
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
    let is_whole = shared.step.is_none();
    let ending = recorded.run.ending().filter(|_| is_whole).cloned();
    let (mut reason, mut answer, mut last_output) = (None, None, None);
    let mut evidence = Vec::new();
    if let Some(ending) = ending {
        (reason, answer) = (Some(ending.reason), ending.answer);
        (last_output, evidence) = (ending.last_output, ending.evidence);
    }
    Ok(JsonResponse(SharedRun {
        step: shared.step,
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

/// Lists the parsed steps of a shared run, with outcomes of cells; of a link to a step, that step.
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
    let page = page(&recorded, &asked, shared.step).await?;
    Ok(JsonResponse(page))
}
