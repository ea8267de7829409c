//! The namespaces that a session shares with its forks (a namespace group), and their init.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use belljar_walls::{
    Channel, InitEvent, InitTask, MOST_FORKS, Process, SessionCgroup, SetupError, slot_path,
    slot_workspace,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::oneshot;

use crate::backend::channel::AsyncChannel;
use crate::backend::warm::{PATIENCE, WarmBackend};
use crate::error::Error;
use crate::lock::lock;
use crate::session::network::Proxy;

/// What a session and its forks share. Its processes end with the last of them.
#[derive(Debug)]
pub(crate) struct NamespaceGroup {
    /// The first session of the group.
    pub(crate) id: u64,
    pub(crate) init: Process,
    pub(crate) mounts: OwnedFd,
    pub(crate) orphans: Orphans,
    /// Their proxy, if they may reach some of the network.
    pub(crate) proxy: Option<Proxy>,
    /// A bit for each fork slot in use.
    slots: Mutex<u64>,
}

impl NamespaceGroup {
    pub(crate) fn new(
        id: u64,
        init: Process,
        mounts: OwnedFd,
        watches: OwnedFd,
        proxy: Option<Proxy>,
    ) -> io::Result<Self> {
        Ok(Self {
            id,
            init,
            mounts,
            orphans: Orphans::new(watches)?,
            proxy,
            slots: Mutex::default(),
        })
    }
}

impl Drop for NamespaceGroup {
    fn drop(&mut self) {
        // The kernel ends all of its pid namespace with it.
        if let Err(error) = self.init.kill() {
            tracing::error!(%error, session = self.id, "an init could not be killed");
        }
    }
}

/// Maximum depth of forks of forks: the kernel stacks 16 Landlock rulesets, and one is the
/// session's.
const DEEPEST: usize = 15;

/// A fork slot: the place of a fork in its namespace group, with a workspace of its own.
#[derive(Debug)]
pub(crate) struct ForkSlot(Arc<SlotDirectory>);

/// The directory of a fork slot. The slots of the fork's own forks are in it, since their rules
/// can't open what its rules close. So it exists as long as the last of them.
#[derive(Debug)]
struct SlotDirectory {
    number: u32,
    path: PathBuf,
    namespace_group: Arc<NamespaceGroup>,
    warm: Arc<WarmBackend>,
    /// Released after this one.
    above: Option<Arc<Self>>,
}

impl ForkSlot {
    /// A free fork slot, for a fork of the session in the slot `above`.
    pub(crate) fn find(
        namespace_group: &Arc<NamespaceGroup>,
        warm: &Arc<WarmBackend>,
        above: Option<&Self>,
    ) -> Result<Self, Error> {
        let above = above.map(|slot| Arc::clone(&slot.0));
        if std::iter::successors(above.as_ref(), |directory| directory.above.as_ref()).count()
            >= DEEPEST
        {
            let why = format!("forks of forks can be at most {DEEPEST} levels deep");
            return Err(Error::Fork(why));
        }
        let full = || {
            Error::Fork(format!(
                "a session has at most {MOST_FORKS} forks\nhint: close one of them"
            ))
        };
        let mut slots = lock(&namespace_group.slots);
        let number = (1..=MOST_FORKS)
            .find(|number| *slots & (1 << number) == 0)
            .ok_or_else(full)?;
        *slots |= 1 << number;
        Ok(Self(Arc::new(SlotDirectory {
            number,
            path: slot_path(
                above.as_ref().map(|directory| directory.path.as_path()),
                number,
            ),
            namespace_group: Arc::clone(namespace_group),
            warm: Arc::clone(warm),
            above,
        })))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Where the fork works.
    pub(crate) fn workspace(&self) -> PathBuf {
        slot_workspace(&self.0.path)
    }
}

impl Drop for ForkSlot {
    fn drop(&mut self) {
        // If forks of the fork are still alive; otherwise it is removed with the slot's directory.
        if Arc::strong_count(&self.0) > 1 {
            let SlotDirectory {
                warm,
                namespace_group,
                ..
            } = &*self.0;
            let _ = warm.release_slot(&namespace_group.mounts, self.workspace());
        }
    }
}

impl Drop for SlotDirectory {
    fn drop(&mut self) {
        // A fork slot that can't be emptied is not reused.
        let left = self
            .warm
            .release_slot(&self.namespace_group.mounts, self.path.clone());
        if left.is_ok() {
            *lock(&self.namespace_group.slots) &= !(1 << self.number);
        }
    }
}

/// Processes that are waited for, by their ids in the session's pid namespace.
#[derive(Debug, Default)]
struct Waiting {
    exits: HashMap<i32, oneshot::Sender<i32>>,
    moves: HashMap<i32, oneshot::Sender<Option<String>>>,
    /// In the order of the requests, which is the order of the answers.
    namespaces: VecDeque<oneshot::Sender<Vec<OwnedFd>>>,
}

/// Requests of the host to init: reporting how orphans end, moving forks into their cgroups, and sending
/// its namespaces, its `/tmp` and sockets.
#[derive(Clone, Debug)]
pub(crate) struct Orphans {
    watches: Arc<AsyncChannel>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Orphans {
    /// `watches` is init's channel.
    fn new(watches: OwnedFd) -> io::Result<Self> {
        let watches = Arc::new(AsyncChannel::new(Channel::from(watches))?);
        let waiting = Arc::default();
        tokio::spawn(listen(Arc::clone(&watches), Arc::clone(&waiting)));
        Ok(Self { watches, waiting })
    }

    /// The exit status of the process with this id in the session's pid namespace, once it has
    /// ended.
    pub(crate) fn watch(&self, pid: i32) -> Option<oneshot::Receiver<i32>> {
        let (sender, exit) = oneshot::channel();
        lock(&self.waiting).exits.insert(pid, sender);
        let task = InitTask::Watch { pid };
        self.watches.send_now(&task, &[]).ok()?;
        Some(exit)
    }

    /// Moves the process with this id in the session's pid namespace into cgroups. Init does it,
    /// since the descriptors for it must not get into the hands of the session's code.
    pub(crate) async fn move_into(
        &self,
        pid: i32,
        cgroup: &SessionCgroup,
    ) -> Result<(), SetupError> {
        let (sender, moved) = oneshot::channel();
        lock(&self.waiting).moves.insert(pid, sender);
        let sent = self.ask_for_move(pid, cgroup).await;
        sent.map_err(SetupError::System)?;
        match moved.await {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(SetupError::Reported(error)),
            Err(_) => Err(SetupError::Process("its init is gone")),
        }
    }

    /// The namespaces of the session.
    pub(crate) async fn namespaces(&self) -> Option<Vec<OwnedFd>> {
        let (sender, namespaces) = oneshot::channel();
        {
            // Held, so that the order is that of the requests.
            let mut waiting = lock(&self.waiting);
            self.watches.send_now(&InitTask::Namespaces, &[]).ok()?;
            waiting.namespaces.push_back(sender);
        }
        namespaces.await.ok()
    }

    /// The `/tmp` of the session. Waits for it; the answer comes on a channel of its own, so any thread may wait.
    pub(crate) fn temporary(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = Channel::pair()?;
        let task = InitTask::Temporary;
        self.watches.send_blocking(&task, &[theirs.as_fd()])?;
        drop(theirs);
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&ours, PollFlags::IN)];
        if poll(&mut ready, Some(&patience))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (InitEvent::Temporary, descriptors) =
            ours.receive()?.ok_or(io::ErrorKind::UnexpectedEof)?
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let directory = descriptors.into_iter().next();
        directory.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A TCP socket of the session's network namespace, not connected.
    pub(crate) async fn socket(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = Channel::pair()?;
        let task = InitTask::Socket;
        self.watches.send(&task, &[theirs.as_fd()]).await?;
        drop(theirs);
        let ours = AsyncChannel::new(ours)?;
        let answer = tokio::time::timeout(PATIENCE, ours.receive()).await;
        match answer.map_err(|_| io::ErrorKind::TimedOut)?? {
            Some((InitEvent::Socket, descriptors)) => {
                let socket = descriptors.into_iter().next();
                socket.ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Makes the kernel prepare for moves, which is the slow part of the first one: 14 ms were
    /// measured, and 0.1 ms for each soon after. It sees only then that no process has this id.
    pub(crate) async fn expect_moves(&self, cgroup: &SessionCgroup) {
        let _ = self.ask_for_move(i32::MAX, cgroup).await;
    }

    async fn ask_for_move(&self, pid: i32, cgroup: &SessionCgroup) -> io::Result<()> {
        let moves = cgroup.moves()?;
        let descriptors: Vec<_> = moves.iter().map(AsFd::as_fd).collect();
        let task = InitTask::Move { pid };
        self.watches.send(&task, &descriptors).await
    }
}

/// Passes on reports of init, until it is gone.
async fn listen(watches: Arc<AsyncChannel>, waiting: Arc<Mutex<Waiting>>) {
    while let Ok(Some((event, descriptors))) = watches.receive::<InitEvent>().await {
        match event {
            InitEvent::Exited { pid, status } => {
                let sender = lock(&waiting).exits.remove(&pid);
                let _ = sender.map(|sender| sender.send(status));
            }
            InitEvent::Moved { pid, error } => {
                let sender = lock(&waiting).moves.remove(&pid);
                let _ = sender.map(|sender| sender.send(error));
            }
            InitEvent::Namespaces => {
                let sender = lock(&waiting).namespaces.pop_front();
                let _ = sender.map(|sender| sender.send(descriptors));
            }
            // Not on this channel.
            InitEvent::Temporary | InitEvent::Socket => {}
        }
    }
    *lock(&waiting) = Waiting::default();
}
