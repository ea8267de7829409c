//! `/v1/runs`.

use std::fs::File;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use belljar_agent::{RunError, notebook, page, script};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::cells::last_event;
use super::files::{attachment, check, to_save};
use super::run_views::RunView;
use super::sessions::{Interrupted, Nothing};
use crate::body::{Json, Named, Query};
use crate::problem::{Code, Problem};
use crate::run_stream;
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};

/// Shows a run: its state, pending approvals and result.
#[utoipa::path(
    get, path = "/v1/runs/{id}", tag = "runs", operation_id = "show_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The run.", body = RunView))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<RunView>, Problem> {
    Ok(JsonResponse(RunView::read(&service, &caller, &id).await?))
}

/// Deletes an ended run with its events and files.
///
/// Runs that continue it stay unchanged. Large values that no other run has are deleted as soon as no run of the
/// tenant is running.
#[utoipa::path(
    delete, path = "/v1/runs/{id}", tag = "runs", operation_id = "delete_run",
    params(("id" = String, Path, description = "The ended run.")),
    responses((status = 204, description = "Deleted."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let runs = &service.runs;
    runs.delete(&service.tenants, &caller.tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Streams the events of a run's journal, from the first one or after `Last-Event-ID`, to its end.
///
/// Between them are `reply` and `cell` events without `id`: live output of the model and the code.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", tag = "runs", operation_id = "stream_run",
    params(
        ("id" = String, Path, description = "The run."),
        ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last received event."),
    ),
    responses((status = 200, description = "The later events, numbered by `id`.", body = ref("#/components/schemas/RunEvent"), content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = service.runs.find(&caller.tenant, &id).await?;
    run_stream::stream(run, last_event(&headers)?, &service, &caller).await
}

/// Cancels a run, with the best answer so far.
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 202, description = "The run, which is ending.", body = RunView))
)]
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<(StatusCode, JsonResponse<RunView>), Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    service.runs.cancel(&caller.tenant, &run).await?;
    let view = RunView::read(&service, &caller, &id).await?;
    Ok((StatusCode::ACCEPTED, JsonResponse(view)))
}

/// Interrupts the running cell, like Ctrl-C. The model sees this and continues.
#[utoipa::path(
    post, path = "/v1/runs/{id}/interrupt", tag = "runs", operation_id = "interrupt_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "Whether a cell was running.", body = Interrupted))
)]
pub(super) async fn interrupt(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<JsonResponse<Interrupted>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let interrupted = service.runs.interrupt(&run).await?;
    Ok(JsonResponse(Interrupted { interrupted }))
}

/// Resumes an interrupted run. No effect on a running or waiting one.
#[utoipa::path(
    post, path = "/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 202, description = "The run.", body = RunView))
)]
pub(super) async fn resume(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<(StatusCode, JsonResponse<RunView>), Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let (run, waits) = (recorded.id.clone(), !recorded.run.undecided().is_empty());
    drop(recorded);
    if !waits {
        service.runs.resume(&caller.tenant, &run).await?;
    }
    let view = RunView::read(&service, &caller, &id).await?;
    Ok((StatusCode::ACCEPTED, JsonResponse(view)))
}

/// Downloads an artifact of an ended run.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts/{*path}", tag = "runs", operation_id = "get_artifact",
    params(
        ("id" = String, Path, description = "The run."),
        ("path" = String, Path, description = "`path` of an artifact of the run."),
    ),
    responses((status = 200, description = "The file.", content_type = "application/octet-stream"))
)]
pub(super) async fn artifact(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, path)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    check(&path)?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let (file, size) = open_artifact(&recorded, &path).await?;
    let name = path.rsplit('/').next().unwrap_or(&path);
    let kind = "application/octet-stream";
    Ok(attachment(file, size, name, kind, transfer))
}

/// Opens an artifact of a run; also its size.
pub(super) async fn open_artifact(recorded: &Recorded, path: &str) -> Result<(File, u64), Problem> {
    let dots = path.split('/').any(|part| ["", ".", ".."].contains(&part));
    if dots || path.contains('\0') || path.len() > 4096 {
        let detail = "it is not inside the workspace";
        return Err(Problem::new(Code::BadPath, detail));
    }
    let shown: String = path.chars().take(100).collect();
    let not_found = || {
        let detail = format!("the run has no artifact `{}`", shown.escape_debug());
        Problem::new(Code::FileNotFound, detail)
    };
    // What is not named by the run is not looked for.
    let ending = recorded.run.ending().ok_or_else(not_found)?;
    if !ending.artifacts.iter().any(|made| made.path == path) {
        return Err(not_found());
    }
    let files = recorded.directory.artifact_files(&recorded.id);
    let opened = files.open(ending, path).await;
    let opened = opened.map_err(|error| match error {
        RunError::Journal(_) if error.storage_fault().is_some() => fault(error),
        error => {
            tracing::warn!(%error, "cannot open a file of a run");
            not_found()
        }
    })?;
    let size = opened.metadata().map(|metadata| metadata.len());
    let size = size.map_err(|error| Problem::io("cannot read a file of a run", error))?;
    Ok((opened, size))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportAsked {
    /// Export format [default: notebook].
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// Format of an exported run.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Jupyter notebook.
    #[default]
    Ipynb,
    /// Python script with the code of all cells.
    Py,
    /// HTML page, signed with the `report_key` of `GET /v1/me`.
    Html,
}

/// Exports a run so far as notebook, script or HTML page.
#[utoipa::path(
    get, path = "/v1/runs/{id}/export", tag = "runs", operation_id = "export_run",
    params(("id" = String, Path, description = "The run."), ExportAsked),
    responses((status = 200, description = "The file.", content(
        (String = "application/x-ipynb+json"), (String = "text/x-python"), (String = "text/html"),
    )))
)]
pub(super) async fn export(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<ExportAsked>,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    // It is made in memory.
    let _transfer = service.admission.transfer(&caller.tenant)?;
    let (events, blobs) = (&recorded.events, &recorded.blobs());
    let (text, ending, kind) = match asked.format {
        Format::Ipynb => {
            let text = notebook(events, blobs).await.map(|value| value.to_string());
            (text, "ipynb", "application/x-ipynb+json")
        }
        Format::Py => (script(events, blobs).await, "py", "text/x-python"),
        Format::Html => (
            page(
                &recorded.directory,
                &recorded.id,
                events,
                &service.report_key,
            )
            .await,
            "html",
            "text/html; charset=utf-8",
        ),
    };
    let name = format!("{id}.{ending}");
    Ok(to_save(Body::from(text.map_err(fault)?), &name, kind))
}
