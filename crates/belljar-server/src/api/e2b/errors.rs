//! How problems are said on this wire: one function for each of its three forms.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use super::frames::{LAST, frame};
use super::rpc::STREAM;
use crate::api::retold::{Told, render};
use crate::problem::{Code, Problem};

/// Refuses what Belljar does not have.
pub(super) fn not_supported(detail: impl Into<String>) -> Problem {
    Problem::new(Code::NotSupported, detail)
}

fn message(told: &Told) -> String {
    match told.code.as_str() {
        // Clients look for these words.
        "path_denied" => format!("permission denied: {}", told.detail),
        "file_exists" => format!("already exists: {}", told.detail),
        "file_not_found" => format!("{} (the path does not exist)", told.detail),
        "sandbox_not_running" => told.detail.clone(),
        _ => format!("{}: {}", told.title, told.detail),
    }
}

/// `{"code", "message"}`, for the control API and for contents of files.
pub(super) async fn as_status(response: Response) -> Response {
    render(response, |told, status| {
        let status = translated(told, status);
        let body = json!({"code": status.as_u16(), "message": message(told)});
        (status, "application/json", body.to_string().into_bytes())
    })
    .await
}

/// Plain text, for code.
pub(super) async fn as_text(response: Response) -> Response {
    render(response, |told, status| {
        let text = message(told).into_bytes();
        (translated(told, status), "text/plain; charset=utf-8", text)
    })
    .await
}

/// The error of a call, or the last frame of a stream.
pub(super) async fn as_connect(request: Request, next: Next) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let streams = kind.is_some_and(|kind| kind.as_bytes() == STREAM.as_bytes());
    let response = next.run(request).await;
    render(response, |told, status| {
        let (code, status) = connect_code(told, status);
        let error = json!({"code": code, "message": message(told)});
        // Who has no right to be here, or finds nobody, has not begun a stream.
        if streams && status != StatusCode::BAD_GATEWAY && status != StatusCode::UNAUTHORIZED {
            let last = frame(LAST, json!({"error": error}).to_string().as_bytes());
            return (StatusCode::OK, STREAM, last);
        }
        (status, "application/json", error.to_string().into_bytes())
    })
    .await
}

/// The status that clients of this wire expect, where it is not ours.
fn translated(told: &Told, status: StatusCode) -> StatusCode {
    match told.code.as_str() {
        "environment_not_offered" | "session_ended" => StatusCode::NOT_FOUND,
        "file_refused" if told.out_of_space => StatusCode::INSUFFICIENT_STORAGE,
        "namespace_refused" | "file_refused" | "not_regular" | "file_exists" | "file_too_large" => {
            StatusCode::BAD_REQUEST
        }
        _ => status,
    }
}

fn connect_code(told: &Told, status: StatusCode) -> (&'static str, StatusCode) {
    let code = match (told.code.as_str(), status.as_u16()) {
        ("file_exists", _) => "already_exists",
        (_, 401) => "unauthenticated",
        (_, 403) => "permission_denied",
        (_, 404 | 410) => "not_found",
        (_, 408) => "deadline_exceeded",
        (_, 429 | 507) => "resource_exhausted",
        (_, 501) => "unimplemented",
        // A sandbox that is not there, as the SDKs know it.
        (_, 502) => return ("unavailable", StatusCode::BAD_GATEWAY),
        (_, 503) => "unavailable",
        (_, 500..) => "internal",
        _ => "invalid_argument",
    };
    let status = match code {
        "already_exists" => StatusCode::CONFLICT,
        "unauthenticated" => StatusCode::UNAUTHORIZED,
        "permission_denied" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
        "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
        "unimplemented" => StatusCode::NOT_IMPLEMENTED,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "internal" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    (code, status)
}

#[cfg(test)]
mod tests {
    use std::io::{Error as IoError, ErrorKind};

    use axum::response::IntoResponse;
    use belljar_sandbox::{BeneathError, Error};

    use super::*;

    /// A path may have any words in it.
    #[tokio::test]
    async fn only_a_full_workspace_is_out_of_space() {
        for (kind, expected) in [
            (ErrorKind::DirectoryNotEmpty, StatusCode::BAD_REQUEST),
            (ErrorKind::StorageFull, StatusCode::INSUFFICIENT_STORAGE),
        ] {
            let error = BeneathError::Io {
                path: "full of memory".into(),
                source: IoError::from(kind),
            };
            let problem = Problem::from(Error::File(error));
            let response = as_status(problem.into_response()).await;
            assert_eq!(response.status(), expected, "{kind}");
        }
    }
}
