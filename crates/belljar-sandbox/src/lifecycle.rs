//! The lifecycle of a session: awake, hibernated or ended.
//!
//! A hibernated session is a snapshot in the engine's directory: it has no processes, no cgroup and
//! no memory. Any use wakes it, as a new interpreter that loads the snapshot.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use belljar_protocol::{Stream, Walls, WokenCheckpoint};
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

use crate::cell::lacking;
use crate::checkpoints::checkpoint_before;
use crate::disk::DiskSpace;
use crate::error::Error;
use crate::guest::{DEATH_TIME, Guest};
use crate::handle::SessionHandle;
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::Session;
use crate::snapshot::{LoadReport, SnapshotReport, fill, open_snapshot, write};
use crate::tools::Toolset;
use crate::warm_backend::WarmBackend;

/// The most names and files that the first outcome after waking lists as gone.
const MAX_LOST: usize = 100;

/// The minimum idle time before a session hibernates.
const LEAST_IDLE: Duration = Duration::from_millis(10);

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

/// A session from its start to its end, through all hibernations.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// Of the interpreter that it started with.
    pub(crate) id: u64,
    pub(crate) options: SessionOptions,
    pub(crate) tools: Arc<Toolset>,
    state: Mutex<State>,
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
    /// It has ended, and why.
    Over(String),
}

/// What is left of a hibernated session.
#[derive(Debug)]
struct HibernatedSession {
    file: SnapshotFile,
    /// The file's share of an allowance.
    _space: Option<DiskSpace>,
    report: SnapshotReport,
    walls: Walls,
    /// Losses that no outcome has reported yet.
    lost: Vec<String>,
    warm: Arc<WarmBackend>,
}

/// The snapshot, removed on drop.
#[derive(Debug)]
struct SnapshotFile(PathBuf);

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        // The engine's directory goes with the engine.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Lifecycle {
    pub(crate) fn begin(awake: AwakeSession, options: SessionOptions) -> Arc<Self> {
        let guest = Arc::downgrade(&awake.guest);
        let begun = Arc::new_cyclic(|this| Self {
            id: awake.handle.id,
            options,
            tools: Arc::clone(&awake.handle.tools),
            state: Mutex::new(State::Awake(awake)),
            transition: tokio::sync::Mutex::default(),
            watcher: Mutex::default(),
            this: this.clone(),
        });
        begun.watch(guest);
        begun
    }

    /// The awake session, if it is awake.
    pub(crate) fn now(&self) -> Result<Option<AwakeSession>, Error> {
        match &*lock(&self.state) {
            State::Awake(awake) => Ok(Some(awake.clone())),
            State::Hibernated(_) => Ok(None),
            State::Over(why) => Err(Error::Ended(why.clone())),
        }
    }

    /// Its wires, once they are free. Wakes a hibernated session.
    pub(crate) async fn wires(&self) -> Result<Wires, Error> {
        loop {
            let AwakeSession { handle, guest } = self.awake().await?;
            let mut guest = guest.lock_owned().await;
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

    async fn awake(&self) -> Result<AwakeSession, Error> {
        match self.now()? {
            Some(awake) => Ok(awake),
            None => self.wake().await,
        }
    }

    /// Ends it, unless it has ended; returns what there was of it.
    pub(crate) fn end(&self, why: &str) -> Option<AwakeSession> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Over(_)) {
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
    async fn wake(&self) -> Result<AwakeSession, Error> {
        let _transition = self.transition.lock().await;
        let (path, walls, warm, mut lost) = match &*lock(&self.state) {
            State::Awake(awake) => return Ok(awake.clone()),
            State::Over(why) => return Err(Error::Ended(why.clone())),
            State::Hibernated(hibernated) => (
                hibernated.file.0.clone(),
                hibernated.walls,
                Arc::clone(&hibernated.warm),
                hibernated.lost.clone(),
            ),
        };
        let down = || Error::Ended("its engine shut down while it was hibernated".into());
        let reader = match open_snapshot(path).await {
            // Its file was removed with the engine's directory.
            Err(_) if warm.is_down() => return Err(down()),
            opened => opened?,
        };
        let warm = warm.or_successor().await?;
        if warm.is_down() {
            return Err(down());
        }
        let awake =
            AwakeSession::start(warm, &self.options, walls, Arc::clone(&self.tools)).await?;
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
        let mut state = lock(&self.state);
        if let State::Over(why) = &*state {
            return Err(Error::Ended(why.clone()));
        }
        *state = State::Awake(awake.clone());
        drop(state);
        self.watch(Arc::downgrade(&awake.guest));
        Ok(awake)
    }

    /// Hibernates it. With `idle`, only if it was idle for so long.
    async fn hibernate(&self, idle: Option<Duration>) -> Result<SnapshotReport, Error> {
        let _transition = self.transition.lock().await;
        let AwakeSession { handle, guest } = match &*lock(&self.state) {
            State::Awake(awake) => awake.clone(),
            State::Hibernated(hibernated) => return Ok(hibernated.report.clone()),
            State::Over(why) => return Err(Error::Ended(why.clone())),
        };
        let mut guest = guest.lock_owned().await;
        handle.check()?;
        if idle.is_some_and(|idle| guest.used.elapsed() < idle) {
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
        let file = SnapshotFile(handle.warm.directory().hibernated_snapshot(handle.id));
        // From here on no file may change: what is saved is what comes back.
        handle.set_hibernated(true);
        let disk = self.options.disk.clone();
        let (report, space) = match write(&handle, &mut guest, file.0.clone(), disk).await {
            Ok(written) => written,
            Err(error) => {
                handle.set_hibernated(false);
                return Err(error);
            }
        };
        let hibernated = HibernatedSession {
            file,
            _space: space,
            lost: losses(&handle, &mut guest, &report),
            report: report.clone(),
            walls: handle.walls,
            warm: Arc::clone(&handle.warm),
        };
        {
            let mut state = lock(&self.state);
            if let State::Over(why) = &*state {
                return Err(Error::Ended(why.clone()));
            }
            *state = State::Hibernated(Box::new(hibernated));
        }
        handle.kill();
        guest.wait_status(DEATH_TIME).await;
        handle.wait_for_init(DEATH_TIME).await;
        Ok(report)
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

/// What a session loses by hibernating, besides names and files.
fn losses(handle: &SessionHandle, guest: &mut Guest, report: &SnapshotReport) -> Vec<String> {
    let mut lost = std::mem::take(&mut guest.lost);
    let cell = guest.cells;
    let slept = format!(
        "the session hibernated after cell {cell} and was restarted: only variables and files of the \
         workspace were saved, not /tmp, environment variables and the current directory"
    );
    tell(&mut lost, slept);
    let (threads, processes) = (report.threads, report.processes);
    let gone = WokenCheckpoint {
        cell,
        threads,
        processes,
    };
    for line in lacking(gone) {
        tell(&mut lost, line);
    }
    let checkpoints: Vec<String> = guest
        .checkpoint_set
        .list()
        .map(|checkpoint| match &checkpoint.name {
            Some(name) => format!("`{name}`"),
            None => format!("cell {}", checkpoint.cell),
        })
        .collect();
    if !checkpoints.is_empty() {
        let checkpoints = checkpoints.join(", ");
        tell(
            &mut lost,
            format!("earlier checkpoints are gone: {checkpoints}"),
        );
    }
    let unread = |stream| guest.read_now(stream, &mut [0]).is_ok_and(|read| read > 0);
    if unread(Stream::Stdout) || unread(Stream::Stderr) {
        let output = "output of threads and child processes after the last cell was lost";
        tell(&mut lost, output.into());
    }
    if handle.output_directory.exists() {
        let outputs = "the files with the full text of long outputs are gone";
        tell(&mut lost, outputs.into());
    }
    lost
}

/// Adds a line, once: a session may hibernate and wake many times between two outcomes.
fn tell(lost: &mut Vec<String>, line: String) {
    if !lost.contains(&line) {
        lost.push(line);
    }
}

/// Which names, files and packages did not come back.
fn not_there(report: &LoadReport) -> Vec<String> {
    let names = report.names.iter().filter_map(|name| {
        let why = name.why.as_ref()?;
        Some(format!("the variable `{}` is gone: {why}", name.name))
    });
    let files = report.files_left_out.iter();
    let files = files.map(|file| format!("the file `{}` is gone: {}", file.path, file.why));
    let packages = report.packages.iter();
    let packages = packages.map(|package| format!("the package {package}"));
    let mut lines: Vec<String> = names.chain(files).chain(packages).collect();
    let more = lines.len().saturating_sub(MAX_LOST);
    if more > 0 {
        lines.truncate(MAX_LOST);
        lines.push(format!("{more} more variables and files are gone"));
    }
    lines
}

impl Session {
    /// Hibernates the session: its variables and files are written to a snapshot in the engine's
    /// directory, which only its owner may read, and all of its processes end. The next cell or any
    /// other request wakes it: a new interpreter with the same options loads the snapshot, and the
    /// next outcome reports what was lost ([`notes`]). Cell numbers continue. Only its files are
    /// out of reach until it is [woken](Self::wake).
    ///
    /// Waits for a running cell. A session that is hibernated already stays so.
    ///
    /// # Errors
    /// [`Error::NotHibernated`] for a fork, and for a session with live forks; [`Error::Io`] if the
    /// snapshot can't be written. The session continues after both.
    ///
    /// [`notes`]: belljar_protocol::Outcome::notes
    pub async fn hibernate(&self) -> Result<SnapshotReport, Error> {
        let lifecycle = Arc::clone(self.lifecycle());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let hibernating = tokio::spawn(async move { lifecycle.hibernate(None).await });
        hibernating
            .await
            .map_err(|error| Error::io("hibernating the session")(error.into()))?
    }

    /// Wakes the session, if it is hibernated.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if its snapshot can't be loaded; it stays hibernated then.
    /// [`Error::Ended`] if its engine was shut down meanwhile.
    pub async fn wake(&self) -> Result<(), Error> {
        self.lifecycle().wake().await.map(drop)
    }

    /// Whether it is hibernated.
    pub fn is_hibernated(&self) -> bool {
        matches!(self.lifecycle().now(), Ok(None))
    }
}
