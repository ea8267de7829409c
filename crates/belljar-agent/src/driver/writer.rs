//! What appends the events of a run, and keeps others from doing so.

use belljar_journal::{
    AppendError, Journal, Membership, NewEvent, Node, OwnedRun, RunId, RunState,
};

/// Whose runs of a cluster these are, and the node that drives them.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) membership: Membership,
    pub(super) tenant: String,
}

#[derive(Debug)]
pub(super) enum Writer {
    /// The lock of the run's directory keeps other processes away.
    Journal(Journal),
    /// A run of a cluster before its first event.
    New(Node, String),
    /// A run of a cluster that this node owns.
    Owned(Box<OwnedRun>),
}

impl Writer {
    pub(super) async fn append(
        &mut self,
        run: &RunId,
        expected_seq: u64,
        events: &[NewEvent],
    ) -> Result<u64, AppendError> {
        match self {
            Self::Journal(journal) => journal.append(run, expected_seq, events).await,
            Self::New(node, tenant) => {
                let owned = Box::pin(node.begin_run(run, tenant, events)).await?;
                let last = owned.last_seq();
                *self = Self::Owned(Box::new(owned));
                Ok(last)
            }
            Self::Owned(owned) => Box::pin(owned.append(expected_seq, events)).await,
        }
    }

    /// There is nothing to write any more, or not before something happens.
    pub(super) async fn give_up(self, state: RunState) {
        if let Self::Owned(owned) = self {
            let run = owned.id().clone();
            if let Err(error) = Box::pin(owned.give_up(state)).await {
                // The next claim of a node has it, and gives it up.
                tracing::warn!(%run, %error, "cannot give a run up");
            }
        }
    }
}
