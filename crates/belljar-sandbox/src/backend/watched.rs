//! How the end of a process is learnt that is no child of the interpreter's any longer.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::container::steward::Steward;
use super::namespace_group::Orphans;

/// Who reports the ends of a session's orphans.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// Its init.
    Init(Orphans),
    /// The steward of its container.
    Steward(Arc<Steward>),
}

impl Watched {
    /// The end of a process.
    pub(crate) fn watch(&self, pid: i32) -> Option<oneshot::Receiver<i32>> {
        match self {
            Self::Init(orphans) => orphans.watch(pid),
            Self::Steward(steward) => steward.watch(pid),
        }
    }
}
