//! Running cells: their events go into a record, and from there to clients.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use belljar_sandbox::CellRun;
use belljar_sandbox::protocol::{Event, Fate, Outcome};
use tokio::sync::mpsc;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::admission::Permit;
use crate::cell_record::{CellEnd, CellRecord, Position, without_host_paths};
use crate::charged::Charge;
use crate::listener::Listener;
use crate::metrics::status_name;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::{KEY_CHECK, Reader};
use crate::tenants::Quota;

/// Who gets the events of a cell as they come, besides the readers of its record. The cell waits for it.
pub(crate) type CellTap = mpsc::Sender<Result<Event, Problem>>;

/// The permit of a cell that runs or waits, and the memory of its code where that is long.
pub(crate) type CellPermit = (Permit, Option<Charge>);

impl CellRecord {
    /// Waits until a cell has begun, and lets its events be kept from then on.
    pub(crate) async fn begin(
        mut run: CellRun,
        code: String,
        entry: &Arc<SessionEntry>,
        permit: CellPermit,
        service: &Arc<Service>,
        tap: Option<CellTap>,
    ) -> Result<Arc<Self>, Problem> {
        let number = match run.next().await {
            Some(Ok(Event::Started { cell })) => cell,
            Some(Ok(_)) | None => {
                return Err(Problem::internal("a cell", "it did not report its start"));
            }
            Some(Err(error)) => return Err(entry.explain(error)),
        };
        let memory = Arc::clone(&service.admission.charged);
        let record = Arc::new(Self::new(number, code, memory, entry.tenant.clone()));
        let tap = Tap(tap);
        tap.tell(|| Ok(Event::Started { cell: number })).await;
        record.tell(Event::Started { cell: number }).await;
        entry.keep(&record);
        tracing::Span::current().record("cell", number);
        let pump = pump(
            run,
            Arc::clone(&record),
            Arc::clone(entry),
            permit,
            Arc::clone(service),
            tap,
        );
        tokio::spawn(pump.in_current_span());
        Ok(record)
    }

    /// A stream of the events after one.
    pub(crate) fn stream(
        self: &Arc<Self>,
        after: u64,
        service: &Arc<Service>,
        caller: &Caller,
    ) -> Result<Response, Problem> {
        let listener = Listener::new(service, caller)?;
        let position = self.after(after)?;
        Ok(CellReader { position, listener }.answer())
    }
}

/// Takes the events of a cell until its end.
async fn pump(
    mut run: CellRun,
    record: Arc<CellRecord>,
    entry: Arc<SessionEntry>,
    permit: CellPermit,
    service: Arc<Service>,
    tap: Tap,
) {
    // Not entered: what is logged here is about the request.
    let span = tracing::info_span!(
        "cell",
        session = entry.id,
        cell = record.number,
        belljar.outcome.status = Empty,
        belljar.outcome.cpu_us = Empty,
        belljar.outcome.duration_us = Empty,
    );
    let sent = entry.any_session().ok();
    let sent = sent.and_then(|session| session.sent_bytes());
    let end = loop {
        match run.next().await {
            Some(Ok(Event::Outcome(outcome))) => break Ok(outcome),
            Some(Ok(event)) => {
                tap.tell(|| Ok(event.clone())).await;
                record.tell(event).await;
            }
            Some(Err(error)) => break Err(entry.explain(error)),
            None => break Err(Problem::internal("a cell", "it ended without an outcome")),
        }
    };
    let mut tapped = None;
    let end = match end {
        Ok(mut outcome) => {
            without_host_paths(&mut outcome);
            tapped = tap.last(&mut outcome);
            if outcome.state == Fate::Lost {
                entry.end_if_lost();
            }
            service.metrics.cell(&outcome);
            span.record("belljar.outcome.status", status_name(outcome.status));
            span.record("belljar.outcome.cpu_us", outcome.durations.cpu_us);
            span.record("belljar.outcome.duration_us", outcome.durations.total_us);
            service.admission.spend_cell(&entry.tenant, &outcome);
            let cpu = Duration::from_micros(outcome.durations.cpu_us);
            entry.commands.cell_charged(cpu);
            tracing::info!(
                status = ?outcome.status,
                duration_us = outcome.durations.total_us,
                "cell ended"
            );
            record.counted(outcome).await
        }
        Err(problem) => Err(problem),
    };
    drop(span);
    let events = record.last_event() + 1;
    let egress = sent.map_or(0, |sent| sent.take());
    let used = [(Quota::Events, events), (Quota::EgressBytes, egress)];
    service.admission.spend(&entry.tenant, &used);
    // Who hears of the end finds the permit free.
    entry.cell_ended();
    drop(permit);
    tap.tell(|| match (&end, tapped) {
        (Ok(_), Some(outcome)) => Ok(Event::Outcome(outcome)),
        (Ok(_), None) => Err(Problem::internal("a cell", "its outcome was not kept")),
        (Err(problem), _) => Err(problem.clone()),
    })
    .await;
    match end {
        Ok(json) => {
            let end = Some(CellEnd::Outcome(json.clone()));
            let add = record.add("outcome", json.len(), end, move |writer| {
                // An outcome is an object: the event is the same with a type.
                writer.write_all(b"{\"type\":\"outcome\",")?;
                writer.write_all(&json[1..])
            });
            add.await;
        }
        Err(problem) => {
            let end = Some(CellEnd::Fault(problem.clone()));
            let add = record.add("fault", 0, end, move |writer| {
                serde_json::to_writer(writer, &problem.body()).map_err(Into::into)
            });
            add.await;
        }
    }
}

struct Tap(Option<CellTap>);

impl Tap {
    async fn tell(&self, event: impl FnOnce() -> Result<Event, Problem>) {
        if let Some(tap) = &self.0 {
            // Nobody may listen any more.
            let _ = tap.send(event()).await;
        }
    }

    /// The outcome without its displays, which were events.
    fn last(&self, outcome: &mut Box<Outcome>) -> Option<Box<Outcome>> {
        self.0.as_ref()?;
        let displays = std::mem::take(&mut outcome.displays);
        let last = outcome.clone();
        outcome.displays = displays;
        Some(last)
    }
}

/// Somebody who reads a stream of the events of a cell.
struct CellReader {
    position: Position,
    listener: Listener,
}

impl Reader for CellReader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            match tokio::time::timeout(KEY_CHECK, self.position.next()).await {
                Ok(event) => return event.map(|event| self.listener.say(event)),
                Err(_) => {
                    if let Some(sign) = self.listener.sign_of_life() {
                        return Some(sign);
                    }
                }
            }
        }
    }
}
