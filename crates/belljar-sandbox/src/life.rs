//! The lifecycle of a session: awake, hibernated or ended.
//!
//! A hibernated session is a snapshot in the engine's directory: it has no processes, no cgroup and
//! no memory. Any use wakes it, as a new interpreter that loads the snapshot.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use belljar_protocol::{Stream, Walls, WokenCopy};
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

use crate::cell::lacking;
use crate::checkpoints::copy_before;
use crate::disk::DiskSpace;
use crate::error::Error;
use crate::guest::{DEATH_TIME, Guest};
use crate::lock::lock;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::Session;
use crate::shared::Shared;
use crate::snapshot::{LoadReport, SnapshotReport, fill, open_snapshot, write};
use crate::tools::Toolset;
use crate::warm::Warm;

/// The most names and files that the first outcome after waking lists as gone.
const MAX_LOST: usize = 100;

/// The minimum idle time before a session hibernates.
const LEAST_IDLE: Duration = Duration::from_millis(10);

/// What a session is while it is awake.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) shared: Arc<Shared>,
    pub(crate) guest: Arc<tokio::sync::Mutex<Guest>>,
}

impl Live {
    pub(crate) fn new(shared: Shared, guest: Guest) -> Self {
        Self {
            shared: Arc::new(shared),
            guest: Arc::new(tokio::sync::Mutex::new(guest)),
        }
    }
}

/// The host's state of an awake session, and its guest.
pub(crate) type Wires = (Arc<Shared>, OwnedMutexGuard<Guest>);

/// A session from its start to its end, through all hibernations.
#[derive(Debug)]
pub(crate) struct Life {
    /// Of the interpreter that it started with.
    pub(crate) id: u64,
    pub(crate) options: SessionOptions,
    pub(crate) tools: Arc<Toolset>,
    state: Mutex<State>,
    /// Serialises hibernating and waking.
    turn: tokio::sync::Mutex<()>,
    /// The task that hibernates it when it is idle.
    watcher: Mutex<Option<AbortHandle>>,
    this: Weak<Self>,
}

impl Drop for Life {
    fn drop(&mut self) {
        // It would keep its memory, and that which its weak references hold, until it looks again.
        if let Some(watcher) = lock(&self.watcher).take() {
            watcher.abort();
        }
    }
}

#[derive(Debug)]
enum State {
    Awake(Live),
    Asleep(Box<Sleep>),
    /// It has ended, and why.
    Over(String),
}

/// What is left of a hibernated session.
#[derive(Debug)]
struct Sleep {
    file: SleepFile,
    /// The file's share of an allowance.
    _space: Option<DiskSpace>,
    report: SnapshotReport,
    walls: Walls,
    /// Losses that no outcome has reported yet.
    lost: Vec<String>,
    warm: Arc<Warm>,
}

/// The snapshot, removed on drop.
#[derive(Debug)]
struct SleepFile(PathBuf);

impl Drop for SleepFile {
    fn drop(&mut self) {
        // The engine's directory goes with the engine.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Life {
    pub(crate) fn begin(live: Live, options: SessionOptions) -> Arc<Self> {
        let guest = Arc::downgrade(&live.guest);
        let begun = Arc::new_cyclic(|this| Self {
            id: live.shared.id,
            options,
            tools: Arc::clone(&live.shared.tools),
            state: Mutex::new(State::Awake(live)),
            turn: tokio::sync::Mutex::default(),
            watcher: Mutex::default(),
            this: this.clone(),
        });
        begun.watch(guest);
        begun
    }

    /// The awake session, if it is awake.
    pub(crate) fn now(&self) -> Result<Option<Live>, Error> {
        match &*lock(&self.state) {
            State::Awake(live) => Ok(Some(live.clone())),
            State::Asleep(_) => Ok(None),
            State::Over(why) => Err(Error::Ended(why.clone())),
        }
    }

    /// Its wires, once they are free. Wakes a hibernated session.
    pub(crate) async fn wires(&self) -> Result<Wires, Error> {
        loop {
            let Live { shared, guest } = self.live().await?;
            let mut guest = guest.lock_owned().await;
            // It may have been hibernated meanwhile.
            if !*shared.asleep() {
                guest.used = Instant::now();
                return Ok((shared, guest));
            }
        }
    }

    /// Its wires, if they are free. Wakes a hibernated session.
    pub(crate) async fn wires_now(&self) -> Result<Wires, Error> {
        let Live { shared, guest } = self.live().await?;
        let guest = guest.try_lock_owned().map_err(|_| Error::Busy)?;
        if *shared.asleep() {
            return Err(Error::Busy);
        }
        Ok((shared, guest))
    }

    async fn live(&self) -> Result<Live, Error> {
        match self.now()? {
            Some(live) => Ok(live),
            None => self.wake().await,
        }
    }

    /// Ends it, unless it has ended; returns what there was of it.
    pub(crate) fn end(&self, why: &str) -> Option<Live> {
        let mut state = lock(&self.state);
        if matches!(*state, State::Over(_)) {
            return None;
        }
        let before = std::mem::replace(&mut *state, State::Over(why.to_owned()));
        drop(state);
        let State::Awake(live) = before else {
            return None;
        };
        live.shared.end(why);
        live.shared.kill();
        Some(live)
    }

    /// Wakes it, if it is hibernated. After a failure it stays hibernated.
    async fn wake(&self) -> Result<Live, Error> {
        let _turn = self.turn.lock().await;
        let (path, walls, warm, mut lost) = match &*lock(&self.state) {
            State::Awake(live) => return Ok(live.clone()),
            State::Over(why) => return Err(Error::Ended(why.clone())),
            State::Asleep(sleep) => (
                sleep.file.0.clone(),
                sleep.walls,
                Arc::clone(&sleep.warm),
                sleep.lost.clone(),
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
        let live = Live::start(warm, &self.options, walls, Arc::clone(&self.tools)).await?;
        let report = fill(&live, reader).await?;
        for line in not_there(&report) {
            tell(&mut lost, line);
        }
        {
            let mut guest = live.guest.lock().await;
            guest.lost = lost;
            guest.used = Instant::now();
            if self.options.checkpoints != Checkpoints::Off {
                // What a crash of the next cell is restored to.
                match copy_before(&live.shared, &mut guest).await {
                    Ok(_) | Err(Error::NotCopied(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let mut state = lock(&self.state);
        if let State::Over(why) = &*state {
            return Err(Error::Ended(why.clone()));
        }
        *state = State::Awake(live.clone());
        drop(state);
        self.watch(Arc::downgrade(&live.guest));
        Ok(live)
    }

    /// Hibernates it. With `idle`, only if it was idle for so long.
    async fn sleep(&self, idle: Option<Duration>) -> Result<SnapshotReport, Error> {
        let _turn = self.turn.lock().await;
        let Live { shared, guest } = match &*lock(&self.state) {
            State::Awake(live) => live.clone(),
            State::Asleep(sleep) => return Ok(sleep.report.clone()),
            State::Over(why) => return Err(Error::Ended(why.clone())),
        };
        let mut guest = guest.lock_owned().await;
        shared.check()?;
        if idle.is_some_and(|idle| guest.used.elapsed() < idle) {
            return Err(Error::Busy);
        }
        if shared.room.is_some() {
            return Err(Error::NotHibernated("it is a fork"));
        }
        if shared
            .family
            .as_ref()
            .is_some_and(|family| Arc::strong_count(family) > 1)
        {
            return Err(Error::NotHibernated("it has live forks"));
        }
        let file = SleepFile(shared.warm.directory().sleeper(shared.id));
        // From here on no file may change: what is saved is what comes back.
        shared.set_asleep(true);
        let disk = self.options.disk.clone();
        let (report, space) = match write(&shared, &mut guest, file.0.clone(), disk).await {
            Ok(written) => written,
            Err(error) => {
                shared.set_asleep(false);
                return Err(error);
            }
        };
        let sleep = Sleep {
            file,
            _space: space,
            lost: losses(&shared, &mut guest, &report),
            report: report.clone(),
            walls: shared.walls,
            warm: Arc::clone(&shared.warm),
        };
        {
            let mut state = lock(&self.state);
            if let State::Over(why) = &*state {
                return Err(Error::Ended(why.clone()));
            }
            *state = State::Asleep(Box::new(sleep));
        }
        shared.kill();
        guest.wait_status(DEATH_TIME).await;
        shared.wait_for_init(DEATH_TIME).await;
        Ok(report)
    }

    /// Starts the task that hibernates it after its idle time.
    fn watch(&self, guest: Weak<tokio::sync::Mutex<Guest>>) {
        if let Some(after) = self.options.hibernate_after {
            let after = after.max(LEAST_IDLE);
            let watcher = tokio::spawn(fall_asleep(self.this.clone(), guest, after));
            // An earlier task that has not hibernated it still waits.
            let before = lock(&self.watcher).replace(watcher.abort_handle());
            if let Some(before) = before {
                before.abort();
            }
        }
    }
}

/// Ends when the session is hibernated, or has ended.
async fn fall_asleep(life: Weak<Life>, guest: Weak<tokio::sync::Mutex<Guest>>, after: Duration) {
    let mut pause = after;
    loop {
        tokio::time::sleep(pause).await;
        let (Some(life), Some(guest)) = (life.upgrade(), guest.upgrade()) else {
            return;
        };
        let idle = guest.try_lock().map(|guest| guest.used.elapsed());
        drop(guest);
        pause = match idle {
            // A cell runs.
            Err(_) => after,
            Ok(idle) if idle < after => after.saturating_sub(idle),
            Ok(_) => match life.sleep(Some(after)).await {
                Ok(_) | Err(Error::Ended(_)) => return,
                Err(error) => {
                    tracing::debug!(%error, session = life.id, "an idle session stays awake");
                    after
                }
            },
        };
    }
}

/// What a session loses by hibernating, besides names and files.
fn losses(shared: &Shared, guest: &mut Guest, report: &SnapshotReport) -> Vec<String> {
    let mut lost = std::mem::take(&mut guest.lost);
    let cell = guest.cells;
    let slept = format!(
        "the session hibernated after cell {cell} and was restarted: only variables and files of the \
         workspace were saved, not /tmp, environment variables and the current directory"
    );
    tell(&mut lost, slept);
    let (threads, processes) = (report.threads, report.processes);
    let gone = WokenCopy {
        cell,
        threads,
        processes,
    };
    for line in lacking(gone) {
        tell(&mut lost, line);
    }
    let copies: Vec<String> = guest
        .copies
        .list()
        .map(|copy| match &copy.name {
            Some(name) => format!("`{name}`"),
            None => format!("cell {}", copy.cell),
        })
        .collect();
    if !copies.is_empty() {
        let copies = copies.join(", ");
        tell(&mut lost, format!("earlier checkpoints are gone: {copies}"));
    }
    let unread = |stream| guest.read_now(stream, &mut [0]).is_ok_and(|read| read > 0);
    if unread(Stream::Stdout) || unread(Stream::Stderr) {
        let output = "output of threads and child processes after the last cell was lost";
        tell(&mut lost, output.into());
    }
    if shared.output_directory.exists() {
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
    /// next outcome reports what was lost ([`dropped`]). Cell numbers continue. Only its files are
    /// out of reach until it is [woken](Self::wake).
    ///
    /// Waits for a running cell. A session that is hibernated already stays so.
    ///
    /// # Errors
    /// [`Error::NotHibernated`] for a fork, and for a session with live forks; [`Error::Io`] if the
    /// snapshot can't be written. The session continues after both.
    ///
    /// [`dropped`]: belljar_protocol::Outcome::dropped
    pub async fn hibernate(&self) -> Result<SnapshotReport, Error> {
        let life = Arc::clone(self.life());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let sleep = tokio::spawn(async move { life.sleep(None).await });
        sleep
            .await
            .map_err(|error| Error::io("hibernating the session")(error.into()))?
    }

    /// Wakes the session, if it is hibernated.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if its snapshot can't be loaded; it stays hibernated then.
    /// [`Error::Ended`] if its engine was shut down meanwhile.
    pub async fn wake(&self) -> Result<(), Error> {
        self.life().wake().await.map(drop)
    }

    /// Whether it is hibernated.
    pub fn is_asleep(&self) -> bool {
        matches!(self.life().now(), Ok(None))
    }
}
