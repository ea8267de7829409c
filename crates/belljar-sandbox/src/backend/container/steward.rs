//! The host's end of a steward: what is asked of it, and what it said last.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use belljar_protocol::{
    Counts, FileAnswer, FileRequest, FromSteward, StewardSignal, ToSteward, encode_frame,
};
use belljar_walls::{Busy, SessionCgroup, SessionUse};
use tokio::sync::{mpsc, oneshot};

use super::enclosure::Enclosure;
use crate::lock::lock;

/// How long a steward may take to end processes; it takes milliseconds, and seconds under a fork bomb.
const CLEAR_TIME: Duration = Duration::from_secs(2);

/// The wait status of a process that was killed.
const KILLED: i32 = 9;

/// How long it may take to count.
const COUNT_TIME: Duration = Duration::from_millis(500);

/// How long files may take, on a session's share of the CPUs.
const FILE_TIME: Duration = Duration::from_mins(2);

/// What the steward said last, and who waits for what.
#[derive(Debug, Default)]
struct State {
    /// The stream has ended, and the container with it.
    gone: bool,
    /// Whoever asked for the next step of a start.
    step: Option<oneshot::Sender<FromSteward>>,
    exits: HashMap<i32, oneshot::Sender<i32>>,
    /// Processes whose end was reported.
    dead: HashSet<i32>,
    cleared: Option<SyncSender<bool>>,
    files: HashMap<u64, SyncSender<(FileAnswer, Vec<u8>)>>,
    file_ids: u64,
    counts: Counts,
    /// How often it has counted.
    counted: u64,
    peak: u64,
    measuring: bool,
}

/// The steward of one container.
#[derive(Debug)]
pub(crate) struct Steward {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    state: Mutex<State>,
    /// After a change of the counts, or the end.
    news: Condvar,
    enclosure: Enclosure,
    memory_bytes: u64,
    since: SystemTime,
    /// By us.
    killed: AtomicBool,
}

impl Steward {
    pub(super) fn new(
        frames: mpsc::UnboundedSender<Vec<u8>>,
        enclosure: Enclosure,
        memory_bytes: u64,
    ) -> Self {
        Self {
            frames,
            state: Mutex::default(),
            news: Condvar::new(),
            enclosure,
            memory_bytes,
            since: SystemTime::now(),
            killed: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn send(&self, message: &ToSteward<'_>, blob: &[u8]) {
        match encode_frame(message, blob) {
            // A stream that has ended is noticed by its reader.
            Ok(frame) => drop(self.frames.send(frame)),
            Err(error) => tracing::error!(%error, "a message to a steward could not be written"),
        }
    }

    /// Asks for a step of the start, and waits for its answer.
    pub(super) async fn step(
        &self,
        message: &ToSteward<'_>,
        patience: Duration,
    ) -> Result<FromSteward, String> {
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.state();
            if state.gone {
                return Err("it ended".to_owned());
            }
            state.step = Some(sender);
        }
        self.send(message, &[]);
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(FromSteward::Failed { step, error })) => Err(format!("{step}: {error}")),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err("it ended".to_owned()),
            Err(_) => Err(format!("it did not answer within {patience:?}")),
        }
    }

    /// Takes up what it said, but for the session's own bytes.
    pub(super) fn receive(&self, message: FromSteward, blob: Vec<u8>) {
        let mut state = self.state();
        match message {
            FromSteward::Attest(_)
            | FromSteward::Warm { .. }
            | FromSteward::Started { .. }
            | FromSteward::Failed { .. } => {
                if let Some(step) = state.step.take() {
                    let _ = step.send(message);
                }
            }
            FromSteward::Exited { pid, status } => {
                // Only of those that are watched: a steward that lies fills no memory.
                if let Some(exit) = state.exits.remove(&pid) {
                    state.dead.insert(pid);
                    let _ = status.map(|status| exit.send(status));
                }
            }
            FromSteward::Cleared { cleared } => {
                if let Some(waiting) = state.cleared.take() {
                    let _ = waiting.try_send(cleared);
                }
            }
            FromSteward::File { id, answer } => {
                if let Some(waiting) = state.files.remove(&id) {
                    let _ = waiting.try_send((answer, blob));
                }
            }
            FromSteward::Counts(counts) => {
                state.peak = state.peak.max(counts.memory);
                state.counts = counts;
                state.counted += 1;
                self.news.notify_all();
            }
            FromSteward::Control
            | FromSteward::Stdout
            | FromSteward::Stderr
            | FromSteward::Credit { .. } => {}
        }
    }

    /// The stream has ended, and all processes of the container were killed: nobody waits any longer.
    pub(super) async fn end(&self) {
        self.keep_last_counts();
        let is_killed = self.killed.swap(true, Ordering::AcqRel);
        let ran_out = !is_killed && self.enclosure.ran_out_of_memory(self.since).await;
        if !is_killed {
            // After a broken frame it may still run: nothing of it can be believed any longer.
            self.enclosure.remove();
        }
        let mut state = self.state();
        let State {
            mut counts, peak, ..
        } = *state;
        counts.memory_kills += u64::from(ran_out);
        for (_, exit) in state.exits.drain() {
            let _ = exit.send(KILLED);
        }
        *state = State {
            gone: true,
            counts,
            peak,
            ..State::default()
        };
        self.news.notify_all();
    }

    pub(super) fn enclosure(&self) -> &Enclosure {
        &self.enclosure
    }

    /// Whether the container is gone, or on its way.
    pub(crate) fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Whether a process that was watched has ended.
    pub(crate) fn has_ended(&self, pid: i32) -> bool {
        let state = self.state();
        state.gone || state.dead.contains(&pid)
    }

    /// The end of a process; nothing if it is watched already: code may claim that a process is another one.
    pub(crate) fn watch(&self, pid: i32) -> Option<oneshot::Receiver<i32>> {
        let (sender, exit) = oneshot::channel();
        {
            let mut state = self.state();
            if state.exits.contains_key(&pid) {
                return None;
            }
            state.dead.remove(&pid);
            if !state.gone {
                state.exits.insert(pid, sender);
            }
        }
        self.send(&ToSteward::Watch { pid }, &[]);
        Some(exit)
    }

    pub(crate) fn signal(&self, pid: i32, signal: StewardSignal) {
        self.send(&ToSteward::Signal { pid, signal }, &[]);
    }

    /// Ends the container, from outside: nothing in it can prevent that.
    pub(crate) fn kill(&self) {
        if !self.is_gone() {
            self.keep_last_counts();
            self.killed.store(true, Ordering::Release);
            self.enclosure.remove();
        }
    }

    /// Ends all processes of the session but these; returns whether none is left.
    pub(crate) fn end_all_but(&self, pids: &[i32]) -> bool {
        let (sender, answer) = sync_channel(1);
        {
            let mut state = self.state();
            if state.gone {
                return true;
            }
            state.cleared = Some(sender);
        }
        self.send(&ToSteward::EndAllBut { pids }, &[]);
        answer.recv_timeout(CLEAR_TIME).unwrap_or(false)
    }

    /// Asks for something with files, and waits for the answer. None if the container is gone or silent.
    pub(super) fn file(
        &self,
        root: &str,
        request: FileRequest<'_>,
        blob: &[u8],
    ) -> Option<(FileAnswer, Vec<u8>)> {
        let (sender, answer) = sync_channel(1);
        let id = {
            let mut state = self.state();
            if state.gone {
                return None;
            }
            state.file_ids += 1;
            let id = state.file_ids;
            state.files.insert(id, sender);
            id
        };
        self.send(&ToSteward::File { id, root, request }, blob);
        match answer.recv_timeout(FILE_TIME) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.state().files.remove(&id);
                None
            }
        }
    }

    /// The cgroup that counts, where that is ours and still there.
    fn cgroup(&self) -> Option<&SessionCgroup> {
        let cgroup = self.enclosure.cgroup();
        cgroup.filter(|_| !self.killed.load(Ordering::Acquire))
    }

    /// Reads the cgroup for the last time.
    fn keep_last_counts(&self) {
        if let Some(cgroup) = self.cgroup() {
            let mut state = self.state();
            state.counts = counts_of(cgroup);
            state.peak = cgroup.peak_bytes().unwrap_or(0);
        }
    }

    /// Gives the session a busy session's share of the CPUs until the guard is dropped.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        self.cgroup()?.busy()
    }

    /// Measures the peak of memory from now on.
    pub(crate) fn begin_to_measure(&self) {
        if let Some(cgroup) = self.cgroup() {
            return cgroup.reset_peak();
        }
        {
            let mut state = self.state();
            state.peak = 0;
            state.measuring = true;
        }
        self.send(&ToSteward::Measure { on: true }, &[]);
    }

    /// Whether a cell runs, so that it is measured.
    pub(super) fn is_measuring(&self) -> bool {
        self.state().measuring
    }

    /// The peak of memory since then; ends the measuring.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        if let Some(cgroup) = self.cgroup() {
            return cgroup.peak_bytes();
        }
        let peak = {
            let mut state = self.state();
            state.measuring = false;
            state.peak
        };
        self.send(&ToSteward::Measure { on: false }, &[]);
        Some(peak).filter(|peak| *peak > 0)
    }

    /// What was counted last.
    pub(crate) fn counts(&self) -> Counts {
        match self.cgroup() {
            Some(cgroup) => counts_of(cgroup),
            None => self.state().counts,
        }
    }

    pub(crate) fn is_half_full(&self) -> bool {
        if let Some(cgroup) = self.cgroup() {
            return cgroup.is_half_full();
        }
        self.counts().memory > self.memory_bytes / 2
    }

    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_bytes
    }

    /// Current use, counted now.
    pub(crate) fn in_use(&self) -> SessionUse {
        if let Some(cgroup) = self.cgroup() {
            return cgroup.in_use();
        }
        let deadline = Instant::now() + COUNT_TIME;
        let mut state = self.state();
        let before = state.counted;
        // Each such request is answered by a count.
        let on = state.measuring;
        self.send(&ToSteward::Measure { on }, &[]);
        while state.counted == before && !state.gone {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.news.wait_timeout(state, left);
            let (next, late) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if late.timed_out() {
                break;
            }
        }
        SessionUse {
            memory_bytes: Some(state.counts.memory),
            cpu_time: Some(Duration::from_micros(state.counts.cpu_us)),
            processes: Some(state.counts.tasks),
        }
    }
}

fn counts_of(cgroup: &SessionCgroup) -> Counts {
    let SessionUse {
        memory_bytes,
        processes,
        ..
    } = cgroup.in_use();
    Counts {
        memory: memory_bytes.unwrap_or(0),
        cpu_us: u64::try_from(cgroup.cpu_time().as_micros()).unwrap_or(u64::MAX),
        tasks: processes.unwrap_or(0),
        memory_kills: cgroup.memory_kills(),
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        self.kill();
    }
}
