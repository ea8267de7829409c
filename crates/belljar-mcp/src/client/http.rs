//! Requests to a server over HTTP, whose answers are bounded.
//!
//! By hand for POST requests, where the library has a client: that one reads a JSON body of any
//! length.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures_util::future::ready;
use futures_util::stream::{BoxStream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use rmcp::model::ServerJsonRpcMessage;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::calls::innermost;
use super::limits::{MAX_MESSAGE, has_too_many_values};
use super::secrets::Secrets;

const SESSION: &str = "Mcp-Session-Id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// The most bytes of a refusal.
const MAX_REFUSAL: usize = 64 << 10;

type Error = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client whose answers have at most [`MAX_MESSAGE`] bytes, and no secrets.
#[derive(Clone)]
pub(super) struct Bounded {
    pub(super) client: reqwest::Client,
    pub(super) secrets: Secrets,
}

impl Bounded {
    async fn post(
        &self,
        url: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut request = self
            .client
            .post(url)
            .header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.json(message).send().await.map_err(failed)?;
        let status = response.status();
        let id = match message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let discovers = matches!(
            message,
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_))
        );
        match (status, id) {
            (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            (StatusCode::NOT_FOUND, _) if session.is_some() => Err(Error::SessionExpired),
            (status, id) if !status.is_success() => {
                refused(response, id, discovers, &self.secrets).await
            }
            // Nobody waits for what it says to a notification.
            (_, None) => Ok(StreamableHttpPostResponse::Accepted),
            (_, Some(id)) => answered(response, id, &self.secrets).await,
        }
    }
}

/// A server that knows no `server/discover` may refuse it in any words; the library then continues with
/// `initialize`, if the refusal is an answer to the request.
async fn refused(
    response: Response,
    id: Option<RequestId>,
    discovers: bool,
    secrets: &Secrets,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let barred = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let refusal = || Error::UnexpectedServerResponse(format!("HTTP {status}").into());
    if barred {
        return Err(refusal());
    }
    let body = body(response, MAX_REFUSAL).await?.unwrap_or_default();
    let body = secrets.scrub(body);
    let said = serde_json::from_slice::<ServerJsonRpcMessage>(&body);
    let error = match said {
        Ok(JsonRpcMessage::Error(error)) => error.error,
        _ if discovers && status.is_client_error() => {
            ErrorData::invalid_request(format!("HTTP {status}"), None)
        }
        _ => return Err(refusal()),
    };
    let error = ServerJsonRpcMessage::error(error, id);
    Ok(StreamableHttpPostResponse::Json(error, None))
}

async fn answered(
    response: Response,
    id: RequestId,
    secrets: &Secrets,
) -> Result<StreamableHttpPostResponse, Error> {
    let header = |name: &str| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let session = header(SESSION);
    let kind = header(CONTENT_TYPE.as_str());
    match kind.as_deref() {
        Some(kind) if kind.starts_with(EVENTS) => Ok(StreamableHttpPostResponse::Sse(
            events(response, id, secrets.clone()),
            session,
        )),
        Some(kind) if kind.starts_with(JSON) => {
            let answer = match body(response, MAX_MESSAGE).await? {
                None => fault(id, &too_long()),
                Some(body) if has_too_many_values(&body) => fault(id, TOO_MANY_VALUES),
                Some(body) => {
                    serde_json::from_slice(&secrets.scrub(body)).unwrap_or_else(|error| {
                        fault(id, &format!("the answer cannot be read: {error}"))
                    })
                }
            };
            Ok(StreamableHttpPostResponse::Json(answer, session))
        }
        _ => Err(Error::UnexpectedContentType(kind)),
    }
}

const TOO_MANY_VALUES: &str = "the server's answer has too many values";

fn too_long() -> String {
    format!(
        "the server's answer has more than {} MiB",
        MAX_MESSAGE >> 20
    )
}

/// The whole body; `None` if it exceeds the limit.
async fn body(mut response: Response, most: usize) -> Result<Option<Vec<u8>>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > most {
            return Ok(None);
        }
        body.extend(chunk);
    }
    Ok(Some(body))
}

/// The events of one answer, all together within the limit of a message. If they exceed it, the
/// request is answered with an error instead.
fn events(
    response: Response,
    id: RequestId,
    secrets: Secrets,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bytes = response.bytes_stream();
    let bounded = bytes.scan(Some(MAX_MESSAGE), |left, chunk| {
        let chunk = left.map(|bytes| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            *left = bytes.checked_sub(chunk.len());
            left.map(|_| chunk)
                .ok_or(io::Error::from(io::ErrorKind::FileTooLarge))
        });
        ready(chunk)
    });
    let events = SseStream::from_bytes_stream(bounded);
    let answered = events.map(move |event| match event {
        Err(SseError::Body(error)) if is_too_long(&*error) => Ok(event_of(&id, &too_long())),
        Ok(event) if too_many(&event) => Ok(event_of(&id, TOO_MANY_VALUES)),
        Ok(event) => Ok(scrubbed(event, &secrets)),
        other => other,
    });
    answered.boxed()
}

fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let error_of_ours = error.downcast_ref::<io::Error>();
        if error_of_ours.is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn scrubbed(mut event: Sse, secrets: &Secrets) -> Sse {
    event.data = event.data.map(|data| secrets.scrub_text(data));
    event
}

fn too_many(event: &Sse) -> bool {
    let data = event.data.as_deref().unwrap_or_default();
    has_too_many_values(data.as_bytes())
}

fn event_of(id: &RequestId, why: &str) -> Sse {
    let message = fault(id.clone(), why);
    Sse::default().data(serde_json::to_string(&message).unwrap_or_default())
}

fn fault(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(why.to_owned(), None), Some(id))
}

/// The innermost cause, which is the most specific; without the URL, which may hold secrets.
fn failed(error: reqwest::Error) -> Error {
    let error = error.without_url();
    Error::Io(io::Error::other(innermost(&error)))
}

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let session = session_id.as_deref();
        self.post(&uri, &message, session, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Error> {
        let client = &self.client;
        client
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let client = &self.client;
        let events = client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                MAX_MESSAGE,
            )
            .await?;
        let few = |event: &Result<Sse, _>| ready(!event.as_ref().is_ok_and(too_many));
        let secrets = self.secrets.clone();
        let events = events.filter(few);
        Ok(events
            .map(move |event| event.map(|event| scrubbed(event, &secrets)))
            .boxed())
    }
}
