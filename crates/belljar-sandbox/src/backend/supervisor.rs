//! Who starts sessions: the backend of an engine, started at first use and replaced if it is lost.

use belljar_protocol::Walls;

use super::container::ContainerBackend;
use super::running::RunningBackend;
use super::spec::BackendSpec;
use super::warm::WarmBackend;
use crate::error::Error;

/// The backend of an engine.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) spec: BackendSpec,
    running: tokio::sync::Mutex<Option<RunningBackend>>,
}

impl Supervisor {
    pub(crate) fn new(spec: BackendSpec) -> Self {
        Self {
            spec,
            running: tokio::sync::Mutex::default(),
        }
    }

    /// The running backend. Starts one if there is none, or the last one is down.
    pub(crate) async fn running(&self) -> Result<RunningBackend, Error> {
        let mut running = self.running.lock().await;
        if let Some(backend) = running.as_ref().filter(|backend| !backend.is_down()) {
            return Ok(backend.clone());
        }
        let spec = self.spec.clone();
        let backend = match spec.walls {
            Walls::Container => {
                let started = Box::pin(ContainerBackend::start(spec.environment));
                RunningBackend::Container(started.await?)
            }
            Walls::Gvisor => {
                let started = Box::pin(ContainerBackend::start_gvisor(spec.environment));
                RunningBackend::Container(started.await?)
            }
            Walls::Full | Walls::Unfiltered | Walls::None => {
                RunningBackend::Warm(Box::pin(WarmBackend::start(spec)).await?)
            }
        };
        *running = Some(backend.clone());
        Ok(backend)
    }

    /// Stops the backend, and waits until nothing of it is left.
    pub(crate) async fn stop(&self) {
        let backend = self.running.lock().await.take();
        if let Some(backend) = backend {
            backend.stop().await;
        }
    }
}
