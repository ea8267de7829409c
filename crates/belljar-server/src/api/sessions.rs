//! `/v1/sessions`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use belljar_sandbox::{Engine, Session, SessionOptions, SessionUse};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;
use utoipa::{IntoParams, ToSchema};

use super::session_create::{CreateSession, metadata_schema};
use super::session_views::{SessionView, UseView};
use crate::admission::Permit;
use crate::body::{Json, Named};
use crate::label::{Label, LabelChange};
use crate::new_session::NewSession;
use crate::node::hex;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::tenants::TenantName;

/// Default and maximum number of entries of a page.
const PAGE: usize = 50;
const MAX_PAGE: usize = 200;

/// Requested changes of a session. Omitted fields stay as they are.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateSession {
    /// Name; empty for none.
    #[schema(max_length = 100, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    name: Option<String>,
    /// Metadata, instead of all that there is.
    #[schema(schema_with = metadata_schema)]
    metadata: Option<BTreeMap<String, String>>,
    /// Seconds from now after which the session ends; 0 for never.
    ttl_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageAsked {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

impl PageAsked {
    pub(super) fn new(limit: Option<usize>, cursor: Option<String>) -> Self {
        Self { limit, cursor }
    }

    pub(super) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(PAGE);
        if (1..=MAX_PAGE).contains(&limit) {
            return Ok(limit);
        }
        let detail = format!("`limit` must be from 1 to {MAX_PAGE}");
        Err(Problem::new(Code::BadQuery, detail))
    }

    /// What was put into the cursor.
    pub(super) fn cursor(&self) -> Result<Option<Vec<u8>>, Problem> {
        let decoded = self.cursor.as_ref().map(|cursor| BASE64.decode(cursor));
        decoded.transpose().map_err(|_| no_cursor())
    }
}

pub(super) fn cursor(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn no_cursor() -> Problem {
    Problem::new(Code::BadQuery, "`cursor` is not a cursor of this service")
}

/// Starts a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "create_session",
    request_body = CreateSession,
    responses((status = 201, description = "The session.", body = SessionView))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Json(mut asked): Json<CreateSession>,
) -> Result<Response, Problem> {
    let label = asked.label();
    let entry = start(&service, caller, asked, label).await?;
    Ok(created(&entry))
}

/// Starts a session with a label, within what its tenant may use.
pub(super) async fn start(
    service: &Service,
    caller: Caller,
    asked: CreateSession,
    label: LabelChange,
) -> Result<Arc<SessionEntry>, Problem> {
    let (environment, isolation) = (asked.environment.as_deref(), asked.isolation.as_deref());
    let engine = service.engine(&caller.tenant, environment, isolation)?;
    let label = label.within(service.options.max_lease)?;
    // Its time begins with the session; here it is only checked.
    Label::default().change(label.clone(), SystemTime::now())?;
    let (options, allow) = asked.options(service, engine, &caller.tenant)?;
    let (session, permit) = start_with(service, engine, &caller.tenant, &options).await?;
    let new = NewSession {
        tenant: caller.tenant,
        options,
        allow,
        environment: engine.environment().name().to_owned(),
        isolation: engine.walls(),
        label: Label::default().change(label, SystemTime::now())?,
        forked_from: None,
        cells: 0,
    };
    service.sessions.hold(session, permit, new)
}

/// Starts a session with these options, within what its tenant may use.
pub(super) async fn start_with(
    service: &Service,
    engine: &Engine,
    tenant: &TenantName,
    options: &SessionOptions,
) -> Result<(Session, Permit), Problem> {
    let permit = one_permit(service, engine, tenant, options)?;
    let start = service.start_queue.acquire(tenant).await?;
    let started = engine.session_with(options.clone());
    let session = started.instrument(tracing::info_span!("start_session"));
    let session = session.await?;
    drop(start);
    Ok((session, permit))
}

/// Shows a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(
        ("id" = String, Path, description = "The session."),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of an earlier response; 304 if nothing \
         has changed."),
    ),
    responses(
        (status = 200, description = "The session.", body = SessionView),
        (status = 304, description = "Not modified."),
    )
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let mut view = SessionView::from_entry(&entry);
    let told = serde_json::to_vec(&view);
    let told = told.map_err(|error| Problem::internal("a session", error))?;
    let tag = format!("\"{}\"", hex(&Sha256::digest(&told)[..12]));
    let known = headers.get(header::IF_NONE_MATCH);
    let same = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if same {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        view.in_use = in_use(&entry).await.map(UseView::from);
        JsonResponse(view).into_response()
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Changes name, metadata or time to live of a session.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "update_session",
    params(("id" = String, Path, description = "The session.")),
    request_body = UpdateSession,
    responses((status = 200, description = "The session.", body = SessionView))
)]
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<UpdateSession>,
) -> Result<JsonResponse<SessionView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    entry.session()?;
    let change = LabelChange {
        name: asked.name,
        metadata: asked.metadata,
        ttl_seconds: asked.ttl_seconds,
        ..LabelChange::default()
    };
    entry.relabel(change.within(service.options.max_lease)?)?;
    Ok(JsonResponse(SessionView::from_entry(&entry)))
}

/// Resource use of a session. The kernel counts on request, which is slow with many sessions.
pub(super) async fn in_use(entry: &SessionEntry) -> Option<SessionUse> {
    let session = entry.any_session().ok()?;
    let used = tokio::task::spawn_blocking(move || session.in_use());
    used.await.ok().flatten()
}

/// Deletes a session and ends its processes.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "delete_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 204, description = "Deleted."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.remove(&caller.tenant, &id)?;
    entry.close().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a cell was interrupted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Interrupted {
    /// False if no cell was running.
    pub(super) interrupted: bool,
}

/// Interrupts the running cell, like Ctrl-C; variables are kept.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interrupt", tag = "sessions", operation_id = "interrupt_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "Whether a cell was running.", body = Interrupted))
)]
pub(super) async fn interrupt(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<JsonResponse<Interrupted>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let interrupted = entry.any_session()?.interrupt();
    Ok(JsonResponse(Interrupted { interrupted }))
}

/// A body without fields, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The response to the client that started a session.
pub(super) fn created(entry: &SessionEntry) -> Response {
    let location = HeaderValue::try_from(format!("/v1/sessions/{}", entry.id));
    let view = JsonResponse(SessionView::from_entry(entry));
    let mut response = (StatusCode::CREATED, view).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

pub(super) fn one_permit(
    service: &Service,
    engine: &Engine,
    tenant: &TenantName,
    options: &SessionOptions,
) -> Result<Permit, Problem> {
    let memory = options.limits.memory_bytes;
    let mut permits = service
        .admission
        .sessions(tenant, 1, memory, engine.walls())?;
    permits
        .pop()
        .ok_or_else(|| Problem::internal("no session permit", "there is none"))
}
