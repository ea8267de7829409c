//! What the tests start with, and what they look at.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod containers;
mod log;
mod stopwatch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use belljar_sandbox::protocol::Outcome;
use belljar_sandbox::{
    Backend, Cell, Checkpoints, Engine, EngineBuilder, Environment, EnvironmentSpec,
    EnvironmentStore, Limits, Session, SessionOptions,
};

pub(crate) use log::Log;
pub(crate) use stopwatch::Stopwatch;

/// The `default` environment; built if it is not there, which takes half a minute.
pub(crate) fn data_environment() -> Environment {
    if containers::is_in_containers() {
        return containers::image();
    }
    let store = EnvironmentStore::open_default().unwrap();
    store.load("default").unwrap_or_else(|_| {
        store
            .create(&EnvironmentSpec::default_environment(), &mut |_| {})
            .unwrap()
    })
}

/// Whether a line of a posture can be true on this host: one kernel has files in `/proc` that another has not.
pub(crate) fn is_possible(line: &str) -> bool {
    let path = line.split(' ').find(|word| word.starts_with("/proc/"));
    path.is_none_or(|path| path.starts_with("/proc/self") || std::fs::exists(path).unwrap())
}

/// A Python without packages, for what needs none: its template is warm at once.
pub(crate) fn bare_environment() -> Environment {
    if containers::is_in_containers() {
        containers::image().preload_only(|_| false)
    } else {
        bare_python()
    }
}

/// A Python of the host without packages.
pub(crate) fn bare_python() -> Environment {
    static BARE: std::sync::OnceLock<Environment> = std::sync::OnceLock::new();
    BARE.get_or_init(|| {
        let store = EnvironmentStore::open_default().unwrap();
        store.load("bare").unwrap_or_else(|_| {
            // Another test may be faster.
            let made = store.create(&EnvironmentSpec::new("bare".to_owned()), &mut |_| {});
            made.or_else(|_| store.load("bare")).unwrap()
        })
    })
    .clone()
}

/// An engine whose sessions keep no copies: what a cell alone does, costs and loses is looked at.
pub(crate) fn builder(environment: Environment) -> EngineBuilder {
    plain_builder(environment).checkpoints(Checkpoints::Off)
}

/// An engine of the tier under test, with the product's defaults.
pub(crate) fn plain_builder(environment: Environment) -> EngineBuilder {
    let builder = Engine::builder(environment);
    if containers::is_gvisor() {
        builder.gvisor()
    } else if containers::is_fresh() {
        builder.backend(Backend::Fresh)
    } else {
        builder
    }
}

/// The same for a session with limits of its own.
pub(crate) fn without_checkpoints(limits: Limits) -> SessionOptions {
    SessionOptions {
        limits,
        checkpoints: Checkpoints::Off,
        ..SessionOptions::default()
    }
}

pub(crate) fn engine() -> Engine {
    builder(bare_environment()).build()
}

pub(crate) fn data_engine() -> Engine {
    builder(data_environment()).build()
}

pub(crate) async fn session() -> Session {
    engine().session().await.unwrap()
}

pub(crate) async fn data_session() -> Session {
    data_engine().session().await.unwrap()
}

pub(crate) async fn session_with(limits: Limits) -> Session {
    engine()
        .session_with(without_checkpoints(limits))
        .await
        .unwrap()
}

/// Runs a cell that must succeed and returns its outcome.
pub(crate) async fn good(session: &Session, code: &str) -> Outcome {
    let outcome = session.run(code).await.unwrap();
    assert!(outcome.is_success(), "{code}\n{outcome:#?}");
    outcome
}

/// Runs a cell that must succeed and returns what it printed.
pub(crate) async fn printed(session: &Session, code: &str) -> String {
    good(session, code).await.stdout.text
}

/// A cell with a time limit of its own.
pub(crate) fn timed(code: &str, wall_time: Duration) -> Cell {
    Cell {
        wall_time: Some(wall_time),
        ..Cell::from(code)
    }
}

/// How often something is repeated: `BELLJAR_LONG` asks for the number that is measured before a release.
pub(crate) fn repeats(short: usize, long: usize) -> usize {
    if std::env::var_os("BELLJAR_LONG").is_some() {
        long
    } else {
        short
    }
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Waits until `done`, at most five seconds.
pub(crate) async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

/// All descendants of a process.
pub(crate) fn processes_below(parent: u32) -> Vec<u32> {
    let mut found = vec![];
    let mut pending = vec![parent];
    while let Some(pid) = pending.pop() {
        for task in std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
                found.push(child);
                pending.push(child);
            }
        }
    }
    found
}

/// The name of a process; empty if it is gone.
pub(crate) fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The inits of this process's sessions.
pub(crate) fn inits() -> Vec<u32> {
    let below = processes_below(std::process::id());
    below
        .into_iter()
        .filter(|pid| name(*pid) == "belljar-init")
        .collect()
}

/// Everything of ours that a machine can hold outside of a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Traces {
    pub(crate) mounts: usize,
    pub(crate) cgroups: BTreeSet<PathBuf>,
    pub(crate) directories: BTreeSet<PathBuf>,
    pub(crate) containers: BTreeSet<String>,
}

/// The traces of one process's engines.
pub(crate) fn traces(pid: u32) -> Traces {
    let prefix = format!("belljar-{pid}-");
    let ours = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    let mut cgroups = BTreeSet::new();
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
                cgroups.insert(entry.path());
            }
        }
    }
    cgroups.retain(ours);
    let parent =
        std::env::temp_dir().join(format!("belljar-{}", rustix::process::getuid().as_raw()));
    let directories = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let directories = directories.map(|entry| entry.path()).filter(ours).collect();
    let in_containers = containers::is_in_containers();
    // A container engine mounts for the tests beside this one, too.
    let mounts = if in_containers { 0 } else { mounts() };
    let containers = if in_containers {
        let ours = containers::containers(pid).into_iter();
        ours.map(|(id, _)| id).collect()
    } else {
        BTreeSet::new()
    };
    Traces {
        mounts,
        cgroups,
        directories,
        containers,
    }
}

pub(crate) fn mounts() -> usize {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    text.lines().count()
}

pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory of this process, in kilobytes.
pub(crate) fn resident() -> u64 {
    kilobytes("VmRSS:")
}

/// The most of it since [`forget_highest_resident`].
pub(crate) fn highest_resident() -> u64 {
    kilobytes("VmHWM:")
}

/// Returns what is resident now.
pub(crate) fn forget_highest_resident() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    resident()
}

fn kilobytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The template: in the outer pid namespace, where a session's interpreter is one deeper.
pub(crate) fn template() -> Option<u32> {
    let depth = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:").map(str::to_owned));
        line.unwrap_or_default().split_whitespace().count()
    };
    let below = processes_below(std::process::id());
    below
        .into_iter()
        .find(|pid| name(*pid).starts_with("python") && depth(*pid) == 2)
}
