//! Memory of the host, or of the cgroup that the host gives to this process.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use belljar_walls::MemoryRoom;

/// How long a reading is valid: many sessions ask.
const HOLDS: Duration = Duration::from_millis(200);

/// Memory of the host, in bytes: that of a cgroup around this process, where it has less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// Total memory.
    pub total: u64,
    /// Available memory.
    pub available: u64,
}

impl HostMemory {
    /// A reading; `None` if the kernel doesn't report it.
    pub fn now() -> Option<Self> {
        let host = Self::parse(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
        Some(match MemoryRoom::now() {
            None => host,
            Some(MemoryRoom { limit, available }) => Self {
                total: host.total.min(limit),
                available: host.available.min(available),
            },
        })
    }

    /// Whether less than a quarter is left: then sessions drop what they keep only for convenience.
    pub fn is_short(self) -> bool {
        self.available < self.total / 4
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kilobytes * 1024)
        };
        Some(Self {
            total: field("MemTotal:")?,
            available: field("MemAvailable:")?,
        })
    }
}

/// Whether the host is short of memory, as it was a moment ago.
pub(crate) fn is_short() -> bool {
    static LAST: Mutex<Option<(Instant, bool)>> = Mutex::new(None);
    let mut last = crate::lock::lock(&LAST);
    match *last {
        Some((at, short)) if at.elapsed() < HOLDS => short,
        _ => {
            let short = HostMemory::now().is_some_and(HostMemory::is_short);
            *last = Some((Instant::now(), short));
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_tells() {
        let text = "MemTotal:       24 kB\nMemFree: 1 kB\nMemAvailable:   12 kB\n";
        let memory = HostMemory::parse(text).unwrap();
        assert_eq!((memory.total, memory.available), (24 << 10, 12 << 10));
        assert!(!memory.is_short());
        let available = 5 << 10;
        assert!(
            HostMemory {
                available,
                ..memory
            }
            .is_short()
        );
        assert!(HostMemory::now().is_some());
    }
}
