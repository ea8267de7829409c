//! The events of a run as a stream, straight from its journal: a reader can begin anywhere, also after the run
//! has ended and after the service was started again.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use belljar_agent::{RunEvent, RunsDirectory};
use belljar_journal::{Entry, Error, Journal, RunId, Timestamp};
use futures_util::StreamExt as _;

use crate::listener::Listener;
use crate::problem::Problem;
use crate::runs::{Hearing, for_clients, last_event};
use crate::service::{Caller, Service};
use crate::streams::{self, KEY_CHECK, Reader, check_after};

/// A stream of the events after one, to the end of the run.
pub(crate) async fn stream(
    (id, directory): (RunId, RunsDirectory),
    after: u64,
    service: &Arc<Service>,
    caller: &Caller,
) -> Result<Response, Problem> {
    let listener = Listener::new(service, caller)?;
    let journal = directory.journal();
    let last = last_event(journal, &id).await?;
    check_after(after, last.number)?;
    let reader = RunReader {
        journal: journal.clone(),
        after,
        last: last.number,
        over: last.is_end && after == last.number,
        parts: None,
        // A reader that continues has received it.
        is_new: after == 0,
        id,
        listener,
    };
    Ok(reader.answer())
}

/// Somebody who reads the events of a run.
struct RunReader {
    journal: Journal,
    after: u64,
    /// The last event that there was when this began.
    last: u64,
    /// Live output between events of a running run: earlier output first, then new output.
    parts: Option<Hearing>,
    /// Whether it has not heard what was said before.
    is_new: bool,
    id: RunId,
    over: bool,
    listener: Listener,
}

impl Reader for RunReader {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            let runs = &self.listener.service.runs;
            // What is said now belongs after the events that are there already.
            if self.parts.is_none()
                && self.after >= self.last
                && let Some(parts) = runs.parts(&self.id, self.is_new)
            {
                self.parts = Some(parts);
                // Whoever takes the run up after this is new to all.
                self.is_new = true;
            }
            if self.listener.is_due()
                && (runs.has_left(&self.id) || !self.listener.check_key().await)
            {
                return None;
            }
            let told = tokio::select! {
                biased;
                part = next_part(&mut self.parts) => part,
                entry = next_event(&self.journal, &self.id, self.after) => Some(self.render(entry)?),
                () = tokio::time::sleep(KEY_CHECK) => None,
            };
            if let Some(told) = told {
                return Some(self.listener.say(told));
            }
            if let Some(sign) = self.listener.sign_of_life() {
                return Some(sign);
            }
        }
        None
    }
}

impl RunReader {
    fn render(&mut self, entry: Result<Entry, Error>) -> Option<Bytes> {
        let rendered = entry.map_err(|error| error.to_string()).and_then(|entry| {
            let (seq, kind) = (entry.seq, entry.kind.as_str());
            self.over = kind == "ended";
            self.after = seq;
            let json = match kind {
                "ended" | "model_failed" => {
                    let event = entry.decode::<RunEvent>().and_then(|mut event| {
                        for_clients(&mut event);
                        serde_json::to_string(&event)
                    });
                    event.map_err(|error| error.to_string())?
                }
                _ => entry.body.get().to_owned(),
            };
            Ok(streams::event(seq, kind, &dated(&json, entry.at)))
        });
        let cut = |error| tracing::error!(run = %self.id, error, "stream cut off");
        rendered.map_err(cut).ok()
    }
}

/// An event with the time of its entry, `at`, in milliseconds since 1970: when somebody waited is nowhere else.
fn dated(json: &str, at: Timestamp) -> String {
    let members = json.strip_prefix('{').unwrap_or(json);
    format!("{{\"at\":{},{members}", at.0 / 1000)
}

/// The event after one, once it is there. One at a time: a reader who is slow holds no more than that.
pub(crate) async fn next_event(journal: &Journal, id: &RunId, after: u64) -> Result<Entry, Error> {
    if let Some(entry) = journal.read(id, after, 1).await?.pop() {
        return Ok(entry);
    }
    let mut tail = journal.tail(id, after);
    match tail.next().await {
        Some(entry) => entry,
        None => Err(Error::UnknownRun(id.clone())),
    }
}

/// What is heard next; never where nothing is to be heard.
async fn next_part(parts: &mut Option<Hearing>) -> Option<Bytes> {
    let Some(hearing) = parts else {
        return std::future::pending().await;
    };
    let part = hearing.next().await;
    if part.is_none() {
        *parts = None;
    }
    part
}
