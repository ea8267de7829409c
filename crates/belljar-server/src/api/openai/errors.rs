//! Problems in OpenAI's form.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::api::retold::{Told, render};
use crate::problem::{Code, Problem};

/// Refuses a parameter, or a value of one, that Belljar cannot keep.
pub(super) fn unsupported(parameter: &str, why: &str) -> Problem {
    Problem::new(Code::NotSupported, format!("`{parameter}`: {why}"))
}

/// Refuses a parameter that has a wrong value.
pub(super) fn invalid(parameter: &str, why: &str) -> Problem {
    Problem::new(Code::BadBody, format!("`{parameter}`: {why}"))
}

/// `{"error": {"message", "type", "param", "code"}}`. Clients also learn whether to try again, since they would guess by
/// the status.
pub(super) async fn as_error(response: Response) -> Response {
    let mut again = None;
    let mut response = render(response, |told, status| {
        again = Some(told.retry);
        let (status, body) = error(told, status);
        (status, "application/json", body.to_string().into_bytes())
    })
    .await;
    if let Some(again) = again {
        let again = HeaderValue::from_static(if again { "true" } else { "false" });
        response.headers_mut().insert("x-should-retry", again);
    }
    response
}

fn error(told: &Told, status: StatusCode) -> (StatusCode, Value) {
    let (status, code) = match told.code.as_str() {
        "not_supported" => (StatusCode::BAD_REQUEST, "unsupported_parameter"),
        "unauthorized" => (status, "invalid_api_key"),
        "model_not_offered" => (StatusCode::NOT_FOUND, "model_not_found"),
        // As one that is not there: its lease is over.
        "session_ended" => (StatusCode::NOT_FOUND, "container_expired"),
        "session_not_found" => (status, "container_not_found"),
        "run_not_found" => (status, "response_not_found"),
        code => (status, code),
    };
    let message = match code {
        // The titles are those of `/v1`.
        "unsupported_parameter" | "container_not_found" | "response_not_found" => {
            told.detail.clone()
        }
        _ => format!("{}: {}", told.title, told.detail),
    };
    let kind = match status.as_u16() {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let body = json!({"error": {
        "message": message,
        "type": kind,
        "param": parameter(&told.detail),
        "code": code,
    }});
    (status, body)
}

/// The parameter that a detail begins with, as [`unsupported`] and [`invalid`] write it.
fn parameter(detail: &str) -> Option<&str> {
    let (name, _) = detail.strip_prefix('`')?.split_once("`: ")?;
    (!name.contains('`')).then_some(name)
}

/// An error within a stream, after which nothing comes.
pub(super) fn in_stream(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "server_error", "param": null, "code": code}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_parameter_is_named() {
        assert_eq!(
            parameter(&unsupported("tools", "none").detail),
            Some("tools")
        );
        assert_eq!(
            parameter(&invalid("a.b", "`x` is none").detail),
            Some("a.b")
        );
        for other in ["", "words", "`a` and `b`: no", "`a` is none"] {
            assert_eq!(parameter(other), None, "{other}");
        }
    }
}
