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

/// Decision about a pending approval.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    /// `hash` of the approval: the decision is only for these bytes.
    hash: String,
    decision: DecisionAsked,
}

/// A person's decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum DecisionAsked {
    /// Approve.
    Accept {
        /// Don't ask again in this run for the same tool or capabilities.
        #[serde(default)]
        rest_of_run: bool,
    },
    /// Run this code instead. The model sees that a person edited it.
    Edit {
        /// Code to run.
        code: String,
    },
    /// Reject with feedback: for the model, or for the code of a call.
    Feedback {
        /// Feedback text.
        text: String,
    },
    /// Reject.
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

/// Decides a pending approval and resumes the run, also after a restart of the service.
#[utoipa::path(
    post, path = "/v1/runs/{id}/approvals/{approval}", tag = "runs", operation_id = "decide_approval",
    params(
        ("id" = String, Path, description = "The run."),
        ("approval" = String, Path, description = "`id` of one of `waits_for`."),
    ),
    request_body = Decide,
    responses((status = 204, description = "The decision is in the journal."))
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

/// Edited code.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditedCode {
    /// The whole code.
    code: String,
}

/// Code in the view of an approval.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EditPreview {
    /// View for a person before the decision.
    #[schema(schema_with = shown_schema)]
    shown: ShownSubject,
}

fn shown_schema() -> Ref {
    Ref::from_schema_name("ShownSubject")
}

/// Previews edited code in the view of an approval. Decides nothing.
#[utoipa::path(
    post, path = "/v1/runs/{id}/approvals/{approval}/preview", tag = "runs", operation_id = "preview_edit",
    params(
        ("id" = String, Path, description = "The run."),
        ("approval" = String, Path, description = "`id` of one of `waits_for`."),
    ),
    request_body = EditedCode,
    responses((status = 200, description = "The view of the code.", body = EditPreview))
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
        let detail = "it was already decided, or is no longer needed";
        return Err(Problem::new(Code::ApprovalNotFound, detail));
    }
    let shown = tokio::task::spawn_blocking(move || ShownSubject::of_code(&edited.code));
    let shown = shown.await;
    let shown = shown.map_err(|error| Problem::internal("a preview", error))?;
    Ok(JsonResponse(EditPreview { shown }))
}
