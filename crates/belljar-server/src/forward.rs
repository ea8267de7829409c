//! Requests for what another node of the cluster has: passed on to it.
//!
//! The credentials of the client go along, and the other node checks them as this one did. So a node has no power over
//! another.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt as _;
use axum::body::Body;
use axum::extract::{MatchedPath, OriginalUri, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_journal::NodePlace;
use tokio::io::copy_bidirectional_with_sizes;
use tracing::Instrument as _;

use crate::admission::memory_at_first;
use crate::hop::{is_passed_on, mark, remove_hop_by_hop, upgrade, upgrades, url_at};
use crate::node::is_node_id;
use crate::placement::{Placement, place};
use crate::problem::{Code, Problem};
use crate::requests::{MCP, MCP_CONNECTION};
use crate::service::{Caller, Service};
use crate::tenants::TenantName;

/// How often it is looked whether the other node lives, while its answer is awaited.
const LOOK: Duration = Duration::from_secs(5);

/// When to come again for what a lost node had, in seconds.
const LOST_RETRY: u32 = 5;

/// What is held of each direction of a WebSocket.
const PART: usize = 16 << 10;

/// The requests of `/v1/runs/{id}` that only the node can carry out that drives the run.
const CONTROLS: [&str; 6] = [
    "/cancel",
    "/interrupt",
    "/resume",
    "/budget",
    "/policy",
    "/approvals/{approval}",
];

/// The requests that begin a session or a run.
const BEGINNINGS: [&str; 11] = [
    "/v1/sessions",
    "/v1/sessions/from-snapshot",
    "/v1/runs",
    "/v1/runs/{id}/follow-up",
    "/v1/runs/{id}/branch",
    "/v1/runs/{id}/again",
    "/e2b/sandboxes",
    "/e2b/v2/sandboxes",
    "/jupyter/api/kernels",
    "/openai/v1/containers",
    "/openai/v1/chat/completions",
];

/// Passes a request on if its route or its header names something of another node, or if this one has no room for what it
/// begins.
pub(crate) async fn forward(
    State(service): State<Arc<Service>>,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Response {
    let node = if is_passed_on(request.headers()) {
        Ok(None)
    } else if begins(&request) {
        placed_elsewhere(&service).await
    } else {
        match Named::read(&mut request).await {
            Some(named) => named.node(&service).await,
            None => Ok(None),
        }
    };
    match node {
        Ok(None) => next.run(request).await,
        Ok(Some(node)) => {
            let passed_on = Box::pin(pass_on(&service, Some(&caller.tenant), &node, request)).await;
            passed_on.unwrap_or_else(IntoResponse::into_response)
        }
        Err(problem) => problem.into_response(),
    }
}

/// Whether a request begins a session or a run, on any node. The handlers of two others ask for its place themselves:
/// what they name decides first.
fn begins(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    request.method() == Method::POST && BEGINNINGS.contains(&route)
}

/// The node to which a new session goes, if it is another one.
async fn placed_elsewhere(service: &Service) -> Result<Option<NodePlace>, Problem> {
    let engine = service.engines.first();
    let limit = service.options.session.limits.memory_bytes;
    let memory = memory_at_first(engine.walls(), limit);
    let load = Some(service.admission.load());
    // Nobody needs to be asked where there is room.
    if place(load, &[], memory) == Placement::Here {
        return Ok(None);
    }
    let offers = Box::pin(service.runs.offers()).await?;
    Ok(match place(load, &offers, memory) {
        Placement::Other(node) => Some(node.clone()),
        // Refused here, with the reason.
        Placement::Here | Placement::Nowhere => None,
    })
}

/// The node to which the session goes that a request begins, if it is another one.
pub(crate) async fn begins_elsewhere(
    service: &Service,
    headers: &HeaderMap,
) -> Result<Option<NodePlace>, Problem> {
    if is_passed_on(headers) {
        return Ok(None);
    }
    placed_elsewhere(service).await
}

/// What a request names, if another node may have it.
enum Named {
    /// A session, by whatever id a wire has for it.
    Session(String),
    /// A run, for its driver.
    Run(String),
    /// A connection of the Model Context Protocol.
    Connection(String),
}

impl Named {
    async fn read(request: &mut Request) -> Option<Self> {
        let route = request.extensions().get::<MatchedPath>()?.clone();
        if route.as_str() == MCP {
            let id = request.headers().get(MCP_CONNECTION)?.to_str().ok()?;
            return Some(Self::Connection(id.to_owned()));
        }
        let (kind, rest) = route.as_str().split_once("/{id}")?;
        let parameters = request.extract_parts::<RawPathParams>().await.ok()?;
        let (_, id) = parameters.iter().find(|(name, _)| *name == "id")?;
        let is_post = request.method() == Method::POST;
        match kind {
            "/v1/sessions"
            | "/e2b/sandboxes"
            | "/e2b/v2/sandboxes"
            | "/jupyter/api/kernels"
            | "/jupyter/token/{key}/api/kernels"
            | "/jupyter/api/sessions" => Some(Self::Session(id.to_owned())),
            "/openai/v1/containers" => Some(Self::Session(id.strip_prefix("cntr_")?.to_owned())),
            "/v1/runs" if is_post && CONTROLS.contains(&rest) => Some(Self::Run(id.to_owned())),
            "/openai/v1/responses" if is_post && rest == "/cancel" => {
                Some(Self::Run(id.strip_prefix("resp_")?.to_owned()))
            }
            _ => None,
        }
    }

    /// The other node that has it.
    async fn node(self, service: &Service) -> Result<Option<NodePlace>, Problem> {
        match self {
            Self::Session(id) => node_of(service, &id).await,
            Self::Run(id) => Box::pin(service.runs.driver_elsewhere(&id)).await,
            // Those of a lost node are gone. Here they are not found, and their clients begin anew.
            Self::Connection(id) => match node_of(service, &id).await {
                Err(problem) if problem.code == Code::NodeLost => Ok(None),
                found => found,
            },
        }
    }
}

/// The other node that has what a request names; nothing if it is this one, or if the request was passed on.
pub(crate) async fn elsewhere(
    service: &Service,
    headers: &HeaderMap,
    id: &str,
) -> Result<Option<NodePlace>, Problem> {
    if is_passed_on(headers) {
        return Ok(None);
    }
    node_of(service, id).await
}

/// Every id of a session begins with that of its node, on each wire: those of sandboxes, containers, kernels, notebooks
/// and connections, too.
pub(crate) async fn node_of(service: &Service, id: &str) -> Result<Option<NodePlace>, Problem> {
    let node = id.split_once('-').map(|(node, _)| node);
    let Some(node) = node.filter(|node| is_node_id(node)) else {
        return Ok(None);
    };
    // A future that is larger than the rest.
    match Box::pin(service.runs.find_node(node)).await? {
        Some(Some(place)) => Ok(Some(place)),
        Some(None) => Err(lost(
            node,
            "sessions that were hibernated can be used once it is started again; others are lost",
        )),
        None => Ok(None),
    }
}

/// A node that does not answer, and what can be had of it.
fn lost(node: &str, what: &str) -> Problem {
    let detail = format!("node `{node}` does not run: {what}");
    Problem::new(Code::NodeLost, detail).after(LOST_RETRY)
}

/// What a node may or may not have done.
fn broke_off(node: &str) -> Problem {
    let detail = format!("node `{node}` has the request and gave no answer: see what became of it");
    Problem::new(Code::NodeBrokeOff, detail)
}

/// Passes a request on, and its answer back. It counts as one of its tenant, where the tenant is known; the other node
/// counts it in any case.
pub(crate) async fn pass_on(
    service: &Arc<Service>,
    tenant: Option<&TenantName>,
    node: &NodePlace,
    mut request: Request,
) -> Result<Response, Problem> {
    let permit = tenant.map(|tenant| service.admission.request(tenant));
    let _permit = permit.transpose()?;
    let uri = request.extensions().get::<OriginalUri>();
    let url = url_at(
        &node.address,
        uri.map_or(request.uri(), |original| &original.0),
    )?;
    let client = service.node_clients.get(&url)?;
    let socket = upgrades(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let (had, mut headers) = (parts.headers.clone(), parts.headers);
    remove_hop_by_hop(&mut headers);
    if socket.is_some() {
        upgrade(&mut headers);
    }
    mark(&mut headers);
    let mut sent = client.request(parts.method, url).headers(headers);
    let has_body = ["content-length", "transfer-encoding"]
        .iter()
        .any(|name| had.contains_key(*name));
    if has_body {
        sent = sent.body(reqwest::Body::wrap_stream(body.into_data_stream()));
    }
    let answered = async {
        sent.send().await.map_err(|error| {
            tracing::warn!(%error, node = node.name, "a node cannot be reached");
            if error.is_connect() {
                let what = "its runs are taken over when it has been silent for a lease; retry";
                lost(&node.name, what)
            } else {
                broke_off(&node.name)
            }
        })
    };
    let gone = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Ok(Some(None)) = service.runs.find_node(&node.name).await {
                return broke_off(&node.name);
            }
        }
    };
    let response = tokio::select! {
        answered = answered => answered?,
        problem = gone => return Err(problem),
        () = service.over.cancelled() => return Err(Problem::draining()),
    };
    let status = response.status();
    let mut headers = response.headers().clone();
    remove_hop_by_hop(&mut headers);
    let mut answer = match socket {
        Some(socket) if status == StatusCode::SWITCHING_PROTOCOLS => {
            upgrade(&mut headers);
            let over = service.over.clone();
            let talk = async move {
                if let (Ok(client), Ok(mut node)) = tokio::join!(socket, response.upgrade()) {
                    let mut client = hyper_util::rt::TokioIo::new(client);
                    let talk = copy_bidirectional_with_sizes(&mut client, &mut node, PART, PART);
                    tokio::select! {
                        _ = talk => {}
                        () = over.cancelled() => {}
                    }
                }
            };
            tokio::spawn(talk.in_current_span());
            Response::new(Body::empty())
        }
        _ => Response::new(Body::from_stream(response.bytes_stream())),
    };
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}
