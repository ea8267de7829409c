//! A kernel with an engine of its own.

use std::sync::Arc;

use belljar_protocol::Event;
use belljar_sandbox::{Cell, CellRun, Engine, Error, Session, SessionOptions, SetupError};
use tokio::sync::watch;

use crate::host::{CellEvents, Host, HostError};

/// Starts the session of a kernel in an engine.
#[derive(Debug)]
pub struct EngineHost {
    engine: Engine,
    options: SessionOptions,
    setup: Option<String>,
    session: watch::Sender<Option<Arc<Session>>>,
}

impl EngineHost {
    /// Sessions of this engine, each of which runs the code of `setup` before the first cell.
    pub fn new(engine: Engine, options: SessionOptions, setup: Option<String>) -> Self {
        Self {
            engine,
            options,
            setup,
            session: watch::Sender::new(None),
        }
    }
}

impl Host for EngineHost {
    type Run = CellRun;

    fn python(&self) -> (u8, u8, u8) {
        self.engine.environment().version()
    }

    async fn start(&self) -> Result<(), HostError> {
        let session = self.engine.session_with(self.options.clone()).await?;
        if let Some(code) = &self.setup {
            let outcome = session.run(code.as_str()).await?;
            if let Some(exception) = outcome.exception {
                return Err(Error::Session(SetupError::Reported(exception.value)).into());
            }
        }
        self.session.send_replace(Some(Arc::new(session)));
        Ok(())
    }

    async fn session(&self) -> Result<Arc<Session>, HostError> {
        let mut sessions = self.session.subscribe();
        loop {
            if let Some(session) = sessions.borrow_and_update().clone() {
                return Ok(session);
            }
            // The sender is ours, so there will be a change.
            let _ = sessions.changed().await;
        }
    }

    fn ready_session(&self) -> Option<Arc<Session>> {
        self.session.borrow().clone()
    }

    async fn run(&self, cell: Cell) -> Result<CellRun, HostError> {
        Ok(self.session().await?.run(cell))
    }

    async fn replace(&self) -> Result<(), HostError> {
        self.session.send_replace(None);
        self.start().await
    }
}

impl CellEvents for CellRun {
    async fn next(&mut self) -> Option<Result<Event, HostError>> {
        // The method of the type itself, which comes first.
        let event = Self::next(self).await?;
        Some(event.map_err(HostError::from))
    }
}
