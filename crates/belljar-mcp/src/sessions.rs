//! The sessions of a client, by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_sandbox::{Engine, Error, Session, SessionOptions};
use tokio_util::sync::CancellationToken;

use crate::places::{AtMost, Place, Places};

/// The most of a stream that a result has: it goes into the window of a model.
const MAX_OUTPUT: usize = 32 << 10;

/// The largest file of one call: it is held in memory, more than once.
const MAX_FILE: u64 = 8 << 20;

/// The sessions of one client or tenant: the holder of this can use all of them.
#[derive(Debug)]
pub struct Sessions {
    engine: Engine,
    options: SessionOptions,
    places: Box<dyn Places>,
    known: Mutex<HashMap<String, Arc<Held>>>,
}

/// A session with an id that a client can name.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) session: Session,
    /// Its holder may run a cell, so that an interrupt hits no other cell.
    turn: tokio::sync::Mutex<()>,
    /// When a call last named it.
    used: Mutex<Instant>,
    _place: Place,
}

impl Held {
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
    /// Sessions of this engine, each with these options, at most so many at once.
    pub fn new(engine: Engine, options: SessionOptions, most: usize) -> Self {
        Self::with_places(engine, options, Box::new(AtMost::new(most)))
    }

    /// The same, with another admission.
    pub fn with_places(
        engine: Engine,
        mut options: SessionOptions,
        places: Box<dyn Places>,
    ) -> Self {
        let limits = &mut options.limits;
        limits.output_kept_bytes = limits.output_kept_bytes.min(MAX_OUTPUT);
        limits.transfer_bytes = limits.transfer_bytes.min(MAX_FILE);
        Self {
            engine,
            options,
            places,
            known: Mutex::default(),
        }
    }

    /// Ends all sessions and whatever else the engine runs.
    pub async fn shutdown(&self) {
        self.known().clear();
        self.engine.shutdown().await;
    }

    /// Ends idle sessions in which nothing runs. Returns how many are left.
    pub fn end_idle(&self, after: Duration) -> usize {
        let mut known = self.known();
        known.retain(|_, held| Arc::strong_count(held) > 1 || held.used().elapsed() < after);
        known.len()
    }

    pub(crate) fn places(&self) -> &dyn Places {
        &*self.places
    }

    pub(crate) async fn create(&self) -> Result<Arc<Held>, String> {
        let places = self.places.sessions(1)?;
        let session = self.engine.session_with(self.options.clone()).await;
        let session = session.map_err(|error| self.places.explain(error))?;
        let held = self.hold([session], places).pop();
        held.ok_or_else(|| "No more sessions can be started.".into())
    }

    pub(crate) async fn fork(&self, held: &Held, count: u32) -> Result<Vec<Arc<Held>>, String> {
        let places = self.places.sessions(count as usize)?;
        let forks = held.session.fork(count).await;
        let forks = forks.map_err(|error| self.explain(held, error))?;
        Ok(self.hold(forks, places))
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Held>, String> {
        let known = self.known();
        if let Some(held) = known.get(id) {
            *held.used() = Instant::now();
            return Ok(Arc::clone(held));
        }
        let mut ids: Vec<&str> = known.keys().map(String::as_str).collect();
        ids.sort_unstable();
        let there = match ids.as_slice() {
            [] => "there are no sessions now".to_owned(),
            ids => format!("the live sessions are {}", ids.join(", ")),
        };
        Err(format!(
            "There is no session with this id: it has ended, or never was ({there}). Make one with \
             create_session, or leave session_id out to use the default session."
        ))
    }

    /// Forgets a session. It ends when no call uses it any more.
    pub(crate) fn forget(&self, held: &Held) {
        self.known().remove(&held.id);
    }

    /// The error as text; a session that has ended is forgotten.
    pub(crate) fn explain(&self, held: &Held, error: Error) -> String {
        if matches!(error, Error::Ended(_)) {
            self.forget(held);
        }
        self.places.explain(error)
    }

    /// Each session with its permit.
    fn hold(
        &self,
        sessions: impl IntoIterator<Item = Session>,
        places: Vec<Place>,
    ) -> Vec<Arc<Held>> {
        let held: Vec<_> = sessions
            .into_iter()
            .zip(places)
            .map(|(session, place)| {
                Arc::new(Held {
                    id: new_id("s"),
                    session,
                    turn: tokio::sync::Mutex::default(),
                    used: Mutex::new(Instant::now()),
                    _place: place,
                })
            })
            .collect();
        let new = held.iter().map(|held| (held.id.clone(), Arc::clone(held)));
        self.known().extend(new);
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
