//! A running backend: who starts the sessions of an engine.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_walls::SessionCgroup;

use super::container::ContainerBackend;
use super::directory::EngineDirectory;
use super::warm::WarmBackend;
use crate::capabilities::{Capabilities, Capability, Unsupported};
use crate::environment::Environment;
use crate::session::packages::{LAYERS, PackageStore};

/// A running backend. It lives as long as the engine or one of its sessions.
#[derive(Clone, Debug)]
pub(crate) enum RunningBackend {
    /// Processes behind the walls of this host.
    Warm(Arc<WarmBackend>),
    /// Containers.
    Container(Arc<ContainerBackend>),
}

impl RunningBackend {
    /// The one behind the walls of this host, for what only that can do.
    pub(crate) fn warm(&self, capability: Capability) -> Result<&Arc<WarmBackend>, Unsupported> {
        match self {
            Self::Warm(warm) => Ok(warm),
            Self::Container(_) => Err(Unsupported(capability)),
        }
    }

    /// What it can do.
    pub(crate) fn capabilities(&self) -> Capabilities {
        match self {
            Self::Warm(warm) => warm.capabilities(),
            Self::Container(containers) => Capabilities::new(containers.walls()),
        }
    }

    pub(crate) fn environment(&self) -> &Environment {
        match self {
            Self::Warm(warm) => warm.environment(),
            Self::Container(containers) => containers.environment(),
        }
    }

    pub(crate) fn directory(&self) -> &EngineDirectory {
        match self {
            Self::Warm(warm) => warm.directory(),
            Self::Container(containers) => containers.directory(),
        }
    }

    /// Where a session's long outputs go.
    pub(crate) fn output_directory(&self, id: u64) -> PathBuf {
        self.directory().output(id)
    }

    /// None where sessions may have no packages.
    pub(crate) fn package_store(&self) -> Option<&Arc<PackageStore>> {
        match self {
            Self::Warm(warm) => warm.package_store(),
            Self::Container(_) => None,
        }
    }

    /// Where its sessions see the layers of packages.
    pub(crate) fn layers_in_sessions(&self) -> PathBuf {
        match self {
            Self::Warm(warm) => warm.layers_in_sessions(),
            Self::Container(_) => PathBuf::from(LAYERS),
        }
    }

    pub(crate) fn next_session_id(&self) -> u64 {
        match self {
            Self::Warm(warm) => warm.next_session_id(),
            Self::Container(containers) => containers.next_session_id(),
        }
    }

    /// Whether it has ended, or was stopped.
    pub(crate) fn is_down(&self) -> bool {
        match self {
            Self::Warm(warm) => warm.is_down(),
            Self::Container(containers) => containers.is_down(),
        }
    }

    /// Whether it went down without a shutdown.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Warm(warm) => warm.is_lost(),
            Self::Container(_) => false,
        }
    }

    /// Releases what is left of a session.
    pub(crate) fn forget(&self, id: u64, cgroup: Option<&SessionCgroup>) {
        match self {
            Self::Warm(warm) => {
                if let Some(cgroup) = cgroup {
                    warm.discard(cgroup);
                }
                warm.forget(id);
            }
            Self::Container(_) => {
                let _ = fs::remove_dir_all(self.output_directory(id));
            }
        }
    }

    /// Ends everything and waits until nothing is left.
    pub(crate) async fn stop(self) {
        match self {
            Self::Warm(warm) => {
                let _ = tokio::task::spawn_blocking(move || warm.stop()).await;
            }
            Self::Container(containers) => containers.stop().await,
        }
    }
}
