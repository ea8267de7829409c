//! How a run is interrupted, stopped, steered and given a person's decisions from elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_sandbox::Session;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use crate::run::{Decision, DecisionError, Policy, Raise, RunEvent};

/// Reaches a run that is being driven. Clones reach the same one.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stopped: AtomicBool,
    wake: Notify,
    session: Mutex<Weak<Session>>,
    decisions: UnboundedSender<ControlRequest>,
}

/// What a person changes for the rest of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Steering {
    /// It may use more.
    Budget(Raise),
    /// A person is asked at other times. What waits for a person waits on.
    Policy(Policy),
}

impl From<Steering> for RunEvent {
    fn from(steering: Steering) -> Self {
        match steering {
            Steering::Budget(raise) => Self::BudgetRaised { raise },
            Steering::Policy(policy) => Self::PolicySet { policy },
        }
    }
}

/// What a person wants, and who wants to know whether it was taken.
#[derive(Debug)]
pub(super) struct ControlRequest {
    pub(super) action: ControlAction,
    pub(super) accepted: oneshot::Sender<Result<(), DecisionError>>,
}

#[derive(Debug)]
pub(super) enum ControlAction {
    Decision {
        approval: String,
        hash: String,
        decision: Decision,
    },
    Steering(Steering),
}

impl Control {
    /// With it, where the decisions arrive.
    pub(super) fn new() -> (Self, UnboundedReceiver<ControlRequest>) {
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
        self.request(ControlAction::Decision {
            approval: approval.to_owned(),
            hash: hash.to_owned(),
            decision,
        })
        .await
    }

    /// Changes something for the rest of the run. It is in the journal when this returns; refused only where
    /// the run is over, or nobody drives it.
    pub async fn steer(&self, steering: Steering) -> Result<(), DecisionError> {
        self.request(ControlAction::Steering(steering)).await
    }

    async fn request(&self, action: ControlAction) -> Result<(), DecisionError> {
        let (accepted, answer) = oneshot::channel();
        let sent = self.0.decisions.send(ControlRequest { action, accepted });
        sent.map_err(|_| DecisionError::Over)?;
        answer.await.unwrap_or(Err(DecisionError::Over))
    }

    /// Whether it was told to end, and its journal does not have that yet.
    pub fn is_stopped(&self) -> bool {
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
