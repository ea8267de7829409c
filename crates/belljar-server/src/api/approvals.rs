//! `/v1/runs/{id}/approvals`.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::StatusCode;
use belljar_agent::{Decision, ShownSubject};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use crate::body::{Json, Named};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// What a person decided.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    /// The hash of what was looked at, as the approval has it: the decision is for these bytes alone.
    hash: String,
    decision: DecisionAsked,
}

/// What a person says.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum DecisionAsked {
    /// Do it.
    Accept {
        /// Don't ask again in this run for a cell with the same capabilities, or for this tool.
        #[serde(default)]
        rest_of_run: bool,
    },
    /// Run this code instead: it is the person's, and the model is told.
    Edit {
        /// The code.
        code: String,
    },
    /// Don't, and tell the model this: for a call, its code.
    Feedback {
        /// In the person's words.
        text: String,
    },
    /// Don't.
    Reject {},
}

impl From<DecisionAsked> for Decision {
    fn from(asked: DecisionAsked) -> Self {
        match asked {
            DecisionAsked::Accept { rest_of_run } => Self::Accept { rest_of_run },
            DecisionAsked::Edit { code } => Self::Edit { code },
            DecisionAsked::Feedback { text } => Self::Feedback { text },
            DecisionAsked::Reject {} => Self::Reject,
        }
    }
}

/// Decides what a run waits for. It goes on, also where the service was started again since it asked.
#[utoipa::path(
    post, path = "/v1/runs/{id}/approvals/{approval}", tag = "runs", operation_id = "decide_approval",
    params(
        ("id" = String, Path, description = "The run."),
        ("approval" = String, Path, description = "One of `waits_for`."),
    ),
    request_body = Decide,
    responses((status = 204, description = "It is in the journal, and holds."))
)]
pub(super) async fn decide(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, approval)): Named<(String, String)>,
    Json(asked): Json<Decide>,
) -> Result<StatusCode, Problem> {
    let which = (approval.as_str(), asked.hash.as_str());
    let decision = asked.decision.into();
    service
        .runs
        .decide(&caller.tenant, &id, which, decision)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Code that a person wants to run instead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditedCode {
    /// All of it.
    code: String,
}

/// Code as an approval would show it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EditPreview {
    /// What a person is to see before running it.
    #[schema(schema_with = shown_schema)]
    shown: ShownSubject,
}

fn shown_schema() -> Ref {
    Ref::from_schema_name("ShownSubject")
}

/// Shows code that a person wants to run instead of what waits, as an approval shows it. Nothing is decided.
#[utoipa::path(
    post, path = "/v1/runs/{id}/approvals/{approval}/preview", tag = "runs", operation_id = "preview_edit",
    params(
        ("id" = String, Path, description = "The run."),
        ("approval" = String, Path, description = "One of `waits_for`."),
    ),
    request_body = EditedCode,
    responses((status = 200, description = "What a person is to see.", body = EditPreview))
)]
pub(super) async fn preview(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, approval)): Named<(String, String)>,
    Json(edited): Json<EditedCode>,
) -> Result<JsonResponse<EditPreview>, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let mut waits = recorded.run.undecided().iter();
    if !waits.any(|asked| asked.id == approval) {
        let detail = "it was decided already, or is not needed any more";
        return Err(Problem::new(Code::ApprovalNotFound, detail));
    }
    let shown = tokio::task::spawn_blocking(move || ShownSubject::of_code(&edited.code));
    let shown = shown.await;
    let shown = shown.map_err(|error| Problem::internal("a preview", error))?;
    Ok(JsonResponse(EditPreview { shown }))
}
