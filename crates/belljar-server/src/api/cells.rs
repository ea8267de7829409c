//! `/v1/sessions/{id}/cells`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json as JsonResponse};
use belljar_agent::CellNames;
use belljar_sandbox::protocol::CallId;
use belljar_sandbox::{Cell, OnFailure, WhenBusy};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::session_create::within;
use super::session_views::milliseconds;
use super::variables::{VariablesAsked, variables_schema};
use crate::body::{Json, Named};
use crate::cell_record::{CellEnd, CellRecord};
use crate::cells::CellTap;
use crate::charged::SMALL;
use crate::idempotency::Slot;
use crate::problem::{Code, Problem};
use crate::requests::wants_stream;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// A cell to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCell {
    /// Python source code.
    pub(super) code: String,
    /// The namespace that it runs in [default: `main`].
    pub(super) namespace: Option<String>,
    /// Time limit, if shorter than the session's, in milliseconds.
    #[schema(minimum = 1)]
    pub(super) wall_time_ms: Option<u64>,
    /// What to do if another cell is running.
    #[serde(default)]
    pub(super) when_busy: WhenBusyAsked,
    /// What to do with the variables if the cell fails.
    #[serde(default)]
    pub(super) on_failure: OnFailureAsked,
    /// Whether the client answers `input()` and `getpass()` of the cell. If false, they raise `EOFError`.
    #[serde(default)]
    pub(super) input: bool,
    /// Environment variables of this cell alone.
    #[serde(default)]
    #[schema(schema_with = variables_schema)]
    pub(super) variables: VariablesAsked,
}

// Without `Debug`: it may be a password.
/// The answer to a question of a cell: `text` or `eof`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CellInput {
    /// Number of the question: `call.number` of its event.
    number: u32,
    /// The line, without its end. At most 64 KiB. Never logged, and never returned.
    text: Option<String>,
    /// Whether there is no more input, which raises `EOFError`.
    #[serde(default)]
    eof: bool,
}

/// What to do with a new cell if another one is running.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenBusyAsked {
    /// Run it after the other one.
    #[default]
    Wait,
    /// Refuse it with `session_busy`.
    Refuse,
}

/// What to do with the variables if a cell fails.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnFailureAsked {
    /// Keep them as the cell left them.
    #[default]
    Keep,
    /// Restore them to before the cell.
    Restore,
}

/// A running or ended cell.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CellView {
    /// Number of the cell in its session.
    cell: u32,
    state: CellState,
    /// Number of events so far.
    events: u64,
    /// Python source code, if it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Names of the namespace that the code reads before it writes them. Left out if the code does not say them, as with
    /// magics and `exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<Vec<String>>,
    /// Names of the namespace that the code binds, or whose value it changes in place. Imports are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<Vec<String>>,
    /// Outcome, after the end of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = outcome_schema)]
    outcome: Option<Box<RawValue>>,
}

/// State of a cell.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CellState {
    /// Running.
    Running,
    /// Ended, with an outcome.
    Done,
    /// Ended without an outcome: the service failed.
    Failed,
}

pub(super) fn outcome_schema() -> utoipa::openapi::Ref {
    utoipa::openapi::Ref::from_schema_name("Outcome")
}

impl CellView {
    fn from_record(record: &CellRecord) -> Self {
        let (state, outcome) = match record.ended() {
            None => (CellState::Running, None),
            Some(CellEnd::Fault(_)) => (CellState::Failed, None),
            Some(CellEnd::Outcome(json)) => {
                let text = String::from_utf8_lossy(&json).into_owned();
                (CellState::Done, RawValue::from_string(text).ok())
            }
        };
        let names = record.names();
        let lists = |names: CellNames| {
            let [reads, writes] = [names.reads, names.writes].map(Vec::from_iter);
            (reads, writes)
        };
        let (reads, writes) = names.map(lists).unzip();
        Self {
            cell: record.number,
            state,
            events: record.last_event(),
            code: record.code(),
            reads,
            writes,
            outcome,
        }
    }

    fn brief(record: &CellRecord) -> Self {
        Self {
            outcome: None,
            ..Self::from_record(record)
        }
    }
}

/// The cells that a session keeps.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CellList {
    /// Oldest first, without outcomes.
    cells: Vec<CellView>,
}

/// Lists the cells that a session keeps.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/cells", tag = "cells", operation_id = "list_cells",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The cells.", body = CellList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<CellList>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let cells = entry.cells();
    let cells = cells.iter().map(|record| CellView::brief(record)).collect();
    Ok(JsonResponse(CellList { cells }))
}

/// Runs a cell and returns its outcome; with `Accept: text/event-stream`, streams its events.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/cells", tag = "cells", operation_id = "run_cell",
    params(("id" = String, Path, description = "The session.")),
    request_body = RunCell,
    responses(
        (status = 200, description = "The outcome, or the events, numbered by `id`.", content(
            (ref("#/components/schemas/Outcome") = "application/json"),
            (ref("#/components/schemas/Event") = "text/event-stream"),
        )),
    )
)]
pub(super) async fn run(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
    slot: Option<Extension<Arc<Slot>>>,
    Json(asked): Json<RunCell>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let record = begin(&service, &entry, asked).await?;
    if let Some(Extension(slot)) = slot {
        slot.store_cell(&record);
    }
    if wants_stream(&headers) {
        return record.stream(0, &service, &caller);
    }
    Ok(record.answer().await)
}

/// Starts a cell when earlier ones have ended.
pub(super) async fn begin(
    service: &Arc<Service>,
    entry: &Arc<SessionEntry>,
    asked: RunCell,
) -> Result<Arc<CellRecord>, Problem> {
    let mut wall_time = milliseconds(entry.options.limits.wall_time);
    within("wall_time_ms", asked.wall_time_ms, 1, &mut wall_time)?;
    let cell = Cell {
        code: asked.code,
        namespace: asked.namespace,
        wall_time: Some(Duration::from_millis(wall_time)),
        when_busy: match asked.when_busy {
            WhenBusyAsked::Wait => WhenBusy::Wait,
            WhenBusyAsked::Refuse => WhenBusy::Refuse,
        },
        on_failure: match asked.on_failure {
            OnFailureAsked::Keep => OnFailure::Keep,
            OnFailureAsked::Restore => OnFailure::Restore,
        },
        answers: false,
        input: asked.input,
        installs: true,
        exception_characters: None,
        variables: asked.variables.variables()?,
    };
    begin_cell(service, entry, cell, None).await
}

/// The same for a cell as the engine has it.
pub(super) async fn begin_cell(
    service: &Arc<Service>,
    entry: &Arc<SessionEntry>,
    cell: Cell,
    tap: Option<CellTap>,
) -> Result<Arc<CellRecord>, Problem> {
    let session = entry.session()?;
    let permit = service.admission.cell(&entry.tenant)?;
    let code = cell.code.clone();
    let charge = (code.len() > SMALL).then(|| {
        service
            .admission
            .charged
            .charge_or_refuse(&entry.tenant, code.len())
    });
    let permit = (permit, charge.transpose()?);
    let run = session.run(cell);
    // What runs does not keep the session from being deleted.
    drop(session);
    CellRecord::begin(run, code, entry, permit, service, tap).await
}

/// Shows a cell.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/cells/{cell}", tag = "cells", operation_id = "show_cell",
    params(
        ("id" = String, Path, description = "The session."),
        ("cell" = u32, Path, description = "Number of the cell."),
    ),
    responses((status = 200, description = "The cell.", body = CellView))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, cell)): Named<(String, String)>,
) -> Result<JsonResponse<CellView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let record = entry.cell(number(&cell)?)?;
    Ok(JsonResponse(CellView::from_record(&record)))
}

/// Streams the events of a cell, from the first one or after `Last-Event-ID`, to its end.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/cells/{cell}/events", tag = "cells", operation_id = "stream_cell",
    params(
        ("id" = String, Path, description = "The session."),
        ("cell" = u32, Path, description = "Number of the cell."),
        ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last received event."),
    ),
    responses((status = 200, description = "The later events, numbered by `id`.", body = ref("#/components/schemas/Event"), content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, cell)): Named<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let record = entry.cell(number(&cell)?)?;
    record.stream(last_event(&headers)?, &service, &caller)
}

/// Answers a question of a running cell, which its event `input_requested` reported.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/cells/{cell}/input", tag = "cells", operation_id = "answer_input",
    params(
        ("id" = String, Path, description = "The session."),
        ("cell" = u32, Path, description = "Number of the cell."),
    ),
    request_body = CellInput,
    responses((status = 204, description = "Answered."))
)]
pub(super) async fn input(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, cell)): Named<(String, String)>,
    Json(asked): Json<CellInput>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let record = entry.cell(number(&cell)?)?;
    if asked.text.is_some() == asked.eof {
        return Err(Problem::new(Code::BadBody, "give either `text` or `eof`"));
    }
    let question = CallId {
        cell: record.number,
        number: asked.number,
    };
    let answered = entry.session()?.answer_input(question, asked.text).await;
    answered.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The number of the last event that the client has.
pub(super) fn last_event(headers: &HeaderMap) -> Result<u64, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(0);
    };
    let number = value.to_str().ok().and_then(|value| value.parse().ok());
    number.ok_or_else(|| Problem::new(Code::BadHeader, "`Last-Event-ID` must be a number"))
}

/// A non-numeric cell id is "not found".
fn number(text: &str) -> Result<u32, Problem> {
    text.parse()
        .map_err(|_| Problem::new(Code::CellNotFound, "a cell id is a number"))
}
