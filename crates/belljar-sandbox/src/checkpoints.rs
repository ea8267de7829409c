//! Checkpoints as a caller sees them: made by name, listed, restored.

use std::fmt;

use crate::checkpoint_set::restore;
use crate::error::Error;
use crate::guest::Guest;
use crate::handle::SessionHandle;
use crate::lifecycle::{AwakeSession, Wires};
use crate::measure::private_bytes_of;
use crate::session::Session;

/// The most named checkpoints of a session. Each is a process.
const MOST_NAMED: usize = 16;

/// A checkpoint of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The cell after which it was made; 0 before the first one.
    pub cell: u32,
    /// Its name, if it was made by [`Session::checkpoint`].
    pub name: Option<String>,
    /// Memory that it holds alone, and that would be freed with it (the kernel's private pages),
    /// without memory shared with the session or another checkpoint. `None` if the kernel doesn't
    /// report it.
    pub memory_bytes: Option<u64>,
}

/// A reference to a checkpoint: by cell or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointRef {
    /// The newest one that was made after this cell.
    Cell(u32),
    /// The one with this name.
    Name(String),
}

impl From<u32> for CheckpointRef {
    fn from(cell: u32) -> Self {
        Self::Cell(cell)
    }
}

impl From<&str> for CheckpointRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl fmt::Display for CheckpointRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(cell) => write!(f, "cell {cell}"),
            Self::Name(name) => write!(f, "`{name}`"),
        }
    }
}

impl Session {
    /// Makes a checkpoint of the current state under a name, whatever the session's policy. It is
    /// kept until the name is reused or [forgotten](Self::forget). Waits for a running cell. A
    /// session whose process dies continues from its newest checkpoint, which may be this one.
    ///
    /// # Errors
    /// [`Error::TooManyCheckpoints`] for more than 16 names; [`Error::NotCheckpointed`] if no checkpoint
    /// can be made, as without walls. The session continues after both.
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
        if restored.is_none() || !guest.wait_for_checkpoint(handle.cgroup.as_ref()).await {
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

/// Ensures a checkpoint of the current state, and returns its id.
pub(crate) async fn checkpoint_before(
    handle: &SessionHandle,
    guest: &mut Guest,
) -> Result<u64, Error> {
    absorb_checkpoints(handle, guest).await?;
    match guest.checkpoint_set.current() {
        Some(id) => Ok(id),
        None => keep(handle, guest, None).await,
    }
}

async fn keep(
    handle: &SessionHandle,
    guest: &mut Guest,
    name: Option<String>,
) -> Result<u64, Error> {
    guest.checkpoint_set.stand_before(&handle.interpreter());
    match guest.keep(name, handle.cgroup.as_ref()).await {
        Err(error) if !matches!(error, Error::NotCheckpointed(_)) => Err(handle.fail(error)),
        result => result,
    }
}

/// Receives all checkpoints that the guest has reported or is about to report.
async fn absorb_checkpoints(handle: &SessionHandle, guest: &mut Guest) -> Result<(), Error> {
    let cgroup = handle.cgroup.as_ref();
    if let Err(detail) = guest.absorb(cgroup) {
        let why = format!("it broke the protocol: {detail}");
        return Err(handle.fail(Error::Ended(why)));
    }
    // The session was restored just now.
    if guest.checkpoint_set.is_expecting() && !guest.wait_for_checkpoint(cgroup).await {
        return Err(handle.fail(Error::Unresponsive));
    }
    Ok(())
}
