//! `/v1/sessions/{id}/notebook`.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::{Json, Named};
use crate::charged::IsCharged;
use crate::notebook::Notebook;
use crate::problem::Problem;
use crate::service::{Caller, Service};

/// The revision of a stored notebook.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NotebookRevision {
    revision: u64,
}

/// Shows the notebook of a session. Does not wake the session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/notebook", tag = "cells", operation_id = "show_notebook",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The notebook; an empty one of revision 0 before the first is stored.", body = Notebook))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let body = Body::from(entry.notebook().json());
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    response.extensions_mut().insert(IsCharged);
    Ok(response)
}

/// Replaces the notebook of a session, if nobody else has since it was read. Runs nothing, and does not wake the session.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/notebook", tag = "cells", operation_id = "store_notebook",
    params(("id" = String, Path, description = "The session.")),
    request_body = Notebook,
    responses((status = 200, description = "Stored.", body = NotebookRevision))
)]
pub(super) async fn store(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<Notebook>,
) -> Result<JsonResponse<NotebookRevision>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    entry.any_session()?;
    let memory = &service.admission.charged;
    let revision = entry.notebook().store(asked, memory, &entry.tenant)?;
    Ok(JsonResponse(NotebookRevision { revision }))
}
