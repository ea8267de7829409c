//! Control of a running run: interrupt, stop, steer, decide.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_sandbox::Session;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use crate::run::{Decision, DecisionError, Policy, Raise, RunEvent};

/// Controls a run that is being driven. Clones control the same one.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stopped: AtomicBool,
    wake: Notify,
    session: Mutex<Weak<Session>>,
    decisions: UnboundedSender<ControlRequest>,
}

/// A person's change for the rest of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Steering {
    /// A larger budget.
    Budget(Raise),
    /// Another approval policy. Pending approvals stay pending.
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

/// A person's request, and where its result goes.
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

    /// Interrupts the running cell, as Ctrl-C would; the run continues. Returns false if none runs.
    pub fn interrupt(&self) -> bool {
        let session = self
            .0
            .session
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        session.upgrade().is_some_and(|session| session.interrupt())
    }

    /// Ends the run with the best answer so far.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.interrupt();
        self.0.wake.notify_waiters();
    }

    /// Sends a person's decision. The approval is valid for the exact bytes with this hash, once.
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

    /// Changes something for the rest of the run. It is in the journal when this returns; refused
    /// only if the run has ended, or is not driven.
    pub async fn steer(&self, steering: Steering) -> Result<(), DecisionError> {
        self.request(ControlAction::Steering(steering)).await
    }

    async fn request(&self, action: ControlAction) -> Result<(), DecisionError> {
        let (accepted, answer) = oneshot::channel();
        let sent = self.0.decisions.send(ControlRequest { action, accepted });
        sent.map_err(|_| DecisionError::Over)?;
        answer.await.unwrap_or(Err(DecisionError::Over))
    }

    /// Whether its end was requested, and the journal does not have that yet.
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
