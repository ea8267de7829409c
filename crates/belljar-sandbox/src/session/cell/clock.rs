//! The time of a cell.

use std::time::{Duration, Instant};

/// A cell's time. While it has calls open, CPU time counts instead of wall time: a cell may wait
/// for hours until somebody has decided, but not compute for hours meanwhile.
pub(super) struct Clock {
    deadline: Instant,
    /// Since when calls are open, and the CPU time used by then.
    waits: Option<(Instant, Duration)>,
}

impl Clock {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            waits: None,
        }
    }

    /// Notes whether calls are open; `used` returns the CPU time used so far.
    pub(super) fn set_waits(&mut self, waits: bool, used: impl FnOnce() -> Duration) {
        match (waits, self.waits) {
            (true, None) => self.waits = Some((Instant::now(), used())),
            (false, Some(_)) => {
                self.deadline = self.deadline(used);
                self.waits = None;
            }
            _ => {}
        }
    }

    /// When the time is over, if from now on all of it counts.
    pub(super) fn deadline(&self, used: impl FnOnce() -> Duration) -> Instant {
        match self.waits {
            None => self.deadline,
            Some((since, before)) => {
                let elapsed = since.elapsed();
                let computed = used().saturating_sub(before);
                self.deadline + elapsed.saturating_sub(computed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_costs_cpu_time_alone() {
        let start = Instant::now();
        let mut clock = Clock::new(start);
        clock.set_waits(true, || Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(20));
        let idle = clock.deadline(|| Duration::from_secs(5));
        assert!(idle >= start + Duration::from_millis(20));
        // No more than the wall time is counted, however many CPUs computed.
        assert_eq!(clock.deadline(|| Duration::from_secs(9)), start);
        clock.set_waits(false, || Duration::from_secs(5));
        let after = clock.deadline(|| Duration::from_secs(7));
        assert!(after >= idle);
    }
}
