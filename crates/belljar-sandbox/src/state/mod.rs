//! The state of a session beyond its running interpreter: checkpoints, forks, snapshots,
//! hibernation.

pub(crate) mod checkpoint;
pub(crate) mod checkpoint_set;
pub(crate) mod checkpoints;
pub(crate) mod forks;
mod freeing;
mod kept_snapshot;
pub(crate) mod lifecycle;
mod losses;
mod requests;
pub(crate) mod restore;
pub(crate) mod snapshot;
