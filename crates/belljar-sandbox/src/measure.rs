//! Measurements that only the engine can take, for `belljar bench` and for operators.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::capabilities::Capability;
use crate::engine::Engine;
use crate::error::Error;
use crate::session::Session;

impl Engine {
    /// Forks the template into new namespaces with the mounts of a session and nothing else, and
    /// returns how long that took: the least that any session start of this design must cost.
    pub async fn bare_fork(&self) -> Result<Duration, Error> {
        let backend = self.running().await?;
        let warm = backend.warm(Capability::Forks)?;
        let template = warm.template(&None).await?;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| Error::io("a pipe")(error.into()))?;
        let started = Instant::now();
        template
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

impl Engine {
    /// A session that is not under seccomp and Landlock, to measure what those two cost. Its
    /// outcomes say so. Never for code that anyone else wrote.
    pub async fn unfiltered_session(&self) -> Result<Session, Error> {
        self.start_session(self.options(), false).await
    }
}
