//! What a steward runs in: a container of an engine, or a sandbox of gVisor.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use belljar_walls::SessionCgroup;

use super::engine::ContainerEngine;
use super::gvisor::GvisorSandbox;

/// How long the engine may take to say why a container ended.
const EVENT_TIME: Duration = Duration::from_secs(3);

/// What a steward runs in.
#[derive(Debug)]
pub(super) enum Enclosure {
    /// A container, by its id.
    Container {
        /// Who has it.
        engine: Arc<ContainerEngine>,
        /// Its id.
        id: String,
    },
    /// A sandbox that we started ourselves.
    Gvisor(GvisorSandbox),
}

impl Enclosure {
    /// Ends and removes it, without waiting: nothing in it can prevent that.
    pub(super) fn remove(&self) {
        match self {
            Self::Container { engine, id } => engine.remove(id.clone()),
            Self::Gvisor(sandbox) => sandbox.remove(),
        }
    }

    /// Its cgroup, if that is ours.
    pub(super) fn cgroup(&self) -> Option<&SessionCgroup> {
        match self {
            Self::Container { .. } => None,
            Self::Gvisor(sandbox) => Some(&sandbox.cgroup),
        }
    }

    /// Whether a container ended for want of memory. A runtime may end all of it then, so that its steward can't tell.
    pub(super) async fn ran_out_of_memory(&self, since: SystemTime) -> bool {
        let Self::Container { engine, id } = self else {
            return false;
        };
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| since.as_secs())
        };
        let (since, until) = (seconds(since), seconds(SystemTime::now()) + 1);
        let asked = engine.api.ran_out_of_memory(id, since, until);
        tokio::time::timeout(EVENT_TIME, asked).await == Ok(true)
    }
}
