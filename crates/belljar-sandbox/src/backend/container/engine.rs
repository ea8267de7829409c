//! The container engine, and the thread that talks to it.

use std::io;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::api::EngineApi;
use super::create::{ENGINE_LABEL, HOST_LABEL};
use super::error::ContainerError;
use super::thread::RelayThread;
use crate::backend::directory::EngineDirectory;

/// How often a container that could not be removed is tried again.
const TRIES: u32 = 5;
const RETRY: Duration = Duration::from_secs(1);

/// A container engine, with a thread of its own.
#[derive(Debug)]
pub(crate) struct ContainerEngine {
    pub(super) api: EngineApi,
    /// The release of the engine's kernel.
    pub(super) kernel: String,
    /// The host and user of this process, as a label.
    pub(super) host: String,
    pub(super) thread: RelayThread,
}

impl ContainerEngine {
    pub(super) fn new(api: EngineApi, kernel: String) -> io::Result<Self> {
        Ok(Self {
            api,
            kernel,
            host: host(),
            thread: RelayThread::start()?,
        })
    }

    /// Ends and removes a container, without waiting for it.
    pub(super) fn remove(&self, container: String) {
        let api = self.api.clone();
        self.thread.spawn(async move {
            for _ in 0..TRIES {
                match api.remove(&container).await {
                    Ok(()) => return,
                    Err(error) => {
                        tracing::warn!(%error, container, "a container could not be removed yet");
                    }
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    /// Removes containers of engines of this host and user that have died before they started them: all others end with
    /// their engines.
    pub(super) async fn remove_orphans(&self, directory: &EngineDirectory) {
        let label = format!("{HOST_LABEL}={}", self.host);
        let listed = self.api.list(&label).await.unwrap_or_default();
        for container in listed {
            let engine = container["Labels"][ENGINE_LABEL].as_str();
            if let (Some(id), Some(engine)) = (container["Id"].as_str(), engine)
                && !directory.is_alive(engine)
            {
                self.remove(id.to_owned());
            }
        }
    }

    /// Removes all containers of an engine of ours, and waits until they are gone.
    pub(super) async fn sweep(&self, engine: &str) -> Result<(), ContainerError> {
        let api = self.api.clone();
        let label = format!("{ENGINE_LABEL}={engine}");
        self.thread
            .run(async move {
                for container in api.list(&label).await? {
                    if let Some(id) = container["Id"].as_str() {
                        api.remove(id).await?;
                    }
                }
                Ok(())
            })
            .await?
    }
}

/// The same for all engines of this host and user, and for no others. The id of the machine itself is nobody's business.
fn host() -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let user = rustix::process::getuid().as_raw();
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let hash = Sha256::digest(format!("belljar {} {name} {user}", machine.trim()));
    let (first, _) = hash.split_at(8);
    let number = first
        .iter()
        .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    format!("{number:016x}")
}
