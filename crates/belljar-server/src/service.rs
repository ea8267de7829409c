//! What all handlers share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use belljar_sandbox::Engine;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds::Bounds;
use crate::idempotency::Idempotency;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::problem::{Code, Problem};
use crate::sessions::Sessions;
use crate::tenants::{TenantName, Tenants};

/// Files that are received or made up to be sent at once. Each may hold as much disk as a transfer may.
const MAX_TRANSFERS: usize = 32;

/// Bodies of JSON above a small size that are held in memory at once.
const MAX_LARGE_BODIES: usize = 128;

/// One node's service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) engine: Engine,
    pub(crate) options: ServerOptions,
    pub(crate) tenants: Tenants,
    pub(crate) sessions: Sessions,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) idempotency: Idempotency,
    pub(crate) metrics: Metrics,
    transfers: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
    /// Where bodies and archives are kept on their way.
    pub(crate) spool: PathBuf,
    draining: AtomicBool,
}

impl Service {
    pub(crate) fn new(
        engine: Engine,
        tenants: Tenants,
        options: ServerOptions,
        node: String,
        spool: PathBuf,
    ) -> Arc<Self> {
        Arc::new(Self {
            bounds: Bounds::new(&options),
            engine,
            options,
            tenants,
            sessions: Sessions::new(node),
            idempotency: Idempotency::default(),
            metrics: Metrics::default(),
            transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)),
            large_bodies: Arc::new(Semaphore::new(MAX_LARGE_BODIES)),
            spool,
            draining: AtomicBool::new(false),
        })
    }

    /// Takes no more work.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// A place for a file on its way.
    pub(crate) fn transfer(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.transfers).try_acquire_owned();
        place.map_err(|_| Problem::new(Code::ServiceFull, "too many files are on their way"))
    }

    /// A place for a body that is not small.
    pub(crate) fn large_body(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.large_bodies).try_acquire_owned();
        place.map_err(|_| Problem::new(Code::ServiceFull, "too many large requests arrive"))
    }
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantName,
    /// Of the key.
    pub(crate) prefix: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::internal("a request", "it came without its caller"))
    }
}
