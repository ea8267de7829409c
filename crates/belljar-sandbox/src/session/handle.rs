//! The host's state of a session.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use belljar_protocol::{CallId, GuestNamespace, SetBy, Walls};
use belljar_walls::BeneathError;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::backend::container::steward::Steward;
use crate::backend::meter::Meter;
use crate::backend::namespace_group::{ForkSlot, NamespaceGroup};
use crate::backend::process::{SessionProcess, is_gone};
use crate::backend::running::RunningBackend;
use crate::backend::workspace::{FilesWriting, Workspace};
use crate::error::Error;
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::Checkpoints;
use crate::session::commands::list::Commands;
use crate::session::connections::Connections;
use crate::session::guest::Guest;
use crate::session::namespace_list::Namespaces;
use crate::session::network::Proxy;
use crate::session::packages::Packages;
use crate::session::tools::Toolset;
use crate::session::watches::Watches;
use crate::variables::{SecretGrant, SessionVariables};

/// The host's state of a session.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    pub(crate) id: u64,
    pub(crate) tenant: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) walls: Walls,
    pub(crate) checkpoints: Checkpoints,
    /// Which packages may be installed in it.
    pub(crate) packages: Packages,
    pub(crate) variables: SessionVariables,
    /// Who sets its options.
    pub(crate) set_by: SetBy,
    pub(crate) output_directory: PathBuf,
    pub(crate) workspace: Workspace,
    /// Its `/tmp`, once it was reached from outside.
    pub(crate) temporary: OnceLock<Workspace>,
    pub(crate) watches: Watches,
    /// To its ports.
    pub(crate) connections: Connections,
    /// None where there are no walls.
    pub(crate) namespace_group: Option<Arc<NamespaceGroup>>,
    /// Of its container, if it is in one.
    pub(crate) steward: Option<Arc<Steward>>,
    pub(crate) interpreter: Mutex<Arc<SessionProcess>>,
    pub(crate) interrupts: OwnedFd,
    pub(crate) meter: Meter,
    /// Number of the cell that runs, 0 for none.
    pub(crate) running: AtomicU32,
    pub(crate) ended: Mutex<Option<String>>,
    /// Whether it is hibernating or hibernated: its files are out of reach.
    pub(crate) hibernated: RwLock<bool>,
    /// The tools that it may call.
    pub(crate) tools: Arc<Toolset>,
    /// The sender of callers' requests, while a cell has calls open.
    pub(crate) calls: Mutex<Option<UnboundedSender<CallRequest>>>,
    /// The call during which a fork was made, until it is resumed.
    pub(crate) waiting: Mutex<Option<CallId>>,
    pub(crate) commands: Commands,
    /// Where its installed packages are, for commands: the guest may be busy.
    pub(crate) package_paths: Mutex<Vec<PathBuf>>,
    pub(crate) namespaces: Mutex<Namespaces>,
    /// Its fork slot, if it is a fork.
    pub(crate) slot: Option<ForkSlot>,
    pub(crate) backend: RunningBackend,
}

/// What a session is while it is awake.
#[derive(Clone, Debug)]
pub(crate) struct AwakeSession {
    pub(crate) handle: Arc<SessionHandle>,
    pub(crate) guest: Arc<tokio::sync::Mutex<Guest>>,
}

impl AwakeSession {
    pub(crate) fn new(handle: SessionHandle, guest: Guest) -> Self {
        Self {
            handle: Arc::new(handle),
            guest: Arc::new(tokio::sync::Mutex::new(guest)),
        }
    }
}

/// The host's state of an awake session, and its guest.
pub(crate) type Wires = (Arc<SessionHandle>, OwnedMutexGuard<Guest>);

/// Requests of a caller to a cell that has calls open. The driver of the cell performs them.
#[derive(Debug)]
pub(crate) enum CallRequest {
    Answer {
        call: CallId,
        frame: Vec<u8>,
        done: oneshot::Sender<Result<(), Error>>,
    },
    Input {
        call: CallId,
        frame: Vec<u8>,
        done: oneshot::Sender<Result<(), Error>>,
    },
    Fork {
        count: u32,
        grant: SecretGrant,
        done: oneshot::Sender<Result<Vec<AwakeSession>, Error>>,
    },
}

impl SessionHandle {
    /// The current directory of the session's code: `/workspace`, or a fork's own.
    pub(crate) fn directory(&self) -> PathBuf {
        let slot = self.slot.as_ref().map(ForkSlot::workspace);
        slot.unwrap_or_else(|| PathBuf::from("/workspace"))
    }

    /// The namespace of the next cell, as the guest gets it.
    pub(crate) fn enter<'a>(&self, name: &'a str) -> Result<Option<GuestNamespace<'a>>, Error> {
        lock(&self.namespaces).enter(name, &self.directory())
    }

    pub(crate) fn set_running(&self, cell: u32) {
        self.running.store(cell, Ordering::Release);
    }

    /// Whether it is hibernating or hibernated. While the guard is held, it does not change.
    pub(crate) fn hibernated(&self) -> RwLockReadGuard<'_, bool> {
        self.hibernated
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until its files are not in use.
    pub(crate) fn set_hibernated(&self, hibernated: bool) {
        *self
            .hibernated
            .write()
            .unwrap_or_else(PoisonError::into_inner) = hibernated;
    }

    /// Its `/tmp`, which forks share with their parent session. Without walls it would be that of the host.
    pub(crate) fn temporary(&self) -> Result<&Workspace, Error> {
        if let Some(temporary) = self.temporary.get() {
            return Ok(temporary);
        }
        if let Some(steward) = &self.steward {
            let told = || Workspace::told(steward, "/tmp");
            return Ok(self.temporary.get_or_init(told));
        }
        let namespace_group = self.namespace_group.as_ref();
        let namespace_group =
            namespace_group.ok_or_else(|| BeneathError::Outside("/tmp".into()))?;
        let directory = namespace_group.orphans.temporary();
        let directory = directory.and_then(|found| self.workspace.sibling(found));
        let directory = directory.map_err(|source| {
            let what = "opening the session's /tmp";
            self.check().err().unwrap_or(Error::Io { what, source })
        })?;
        Ok(self.temporary.get_or_init(|| directory))
    }

    /// Writes files into the workspace, or into another directory of the session: all of `act` runs, and is charged
    /// to the session. If the session has less than `reserve` bytes of memory left, files are refused. Parts of the
    /// source can be copied into them. `what` names what is written, for the error.
    pub(crate) fn write_files<T>(
        &self,
        directory: &Workspace,
        what: &str,
        reserve: u64,
        source: Option<&File>,
        act: impl FnOnce(&mut FilesWriting<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let check = || self.check();
        directory.write(&self.meter, what, reserve, source, check, act)
    }

    /// Interrupts the running cell; false if none runs. The number goes ahead of the signal, so
    /// that a signal which arrives late can't hit the next cell.
    pub(crate) fn interrupt_running(&self) -> bool {
        self.interrupt(self.running.load(Ordering::Acquire))
    }

    /// Interrupts this cell; false if it does not run.
    pub(crate) fn interrupt(&self, cell: u32) -> bool {
        if cell == 0 || cell != self.running.load(Ordering::Acquire) {
            return false;
        }
        let _ = rustix::io::write(&self.interrupts, &cell.to_le_bytes());
        self.interpreter().interrupt().is_ok()
    }

    /// Kills everything in the session.
    pub(crate) fn kill(&self) {
        let killed = match &self.namespace_group {
            // The kernel ends all of its pid namespace with it.
            Some(namespace_group) if Arc::strong_count(namespace_group) == 1 => {
                namespace_group.init.kill()
            }
            // Its namespaces are those of others, too. What is left, if it was faster, ends when its
            // cgroups are removed.
            Some(_) => {
                let _ = self.meter.kill_all_but(&[]) || self.meter.kill_all_but(&[]);
                Ok(())
            }
            None => match &self.steward {
                Some(steward) => {
                    steward.kill();
                    Ok(())
                }
                // Those that left the group live until the engine ends: there is no wall to hold them.
                None => self.interpreter().kill_group(),
            },
        };
        if let Err(error) = killed {
            tracing::error!(%error, session = self.id, "a session could not be killed");
        }
    }

    pub(crate) fn interpreter(&self) -> Arc<SessionProcess> {
        Arc::clone(&lock(&self.interpreter))
    }

    /// Another process is the interpreter from now on.
    pub(crate) fn set_interpreter(&self, process: SessionProcess) {
        *lock(&self.interpreter) = Arc::new(process);
    }

    /// The proxy, if the session may reach some of the network.
    pub(crate) fn proxy(&self) -> Option<&Proxy> {
        self.namespace_group.as_ref()?.proxy.as_ref()
    }

    /// Whether init, or the container, is gone or on its way.
    pub(crate) fn init_is_dying(&self) -> bool {
        if let Some(steward) = &self.steward {
            return steward.is_gone();
        }
        let namespace_group = self.namespace_group.as_ref();
        namespace_group.is_some_and(|namespace_group| namespace_group.init.is_dying())
    }

    pub(crate) fn init_is_gone(&self) -> bool {
        if let Some(steward) = &self.steward {
            return steward.is_gone();
        }
        let namespace_group = self.namespace_group.as_ref();
        namespace_group.is_some_and(|namespace_group| is_gone(&namespace_group.init))
    }

    /// Waits until init is gone, and so all processes of the session.
    pub(crate) async fn wait_for_init(&self, patience: Duration) {
        let started = Instant::now();
        let has_init = self.namespace_group.is_some() || self.steward.is_some();
        while has_init && !self.init_is_gone() && started.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn interpreter_is_gone(&self) -> bool {
        self.interpreter().is_gone()
    }

    pub(crate) fn end(&self, why: &str) {
        lock(&self.ended).get_or_insert_with(|| why.to_owned());
    }

    /// Ends a session that can't continue after an error, and returns the error.
    pub(crate) fn fail(&self, error: Error) -> Error {
        match &error {
            Error::Ended(why) => self.end(why),
            error => self.end(&error.to_string()),
        }
        self.kill();
        error
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &*lock(&self.ended) {
            Some(why) => Err(Error::Ended(why.clone())),
            None if lock(&self.waiting).is_some() => Err(Error::Waiting),
            None => Ok(()),
        }
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.kill();
        self.backend.forget(self.id, self.meter.cgroup());
    }
}
