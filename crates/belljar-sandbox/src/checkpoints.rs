//! Checkpoints as a caller sees them: made by name, listed, gone back to.

use std::fmt;

use crate::copies::restore;
use crate::error::Error;
use crate::guest::Guest;
use crate::life::{Live, Wires};
use crate::measure::private_bytes_of;
use crate::session::Session;
use crate::shared::Shared;

/// The most named copies of a session. Each is a process of it.
const MOST_NAMED: usize = 16;

/// A frozen copy of a session that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The cell after which it was made; 0 before the first one.
    pub cell: u32,
    /// Its name, if it was made by [`Session::checkpoint`].
    pub name: Option<String>,
    /// Memory that it holds alone, and that would be free if it were given up (the kernel's
    /// private pages). What it shares with the session or with another copy is not in it. `None`
    /// where the kernel does not tell.
    pub memory_bytes: Option<u64>,
}

/// Which copy is meant: that of a cell, or that of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointRef {
    /// The newest one that was made after this cell.
    Cell(u32),
    /// The one that was made under this name.
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
    /// Keeps a copy of the state as it is now under a name, until the name is used again or
    /// [forgotten](Self::forget), whatever the session's policy. Waits for a cell that runs. A
    /// session whose process dies goes on from its newest copy, which this one may be.
    ///
    /// # Errors
    /// [`Error::TooManyCheckpoints`] for more than 16 names; [`Error::NotCopied`] where no copy can
    /// be made, as without walls. The session goes on after both.
    pub async fn checkpoint(&self, name: &str) -> Result<(), Error> {
        let (shared, mut guest) = self.wires_with_copies().await?;
        let mut named = 0;
        for copy in guest.copies.list() {
            named += usize::from(copy.name.as_deref().is_some_and(|other| other != name));
        }
        if named >= MOST_NAMED {
            return Err(Error::TooManyCheckpoints { limit: MOST_NAMED });
        }
        keep(&shared, &mut guest, Some(name.to_owned()))
            .await
            .map(drop)
    }

    /// Gives up the copy of a name.
    pub async fn forget(&self, name: &str) -> Result<(), Error> {
        let (_, mut guest) = self.wires_with_copies().await?;
        if guest
            .copies
            .give_up(|copy| copy.name.as_deref() == Some(name))
        {
            Ok(())
        } else {
            Err(Error::NoCheckpoint(name.into()))
        }
    }

    /// The copies that are kept, the newest last. What each holds in memory is looked up, which
    /// takes the kernel some 20 ms for a gigabyte.
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, Error> {
        let (_, mut guest) = self.wires_with_copies().await?;
        let copies: Vec<_> = guest
            .copies
            .list()
            .map(|copy| (copy.cell, copy.name.clone(), copy.process.id()))
            .collect();
        let list = tokio::task::spawn_blocking(move || {
            let list = copies.into_iter().map(|(cell, name, process)| Checkpoint {
                cell,
                name,
                memory_bytes: process.and_then(private_bytes_of),
            });
            list.collect()
        });
        list.await
            .map_err(|error| Error::io("looking up memory")(error.into()))
    }

    /// Gives up the copies that have no name, but the newest of all, if the session is at rest: for a host
    /// that is short of memory ([`HostMemory`](crate::HostMemory)). Whether there were any.
    pub fn give_up_older_checkpoints(&self) -> bool {
        if let Ok(Some(Live { guest, .. })) = self.life().now()
            && let Ok(mut guest) = guest.try_lock()
        {
            return guest.copies.give_up_older();
        }
        false
    }

    /// Goes back to a copy, by its cell or its name: variables, modules, the directory it worked
    /// in. What came after it is given up, but for named copies; files of the workspace stay as
    /// they are. The copy is kept. Waits for a cell that runs.
    pub async fn restore(&self, checkpoint: impl Into<CheckpointRef>) -> Result<(), Error> {
        let checkpoint = checkpoint.into();
        let (shared, mut guest) = self.wires_with_copies().await?;
        let Some(id) = guest.copies.find(&checkpoint) else {
            return Err(Error::NoCheckpoint(checkpoint));
        };
        let restored = restore(&shared, &mut guest, Some(id)).await;
        if restored.is_none() || !guest.wait_for_copy(shared.cgroup.as_ref()).await {
            return Err(shared.fail(Error::Ended("it could not be restored".into())));
        }
        Ok(())
    }

    /// The wires, after all copies that the guest has told of are taken up.
    async fn wires_with_copies(&self) -> Result<Wires, Error> {
        let (shared, mut guest) = self.wires().await?;
        hear_of_copies(&shared, &mut guest).await?;
        Ok((shared, guest))
    }
}

/// Makes sure of a copy of the present state, and returns its id.
pub(crate) async fn copy_before(shared: &Shared, guest: &mut Guest) -> Result<u64, Error> {
    hear_of_copies(shared, guest).await?;
    match guest.copies.current() {
        Some(id) => Ok(id),
        None => keep(shared, guest, None).await,
    }
}

async fn keep(shared: &Shared, guest: &mut Guest, name: Option<String>) -> Result<u64, Error> {
    guest.copies.stand_before(&shared.interpreter());
    match guest.keep(name, shared.cgroup.as_ref()).await {
        Err(error) if !matches!(error, Error::NotCopied(_)) => Err(shared.fail(error)),
        result => result,
    }
}

/// Takes up all copies that the guest has told of or is about to tell of.
async fn hear_of_copies(shared: &Shared, guest: &mut Guest) -> Result<(), Error> {
    let cgroup = shared.cgroup.as_ref();
    if let Err(detail) = guest.absorb(cgroup) {
        let why = format!("it broke the protocol: {detail}");
        return Err(shared.fail(Error::Ended(why)));
    }
    // The session was restored just now.
    if guest.copies.is_expecting() && !guest.wait_for_copy(cgroup).await {
        return Err(shared.fail(Error::Unresponsive));
    }
    Ok(())
}
