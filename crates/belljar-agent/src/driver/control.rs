//! How a run is interrupted and stopped from elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_sandbox::Session;
use tokio::sync::Notify;

/// Reaches a run that is being driven. Clones reach the same one.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    wake: Notify,
    session: Mutex<Weak<Session>>,
}

impl Control {
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
