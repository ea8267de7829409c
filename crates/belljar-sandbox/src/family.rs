//! The namespaces that a session shares with its forks, and the init that they end with.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use belljar_walls::{Channel, MOST_FORKS, Orphan, Process, Watch, room_path};
use tokio::sync::oneshot;

use crate::channel::AsyncChannel;
use crate::lock::lock;
use crate::network::Proxy;
use crate::warm::Warm;

/// What a session and its forks have in common. Its processes end with the last of them.
#[derive(Debug)]
pub(crate) struct Family {
    /// The session that it began with.
    pub(crate) id: u64,
    pub(crate) init: Process,
    pub(crate) mounts: OwnedFd,
    pub(crate) orphans: Orphans,
    /// Where they may reach some of the network.
    pub(crate) proxy: Option<Proxy>,
    /// A bit for each room that a fork lives in.
    rooms: Mutex<u64>,
}

impl Family {
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
            rooms: Mutex::default(),
        })
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // The kernel ends all of its pid namespace with it.
        if let Err(error) = self.init.kill() {
            tracing::error!(%error, session = self.id, "an init could not be ended");
        }
    }
}

/// A fork's place in its family: a workspace of its own.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) number: u32,
    family: Arc<Family>,
    warm: Arc<Warm>,
}

impl Room {
    /// A room that is free; `None` if there is none.
    pub(crate) fn find(family: &Arc<Family>, warm: &Arc<Warm>) -> Option<Self> {
        let mut rooms = lock(&family.rooms);
        let number = (1..=MOST_FORKS).find(|number| *rooms & (1 << number) == 0)?;
        *rooms |= 1 << number;
        Some(Self {
            number,
            family: Arc::clone(family),
            warm: Arc::clone(warm),
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        room_path(self.number)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A room that can't be emptied is not given to another.
        if self
            .warm
            .leave_room(&self.family.mounts, self.number)
            .is_ok()
        {
            *lock(&self.family.rooms) &= !(1 << self.number);
        }
    }
}

type Waiting = Arc<Mutex<HashMap<i32, oneshot::Sender<i32>>>>;

/// How processes end whose parent is init.
#[derive(Clone, Debug)]
pub(crate) struct Orphans {
    watches: Arc<AsyncChannel>,
    waiting: Waiting,
}

impl Orphans {
    /// `watches` is init's channel.
    fn new(watches: OwnedFd) -> io::Result<Self> {
        let watches = Arc::new(AsyncChannel::new(Channel::from(watches))?);
        let waiting = Waiting::default();
        tokio::spawn(listen(Arc::clone(&watches), Arc::clone(&waiting)));
        Ok(Self { watches, waiting })
    }

    /// How the process with this id in the session's pid namespace ends, once it does.
    pub(crate) fn watch(&self, pid: i32) -> Option<oneshot::Receiver<i32>> {
        let (sender, exit) = oneshot::channel();
        lock(&self.waiting).insert(pid, sender);
        self.watches.send_now(&Watch { pid }, &[]).ok()?;
        Some(exit)
    }
}

/// Passes on how orphans end, until init is gone.
async fn listen(watches: Arc<AsyncChannel>, waiting: Waiting) {
    while let Ok(Some((orphan, _))) = watches.receive::<Orphan>().await {
        if let Some(sender) = lock(&waiting).remove(&orphan.pid) {
            let _ = sender.send(orphan.status);
        }
    }
    lock(&waiting).clear();
}
