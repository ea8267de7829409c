//! What all streams of events have in common: how they are answered, that they end with their key, and that
//! they show signs of life.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::admission::Permit;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// How often a stream looks whether its key is still good.
pub(crate) const KEY_CHECK: Duration = Duration::from_secs(1);

/// A sign of life is sent when nothing else was for so long.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// One who listens to a stream.
pub(crate) struct Listener {
    pub(crate) service: Arc<Service>,
    key: String,
    /// When the key was last looked at.
    checked: Instant,
    /// When something was last sent.
    spoke: Instant,
    _permit: Permit,
}

impl Listener {
    /// Takes a permit for a stream.
    pub(crate) fn new(service: &Arc<Service>, caller: &Caller) -> Result<Self, Problem> {
        Ok(Self {
            _permit: service.admission.stream(&caller.tenant)?,
            service: Arc::clone(service),
            key: caller.prefix.clone(),
            checked: Instant::now(),
            spoke: Instant::now(),
        })
    }

    /// Whether it is time to check if the stream may continue.
    pub(crate) fn is_due(&self) -> bool {
        self.checked.elapsed() >= KEY_CHECK
    }

    /// Whether the key is still good.
    pub(crate) async fn check_key(&mut self) -> bool {
        self.checked = Instant::now();
        self.service.tenants.is_valid(&self.key).await
    }

    /// Something was sent.
    pub(crate) fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    /// What is to be sent now.
    pub(crate) fn say(&mut self, part: Bytes) -> Bytes {
        self.spoke();
        part
    }

    /// A sign of life, if it is time for one.
    pub(crate) fn sign_of_life(&mut self) -> Option<Bytes> {
        let silent = self.spoke.elapsed() >= SIGN_OF_LIFE;
        silent.then(|| self.say(Bytes::from_static(b":\n\n")))
    }
}

/// Refuses to begin after an event that there was not.
pub(crate) fn check_after(after: u64, last: u64) -> Result<(), Problem> {
    if after <= last {
        return Ok(());
    }
    let detail = format!("`Last-Event-ID` is {after}, and the last event is {last}");
    Err(Problem::new(Code::BadHeader, detail))
}

/// One event as a stream has it. JSON has no line ends of its own.
pub(crate) fn event(number: u64, kind: &str, json: &str) -> Bytes {
    format!("{}{json}{EVENT_END}", event_head(number, kind)).into()
}

/// What stands before the JSON of an event, and what after it.
pub(crate) fn event_head(number: u64, kind: &str) -> String {
    format!("id: {number}\nevent: {kind}\ndata: ")
}

pub(crate) const EVENT_END: &str = "\n\n";

/// Number, kind and JSON of an event that was rendered so.
pub(crate) fn parts(event: &[u8]) -> Option<(&str, &str, &str)> {
    let text = std::str::from_utf8(event).ok()?;
    let (number, rest) = text.strip_prefix("id: ")?.split_once("\nevent: ")?;
    let (kind, json) = rest.split_once("\ndata: ")?;
    Some((number, kind, json.trim_end()))
}

/// Somebody who reads events.
pub(crate) trait Reader: Send + Sized + 'static {
    /// What is to be sent next; none at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Answers with all of it.
    fn answer(self) -> Response {
        let body = Body::from_stream(stream::unfold(self, |mut reader| async move {
            let part = reader.next().await?;
            Some((Ok::<_, std::convert::Infallible>(part), reader))
        }));
        let mut response = body.into_response();
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
