//! Admission of a client's sessions, cells and runs, and who counts them.

use std::any::Any;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{Control, Progress, Start};
use belljar_sandbox::Error;
use belljar_sandbox::protocol::{Event, Walls};
use tokio::sync::Semaphore;

use crate::error::CallError;

/// A permit, released when this is dropped.
pub type Permit = Box<dyn Any + Send + Sync>;

/// Admission of a client: grants permits to its sessions, and words its errors. A refusal is passed
/// to the model.
pub trait Permits: Debug + Send + Sync {
    /// Permits for so many sessions of this isolation: all of them, or none.
    fn sessions(&self, count: usize, isolation: Walls) -> Result<Vec<Permit>, CallError>;

    /// The least isolation of the client's sessions, if there is one. It may change at any time.
    fn least_isolation(&self) -> Option<Walls> {
        None
    }

    /// A permit for a cell or a command that runs or waits, with so many bytes of code and input.
    fn cell(&self, code: usize) -> Result<Permit, CallError>;

    /// A permit for a run that starts like this, and for its session. Lowers its budget to what the
    /// client has left.
    fn run<'a>(
        &'a self,
        start: &'a mut Start,
    ) -> Pin<Box<dyn Future<Output = Result<Permit, CallError>> + Send + 'a>>;

    /// Counts what a cell uses.
    fn cell_told(&self, event: &Event);

    /// Counts what a command has used since the last time: CPU time of its session, and bytes of output.
    fn command_told(&self, cpu_time: Duration, output: u64);

    /// Counts what a run uses, and stops it when the quota is used up.
    fn run_told(&self, progress: &Progress<'_>, control: &Control);

    /// The error of a session, as its client may see it.
    fn explain(&self, error: Error) -> String;
}

/// For a single client: so many sessions at once, and unchanged errors.
#[derive(Debug)]
pub(crate) struct AtMost {
    most: usize,
    free: Arc<Semaphore>,
}

impl AtMost {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            free: Arc::new(Semaphore::new(most)),
        }
    }
}

impl Permits for AtMost {
    fn sessions(&self, count: usize, _: Walls) -> Result<Vec<Permit>, CallError> {
        let one = || Arc::clone(&self.free).try_acquire_owned();
        let permits: Result<_, _> = (0..count)
            .map(|_| one().map(|it| Box::new(it) as _))
            .collect();
        permits.map_err(|_| {
            CallError::Limit(format!(
                "At most {} sessions can live at once: end some with close_session.",
                self.most
            ))
        })
    }

    fn cell(&self, _: usize) -> Result<Permit, CallError> {
        Ok(Box::new(()))
    }

    fn run<'a>(
        &'a self,
        start: &'a mut Start,
    ) -> Pin<Box<dyn Future<Output = Result<Permit, CallError>> + Send + 'a>> {
        let isolation = start.isolation.unwrap_or_default();
        let permit = self
            .sessions(1, isolation)
            .map(|permits| Box::new(permits) as _);
        Box::pin(std::future::ready(permit))
    }

    fn cell_told(&self, _: &Event) {}

    fn command_told(&self, _: Duration, _: u64) {}

    fn run_told(&self, _: &Progress<'_>, _: &Control) {}

    fn explain(&self, error: Error) -> String {
        error.to_string()
    }
}
