//! The events of a run as a stream, straight from its journal: a reader can begin anywhere, also after the run
//! has ended and after the service was started again.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use belljar_agent::{RunEvent, RunsDirectory};
use belljar_journal::{Entry, Error, Journal, RunId};
use futures_util::{StreamExt as _, stream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::bounds::Place;
use crate::cells::{KEY_CHECK, SIGN_OF_LIFE};
use crate::problem::{Code, Problem};
use crate::runs::for_clients;
use crate::service::{Caller, Service};

/// A stream of the events after one, to the end of the run.
pub(crate) async fn stream(
    (id, directory): (RunId, RunsDirectory),
    after: u64,
    service: &Arc<Service>,
    caller: &Caller,
) -> Result<Response, Problem> {
    let place = service.bounds.stream(&caller.tenant)?;
    let journal = directory.journal();
    let fault = |error| Problem::internal("the journal of a run", error);
    let last = journal.last_seq(&id).await.map_err(fault)?;
    if after > last {
        let detail = format!("`Last-Event-ID` is {after}, and the last event is {last}");
        return Err(Problem::new(Code::BadHeader, detail));
    }
    let newest = journal.read(&id, last - 1, 1).await.map_err(fault)?;
    let is_over = newest.first().is_some_and(|entry| entry.kind == "ended");
    let reader = Reader {
        journal: journal.clone(),
        after,
        over: is_over && after == last,
        parts: None,
        id,
        service: Arc::clone(service),
        key: caller.prefix.clone(),
        checked: Instant::now(),
        spoke: Instant::now(),
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let part = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(part), reader))
    }));
    let mut response = body.into_response();
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Somebody who reads the events of a run.
struct Reader {
    journal: Journal,
    after: u64,
    /// What is heard between events, while the run goes on.
    parts: Option<broadcast::Receiver<Bytes>>,
    id: RunId,
    over: bool,
    service: Arc<Service>,
    key: String,
    /// When the key was last looked at.
    checked: Instant,
    /// When something was last sent.
    spoke: Instant,
    _place: Place,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            if self.checked.elapsed() >= KEY_CHECK {
                let runs = &self.service.runs;
                if runs.has_left(&self.id) || !self.service.tenants.is_valid(&self.key).await {
                    return None;
                }
                self.checked = Instant::now();
            }
            if self.parts.is_none() {
                self.parts = self.service.runs.parts(&self.id);
            }
            let told = tokio::select! {
                biased;
                part = next_part(&mut self.parts) => part,
                entry = next_event(&self.journal, &self.id, self.after) => Some(self.render(entry)?),
                () = tokio::time::sleep(KEY_CHECK) => None,
            };
            if told.is_some() {
                self.spoke = Instant::now();
                return told;
            }
            if self.spoke.elapsed() >= SIGN_OF_LIFE {
                self.spoke = Instant::now();
                return Some(Bytes::from_static(b":\n\n"));
            }
        }
        None
    }

    fn render(&mut self, entry: Result<Entry, Error>) -> Option<Bytes> {
        let rendered = entry.map_err(|error| error.to_string()).and_then(|entry| {
            let (seq, kind) = (entry.seq, entry.kind.as_str());
            self.over = kind == "ended";
            self.after = seq;
            // JSON has no line ends of its own.
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
            Ok(format!("id: {seq}\nevent: {kind}\ndata: {json}\n\n").into())
        });
        let cut = |error| tracing::error!(run = %self.id, error, "a stream was cut");
        rendered.map_err(cut).ok()
    }
}

/// The event after one, once it is there. One at a time: a reader who is slow holds no more than that.
async fn next_event(journal: &Journal, id: &RunId, after: u64) -> Result<Entry, Error> {
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
async fn next_part(parts: &mut Option<broadcast::Receiver<Bytes>>) -> Option<Bytes> {
    let Some(receiver) = parts else {
        return std::future::pending().await;
    };
    match receiver.recv().await {
        Ok(part) => Some(part),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => {
            *parts = None;
            None
        }
    }
}
