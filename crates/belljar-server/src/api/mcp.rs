//! `/mcp`: JSON-RPC over streamable HTTP, whose messages the library `rmcp` reads and writes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::body::{MAX_JSON, Takes, Upload};
use crate::mcp;
use crate::peers::Connection;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

pub(super) async fn handle(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let tenant = &caller.tenant;
    // Until the answer has been taken: a client that does not read holds one.
    let place = if request.method() == Method::GET {
        service.bounds.stream(tenant)?
    } else {
        service.bounds.request(tenant)?
    };
    if service.is_draining() && request.method() != Method::DELETE {
        return Err(draining());
    }
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let (parts, body) = request.into_parts();
    let closes = parts.method == Method::DELETE;
    let upload = Upload::read(&parts.headers, body, Takes::Json, &service, tenant).await?;
    let body = upload.into_bytes();
    let opened = service.mcp.of(&service, &caller).await?;
    let server = if opens(&body) {
        let connection = service.bounds.connection(tenant)?;
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
            return Err(if service.is_draining() { draining() } else { revoked });
        }
    };
    if closes && answer.status() == StatusCode::ACCEPTED {
        // It is done, and clients take the other for a refusal.
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    let answer = answer.map(Body::new);
    Ok(match connection {
        Some(connection) => connection.hold(answer, place),
        None => answer,
    })
}

fn draining() -> Problem {
    let detail = "no new work is taken; what runs goes on for a while";
    Problem::new(Code::Draining, detail).after(5)
}

/// Whether a message opens a connection; read as the library reads it.
fn opens(body: &[u8]) -> bool {
    let Ok(ClientJsonRpcMessage::Request(message)) = serde_json::from_slice(body) else {
        return false;
    };
    matches!(message.request, ClientRequest::InitializeRequest(_))
}
