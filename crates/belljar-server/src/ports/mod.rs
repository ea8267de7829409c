//! Ports of sessions, each on a host name of its own ([why](../../../../docs/adr/0048-ports.md)).
//!
//! What is answered here comes from programs in sessions, so it has another origin than the service, and nothing of the
//! service is in reach of it: no cookie, no key, no page.

mod entry;
mod headers;
mod relay;

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};

pub(crate) use relay::FromGuest;

use crate::admission::Permit;
use crate::forward::elsewhere;
use crate::pass_on::pass_on;
use crate::peers::Connection;
use crate::port_access::{PortName, Ports};
use crate::problem::Problem;
use crate::service::{Caller, Service};
use entry::{Entry, Head};

/// Answers a request for a port.
pub(crate) async fn answer(
    service: &Arc<Service>,
    ports: &Ports,
    name: &PortName,
    request: Request,
) -> Response {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let head = Head {
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
    };
    let (caller, entry) = match entry::enter(service, ports, name, head).await {
        Ok(entered) => entered,
        Err(problem) => return problem.into_response(),
    };
    let span = tracing::Span::current();
    span.record("tenant", caller.tenant.as_str());
    span.record("key", &caller.prefix);
    let authenticated = connection.as_ref().map(Connection::authenticate);
    let answered = carry_out(service, ports, (&caller, &entry), name, request).await;
    let (response, permit) = answered.unwrap_or_else(|problem| (problem.into_response(), None));
    match connection {
        // A client that does not take its answer holds a permit.
        Some(connection) => connection.hold(response, (authenticated, permit)),
        None => response,
    }
}

async fn carry_out(
    service: &Arc<Service>,
    ports: &Ports,
    (caller, entry): (&Caller, &Entry),
    name: &PortName,
    request: Request,
) -> Result<(Response, Option<Permit>), Problem> {
    if let Some(node) = elsewhere(service, request.headers(), &name.session).await? {
        let passed_on = Box::pin(pass_on(service, Some(&caller.tenant), &node, request));
        let mut response = passed_on.await?;
        // That node has put its own headers on what is not of the program.
        response.extensions_mut().insert(FromGuest);
        return Ok((response, None));
    }
    // So that a link to somebody else's session sets nothing.
    let session = service.sessions.find(&caller.tenant, &name.session)?;
    if let Entry::Link = entry {
        let head = Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
        };
        return Ok((entry::redirect(ports, name, caller, head), None));
    }
    let permit = service.admission.request(&caller.tenant)?;
    let response = relay::forward(service, caller, &session, name.port, request).await?;
    Ok((response, Some(permit)))
}
