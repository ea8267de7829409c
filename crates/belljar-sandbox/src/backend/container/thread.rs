//! The thread that talks to stewards: files are read and written by plain functions, and the thread that waits in one of
//! them could not bring its answer.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::error::ContainerError;

/// How long removals that were asked for last may take at the end.
const LAST: Duration = Duration::from_secs(1);

/// A thread with a runtime of its own. It ends with this.
#[derive(Debug)]
pub(super) struct RelayThread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl RelayThread {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("containers".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                runtime.shutdown_timeout(LAST);
            })?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// Runs something on the thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        act: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ContainerError> {
        let done = self.handle.spawn(act).await;
        done.map_err(|error| ContainerError::Steward(error.to_string()))
    }

    /// The same, without waiting for it.
    pub(super) fn spawn(&self, act: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(act);
    }

    /// Runs something that waits, beside the thread.
    pub(super) fn spawn_blocking(&self, act: impl FnOnce() + Send + 'static) {
        self.handle.spawn_blocking(act);
    }
}
