//! Disk space that several sessions may use together.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// An allowance of disk space, shared by the sessions of a tenant: for hibernated sessions, and for
/// other files of their owner.
#[derive(Debug, Default)]
pub struct DiskAllowance(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By those that hold a [`DiskSpace`].
    taken: u64,
    /// What others count.
    elsewhere: u64,
    limit: Option<u64>,
}

impl DiskAllowance {
    /// Sets the limit, and how much of it is used elsewhere.
    pub fn set(&self, limit: Option<u64>, elsewhere: u64) {
        let mut state = lock(&self.0);
        (state.limit, state.elsewhere) = (limit, elsewhere);
    }

    /// Bytes that are taken now, without what is used elsewhere.
    pub fn taken(&self) -> u64 {
        lock(&self.0).taken
    }

    /// Takes space until it is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::QuotaExceeded`] with a [`DiskFull`] where there is less.
    pub fn take(self: &Arc<Self>, bytes: u64) -> io::Result<DiskSpace> {
        let mut space = DiskSpace {
            of: Arc::clone(self),
            bytes: 0,
        };
        space.grow(bytes)?;
        Ok(space)
    }

    /// Counts bytes that are on disk already, also beyond the limit.
    pub(crate) fn count(self: &Arc<Self>, bytes: u64) -> DiskSpace {
        lock(&self.0).taken += bytes;
        DiskSpace {
            of: Arc::clone(self),
            bytes,
        }
    }
}

/// Space of a [`DiskAllowance`], given back when this is dropped.
#[derive(Debug)]
pub struct DiskSpace {
    of: Arc<DiskAllowance>,
    bytes: u64,
}

impl DiskSpace {
    /// Takes more.
    ///
    /// # Errors
    /// As [`DiskAllowance::take`].
    pub fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let mut state = lock(&self.of.0);
        let used = state.elsewhere.saturating_add(state.taken);
        if let Some(limit) = state.limit
            && used.saturating_add(bytes) > limit
        {
            let full = DiskFull { used, limit };
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, full));
        }
        state.taken += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Has the space of another one, too.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for DiskSpace {
    fn drop(&mut self) {
        lock(&self.of.0).taken -= self.bytes;
    }
}

/// A [`DiskAllowance`] has too little left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFull {
    /// Bytes in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

impl DiskFull {
    /// Whether this is why something was refused.
    pub fn find(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for DiskFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { used, limit } = self;
        write!(f, "{used} of {limit} bytes of disk space are in use")
    }
}

impl std::error::Error for DiskFull {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_taken_within_the_limit_and_given_back() {
        let disk = Arc::new(DiskAllowance::default());
        let mut space = disk.take(1 << 40).unwrap();
        disk.set(Some(100), 30);
        let full = DiskFull::find(&space.grow(1).unwrap_err()).unwrap();
        assert_eq!((full.used, full.limit), ((1 << 40) + 30, 100));
        drop(space);
        let mut space = disk.take(60).unwrap();
        space.grow(10).unwrap();
        assert_eq!(disk.taken(), 70);
        assert!(disk.take(1).is_err());
        drop(space);
        assert!(disk.take(70).is_ok());
        let there = disk.count(200);
        assert_eq!(disk.taken(), 200);
        assert!(disk.take(1).is_err());
        drop(there);
        assert_eq!(disk.taken(), 0);
    }
}
