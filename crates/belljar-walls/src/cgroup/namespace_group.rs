//! The cgroup above those of a session and its forks (a namespace group).
//!
//! If a process is moved into a cgroup, the kernel does not check its limit on processes. So there
//! is one above, which moves below it can't exceed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CgroupError, FAST, Version, hierarchies, refused};

/// A session and its forks: together they can have as many processes as their limits add up to.
#[derive(Debug)]
pub(super) struct NamespaceGroupCgroup {
    version: Version,
    directory: PathBuf,
    /// The limit of each of them.
    processes: u64,
    /// Whether CPUs are divided here, too.
    has_share: bool,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    live: u64,
    busy: u64,
}

impl NamespaceGroupCgroup {
    /// Makes it in the hierarchy that limits processes.
    pub(super) fn create(
        version: Version,
        parent: &Path,
        name: &str,
        processes: u64,
        has_share: bool,
    ) -> Result<Self, CgroupError> {
        let directory = parent.join(format!("namespaces-{name}"));
        fs::create_dir(&directory).map_err(|source| refused(&directory, source))?;
        if version == Version::Two
            && let Err(error) = hierarchies::delegate(&directory)
        {
            let _ = fs::remove_dir(&directory);
            return Err(error);
        }
        let namespace_group = Self {
            version,
            directory,
            processes,
            has_share,
            members: Mutex::default(),
        };
        namespace_group.change_busy(|busy| busy);
        Ok(namespace_group)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// One more has its limit.
    pub(super) fn enter(&self) -> Result<(), CgroupError> {
        let mut members = self.members();
        members.live += 1;
        let path = self.directory.join("pids.max");
        fs::write(&path, (members.live * self.processes).to_string())
            .map_err(|source| refused(&path, source))
    }

    /// One has ended. Returns the directory after the last.
    pub(super) fn leave(&self) -> Option<PathBuf> {
        let mut members = self.members();
        members.live = members.live.saturating_sub(1);
        if members.live == 0 {
            return Some(self.directory.clone());
        }
        let most = members.live * self.processes;
        let _ = fs::write(self.directory.join("pids.max"), most.to_string());
        None
    }

    /// Its CPU share is that of its busy members, or that of members which start.
    pub(super) fn change_busy(&self, change: impl FnOnce(u64) -> u64) {
        let mut members = self.members();
        members.busy = change(members.busy);
        if self.has_share {
            let times = if members.busy == 0 {
                FAST
            } else {
                members.busy
            };
            self.version
                .set_share(&self.directory, |usual| times * usual);
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
