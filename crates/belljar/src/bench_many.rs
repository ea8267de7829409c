//! Many sessions: at the same moment, one after the other, and idle.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandbox::{Engine, Session};

use crate::bench_command::first_cell;

/// Sessions that start at the same time in [`creates`].
const CREATORS: usize = 8;

/// From one moment to the outcome of each session's first cell.
pub(crate) async fn burst(engine: &Engine, n: usize) -> anyhow::Result<Vec<Duration>> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..n)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let session = engine.session().await?;
                first_cell(&session).await?;
                anyhow::Ok((started.elapsed(), session))
            })
        })
        .collect();
    let mut times = Vec::new();
    let mut sessions = Vec::new();
    for task in tasks {
        let (elapsed, session) = task.await.context("a session's task panicked")??;
        times.push(elapsed);
        sessions.push(session);
    }
    close(sessions).await?;
    Ok(times)
}

/// Sessions that start, run a small cell and end, as many as the machine can do in a time. Returns their
/// number, and how many that is per second.
pub(crate) async fn creates(engine: &Engine, time: Duration) -> anyhow::Result<(u32, f64)> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..CREATORS)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut n = 0;
                while started.elapsed() < time {
                    let session = engine.session().await?;
                    let outcome = session.run("x = 1").await?;
                    ensure!(outcome.is_success(), "a cell failed: {outcome:?}");
                    session.close().await?;
                    n += 1;
                }
                anyhow::Ok(n)
            })
        })
        .collect();
    let mut n = 0;
    for task in tasks {
        n += task.await.context("a session's task panicked")??;
    }
    Ok((n, f64::from(n) / started.elapsed().as_secs_f64()))
}

/// Private kilobytes of a session after its first cell: the median.
pub(crate) async fn idle_memory(engine: &Engine, n: usize) -> anyhow::Result<u64> {
    let mut sessions = Vec::new();
    for _ in 0..n {
        let session = engine.session().await?;
        first_cell(&session).await?;
        sessions.push(session);
    }
    let mut kilobytes: Vec<u64> = sessions
        .iter()
        .filter_map(Session::private_bytes)
        .map(|bytes| bytes >> 10)
        .collect();
    ensure!(kilobytes.len() == n, "some idle sessions died");
    kilobytes.sort_unstable();
    close(sessions).await?;
    Ok(kilobytes[n / 2])
}

async fn close(sessions: Vec<Session>) -> anyhow::Result<()> {
    for session in sessions {
        session.close().await?;
    }
    Ok(())
}
