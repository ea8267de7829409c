//! Calls by the Connect protocol, in JSON alone: no client of this wire speaks anything else. So one frame, one form of
//! errors and a few bodies are all that there is of it.

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

use super::frames::{FrameError, Frames, LAST, frame};
use crate::body::Upload;
use crate::problem::{Code, Problem};

/// MIME type of a stream.
pub(super) const STREAM: &str = "application/connect+json";

/// The one message of a request whose answer is a stream.
pub(super) struct Framed<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Framed<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let upload = Upload::from_request_parts(parts, state).await?;
        let (bytes, _resources) = upload.into_bytes();
        let mut frames = Frames::default();
        frames.push(&bytes);
        let message = frames.next().map_err(no_frame)?;
        match message {
            Some(message) if frames.is_empty() => parse(&message).map(Self),
            _ => Err(bad("the body must be one frame")),
        }
    }
}

/// A body without fields.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Empty {}

pub(super) fn parse<T: DeserializeOwned>(message: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(message).map_err(|error| bad(&error.to_string()))
}

pub(super) fn no_frame(error: FrameError) -> Problem {
    bad(&error.words())
}

pub(super) fn bad(detail: &str) -> Problem {
    Problem::new(Code::BadRequest, detail)
}

/// A message of a stream.
pub(super) fn message(value: &impl Serialize) -> Bytes {
    let json = serde_json::to_vec(value).unwrap_or_default();
    frame(0, &json).into()
}

/// The end of a stream.
pub(super) fn last() -> Bytes {
    frame(LAST, b"{}").into()
}

/// The end of a stream, with an error.
pub(super) fn last_error(code: &str, message: &str) -> Bytes {
    let error = json!({"error": {"code": code, "message": message}});
    frame(LAST, error.to_string().as_bytes()).into()
}

/// How long the client wants to wait, if it says so.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(value) = headers.get("connect-timeout-ms") else {
        return Ok(None);
    };
    let milliseconds = value.to_str().ok().and_then(|value| value.parse().ok());
    let milliseconds = milliseconds.ok_or_else(|| bad("`Connect-Timeout-Ms` must be a number"))?;
    Ok(Some(Duration::from_millis(milliseconds)))
}
