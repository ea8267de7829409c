//! Measurements that only the engine can take, for `belljar bench` and for operators.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::template::Template;
use crate::capabilities::Capability;
use crate::engine::Engine;
use crate::error::Error;
use crate::session::Session;

/// Forks of a template whose memory is as the imports left it: what a session start is compared with.
#[derive(Debug)]
pub struct BareForks(Arc<Template>);

impl BareForks {
    /// Forks the template into new namespaces with the mounts of a session and nothing else, and
    /// returns how long that took.
    pub async fn fork(&self) -> Result<Duration, Error> {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| Error::io("a pipe")(error.into()))?;
        let started = Instant::now();
        self.0
            .fork_bare(0, &write)
            .await
            .map_err(Error::io("asking the template"))?;
        drop(write);
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = Vec::new();
            let mut first = [0];
            let mut pipe = std::fs::File::from(read);
            let read = pipe.read(&mut first)?;
            let elapsed = started.elapsed();
            answer.extend_from_slice(&first[..read]);
            pipe.read_to_end(&mut answer)?;
            Ok((elapsed, answer))
        });
        match answer.await.map_err(Error::session)? {
            Ok((elapsed, answer)) if answer.starts_with(b"1") => Ok(elapsed),
            Ok((_, answer)) => Err(Error::session(String::from_utf8_lossy(&answer))),
            Err(source) => Err(Error::Io {
                what: "the bare fork's pipe",
                source,
            }),
        }
    }
}

impl Drop for BareForks {
    fn drop(&mut self) {
        self.0.retire();
    }
}

impl Engine {
    /// Starts a template for bare forks.
    pub async fn bare_forks(&self) -> Result<BareForks, Error> {
        let backend = self.running().await?;
        let warm = backend.warm(Capability::Forks)?;
        Ok(BareForks(warm.plain_template().await?))
    }

    /// Waits until the template of sessions without a tenant has made its memory cheap to share. It does
    /// so when it is idle for the first time; sessions that start earlier cost more.
    pub async fn wait_until_shared(&self) -> Result<(), Error> {
        let backend = self.running().await?;
        let warm = backend.warm(Capability::Forks)?;
        // Without a shared template there is nothing to wait for.
        if !warm.is_fresh() {
            warm.template(&None).await?.wait_until_shared().await;
        }
        Ok(())
    }
}

impl Engine {
    /// A session that is not under seccomp and Landlock, to measure what those two cost. Its
    /// outcomes say so. Never for code that anyone else wrote.
    pub async fn unfiltered_session(&self) -> Result<Session, Error> {
        self.start_session(self.options(), false).await
    }
}
