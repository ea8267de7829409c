//! Requests for what another node of the cluster has: passed on to it.
//!
//! The credentials of the client go along, and the other node checks them as this one did. So a node has no power over
//! another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::RequestExt as _;
use axum::body::Body;
use axum::extract::{MatchedPath, OriginalUri, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_journal::{NodeLoad, NodePlace, SessionPlace};
use tokio::io::copy_bidirectional_with_sizes;
use tracing::Instrument as _;

use crate::admission::memory_at_first;
use crate::hop::{is_passed_on, mark, remove_hop_by_hop, upgrade, upgrades, url_at};
use crate::node::is_node_id;
use crate::placement::{Placement, place};
use crate::problem::{Code, Problem};
use crate::requests::{MCP, MCP_CONNECTION};
use crate::runs::fault;
use crate::service::{Caller, Service};
use crate::tenants::TenantName;

/// How often it is looked whether the other node lives, while its answer is awaited.
const LOOK: Duration = Duration::from_secs(5);

/// How long a request waits for a session that leaves this node, and how often it looks.
const LEAVES: Duration = Duration::from_secs(20);
const LEAVING_LOOK: Duration = Duration::from_millis(20);

/// How often a session is looked for that moves meanwhile.
const ATTEMPTS: usize = 4;

const SESSIONS_OF_LOST: &str =
    "sessions that were hibernated can be used once it is started again; others are lost";
const JUST_MOVED: &str = "the session has just moved to another node; retry";

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
    let was_passed_on = is_passed_on(request.headers());
    let node = if begins(&service, &request) {
        begins_elsewhere(&service, request.headers()).await
    } else {
        match Named::read(&mut request).await {
            Some(named) => named.node(&service, was_passed_on).await,
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
fn begins(service: &Service, request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    // Its sessions begin later: a node that is full may have room by then.
    let is_connection = route == MCP && !request.headers().contains_key(MCP_CONNECTION);
    request.method() == Method::POST
        && (BEGINNINGS.contains(&route) || is_connection && service.admission.is_draining())
}

/// Memory of a session with the default options, and what this node has room for: nothing while it is drained.
fn room_here(service: &Service) -> (u64, Option<NodeLoad>) {
    let walls = service.engines.first().walls();
    let memory = memory_at_first(walls, service.options.session.limits.memory_bytes);
    let takes = !service.admission.is_draining();
    (memory, takes.then(|| service.admission.load()))
}

/// Whether this node takes another session.
pub(crate) fn has_room(service: &Service) -> bool {
    let (memory, load) = room_here(service);
    place(load, &[], memory) == Placement::Here
}

/// The node to which a new session goes, if it is another one.
async fn placed_elsewhere(service: &Service) -> Result<Option<NodePlace>, Problem> {
    // Nobody needs to be asked.
    if has_room(service) {
        return Ok(None);
    }
    let offers = Box::pin(service.runs.offers()).await?;
    let (memory, load) = room_here(service);
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

    /// The other node that has it, or is to have it.
    async fn node(
        self,
        service: &Service,
        was_passed_on: bool,
    ) -> Result<Option<NodePlace>, Problem> {
        match self {
            Self::Session(id) => locate(service, &id, was_passed_on).await,
            _ if was_passed_on => Ok(None),
            Self::Run(id) => {
                let driver = Box::pin(service.runs.driver_elsewhere(&id)).await?;
                // A run that waits for a person begins again where the decision arrives.
                if driver.is_none() && service.admission.is_draining() && !service.runs.drives(&id)
                {
                    return placed_elsewhere(service).await;
                }
                Ok(driver)
            }
            // Those of a lost node are gone. Here they are not found, and their clients begin anew.
            Self::Connection(id) => {
                let Some((node, _)) = id.split_once('-').filter(|(node, _)| is_node_id(node))
                else {
                    return Ok(None);
                };
                let place = Box::pin(service.runs.find_node(node)).await?;
                Ok(place.flatten())
            }
        }
    }
}

/// The other node that has what a request names; nothing if it is this one, or if the request was passed on.
pub(crate) async fn elsewhere(
    service: &Service,
    headers: &HeaderMap,
    id: &str,
) -> Result<Option<NodePlace>, Problem> {
    locate(service, id, is_passed_on(headers)).await
}

/// The other node that has a session, by its id on any wire: those of sandboxes, containers, kernels and notebooks begin
/// with the id of their node, too. A session that has left its node and that nobody has is taken over, here or on
/// another node.
pub(crate) async fn locate(
    service: &Service,
    id: &str,
    was_passed_on: bool,
) -> Result<Option<NodePlace>, Problem> {
    let (Some((id, home)), Some(node)) = (session_id(id), service.runs.node()) else {
        return Ok(None);
    };
    for _ in 0..ATTEMPTS {
        wait_while_leaving(service, &id).await;
        if service.sessions.has(&id) {
            return Ok(None);
        }
        // Futures that are larger than the rest.
        let found = Box::pin(node.find_session(&id, home)).await;
        match found.map_err(|error| fault(error.into()))? {
            SessionPlace::Unknown => return Ok(None),
            SessionPlace::Lost(name) => return Err(lost(&name, SESSIONS_OF_LOST)),
            SessionPlace::Home(place) => {
                let is_elsewhere = place.name != node.name() && !was_passed_on;
                return Ok(is_elsewhere.then_some(place));
            }
            SessionPlace::Moved(place) if place.name != node.name() => {
                if was_passed_on {
                    return Err(lost(&place.name, JUST_MOVED));
                }
                return Ok(Some(place));
            }
            SessionPlace::Moved(_) => {}
            SessionPlace::Free if has_room(service) => {}
            SessionPlace::Free => {
                let other = if was_passed_on {
                    None
                } else {
                    placed_elsewhere(service).await?
                };
                if other.is_some() {
                    return Ok(other);
                }
                // It was admitted before, whatever the limits are now.
                if service.admission.is_draining() {
                    return Err(Problem::draining());
                }
            }
        }
        if Box::pin(service.adopt(&node, &id)).await? {
            return Ok(None);
        }
        // Another node was faster, and has it now.
    }
    Err(lost(home, JUST_MOVED))
}

/// The id of a session in one form, and the id of the node that it names. That of a kernel has groups of digits.
fn session_id(id: &str) -> Option<(String, &str)> {
    let (node, rest) = id.split_once('-')?;
    let id = if rest.contains('-') {
        format!("{node}-{}", id.replace('-', ""))
    } else {
        id.to_owned()
    };
    is_node_id(node).then_some((id, node))
}

async fn wait_while_leaving(service: &Service, id: &str) {
    let until = Instant::now() + LEAVES;
    while service.sessions.is_leaving(id) && Instant::now() < until {
        tokio::time::sleep(LEAVING_LOOK).await;
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
