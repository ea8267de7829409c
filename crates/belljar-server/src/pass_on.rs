//! Passing a request on to another node, and its answer back.

use std::error::Error as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use axum::http::StatusCode;
use axum::response::Response;
use belljar_journal::NodePlace;
use futures_util::StreamExt as _;
use tokio::io::copy_bidirectional_with_sizes;
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::hop::{mark, remove_hop_by_hop, upgrade, upgrades, url_at};
use crate::lock::lock;
use crate::metrics::PassOn;
use crate::problem::{Code, Problem};
use crate::requests::changes;
use crate::service::Service;
use crate::tenants::TenantName;

/// How often it is looked whether the other node lives, while its answer is awaited.
const LOOK: Duration = Duration::from_secs(5);

/// When to come again for what a lost node had, in seconds.
const LOST_RETRY: u32 = 5;

/// What is held of each direction of a WebSocket.
const PART: usize = 16 << 10;

/// A node that does not answer, and what can be had of it.
pub(crate) fn lost(node: &str, what: &str) -> Problem {
    let detail = format!("node `{node}` does not run: {what}");
    Problem::new(Code::NodeLost, detail).after(LOST_RETRY)
}

/// A node that can't be connected to.
pub(crate) fn unreached(node: &NodePlace) -> Problem {
    let what = "its runs are taken over when it has been silent for a lease; retry";
    lost(&node.name, what)
}

/// What a node may or may not have done.
fn broke_off(node: &str) -> Problem {
    let detail = format!("node `{node}` has the request and gave no answer: see what became of it");
    Problem::new(Code::NodeBrokeOff, detail)
}

/// What became of a request that was to be passed on.
#[derive(Debug)]
pub(crate) enum PassedOn {
    Answered(Response),
    /// The node can't be connected to, and has nothing of the request.
    Unreached(Request),
}

/// Passes a request on, and its answer back. It counts as one of its tenant, where the tenant is known; the other node
/// counts it in any case.
pub(crate) async fn pass_on(
    service: &Arc<Service>,
    tenant: Option<&TenantName>,
    node: &NodePlace,
    request: Request,
) -> Result<Response, Problem> {
    let _permit = request_permit(service, tenant)?;
    match try_to_pass_on(service, node, request).await? {
        PassedOn::Answered(response) => Ok(response),
        PassedOn::Unreached(_) => Err(unreached(node)),
    }
}

pub(crate) fn request_permit(
    service: &Service,
    tenant: Option<&TenantName>,
) -> Result<Option<Permit>, Problem> {
    let permit = tenant.map(|tenant| service.admission.request(tenant));
    permit.transpose()
}

/// Passes a request on that may be tried at another node.
pub(crate) async fn try_to_pass_on(
    service: &Arc<Service>,
    node: &NodePlace,
    mut request: Request,
) -> Result<PassedOn, Problem> {
    let uri = request.extensions().get::<OriginalUri>();
    let url = url_at(
        &node.address,
        uri.map_or(request.uri(), |original| &original.0),
    )?;
    let client = service.node_clients.get(&url)?;
    let socket = upgrades(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let passing = changes(&parts.method).then(|| Arc::clone(&service.passing));
    let (had, mut headers) = (&parts.headers, parts.headers.clone());
    remove_hop_by_hop(&mut headers);
    if socket.is_some() {
        upgrade(&mut headers);
    }
    mark(&mut headers);
    let mut sent = client.request(parts.method.clone(), url).headers(headers);
    let has_body = ["content-length", "transfer-encoding"]
        .iter()
        .any(|name| had.contains_key(*name));
    // Taken when its first byte is needed, which is once there is a connection.
    let body = Arc::new(Mutex::new(Some(body)));
    if has_body {
        let body = Arc::clone(&body);
        let taken = async move { lock(&body).take().unwrap_or_default().into_data_stream() };
        let stream = futures_util::stream::once(taken).flatten();
        sent = sent.body(reqwest::Body::wrap_stream(stream));
    }
    let answered = async {
        sent.send().await.inspect_err(|error| {
            tracing::warn!(%error, node = node.name, "a node cannot be reached");
        })
    };
    let gone = async {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Ok(Some(None)) = service.runs.find_node(&node.name).await {
                return;
            }
        }
    };
    let answered = tokio::select! {
        answered = answered => answered,
        () = gone => {
            service.metrics.passed_on(PassOn::BrokeOff);
            return Err(broke_off(&node.name));
        }
        () = service.over.cancelled() => return Err(Problem::draining()),
    };
    let response = match answered {
        Ok(response) => response,
        Err(error) => {
            if !is_of_sender(&error) {
                service.runs.note_unreached(node);
            }
            service.metrics.passed_on(if error.is_connect() {
                PassOn::Unreached
            } else {
                PassOn::BrokeOff
            });
            if !error.is_connect() {
                return Err(broke_off(&node.name));
            }
            let body = lock(&body).take();
            let unsent = body.map(|body| Request::from_parts(parts, body));
            return unsent
                .map(PassedOn::Unreached)
                .ok_or_else(|| unreached(node));
        }
    };
    service.metrics.passed_on(PassOn::Answered);
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
        _ => {
            // Held until the answer is sent, or given up.
            let parts = response.bytes_stream();
            let parts = parts.scan(passing, |_, part| std::future::ready(Some(part)));
            Response::new(Body::from_stream(parts))
        }
    };
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(PassedOn::Answered(answer))
}

/// Whether a request failed for want of its body: its client is gone, and the other node is not at fault.
fn is_of_sender(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_user();
        }
        source = error.source();
    }
    false
}
