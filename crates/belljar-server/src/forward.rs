//! Requests for what another node of the cluster has: passed on to it.
//!
//! The credentials of the client go along, and the other node checks them as this one did. So a node has no power over
//! another.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_journal::{NodeLoad, NodePlace, SessionPlace};

use crate::admission::memory_at_first;
use crate::hop::is_passed_on;
use crate::key_nodes::KeyedRequest;
use crate::node::is_node_id;
use crate::pass_on::{PassedOn, lost, pass_on, request_permit, try_to_pass_on, unreached};
use crate::placement::{Placement, place};
use crate::problem::Problem;
use crate::requests::{MCP, MCP_CONNECTION, takes};
use crate::runs::fault;
use crate::service::{Caller, Service};
use crate::tenants::TenantName;

/// How long a request waits for a session that leaves this node, and how often it looks.
const LEAVES: Duration = Duration::from_secs(20);
const LEAVING_LOOK: Duration = Duration::from_millis(20);

/// How long a node is looked for that can be connected to, for what begins on another one.
const PLACING: Duration = Duration::from_secs(10);

/// How often a session is looked for that moves meanwhile.
const ATTEMPTS: usize = 4;

const SESSIONS_OF_LOST: &str =
    "sessions that were hibernated can be used once it is started again; others are lost";
const JUST_MOVED: &str = "the session has just moved to another node; retry";

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
    let tenant = Some(&caller.tenant);
    if let Err(problem) = refuse_large(&service, &request) {
        return problem.into_response();
    }
    if begins(&service, &request) {
        let begun = Box::pin(begin(&service, tenant, request, next)).await;
        return begun.unwrap_or_else(IntoResponse::into_response);
    }
    let was_passed_on = is_passed_on(request.headers());
    let node = match Named::read(&mut request).await {
        Some(named) => named.node(&service, was_passed_on).await,
        None => Ok(None),
    };
    match node {
        Ok(None) => next.run(request).await,
        Ok(Some(node)) => {
            let passed_on = Box::pin(pass_on(&service, tenant, &node, request)).await;
            passed_on.unwrap_or_else(IntoResponse::into_response)
        }
        Err(problem) => problem.into_response(),
    }
}

/// Refuses a body that is too large for its route before any of it is passed on: the other node would not read it, and its
/// refusal might be lost.
pub(crate) fn refuse_large(service: &Service, request: &Request) -> Result<(), Problem> {
    let route = request.extensions().get::<MatchedPath>();
    match route.map(MatchedPath::as_str) {
        // It has a limit of its own.
        None | Some(MCP) => Ok(()),
        Some(route) => {
            let takes = takes(route, &service.options);
            takes.announced(request.headers()).map(drop)
        }
    }
}

/// Carries out a request that begins something, on the node that has its key or on one that has room.
async fn begin(
    service: &Arc<Service>,
    tenant: Option<&TenantName>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let keyed = KeyedRequest::read(service, tenant, &request)?;
    let claimed_by = match &keyed {
        Some(keyed) => Box::pin(keyed.claim()).await?,
        None => None,
    };
    let response = match claimed_by {
        Some(node) => Box::pin(pass_on(service, tenant, &node, request)).await?,
        None => match Box::pin(begin_keyed(service, tenant, request, keyed.as_ref())).await? {
            Begun::Here(request) => next.run(request).await,
            Begun::Elsewhere(response) => response,
        },
    };
    let is_refused_for_now = response.headers().contains_key(header::RETRY_AFTER);
    if let (Some(keyed), true) = (&keyed, is_refused_for_now) {
        Box::pin(keyed.forget()).await;
    }
    Ok(response)
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
    place(load, &[], memory, 0) == Placement::Here
}

/// The node to which a new session goes, if it is another one.
async fn placed_elsewhere(service: &Service) -> Result<Option<NodePlace>, Problem> {
    // Nobody needs to be asked.
    if has_room(service) {
        return Ok(None);
    }
    let offers = Box::pin(service.runs.offers()).await?;
    let (memory, load) = room_here(service);
    let chance = RandomState::new().hash_one(0);
    Ok(match place(load, &offers, memory, chance) {
        Placement::Other(node) => Some(node.clone()),
        // Refused here, with the reason.
        Placement::Here | Placement::Nowhere => None,
    })
}

/// Where a request is carried out that begins something.
#[derive(Debug)]
pub(crate) enum Begun {
    /// On another node, with this answer.
    Elsewhere(Response),
    /// On this node.
    Here(Request),
}

/// Passes on a request that begins something, if this node has no room for it. If the chosen node can't be connected to,
/// another one is chosen: nothing has begun there.
pub(crate) async fn begin_elsewhere(
    service: &Arc<Service>,
    tenant: Option<&TenantName>,
    request: Request,
) -> Result<Begun, Problem> {
    Box::pin(begin_keyed(service, tenant, request, None)).await
}

async fn begin_keyed(
    service: &Arc<Service>,
    tenant: Option<&TenantName>,
    mut request: Request,
    keyed: Option<&KeyedRequest<'_>>,
) -> Result<Begun, Problem> {
    if is_passed_on(request.headers()) {
        return Ok(Begun::Here(request));
    }
    let until = Instant::now() + PLACING;
    let mut permit = None;
    loop {
        let Some(node) = placed_elsewhere(service).await? else {
            return Ok(Begun::Here(request));
        };
        if permit.is_none() {
            permit = request_permit(service, tenant)?;
        }
        if let Some(keyed) = keyed {
            Box::pin(keyed.give(&node.name)).await?;
        }
        match Box::pin(try_to_pass_on(service, &node, request)).await? {
            PassedOn::Answered(response) => return Ok(Begun::Elsewhere(response)),
            PassedOn::Unreached(unsent) => request = unsent,
        }
        if let Some(keyed) = keyed {
            Box::pin(keyed.take_back(&node.name)).await?;
        }
        if Instant::now() >= until {
            return Err(unreached(&node));
        }
    }
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
