//! The state of a session, as its caller uses it: checkpoints, forks, snapshots, hibernation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::{Checkpoint, CheckpointRef};
use super::checkpoints::{absorb_checkpoints, keep};
use super::forks::make_forks;
use super::lifecycle::{DetachedSession, Settled};
use super::restore::restore;
use super::snapshot::{SnapshotReport, panicked, write};
use crate::backend::process::private_bytes_of;
use crate::error::Error;
use crate::options::SessionOptions;
use crate::session::Session;
use crate::session::handle::{AwakeSession, CallRequest, Wires};
use crate::variables::SecretGrant;

/// The most named checkpoints of a session. Each is a process.
const MOST_NAMED: usize = 16;

/// Checkpoints.
impl Session {
    /// Makes a checkpoint of the current state under a name, whatever the session's policy. It is
    /// kept until the name is reused or [forgotten](Self::forget). Waits for a running cell. A
    /// session whose process dies continues from its newest checkpoint, which may be this one.
    ///
    /// # Errors
    /// [`Error::TooManyCheckpoints`] for more than 16 names; [`Error::NotCheckpointed`] if the
    /// checkpoint can't be made; [`Error::Unsupported`] without walls. The session continues after
    /// each.
    pub async fn checkpoint(&self, name: &str) -> Result<(), Error> {
        let (handle, mut guest) = self.wires_with_checkpoints().await?;
        let mut named = 0;
        for checkpoint in guest.checkpoint_set.list() {
            named += usize::from(
                checkpoint
                    .name
                    .as_deref()
                    .is_some_and(|other| other != name),
            );
        }
        if named >= MOST_NAMED {
            return Err(Error::TooManyCheckpoints { limit: MOST_NAMED });
        }
        keep(&handle, &mut guest, Some(name.to_owned()))
            .await
            .map(drop)
    }

    /// Removes the checkpoint with this name.
    pub async fn forget(&self, name: &str) -> Result<(), Error> {
        let (_, mut guest) = self.wires_with_checkpoints().await?;
        if guest
            .checkpoint_set
            .give_up(|checkpoint| checkpoint.name.as_deref() == Some(name))
        {
            Ok(())
        } else {
            Err(Error::NoCheckpoint(name.into()))
        }
    }

    /// The checkpoints, the newest last. The memory of each is looked up, which takes the kernel
    /// some 20 ms per gigabyte.
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, Error> {
        let (_, mut guest) = self.wires_with_checkpoints().await?;
        let frozen: Vec<_> = guest
            .checkpoint_set
            .list()
            .map(|checkpoint| {
                (
                    checkpoint.cell,
                    checkpoint.name.clone(),
                    checkpoint.process.id(),
                )
            })
            .collect();
        let list = tokio::task::spawn_blocking(move || {
            let list = frozen.into_iter().map(|(cell, name, process)| Checkpoint {
                cell,
                name,
                memory_bytes: process.and_then(private_bytes_of),
            });
            list.collect()
        });
        list.await
            .map_err(|error| Error::io("looking up memory")(error.into()))
    }

    /// Removes the checkpoints without a name, except the newest of all, if the session is idle:
    /// for a host that is short of memory ([`HostMemory`](crate::HostMemory)). Returns whether
    /// there were any.
    pub fn give_up_older_checkpoints(&self) -> bool {
        if let Ok(Some(AwakeSession { guest, .. })) = self.lifecycle().now()
            && let Ok(mut guest) = guest.try_lock()
        {
            return guest.checkpoint_set.give_up_older();
        }
        false
    }

    /// Restores a checkpoint, by its cell or its name: variables, modules, the current directory.
    /// Later checkpoints without a name are removed; files of the workspace stay as they are. The
    /// checkpoint itself is kept. Waits for a running cell.
    pub async fn restore(&self, checkpoint: impl Into<CheckpointRef>) -> Result<(), Error> {
        let checkpoint = checkpoint.into();
        let (handle, mut guest) = self.wires_with_checkpoints().await?;
        let Some(id) = guest.checkpoint_set.find(&checkpoint) else {
            return Err(Error::NoCheckpoint(checkpoint));
        };
        let restored = restore(&handle, &mut guest, Some(id)).await;
        if restored.is_none() || !guest.wait_for_checkpoint(&handle.meter).await {
            return Err(handle.fail(Error::Ended("it could not be restored".into())));
        }
        Ok(())
    }

    /// The wires, after all checkpoints that the guest has reported are received.
    async fn wires_with_checkpoints(&self) -> Result<Wires, Error> {
        let (handle, mut guest) = self.wires().await?;
        absorb_checkpoints(&handle, &mut guest).await?;
        Ok((handle, guest))
    }
}

/// Forks.
impl Session {
    /// Makes new sessions that start as copies of this one: all variables, a copy of the workspace,
    /// the same limits, each of its own. Afterwards the sessions are independent. The random
    /// generators of Python and numpy are reseeded.
    ///
    /// Waits for a running cell, unless its main thread waits in a call: then each fork waits in
    /// that call too, and continues when it is [resumed](Session::resume). If other calls are open
    /// too, it can't be forked. Forks may call the same tools, until one is
    /// [revoked](Session::revoke).
    ///
    /// Forks live in the namespaces of this session; docs/checkpoints.md describes what they share.
    pub async fn fork(&self, count: u32) -> Result<Vec<Self>, Error> {
        self.fork_with(count, SecretGrant::None).await
    }

    /// Makes forks that get some of the session's secrets. Without a grant they get none; what code has copied
    /// elsewhere in its memory, they have nevertheless.
    ///
    /// # Errors
    /// [`Error::Variable`] if the session has no such secret.
    pub async fn fork_with(&self, count: u32, grant: SecretGrant) -> Result<Vec<Self>, Error> {
        let in_call = grant.clone();
        if self.is_in_call()
            && let Some(forks) = self
                .call_request(|done| CallRequest::Fork {
                    count,
                    grant: in_call,
                    done,
                })
                .await
        {
            return forks.map(|forks| self.forked(forks, &grant));
        }
        let (handle, mut guest) = self.wires().await?;
        let forks = make_forks(&handle, &mut guest, count, &grant).await?;
        Ok(self.forked(forks, &grant))
    }

    /// Each fork as a session of its own.
    fn forked(&self, forks: Vec<AwakeSession>, grant: &SecretGrant) -> Vec<Self> {
        let options = SessionOptions {
            secrets: self.lifecycle().options.secrets.granted(grant),
            ..self.lifecycle().options.clone()
        };
        let forks = forks.into_iter();
        forks.map(|fork| Self::from_fork(fork, &options)).collect()
    }

    /// The current directory of the session's code: `/workspace`, or a fork's own.
    pub fn directory(&self) -> PathBuf {
        let workspace = || PathBuf::from("/workspace");
        self.now()
            .map_or_else(workspace, |awake| awake.handle.directory())
    }
}

/// Snapshots and hibernation.
impl Session {
    /// Writes a snapshot: the variables, one by one, the sources of the cells, and the workspace's
    /// files. What can't be saved is left out and reported; the session continues unchanged. Waits
    /// for a running cell. That of a hibernated session is copied, and the session stays hibernated.
    ///
    /// Pickling a value may run code of its class. A session that does not answer within the time
    /// limit of a cell is ended.
    pub async fn snapshot(&self, to: &Path) -> Result<SnapshotReport, Error> {
        let (lifecycle, to) = (Arc::clone(self.lifecycle()), to.to_owned());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let snapshot = tokio::spawn(async move {
            if let Some(report) = lifecycle.copy_snapshot(&to).await? {
                return Ok(report);
            }
            let (handle, mut guest) = lifecycle.wires().await?;
            handle.check()?;
            let disk = lifecycle.options.disk.clone();
            let written = write(&handle, &mut guest, to, disk, None).await;
            // From here on the file is the caller's.
            written.map(|(report, _)| report)
        });
        snapshot.await.map_err(panicked)?
    }

    /// Hibernates the session: its variables and files are written to a snapshot in the engine's
    /// directory, which only its owner may read, and all of its processes end. The next cell or any
    /// other request wakes it: a new interpreter with the same options loads the snapshot, and the
    /// next outcome reports what was lost ([`notes`]). Cell numbers continue. Only its files are
    /// out of reach until it is [woken](Self::wake).
    ///
    /// Waits for a running cell. A session that is hibernated already stays so.
    ///
    /// # Errors
    /// [`Error::NotHibernated`] for a fork, and for a session with live forks; [`Error::Io`] if the
    /// snapshot can't be written. The session continues after both.
    ///
    /// [`notes`]: belljar_protocol::Outcome::notes
    pub async fn hibernate(&self) -> Result<SnapshotReport, Error> {
        let lifecycle = Arc::clone(self.lifecycle());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let hibernating = tokio::spawn(async move { lifecycle.hibernate(None).await });
        hibernating
            .await
            .map_err(|error| Error::io("hibernating the session")(error.into()))?
    }

    /// Wakes the session, if it is hibernated.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if its snapshot can't be loaded; it stays hibernated then.
    /// [`Error::Ended`] if its engine was shut down meanwhile.
    pub async fn wake(&self) -> Result<(), Error> {
        self.lifecycle().wake().await.map(drop)
    }

    /// Accepts no more requests, and waits for the running cell. At the deadline the cell is
    /// interrupted; one that ignores this is killed after the grace period of the session's limits, and the newest
    /// checkpoint becomes the session. The next step is [`detach`](Self::detach).
    ///
    /// # Errors
    /// [`Error::Ended`] if there was no checkpoint; [`Error::Unresponsive`].
    pub async fn settle(&self, deadline: Instant) -> Result<Settled, Error> {
        self.lifecycle().settle(deadline).await
    }

    /// Hibernates the session, also a fork, and leaves its snapshot in
    /// [`hibernate_in`](crate::SessionOptions::hibernate_in) for another engine to
    /// [attach](crate::Engine::attach). Every further request fails with [`Error::Detached`].
    /// Waits for a running cell. `within` limits the time for saving names; the rest of them is lost and reported.
    ///
    /// # Errors
    /// [`Error::Io`] if the snapshot can't be written.
    pub async fn detach(&self, within: Duration) -> Result<DetachedSession, Error> {
        let lifecycle = Arc::clone(self.lifecycle());
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let detaching = tokio::spawn(async move { lifecycle.detach(within).await });
        detaching
            .await
            .map_err(|error| Error::io("detaching the session")(error.into()))?
    }

    /// Whether it is hibernated.
    pub fn is_hibernated(&self) -> bool {
        matches!(self.lifecycle().now(), Ok(None))
    }
}
