//! The template: the warmed interpreter that sessions are forked from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use belljar_walls::{GUEST_ID, Process, ProcessLimits, SetupError};
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use crate::backend::channel::AsyncChannel;
use crate::backend::process::process_limits;
use crate::backend::pulse::{Beat, Pulse, TEMPLATE_TICKS};
use crate::backend::rootfs::interpreter_environment;
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::Checkpoints;

/// How long the preload list may take to import, on the slowest of hosts.
const WARM_TIME: Duration = Duration::from_mins(3);

#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request<'a> {
    Warm {
        preload: &'a [String],
        fonts: &'a [PathBuf],
        /// Those that most sessions have.
        variables: BTreeMap<&'static str, String>,
        /// Whether to make its memory cheap to share with sessions, once it is idle.
        share: bool,
    },
    Fork {
        id: u64,
        uid: u32,
        gid: u32,
        limits: ProcessLimits,
        filters: bool,
        checkpoints: Checkpoints,
        variables: BTreeMap<&'static str, String>,
        /// Given where there are no walls: the directory to work in.
        #[serde(skip_serializing_if = "Option::is_none")]
        workspace: Option<&'a Path>,
    },
    Bare {
        id: u64,
    },
    Ping,
}

/// The isolation of a fork.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForkWalls<'a> {
    /// The walls, with seccomp and Landlock or without them, and with a proxy on loopback or not.
    Behind {
        filters: bool,
        proxy: bool,
        checkpoints: Checkpoints,
    },
    /// Nothing: it works in this directory of the host.
    None { workspace: &'a Path },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Warm(WarmReport),
    Forked {
        id: u64,
        pid: i32,
    },
    ForkFailed {
        id: u64,
        error: String,
    },
    Exited {
        id: u64,
        status: i32,
    },
    /// Its memory is cheap to share from now on.
    Shared,
    Pong,
}

/// What a template reports once it is warm.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WarmReport {
    pub(crate) threads: u32,
    /// Private writable memory, which each session's limit comes on top of.
    pub(crate) data_bytes: u64,
    pub(crate) failed: BTreeMap<String, String>,
}

/// Why a template did not become warm.
#[derive(Debug)]
pub(crate) struct ColdTemplate {
    pub(crate) why: String,
    /// Modules that can't be imported.
    pub(crate) failed: BTreeSet<String>,
}

impl<T: Into<String>> From<T> for ColdTemplate {
    fn from(why: T) -> Self {
        Self {
            why: why.into(),
            failed: BTreeSet::new(),
        }
    }
}

type Fork = Result<(i32, OwnedFd), SetupError>;

/// A template's process, which is killed with this value: one that hangs does not notice that its
/// channel is closed.
#[derive(Debug)]
struct Ending(Process);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill() {
            tracing::error!(%error, "a template could not be killed");
        }
    }
}

/// A running template.
#[derive(Debug)]
pub(crate) struct Template {
    channel: AsyncChannel,
    process: Ending,
    pub(crate) report: WarmReport,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Fork>>>,
    dead: AtomicBool,
    retired: AtomicBool,
    shared: watch::Sender<bool>,
    since: Instant,
    forks: AtomicU32,
}

impl Template {
    /// Warms a template that has just been started, with these modules. The error is text.
    pub(crate) async fn warm(
        process: Process,
        channel: AsyncChannel,
        preload: &[String],
        fonts: &[PathBuf],
        share: bool,
    ) -> Result<Self, ColdTemplate> {
        let process = Ending(process);
        // An interpreter without libraries has little to share.
        let share = share && !preload.is_empty();
        let request = Request::Warm {
            preload,
            fonts,
            variables: interpreter_environment(&Limits::default(), false),
            share,
        };
        let warmed = async {
            channel.send(&request, &[]).await?;
            channel.receive::<Event>().await
        };
        let report = match tokio::time::timeout(WARM_TIME, warmed).await {
            Ok(Ok(Some((Event::Warm(report), _)))) => report,
            Ok(Ok(Some((other, _)))) => return Err(format!("unexpected answer {other:?}").into()),
            Ok(Ok(None)) => return Err("it ended while importing the preload list".into()),
            Ok(Err(error)) => return Err(error.to_string().into()),
            Err(_) => return Err(format!("importing took longer than {WARM_TIME:?}").into()),
        };
        if report.threads != 1 {
            // A thread is not copied by a fork, and a lock that it held would never be released.
            return Err(format!(
                "it has {} threads after importing the preload list, but a template must have \
                 one; remove the module that starts threads from the list",
                report.threads
            )
            .into());
        }
        if let Some((module, error)) = report.failed.iter().next() {
            // A module that is half imported would fail in every session in stranger ways.
            let why = format!("`{module}` of its preload list cannot be imported: {error}");
            let failed = report.failed.into_keys().collect();
            return Err(ColdTemplate { why, failed });
        }
        Ok(Self {
            channel,
            process,
            report,
            waiting: Mutex::default(),
            dead: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            shared: watch::Sender::new(!share),
            since: Instant::now(),
            forks: AtomicU32::new(0),
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// How many sessions came from it.
    pub(crate) fn forks(&self) -> u32 {
        self.forks.load(Ordering::Relaxed)
    }

    /// Waits until its memory is cheap to share, or it is dead.
    pub(crate) async fn wait_until_shared(&self) {
        let _ = self.shared.subscribe().wait_for(|shared| *shared).await;
    }

    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Retires it: it ends, and the spawner becomes the parent of its sessions.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.end();
    }

    fn end(&self) {
        self.channel.end();
        // It may not notice that.
        if let Err(error) = self.process.0.kill() {
            tracing::error!(%error, "a template could not be killed");
        }
    }

    /// Forks a session. `descriptors` are those the guest expects, in its order.
    pub(crate) async fn fork(
        &self,
        id: u64,
        limits: &Limits,
        walls: ForkWalls<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Fork {
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(id, sender);
        let request = Request::Fork {
            id,
            uid: GUEST_ID,
            gid: GUEST_ID,
            limits: process_limits(limits, self.report.data_bytes),
            filters: matches!(walls, ForkWalls::Behind { filters: true, .. }),
            checkpoints: match walls {
                ForkWalls::Behind { checkpoints, .. } => checkpoints,
                ForkWalls::None { .. } => Checkpoints::Off,
            },
            variables: interpreter_environment(
                limits,
                matches!(walls, ForkWalls::Behind { proxy: true, .. }),
            ),
            workspace: match walls {
                ForkWalls::Behind { .. } => None,
                ForkWalls::None { workspace } => Some(workspace),
            },
        };
        let sent = self.channel.send(&request, descriptors).await;
        if sent.is_err() {
            // Its end may not have been heard of yet.
            self.dead.store(true, Ordering::Release);
            self.end();
        }
        if self.is_dead() {
            self.waiting().remove(&id);
        }
        receiver
            .await
            .unwrap_or(Err(SetupError::Process("the template died")))
    }

    /// Forks a child that makes namespaces and mounts and then writes one byte: the reference for
    /// measuring session start.
    pub(crate) async fn fork_bare(&self, id: u64, pipe: &OwnedFd) -> std::io::Result<()> {
        self.channel
            .send(&Request::Bare { id }, &[pipe.as_fd()])
            .await
    }

    /// Handles messages of the template until it dies, or is killed because it does not answer.
    /// `exited` gets the raw wait status of a session's interpreter.
    pub(crate) async fn listen(&self, exited: impl Fn(u64, i32)) {
        let (mut pulse, mut ticks) = (Pulse::new(TEMPLATE_TICKS), Pulse::ticks());
        loop {
            let (event, mut descriptors) = tokio::select! {
                received = self.channel.receive::<Event>() => match received {
                    Ok(Some(received)) => received,
                    Ok(None) | Err(_) => break,
                },
                _ = ticks.tick() => {
                    let awaited = !self.waiting().is_empty();
                    match pulse.tick(awaited) {
                        Beat::Nothing => {}
                        // Where its channel is full, it has enough to answer.
                        Beat::Ask => drop(self.channel.send_now(&Request::Ping, &[])),
                        Beat::Late => {
                            tracing::warn!("a template does not answer and is killed");
                            break;
                        }
                    }
                    continue;
                }
            };
            pulse.heard();
            match event {
                Event::Forked { id, pid } => {
                    let fork = self.waiting().remove(&id);
                    if let (Some(fork), Some(process)) = (fork, descriptors.pop()) {
                        self.forks.fetch_add(1, Ordering::Relaxed);
                        let _ = fork.send(Ok((pid, process)));
                    }
                }
                Event::ForkFailed { id, error } => {
                    if let Some(fork) = self.waiting().remove(&id) {
                        let _ = fork.send(Err(SetupError::Reported(error)));
                    }
                }
                Event::Exited { id, status } => exited(id, status),
                Event::Shared => drop(self.shared.send_replace(true)),
                Event::Warm(_) | Event::Pong => {}
            }
        }
        self.dead.store(true, Ordering::Release);
        self.end();
        self.waiting().clear();
        self.shared.send_replace(true);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Fork>>> {
        lock(&self.waiting)
    }
}
