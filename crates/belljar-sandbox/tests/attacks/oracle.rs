//! What must hold after every case, whatever it did.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_sandbox::Session;

use crate::support::{
    Stopwatch, Traces, containers, descriptors, name, printed, processes_below, resident, seconds,
    template, traces,
};

/// Resident memory may grow this much over a case: allocator slack and pages of code that were
/// never touched before.
const RESIDENT_SLACK_KB: u64 = 48 << 10;

/// What this process holds on the machine.
#[derive(Debug)]
pub(crate) struct Baseline {
    traces: Traces,
    descriptors: usize,
    threads: usize,
    resident_kb: u64,
    children: BTreeSet<u32>,
    temporary: BTreeSet<PathBuf>,
}

impl Baseline {
    pub(crate) fn note() -> Self {
        // As the program does: otherwise the allocator may keep what was freed.
        belljar_walls::limit_heaps();
        Self {
            traces: traces(std::process::id()),
            descriptors: descriptors(),
            threads: threads(),
            resident_kb: resident(),
            children: processes_below(std::process::id()).into_iter().collect(),
            temporary: temporary(),
        }
    }

    /// Everything is as it was, in two seconds at the latest, or ten for a container.
    pub(crate) async fn check(&self) {
        in_time("the end of all processes", || {
            let now: BTreeSet<u32> = processes_below(std::process::id()).into_iter().collect();
            let new: Vec<String> = now
                .difference(&self.children)
                .copied()
                .map(describe)
                .collect();
            new.is_empty().then_some(()).ok_or(new)
        })
        .await;
        in_time("mounts, cgroups, engine directories as before", || {
            let now = traces(std::process::id());
            (now == self.traces).then_some(()).ok_or(now)
        })
        .await;
        in_time("temporary files as before", || {
            let new: Vec<PathBuf> = temporary().difference(&self.temporary).cloned().collect();
            new.is_empty().then_some(()).ok_or(new)
        })
        .await;
        in_time("descriptors as before", || {
            let now = descriptors();
            let open = || -> Vec<PathBuf> {
                let directory = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
                directory
                    .filter_map(|entry| std::fs::read_link(entry.path()).ok())
                    .collect()
            };
            (now <= self.descriptors)
                .then_some(())
                .ok_or_else(|| (self.descriptors, open()))
        })
        .await;
        in_time("threads as before", || {
            let now = threads();
            (now <= self.threads)
                .then_some(())
                .ok_or((self.threads, now))
        })
        .await;
        // What a reader held is freed by its own task.
        in_time("the host's memory as before, in kB", || {
            let now = resident();
            (now < self.resident_kb + RESIDENT_SLACK_KB)
                .then_some(())
                .ok_or((self.resident_kb, now))
        })
        .await;
    }
}

/// What the kernel knows of a session from outside.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Its cgroups.
    pub(crate) cgroups: Vec<PathBuf>,
    /// The host's user that it runs as, where it is not the host's own.
    user: Option<u32>,
}

impl Kernel {
    /// Of a session that has run a cell, so that its interpreter is behind the walls.
    pub(crate) fn from_session(session: &Session) -> Self {
        if containers::is_in_containers() {
            let cgroups = containers::cgroups(session.id());
            assert!(!cgroups.is_empty(), "a live session is in its cgroups");
            return Self::new(cgroups);
        }
        let trees = traces(std::process::id()).cgroups.into_iter();
        let id = session.id().to_string();
        // Where processes are limited, a cgroup of the namespace group is between.
        let cgroups: Vec<PathBuf> = trees
            .flat_map(|tree| {
                let below = std::fs::read_dir(&tree).into_iter().flatten().flatten();
                let below: Vec<PathBuf> = below.map(|entry| entry.path().join(&id)).collect();
                below.into_iter().chain([tree.join(&id)])
            })
            .filter(|cgroup| cgroup.is_dir())
            .collect();
        let members: Vec<u32> = cgroups.iter().flat_map(|cgroup| members(cgroup)).collect();
        assert!(!members.is_empty(), "a live session is in its cgroups");
        Self::new(cgroups)
    }

    fn new(cgroups: Vec<PathBuf>) -> Self {
        let host = rustix::process::getuid().as_raw();
        let all = cgroups.iter().flat_map(|cgroup| members(cgroup));
        let user = all.filter_map(user).find(|user| *user != host);
        Self { cgroups, user }
    }

    /// Host ids of all processes in its cgroups.
    pub(crate) fn members(&self) -> BTreeSet<u32> {
        let all = self.cgroups.iter().flat_map(|cgroup| members(cgroup));
        // Process 1 of a container is ours.
        let is_own =
            |pid: &u32| !containers::is_in_containers() || user(*pid).is_some_and(|user| user > 0);
        all.filter(is_own).collect()
    }

    /// No cgroup and no process is left of it, in two seconds at the latest, or ten for a container.
    pub(crate) async fn check_gone(&self) {
        in_time("the removal of the session's cgroups", || {
            let left: Vec<(&PathBuf, Vec<String>)> = self
                .cgroups
                .iter()
                .filter(|cgroup| cgroup.exists())
                .map(|cgroup| (cgroup, members(cgroup).into_iter().map(describe).collect()))
                .collect();
            left.is_empty().then_some(()).ok_or(left)
        })
        .await;
        let Some(session_user) = self.user else {
            return;
        };
        in_time("the end of all processes of the session's user", || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let left: Vec<String> = all
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .filter(|pid| user(*pid) == Some(session_user))
                .map(describe)
                .collect();
            left.is_empty().then_some(()).ok_or(left)
        })
        .await;
    }
}

/// With the victims closed nothing is left below this process but those of `before`; a template
/// that was replaced is another one now.
pub(crate) async fn check_processes(before: &BTreeSet<u32>) {
    in_time("the end of the victims' processes", || {
        let allowed = template();
        let left: Vec<String> = processes_below(std::process::id())
            .into_iter()
            .filter(|pid| !before.contains(pid) && Some(*pid) != allowed)
            .map(describe)
            .collect();
        left.is_empty().then_some(()).ok_or(left)
    })
    .await;
}

/// The sibling answers in under 100 ms; not always, since the machine may be busy with another test,
/// but soon.
pub(crate) async fn check_answers(session: &Session) {
    let (mut best, begun) = (Duration::MAX, Instant::now());
    while best >= Duration::from_millis(100) && begun.elapsed() < seconds(20.0) {
        let started = Stopwatch::start();
        assert_eq!(printed(session, "print(6 * 7)").await, "42\n");
        best = best.min(started.elapsed());
    }
    assert!(
        best < Duration::from_millis(100),
        "the sibling's best answer took {best:?}"
    );
}

/// Durations of small cells, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) async fn add_cell(&mut self, session: &Session) {
        let started = Stopwatch::start();
        assert_eq!(printed(session, "print(sum(range(100)))").await, "4950\n");
        self.0.push(started.elapsed());
        self.0.sort();
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The duration that this part of a hundred did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0[rank - 1]
    }
}

/// The text of every small file beneath a directory, with its path.
pub(crate) fn texts_beneath(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                found.push((entry.path(), String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
    found
}

async fn in_time<T: std::fmt::Debug>(what: &str, mut done: impl FnMut() -> Result<(), T>) {
    let begun = Stopwatch::start();
    // A container is removed by its engine, when that has time; a sandbox ends with its whole kernel.
    let patience = seconds(
        if containers::is_in_containers() || containers::is_gvisor() {
            10.0
        } else {
            2.0
        },
    );
    loop {
        match done() {
            Ok(()) => return,
            Err(left) if begun.elapsed() > patience => {
                panic!("oracle: {what}: not within {patience:?}; left: {left:#?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn describe(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find(|line| line.starts_with("State:"));
    format!("{pid} {} {}", name(pid), state.unwrap_or_default())
}

fn members(cgroup: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// The real user of a process; `None` if it is gone.
fn user(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Entries of /dev/shm and of the directory for temporary files that may be ours: those of this
/// user that carry our name or that of this process. (The engine's directories are distinguished.)
fn temporary() -> BTreeSet<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let ours = format!("-{}-", std::process::id());
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).into_iter().flatten().flatten())
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.contains("belljar") && name.contains(&ours)
                || entry
                    .metadata()
                    // Users of sessions own nothing outside of them.
                    .is_ok_and(|meta| meta.uid() >= 0x7000_0000)
        })
        .map(|entry| entry.path())
        .collect()
}
