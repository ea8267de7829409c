//! How many watches a session may have.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// The most watches of a session at once. Each is an inotify instance of the host, whose queue the kernel bounds.
const MAX_WATCHES: usize = 8;

/// The watches that a session may still have.
#[derive(Debug)]
pub(crate) struct Watches(Arc<Semaphore>);

impl Default for Watches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_WATCHES)))
    }
}

impl Watches {
    pub(crate) fn acquire(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.map_err(|_| Error::TooManyWatches { limit: MAX_WATCHES })
    }
}
