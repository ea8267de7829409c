//! A service from its start to its end.

use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use belljar_agent::ReportKey;
use belljar_journal::{Membership, NodeOptions};
use belljar_sandbox::{EngineSet, HostMemory};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::connection;
use crate::error::ServerError;
use crate::guard::Hosts;
use crate::node::{make_directory, make_private_file, node_id, secret_of_cluster};
use crate::object_snapshots::{ObjectSnapshots, claim};
use crate::options::ServerOptions;
use crate::port_access::Ports;
use crate::sandbox_tokens::SandboxTokens;
use crate::service::{Service, hibernated, spool};
use crate::tenants::{Act, KeyInfo, SERVICE, Scope, TenantName, Tenants, TenantsError};

/// How often it is looked whether cells still run.
const LOOK: Duration = Duration::from_millis(20);

/// How often the service looks after itself: what tenants have used is written to disk, what they may use is read,
/// and memory is saved where the host is short of it.
const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// A service, ready to accept connections.
#[derive(Debug)]
pub struct Server {
    service: Arc<Service>,
}

impl Server {
    /// A service with the sessions of an engine or of several. Its data directory has its keys and the id of its
    /// node.
    pub async fn new(
        engines: impl Into<EngineSet>,
        mut tenants: Tenants,
        data: &Path,
        mut options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let mut demo = None;
        if options.demo {
            demo = Some(demo_key(&tenants).await?);
            options.runs.models = vec![crate::demo::model()];
        }
        let keys = tenants.keys().await?;
        if keys.iter().all(|key| key.revoked.is_some()) {
            return Err(ServerError::NoKey);
        }
        belljar_sandbox::AllowList::parse(&options.allow)?;
        let mut ports = Ports::new(&options)?;
        let spool = spool(data);
        let failed = |source| ServerError::Io {
            path: data.to_owned(),
            source,
        };
        make_directory(&spool).map_err(failed)?;
        make_directory(&hibernated(data)).map_err(failed)?;
        options.session.hibernate_in = Some(hibernated(data));
        let lock = make_private_file(&data.join("server.lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ServerError::InUse(data.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        empty(&spool).map_err(failed)?;
        let node = node_id(data).map_err(failed)?;
        tenants.serve_node(&node, data).await?;
        let mut snapshots = None;
        let membership = match &options.cluster {
            None => None,
            Some(cluster) => {
                if !tenants.is_shared() {
                    return Err(ServerError::NotShared("tenants in a database"));
                }
                if options.objects.is_none() {
                    return Err(ServerError::NotShared("an object store"));
                }
                let mut joins = NodeOptions::new(&node, &cluster.address);
                joins.lease = cluster.lease;
                // The caller's future need not hold it.
                let joined = Box::pin(Membership::join(&cluster.database, joins));
                Some(joined.await?)
            }
        };
        if let Some(objects) = &options.objects {
            let owner = match &membership {
                Some(membership) => Box::pin(membership.node().cluster()).await?,
                None => node.clone(),
            };
            claim(objects, &owner).await?;
            let stored = ObjectSnapshots::new(objects, &node);
            options.session.snapshot_store = Some(stored.clone());
            snapshots = Some(stored);
        }
        let secret = match &membership {
            Some(membership) => Some(Box::pin(membership.node().secret()).await?),
            None => None,
        };
        if let (Some(ports), Some(secret)) = (&mut ports, &secret) {
            ports.join(secret);
        }
        let tokens = options.e2b.then(|| match &secret {
            Some(secret) => Ok(SandboxTokens::of_cluster(secret)),
            None => SandboxTokens::open(data),
        });
        let report_key = match &secret {
            Some(secret) => ReportKey::from_seed(secret_of_cluster(secret, "reports").as_ref()),
            None => ReportKey::open(&data.join("report-key")),
        };
        let tokens = tokens.transpose().map_err(failed)?;
        let access = (ports, tokens, report_key.map_err(failed)?);
        let engines = engines.into();
        let place = (node, data, membership);
        let service = Service::new(engines, tenants, options, demo, access, place, lock);
        service.read_accounts().await?;
        service.take_over_sessions(snapshots.as_deref()).await?;
        Ok(Self { service })
    }

    /// The keys of the service.
    pub fn tenants(&self) -> &Tenants {
        &self.service.tenants
    }

    /// Resumes interrupted runs and serves until `stop`. Then the service accepts no new work, running cells may end
    /// within the grace period, sessions and runs are left for the next start, and everything is ended. The admin API
    /// has its own listener.
    ///
    /// # Errors
    /// If an address is unknown, or there may be [no admin listener](ServerOptions::admin_tls) on its address.
    pub async fn serve(
        &self,
        listener: TcpListener,
        admin: Option<TcpListener>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let admin = match admin {
            Some(admin) => {
                let address = admin.local_addr()?.ip();
                let tls = self.service.options.admin_tls(address);
                Some((admin, address, tls.map_err(io::Error::other)?))
            }
            None => None,
        };
        let options = &self.service.options;
        let hosts = Hosts::new(listener.local_addr()?.ip(), &options.hosts)
            .with_ports()
            .with_domain(options.e2b_domain.as_deref());
        let router = api::router(&self.service, hosts);
        let token = CancellationToken::new();
        let mut serving = vec![tokio::spawn(connection::serve(
            listener,
            self.service.options.tls.clone(),
            router,
            token.clone(),
        ))];
        if let Some((admin, address, tls)) = admin {
            let hosts = Hosts::new(address, &self.service.options.hosts);
            let router = admin_router(&self.service, hosts);
            serving.push(tokio::spawn(connection::serve(
                admin,
                tls,
                router,
                token.clone(),
            )));
        }
        // Large futures, each for a moment: the caller's stack need not hold them.
        Box::pin(self.tell("service_started")).await;
        self.service.runs.go_on();
        let keeping = async {
            loop {
                tokio::time::sleep(HOUSEKEEPING).await;
                Box::pin(self.service.keep_accounts()).await;
                self.service.sessions.end_leases();
                if HostMemory::now().is_some_and(HostMemory::is_short) {
                    self.service.sessions.save_memory();
                }
            }
        };
        let served = async {
            stop.await;
            self.service.drain();
            Box::pin(self.service.runs.announce_end()).await;
            let deadline = Instant::now() + self.service.options.drain;
            let cells = async {
                // Those of other nodes, too, whose clients came by way of this one.
                while (self.service.admission.totals().1 > 0 || self.service.is_passing_on())
                    && Instant::now() < deadline
                {
                    tokio::time::sleep(LOOK).await;
                }
            };
            let runs = self.service.runs.leave(deadline);
            let sessions = Box::pin(self.service.hand_over_sessions(deadline));
            tokio::join!(cells, runs, sessions);
            let (_, left) = self.service.sessions.made_and_hibernated();
            Box::pin(self.service.runs.leave_cluster(left)).await;
            self.service.sessions.end_all();
            self.service.over.cancel();
            token.cancel();
            for task in serving {
                // It has nothing to say.
                let _ = task.await;
            }
            self.service.hand_over_keys().await;
            for engine in self.service.engines.iter() {
                engine.shutdown().await;
            }
        };
        tokio::select! {
            () = served => {}
            () = keeping => {}
            () = Box::pin(self.service.take_part()) => {}
        }
        Box::pin(self.service.keep_accounts()).await;
        Box::pin(self.tell("service_drained")).await;
        Ok(())
    }

    /// Writes down what the service does itself.
    async fn tell(&self, what: &'static str) {
        let act = Act {
            actor: SERVICE,
            what,
            tenant: None,
            detail: env!("CARGO_PKG_VERSION"),
        };
        if let Err(error) = self.service.tenants.record(act).await {
            tracing::error!(%error, "cannot write an audit event");
        }
    }
}

impl Drop for Server {
    /// A service dropped without shutdown leaves its runs as a crashed one.
    fn drop(&mut self) {
        self.service.runs.abandon();
    }
}

/// The key of requests without a key. Nobody knows its secret. It never has the scope `admin`,
/// whatever a data directory has.
async fn demo_key(tenants: &Tenants) -> Result<KeyInfo, TenantsError> {
    let of_demo = |key: &KeyInfo| key.tenant == TenantName::demo() && key.is_valid();
    let scopes = [Scope::Sessions, Scope::Runs];
    let demo = TenantName::demo();
    let key = match tenants.keys().await?.into_iter().find(of_demo) {
        Some(key) => key,
        None => tenants.create_key(&demo, &scopes, None).await?.info,
    };
    Ok(KeyInfo {
        scopes: scopes.to_vec(),
        ..key
    })
}

/// The admin address: pages for operators without keys, and the admin API for keys with the scope `admin`.
fn admin_router(service: &Arc<Service>, hosts: Hosts) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(service))
        .merge(api::admin::router(service, hosts))
}

async fn health(State(service): State<Arc<Service>>) -> impl IntoResponse {
    if service.is_draining() || service.admission.is_draining() {
        (axum::http::StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else if !service.runs.may_act() {
        (axum::http::StatusCode::SERVICE_UNAVAILABLE, "no database\n")
    } else {
        (axum::http::StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    let text = service.metrics.text(&service);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

/// Removes what a service that died left on its way.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
