//! `/v1/sessions/{id}/lease`.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session_views::{SessionView, seconds};
use crate::body::{Json, Named};
use crate::label::{Label, LabelChange, LeaseEnd};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// The end of a session's lease.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeaseView {
    /// When the lease ends, in seconds since 1970.
    ends_at: u64,
    then: LeaseEnd,
}

impl LeaseView {
    pub(super) fn from_label(label: &Label) -> Option<Self> {
        let ends_at = seconds(label.expires?);
        let then = label.then;
        Some(Self { ends_at, then })
    }
}

/// A new end of a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveLease {
    /// Seconds from now until the lease ends, at most the service's maximum.
    #[schema(minimum = 1)]
    seconds: u64,
    /// What the session does then [default: end].
    #[serde(default)]
    then: LeaseEnd,
}

/// Moves the end of a session's lease, earlier or later. The session ends then, or hibernates.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/lease", tag = "sessions", operation_id = "move_lease",
    params(("id" = String, Path, description = "The session.")),
    request_body = MoveLease,
    responses((status = 200, description = "The session.", body = SessionView))
)]
pub(super) async fn renew(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<MoveLease>,
) -> Result<JsonResponse<SessionView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    entry.session()?;
    if asked.seconds == 0 {
        return Err(Problem::new(Code::BadBody, "`seconds` must be at least 1"));
    }
    let change = LabelChange {
        ttl_seconds: Some(asked.seconds),
        then: asked.then,
        ..LabelChange::default()
    };
    entry.relabel(change.within(service.options.max_lease)?)?;
    Ok(JsonResponse(SessionView::from_entry(&entry)))
}
