//! Pending answers from behind the walls, and the reports that bring them.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use belljar_walls::{Report, SetupError};
use tokio::sync::oneshot;

/// Pending answers from behind the walls.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) up: Option<oneshot::Sender<Result<(), SetupError>>>,
    /// In the order of the requests, which is the order of the answers.
    pub(super) templates: VecDeque<oneshot::Sender<OwnedFd>>,
    pub(super) inits: HashMap<u64, oneshot::Sender<Result<Vec<OwnedFd>, SetupError>>>,
    pub(super) exits: HashMap<u64, Exit>,
    /// Set once the spawner is gone, and everything with it; or does not answer, so that nothing
    /// can be started.
    pub(super) down: bool,
}

impl Waits {
    /// Whether an answer of the spawner is awaited.
    pub(super) fn are_open(&self) -> bool {
        !self.templates.is_empty() || !self.inits.is_empty()
    }

    /// Starts nothing from now on. Live sessions continue, and their ends are still reported.
    pub(super) fn give_up(&mut self) {
        self.down = true;
        self.templates.clear();
        self.inits.clear();
    }

    pub(super) fn report_exit(&mut self, is_it: impl Fn(u64, Option<i32>) -> bool, status: i32) {
        let id = self
            .exits
            .iter()
            .find(|(id, exit)| is_it(**id, exit.pid))
            .map(|(id, _)| *id);
        if let Some(exit) = id.and_then(|id| self.exits.remove(&id)) {
            let _ = exit.sender.send(status);
        }
    }

    /// Passes on a report from behind the walls.
    pub(super) fn receive(&mut self, report: Report, descriptors: Vec<OwnedFd>) {
        match report {
            Report::Up => {
                if let Some(up) = self.up.take() {
                    let _ = up.send(Ok(()));
                }
            }
            Report::Failed { error } => {
                tracing::error!(error, "a process behind the walls failed");
                if let Some(up) = self.up.take() {
                    let _ = up.send(Err(SetupError::Reported(error)));
                }
            }
            Report::Template => {
                let template = self.templates.pop_front();
                if let (Some(template), Some(process)) = (template, descriptors.into_iter().next())
                {
                    let _ = template.send(process);
                }
            }
            Report::Pong => {}
            Report::Init { id } => {
                if let Some(init) = self.inits.remove(&id) {
                    let _ = init.send(Ok(descriptors));
                }
            }
            Report::InitFailed { id, error } => {
                if let Some(init) = self.inits.remove(&id) {
                    let _ = init.send(Err(SetupError::Reported(error)));
                }
            }
            Report::InitExited { id } => {
                if let Some(init) = self.inits.remove(&id) {
                    let _ = init.send(Err(SetupError::Process("its init died")));
                }
            }
            // An interpreter whose template is gone, which would have reported its status.
            Report::Exited { pid, status } => {
                self.report_exit(|_, exit_pid| exit_pid == Some(pid), status);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Exit {
    /// The interpreter's id as the template and the spawner know it, once it is known.
    pub(super) pid: Option<i32>,
    pub(super) sender: oneshot::Sender<i32>,
}

/// What an init offers: itself, the workspace, namespaces, Landlock's rules.
pub(crate) type Offer = oneshot::Receiver<Result<Vec<OwnedFd>, SetupError>>;
