//! A kernel's session, as one of the service: with its permits, its quotas and its record of cells.

use std::sync::Arc;
use std::time::Duration;

use belljar_jupyter::{CellEvents, Host, HostError};
use belljar_sandbox::protocol::Event;
use belljar_sandbox::{Cell, Error, Session};
use tokio::sync::mpsc;

use crate::api::cells::begin_cell;
use crate::api::sessions::start_with;
use crate::problem::Problem;
use crate::service::Service;
use crate::sessions::SessionEntry;

/// The name of the checkpoint that a restart goes back to.
const START: &str = "start of the kernel";

/// The namespace of the cells of a kernel.
const MAIN: &str = "main";

/// How long a running cell may take to end before its session is replaced.
const RESTART_TIME: Duration = Duration::from_secs(5);

/// Events of a cell that wait for the kernel. The next one waits in the cell.
const WAITING_EVENTS: usize = 16;

#[derive(Debug)]
pub(super) struct ServiceHost {
    pub(super) service: Arc<Service>,
    pub(super) entry: Arc<SessionEntry>,
}

/// A cell that the kernel runs.
#[derive(Debug)]
pub(super) struct KernelCell(mpsc::Receiver<Result<Event, Problem>>);

impl Host for ServiceHost {
    type Run = KernelCell;

    fn python(&self) -> (u8, u8, u8) {
        let engine = self.service.engine_of(&self.entry);
        engine.map_or((3, 0, 0), |engine| engine.environment().version())
    }

    async fn start(&self) -> Result<(), HostError> {
        // One that has run cells, in an earlier service, has the variables of its client.
        if self.entry.last_cell() == 0 {
            keep_start(&self.entry).await;
        }
        Ok(())
    }

    async fn session(&self) -> Result<Arc<Session>, HostError> {
        self.entry.session().map_err(|problem| refused(&problem))
    }

    fn ready_session(&self) -> Option<Arc<Session>> {
        self.entry.session().ok()
    }

    async fn run(&self, cell: Cell) -> Result<KernelCell, HostError> {
        if self.service.is_draining() {
            return Err(refused(&Problem::draining()));
        }
        let (tap, events) = mpsc::channel(WAITING_EVENTS);
        let begun = begin_cell(&self.service, &self.entry, cell, Some(tap));
        begun.await.map_err(|problem| refused(&problem))?;
        Ok(KernelCell(events))
    }

    async fn replace(&self) -> Result<(), HostError> {
        replace(&self.service, &self.entry)
            .await
            .map_err(|problem| refused(&problem))
    }
}

impl CellEvents for KernelCell {
    async fn next(&mut self) -> Option<Result<Event, HostError>> {
        let event = self.0.recv().await?;
        Some(event.map_err(|problem| refused(&problem)))
    }
}

fn refused(problem: &Problem) -> HostError {
    HostError::Refused(problem.words())
}

/// Goes back to the state before the first cell. Files stay, unless a cell does not let itself be interrupted: then there
/// is a new session.
pub(super) async fn restart(
    service: &Arc<Service>,
    entry: &Arc<SessionEntry>,
) -> Result<(), Problem> {
    if let Ok(session) = entry.session() {
        session.interrupt();
        let going_back = async {
            match session.restore(START).await {
                // It has hibernated since, or has no checkpoints. Its modules stay loaded.
                Err(Error::NoCheckpoint(_) | Error::Unsupported(_)) => {
                    session.namespace(MAIN).restart().await
                }
                restored => restored,
            }
        };
        if let Ok(Ok(())) = tokio::time::timeout(RESTART_TIME, going_back).await {
            return Ok(());
        }
    }
    replace(service, entry).await
}

/// Starts another session in place of one that was lost.
async fn replace(service: &Arc<Service>, entry: &Arc<SessionEntry>) -> Result<(), Problem> {
    if service.is_draining() {
        return Err(Problem::draining());
    }
    let engine = service.engine_of(entry)?;
    // Before the lost one is given up: there would be none in its place.
    service
        .admission
        .isolation
        .check(&entry.tenant, entry.isolation)?;
    entry.end();
    let (session, permit) = start_with(service, engine, &entry.tenant, &entry.options).await?;
    service.sessions.replace(entry, session, permit)?;
    keep_start(entry).await;
    Ok(())
}

/// Keeps the state before the first cell. Without checkpoints, a restart starts a new session.
async fn keep_start(entry: &SessionEntry) {
    if let Ok(session) = entry.session()
        && let Err(error) = session.checkpoint(START).await
    {
        tracing::debug!(%error, session = entry.id, "a kernel has no checkpoint of its start");
    }
}
