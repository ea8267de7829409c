//! Options of a service.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{Approvals, Budget, Dialect, Provider};
use belljar_journal::Objects;
use belljar_sandbox::SessionOptions;
use belljar_sandbox::protocol::Language;

use crate::error::ServerError;
use crate::tls::Tls;

/// Options of a service. The defaults suit one machine.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct ServerOptions {
    /// Options of sessions. A request may lower each limit, never raise it.
    pub session: SessionOptions,
    /// Hosts that sessions may request, as entries of an allow-list; none by default.
    pub allow: Vec<String>,
    /// Host names of the service besides the listening address: what a reverse proxy passes on as `Host`.
    pub hosts: Vec<String>,
    /// Domain below which ports of sessions have their names, `PORT-SESSION.DOMAIN`; none by default, and no ports.
    pub ports_domain: Option<String>,
    /// TLS certificate of the public listener, which speaks plain HTTP without one; and of the admin
    /// listener, unless that is on loopback.
    pub tls: Option<Arc<Tls>>,
    /// Whether the admin listener may speak plain HTTP beyond loopback: only for a network of operators.
    pub insecure_admin: bool,
    /// Maximum concurrent sessions of all tenants.
    pub max_sessions: usize,
    /// Maximum concurrent sessions per tenant.
    pub tenant_sessions: usize,
    /// Maximum running and waiting cells per tenant.
    pub tenant_cells: usize,
    /// Maximum open event streams per tenant.
    pub tenant_streams: usize,
    /// Started sessions per second and tenant on average, with bursts of twice as many.
    pub creates_per_second: u32,
    /// Longest lease of a session: how far its end can be moved.
    pub max_lease: Duration,
    /// Whether to answer the wire of E2B's SDKs, below `/e2b`.
    pub e2b: bool,
    /// Domain of that wire, whose names lead to sandboxes: `api.DOMAIN` and `PORT-ID.DOMAIN`.
    pub e2b_domain: Option<String>,
    /// Whether to answer programs written for OpenAI's API, below `/openai/v1`.
    pub openai: bool,
    /// Whether to answer clients of Jupyter's wire, below `/jupyter`.
    pub jupyter: bool,
    /// Idle timeout of MCP connections.
    pub mcp_idle: Duration,
    /// Shutdown grace period for running cells.
    pub drain: Duration,
    /// Object store for blobs of runs and snapshots of hibernated sessions; the data directory by default.
    pub objects: Option<Objects>,
    /// The cluster that this service is a node of; none by default. It needs tenants in the same database, and objects.
    pub cluster: Option<ClusterOptions>,
    /// Options of runs.
    pub runs: RunsOptions,
    /// Demo mode: requests without a key belong to the tenant `demo`, and the model of runs is
    /// scripted. Only on loopback, and without an admin listener.
    pub demo: bool,
}

impl ServerOptions {
    /// TLS certificate of an admin listener on this address, which speaks plain HTTP without one.
    ///
    /// # Errors
    /// If there may be none: in demo mode, which needs no key; and without TLS, beyond loopback.
    pub fn admin_tls(&self, address: IpAddr) -> Result<Option<Arc<Tls>>, ServerError> {
        if self.demo {
            return Err(ServerError::DemoAdmin);
        }
        if address.to_canonical().is_loopback() || self.insecure_admin {
            return Ok(None);
        }
        match &self.tls {
            Some(tls) => Ok(Some(Arc::clone(tls))),
            None => Err(ServerError::InsecureAdmin(address)),
        }
    }
}

/// How a service is a node of a cluster.
#[derive(Clone)]
pub struct ClusterOptions {
    /// PostgreSQL database of the cluster.
    pub database: String,
    /// Address of this node for other nodes, such as `https://10.0.0.1:7878`.
    pub address: String,
    /// How long a node may be silent before others take over its runs: the same for each node.
    pub lease: Duration,
}

impl std::fmt::Debug for ClusterOptions {
    /// The database may have a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("address", &self.address)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl ClusterOptions {
    /// With a lease of five seconds.
    pub fn new(database: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            address: address.into(),
            lease: Duration::from_secs(5),
        }
    }
}

/// Options of the runs of tenants.
#[derive(Clone, Debug)]
pub struct RunsOptions {
    /// Models for runs, the default first. Clients never choose a model's address or key. Without a
    /// model, new runs are refused.
    pub models: Vec<OfferedModel>,
    /// Maximum and default budget of a run.
    pub budget: Budget,
    /// Default approval policy.
    pub approvals: Approvals,
    /// Default language of prompts and messages.
    pub language: Language,
    /// Maximum concurrent runs of all tenants.
    pub max_runs: usize,
    /// Maximum concurrent runs per tenant.
    pub tenant_runs: usize,
    /// How long a run that waits for approval keeps its session and its permit. After
    /// that, a decision resumes it from its snapshot.
    pub patience: Duration,
}

/// A model for runs.
#[derive(Clone, Debug)]
pub struct OfferedModel {
    /// Its name, as `provider/model`.
    pub name: String,
    /// Provider of the model.
    pub provider: Provider,
    /// How it writes actions.
    pub dialect: Dialect,
    /// Maximum tokens of a reply.
    pub max_tokens: u32,
    /// Sampling temperature; `None` for the server's default.
    pub temperature: Option<f64>,
    /// Whether the model works out its answer a second time.
    pub review: bool,
}

impl Default for RunsOptions {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            budget: Budget::default(),
            approvals: Approvals::default(),
            language: Language::default(),
            max_runs: 64,
            tenant_runs: 8,
            patience: Duration::from_mins(15),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            session: SessionOptions::default(),
            allow: Vec::new(),
            hosts: Vec::new(),
            ports_domain: None,
            tls: None,
            insecure_admin: false,
            max_sessions: 1000,
            tenant_sessions: 100,
            tenant_cells: 64,
            tenant_streams: 64,
            creates_per_second: 20,
            max_lease: Duration::from_hours(24),
            e2b: false,
            e2b_domain: None,
            openai: false,
            jupyter: false,
            mcp_idle: Duration::from_hours(1),
            drain: Duration::from_secs(30),
            objects: None,
            cluster: None,
            runs: RunsOptions::default(),
            demo: false,
        }
    }
}
