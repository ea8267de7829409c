//! Sessions of a cluster that change their node: given away by one that is drained or stops, taken by another.
//!
//! A session that is given away is hibernated, and its record and snapshot are where every node can read them. The next
//! request for it, or the next look of a node with room, takes it over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_journal::{MovedSession, Node, StorageFault};
use belljar_sandbox::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::forward::has_room;
use crate::handover::is_stored;
use crate::object_snapshots::full_name;
use crate::problem::Problem;
use crate::runs::fault;
use crate::service::Service;
use crate::sessions::SessionEntry;
use crate::tenants::{KeptSession, Saved, TenantName};

/// How often a node reports what it has, and looks for what it should take or give away.
pub const LOOK: Duration = Duration::from_millis(500);

/// How long cells and commands of a node that is drained may run.
const CELLS: Duration = Duration::from_mins(5);

/// The free sessions that a node takes at once, so that others get some as well.
const TAKEN_AT_ONCE: u32 = 8;

/// How long it takes until a session is given to a database again that does not answer.
const AGAIN: Duration = Duration::from_millis(500);

impl Service {
    /// Does what a node of a cluster has to do all the time.
    pub(crate) async fn take_part(self: &Arc<Self>) {
        let mut drained_since = None;
        loop {
            let Some(node) = self.runs.node() else {
                return std::future::pending().await;
            };
            self.runs.report();
            if self.is_draining() {
                // All of it is given away already.
            } else if node.is_draining() {
                let since = *drained_since.get_or_insert_with(Instant::now);
                self.admission.drain();
                self.runs.drain();
                self.move_away(since + CELLS);
            } else if has_room(self) {
                Box::pin(self.adopt_free(&node)).await;
            }
            Box::pin(self.forget_ended(&node)).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes a session of the cluster over, if it is free. Whether it is here now, or was.
    pub(crate) async fn adopt(&self, node: &Node, id: &str) -> Result<bool, Problem> {
        let mut adopted = self.adopted.lock().await;
        if adopted.contains(id) || self.sessions.has(id) {
            return Ok(true);
        }
        let taken = node.take_session(id).await;
        let Some(taken) = taken.map_err(|error| fault(error.into()))? else {
            return Ok(false);
        };
        let tenant = taken.tenant.parse::<TenantName>();
        let tenant =
            tenant.map_err(|_| Problem::internal("a session", "its tenant has no name"))?;
        let record = serde_json::from_str(&taken.record).ok();
        let kept = KeptSession {
            id: taken.id,
            tenant,
            record: taken.record,
            saved: Saved::Snapshot(taken.snapshot),
        };
        let restored = Box::pin(self.take_over(kept, record)).await;
        let restored = restored.map_err(|error| {
            // It stays that of this node, and the next request tries again.
            Problem::storage(
                "a session of the cluster",
                error,
                Some(StorageFault::Failed),
            )
        })?;
        tracing::info!(session = id, restored, "session of another node taken over");
        adopted.insert(id.to_owned());
        Ok(true)
    }

    async fn adopt_free(&self, node: &Node) {
        let free = match node.free_sessions(TAKEN_AT_ONCE).await {
            Ok(free) => free,
            Err(error) => return tracing::debug!(%error, "cannot look for sessions of other nodes"),
        };
        for id in free {
            if let Err(problem) = self.adopt(node, &id).await {
                tracing::warn!(session = id, problem.detail, "cannot take a session over");
            }
        }
    }

    /// Forgets sessions that were taken over and have ended. A kernel gets another session under its id.
    async fn forget_ended(&self, node: &Node) {
        let mut adopted = self.adopted.lock().await;
        let ended = adopted.iter().filter(|id| self.sessions.has_ended(id));
        let ended: Vec<String> = ended.cloned().collect();
        if ended.is_empty() {
            return;
        }
        match node.forget_sessions(&ended).await {
            Ok(()) => adopted.retain(|id| !ended.contains(id)),
            Err(error) => tracing::debug!(%error, "cannot forget sessions that have ended"),
        }
    }

    /// Gives away sessions that nothing runs in; after a time also the others. What holds sessions that can't move ends
    /// then.
    fn move_away(self: &Arc<Self>, cells: Instant) {
        let is_late = Instant::now() >= cells;
        if is_late {
            self.mcp.end_all();
        }
        for entry in self.sessions.live(0) {
            if entry.works() && !is_late {
                continue;
            }
            let Ok(slot) = Arc::clone(&self.leaving).try_acquire_owned() else {
                return;
            };
            if entry.begin_leaving() {
                let service = Arc::clone(self);
                tokio::spawn(async move { service.move_one(&entry, slot, cells).await });
            }
        }
    }

    async fn move_one(&self, entry: &SessionEntry, slot: OwnedSemaphorePermit, cells: Instant) {
        let Ok(session) = entry.any_session() else {
            return entry.stay();
        };
        // Before it gives up its work: whatever can't be saved now stays as it is, for another attempt.
        match session.hibernate().await {
            // It is saved in another way.
            Ok(_) | Err(Error::NotHibernated(_)) => {}
            Err(error) => {
                tracing::warn!(%error, session = entry.id, "a session cannot leave this node yet");
                return entry.stay();
            }
        }
        drop(session);
        self.hand_over(entry, &Semaphore::new(1), cells).await;
        drop(slot);
    }

    /// Gives a saved session to the cluster; whether that succeeded in time.
    pub(crate) async fn give(&self, kept: &KeptSession, until: Instant) -> bool {
        let (Some(node), Some(given)) = (self.runs.node(), moved(kept, self.sessions.node()))
        else {
            return false;
        };
        self.adopted.lock().await.remove(&kept.id);
        loop {
            match node.give_session(&given).await {
                Ok(true) => break,
                Ok(false) => {
                    tracing::warn!(
                        session = kept.id,
                        "another node has a session that was saved here"
                    );
                    break;
                }
                Err(error) if Instant::now() + AGAIN < until => {
                    tracing::warn!(%error, session = kept.id, "cannot give a session to the cluster yet");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => {
                    tracing::error!(%error, session = kept.id, "a session stays with this node");
                    return false;
                }
            }
        }
        if let Err(error) = self.tenants.forget_session(&kept.id).await {
            // The next start gives it once more, which changes nothing.
            tracing::warn!(%error, session = kept.id, "cannot forget a session that has left");
        }
        true
    }
}

/// A saved session for other nodes; nothing if its snapshot is not where they can read it.
fn moved(kept: &KeptSession, node: &str) -> Option<MovedSession> {
    let Saved::Snapshot(name) = &kept.saved else {
        return None;
    };
    is_stored(name).then(|| MovedSession {
        id: kept.id.clone(),
        tenant: kept.tenant.as_str().to_owned(),
        record: kept.record.clone(),
        snapshot: full_name(name, node),
    })
}
