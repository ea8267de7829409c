//! What servers mean when they refuse.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::error::ModelFault;

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

/// What a server's refusal means. The status is 0 if it came within a
/// reply; `show` makes its words fit to be shown.
pub(super) fn classify(
    model: &str,
    status: u16,
    body: &str,
    retry_after: Option<Duration>,
    show: impl Fn(&str) -> String,
) -> ModelFault {
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
    let said = show(message);
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
            model: model.to_owned(),
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

/// When a server wants to be asked again: in milliseconds, in seconds, or at a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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
        let kind = |status: u16, body: &str| {
            let value =
                serde_json::to_value(classify("m", status, body, None, str::to_owned)).unwrap();
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
