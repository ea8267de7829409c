//! Requests for what another node of the cluster has: passed on to it.
//!
//! The credentials of the client go along, and the other node checks them as this one did. So a node has no power over
//! another, and there is no secret between them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use belljar_journal::NodePlace;
use reqwest::Url;
use tokio::io::copy_bidirectional_with_sizes;
use tracing::Instrument as _;

use crate::ports::{remove_hop_by_hop, upgrade, upgrades};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};

/// Marks a request that was passed on. It is not passed on again.
const PASSED_ON: HeaderName = HeaderName::from_static("x-belljar-node");

/// How often it is looked whether the other node lives, while its answer is awaited.
const LOOK: Duration = Duration::from_secs(5);

/// When to come again for what a lost node had, in seconds.
const LOST_RETRY: u32 = 5;

/// What is held of each direction of a WebSocket.
const PART: usize = 16 << 10;

/// The node that a request is for.
enum Target {
    Here,
    Node(NodePlace),
    Lost(Problem),
}

pub(crate) async fn forward(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    let wanted = Wanted::of(&request);
    let target = match wanted {
        // A future that is larger than the rest.
        Some(wanted) => Box::pin(target(&service, wanted)).await,
        None => Ok(Target::Here),
    };
    match target {
        Ok(Target::Here) => next.run(request).await,
        Ok(Target::Node(node)) => {
            let passed_on = Box::pin(pass_on(&service, &caller, &node, request)).await;
            passed_on.unwrap_or_else(IntoResponse::into_response)
        }
        Ok(Target::Lost(problem)) | Err(problem) => problem.into_response(),
    }
}

/// What a request wants of something with an id.
struct Wanted {
    kind: Kind,
    id: String,
    method: Method,
    /// The rest of the route.
    rest: String,
}

enum Kind {
    Session,
    Run,
}

impl Wanted {
    /// Nothing of a request that was passed on.
    fn of(request: &Request) -> Option<Self> {
        if request.headers().contains_key(PASSED_ON) {
            return None;
        }
        let route = request.extensions().get::<MatchedPath>()?.as_str();
        let (kind, rest) = route.strip_prefix("/v1/")?.split_once("/{id}")?;
        let kind = match kind {
            "sessions" => Kind::Session,
            "runs" => Kind::Run,
            _ => return None,
        };
        Some(Self {
            kind,
            id: request.uri().path().split('/').nth(3)?.to_owned(),
            method: request.method().clone(),
            rest: rest.to_owned(),
        })
    }
}

/// Where a request belongs.
async fn target(service: &Service, wanted: Wanted) -> Result<Target, Problem> {
    let id = wanted.id.as_str();
    match wanted.kind {
        Kind::Session => {
            let Some((node, _)) = id.split_once('-') else {
                return Ok(Target::Here);
            };
            match service.runs.find_node(node).await? {
                Some(Some(place)) => Ok(Target::Node(place)),
                Some(None) => Ok(Target::Lost(lost(
                    node,
                    "sessions that were hibernated can be used once it is started again; others are lost",
                ))),
                None => Ok(Target::Here),
            }
        }
        Kind::Run => {
            let node = if is_control(&wanted.method, &wanted.rest) {
                service.runs.driver_elsewhere(id).await?
            } else {
                None
            };
            Ok(node.map_or(Target::Here, Target::Node))
        }
    }
}

/// Whether only the node that drives a run can do it.
fn is_control(method: &Method, rest: &str) -> bool {
    const ROUTES: [&str; 6] = [
        "/cancel",
        "/interrupt",
        "/resume",
        "/budget",
        "/policy",
        "/approvals/{approval}",
    ];
    method == Method::POST && ROUTES.contains(&rest)
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

async fn pass_on(
    service: &Arc<Service>,
    caller: &Caller,
    node: &NodePlace,
    mut request: Request,
) -> Result<Response, Problem> {
    let _permit = service.admission.request(&caller.tenant)?;
    let page = request
        .uri()
        .path_and_query()
        .map_or("/", |page| page.as_str());
    let url = format!("{}{page}", node.address);
    let url =
        Url::parse(&url).map_err(|error| Problem::internal("the address of a node", error))?;
    let client = service.node_clients.get(&url)?;
    let socket = upgrades(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let (had, mut headers) = (parts.headers.clone(), parts.headers);
    remove_hop_by_hop(&mut headers);
    if socket.is_some() {
        upgrade(&mut headers);
    }
    headers.insert(PASSED_ON, HeaderValue::from_static("1"));
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
