//! How many checkpoints all sessions together may make without a request.
//!
//! A checkpoint costs the host several times as much as a small cell: page tables, and pages that
//! are copied once either side writes. A few sessions don't notice that. A thousand would spend all
//! CPUs on it.

use std::sync::Mutex;
use std::time::Instant;

use crate::lock::lock;

/// Checkpoints per second and CPU: about a fifth of its time.
const PER_CPU: f64 = 10.0;

/// Seconds for which unused allowance is kept.
const KEPT: f64 = 4.0;

/// Cells after which the checkpoint of a session is as good as none. If checkpoints are scarce,
/// sessions with a newer one leave the allowance to others.
const STALE: f64 = 5.0;

/// What is left, and when that was computed.
#[derive(Debug)]
struct Allowance {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new(cpus: usize, now: Instant) -> Self {
        let per_second = PER_CPU * f64::from(u16::try_from(cpus).unwrap_or(u16::MAX));
        Self {
            per_second,
            left: per_second * KEPT,
            at: now,
        }
    }

    /// For a session that has run so many cells since its last checkpoint.
    fn take(&mut self, cells: f64, now: Instant) -> bool {
        let more = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + more).min(self.per_second * KEPT);
        self.at = now;
        let left_to_others = (1.0 - cells / STALE).max(0.0) * self.per_second * KEPT / 2.0;
        let some = self.left >= 1.0 + left_to_others;
        self.left -= f64::from(u8::from(some));
        some
    }
}

fn of_this_host<T>(look: impl FnOnce(&mut Allowance) -> T) -> T {
    static OF_THIS_HOST: Mutex<Option<Allowance>> = Mutex::new(None);
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    look(lock(&OF_THIS_HOST).get_or_insert_with(|| Allowance::new(cpus(), Instant::now())))
}

/// Takes one checkpoint, if one is left for a session that has run so many cells since its last
/// one.
pub(crate) fn take(cells: u32) -> bool {
    of_this_host(|allowance| allowance.take(f64::from(cells), Instant::now()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_time() {
        let start = Instant::now();
        let mut allowance = Allowance::new(2, start);
        let mut taken =
            |cells, now| std::iter::from_fn(|| allowance.take(cells, now).then_some(())).count();
        // Half of it is left to sessions whose checkpoint is older.
        assert_eq!(taken(0.0, start), 40);
        assert_eq!(taken(1.0, start), 8);
        assert_eq!(taken(9.0, start), 32);
        assert_eq!(taken(9.0, start), 0);
        assert_eq!(taken(0.0, start + Duration::from_secs(1)), 0);
        assert_eq!(taken(5.0, start + Duration::from_secs(1)), 20);
        assert_eq!(taken(5.0, start + Duration::from_hours(1)), 80);
    }
}
