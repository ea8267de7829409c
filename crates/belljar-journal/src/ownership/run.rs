//! A run in the hands of a node.

use sqlx::Row;

use super::Node;
use crate::journal::check_sizes;
use crate::postgres::unsigned;
use crate::{AppendError, NewEvent, RunId};

/// Raising the epoch waits for a statement that is being carried out, and refuses each that comes
/// later: after it, the last sequence number is certain.
const RECONCILE: &str = "UPDATE belljar.runs SET epoch = epoch + 1 \
    WHERE id = $1 AND life = $2 AND epoch BETWEEN $3 AND $4 AND state = 'driven' \
    RETURNING epoch, last_seq";

/// A run that is ready again comes behind the other ready runs of its tenant.
const GIVE_UP: &str = "UPDATE belljar.runs SET epoch = epoch + 1, life = NULL, state = $4, \
        turn = CASE WHEN $4 = 'ready' THEN greatest( \
            (SELECT max(o.turn) + 1 FROM belljar.runs o WHERE o.state = 'ready' AND o.tenant = runs.tenant), \
            (SELECT o.turn FROM belljar.runs o WHERE o.state = 'ready' ORDER BY o.turn, o.number LIMIT 1), 0) \
            ELSE 0 END \
    WHERE id = $1 AND life = $2 AND epoch = $3 RETURNING number";

/// The same of a run that this life has dropped. Whatever it has sent for the run is refused from then on.
pub(super) const GIVE_UP_LOST: &str = "UPDATE belljar.runs SET epoch = epoch + 1, life = NULL, state = $3, \
        turn = CASE WHEN $3 = 'ready' THEN greatest( \
            (SELECT max(o.turn) + 1 FROM belljar.runs o WHERE o.state = 'ready' AND o.tenant = runs.tenant), \
            (SELECT o.turn FROM belljar.runs o WHERE o.state = 'ready' ORDER BY o.turn, o.number LIMIT 1), 0) \
            ELSE 0 END \
    WHERE id = $1 AND life = $2 AND state = 'driven' RETURNING number";

/// The state of a run that has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Any node may claim it.
    Ready,
    /// It waits for something from outside, such as an approval.
    Waits,
    /// It can't be driven, for a reason that a person must look at.
    Stuck,
    /// It has ended.
    Ended,
}

impl RunState {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Waits => "waits",
            Self::Stuck => "stuck",
            Self::Ended => "ended",
        }
    }
}

/// A run that this node drives, until it gives the run up or another node takes it over.
///
/// If it is dropped without being given up, the next [claim](Node::claim) of this node has it again.
#[derive(Debug)]
pub struct OwnedRun {
    node: Node,
    pub(super) id: RunId,
    tenant: String,
    /// Of the claim.
    claimed: i64,
    epoch: i64,
    pub(super) last_seq: u64,
    pub(super) missing: u64,
    is_given_up: bool,
    /// There after an append of unknown outcome: how often the epoch may have been raised since.
    doubts: Option<i64>,
}

impl OwnedRun {
    pub(super) fn new(node: Node, id: RunId, tenant: String, epoch: i64, last_seq: u64) -> Self {
        Self {
            node,
            id,
            tenant,
            claimed: epoch,
            epoch,
            last_seq,
            missing: 0,
            is_given_up: false,
            doubts: None,
        }
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The node that has it.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The number of this ownership: it rises with each owner, and never falls.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The last sequence number that is certain.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// How many acknowledged events of the run this node knew of that the database had no longer when the run was
    /// claimed: it was restored, or failed over to a replica that was behind.
    pub fn missing_events(&self) -> u64 {
        self.missing
    }

    /// Appends events, all or none, and returns the last sequence number.
    ///
    /// After [`AppendError::Journal`] it is unknown whether they are there:
    /// [`reconcile`](Self::reconcile) finds out, and the next append does so first. Then the
    /// sequence number that the caller expected may be outdated, by its own events.
    pub async fn append(
        &mut self,
        expected_seq: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        check_sizes(events)?;
        if self.doubts.is_some() {
            self.reconcile().await?;
        }
        self.node.0.check()?;
        if events.is_empty() {
            return Ok(self.last_seq);
        }
        let postgres = &self.node.0.postgres;
        // Also if this future is dropped.
        self.doubts = Some(0);
        let appended = postgres
            .append_at(self.epoch, &self.id, expected_seq, self.last_seq, events)
            .await;
        match &appended {
            Err(AppendError::Journal(_)) => return appended,
            Err(AppendError::Conflict { actual, .. } | AppendError::Rewound { actual, .. }) => {
                self.last_seq = *actual;
            }
            _ => {}
        }
        self.doubts = None;
        self.last_seq = appended?;
        self.node.0.journal.notify(&self.id, self.last_seq);
        Ok(self.last_seq)
    }

    /// Makes certain what became of the appends so far, and returns the last sequence number.
    pub async fn reconcile(&mut self) -> Result<u64, AppendError> {
        self.node.0.check()?;
        // An earlier attempt may have raised the epoch and lost its answer.
        let attempts = self.doubts.unwrap_or(0);
        self.doubts = Some(attempts + 1);
        let node = &self.node.0;
        let query = sqlx::query(RECONCILE)
            .bind(self.id.as_str())
            .bind(node.life)
            .bind(self.epoch)
            .bind(self.epoch + attempts);
        let row = node.execute(query).await;
        let row = row.map_err(|error| node.postgres.fault(error))?;
        let state = row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let state = state
            .transpose()
            .map_err(|error| node.postgres.fault(error))?;
        let Some((epoch, last_seq)) = state else {
            return Err(AppendError::Fenced);
        };
        self.epoch = epoch;
        self.doubts = None;
        let known = std::mem::replace(&mut self.last_seq, unsigned(last_seq));
        if self.last_seq < known {
            let actual = self.last_seq;
            return Err(AppendError::Rewound { known, actual });
        }
        Ok(self.last_seq)
    }

    /// Gives the run up, in this state.
    ///
    /// If it fails, this node still has the run, or will have it again with the next claim.
    pub async fn give_up(mut self, state: RunState) -> Result<(), AppendError> {
        if self.doubts.is_some() {
            self.reconcile().await?;
        }
        self.node.0.check()?;
        let node = &self.node.0;
        let query = sqlx::query(GIVE_UP)
            .bind(self.id.as_str())
            .bind(node.life)
            .bind(self.epoch)
            .bind(state.as_str());
        let given = node.execute(query).await;
        let given = given.map_err(|error| node.postgres.fault(error))?;
        given.ok_or(AppendError::Fenced)?;
        self.is_given_up = true;
        Ok(())
    }
}

impl Drop for OwnedRun {
    fn drop(&mut self) {
        if !self.is_given_up {
            self.node.0.dropped().note(&self.id, self.last_seq);
        }
        let mut owned = self.node.0.owned();
        // Not a later claim of the same run.
        if owned.get(&self.id) == Some(&self.claimed) {
            owned.remove(&self.id);
        }
    }
}
