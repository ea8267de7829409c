//! Problems in the form of another wire.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;

use crate::problem::OutOfSpace;

/// The longest problem.
const MAX_PROBLEM: usize = 64 << 10;

/// A problem as `/v1` says it.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    pub(super) code: String,
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) retry: bool,
    /// Whether it is for want of space or memory.
    #[serde(skip)]
    pub(super) out_of_space: bool,
}

/// Writes a response again if it is a problem. Its other headers stay.
pub(super) async fn render(
    response: Response,
    write: impl FnOnce(&Told, StatusCode) -> (StatusCode, &'static str, Vec<u8>),
) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind.as_bytes() != b"application/problem+json") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, MAX_PROBLEM).await.unwrap_or_default();
    let Ok(mut told) = serde_json::from_slice::<Told>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    told.out_of_space = parts.extensions.get::<OutOfSpace>().is_some();
    let (status, kind, body) = write(&told, parts.status);
    parts.status = status;
    let kind = HeaderValue::from_static(kind);
    parts.headers.insert(header::CONTENT_TYPE, kind);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::WWW_AUTHENTICATE);
    Response::from_parts(parts, Body::from(body))
}
