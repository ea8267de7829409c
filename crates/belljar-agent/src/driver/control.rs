//! How a run is interrupted, stopped and given a person's decisions from elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_sandbox::Session;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use crate::run::{Decision, DecisionError};

/// Reaches a run that is being driven. Clones reach the same one.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stopped: AtomicBool,
    wake: Notify,
    session: Mutex<Weak<Session>>,
    decisions: UnboundedSender<Wanted>,
}

/// A decision, and who wants to know whether it was taken.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) approval: String,
    pub(super) hash: String,
    pub(super) decision: Decision,
    pub(super) taken: oneshot::Sender<Result<(), DecisionError>>,
}

impl Control {
    /// With it, where the decisions arrive.
    pub(super) fn new() -> (Self, UnboundedReceiver<Wanted>) {
        let (decisions, arrive) = unbounded_channel();
        let inner = Inner {
            stopped: AtomicBool::default(),
            wake: Notify::default(),
            session: Mutex::default(),
            decisions,
        };
        (Self(Arc::new(inner)), arrive)
    }

    /// Interrupts the cell that runs, as Ctrl-C would; the run goes on. False if none runs.
    pub fn interrupt(&self) -> bool {
        let session = self
            .0
            .session
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        session.upgrade().is_some_and(|session| session.interrupt())
    }

    /// Ends the run with the best answer that it has.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.interrupt();
        self.0.wake.notify_waiters();
    }

    /// Says what a person decided. The approval is taken for the exact bytes with this hash, once.
    pub async fn decide(
        &self,
        approval: &str,
        hash: &str,
        decision: Decision,
    ) -> Result<(), DecisionError> {
        let (taken, answer) = oneshot::channel();
        let wanted = Wanted {
            approval: approval.to_owned(),
            hash: hash.to_owned(),
            decision,
            taken,
        };
        let sent = self.0.decisions.send(wanted);
        sent.map_err(|_| DecisionError::Over)?;
        answer.await.unwrap_or(Err(DecisionError::Over))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.0.stopped.store(false, Ordering::Release);
    }

    pub(super) async fn stopped(&self) {
        let woken = self.0.wake.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        if !self.is_stopped() {
            woken.await;
        }
    }

    pub(super) fn watch(&self, session: &Arc<Session>) {
        *self
            .0
            .session
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(session);
    }
}
