//! The host's side of a session's command server.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use belljar_walls::{
    Channel, CommandEvent, CommandRequest, CommandServerRequest, Process, SessionCgroup, SetupError,
};
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::backend::channel::AsyncChannel;
use crate::backend::namespace_group::NamespaceGroup;
use crate::backend::warm::{PATIENCE, WarmBackend};
use crate::error::Error;
use crate::lock::lock;

/// Where a command server is started, and what it needs there.
pub(super) struct ServerPlace<'a> {
    pub(super) warm: &'a WarmBackend,
    pub(super) namespaces: &'a NamespaceGroup,
    pub(super) cgroup: Option<&'a SessionCgroup>,
    pub(super) request: CommandServerRequest,
}

/// A process that waits for the command that it becomes. It ends if its control socket is closed.
pub(super) struct Prepared {
    pub(super) control: UnixStream,
    pub(super) pid: i32,
    pub(super) group: i32,
    pub(super) process: Process,
    /// Its raw wait status. Without an answer, nobody knows how it ended.
    pub(super) exit: oneshot::Receiver<i32>,
}

/// A running command server.
#[derive(Debug)]
pub(super) struct CommandServer {
    channel: Arc<AsyncChannel>,
    pending: Arc<Mutex<Pending>>,
    gone: Arc<AtomicBool>,
    next: AtomicU64,
    /// One for the next command without a terminal, so that it does not wait for a fork.
    prepared: Mutex<Option<Prepared>>,
}

#[derive(Debug, Default)]
struct Pending {
    prepared: HashMap<u64, oneshot::Sender<Result<Made, SetupError>>>,
    exits: HashMap<i32, oneshot::Sender<i32>>,
}

/// What the command server says of a process.
#[derive(Debug)]
struct Made {
    pid: i32,
    group: i32,
    process: Process,
    exit: oneshot::Receiver<i32>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Prepared({})", self.pid)
    }
}

impl CommandServer {
    pub(super) async fn start(place: ServerPlace<'_>) -> Result<Self, Error> {
        let failed = |why: String| Error::Command(format!("its command server: {why}"));
        let (ours, theirs) = Channel::pair().map_err(Error::io("a command server"))?;
        let namespaces = place.namespaces.orphans.namespaces();
        let namespaces = match tokio::time::timeout(PATIENCE, namespaces).await {
            Ok(Some(namespaces)) if !namespaces.is_empty() => namespaces,
            _ => return Err(failed("init did not send its namespaces".into())),
        };
        let joins = place.cgroup.map(SessionCgroup::joins).transpose();
        let joins = joins.map_err(Error::io("a session's cgroups"))?;
        let theirs = OwnedFd::from(theirs);
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        descriptors.extend(namespaces.iter().map(AsFd::as_fd));
        descriptors.extend(joins.iter().flatten().map(AsFd::as_fd));
        place
            .warm
            .start_command_server(place.request, &descriptors)
            .await
            .map_err(Error::io("a command server"))?;
        drop(theirs);
        let channel = AsyncChannel::new(ours).map_err(Error::io("a command server"))?;
        match tokio::time::timeout(PATIENCE, channel.receive()).await {
            Ok(Ok(Some((CommandEvent::Ready, _)))) => {}
            Ok(Ok(Some((CommandEvent::Failed { error }, _)))) => return Err(failed(error)),
            Ok(_) => return Err(failed("it ended at its start".into())),
            Err(_) => return Err(failed("it did not answer".into())),
        }
        let server = Self {
            channel: Arc::new(channel),
            pending: Arc::default(),
            gone: Arc::default(),
            next: AtomicU64::new(1),
            prepared: Mutex::default(),
        };
        tokio::spawn(listen(
            Arc::clone(&server.channel),
            Arc::clone(&server.pending),
            Arc::clone(&server.gone),
        ));
        Ok(server)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A process for a command.
    pub(super) async fn take(&self, terminal: bool) -> Result<Prepared, SetupError> {
        let ready = if terminal {
            None
        } else {
            lock(&self.prepared).take()
        };
        match ready {
            Some(prepared) => Ok(prepared),
            None => self.prepare(terminal).await,
        }
    }

    /// Prepares the process of the next command.
    pub(super) async fn fill(&self) {
        if lock(&self.prepared).is_none()
            && let Ok(prepared) = self.prepare(false).await
        {
            *lock(&self.prepared) = Some(prepared);
        }
    }

    async fn prepare(&self, terminal: bool) -> Result<Prepared, SetupError> {
        let (control, theirs) = control_pair().map_err(SetupError::System)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, made) = oneshot::channel();
        lock(&self.pending).prepared.insert(id, sender);
        let request = CommandRequest::Prepare { id, terminal };
        let sent = self.channel.send(&request, &[theirs.as_fd()]).await;
        if self.is_gone() || sent.is_err() {
            lock(&self.pending).prepared.remove(&id);
        }
        let made = match tokio::time::timeout(PATIENCE, made).await {
            Ok(Ok(made)) => made?,
            Ok(Err(_)) => return Err(SetupError::Process("its command server is gone")),
            Err(_) => return Err(SetupError::Process("its command server did not answer")),
        };
        Ok(Prepared {
            control,
            pid: made.pid,
            group: made.group,
            process: made.process,
            exit: made.exit,
        })
    }

    pub(super) fn signal(&self, group: i32, signal: i32) -> io::Result<()> {
        let request = CommandRequest::Signal { group, signal };
        self.channel.send_now(&request, &[])
    }
}

/// Passes on reports of a command server until it is gone.
async fn listen(channel: Arc<AsyncChannel>, pending: Arc<Mutex<Pending>>, gone: Arc<AtomicBool>) {
    while let Ok(Some((event, descriptors))) = channel.receive::<CommandEvent>().await {
        match event {
            CommandEvent::Prepared { id, pid, group } => {
                let (sender, exit) = oneshot::channel();
                let mut pending = lock(&pending);
                pending.exits.insert(pid, sender);
                let waiting = pending.prepared.remove(&id);
                if let (Some(waiting), Some(process)) = (waiting, descriptors.into_iter().next()) {
                    let process = Process::new(process);
                    let _ = waiting.send(Ok(Made {
                        pid,
                        group,
                        process,
                        exit,
                    }));
                }
            }
            CommandEvent::NotPrepared { id, error } => {
                if let Some(waiting) = lock(&pending).prepared.remove(&id) {
                    let _ = waiting.send(Err(SetupError::Reported(error)));
                }
            }
            CommandEvent::Exited { pid, status } => {
                let exit = lock(&pending).exits.remove(&pid);
                let _ = exit.map(|exit| exit.send(status));
            }
            CommandEvent::Ready | CommandEvent::Failed { .. } => {}
        }
    }
    gone.store(true, Ordering::Release);
    *lock(&pending) = Pending::default();
}

fn control_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
