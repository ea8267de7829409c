//! The commands of one session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::process::CommandProcess;
use super::server::{CommandServer, ServerPlace};
use crate::error::Error;
use crate::lock::lock;

/// The most commands that are listed after their end.
const MOST_ENDED: usize = 32;

/// The commands of an awake session.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    list: Mutex<VecDeque<Arc<CommandProcess>>>,
    /// Started with the first command, and again if it is gone.
    server: tokio::sync::Mutex<Option<Arc<CommandServer>>>,
}

impl Commands {
    pub(super) fn list(&self) -> Vec<Arc<CommandProcess>> {
        lock(&self.list).iter().cloned().collect()
    }

    pub(crate) fn running(&self) -> usize {
        let list = lock(&self.list);
        list.iter().filter(|one| one.end().is_none()).count()
    }

    /// How long no command has run; `None` if none ever did.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        let list = lock(&self.list);
        let idle = list.iter().map(|command| match command.ended_at() {
            Some(at) => at.elapsed(),
            None => Duration::ZERO,
        });
        idle.min()
    }

    pub(super) fn add(&self, process: &Arc<CommandProcess>) {
        let mut list = lock(&self.list);
        // The kernel gives an id again once its process is gone.
        list.retain(|one| one.pid() != process.pid());
        list.push_back(Arc::clone(process));
        let ended = |one: &Arc<CommandProcess>| one.end().is_some();
        let mut over = list.iter().filter(|one| ended(one)).count();
        list.retain(|one| {
            let dropped = over > MOST_ENDED && ended(one);
            over -= usize::from(dropped);
            !dropped
        });
    }

    /// The command server, which is started if there is none.
    pub(super) async fn server(&self, place: ServerPlace<'_>) -> Result<Arc<CommandServer>, Error> {
        let mut server = self.server.lock().await;
        match &*server {
            Some(server) if !server.is_gone() => Ok(Arc::clone(server)),
            _ => {
                let started = Arc::new(CommandServer::start(place).await?);
                *server = Some(Arc::clone(&started));
                Ok(started)
            }
        }
    }
}
