//! Who starts sessions: the backend of an engine, started at first use and replaced if it is lost.

use std::sync::Arc;

use super::spec::BackendSpec;
use super::warm::WarmBackend;
use crate::error::Error;

/// The backend of an engine. A second kind of backend is chosen here.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) spec: BackendSpec,
    running: tokio::sync::Mutex<Option<Arc<WarmBackend>>>,
}

impl Supervisor {
    pub(crate) fn new(spec: BackendSpec) -> Self {
        Self {
            spec,
            running: tokio::sync::Mutex::default(),
        }
    }

    /// The running backend. Starts one if there is none, or the last one is down.
    pub(crate) async fn running(&self) -> Result<Arc<WarmBackend>, Error> {
        let mut running = self.running.lock().await;
        if let Some(warm) = running.as_ref().filter(|warm| !warm.is_down()) {
            return Ok(Arc::clone(warm));
        }
        let warm = WarmBackend::start(self.spec.clone()).await?;
        *running = Some(Arc::clone(&warm));
        Ok(warm)
    }

    /// Stops the backend, and waits until nothing of it is left.
    pub(crate) async fn stop(&self) {
        let warm = self.running.lock().await.take();
        if let Some(warm) = warm {
            let _ = tokio::task::spawn_blocking(move || warm.stop()).await;
        }
    }
}
