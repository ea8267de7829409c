//! `/mcp`: JSON-RPC over streamable HTTP, whose messages the library `rmcp` reads and writes.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures_util::stream;
use http_body_util::BodyExt as _;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcRequest};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::mpsc;

use crate::admission::Permit;
use crate::body::{BodyResources, MAX_JSON, Takes, Upload};
use crate::charged::SMALL;
use crate::mcp::{self, Unanswered};
use crate::offload::offload;
use crate::peers::Connection;
use crate::problem::{Code, Problem};
use crate::requests::MCP_CONNECTION;
use crate::service::{Caller, Service};

/// Parts of an answer that wait for its client: small ones, and large ones that are counted.
const PARTS: usize = 4;

pub(super) async fn handle(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let tenant = &caller.tenant;
    // Until the answer has been taken: a client that does not read holds one.
    let permit = if request.method() == Method::GET {
        service.admission.stream(tenant)?
    } else {
        service.admission.request(tenant)?
    };
    if service.is_draining() && request.method() != Method::DELETE {
        return Err(Problem::draining());
    }
    let peer = request.extensions().get::<Arc<Connection>>().cloned();
    let (mut parts, body) = request.into_parts();
    // What the library knows a connection by, after the id of this node.
    let own = format!("{}-", service.sessions.node());
    let connection = parts.headers.get(MCP_CONNECTION).and_then(|id| {
        let id = id.to_str().ok()?;
        Some(id.strip_prefix(&own).unwrap_or(id).to_owned())
    });
    if let Some(Ok(id)) = connection.as_ref().map(HeaderValue::try_from) {
        parts.headers.insert(MCP_CONNECTION, id);
    }
    let closes = parts.method == Method::DELETE;
    let upload = Upload::read(&parts.headers, body, Takes::Json, &service, tenant, None).await?;
    let (body, resources) = upload.into_bytes();
    let opened = service.mcp.for_caller(&service, &caller).await?;
    let (asked, body) = offload(body.len(), move || (request_in(&body), body)).await;
    let opens = asked
        .as_ref()
        .is_some_and(|asked| matches!(asked.request, ClientRequest::InitializeRequest(_)));
    let unanswered = match (asked, &connection) {
        (Some(asked), Some(connection)) => Some(opened.ask(connection, asked.id).await?),
        _ => None,
    };
    // Without a connection, a client cancels a request by hanging up.
    let to_end = unanswered.is_some() || opens;
    let server = if opens {
        let connection = service.admission.connection(tenant)?;
        mcp::server(&service, &caller, Some(connection)).await?.0
    } else {
        Arc::clone(&opened.shared)
    };
    let config = StreamableHttpServerConfig::default()
        // Every request has passed the guard, which looks at both.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(usize::try_from(MAX_JSON).unwrap_or(usize::MAX))
        .with_cancellation_token(opened.stop.clone());
    let connections = Arc::clone(&opened.connections);
    let http = StreamableHttpService::new(move || Ok(Arc::clone(&server)), connections, config);
    let mut answer = tokio::select! {
        answer = http.handle(Request::from_parts(parts, Body::from(body))) => answer,
        () = opened.stop.cancelled() => {
            let revoked = Problem::new(Code::Unauthorized, "the key was revoked meanwhile");
            let leaves = service.is_draining() || service.admission.is_draining();
            return Err(if leaves { Problem::draining() } else { revoked });
        }
    };
    let named = answer.headers().get(MCP_CONNECTION);
    let named =
        named.and_then(|id| HeaderValue::try_from(format!("{own}{}", id.to_str().ok()?)).ok());
    if let Some(id) = named {
        answer.headers_mut().insert(MCP_CONNECTION, id);
    }
    if closes && answer.status() == StatusCode::ACCEPTED {
        // It is done, and clients take the other for a refusal.
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    let permit = Arc::new(permit);
    let until = (unanswered, Arc::clone(&permit), resources);
    let answer = answer.map(|body| pass_on(Body::new(body), &caller, &service, to_end, until));
    Ok(match peer {
        Some(peer) => peer.hold(answer, permit),
        None => answer,
    })
}

/// The request that a message is, read as the library reads it.
fn request_in(body: &[u8]) -> Option<JsonRpcRequest<ClientRequest>> {
    match serde_json::from_slice(body) {
        Ok(ClientJsonRpcMessage::Request(message)) => Some(message),
        _ => None,
    }
}

/// Forwards an answer as it arrives. The answer to a request on a connection is read to its end even when the client
/// hangs up, because the library keeps state for an answer that nobody reads. Large parts count against the tenant until
/// the client has them; a part that finds no room ends the answer.
fn pass_on(body: Body, caller: &Caller, service: &Service, to_end: bool, until: Until) -> Body {
    if body
        .size_hint()
        .exact()
        .is_some_and(|size| size <= SMALL as u64)
    {
        return body;
    }
    let (sender, receiver) = mpsc::channel(PARTS);
    let (charged, tenant) = (
        Arc::clone(&service.admission.charged),
        caller.tenant.clone(),
    );
    tokio::spawn(async move {
        let mut sender = Some(sender);
        let mut body = body;
        loop {
            let gone = async {
                match &sender {
                    Some(sender) if !to_end => sender.closed().await,
                    _ => std::future::pending().await,
                }
            };
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = gone => break,
            };
            let Some(Ok(frame)) = frame else {
                break;
            };
            let Ok(part) = frame.into_data() else {
                continue;
            };
            let part = match part.len() {
                ..=SMALL => Some(part),
                large => charged
                    .charge(&tenant, large)
                    .map(|charge| charge.hold(part)),
            };
            sender = match (sender, part) {
                (Some(sender), Some(part)) => {
                    let sent = sender.send(Ok::<_, std::convert::Infallible>(part)).await;
                    sent.is_ok().then_some(sender)
                }
                _ => None,
            };
            if sender.is_none() && !to_end {
                break;
            }
        }
        drop(until);
    });
    Body::from_stream(stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        Some((part, receiver))
    }))
}

/// What lasts until a request is answered.
type Until = (Option<Unanswered>, Arc<Permit>, BodyResources);
