//! The sessions of a client, by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::Walls;
use belljar_sandbox::{Engine, EngineSet, Error, SecretGrant, Session, SessionOptions};
use tokio_util::sync::CancellationToken;

use crate::error::CallError;
use crate::permits::{AtMost, Permit, Permits};

/// The most of a stream that a result has: it goes into the window of a model.
const MAX_OUTPUT: usize = 32 << 10;

/// The largest file of one call: it is held in memory, more than once.
const MAX_FILE: u64 = 8 << 20;

/// The sessions of one client or tenant: the holder of this can use all of them.
#[derive(Debug)]
pub struct Sessions {
    engines: EngineSet,
    options: SessionOptions,
    permits: Box<dyn Permits>,
    known: Mutex<HashMap<String, Arc<SessionEntry>>>,
}

/// A session with an id that a client can name.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) id: String,
    pub(crate) session: Session,
    isolation: Walls,
    /// Its holder may run a cell, so that an interrupt hits no other cell.
    turn: tokio::sync::Mutex<()>,
    /// When a call last named it.
    used: Mutex<Instant>,
    _permit: Permit,
}

impl SessionEntry {
    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no call uses the interpreter; `None` if the call is cancelled before that.
    pub(crate) async fn turn(
        &self,
        stop: &CancellationToken,
    ) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            turn = self.turn.lock() => Some(turn),
        }
    }
}

impl Sessions {
    /// Sessions of these engines, each with these options, at most so many at once. A client chooses an
    /// engine by environment and isolation.
    pub fn new(engines: EngineSet, options: SessionOptions, most: usize) -> Self {
        Self::with_permits(engines, options, Box::new(AtMost::new(most)))
    }

    /// The same, with another admission.
    pub fn with_permits(
        engines: EngineSet,
        mut options: SessionOptions,
        permits: Box<dyn Permits>,
    ) -> Self {
        let limits = &mut options.limits;
        limits.output_kept_bytes = limits.output_kept_bytes.min(MAX_OUTPUT);
        limits.transfer_bytes = limits.transfer_bytes.min(MAX_FILE);
        Self {
            engines,
            options,
            permits,
            known: Mutex::default(),
        }
    }

    /// Ends all sessions and whatever else the engine runs.
    pub async fn shutdown(&self) {
        self.known().clear();
        for engine in self.engines.iter() {
            engine.shutdown().await;
        }
    }

    /// Ends idle sessions in which nothing runs. Returns how many are left.
    pub fn end_idle(&self, after: Duration) -> usize {
        let mut known = self.known();
        known.retain(|_, entry| Arc::strong_count(entry) > 1 || entry.used().elapsed() < after);
        known.len()
    }

    pub(crate) fn permits(&self) -> &dyn Permits {
        &*self.permits
    }

    pub(crate) async fn create(
        &self,
        environment: Option<&str>,
        isolation: Option<&str>,
    ) -> Result<Arc<SessionEntry>, CallError> {
        let engine = self.engine(environment, isolation)?;
        let permits = self.permits.sessions(1, engine.walls())?;
        let session = engine.session_with(self.options.clone()).await;
        let session = session.map_err(|error| CallError::Session(self.permits.explain(error)))?;
        let entry = self.hold([session], permits, engine.walls()).pop();
        entry.ok_or_else(|| CallError::Limit("No more sessions can be started.".into()))
    }

    /// The engine for a request.
    pub(crate) fn engine(
        &self,
        environment: Option<&str>,
        isolation: Option<&str>,
    ) -> Result<&Engine, CallError> {
        let least = self.permits.least_isolation();
        Ok(self.engines.choose(environment, isolation, least)?)
    }

    pub(crate) async fn fork(
        &self,
        entry: &SessionEntry,
        count: u32,
    ) -> Result<Vec<Arc<SessionEntry>>, CallError> {
        let permits = self.permits.sessions(count as usize, entry.isolation)?;
        let forks = entry.session.fork_with(count, SecretGrant::All).await;
        let forks = forks.map_err(|error| self.explain(entry, error))?;
        Ok(self.hold(forks, permits, entry.isolation))
    }

    /// A session to use: one whose isolation is still strong enough.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<SessionEntry>, CallError> {
        let entry = self.find_any(id)?;
        let least = self.permits.least_isolation();
        match least.filter(|least| !entry.isolation.is_at_least(*least)) {
            None => Ok(entry),
            Some(least) => Err(CallError::TooWeak {
                isolation: entry.isolation.as_str(),
                least: least.as_str(),
            }),
        }
    }

    /// A session to close.
    pub(crate) fn find_any(&self, id: &str) -> Result<Arc<SessionEntry>, CallError> {
        let known = self.known();
        if let Some(entry) = known.get(id) {
            *entry.used() = Instant::now();
            return Ok(Arc::clone(entry));
        }
        let mut ids: Vec<String> = known.keys().cloned().collect();
        ids.sort_unstable();
        Err(CallError::NoSession(ids))
    }

    /// Forgets a session. It ends when no call uses it any more.
    pub(crate) fn forget(&self, entry: &SessionEntry) {
        self.known().remove(&entry.id);
    }

    /// The error as the client may see it; a session that has ended is forgotten.
    pub(crate) fn explain(&self, entry: &SessionEntry, error: Error) -> CallError {
        if matches!(error, Error::Ended(_)) {
            self.forget(entry);
        }
        CallError::Session(self.permits.explain(error))
    }

    /// Each session with its permit.
    fn hold(
        &self,
        sessions: impl IntoIterator<Item = Session>,
        permits: Vec<Permit>,
        isolation: Walls,
    ) -> Vec<Arc<SessionEntry>> {
        let entry: Vec<_> = sessions
            .into_iter()
            .zip(permits)
            .map(|(session, permit)| {
                Arc::new(SessionEntry {
                    id: new_id("s"),
                    session,
                    isolation,
                    turn: tokio::sync::Mutex::default(),
                    used: Mutex::new(Instant::now()),
                    _permit: permit,
                })
            })
            .collect();
        let new = entry
            .iter()
            .map(|entry| (entry.id.clone(), Arc::clone(entry)));
        self.known().extend(new);
        entry
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionEntry>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that nobody can guess: with a server of many clients it must not be enough to try.
pub(crate) fn new_id(kind: &str) -> String {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{kind}-{:016x}", u64::from_ne_bytes(bytes))
}
