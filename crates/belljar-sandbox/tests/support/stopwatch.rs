//! Time as far as this machine had it.

use std::time::{Duration, Instant};

/// What a hypervisor gave to others meanwhile does not count: it says nothing of the code under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    begun: Instant,
    stolen: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            begun: Instant::now(),
            stolen: stolen(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let stolen = stolen().saturating_sub(self.stolen);
        self.begun.elapsed().saturating_sub(stolen) / Self::slowness()
    }

    /// How many times slower than hardware this machine is: `BELLJAR_TEST_SLOWNESS`, for one that is emulated.
    pub(crate) fn slowness() -> u32 {
        let set = std::env::var("BELLJAR_TEST_SLOWNESS").ok();
        set.map_or(1, |times| times.parse().unwrap())
    }
}

/// By all CPUs since the start, in steps of 10 ms.
fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().next().unwrap_or_default();
    let ticks = all.split_whitespace().nth(8);
    let ticks: u64 = ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    Duration::from_millis(ticks * 10)
}
