//! Where the cells of a kernel run.

use std::sync::Arc;

use belljar_protocol::Event;
use belljar_sandbox::{Cell, Error, Session};

/// Why a kernel's session did not do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// It failed, or has ended.
    #[error(transparent)]
    Session(#[from] Error),
    /// It was refused, in words for the client.
    #[error("{0}")]
    Refused(String),
}

impl HostError {
    /// Whether this is the end of the session, so that the kernel needs another one.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Session(Error::Ended(_) | Error::Unresponsive))
    }
}

/// Gives a kernel its session.
pub trait Host: Send + Sync {
    /// A running cell.
    type Run: CellEvents;

    /// The version of its Python.
    fn python(&self) -> (u8, u8, u8);

    /// Makes the session ready. Requests that need none are answered meanwhile.
    fn start(&self) -> impl Future<Output = Result<(), HostError>> + Send;

    /// The session, once it is ready.
    fn session(&self) -> impl Future<Output = Result<Arc<Session>, HostError>> + Send;

    /// The session, if it is ready now.
    fn ready_session(&self) -> Option<Arc<Session>>;

    /// Runs a cell in it.
    fn run(&self, cell: Cell) -> impl Future<Output = Result<Self::Run, HostError>> + Send;

    /// Starts another session in place of one that was lost.
    fn replace(&self) -> impl Future<Output = Result<(), HostError>> + Send;
}

/// The events of a running cell.
pub trait CellEvents: Send {
    /// The next one; none after the outcome.
    fn next(&mut self) -> impl Future<Output = Option<Result<Event, HostError>>> + Send;
}
