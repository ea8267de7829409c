//! What a session uses, and its processes, as the backend counts and reaches them.

use std::time::Duration;

use belljar_walls::{Busy, Process, SessionCgroup, SessionUse};

/// The meter of one session.
#[derive(Debug)]
pub(crate) enum Meter {
    /// The cgroup that holds all of its processes.
    Cgroup(SessionCgroup),
    /// Nothing is counted, and only the interpreter is known: a session without walls.
    None,
}

impl Meter {
    /// Its cgroup, if it has one.
    pub(crate) fn cgroup(&self) -> Option<&SessionCgroup> {
        match self {
            Self::Cgroup(cgroup) => Some(cgroup),
            Self::None => None,
        }
    }

    /// Measures the peak of memory from now on.
    pub(crate) fn reset_peak(&self) {
        self.cgroup().inspect(|cgroup| cgroup.reset_peak());
    }

    /// The peak of memory, if it is measured.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        self.cgroup()?.peak_bytes()
    }

    /// CPU time used so far; zero if it is not counted.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.cgroup()
            .map_or(Duration::ZERO, SessionCgroup::cpu_time)
    }

    /// How many processes were killed because memory ran out.
    pub(crate) fn memory_kills(&self) -> u64 {
        self.cgroup().map_or(0, SessionCgroup::memory_kills)
    }

    /// Current use.
    pub(crate) fn in_use(&self) -> Option<SessionUse> {
        self.cgroup().map(SessionCgroup::in_use)
    }

    /// Whether more than half of the memory is used.
    pub(crate) fn is_half_full(&self) -> bool {
        self.cgroup().is_some_and(SessionCgroup::is_half_full)
    }

    /// Gives the session a busy session's share of the CPUs until the guard is dropped.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        self.cgroup()?.busy()
    }

    /// The process with this id in the session's pid namespace, and its id on the host.
    pub(crate) fn member(&self, pid: i32) -> Option<(i32, Process)> {
        self.cgroup()?.member(pid)
    }

    /// Kills all processes but these; returns whether none is left. No process can be added until
    /// [`Self::allow_forks`].
    pub(crate) fn kill_all_but(&self, kept: &[i32]) -> bool {
        self.cgroup()
            .is_some_and(|cgroup| cgroup.kill_all_but(kept))
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
