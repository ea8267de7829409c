//! What all streams of events have in common: how they are rendered and answered.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::problem::{Code, Problem};

/// How often a stream looks whether its key is still good.
pub(crate) const KEY_CHECK: Duration = Duration::from_secs(1);

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
    /// MIME type of the answer.
    const KIND: &'static str = "text/event-stream";

    /// What is to be sent next; none at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Answers with all of it.
    fn answer(self) -> Response {
        let body = Body::from_stream(stream::unfold(self, |mut reader| async move {
            let part = reader.next().await?;
            Some((Ok::<_, std::convert::Infallible>(part), reader))
        }));
        let mut response = body.into_response();
        let kind = HeaderValue::from_static(Self::KIND);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
