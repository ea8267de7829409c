//! One request and its reply over HTTP.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use belljar_protocol::plain;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::draft::Draft;
use super::error::{ModelFault, Phase};
use super::key::ApiKey;
use super::profile::{Timeouts, WireFormat};
use super::sse::{SseEvent, SseReader};
use super::{anthropic, openai};

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
        let limit = Duration::from_millis(self.timeouts.first_byte_ms);
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
        let retry_after = retry_after(response.headers(), SystemTime::now());
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
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let inner = if value["error"].is_object() {
            &value["error"]
        } else {
            &value
        };
        let status = match inner["code"].as_u64() {
            Some(code) if status == 0 => u16::try_from(code).unwrap_or_default(),
            _ => status,
        };
        let message = [&inner["message"], &value["error"], &inner["detail"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or(body);
        let said = self.said(message);
        let kind = |name: &str| inner[name].as_str().unwrap_or_default();
        let words = format!("{} {} {message}", kind("type"), kind("code")).to_lowercase();
        let has = |marks: &[&str]| marks.iter().any(|mark| words.contains(mark));
        let retry_after_ms =
            retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));

        if status != 429 && has(&CONTEXT_MARKS) {
            ModelFault::ContextTooLong { said }
        } else if has(&FILTER_MARKS) {
            ModelFault::ContentFilter { said }
        } else if status == 402 || has(&QUOTA_MARKS) {
            ModelFault::Quota { said }
        } else if matches!(status, 401 | 403) || has(&AUTH_MARKS) {
            ModelFault::Auth { said }
        } else if has(&["model_not_found"]) || status == 404 && has(&["model"]) {
            ModelFault::NoSuchModel {
                model: self.model.to_owned(),
                said,
            }
        } else if status == 429 || has(&["rate_limit_error", "rate_limit_exceeded"]) {
            ModelFault::RateLimited {
                said,
                retry_after_ms,
            }
        } else if (status >= 500 || status == 408 || has(&OVERLOAD_MARKS)) && !has(&LASTING_MARKS) {
            ModelFault::Overloaded {
                status,
                said,
                retry_after_ms,
            }
        } else {
            ModelFault::BadRequest { status, said }
        }
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

const CONTEXT_MARKS: [&str; 12] = [
    "context_length_exceeded",       // OpenAI
    "maximum context length",        // OpenAI, vLLM
    "context length is only",        // vLLM from 0.16 on
    "longer than the maximum model", // vLLM
    "exceed_context_size",           // llama.cpp
    "exceeds the available context", // llama.cpp
    "exceeds the context window",    // llama.cpp, LM Studio
    "exceeds the model's context",   // Ollama
    "prompt is too long",            // Anthropic
    "exceed context limit",          // Anthropic
    "range of input length",         // DashScope
    "input is too long",             // proxies of these
];
const FILTER_MARKS: [&str; 4] = [
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "datainspectionfailed", // DashScope
];
const QUOTA_MARKS: [&str; 4] = [
    "insufficient_quota",
    "billing_error",
    "arrearage",
    "credit balance is too low",
];
const AUTH_MARKS: [&str; 4] = [
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid api key",
];
/// What llama.cpp says with status 500 though it will say it again.
const LASTING_MARKS: [&str; 3] = ["not supported", "jinja", "failed to parse"];
const OVERLOAD_MARKS: [&str; 5] = [
    "overloaded_error",
    "api_error",
    "server_error",
    "timeout_error",
    "unavailable_error",
];

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
fn root(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    let mut text = "the request failed".to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// When a server wants to be asked again: in milliseconds, in seconds, or at a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let seconds = |text: &str| {
        text.parse()
            .ok()
            .and_then(|count| Duration::try_from_secs_f64(count).ok())
    };
    if let Some(wait) = text("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    let after = text("retry-after")?;
    seconds(after).or_else(|| {
        let date = httpdate::parse_http_date(after).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_retry_after() {
        let now = httpdate::parse_http_date("Sun, 15 Nov 2026 07:00:00 GMT").unwrap();
        let read = |name: &'static str, value: &'static str| {
            retry_after(
                &HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]),
                now,
            )
        };
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(
            read("retry-after-ms", "1500"),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            read("retry-after", "Sun, 15 Nov 2026 07:01:00 GMT"),
            Some(Duration::from_mins(1))
        );
        assert_eq!(
            read("retry-after", "Sun, 15 Nov 2026 06:00:00 GMT"),
            Some(Duration::ZERO)
        );
        for text in ["-1", "soon", "NaN", "1e300", ""] {
            assert_eq!(read("retry-after", text), None, "{text}");
        }
    }

    #[test]
    fn refusals_of_known_servers() {
        let exchange = Exchange {
            wire: WireFormat::ChatCompletions,
            model: "m",
            key: None,
            timeouts: Timeouts::default(),
        };
        let kind = |status: u16, body: &str| {
            let value = serde_json::to_value(exchange.classify(status, body, None)).unwrap();
            value["kind"].as_str().unwrap().to_owned()
        };
        for (status, body, expected) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                "context_too_long",
            ),
            (
                400,
                r#"{"error":{"message":"You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens","type":"BadRequestError","code":400}}"#,
                "context_too_long",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}"#,
                "context_too_long",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200082 tokens > 199999 maximum"}}"#,
                "context_too_long",
            ),
            (
                400,
                r#"{"error":{"code":"invalid_parameter_error","message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error"}}"#,
                "context_too_long",
            ),
            (
                400,
                r#"{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}"#,
                "content_filter",
            ),
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                "auth",
            ),
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                "auth",
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                "no_such_model",
            ),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
                "no_such_model",
            ),
            (404, r#"{"error":"model 'x' not found"}"#, "no_such_model"),
            (404, "404 page not found", "bad_request"),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "quota",
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
                "rate_limited",
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded",
            ),
            (
                503,
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
                "overloaded",
            ),
            (502, "<html>Bad gateway</html>", "overloaded"),
            (
                0,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded",
            ),
            (
                0,
                r#"{"error":{"code":500,"message":"slot failed"}}"#,
                "overloaded",
            ),
            (0, r#"{"error":{"message":"no"}}"#, "bad_request"),
            (
                500,
                r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#,
                "bad_request",
            ),
            (307, "", "bad_request"),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }
}
