//! Runs of a cluster: claimed by this node, released by it, and looked for on others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{RunError, RunsDirectory};
use belljar_journal::{
    Membership, Node, NodeLoad, NodeOffer, NodePlace, OwnedRun, RunId, RunState,
};

use super::counts::InCluster;
use super::drive::LetGo;
use super::go_on::AGAIN;
use super::reach::Model;
use super::{Runs, fault, objects_of_runs, other_node};
use crate::admission::memory_at_first;
use crate::lock::lock;
use crate::problem::Problem;
use crate::tenants::TenantName;

/// The most runs that are claimed at once, so that other nodes get some as well.
pub const CLAIM: usize = 8;

/// The age of objects of a run that doesn't exist and never will: an id is repeated for a day at most, with the
/// idempotency key of its request, and a run begins within an hour of its first object.
const ORPHANED: Duration = Duration::from_hours(48);

/// Maximum time for marking this node as one that leaves.
const ANNOUNCE: Duration = Duration::from_secs(2);

const EACH_DAY: Duration = Duration::from_hours(24);

impl Runs {
    /// This node in its cluster, if it is in one.
    pub(crate) fn in_cluster(&self) -> Option<InCluster> {
        let node = self.node()?;
        Some(InCluster {
            nodes: 1 + node.beating_others(),
            may_act: node.may_act(),
            is_draining: node.is_draining(),
            taken_over: self.counts.taken_over(),
            rejoined: self.counts.rejoined(),
        })
    }

    /// Claims runs of dead nodes, and those that are ready, and drives them: over all lives of this node.
    pub(super) async fn claim_all(self: &Arc<Self>, membership: &Membership) {
        let mut was_refused = false;
        loop {
            if membership.node().is_over() {
                // Others drive its runs, or will.
                std::mem::take(&mut *lock(&self.life)).cancel();
                match membership.join_again().await {
                    Ok(node) => {
                        self.counts.note_rejoined();
                        tracing::warn!(life = node.life(), "joined the cluster again");
                    }
                    Err(error) => tracing::error!(%error, "cannot join the cluster again"),
                }
            }
            let most = self.admission.free_runs(self.first_memory()).min(CLAIM);
            let claimed = if most > 0 {
                membership.node().claim(most).await
            } else {
                // Nobody else can claim these: they are given up for others.
                membership.node().claim_dropped(CLAIM).await
            };
            match claimed {
                Ok(claimed) => {
                    was_refused = false;
                    for owned in claimed {
                        self.take_over(owned).await;
                    }
                }
                Err(error) if was_refused => tracing::debug!(%error, "cannot claim runs"),
                Err(error) => {
                    tracing::error!(%error, "cannot claim runs");
                    was_refused = true;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// What the session of a run needs at first, with the default isolation.
    fn first_memory(&self) -> u64 {
        let walls = self.engines.first().walls();
        memory_at_first(walls, self.session.limits.memory_bytes)
    }

    /// Drives a claimed run, or gives it up.
    async fn take_over(self: &Arc<Self>, owned: OwnedRun) {
        let id = owned.id().clone();
        let epoch = owned.epoch();
        match self.drive_owned(owned).await {
            Ok(None) => {
                self.counts.note_taken_over();
                tracing::info!(run = %id, epoch, "run taken over");
            }
            Ok(Some((owned, state))) => {
                if let Err(error) = owned.give_up(state).await {
                    // The next claim has it again.
                    tracing::warn!(run = %id, %error, "cannot give a run up");
                }
            }
            // As well.
            Err(problem) => {
                tracing::error!(run = %id, problem.detail, "cannot take a run over now");
            }
        }
    }

    /// Drives a claimed run; returns it with the state in which it is to be given up, if it is not to be driven here.
    async fn drive_owned(
        self: &Arc<Self>,
        owned: OwnedRun,
    ) -> Result<Option<(OwnedRun, RunState)>, Problem> {
        let id = owned.id().clone();
        let missing = owned.missing_events();
        if missing > 0 {
            tracing::error!(run = %id, missing, "run interrupted: the database has lost events of it");
            return Ok(Some((owned, RunState::Stuck)));
        }
        let Ok(tenant) = owned.tenant().parse::<TenantName>() else {
            return Ok(Some((owned, RunState::Stuck)));
        };
        let is_stopped = lock(&self.interrupted).get(&id).copied() == Some(true);
        let agent = match self.read(&tenant, id.as_str()).await {
            Ok(recorded) if recorded.run.ending().is_some() => {
                return Ok(Some((owned, RunState::Ended)));
            }
            Ok(recorded) if !recorded.run.undecided().is_empty() && !is_stopped => {
                return Ok(Some((owned, RunState::Waits)));
            }
            Ok(recorded) => self.agent_of(&tenant, &recorded, Model::Its),
            Err(problem) if problem.code.retry() => return Err(problem),
            Err(problem) => Err(problem),
        };
        let (agent, isolation) = match agent {
            Ok(agent) => agent,
            Err(problem) => {
                tracing::error!(run = %id, problem.detail, "cannot resume a run");
                return Ok(Some((owned, RunState::Stuck)));
            }
        };
        let permits = match self.permits(&tenant, isolation).await {
            Ok(permits) => permits,
            // Another node may have some.
            Err(problem) if problem.code.retry() => return Ok(Some((owned, RunState::Ready))),
            Err(problem) => {
                tracing::error!(run = %id, problem.detail, "cannot resume a run");
                return Ok(Some((owned, RunState::Stuck)));
            }
        };
        let mut live = agent.resume_owned(owned).await.map_err(fault)?;
        if is_stopped {
            live.stop().await.map_err(fault)?;
            lock(&self.interrupted).remove(&id);
        }
        self.drive(live, permits);
        Ok(None)
    }

    /// A run is driven no longer. One that has failed for want of the database is claimed again.
    pub(super) async fn release(
        &self,
        id: &RunId,
        ended: Result<Option<LetGo>, RunError>,
        is_stopped: bool,
    ) {
        let Some(membership) = &self.membership else {
            return;
        };
        let state = match ended {
            // Who drove it to its end has given it up; what may be written no longer is claimed.
            Ok(None | Some(LetGo::Dropped)) => return,
            Ok(Some(LetGo::ForOthers)) => RunState::Ready,
            Ok(Some(LetGo::Waits)) => RunState::Waits,
            Err(error) if error.storage_fault().is_some() || error.is_of_owner() => {
                if is_stopped {
                    lock(&self.interrupted).insert(id.clone(), true);
                }
                return;
            }
            Err(_) => RunState::Stuck,
        };
        if let Err(error) = membership.node().release(id, state).await {
            tracing::warn!(run = %id, %error, "cannot release a run");
        }
    }

    /// The current life of this node, in a cluster.
    pub(crate) fn node(&self) -> Option<Node> {
        self.membership.as_ref().map(Membership::node)
    }

    /// Gives up all runs, each after the calls that it is at.
    pub(crate) fn drain(&self) {
        self.drained.cancel();
    }

    /// How many runs this node drives.
    pub(crate) fn active(&self) -> usize {
        lock(&self.driven).len()
    }

    /// Whether this service drives a run, for a text that may be no id.
    pub(crate) fn drives(&self, id: &str) -> bool {
        id.parse().is_ok_and(|id| self.is_driven(&id))
    }

    /// Tells the other nodes that this one leaves: they give it nothing more.
    pub(crate) async fn announce_end(&self) {
        let Some(node) = self.node() else { return };
        self.admission.drain();
        let drained = tokio::time::timeout(ANNOUNCE, node.drain()).await;
        if !matches!(drained, Ok(Ok(()))) {
            tracing::warn!("cannot tell the other nodes that this one leaves");
        }
    }

    /// Ends this node's life: others take over what is left of its runs at once. So many sessions wait for its next start.
    pub(crate) async fn leave_cluster(&self, sessions: usize) {
        if let Some(node) = self.node() {
            node.report(NodeLoad {
                sessions: sessions as u64,
                ..self.admission.load()
            });
        }
        if let Some(membership) = &self.membership
            && let Err(error) = membership.node().leave().await
        {
            tracing::error!(%error, "cannot leave the cluster; others take over after the lease");
        }
    }

    /// Whether this service may write to its runs.
    pub(crate) fn may_act(&self) -> bool {
        let membership = self.membership.as_ref();
        membership.is_none_or(|membership| membership.node().may_act())
    }

    /// The other node that drives a run.
    pub(super) async fn elsewhere(&self, id: &RunId) -> Result<Option<NodePlace>, Problem> {
        let Some(membership) = &self.membership else {
            return Ok(None);
        };
        let node = membership.node();
        let place = node.place(id).await;
        let place = place.map_err(|error| fault(error.into()))?;
        let driver = place.and_then(|place| place.driver);
        Ok(driver.filter(|driver| driver.name != node.name()))
    }

    /// Another node by its name: nothing if nobody knows one, and nothing within if it does not live.
    pub(crate) async fn find_node(&self, name: &str) -> Result<Option<Option<NodePlace>>, Problem> {
        let Some(membership) = &self.membership else {
            return Ok(None);
        };
        let node = membership.node();
        if name == node.name() {
            return Ok(None);
        }
        let found = node.find(name).await;
        let found = found.map_err(|error| fault(error.into()))?;
        if found.is_none() {
            let is_known = node.knows(name).await;
            let is_known = is_known.map_err(|error| fault(error.into()))?;
            return Ok(is_known.then_some(None));
        }
        Ok(Some(found))
    }

    /// The other nodes that live or died not long ago, by name: those that live with their place.
    pub(crate) async fn other_nodes(&self) -> Result<BTreeMap<String, Option<NodePlace>>, Problem> {
        let Some(membership) = &self.membership else {
            return Ok(BTreeMap::new());
        };
        let others = membership.node().others().await;
        others.map_err(|error| fault(error.into()))
    }

    /// The other nodes that take new sessions.
    pub(crate) async fn offers(&self) -> Result<Vec<NodeOffer>, Problem> {
        let Some(membership) = &self.membership else {
            return Ok(Vec::new());
        };
        let offers = membership.node().offers().await;
        offers.map_err(|error| fault(error.into()))
    }

    /// Notes that another node could not be reached: nothing is placed on it until it has beaten again.
    pub(crate) fn note_unreached(&self, node: &NodePlace) {
        if let Some(membership) = &self.membership {
            membership.node().note_unreached(node.life);
        }
    }

    /// Reports to the other nodes what this one has.
    pub(crate) fn report(&self) {
        if let Some(membership) = &self.membership {
            membership.node().report(self.admission.load());
        }
    }

    /// The other node that drives a run, for a text that may be no id.
    pub(crate) async fn driver_elsewhere(&self, id: &str) -> Result<Option<NodePlace>, Problem> {
        match id.parse() {
            Ok(id) => self.elsewhere(&id).await,
            Err(_) => Ok(None),
        }
    }

    /// Refuses what only the node can do that drives a run.
    pub(super) async fn check_not_elsewhere(&self, id: &RunId) -> Result<(), Problem> {
        match self.elsewhere(id).await? {
            Some(node) => Err(other_node(&node.name)),
            None => Ok(()),
        }
    }

    /// Removes what a deleted run has in the object store, behind the answer to the client.
    pub(super) fn remove_objects(&self, directory: RunsDirectory, id: RunId) {
        let abandon = self.abandon.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                removed = directory.remove_objects(&id) => {
                    if let Err(error) = removed {
                        tracing::warn!(run = %id, %error, "objects of a deleted run stay until they are orphans");
                    }
                }
                () = abandon.cancelled() => {}
            }
        });
    }

    /// Removes objects of runs that don't exist: of one whose node died while it was deleted, or before it began, or of
    /// a driver that was too late.
    pub(super) async fn remove_orphans(&self, membership: &Membership) {
        let Some(objects) = &self.objects else { return };
        let objects = objects_of_runs(objects);
        loop {
            match membership.node().remove_orphans(&objects, ORPHANED).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "removed objects of runs that do not exist"),
                Err(error) => {
                    tracing::warn!(%error, "cannot remove objects of runs that do not exist");
                }
            }
            tokio::time::sleep(EACH_DAY).await;
        }
    }
}
