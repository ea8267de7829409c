//! Forking, saving and loading a session of 500 MB, beside the speed of the disk that the snapshot is on.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandbox::{Checkpoints, Engine, Limits, SessionOptions};

/// Columns of numbers, each an array of its own, and a little of everything else.
const FILL: &str = "import numpy as np, pandas as pd\n\
    frame = pd.DataFrame({f'c{n}': np.random.default_rng(n).random(6_250_000) for n in range(10)})\n\
    def mean(): return frame['c0'].mean()\n\
    notes = {n: str(n) for n in range(10_000)}\n";
const CHECK: &str = "assert 0.4 < mean() < 0.6 and frame.shape == (6_250_000, 10)\n";

/// How long one round took.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) save: Duration,
    /// Writing as many bytes to the same directory, and waiting for the disk.
    pub(crate) write: Duration,
    pub(crate) load: Duration,
    /// Reading the snapshot's bytes, which the kernel still holds, as for the load.
    pub(crate) read: Duration,
}

/// Rounds of saving and loading, and how long forks took up to their first outcome. Needs 1 GB of
/// disk in the directory for temporary files.
pub(crate) async fn rounds(
    engine: &Engine,
    n: usize,
    forks: usize,
) -> anyhow::Result<(Vec<Round>, Vec<Duration>)> {
    let directory = tempfile::tempdir().context("a directory for the snapshot")?;
    let path = directory.path().join("snapshot");
    let options = SessionOptions {
        limits: Limits {
            wall_time: Duration::from_mins(2),
            ..engine.limits().clone()
        },
        checkpoints: Checkpoints::Off,
        ..SessionOptions::default()
    };
    let session = engine.session_with(options.clone()).await?;
    ensure!(
        session.run(FILL).await?.is_success(),
        "the data was not made"
    );
    let mut times = Vec::new();
    for round in 0..forks + 2 {
        let started = Instant::now();
        let fork = session.fork(1).await?.remove(0);
        let outcome = fork.run("x = 1").await?;
        let elapsed = started.elapsed();
        ensure!(outcome.is_success(), "a fork failed: {outcome:?}");
        fork.close().await?;
        // The first rounds warm the caches.
        if round >= 2 {
            times.push(elapsed);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut rounds = Vec::new();
    for _ in 0..n {
        let started = Instant::now();
        let report = session.snapshot(&path).await?;
        let save = started.elapsed();
        ensure!(
            report.bytes > 500_000_000 && report.names.iter().all(|name| name.why.is_none()),
            "the snapshot lacks something: {report:?}"
        );
        let write = write_bytes(&directory.path().join("bytes"), report.bytes)?;
        let started = Instant::now();
        let (loaded, _) = engine.load(&path, options.clone()).await?;
        let load = started.elapsed();
        ensure!(loaded.run(CHECK).await?.is_success(), "not what was saved");
        loaded.close().await?;
        let read = read_bytes(&path)?;
        rounds.push(Round {
            save,
            write,
            load,
            read,
        });
    }
    session.close().await?;
    Ok((rounds, times))
}

fn write_bytes(path: &Path, bytes: u64) -> anyhow::Result<Duration> {
    // Not zeros: a disk may keep those in no space.
    let chunk: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let started = Instant::now();
    let mut file = File::create(path).context("the reference's file")?;
    let mut left = bytes;
    while left > 0 {
        let size = chunk.len().min(usize::try_from(left)?);
        file.write_all(&chunk[..size])?;
        left -= size as u64;
    }
    file.sync_all()?;
    let elapsed = started.elapsed();
    std::fs::remove_file(path)?;
    Ok(elapsed)
}

fn read_bytes(path: &Path) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 20];
    while file.read(&mut chunk)? > 0 {}
    Ok(started.elapsed())
}
