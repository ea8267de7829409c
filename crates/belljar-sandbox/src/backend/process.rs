//! What the host learns about a process of a session.

use belljar_walls::{MOST_FORKS, Process, ProcessLimits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits::Limits;

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
