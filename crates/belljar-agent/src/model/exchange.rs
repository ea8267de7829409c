//! One request and its reply over HTTP.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use belljar_protocol::plain;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::draft::Draft;
use super::error::{ModelFault, Phase};
use super::key::ApiKey;
use super::profile::{Timeouts, WireFormat};
use super::sse::{SseEvent, SseReader};
use super::{anthropic, openai, refusal};

/// The most bytes of a streamed reply: some hundred for each token.
const MAX_STREAM: usize = 64 << 20;
/// The most bytes of a reply that is not streamed.
const MAX_WHOLE: usize = 16 << 20;
/// The most bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;
/// The most characters of a server's words that are shown.
const MAX_SAID: usize = 1000;
/// How long is waited for the usage once the reply itself is complete.
const USAGE_WAIT: Duration = Duration::from_secs(5);

/// No wait is longer: a moment further away may not be countable.
const A_YEAR: Duration = Duration::from_hours(365 * 24);

/// What it takes to read a reply.
pub(super) struct Exchange<'a> {
    pub(super) wire: WireFormat,
    pub(super) model: &'a str,
    pub(super) key: Option<&'a ApiKey>,
    pub(super) timeouts: Timeouts,
}

impl Exchange<'_> {
    /// Sends the request and reads the reply into the draft.
    pub(super) async fn run(
        &self,
        request: reqwest::RequestBuilder,
        draft: &mut Draft<'_>,
    ) -> Result<(), ModelFault> {
        let limit = Duration::from_millis(self.timeouts.first_byte_ms).min(A_YEAR);
        let first_byte = Instant::now() + limit;
        let mut response = timeout_at(first_byte, request.send())
            .await
            .map_err(|_| late(Phase::FirstByte, limit))?
            .map_err(|error| self.broken(&error))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response, first_byte).await);
        }
        let first = timeout_at(first_byte, response.chunk())
            .await
            .map_err(|_| late(Phase::FirstByte, limit))?
            .map_err(|error| self.broken(&error))?
            .ok_or_else(|| cut("it has no body"))?;
        // What was asked for doesn't matter: some servers can't stream, some always do.
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            self.read_stream(response, &first, draft).await
        } else {
            self.read_whole(response, &first, draft).await
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        first: &[u8],
        draft: &mut Draft<'_>,
    ) -> Result<(), ModelFault> {
        let mut reader = SseReader::default();
        let mut total = first.len();
        let mut result = reader.push(first, |event| self.event(&event, draft));
        while result.is_ok() && !draft.done {
            match self.next_chunk(&mut response, draft.is_finished()).await {
                // The reply is complete; only its usage or its last mark is missing.
                Err(_) if draft.is_finished() => return Ok(()),
                Err(fault) => return Err(fault),
                Ok(None) => return self.end_of_stream(reader, draft),
                Ok(Some(bytes)) => {
                    total += bytes.len();
                    if total > MAX_STREAM {
                        return Err(too_large(MAX_STREAM));
                    }
                    result = reader.push(&bytes, |event| self.event(&event, draft));
                }
            }
        }
        result
    }

    /// The last event may lack the empty line after it; half an event is a cut.
    fn end_of_stream(&self, reader: SseReader, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
        if let Some(event) = reader.finish()?
            && (event.data.trim() == "[DONE]" || serde_json::from_str::<Value>(&event.data).is_ok())
        {
            self.event(&event, draft)?;
        }
        if draft.done || draft.is_finished() {
            return Ok(());
        }
        Err(cut("the stream ended before the reply did"))
    }

    fn event(&self, event: &SseEvent, draft: &mut Draft<'_>) -> Result<(), ModelFault> {
        let data = event.data.trim();
        if draft.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            draft.done = true;
            return Ok(());
        }
        let value: Value =
            serde_json::from_str(data).map_err(|error| self.unreadable(&error, data))?;
        if event.name == "error" || !value["error"].is_null() {
            return Err(self.classify(0, data, None));
        }
        match self.wire {
            WireFormat::ChatCompletions => openai::read(&value, draft),
            WireFormat::Messages => anthropic::read_event(&value, draft),
        }
    }

    async fn read_whole(
        &self,
        mut response: Response,
        first: &[u8],
        draft: &mut Draft<'_>,
    ) -> Result<(), ModelFault> {
        let mut body = first.to_vec();
        while let Some(bytes) = self.next_chunk(&mut response, false).await? {
            if body.len() + bytes.len() > MAX_WHOLE {
                return Err(too_large(MAX_WHOLE));
            }
            body.extend_from_slice(&bytes);
        }
        let text = String::from_utf8_lossy(&body);
        let value: Value =
            serde_json::from_str(&text).map_err(|error| self.unreadable(&error, &text))?;
        if !value["error"].is_null() {
            return Err(self.classify(0, &text, None));
        }
        let expected = match self.wire {
            WireFormat::ChatCompletions => &value["choices"][0],
            WireFormat::Messages => &value["content"],
        };
        if expected.is_null() {
            return Err(ModelFault::Malformed {
                why: format!("it has no reply in it: {}", self.said(&text)),
            });
        }
        match self.wire {
            WireFormat::ChatCompletions => openai::read(&value, draft),
            WireFormat::Messages => anthropic::read_whole(&value, draft),
        }
    }

    async fn next_chunk(
        &self,
        response: &mut Response,
        finished: bool,
    ) -> Result<Option<impl Deref<Target = [u8]> + use<>>, ModelFault> {
        let idle = Duration::from_millis(self.timeouts.idle_ms);
        let limit = if finished { idle.min(USAGE_WAIT) } else { idle };
        timeout(limit, response.chunk())
            .await
            .map_err(|_| late(Phase::Idle, limit))?
            .map_err(|error| cut(&self.clean(&root(&error))))
    }

    /// A status other than 200.
    async fn refused(&self, mut response: Response, until: Instant) -> ModelFault {
        let status = response.status().as_u16();
        let retry_after = refusal::retry_after(response.headers(), SystemTime::now());
        let mut body = Vec::new();
        // Whatever came of its words in time will do.
        while let Ok(Ok(Some(bytes))) = timeout_at(until, response.chunk()).await {
            body.extend_from_slice(&bytes[..bytes.len().min(MAX_ERROR - body.len())]);
            if body.len() == MAX_ERROR {
                break;
            }
        }
        self.classify(status, &String::from_utf8_lossy(&body), retry_after)
    }

    /// What a server's refusal means. The status is 0 if it came within a reply.
    fn classify(&self, status: u16, body: &str, retry_after: Option<Duration>) -> ModelFault {
        refusal::classify(self.model, status, body, retry_after, |text| {
            self.said(text)
        })
    }

    /// No answer at all.
    fn broken(&self, error: &reqwest::Error) -> ModelFault {
        if error.is_timeout() && error.is_connect() {
            return late(
                Phase::Connect,
                Duration::from_millis(self.timeouts.connect_ms),
            );
        }
        let why = self.clean(&root(error));
        if error.is_connect() {
            ModelFault::Connect { why }
        } else {
            cut(&why)
        }
    }

    fn unreadable(&self, error: &serde_json::Error, text: &str) -> ModelFault {
        ModelFault::Malformed {
            why: format!("{error}: {}", self.said(text)),
        }
    }

    /// A server's words, fit to be shown.
    fn said(&self, text: &str) -> String {
        let text = self.clean(text.trim());
        if text.is_empty() {
            return "(no words)".to_owned();
        }
        let mut short: String = text.chars().take(MAX_SAID).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }

    fn clean(&self, text: &str) -> String {
        let text = self
            .key
            .map_or_else(|| text.to_owned(), |key| key.scrub(text));
        plain(&text).into_owned()
    }
}

fn late(phase: Phase, limit: Duration) -> ModelFault {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ModelFault::Timeout { phase, limit_ms }
}

fn cut(why: &str) -> ModelFault {
    ModelFault::Cut {
        why: why.to_owned(),
    }
}

fn too_large(limit: usize) -> ModelFault {
    ModelFault::TooLarge {
        what: "bytes".to_owned(),
        limit,
    }
}

/// The innermost cause, which says the most; without the address, which may hold secrets.
pub(super) fn root(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    let mut text = "the request failed".to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
