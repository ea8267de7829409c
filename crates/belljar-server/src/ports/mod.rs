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

pub(crate) use headers::{remove_hop_by_hop, upgrade, upgrades};
pub(crate) use relay::FromGuest;

use crate::admission::Permit;
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
    let caller = match entry::enter(service, ports, name, head).await {
        Ok(Entry::Caller(caller)) => caller,
        Ok(Entry::Redirect(response)) => return response,
        Err(problem) => return problem.into_response(),
    };
    let span = tracing::Span::current();
    span.record("tenant", caller.tenant.as_str());
    span.record("key", &caller.prefix);
    let authenticated = connection.as_ref().map(Connection::authenticate);
    let answered = carry_out(service, &caller, name, request).await;
    let (response, permit) = answered.unwrap_or_else(|problem| (problem.into_response(), None));
    match connection {
        // A client that does not take its answer holds a permit.
        Some(connection) => connection.hold(response, (authenticated, permit)),
        None => response,
    }
}

async fn carry_out(
    service: &Arc<Service>,
    caller: &Caller,
    name: &PortName,
    request: Request,
) -> Result<(Response, Option<Permit>), Problem> {
    let permit = service.admission.request(&caller.tenant)?;
    let session = service.sessions.find(&caller.tenant, &name.session)?;
    let response = relay::forward(service, caller, &session, name.port, request).await?;
    Ok((response, Some(permit)))
}
