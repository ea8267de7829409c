//! What all handlers share.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use belljar_agent::ReportKey;
use belljar_journal::Membership;
use belljar_sandbox::protocol::SetBy;
use belljar_sandbox::{Engine, EngineSet, SessionOptions};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::accounts::today;
use crate::admission::Admission;
use crate::credentials::{COOKIE, HOST_COOKIE};
use crate::idempotency::Idempotency;
use crate::kernels::Kernels;
use crate::logins::Logins;
use crate::mcp::Mcp;
use crate::metrics::Metrics;
use crate::node_clients::NodeClients;
use crate::options::ServerOptions;
use crate::port_access::Ports;
use crate::problem::{Code, Problem};
use crate::runs::Runs;
use crate::sandbox_tokens::SandboxTokens;
use crate::sessions::{SessionEntry, Sessions};
use crate::start_queue::StartQueue;
use crate::tenants::{KeyInfo, Scope, TenantName, Tenants, TenantsError};

/// The sessions that leave a node at once while it is drained.
const LEAVING_AT_ONCE: usize = 8;

/// One node's service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) engines: EngineSet,
    pub(crate) options: ServerOptions,
    pub(crate) tenants: Tenants,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Arc<Runs>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) start_queue: Arc<StartQueue>,
    pub(crate) idempotency: Idempotency,
    pub(crate) mcp: Mcp,
    pub(crate) metrics: Metrics,
    /// Wrong keys that were given to log in.
    pub(crate) logins: Logins,
    /// Ports of sessions, if they are offered.
    pub(crate) ports: Option<Ports>,
    /// Tokens of sandboxes, where the wire of E2B's SDKs is answered.
    pub(crate) tokens: Option<SandboxTokens>,
    /// Signs exported pages.
    pub(crate) report_key: ReportKey,
    /// Clients for the other nodes of a cluster.
    pub(crate) node_clients: NodeClients,
    /// Kernels of Jupyter's wire.
    pub(crate) kernels: Kernels,
    /// The caller of requests without a key, in demo mode.
    pub(crate) demo: Option<KeyInfo>,
    /// Where bodies and archives are kept on their way.
    pub(crate) spool: PathBuf,
    /// Where hibernated sessions are.
    pub(crate) hibernated: PathBuf,
    /// Sessions of other nodes that this one has taken over. Held while it takes one over: that is done once.
    pub(crate) adopted: Mutex<HashSet<String>>,
    /// For sessions that leave this node while it is drained. Requests for them wait.
    pub(crate) leaving: Arc<Semaphore>,
    /// Held by requests that were passed on and change something, until their answers are sent.
    pub(crate) passing: Arc<()>,
    draining: AtomicBool,
    /// Cancelled when nothing is running any more.
    pub(crate) over: CancellationToken,
    /// The last audit event when quotas were read.
    last_act: AtomicI64,
    /// Held while this service has its data directory.
    _lock: File,
}

impl Service {
    pub(crate) fn new(
        engines: EngineSet,
        tenants: Tenants,
        options: ServerOptions,
        demo: Option<KeyInfo>,
        (ports, tokens, report_key): (Option<Ports>, Option<SandboxTokens>, ReportKey),
        (node, data, membership): (String, &Path, Option<Membership>),
        lock: File,
    ) -> Arc<Self> {
        let admission = Admission::new(&options);
        let tls = options.tls.clone();
        Arc::new(Self {
            runs: Runs::new(
                data.join("runs"),
                node.clone(),
                engines.clone(),
                &options,
                &admission,
                membership,
            ),
            admission,
            engines,
            options,
            tenants,
            sessions: Sessions::new(node),
            start_queue: StartQueue::new(),
            idempotency: Idempotency::default(),
            mcp: Mcp::default(),
            metrics: Metrics::default(),
            logins: Logins::default(),
            ports,
            tokens,
            report_key,
            node_clients: NodeClients::new(tls),
            kernels: Kernels::default(),
            demo,
            spool: spool(data),
            hibernated: hibernated(data),
            adopted: Mutex::default(),
            leaving: Arc::new(Semaphore::new(LEAVING_AT_ONCE)),
            passing: Arc::default(),
            draining: AtomicBool::new(false),
            over: CancellationToken::new(),
            last_act: AtomicI64::new(0),
            _lock: lock,
        })
    }

    /// Whether nodes of the cluster have a certificate authority of their own.
    pub(crate) fn has_node_ca(&self) -> bool {
        let tls = self.options.tls.as_ref();
        tls.is_some_and(|tls| tls.has_node_ca())
    }

    /// The engine for a session that a tenant requests, by the names of environment and isolation.
    pub(crate) fn engine(
        &self,
        tenant: &TenantName,
        environment: Option<&str>,
        isolation: Option<&str>,
    ) -> Result<&Engine, Problem> {
        let least = self.admission.isolation.get(tenant);
        Ok(self.engines.choose(environment, isolation, least)?)
    }

    /// The engine that a session came from.
    pub(crate) fn engine_of(&self, entry: &SessionEntry) -> Result<&Engine, Problem> {
        let (environment, isolation) = (entry.environment.as_str(), entry.isolation.as_str());
        Ok(self
            .engines
            .choose(Some(environment), Some(isolation), None)?)
    }

    /// The options of a session that a tenant requests without options.
    pub(crate) fn session_options(&self, tenant: &TenantName) -> SessionOptions {
        SessionOptions {
            // Tenants never share a template.
            tenant: Some(tenant.as_str().to_owned()),
            disk: Some(self.admission.disk(tenant)),
            set_by: SetBy::Service,
            ..self.options.session.clone()
        }
    }

    /// Reads what tenants may use, if it may have changed: each change is an audit event.
    pub(crate) async fn read_quotas(&self) -> Result<(), TenantsError> {
        let last = self.tenants.last_act().await?;
        if self.last_act.load(Ordering::Relaxed) != last {
            self.admission.set_quotas(self.tenants.quotas().await?);
            let isolation = self.tenants.least_isolation().await?;
            self.admission.isolation.set(isolation);
            self.last_act.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads what tenants may use and have used today.
    pub(crate) async fn read_accounts(&self) -> Result<(), TenantsError> {
        let day = today();
        let [here, elsewhere] = self.tenants.spent_here_and_elsewhere(day).await?;
        self.admission.set_spent(day, here);
        self.admission.set_elsewhere(day, elsewhere);
        self.read_quotas().await
    }

    /// Writes what tenants have used, and reads what they may use.
    pub(crate) async fn keep_accounts(&self) {
        let changed = self.admission.take_changed();
        if !changed.is_empty()
            && let Err(error) = self.tenants.keep_spent(&changed).await
        {
            tracing::error!(%error, "cannot write the use of tenants");
            self.admission.not_kept(changed);
        }
        if let Err(error) = self.tenants.keep_revocations().await {
            tracing::error!(%error, "cannot write revocations; the revoked keys are refused nonetheless");
        }
        if let Err(error) = self.tenants.keep_uses().await {
            tracing::error!(%error, "cannot write when keys were last used");
        }
        if let Err(error) = self.read_quotas().await {
            tracing::error!(%error, "cannot read quotas");
        }
        if self.tenants.is_shared() {
            let day = today();
            match self.tenants.spent_here_and_elsewhere(day).await {
                Ok([_, elsewhere]) => self.admission.set_elsewhere(day, elsewhere),
                Err(error) => {
                    tracing::error!(%error, "cannot read the use of tenants on other nodes");
                }
            }
        }
    }

    /// The key with this text.
    pub(crate) async fn find_key(&self, key: Option<String>) -> Result<KeyInfo, Problem> {
        let refused = || {
            let detail = "send `Authorization: Bearer KEY` with a valid key";
            Problem::new(Code::Unauthorized, detail)
        };
        let info = self.tenants.check(&key.ok_or_else(refused)?).await?;
        info.ok_or_else(refused)
    }

    /// The name of the cookie that holds the key of a browser.
    pub(crate) fn cookie(&self) -> &'static str {
        match &self.ports {
            Some(ports) if ports.share_cookies() => HOST_COOKIE,
            _ => COOKIE,
        }
    }

    /// Takes no more work.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether a request that changes something is being passed on.
    pub(crate) fn is_passing_on(&self) -> bool {
        Arc::strong_count(&self.passing) > 1
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Where bodies and archives of a service are kept on their way.
pub(crate) fn spool(data: &Path) -> PathBuf {
    data.join("spool")
}

/// Where hibernated sessions of a service are. They outlive the service.
pub(crate) fn hibernated(data: &Path) -> PathBuf {
    data.join("sessions")
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantName,
    /// Of the key.
    pub(crate) prefix: String,
    pub(crate) scopes: Vec<Scope>,
}

impl Caller {
    /// The caller, if the key has the needed scope.
    pub(crate) fn with_scope(key: KeyInfo, needed: Option<Scope>) -> Result<Self, Problem> {
        if let Some(needed) = needed
            && !key.scopes.contains(&needed)
        {
            let detail = format!("the key lacks scope `{}`", needed.as_str());
            return Err(Problem::new(Code::ScopeMissing, detail));
        }
        Ok(key.into())
    }
}

impl From<KeyInfo> for Caller {
    fn from(key: KeyInfo) -> Self {
        Self {
            tenant: key.tenant,
            prefix: key.prefix,
            scopes: key.scopes,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::internal("a request", "it came without its caller"))
    }
}
