//! Memory of sessions that were just admitted. They will hold it in a moment, but the host does not see it yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::Walls;

/// How long a session takes until it holds its first memory: its container starts, and imports the preload list.
const START_TIME: Duration = Duration::from_secs(30);

/// What a ready session holds that has an interpreter of its own, with pandas: docs/performance.md.
const CONTAINER: u64 = 90 << 20;
const GVISOR: u64 = 150 << 20;

/// The share of it that is gVisor's own kernel, which the session's limit does not count.
const GVISOR_KERNEL: u64 = 64 << 20;

/// What a session of this isolation and memory limit holds once it is ready. None where it shares a template's memory.
pub(crate) fn first_memory(isolation: Walls, limit: u64) -> Option<u64> {
    match isolation {
        Walls::Container => Some(CONTAINER.min(limit)),
        Walls::Gvisor => Some(GVISOR.min(limit.saturating_add(GVISOR_KERNEL))),
        _ => None,
    }
}

/// The memory of sessions that were admitted within [`START_TIME`].
#[derive(Debug, Default)]
pub(crate) struct StartingMemory {
    /// When, and how much.
    sessions: VecDeque<(Instant, u64)>,
    bytes: u64,
}

impl StartingMemory {
    /// What may not be seen yet in the memory that the host has available.
    pub(crate) fn bytes(&mut self, now: Instant) -> u64 {
        while let Some((admitted, bytes)) = self.sessions.front()
            && now.duration_since(*admitted) >= START_TIME
        {
            self.bytes -= bytes;
            self.sessions.pop_front();
        }
        self.bytes
    }

    pub(crate) fn add(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        self.sessions.push_back((now, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_set_aside_while_a_session_starts() {
        let mut starting = StartingMemory::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        starting.add(begin, 10);
        starting.add(after(20), 5);
        assert_eq!(starting.bytes(after(29)), 15);
        assert_eq!(starting.bytes(after(30)), 5);
        assert_eq!(starting.bytes(after(50)), 0);
    }

    #[test]
    fn a_session_holds_no_more_than_it_may() {
        assert_eq!(first_memory(Walls::Full, 1 << 30), None);
        assert_eq!(first_memory(Walls::Container, 64 << 20), Some(64 << 20));
        assert_eq!(first_memory(Walls::Gvisor, 64 << 20), Some(128 << 20));
        assert_eq!(first_memory(Walls::Gvisor, u64::MAX), Some(150 << 20));
    }
}
