//! Lists of all nodes of a cluster: each other node is asked for its own.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use belljar_journal::NodePlace;
use futures_util::future::join_all;
use reqwest::Response;
use serde::de::DeserializeOwned;

use crate::charged::Charge;
use crate::hop::{is_passed_on, mark, remove_hop_by_hop, url_at};
use crate::problem::Problem;
use crate::service::{Caller, Service};

/// How long a node may take for its list.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of the list of a node.
const MAX_LIST: usize = 8 << 20;

/// What the other nodes have answered.
#[derive(Debug)]
pub(crate) struct Gathered<T> {
    pub(crate) lists: Vec<List<T>>,
    /// The nodes that did not.
    pub(crate) unanswered: Vec<String>,
}

/// The list of one node.
#[derive(Debug)]
pub(crate) struct List<T> {
    pub(crate) headers: HeaderMap,
    pub(crate) body: T,
    _charge: Charge,
}

/// The header that names nodes that did not answer, on wires that have no other place for them.
const UNANSWERED: HeaderName = HeaderName::from_static("x-belljar-unanswered");

impl<T> Gathered<T> {
    /// Names the nodes that did not answer in a response.
    pub(crate) fn name_unanswered(&self, headers: &mut HeaderMap) {
        let names = self.unanswered.join(", ");
        if let (false, Ok(names)) = (names.is_empty(), HeaderValue::try_from(names)) {
            headers.insert(UNANSWERED, names);
        }
    }
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self {
            lists: Vec::new(),
            unanswered: Vec::new(),
        }
    }
}

/// Makes the request for a list at all other nodes, side by side, with the credentials of the client. Nothing without a
/// cluster, and nothing for another node that makes one.
pub(crate) async fn gather<T: DeserializeOwned>(
    service: &Service,
    caller: &Caller,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Gathered<T>, Problem> {
    let mut gathered = Gathered::default();
    if is_passed_on(headers) {
        return Ok(gathered);
    }
    let mut sent = headers.clone();
    remove_hop_by_hop(&mut sent);
    // Of the body of the request that needs a list.
    sent.remove(header::CONTENT_LENGTH);
    mark(&mut sent);
    let nodes = Box::pin(service.runs.other_nodes()).await?;
    let asked = nodes.into_iter().map(|(name, place)| {
        let sent = sent.clone();
        async move {
            let Some(place) = place else {
                return (name, None);
            };
            let answered = ask(service, caller, &place, sent, uri);
            let list = tokio::time::timeout(PATIENCE, answered).await;
            (name, list.ok().flatten())
        }
    });
    for (name, list) in join_all(asked).await {
        match list {
            Some(list) => gathered.lists.push(list),
            None => gathered.unanswered.push(name),
        }
    }
    Ok(gathered)
}

/// The list of one node, or nothing: why is for the log.
async fn ask<T: DeserializeOwned>(
    service: &Service,
    caller: &Caller,
    node: &NodePlace,
    headers: HeaderMap,
    uri: &Uri,
) -> Option<List<T>> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, node = node.name, "a node does not answer with its list");
    };
    let url = url_at(&node.address, uri);
    let client = url.and_then(|url| Ok((service.node_clients.get(&url)?, url)));
    let (client, url) = client.inspect_err(|problem| failed(&problem.detail)).ok()?;
    let answer = client.get(url).headers(headers).send().await;
    let mut answer = answer
        .and_then(Response::error_for_status)
        .inspect_err(|error| failed(error))
        .ok()?;
    let charged = &service.admission.charged;
    let mut charge = charged.charge(&caller.tenant, 0)?;
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(None) => break,
            Ok(Some(part)) if bytes.len() + part.len() > MAX_LIST || !charge.grow(part.len()) => {
                failed(&"its list is too long");
                return None;
            }
            Ok(Some(part)) => bytes.extend_from_slice(&part),
            Err(error) => {
                failed(&error);
                return None;
            }
        }
    }
    let body = serde_json::from_slice(&bytes);
    let body = body.inspect_err(|error| failed(error)).ok()?;
    Some(List {
        headers: answer.headers().clone(),
        body,
        _charge: charge,
    })
}
