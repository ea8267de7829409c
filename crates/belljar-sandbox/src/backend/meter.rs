//! What a session uses, and its processes, as the backend counts and reaches them.

use std::sync::Arc;
use std::time::Duration;

use belljar_walls::{Busy, SessionCgroup, SessionUse};

use super::container::steward::Steward;
use super::process::SessionProcess;

/// The meter of one session.
#[derive(Debug)]
pub(crate) enum Meter {
    /// The cgroup that holds all of its processes.
    Cgroup(SessionCgroup),
    /// The steward of its container, which counts while a cell runs.
    Told(Arc<Steward>),
    /// Nothing is counted, and only the interpreter is known: a session without walls.
    None,
}

impl Meter {
    /// Its cgroup, if it has one.
    pub(crate) fn cgroup(&self) -> Option<&SessionCgroup> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup),
            Self::Told(_) | Self::None => None,
        }
    }

    /// Measures the peak of memory from now on.
    pub(crate) fn reset_peak(&self) {
        match self {
            Self::Cgroup(cgroup) => cgroup.reset_peak(),
            Self::Told(steward) => steward.begin_to_measure(),
            Self::None => {}
        }
    }

    /// The peak of memory, if it is measured.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        match self {
            Self::Cgroup(cgroup) => cgroup.peak_bytes(),
            Self::Told(steward) => steward.peak_bytes(),
            Self::None => None,
        }
    }

    /// CPU time used so far; zero if it is not counted.
    pub(crate) fn cpu_time(&self) -> Duration {
        match self {
            Self::Cgroup(cgroup) => cgroup.cpu_time(),
            Self::Told(steward) => Duration::from_micros(steward.counts().cpu_us),
            Self::None => Duration::ZERO,
        }
    }

    /// How many processes were killed because memory ran out.
    pub(crate) fn memory_kills(&self) -> u64 {
        match self {
            Self::Cgroup(cgroup) => cgroup.memory_kills(),
            Self::Told(steward) => steward.counts().memory_kills,
            Self::None => 0,
        }
    }

    /// Current use.
    pub(crate) fn in_use(&self) -> Option<SessionUse> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup.in_use()),
            Self::Told(steward) => Some(steward.in_use()),
            Self::None => None,
        }
    }

    /// Whether more than half of the memory is used.
    pub(crate) fn is_half_full(&self) -> bool {
        match self {
            Self::Cgroup(cgroup) => cgroup.is_half_full(),
            Self::Told(steward) => steward.is_half_full(),
            Self::None => false,
        }
    }

    /// Gives the session a busy session's share of the CPUs until the guard is dropped.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        match self {
            Self::Cgroup(cgroup) => cgroup.busy(),
            Self::Told(steward) => steward.busy(),
            Self::None => None,
        }
    }

    /// The process with this id in the session's pid namespace, and what no other process has: its id on the host, or in
    /// its container.
    pub(crate) fn member(&self, pid: i32) -> Option<(i32, SessionProcess)> {
        match self {
            Self::Cgroup(cgroup) => {
                let (outside, process) = cgroup.member(pid)?;
                Some((outside, SessionProcess::Held(process)))
            }
            // All but process 1 are the session's own.
            Self::Told(steward) if pid > 1 => {
                let steward = Arc::clone(steward);
                Some((pid, SessionProcess::Told { steward, pid }))
            }
            Self::Told(_) | Self::None => None,
        }
    }

    /// Kills all processes but these; returns whether none is left. No process can be added until
    /// [`Self::allow_forks`].
    pub(crate) fn kill_all_but(&self, kept: &[i32]) -> bool {
        match self {
            Self::Cgroup(cgroup) => cgroup.kill_all_but(kept),
            Self::Told(steward) => steward.end_all_but(kept),
            Self::None => false,
        }
    }

    /// Permits new processes again.
    pub(crate) fn allow_forks(&self) {
        self.cgroup().inspect(|cgroup| cgroup.allow_forks());
    }
}

impl From<Option<SessionCgroup>> for Meter {
    fn from(cgroup: Option<SessionCgroup>) -> Self {
        cgroup.map_or(Self::None, Self::Cgroup)
    }
}
