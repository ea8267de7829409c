//! Input of processes: in one request, or as a stream that is written while it is sent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json as JsonResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::CommandProcess;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::time::Instant;

use super::frames::Frames;
use super::process::{ProcessAsked, Selector};
use super::rpc::{Empty, STREAM, bad, last, message, no_frame, parse, timeout};
use crate::body::Json;
use crate::charged::SMALL;
use crate::listener::Listener;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::KEY_CHECK;

#[derive(Deserialize)]
pub(super) struct InputAsked {
    process: Selector,
    input: Input,
}

/// Bytes for a pipe or a terminal: whichever the process has.
#[derive(Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

/// A message of a stream of input.
#[derive(Deserialize)]
struct StreamPart {
    start: Option<ProcessAsked>,
    data: Option<InputData>,
}

#[derive(Deserialize)]
struct InputData {
    input: Input,
}

impl Input {
    fn bytes(self) -> Result<Vec<u8>, Problem> {
        let encoded = self.stdin.or(self.pty).unwrap_or_default();
        let decoded = BASE64.decode(encoded);
        decoded.map_err(|_| bad("the input is not valid Base64"))
    }
}

/// Writes input. Waits while the program does not read, for as long as its client does.
pub(super) async fn send(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Extension(client): Extension<crate::work::ClientGone>,
    Json(asked): Json<InputAsked>,
) -> Result<JsonResponse<Empty>, Problem> {
    let process = asked.process.find_running(&entry)?;
    let bytes = asked.input.bytes()?;
    tokio::select! {
        written = write(&entry, &process, &bytes) => written?,
        () = client.wait() => return Err(bad("the client disconnected")),
    }
    Ok(JsonResponse(Empty {}))
}

async fn write(
    entry: &SessionEntry,
    process: &CommandProcess,
    bytes: &[u8],
) -> Result<(), Problem> {
    let written = process.write(bytes).await;
    written.map_err(|error| entry.explain(error))
}

pub(super) async fn close(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<ProcessAsked>,
) -> Result<JsonResponse<Empty>, Problem> {
    let process = asked.process.find_running(&entry)?;
    let closed = process.close_input().await;
    closed.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(Empty {}))
}

/// Writes a stream of input, each part as it arrives. It counts as one of the tenant's streams.
pub(super) async fn stream(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    request: Request,
) -> Result<Response, Problem> {
    let mut listener = Listener::new(&service, &caller)?;
    let patience = timeout(request.headers())?;
    let late = || Problem::new(Code::BodyTimeout, "the stream of input took too long");
    let written = write_stream(&service, &entry, &mut listener, request.into_body());
    match patience {
        Some(patience) => {
            let deadline = Instant::now() + patience.max(Duration::from_millis(1));
            let in_time = tokio::time::timeout_at(deadline, written).await;
            in_time.map_err(|_| late())??;
        }
        None => written.await?,
    }
    let answer = [message(&Empty {}), last()].concat();
    let mut response = answer.into_response();
    let kind = HeaderValue::from_static(STREAM);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

async fn write_stream(
    service: &Service,
    entry: &SessionEntry,
    listener: &mut Listener,
    mut body: Body,
) -> Result<(), Problem> {
    let (mut frames, mut process) = (Frames::default(), None);
    loop {
        let Ok(frame) = tokio::time::timeout(KEY_CHECK, body.frame()).await else {
            if !listener.check_key().await {
                return Err(Problem::new(
                    Code::Unauthorized,
                    "the key was revoked meanwhile",
                ));
            }
            continue;
        };
        let Some(frame) = frame else {
            break;
        };
        let frame = frame.map_err(|_| bad("the stream was cut off"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        frames.push(&data);
        let charged = &service.admission.charged;
        // Counted while it is looked at; what is left is less than one message.
        let _charge = (frames.len() > SMALL)
            .then(|| charged.charge_or_refuse(&entry.tenant, frames.len()))
            .transpose()?;
        while let Some(part) = frames.next().map_err(no_frame)? {
            let part: StreamPart = parse(&part)?;
            if let Some(start) = part.start {
                process = Some(start.process.find_running(entry)?);
            }
            if let Some(data) = part.data {
                let process = process.as_ref();
                let process =
                    process.ok_or_else(|| bad("the stream does not begin with `start`"))?;
                write(entry, process, &data.input.bytes()?).await?;
            }
        }
    }
    if process.is_some() && frames.is_empty() {
        return Ok(());
    }
    Err(bad("the stream has no `start`, or ends within a frame"))
}
