//! A process of a session, as the host reaches it.

use std::io;
use std::sync::Arc;

use belljar_protocol::StewardSignal;
use belljar_walls::{MOST_FORKS, Process, ProcessLimits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::container::steward::Steward;
use crate::limits::Limits;

/// A process of a session.
#[derive(Debug)]
pub(crate) enum SessionProcess {
    /// One of this host, held by its descriptor.
    Held(Process),
    /// One in a container, reached through its steward.
    Told {
        /// The steward.
        steward: Arc<Steward>,
        /// Its id in the container.
        pid: i32,
    },
}

impl SessionProcess {
    /// Interrupts the cell whose number was sent before. A steward does it with the number.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        match self {
            Self::Held(process) => process.interrupt(),
            Self::Told { .. } => Ok(()),
        }
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        match self {
            Self::Held(process) => process.kill(),
            Self::Told { steward, pid } => {
                steward.signal(*pid, StewardSignal::Kill);
                Ok(())
            }
        }
    }

    /// Kills it and its process group, for one that leads a group.
    pub(crate) fn kill_group(&self) -> io::Result<()> {
        match self {
            Self::Held(process) => process.kill_group(),
            Self::Told { .. } => self.kill(),
        }
    }

    /// Makes a checkpoint the session.
    pub(crate) fn wake(&self) -> io::Result<()> {
        match self {
            Self::Held(process) => process.wake(),
            Self::Told { steward, pid } => {
                steward.signal(*pid, StewardSignal::Wake);
                Ok(())
            }
        }
    }

    /// Its OOM score. In a container the process sets its own.
    pub(crate) fn memory_score(&self) -> Option<i32> {
        match self {
            Self::Held(process) => process.memory_score(),
            Self::Told { .. } => None,
        }
    }

    pub(crate) fn set_memory_score(&self, score: i32) -> io::Result<()> {
        match self {
            Self::Held(process) => process.set_memory_score(score),
            Self::Told { .. } => Ok(()),
        }
    }

    /// Its id on this host, while it lives here.
    pub(crate) fn id(&self) -> Option<i32> {
        match self {
            Self::Held(process) => process.id(),
            Self::Told { .. } => None,
        }
    }

    /// Bytes of memory that it shares with no other, if it is one of this host.
    pub(crate) fn private_bytes(&self) -> Option<u64> {
        private_bytes_of(self.id()?)
    }

    /// Whether it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Held(process) => is_gone(process),
            Self::Told { steward, pid } => steward.has_ended(*pid),
        }
    }
}

/// Limits of each process of a session, one of which starts with so many bytes of the template's data.
pub(crate) fn process_limits(limits: &Limits, data_bytes: u64) -> ProcessLimits {
    ProcessLimits {
        core: 1,
        signals: 1024,
        open_files: limits.open_files,
        file_size: limits.file_bytes,
        // A little less than the session's memory, so that one process which asks for too
        // much gets a MemoryError and lives, instead of being killed by the kernel.
        data: data_bytes + limits.memory_bytes - limits.reserve_bytes(),
        // The kernel counts those of the session's forks too; the cgroup has the exact limit.
        processes: limits.processes * u64::from(1 + MOST_FORKS),
    }
}

/// Whether a process has ended.
pub(crate) fn is_gone(process: &Process) -> bool {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&now)) == Ok(1)
}

/// Bytes of memory that a process shares with no other. It took 20 ms for a gigabyte.
pub(crate) fn private_bytes_of(pid: i32) -> Option<u64> {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kilobytes: u64 = smaps
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    Some(kilobytes << 10)
}
