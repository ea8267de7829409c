//! How many connections to its ports a session may have.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;
use crate::lock::lock;
use crate::session::port_error::PortError;

/// The most connections to the ports of a session at once.
const MAX_CONNECTIONS: usize = 32;

/// The connections that a session may still have, and when it last had one.
#[derive(Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    used: Arc<Mutex<Option<Instant>>>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            used: Arc::default(),
        }
    }
}

impl Connections {
    pub(crate) fn acquire(&self) -> Result<OpenConnection, Error> {
        let limit = MAX_CONNECTIONS;
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        Ok(OpenConnection {
            _permit: permit.map_err(|_| PortError::TooMany { limit })?,
            used: Arc::clone(&self.used),
        })
    }

    /// How long there has been no connection; `None` if there never was one.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        if self.permits.available_permits() < MAX_CONNECTIONS {
            return Some(Duration::ZERO);
        }
        lock(&self.used).map(|used| used.elapsed())
    }
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    _permit: OwnedSemaphorePermit,
    used: Arc<Mutex<Option<Instant>>>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        *lock(&self.used) = Some(Instant::now());
    }
}
