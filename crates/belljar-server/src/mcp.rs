//! The Model Context Protocol over HTTP: what each key has open.
//!
//! A connection that was opened by `initialize` has sessions of its own, which end with it. The stateless revision
//! has no connections: its requests share the sessions of their key. All of it ends with the key, and counts as what
//! its tenant has.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use belljar_agent::{Control, Progress, Start};
use belljar_mcp::{CallError, Permits, Runs, Server, Sessions};
use belljar_sandbox::Error;
use belljar_sandbox::protocol::{Event, Walls};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Permit};
use crate::charged::SMALL;
use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::runs::count;
use crate::service::{Caller, Service};
use crate::streams::KEY_CHECK;
use crate::tenants::{Quota, Scope, TenantName};

/// How often the code of a call is in memory while it runs: as an argument, to be shown, to be run.
const COPIES: usize = 3;

/// What all keys have open.
#[derive(Debug, Default)]
pub(crate) struct Mcp(Mutex<HashMap<String, Arc<Opened>>>);

/// What a key has open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connections: Arc<LocalSessionManager>,
    /// For requests that belong to no connection.
    pub(crate) shared: Arc<Server>,
    sessions: Arc<Sessions>,
    pub(crate) stop: CancellationToken,
    /// Ids of requests of each connection that are not answered.
    unanswered: Arc<Mutex<HashMap<String, HashSet<RequestId>>>>,
}

/// A request of a connection that is not answered yet.
#[derive(Debug)]
pub(crate) struct Unanswered {
    all: Arc<Mutex<HashMap<String, HashSet<RequestId>>>>,
    connection: String,
    id: RequestId,
}

impl Drop for Unanswered {
    /// Its id may be used again.
    fn drop(&mut self) {
        if let Some(ids) = lock(&self.all).get_mut(&self.connection) {
            ids.remove(&self.id);
        }
    }
}

impl Opened {
    /// Notes a request of a connection. The library keeps something for each until it is answered, and for ever where
    /// another one has its id before that.
    pub(crate) async fn ask(&self, connection: &str, id: RequestId) -> Result<Unanswered, Problem> {
        let known = self.connections.sessions.read().await;
        let mut all = lock(&self.unanswered);
        all.retain(|connection, _| known.contains_key(connection.as_str()));
        if known.contains_key(connection) {
            let ids = all.entry(connection.to_owned()).or_default();
            if !ids.insert(id.clone()) {
                let detail = "another pending request of the connection has this `id`";
                return Err(Problem::new(Code::BadBody, detail));
            }
        }
        Ok(Unanswered {
            all: Arc::clone(&self.unanswered),
            connection: connection.to_owned(),
            id,
        })
    }
}

impl Mcp {
    /// What the key of a caller has open.
    pub(crate) async fn for_caller(
        &self,
        service: &Arc<Service>,
        caller: &Caller,
    ) -> Result<Arc<Opened>, Problem> {
        if let Some(opened) = lock(&self.0).get(&caller.prefix) {
            return Ok(Arc::clone(opened));
        }
        let (shared, sessions) = server(service, caller, None).await?;
        let mut connections = LocalSessionManager::default();
        let config = &mut connections.session_config;
        config.keep_alive = Some(idle(service));
        // An answer that was sent is not kept: nobody but its client would say how many there are.
        config.completed_cache_ttl = Duration::ZERO;
        let new = Arc::new(Opened {
            connections: Arc::new(connections),
            shared,
            sessions,
            stop: service.over.child_token(),
            unanswered: Arc::default(),
        });
        let mut all = lock(&self.0);
        // Another request may have been faster.
        let opened = all.entry(caller.prefix.clone()).or_insert_with(|| {
            tokio::spawn(mind(
                Arc::downgrade(service),
                Arc::clone(&new),
                caller.prefix.clone(),
            ));
            new
        });
        Ok(Arc::clone(opened))
    }

    /// Ends what all keys have open.
    pub(crate) fn end_all(&self) {
        for opened in lock(&self.0).values() {
            opened.stop.cancel();
        }
    }

    /// Forgets what a key had open, if nobody uses it.
    fn forget_unused(&self, key: &str, opened: &Arc<Opened>) -> bool {
        let mut all = lock(&self.0);
        // This map, and who asks.
        let unused = Arc::strong_count(opened) <= 2;
        if unused {
            all.remove(key);
        }
        unused
    }
}

/// Ends what a key has open: with the key, or piece by piece when it is not used.
async fn mind(service: Weak<Service>, opened: Arc<Opened>, key: String) {
    loop {
        let stopped = tokio::time::timeout(KEY_CHECK, opened.stop.cancelled()).await;
        let Some(service) = service.upgrade() else {
            return;
        };
        if stopped.is_ok() || !service.tenants.is_valid(&key).await {
            opened.stop.cancel();
            lock(&service.mcp.0).remove(&key);
            break;
        }
        let sessions = opened.sessions.end_idle(service.options.mcp_idle);
        let connections = opened.connections.sessions.read().await.len();
        let idle = sessions + connections == 0 && opened.shared.is_idle();
        if idle && service.mcp.forget_unused(&key, &opened) {
            return;
        }
    }
    // A request that was let in before may still open one.
    while Arc::strong_count(&opened) > 1 || !opened.connections.sessions.read().await.is_empty() {
        let connections = opened.connections.sessions.read().await;
        let ids: Vec<_> = connections.keys().cloned().collect();
        drop(connections);
        for id in ids {
            // It may have ended by itself.
            let _ = opened.connections.close_session(&id).await;
        }
        tokio::time::sleep(KEY_CHECK).await;
    }
}

/// When a connection that nothing is said on ends: not while a cell runs that says nothing.
fn idle(service: &Service) -> Duration {
    let cell = service.options.session.limits.wall_time;
    service.options.mcp_idle.max(2 * cell)
}

/// A server for one connection, or for all requests without one.
pub(crate) async fn server(
    service: &Arc<Service>,
    caller: &Caller,
    connection: Option<Permit>,
) -> Result<(Arc<Server>, Arc<Sessions>), Problem> {
    let options = service.session_options(&caller.tenant);
    let permits = TenantPermits {
        admission: Arc::clone(&service.admission),
        runs: Arc::clone(&service.runs),
        tenant: caller.tenant.clone(),
        memory_bytes: options.limits.memory_bytes,
        _connection: connection,
    };
    let sessions = Sessions::with_permits(service.engines.clone(), options, Box::new(permits));
    let sessions = Arc::new(sessions);
    let mut server = Server::new(Arc::clone(&sessions));
    server = server.approvals(service.options.runs.approvals.clone());
    if caller.scopes.contains(&Scope::Runs)
        && let Ok(model) = service.runs.model(None)
    {
        let directory = service.runs.make_directory(&caller.tenant).await?;
        let agent = service.runs.agent(&caller.tenant, &directory, model);
        let options = service.runs.options();
        let start = Start {
            task: String::new(),
            files: Vec::new(),
            model: model.name.clone(),
            dialect: model.dialect,
            language: options.language,
            prompts: None,
            budget: options.budget.clone(),
            context_window: model.provider.profile().context_window,
            max_tokens: model.max_tokens,
            temperature: model.temperature,
            review: model.review,
            tools: Vec::new(),
            packages: Vec::new(),
            versions: Vec::new(),
            granted: Vec::new(),
            branches: None,
            approvals: options.approvals.clone(),
            parent: None,
            environment: None,
            isolation: None,
            client: None,
        };
        server = server.runs(Runs::new(agent, start).for_tenants());
    }
    Ok((Arc::new(server), sessions))
}

/// Permits of a tenant, and what it uses.
#[derive(Debug)]
struct TenantPermits {
    admission: Arc<Admission>,
    runs: Arc<crate::runs::Runs>,
    tenant: TenantName,
    memory_bytes: u64,
    /// That of the connection itself.
    _connection: Option<Permit>,
}

impl From<Problem> for CallError {
    fn from(problem: Problem) -> Self {
        Self::Limit(problem.words())
    }
}

impl Permits for TenantPermits {
    fn sessions(
        &self,
        count: usize,
        isolation: Walls,
    ) -> Result<Vec<belljar_mcp::Permit>, CallError> {
        let permits = self
            .admission
            .sessions(&self.tenant, count, self.memory_bytes, isolation);
        let permits = permits?;
        Ok(permits
            .into_iter()
            .map(|permit| Box::new(permit) as _)
            .collect())
    }

    fn least_isolation(&self) -> Option<Walls> {
        self.admission.isolation.get(&self.tenant)
    }

    fn cell(&self, code: usize) -> Result<belljar_mcp::Permit, CallError> {
        let permit = self.admission.cell(&self.tenant);
        let permit = permit?;
        let charged = &self.admission.charged;
        let charge = (code > SMALL)
            .then(|| charged.charge_or_refuse(&self.tenant, COPIES * code))
            .transpose();
        Ok(Box::new((permit, charge?)))
    }

    fn run<'a>(
        &'a self,
        start: &'a mut Start,
    ) -> Pin<Box<dyn Future<Output = Result<belljar_mcp::Permit, CallError>> + Send + 'a>> {
        Box::pin(async move {
            let admitted = self.runs.admit(&self.tenant, start).await;
            Ok(Box::new(admitted?) as _)
        })
    }

    fn cell_told(&self, event: &Event) {
        self.admission.spend(&self.tenant, &[(Quota::Events, 1)]);
        if let Event::Outcome(outcome) = event {
            self.admission.spend_cell_and_egress(&self.tenant, outcome);
        }
    }

    fn command_told(&self, cpu_time: Duration, output: u64) {
        let cpu = u64::try_from(cpu_time.as_millis()).unwrap_or(u64::MAX);
        let used = [
            (Quota::Events, 1),
            (Quota::CpuMs, cpu),
            (Quota::OutputBytes, output),
        ];
        self.admission.spend(&self.tenant, &used);
    }

    fn run_told(&self, progress: &Progress<'_>, control: &Control) {
        count(&self.admission, &self.tenant, progress, control);
    }

    fn explain(&self, error: Error) -> String {
        Problem::from(error).words()
    }
}
