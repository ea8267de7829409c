//! Cells as a client sees them: events with numbers, kept within bounds, that any number of readers can
//! read from wherever they are.
//!
//! A reader holds a number and nothing else, so one that does not read costs nothing.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use belljar_agent::{CellNames, cell_names};
use belljar_sandbox::protocol::{Display, Event, Outcome};
use tokio::sync::watch;

use crate::charged::{ChargedBytes, ChargedWriter, IsCharged};
use crate::offload::offload;
use crate::problem::{Code, Problem};
use crate::streams::{self, check_after};
use crate::tenants::TenantName;

/// What is kept of the events of one cell; when there is more, the oldest are given up.
const MAX_CELL_BYTES: usize = 4 << 20;

/// What most events fit in.
const SMALL_EVENT: usize = 512;

/// A cell that runs or has run.
#[derive(Debug)]
pub(crate) struct CellRecord {
    pub(crate) number: u32,
    /// Its source; `None` where the tenant holds as much as it may.
    code: Option<Bytes>,
    /// The names that it reads and writes, as JSON; `None` where the code does not say them.
    names: Option<Bytes>,
    log: Mutex<Log>,
    /// How many events there have been.
    told: watch::Sender<u64>,
    /// Counts what is kept.
    memory: Arc<ChargedBytes>,
    tenant: TenantName,
}

#[derive(Debug, Default)]
struct Log {
    /// Rendered for a stream. The first one has the number `given_up + 1`.
    events: VecDeque<Bytes>,
    bytes: usize,
    given_up: u64,
    end: Option<CellEnd>,
}

/// How a cell ended.
#[derive(Clone, Debug)]
pub(crate) enum CellEnd {
    /// The outcome as JSON.
    Outcome(Bytes),
    /// A fault of ours.
    Fault(Problem),
}

impl CellRecord {
    /// The record of a cell that has begun.
    pub(crate) fn new(
        number: u32,
        code: String,
        memory: Arc<ChargedBytes>,
        tenant: TenantName,
    ) -> Self {
        let keep = |bytes: Vec<u8>| {
            let charge = memory.charge(&tenant, bytes.len())?;
            Some(charge.hold(bytes))
        };
        let names = cell_names(&code).and_then(|names| serde_json::to_vec(&names).ok());
        Self {
            number,
            names: names.and_then(keep),
            code: keep(code.into_bytes()),
            log: Mutex::default(),
            told: watch::Sender::new(0),
            memory,
            tenant,
        }
    }

    /// Waits for the end.
    pub(crate) async fn end(&self) -> CellEnd {
        let mut told = self.told.subscribe();
        loop {
            if let Some(end) = self.log().end.clone() {
                return end;
            }
            // The sender is a part of this.
            let _ = told.changed().await;
        }
    }

    pub(crate) fn ended(&self) -> Option<CellEnd> {
        self.log().end.clone()
    }

    /// How many events there have been.
    pub(crate) fn last_event(&self) -> u64 {
        *self.told.borrow()
    }

    pub(crate) fn bytes(&self) -> usize {
        let log = self.log();
        let outcome = match &log.end {
            Some(CellEnd::Outcome(json)) => json.len(),
            _ => 0,
        };
        let kept = self.code.iter().chain(&self.names);
        log.bytes + outcome + kept.map(Bytes::len).sum::<usize>()
    }

    /// Its source, if it is kept.
    pub(crate) fn code(&self) -> Option<String> {
        let code = self.code.as_deref()?;
        Some(String::from_utf8_lossy(code).into_owned())
    }

    /// The names that it reads and writes, if its code says them.
    pub(crate) fn names(&self) -> Option<CellNames> {
        serde_json::from_slice(self.names.as_deref()?).ok()
    }

    /// Gives up the events of an ended cell, and keeps its outcome. How many bytes that freed.
    pub(crate) fn drop_events(&self) -> usize {
        let mut log = self.log();
        if log.end.is_none() {
            return 0;
        }
        log.events.clear();
        log.given_up = *self.told.borrow();
        std::mem::take(&mut log.bytes)
    }

    /// The answer to who waits for it.
    pub(crate) async fn answer(&self) -> Response {
        match self.end().await {
            CellEnd::Outcome(json) => {
                let mut response = Body::from(json).into_response();
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response.extensions_mut().insert(IsCharged);
                response
            }
            CellEnd::Fault(problem) => problem.into_response(),
        }
    }

    /// The place after an event, to read from.
    pub(crate) fn after(self: &Arc<Self>, after: u64) -> Result<Position, Problem> {
        let (given_up, last) = (self.log().given_up, self.last_event());
        if after < given_up {
            let detail = format!(
                "events up to {given_up} are no longer kept; the cell itself has the outcome"
            );
            return Err(Problem::new(Code::EventsGone, detail));
        }
        check_after(after, last)?;
        Ok(Position {
            record: Arc::clone(self),
            told: self.told.subscribe(),
            after,
        })
    }

    pub(crate) async fn tell(&self, event: Event) {
        let size = match &event {
            Event::Display(display) => size(slice::from_ref(display)),
            Event::Output { text, .. } | Event::InputRequested { prompt: text, .. } => text.len(),
            _ => 0,
        };
        let add = self.add(kind(&event), size, None, move |writer| {
            serde_json::to_writer(writer, &event).map_err(Into::into)
        });
        add.await;
    }

    /// Writes an event of about so many bytes. The last one goes in with the end: who sees the one sees the other.
    pub(crate) async fn add(
        &self,
        kind: &'static str,
        size: usize,
        end: Option<CellEnd>,
        write: impl FnOnce(&mut ChargedWriter) -> io::Result<()> + Send + 'static,
    ) {
        let number = self.last_event() + 1;
        let mut writer = self.memory.writer(&self.tenant, size + SMALL_EVENT);
        let render = move || {
            writer.write_all(streams::event_head(number, kind).as_bytes())?;
            write(&mut writer)?;
            writer.write_all(streams::EVENT_END.as_bytes())?;
            io::Result::Ok(writer.finish())
        };
        let rendered = offload(size, render).await;
        {
            let mut log = self.log();
            if let Ok(rendered) = rendered {
                log.bytes += rendered.len();
                log.events.push_back(rendered);
            } else {
                // Nothing is sent after a gap: the reader requests the outcome.
                *log = Log {
                    given_up: number,
                    ..Log::default()
                };
            }
            while log.bytes > MAX_CELL_BYTES && log.events.len() > 1 {
                let oldest = log.events.pop_front().map_or(0, |event| event.len());
                log.bytes -= oldest;
                log.given_up += 1;
            }
            log.end = end;
        }
        self.told.send_replace(number);
    }

    /// An outcome as JSON that is counted: without displays where the tenant holds as much as it may.
    pub(crate) async fn counted(&self, outcome: Box<Outcome>) -> Result<Bytes, Problem> {
        let text = outcome.stdout.text.len() + outcome.stderr.text.len();
        let size = size(&outcome.displays) + text;
        let (memory, tenant) = (Arc::clone(&self.memory), self.tenant.clone());
        offload(size, move || {
            let mut outcome = outcome;
            let write = |outcome: &Outcome, size: usize| {
                let mut writer = memory.writer(&tenant, size + SMALL_EVENT);
                let written = serde_json::to_writer(&mut writer, outcome);
                written.is_ok().then(|| writer.finish())
            };
            if let Some(json) = write(&outcome, size) {
                return Ok(json);
            }
            let count = std::mem::take(&mut outcome.displays).len();
            if count > 0 {
                outcome.notes.push(format!(
                    "{count} displays: the service holds the maximum of bytes for the tenant"
                ));
            }
            if let Some(json) = write(&outcome, text) {
                return Ok(json);
            }
            // Text within the limits of outputs, which a client waits for.
            let json = serde_json::to_vec(&outcome);
            let json = json.map_err(|error| Problem::internal("cannot write an outcome", error));
            json.map(Into::into)
        })
        .await
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how many bytes displays are as JSON.
fn size(displays: &[Display]) -> usize {
    let parts = displays.iter().flat_map(|display| &display.parts);
    parts
        .map(|part| part.data.len() / 3 * 4 + SMALL_EVENT)
        .sum()
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "started",
        Event::Output { .. } => "output",
        Event::Truncated { .. } => "truncated",
        Event::Display(_) => "display",
        Event::Cleared { .. } => "cleared",
        Event::Called { .. } => "called",
        Event::CallDenied { .. } => "call_denied",
        Event::CallCancelled { .. } => "call_cancelled",
        Event::InputRequested { .. } => "input_requested",
        Event::InputClosed { .. } => "input_closed",
        Event::Denied(_) => "denied",
        Event::Outcome(_) => "outcome",
    }
}

/// Where the whole of a long output is kept on the host is nobody else's business.
pub(crate) fn without_host_paths(outcome: &mut Outcome) {
    for output in [&mut outcome.stdout, &mut outcome.stderr] {
        output.file = None;
        output.file_truncated = false;
    }
}

/// How far somebody is who reads the events of a cell.
#[derive(Debug)]
pub(crate) struct Position {
    record: Arc<CellRecord>,
    told: watch::Receiver<u64>,
    after: u64,
}

impl Position {
    pub(crate) fn cell(&self) -> u32 {
        self.record.number
    }

    /// The next event of a stream; `None` after the last one, and for a reader that was too slow: its
    /// next request is refused.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            {
                let log = self.record.log();
                let index = usize::try_from(self.after.checked_sub(log.given_up)?).ok()?;
                if let Some(event) = log.events.get(index) {
                    self.after += 1;
                    return Some(event.clone());
                }
                if log.end.is_some() {
                    return None;
                }
            }
            let _ = self.told.changed().await;
        }
    }

    /// Whether all has been read.
    pub(crate) fn is_at_the_end(&self) -> bool {
        self.after == self.record.last_event()
    }
}
