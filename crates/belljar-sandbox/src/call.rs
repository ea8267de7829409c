//! Calls at which code in a cell waits for the host: they are answered, and the session can be forked
//! right there.

use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::life::Live;
use crate::session::{CellRun, Session, Work};

/// What a caller wants of a cell that waits in a call. Who drives the cell does it.
#[derive(Debug)]
pub(crate) enum CallRequest {
    Answer {
        call: u64,
        value: Value,
        done: oneshot::Sender<Result<(), Error>>,
    },
    Fork {
        count: u32,
        done: oneshot::Sender<Result<Vec<Session>, Error>>,
    },
}

impl Session {
    /// Answers a call of the cell that runs, told by [`Event::Asked`]; the cell goes on.
    ///
    /// [`Event::Asked`]: belljar_protocol::Event::Asked
    pub async fn answer(&self, call: u64, value: Value) -> Result<(), Error> {
        let asked = |live: Live| live.shared.asked.load(Ordering::Acquire);
        if self.now().map(asked) != Some(call) {
            return Err(Error::NotAsked { call });
        }
        let request = |done| CallRequest::Answer { call, value, done };
        self.call_request(request)
            .await
            .unwrap_or(Err(Error::NotAsked { call }))
    }

    /// Answers the call that a fork was made at: the cell goes on from there, in the fork. What it
    /// wrote before is its parent's output.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn resume(&self, value: Value) -> CellRun {
        self.spawn(Work::Answer(value))
    }

    /// Asks who drives the cell; `None` if it came to its end before.
    pub(crate) async fn call_request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> CallRequest,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.now()?.shared.calls.send(request(done)).ok()?;
        answer.await.ok()
    }
}
