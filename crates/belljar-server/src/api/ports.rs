//! `/v1/sessions/{id}/ports/{port}`: how a port of a session is reached.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::Named;
use crate::port_access::PortName;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// How a port of a session is reached.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PortView {
    /// Host name of this port alone, with the port of the service if it has one.
    host: String,
    /// URL of the port, for requests with a credential.
    url: String,
    /// Token for the header `X-Belljar-Port-Token`, valid for this port.
    token: String,
    /// When the token ends, in seconds since 1970.
    token_ends_at: u64,
    /// URL for a browser: sets a cookie of this host name and opens the port.
    link: String,
    /// When the link ends, in seconds since 1970.
    link_ends_at: u64,
}

/// Returns URL, token and link of a port of a session, whether or not a program listens there yet.
///
/// Requests to the URL need the key (`Authorization: Bearer KEY`), the token, or the cookie of the link.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/ports/{port}", tag = "ports", operation_id = "open_port",
    params(
        ("id" = String, Path, description = "The session."),
        ("port" = u16, Path, description = "The port, from 1024 on."),
    ),
    responses((status = 200, description = "How to reach it.", body = PortView))
)]
pub(super) async fn open(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, port)): Named<(String, String)>,
    headers: HeaderMap,
) -> Result<JsonResponse<PortView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let session = entry.session()?;
    let Some(ports) = &service.ports else {
        let detail = "the operator offers ports with `belljar serve --ports-domain`";
        return Err(Problem::new(Code::PortNotOffered, detail));
    };
    let no_port = |_| Problem::new(Code::PortNotOffered, "a port is a number of at most 65535");
    let port = port.parse().map_err(no_port)?;
    session.check_port(port)?;
    let name = PortName { port, session: id };
    let access = ports.access(&name, &caller.prefix, &headers);
    Ok(JsonResponse(PortView {
        host: access.host,
        url: access.url,
        token: access.token,
        token_ends_at: access.token_ends,
        link: access.link,
        link_ends_at: access.link_ends,
    }))
}
