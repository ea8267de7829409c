//! `belljar bench` with containers or gVisor: what such a session costs, beside one of Belljar's own walls and beside
//! the bare tool.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandbox::{Engine, Session};
use tokio::process::Command;

use crate::bench_command::{FIRST_CELL, Times, first_cell};
use crate::start::IsolationTool;

/// The same work by the bare tool: a container or a sandbox that imports, computes and ends.
pub(crate) struct Bare {
    program: String,
    arguments: Vec<String>,
}

impl Bare {
    pub(crate) fn new(tool: &IsolationTool<'_>, python: &Path) -> Self {
        let mut arguments: Vec<&str> = Vec::new();
        let program = match tool {
            IsolationTool::Containers {
                image,
                address,
                runtime,
            } => {
                arguments.extend(address.iter().flat_map(|address| ["-H", address]));
                arguments.extend(["run", "--rm", "--network", "none"]);
                arguments.extend(runtime.iter().flat_map(|runtime| ["--runtime", runtime]));
                arguments.push(image);
                "docker"
            }
            IsolationTool::Gvisor => {
                arguments.extend(["--ignore-cgroups", "--network=none", "do", "--"]);
                "runsc"
            }
        };
        let mut arguments: Vec<String> = arguments.into_iter().map(String::from).collect();
        arguments.push(python.display().to_string());
        arguments.extend(["-c", FIRST_CELL].map(String::from));
        Self {
            program: program.into(),
            arguments,
        }
    }

    /// A sandbox of gVisor that does nothing.
    pub(crate) fn empty_sandbox() -> Self {
        let arguments = ["--ignore-cgroups", "--network=none", "do", "--", "true"];
        Self {
            program: "runsc".into(),
            arguments: arguments.map(String::from).into(),
        }
    }

    async fn run(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let done = Command::new(&self.program)
            .args(&self.arguments)
            .output()
            .await
            .with_context(|| format!("`{}`, the reference, cannot be run", self.program))?;
        let words = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "`{}` failed: {words}", self.program);
        Ok(started.elapsed())
    }
}

/// A first cell of the first session of an engine, and the same by the bare tool, in turns.
pub(crate) async fn cold(
    engine: impl Fn() -> anyhow::Result<Engine>,
    bare: &Bare,
    n: usize,
) -> anyhow::Result<(Times, Times)> {
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    // The first round warms the caches of both.
    for round in 0..=n {
        let reference = bare.run().await?;
        let engine = engine()?;
        engine.warm().await?;
        let elapsed = start_and_run(&engine).await?;
        engine.shutdown().await;
        if round > 0 {
            ours.push(elapsed);
            theirs.push(reference);
        }
    }
    Ok((ours, theirs))
}

/// A first cell of a session that is restored from the image of a ready one, beside an empty sandbox, in turns.
pub(crate) async fn restored(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times)> {
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    let bare = Bare::empty_sandbox();
    // The second makes the image.
    for round in 0..n + 3 {
        let reference = bare.run().await?;
        let elapsed = start_and_run(engine).await?;
        if round >= 3 {
            ours.push(elapsed);
            theirs.push(reference);
        }
    }
    Ok((ours, theirs))
}

async fn start_and_run(engine: &Engine) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let session = engine.session().await?;
    first_cell(&session).await?;
    let elapsed = started.elapsed();
    session.close().await?;
    Ok(elapsed)
}

/// A first cell of pooled sessions, of this engine and of one with Belljar's own walls, in turns. `refill` is how long a
/// pooled session takes to be ready.
pub(crate) async fn pooled(
    engines: [&Engine; 2],
    n: usize,
    refill: Duration,
) -> anyhow::Result<(Times, Times)> {
    let mut times = [Times::default(), Times::default()];
    for engine in engines {
        engine.warm().await?;
    }
    for _ in 0..n {
        for (engine, times) in engines.into_iter().zip(&mut times) {
            let started = Instant::now();
            let session = engine.session().await?;
            first_cell(&session).await?;
            times.push(started.elapsed());
            session.close().await?;
            tokio::time::sleep(refill).await;
        }
    }
    let [ours, theirs] = times;
    Ok((ours, theirs))
}

/// A small cell in a session of each engine, in turns.
pub(crate) async fn round_trips(engines: [&Engine; 2], n: usize) -> anyhow::Result<(Times, Times)> {
    let sessions = [engines[0].session().await?, engines[1].session().await?];
    let mut times = [Times::default(), Times::default()];
    for round in 0..n + 20 {
        for (session, times) in sessions.iter().zip(&mut times) {
            let started = Instant::now();
            let outcome = session.run("x = 1").await?;
            let elapsed = started.elapsed();
            ensure!(outcome.is_success(), "a cell failed");
            if round >= 20 {
                times.push(elapsed);
            }
        }
    }
    for session in sessions {
        session.close().await?;
    }
    let [ours, theirs] = times;
    Ok((ours, theirs))
}

/// What an endless cell takes beyond its time limit, until its outcome is there.
pub(crate) async fn deadlines(engine: &Engine, n: usize) -> anyhow::Result<Times> {
    const LIMIT: Duration = Duration::from_secs(1);
    let mut limits = engine.limits().clone();
    limits.wall_time = LIMIT;
    let mut times = Times::default();
    for _ in 0..n {
        let session = engine.session_with(limits.clone()).await?;
        let started = Instant::now();
        // It takes no notice of interrupts.
        let code =
            "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
        session.run(code).await?;
        times.push(started.elapsed().saturating_sub(LIMIT));
        session.end();
    }
    Ok(times)
}

/// Memory of a session that has run its first cell, in bytes.
pub(crate) async fn memory(engine: &Engine) -> anyhow::Result<Option<u64>> {
    let session = engine.session().await?;
    first_cell(&session).await?;
    // What a meter that samples has seen.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let used = Session::in_use(&session).and_then(|used| used.memory_bytes);
    session.close().await?;
    Ok(used)
}
