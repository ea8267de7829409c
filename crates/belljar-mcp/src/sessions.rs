//! The sessions of a client, by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_sandbox::{Engine, Error, Session, SessionOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The most of a stream that a result has: it goes into the window of a model.
const MAX_OUTPUT: usize = 32 << 10;

/// The largest file that is read or written in one call: it is held in memory, more than once.
const MAX_FILE: u64 = 8 << 20;

/// The sessions of one client, or of one tenant: whoever has this can use all of them.
#[derive(Debug)]
pub struct Sessions {
    engine: Engine,
    options: SessionOptions,
    most: usize,
    places: Arc<Semaphore>,
    known: Mutex<HashMap<String, Arc<Held>>>,
}

/// A session with an id that a client can name.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) session: Session,
    /// Whoever has it may run a cell, so that an interrupt hits no cell but his own.
    turn: tokio::sync::Mutex<()>,
    _place: OwnedSemaphorePermit,
}

impl Held {
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
    /// Sessions of this engine, each with these options, at most so many at once.
    pub fn new(engine: Engine, mut options: SessionOptions, most: usize) -> Self {
        let limits = &mut options.limits;
        limits.output_kept_bytes = limits.output_kept_bytes.min(MAX_OUTPUT);
        limits.transfer_bytes = limits.transfer_bytes.min(MAX_FILE);
        Self {
            engine,
            options,
            most,
            places: Arc::new(Semaphore::new(most)),
            known: Mutex::default(),
        }
    }

    /// Ends all sessions and whatever else the engine runs.
    pub async fn shutdown(&self) {
        self.known().clear();
        self.engine.shutdown().await;
    }

    pub(crate) async fn create(&self) -> Result<Arc<Held>, String> {
        let place = self.place()?;
        let session = self.engine.session_with(self.options.clone()).await;
        Ok(self.hold(session.map_err(|error| error.to_string())?, place))
    }

    pub(crate) async fn fork(&self, held: &Held, count: u32) -> Result<Vec<Arc<Held>>, String> {
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(self.place()?);
        }
        let forks = held.session.fork(count).await;
        let forks = forks.map_err(|error| self.explain(held, &error))?;
        let forks = forks.into_iter().zip(places);
        Ok(forks.map(|(fork, place)| self.hold(fork, place)).collect())
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Held>, String> {
        let known = self.known();
        if let Some(held) = known.get(id) {
            return Ok(Arc::clone(held));
        }
        let mut ids: Vec<&str> = known.keys().map(String::as_str).collect();
        ids.sort_unstable();
        let there = match ids.as_slice() {
            [] => "there are no sessions now".to_owned(),
            ids => format!("the sessions that live are {}", ids.join(", ")),
        };
        Err(format!(
            "There is no session with this id: it has ended, or never was ({there}). Make one with \
             create_session, or leave session_id out to use the default session."
        ))
    }

    /// Gives up a session. It ends when no call uses it any more.
    pub(crate) fn forget(&self, held: &Held) {
        self.known().remove(&held.id);
    }

    /// What went wrong, in words; a session that has ended is given up.
    pub(crate) fn explain(&self, held: &Held, error: &Error) -> String {
        if matches!(error, Error::Ended(_)) {
            self.forget(held);
        }
        error.to_string()
    }

    /// A place for a session, which is free again when this is dropped.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, String> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| {
            format!(
                "There may be {} sessions at once, and no more: end some with close_session.",
                self.most
            )
        })
    }

    fn hold(&self, session: Session, place: OwnedSemaphorePermit) -> Arc<Held> {
        let held = Arc::new(Held {
            id: new_id("s"),
            session,
            turn: tokio::sync::Mutex::default(),
            _place: place,
        });
        self.known().insert(held.id.clone(), Arc::clone(&held));
        held
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that nobody can guess: with a server of many clients it must not be enough to try.
pub(crate) fn new_id(kind: &str) -> String {
    let mut bytes = [0; 8];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{kind}-{:016x}", u64::from_ne_bytes(bytes))
}
