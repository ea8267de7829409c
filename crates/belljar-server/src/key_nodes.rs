//! Requests with an `Idempotency-Key` that begin something, in a cluster.
//!
//! The node that carries a request out has its answer ([`idempotency`](crate::idempotency)). The id of a session leads a
//! request to its node. For what begins something, the database has the node of the key: the same request at another node
//! is passed on to it.

use axum::extract::{MatchedPath, Request};
use belljar_journal::NodePlace;

use crate::hop::is_passed_on;
use crate::problem::{Code, Problem};
use crate::requests::{MCP, idempotency_key};
use crate::service::Service;
use crate::tenants::TenantName;

/// The routes that begin runs. Which run a key of this route has begun is in the database as well.
const NEW_RUN: &str = "/v1/runs";
const OTHER_RUNS: &str = "/v1/runs/";

/// The route that begins runs for clients of `OpenAI`'s API.
const CHAT: &str = "/openai/v1/chat/completions";

/// How often the node of a key is looked for while others change it.
const ATTEMPTS: usize = 4;

/// A request that is found by its key alone.
#[derive(Debug)]
pub(crate) struct KeyedRequest<'a> {
    service: &'a Service,
    tenant: &'a TenantName,
    key: String,
    /// This node.
    here: String,
    begins: Begins,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// A run that is found by its key, whichever nodes there are.
    NewRun,
    /// Other nodes continue it, and don't know its key.
    OtherRun,
    Session,
}

impl<'a> KeyedRequest<'a> {
    /// That of a request that begins something. Nothing without a cluster, and nothing for a request that another node has passed on.
    pub(crate) fn read(
        service: &'a Service,
        tenant: Option<&'a TenantName>,
        request: &Request,
    ) -> Result<Option<Self>, Problem> {
        let route = request.extensions().get::<MatchedPath>();
        let route = route.map_or("", MatchedPath::as_str);
        let (Some(tenant), Some(node)) = (tenant, service.runs.node()) else {
            return Ok(None);
        };
        // It reads no keys.
        if route == MCP || is_passed_on(request.headers()) {
            return Ok(None);
        }
        let key = idempotency_key(request.headers())?;
        let here = node.name().to_owned();
        let begins = match route {
            NEW_RUN => Begins::NewRun,
            CHAT => Begins::OtherRun,
            _ if route.starts_with(OTHER_RUNS) => Begins::OtherRun,
            _ => Begins::Session,
        };
        Ok(key.map(|key| Self {
            service,
            tenant,
            key,
            here,
            begins,
        }))
    }

    /// The other node that carries the request out. Without one it is this node.
    pub(crate) async fn claim(&self) -> Result<Option<NodePlace>, Problem> {
        let tenants = &self.service.tenants;
        for _ in 0..ATTEMPTS {
            let node = tenants
                .claim_key(self.tenant, &self.key, &self.here)
                .await?;
            if node == self.here {
                return Ok(None);
            }
            let place = match node.as_str() {
                "" => None,
                name => Box::pin(self.service.runs.find_node(name)).await?.flatten(),
            };
            if let Some(place) = place {
                return Ok(Some(place));
            }
            // What a node has done that stopped is kept, and so is a run of one that was lost.
            let is_kept = node.is_empty() || self.begins == Begins::OtherRun;
            if is_kept && self.begins != Begins::NewRun {
                let detail = "the request was sent to a node that no longer runs, and its response is not kept";
                return Err(Problem::new(Code::AnswerGone, detail));
            }
            if self.moved(&node, &self.here).await? {
                return Ok(None);
            }
        }
        let detail = "other nodes execute the same request; retry";
        Err(Problem::new(Code::RunBusy, detail))
    }

    /// Notes that the request, which this node has claimed, is passed on to another one.
    pub(crate) async fn give(&self, node: &str) -> Result<(), Problem> {
        self.moved(&self.here, node).await.map(drop)
    }

    /// Notes that the other node has nothing of the request.
    pub(crate) async fn take_back(&self, node: &str) -> Result<(), Problem> {
        self.moved(node, &self.here).await.map(drop)
    }

    async fn moved(&self, from: &str, to: &str) -> Result<bool, Problem> {
        let tenants = &self.service.tenants;
        Ok(tenants.move_key(self.tenant, &self.key, from, to).await?)
    }

    /// Forgets the key of a request that was refused for the moment: it may be carried out anywhere then.
    pub(crate) async fn forget(&self) {
        let tenants = &self.service.tenants;
        if let Err(error) = tenants.forget_key(self.tenant, &self.key).await {
            tracing::warn!(%error, "a key cannot be forgotten; its request stays with its node");
        }
    }
}
