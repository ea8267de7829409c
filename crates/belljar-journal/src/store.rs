//! The interface of a store of events.

use std::fmt;
use std::pin::Pin;

use crate::{AppendError, Entry, Error, NewEvent, RunId, RunSummary};

/// A future behind a pointer: the store is chosen when the program runs.
pub(crate) type StoreFuture<'a, T, E = Error> =
    Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// A page of entries ends after this many bytes of bodies, or after one entry.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// A store of events. `tests/conformance` has what each must guarantee.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Appends all events or none; they are durable when it returns. `events` is not empty.
    fn append<'a>(
        &'a self,
        run: &'a RunId,
        expected: u64,
        events: &'a [NewEvent],
    ) -> StoreFuture<'a, u64, AppendError>;

    /// A page of the events after `after`, in order; empty if there are none.
    fn read<'a>(&'a self, run: &'a RunId, after: u64, limit: usize) -> StoreFuture<'a, Vec<Entry>>;

    /// Removes a run with all of its events; they are durably gone when it returns. Does nothing
    /// for an unknown run.
    fn remove<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, ()>;

    /// Passes the body of each event of each run to `see`.
    fn each_body<'a>(&'a self, see: &'a mut (dyn FnMut(&str) + Send)) -> StoreFuture<'a, ()>;

    /// Returns the space of removed runs to the disk.
    fn compact(&self) -> StoreFuture<'_, ()>;

    /// The last sequence number, 0 if there is no such run.
    fn last_seq<'a>(&'a self, run: &'a RunId) -> StoreFuture<'a, u64>;

    /// A page of the runs that are older than `before`, the newest first.
    fn runs<'a>(
        &'a self,
        before: Option<&'a RunId>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<RunSummary>>;
}
