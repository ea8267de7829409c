//! The lifecycle of a session: awake, hibernated or ended.
//!
//! A hibernated session is a snapshot in the engine's directory: it has no processes, no cgroup and
//! no memory. Any use wakes it, as a new interpreter that loads the snapshot.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use belljar_protocol::Walls;
use tokio::task::AbortHandle;

use crate::backend::running::RunningBackend;
use crate::backend::supervisor::Supervisor;
use crate::disk::DiskSpace;
use crate::error::Error;
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::guest::{DEATH_TIME, Guest};
use crate::session::handle::{AwakeSession, SessionHandle, Wires};
use crate::session::nonce::nonce;
use crate::session::start::start;
use crate::session::tools::Toolset;
use crate::snapshot_store::SavedSnapshot;
use crate::state::checkpoints::checkpoint_before;
use crate::state::kept_snapshot::{KeptSnapshot, SnapshotSource};
use crate::state::losses::{losses, not_there, tell};
use crate::state::snapshot::{SnapshotReport, check_environment, copy, fill, report, write};

/// The minimum idle time before a session hibernates.
const LEAST_IDLE: Duration = Duration::from_millis(10);

/// A session from its start to its end, through all hibernations.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// Of the interpreter that it started with.
    pub(crate) id: u64,
    pub(crate) options: SessionOptions,
    /// Replaces a backend that is lost. Gone with the engine.
    supervisor: Weak<Supervisor>,
    pub(crate) tools: Arc<Toolset>,
    state: Mutex<State>,
    /// Whether it accepts no more requests, since it is being detached.
    settling: AtomicBool,
    /// Serialises hibernating and waking.
    transition: tokio::sync::Mutex<()>,
    /// The task that hibernates it when it is idle.
    watcher: Mutex<Option<AbortHandle>>,
    this: Weak<Self>,
}

impl Drop for Lifecycle {
    fn drop(&mut self) {
        // It would keep its memory, and that which its weak references hold, until it looks again.
        if let Some(watcher) = lock(&self.watcher).take() {
            watcher.abort();
        }
    }
}

#[derive(Debug)]
enum State {
    Awake(AwakeSession),
    Hibernated(Box<HibernatedSession>),
    /// Another engine continues it.
    Detached,
    /// It has ended, and why.
    Over(String),
}

/// What is left of a hibernated session.
#[derive(Debug)]
struct HibernatedSession {
    file: KeptSnapshot,
    /// The file's share of an allowance.
    _space: Option<DiskSpace>,
    /// None if another engine wrote the file.
    report: Option<SnapshotReport>,
    walls: Walls,
    /// Losses that no outcome has reported yet.
    lost: Vec<String>,
    backend: RunningBackend,
}

/// A session that has left its engine: a snapshot for the [next](crate::Engine::attach).
#[derive(Clone, Debug)]
pub struct DetachedSession {
    /// Where it is. From now on it belongs to the caller.
    pub snapshot: SavedSnapshot,
    /// What the first outcome after waking will report, besides names and files that are not there.
    pub lost: Vec<String>,
}

/// What became of the running cell when a session [settled](crate::Session::settle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It ended by itself, or none was running.
    Idle,
    /// It was interrupted.
    Interrupted,
    /// It was killed, and the session restored from a checkpoint.
    Killed,
}

impl From<HibernatedSession> for DetachedSession {
    fn from(hibernated: HibernatedSession) -> Self {
        Self {
            snapshot: hibernated.file.release(),
            lost: hibernated.lost,
        }
    }
}

impl Lifecycle {
    pub(crate) fn begin(
        awake: AwakeSession,
        options: SessionOptions,
        supervisor: Weak<Supervisor>,
    ) -> Arc<Self> {
        let guest = Arc::downgrade(&awake.guest);
        let begun = Arc::new_cyclic(|this| Self {
            id: awake.handle.id,
            options,
            supervisor,
            tools: Arc::clone(&awake.handle.tools),
            state: Mutex::new(State::Awake(awake)),
            settling: AtomicBool::new(false),
            transition: tokio::sync::Mutex::default(),
            watcher: Mutex::default(),
            this: this.clone(),
        });
        begun.watch(guest);
        begun
    }

    /// A hibernated session, from what another engine left of it.
    pub(crate) async fn attach(
        detached: DetachedSession,
        options: SessionOptions,
        tools: Arc<Toolset>,
        walls: Walls,
        backend: RunningBackend,
        supervisor: Weak<Supervisor>,
    ) -> Result<Arc<Self>, Error> {
        let source = match detached.snapshot {
            SavedSnapshot::File(path) => SnapshotSource::File(path),
            SavedSnapshot::Stored(name) => {
                let store = options
                    .snapshot_store
                    .clone()
                    .ok_or(Error::NoSnapshotStore)?;
                let directory = hibernate_in(&options, &backend);
                SnapshotSource::Stored {
                    store,
                    name,
                    directory,
                }
            }
        };
        let bytes = source.bytes().await?;
        let id = backend.next_session_id();
        let hibernated = HibernatedSession {
            file: KeptSnapshot::new(source),
            _space: options.disk.as_ref().map(|disk| disk.count(bytes)),
            report: None,
            walls,
            lost: detached.lost,
            backend,
        };
        Ok(Arc::new_cyclic(|this| Self {
            id,
            options,
            supervisor,
            tools,
            state: Mutex::new(State::Hibernated(Box::new(hibernated))),
            settling: AtomicBool::new(false),
            transition: tokio::sync::Mutex::default(),
            watcher: Mutex::default(),
            this: this.clone(),
        }))
    }

    /// The awake session, if it is awake.
    pub(crate) fn now(&self) -> Result<Option<AwakeSession>, Error> {
        match &*lock(&self.state) {
            State::Awake(awake) => Ok(Some(awake.clone())),
            State::Hibernated(_) => Ok(None),
            State::Detached => Err(Error::Detached),
            State::Over(why) => Err(Error::Ended(why.clone())),
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.settling.load(Ordering::Acquire) {
            return Err(Error::Detached);
        }
        Ok(())
    }

    /// Its wires, once they are free. Wakes a hibernated session.
    pub(crate) async fn wires(&self) -> Result<Wires, Error> {
        loop {
            let AwakeSession { handle, guest } = self.awake().await?;
            let mut guest = guest.lock_owned().await;
            // A cell that waited for another one until now has not begun.
            self.check_open()?;
            // It may have been hibernated meanwhile.
            if !*handle.hibernated() {
                guest.used = Instant::now();
                return Ok((handle, guest));
            }
        }
    }

    /// Its wires, if they are free. Wakes a hibernated session.
    pub(crate) async fn wires_now(&self) -> Result<Wires, Error> {
        let AwakeSession { handle, guest } = self.awake().await?;
        let guest = guest.try_lock_owned().map_err(|_| Error::Busy)?;
        if *handle.hibernated() {
            return Err(Error::Busy);
        }
        Ok((handle, guest))
    }

    pub(crate) async fn awake(&self) -> Result<AwakeSession, Error> {
        self.check_open()?;
        match self.now()? {
            Some(awake) => Ok(awake),
            None => self.wake().await,
        }
    }

    /// Ends it, unless it has ended; returns what there was of it.
    pub(crate) fn end(&self, why: &str) -> Option<AwakeSession> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Over(_) | State::Detached) {
            return None;
        }
        let before = std::mem::replace(&mut *state, State::Over(why.to_owned()));
        drop(state);
        let State::Awake(awake) = before else {
            return None;
        };
        awake.handle.end(why);
        awake.handle.kill();
        Some(awake)
    }

    /// Wakes it, if it is hibernated. After a failure it stays hibernated.
    pub(crate) async fn wake(&self) -> Result<AwakeSession, Error> {
        let _transition = self.transition.lock().await;
        self.check_open()?;
        let (source, walls, backend, mut lost) = match &*lock(&self.state) {
            State::Awake(awake) => return Ok(awake.clone()),
            State::Detached => return Err(Error::Detached),
            State::Over(why) => return Err(Error::Ended(why.clone())),
            State::Hibernated(hibernated) => (
                hibernated.file.source(),
                hibernated.walls,
                hibernated.backend.clone(),
                hibernated.lost.clone(),
            ),
        };
        let down = || Error::Ended("its engine shut down while it was hibernated".into());
        let reader = match source.open().await {
            // Its file was removed with the engine's directory.
            Err(_) if backend.is_down() => return Err(down()),
            opened => opened?,
        };
        let backend = match self.supervisor.upgrade().filter(|_| backend.is_lost()) {
            Some(supervisor) => supervisor.running().await?,
            None => backend,
        };
        if backend.is_down() {
            return Err(down());
        }
        check_environment(&reader, backend.environment())?;
        let awake = start(backend, &self.options, walls, Arc::clone(&self.tools)).await?;
        let report = fill(&awake, reader).await?;
        for line in not_there(&report) {
            tell(&mut lost, line);
        }
        {
            let mut guest = awake.guest.lock().await;
            guest.lost = lost;
            guest.used = Instant::now();
            if self.options.checkpoints != Checkpoints::Off {
                // What a crash of the next cell is restored to.
                match checkpoint_before(&awake.handle, &mut guest).await {
                    Ok(_) | Err(Error::NotCheckpointed(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let before = {
            let mut state = lock(&self.state);
            if let State::Over(why) = &*state {
                return Err(Error::Ended(why.clone()));
            }
            std::mem::replace(&mut *state, State::Awake(awake.clone()))
        };
        if let State::Hibernated(hibernated) = before {
            // Before its next cell: if the host dies, an outdated state must not come back.
            hibernated.file.remove().await;
        }
        self.watch(Arc::downgrade(&awake.guest));
        Ok(awake)
    }

    /// Hibernates it. With `idle`, only if it was idle for so long.
    pub(crate) async fn hibernate(&self, idle: Option<Duration>) -> Result<SnapshotReport, Error> {
        let _transition = self.transition.lock().await;
        let awake = match &*lock(&self.state) {
            State::Awake(awake) => Ok(awake.clone()),
            State::Hibernated(hibernated) => {
                Err((hibernated.report.clone(), hibernated.file.source()))
            }
            State::Detached => return Err(Error::Detached),
            State::Over(why) => return Err(Error::Ended(why.clone())),
        };
        let AwakeSession { handle, guest } = match awake {
            Ok(awake) => awake,
            Err((Some(report), _)) => return Ok(report),
            Err((None, source)) => return report(source.open().await?),
        };
        let mut guest = guest.lock_owned().await;
        handle.check()?;
        let used = guest.used.elapsed();
        let others = [handle.commands.idle_time(), handle.connections.idle_time()];
        let idle_time = others.into_iter().flatten().fold(used, Duration::min);
        if idle.is_some_and(|idle| idle_time < idle) {
            return Err(Error::Busy);
        }
        if handle.slot.is_some() {
            return Err(Error::NotHibernated("it is a fork"));
        }
        if handle
            .namespace_group
            .as_ref()
            .is_some_and(|namespace_group| Arc::strong_count(namespace_group) > 1)
        {
            return Err(Error::NotHibernated("it has live forks"));
        }
        let (hibernated, report) = self.save(&handle, &mut guest, None).await?;
        self.put_away(State::Hibernated(Box::new(hibernated)), &handle, &mut guest)
            .await?;
        Ok(report)
    }

    /// Writes what is left of a session that hibernates.
    async fn save(
        &self,
        handle: &Arc<SessionHandle>,
        guest: &mut Guest,
        within: Option<Duration>,
    ) -> Result<(HibernatedSession, SnapshotReport), Error> {
        let path = match &self.options.hibernate_in {
            // Never that of an earlier hibernation: whoever kept its name must not find another state.
            Some(directory) => directory.join(format!("{}.snapshot", nonce())),
            None => handle.backend.directory().hibernated_snapshot(handle.id),
        };
        let mut file = KeptSnapshot::new(SnapshotSource::File(path.clone()));
        // From here on no file may change: what is saved is what comes back.
        handle.set_hibernated(true);
        let disk = self.options.disk.clone();
        let (report, space) = match write(handle, guest, path.clone(), disk, within).await {
            Ok(written) => written,
            Err(error) => {
                handle.set_hibernated(false);
                return Err(error);
            }
        };
        if let Some(store) = &self.options.snapshot_store {
            match store.put(&path).await {
                Ok(name) => {
                    let store = Arc::clone(store);
                    let directory = hibernate_in(&self.options, &handle.backend);
                    file = KeptSnapshot::new(SnapshotSource::Stored {
                        store,
                        name,
                        directory,
                    });
                }
                // A session that leaves its engine has no other chance: the file stays here.
                Err(error) if within.is_some() => {
                    tracing::error!(%error, "a snapshot cannot be stored, and stays on this machine");
                }
                Err(error) => {
                    handle.set_hibernated(false);
                    return Err(Error::io("storing the snapshot")(error));
                }
            }
        }
        let hibernated = HibernatedSession {
            file,
            _space: space,
            lost: losses(handle, guest, &report),
            report: Some(report.clone()),
            walls: handle.walls,
            backend: handle.backend.clone(),
        };
        Ok((hibernated, report))
    }

    /// Ends the processes of a session that was saved.
    async fn put_away(
        &self,
        next: State,
        handle: &SessionHandle,
        guest: &mut Guest,
    ) -> Result<(), Error> {
        {
            let mut state = lock(&self.state);
            if let State::Over(why) = &*state {
                return Err(Error::Ended(why.clone()));
            }
            *state = next;
        }
        let shares_init = handle
            .namespace_group
            .as_ref()
            .is_some_and(|group| Arc::strong_count(group) > 1);
        handle.kill();
        guest.wait_status(DEATH_TIME).await;
        // With forks, or with a parent, it lives on.
        if !shares_init {
            handle.wait_for_init(DEATH_TIME).await;
        }
        Ok(())
    }

    /// Accepts no more requests, and waits for the running cell.
    pub(crate) async fn settle(&self, deadline: Instant) -> Result<Settled, Error> {
        self.settling.store(true, Ordering::Release);
        let Some(AwakeSession { handle, guest }) = self.now()? else {
            return Ok(Settled::Idle);
        };
        if tokio::time::timeout_at(deadline.into(), guest.lock())
            .await
            .is_ok()
        {
            return Ok(Settled::Idle);
        }
        handle.interrupt_running();
        if tokio::time::timeout(handle.limits.grace, guest.lock())
            .await
            .is_ok()
        {
            return Ok(Settled::Interrupted);
        }
        let _ = handle.interpreter().kill();
        let killed = tokio::time::timeout(DEATH_TIME, guest.lock()).await;
        drop(killed.map_err(|_| Error::Unresponsive)?);
        handle.check()?;
        Ok(Settled::Killed)
    }

    /// Hibernates it, also a fork, and leaves the file to the caller.
    pub(crate) async fn detach(&self, within: Duration) -> Result<DetachedSession, Error> {
        self.settling.store(true, Ordering::Release);
        let _transition = self.transition.lock().await;
        if let Some(AwakeSession { handle, guest }) = self.now()? {
            let mut guest = guest.lock_owned().await;
            handle.check()?;
            let (hibernated, _) = self.save(&handle, &mut guest, Some(within)).await?;
            self.put_away(State::Detached, &handle, &mut guest).await?;
            return Ok(hibernated.into());
        }
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Detached) {
            State::Hibernated(hibernated) => Ok((*hibernated).into()),
            State::Over(why) => {
                *state = State::Over(why.clone());
                Err(Error::Ended(why))
            }
            // Nobody wakes it while this holds the transition.
            State::Awake(_) | State::Detached => Err(Error::Detached),
        }
    }

    /// Copies the snapshot, if it is hibernated.
    pub(crate) async fn copy_snapshot(&self, to: &Path) -> Result<Option<SnapshotReport>, Error> {
        let _transition = self.transition.lock().await;
        let source = match &*lock(&self.state) {
            State::Hibernated(hibernated) => hibernated.file.source(),
            _ => return Ok(None),
        };
        let disk = self.options.disk.clone();
        let reader = source.open().await?;
        copy(reader, to.to_owned(), disk).await.map(Some)
    }

    /// Starts the task that hibernates it after its idle time.
    fn watch(&self, guest: Weak<tokio::sync::Mutex<Guest>>) {
        if let Some(after) = self.options.hibernate_after {
            let after = after.max(LEAST_IDLE);
            let watcher = tokio::spawn(hibernate_when_idle(self.this.clone(), guest, after));
            // An earlier task that has not hibernated it still waits.
            let before = lock(&self.watcher).replace(watcher.abort_handle());
            if let Some(before) = before {
                before.abort();
            }
        }
    }
}

/// The directory of a session's snapshots.
fn hibernate_in(options: &SessionOptions, backend: &RunningBackend) -> PathBuf {
    let of_engine = || backend.directory().hibernated();
    options.hibernate_in.clone().unwrap_or_else(of_engine)
}

/// Ends when the session is hibernated, or has ended.
async fn hibernate_when_idle(
    lifecycle: Weak<Lifecycle>,
    guest: Weak<tokio::sync::Mutex<Guest>>,
    after: Duration,
) {
    let mut pause = after;
    loop {
        tokio::time::sleep(pause).await;
        let (Some(lifecycle), Some(guest)) = (lifecycle.upgrade(), guest.upgrade()) else {
            return;
        };
        let idle = guest.try_lock().map(|guest| guest.used.elapsed());
        drop(guest);
        pause = match idle {
            // A cell runs.
            Err(_) => after,
            Ok(idle) if idle < after => after.saturating_sub(idle),
            Ok(_) => match lifecycle.hibernate(Some(after)).await {
                Ok(_) | Err(Error::Ended(_)) => return,
                Err(error) => {
                    tracing::debug!(%error, session = lifecycle.id, "an idle session stays awake");
                    after
                }
            },
        };
    }
}
