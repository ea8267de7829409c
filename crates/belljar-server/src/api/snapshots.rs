//! Snapshots of sessions; hibernating and waking.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use belljar_journal::failpoint;
use belljar_sandbox::SnapshotReport;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::files::attachment;
use super::session_views::SessionView;
use super::sessions::{Nothing, created, one_permit};
use crate::body::{Json, Named, Query, SNAPSHOT, Upload};
use crate::label::Label;
use crate::new_session::NewSession;
use crate::problem::{Code, Problem, disk_full};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Maximum number of omitted names in a response, and of characters about one. The guest decides how
/// many there are.
const MAX_LISTED: usize = 1000;
const MAX_TEXT: usize = 200;

/// Names and files that a snapshot lacks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeftOut {
    /// Size of the snapshot, in bytes.
    bytes: u64,
    /// Names that were not saved. After 1,000 entries, a last one without name has the number of the rest.
    names: Vec<Reason>,
    /// Files that were not saved. After 1,000 entries, as with names.
    files: Vec<Reason>,
}

/// An omitted name or file, with the reason.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Reason {
    name: String,
    /// Namespace of a name, if not `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    why: String,
}

impl From<SnapshotReport> for LeftOut {
    fn from(report: SnapshotReport) -> Self {
        let names = report.names.into_iter();
        let mut names = names.filter_map(|name| {
            let reason = Reason::new(&name.name, &name.why?);
            Some(Reason {
                namespace: name.namespace,
                ..reason
            })
        });
        let mut listed: Vec<_> = names.by_ref().take(MAX_LISTED).collect();
        match names.count() {
            0 => {}
            more => listed.push(Reason::new(
                "",
                &format!("{more} more names were not saved"),
            )),
        }
        let files = report.files_left_out.iter();
        Self {
            bytes: report.bytes,
            names: listed,
            // There are not more of them than are listed.
            files: files
                .map(|file| Reason::new(&file.path, &file.why))
                .collect(),
        }
    }
}

impl Reason {
    fn new(name: &str, why: &str) -> Self {
        let cut = |text: &str| text.chars().take(MAX_TEXT).collect();
        Self {
            name: cut(name),
            namespace: None,
            why: cut(why),
        }
    }
}

/// Downloads a snapshot of a session, which stays live. Waits for a running cell.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/snapshot", tag = "snapshots", operation_id = "download_snapshot",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The snapshot. `Belljar-Left-Out` is the number of omitted names and \
     files; of files, at most 1,001.", content_type = "application/vnd.belljar.snapshot"))
)]
pub(super) async fn download(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let disk = service.runs.disk(&caller.tenant).await?;
    let fault = |error| Problem::io("cannot store a snapshot", error);
    failpoint::fail("spool.snapshot").map_err(fault)?;
    let directory = tempfile::tempdir_in(&service.spool).map_err(fault)?;
    let path = directory.path().join("snapshot");
    let report = session.snapshot(&path).await;
    let report = report.map_err(|error| entry.explain(error))?;
    let names = report.names.iter().filter(|name| name.why.is_some());
    let left_out = names.count() + report.files_left_out.len();
    let space = disk.take(report.bytes).map_err(disk_full)?;
    let file = std::fs::File::open(&path).map_err(fault)?;
    // It has no name from here on.
    drop(directory);
    let name = format!("{}.snapshot", entry.id);
    let mut response = attachment(file, report.bytes, &name, SNAPSHOT, (transfer, space));
    let headers = response.headers_mut();
    headers.insert("belljar-left-out", HeaderValue::from(left_out));
    Ok(response)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LoadAsked {
    /// One of the environments that the service offers.
    environment: Option<String>,
    /// One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
    isolation: Option<String>,
}

/// Starts a session from a snapshot.
#[utoipa::path(
    post, path = "/v1/sessions/from-snapshot", tag = "snapshots", operation_id = "load_snapshot", params(LoadAsked),
    request_body(content = Vec<u8>, content_type = "application/vnd.belljar.snapshot"),
    responses((status = 201, description = "The session.", body = SessionView))
)]
pub(super) async fn load(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<LoadAsked>,
    headers: HeaderMap,
    upload: Upload,
) -> Result<Response, Problem> {
    let kind = headers.get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind.as_bytes() != SNAPSHOT.as_bytes()) {
        let detail = format!("a snapshot has the content type `{SNAPSHOT}`");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let (environment, isolation) = (asked.environment.as_deref(), asked.isolation.as_deref());
    let engine = service.engine(&caller.tenant, environment, isolation)?;
    let options = service.session_options(&caller.tenant);
    let permit = one_permit(&service, engine, &caller.tenant, &options)?;
    let path = upload.path()?;
    let start = service.start_queue.acquire(&caller.tenant).await?;
    let (session, report) = engine.load(&path, options.clone()).await?;
    drop(start);
    let new = NewSession {
        tenant: caller.tenant,
        options,
        allow: Vec::new(),
        environment: engine.environment().name().to_owned(),
        isolation: engine.walls(),
        label: Label::default(),
        forked_from: None,
        cells: report.cells,
    };
    let entry = service.sessions.hold(session, permit, new)?;
    Ok(created(&entry))
}

/// Hibernates a session; its next use wakes it. Waits for a running cell.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/hibernate", tag = "snapshots", operation_id = "hibernate_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The session hibernates. What it will lack when it wakes.", body = LeftOut))
)]
pub(super) async fn hibernate(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<JsonResponse<LeftOut>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let report = hibernate_entry(&service, &entry).await?;
    Ok(JsonResponse(report.into()))
}

pub(super) async fn hibernate_entry(
    service: &Service,
    entry: &SessionEntry,
) -> Result<SnapshotReport, Problem> {
    service.runs.disk(&entry.tenant).await?;
    let report = entry.session()?.hibernate().await;
    report.map_err(|error| entry.explain(error))
}

/// Wakes a hibernated session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/wake", tag = "snapshots", operation_id = "wake_session",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 204, description = "The session is awake."))
)]
pub(super) async fn wake(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let woken = entry.session()?.wake().await;
    woken.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}
