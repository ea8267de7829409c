//! How a service is to be.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{Approvals, Budget, Dialect, Provider};
use belljar_sandbox::SessionOptions;
use belljar_sandbox::protocol::Language;

use crate::server::ServerError;
use crate::tls::Tls;

/// What a service gives to its tenants. The defaults suit one machine.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What a session is started with. A request may ask for less of each limit, never for more.
    pub session: SessionOptions,
    /// The hosts that sessions may ask to reach, as entries of an allow-list; none by default.
    pub allow: Vec<String>,
    /// Names by which clients may call the service, besides the address it listens on: what a reverse
    /// proxy passes on as `Host`.
    pub hosts: Vec<String>,
    /// The certificate of the public listener, which speaks plain HTTP without one; and of the admin listener, unless that
    /// is on loopback.
    pub tls: Option<Arc<Tls>>,
    /// Whether the admin listener speaks plain HTTP also beyond loopback: where only a network of operators reaches it.
    pub insecure_admin: bool,
    /// The most sessions of all tenants together: 1000.
    pub max_sessions: usize,
    /// The most sessions of a tenant: 100.
    pub tenant_sessions: usize,
    /// The most cells of a tenant that run or wait at once: 64.
    pub tenant_cells: usize,
    /// The most streams of events of a tenant at once: 64.
    pub tenant_streams: usize,
    /// Sessions that a tenant may start in a second, on average; twice as many at once: 20.
    pub creates_per_second: u32,
    /// How long what was opened over the Model Context Protocol stays when it is not used: an hour.
    pub mcp_idle: Duration,
    /// How long cells may go on when the service is told to stop: 30 s.
    pub drain: Duration,
    /// What runs are given.
    pub runs: RunsOptions,
    /// Whether it is a demonstration: requests without a key are those of the tenant `demo`, and the model of
    /// runs is a script. For loopback, and without an admin listener.
    pub demo: bool,
}

impl ServerOptions {
    /// The certificate of an admin listener on this address, which speaks plain HTTP without one.
    ///
    /// # Errors
    /// Where there may be none: in a demonstration, which lets everybody in; and without TLS, beyond loopback.
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

/// What a service gives to the runs of its tenants.
#[derive(Clone, Debug)]
pub struct RunsOptions {
    /// The models that runs may have: the first one, unless a request names another. Where a model is, and
    /// with which key it is asked, is never for a client to say. Without a model there are no new runs.
    pub models: Vec<OfferedModel>,
    /// The most that a run may use, and what it may use unless its request says less.
    pub budget: Budget,
    /// When a person is asked, unless a request says otherwise.
    pub approvals: Approvals,
    /// The language of prompts and messages, unless a request says otherwise.
    pub language: Language,
    /// The most runs of all tenants together that go on at once: 64.
    pub max_runs: usize,
    /// The most runs of a tenant that go on at once: 8.
    pub tenant_runs: usize,
    /// How long a run that waits for a person keeps its session and its place: 15 minutes. It goes on from
    /// its snapshot when somebody decides later.
    pub patience: Duration,
}

/// A model that runs may have.
#[derive(Clone, Debug)]
pub struct OfferedModel {
    /// Its name, as `provider/model`.
    pub name: String,
    /// How it is asked.
    pub provider: Provider,
    /// How it writes actions.
    pub dialect: Dialect,
    /// The most tokens of a reply.
    pub max_tokens: u32,
    /// How freely it draws; else what its server says.
    pub temperature: Option<f64>,
    /// Whether it works its answers out a second time.
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
            tls: None,
            insecure_admin: false,
            max_sessions: 1000,
            tenant_sessions: 100,
            tenant_cells: 64,
            tenant_streams: 64,
            creates_per_second: 20,
            mcp_idle: Duration::from_hours(1),
            drain: Duration::from_secs(30),
            runs: RunsOptions::default(),
            demo: false,
        }
    }
}
