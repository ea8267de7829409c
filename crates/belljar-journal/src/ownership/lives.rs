//! Who is alive: judged by each node with its own monotonic clock. No two clocks are compared.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The lease of this node's own life.
#[derive(Debug)]
pub(super) struct Lease {
    length: Duration,
    /// When the last beat that succeeded was sent.
    beaten: Instant,
    is_over: bool,
}

impl Lease {
    pub(super) fn new(length: Duration, beaten: Instant) -> Self {
        Self {
            length,
            beaten,
            is_over: false,
        }
    }

    pub(super) fn renew(&mut self, sent: Instant) {
        self.beaten = self.beaten.max(sent);
    }

    /// Ends it for ever: others have declared this life dead.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether this node may act for its runs. It stops well before others may declare it dead.
    pub(super) fn holds(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.beaten);
        !self.is_over && age < self.length.mul_f64(0.7)
    }
}

/// What a node has seen of the other lives.
#[derive(Debug)]
pub(super) struct Watch {
    lease: Duration,
    seen: HashMap<i64, Seen>,
    answered: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    since: Instant,
}

impl Watch {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            lease,
            seen: HashMap::new(),
            answered: None,
        }
    }

    /// Notes the beats of the lives that are not dead. Returns those that have not beaten for a whole lease, with their
    /// last beats.
    ///
    /// The database was asked and has answered at these moments. If it had not answered for a while, what was seen
    /// before proves nothing: the others could not beat either, or this node was stopped itself.
    pub(super) fn see(
        &mut self,
        asked: Instant,
        answered: Instant,
        beats: impl IntoIterator<Item = (i64, i64)>,
    ) -> Vec<(i64, i64)> {
        let last = self.answered.replace(answered);
        let is_continuous =
            last.is_some_and(|last| answered.saturating_duration_since(last) < self.lease / 2);
        let (mut seen, mut silent) = (HashMap::new(), Vec::new());
        for (life, beat) in beats {
            let since = match self.seen.get(&life) {
                Some(seen) if is_continuous && seen.beat == beat => seen.since,
                _ => answered,
            };
            if asked.saturating_duration_since(since) >= self.lease {
                silent.push((life, beat));
            }
            seen.insert(life, Seen { beat, since });
        }
        self.seen = seen;
        silent
    }

    /// Whether a life has beaten not long ago, as far as this node has seen.
    pub(super) fn is_beating(&self, life: i64, now: Instant) -> bool {
        let since = self.seen.get(&life).map(|seen| seen.since);
        since.is_some_and(|since| now.saturating_duration_since(since) < self.lease / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn second(begin: Instant, second: f64) -> Instant {
        begin + Duration::from_secs_f64(second)
    }

    #[test]
    fn a_node_stops_itself_before_others_may_declare_it_dead() {
        let begin = Instant::now();
        let mut lease = Lease::new(LEASE, begin);
        assert!(lease.holds(second(begin, 6.9)));
        assert!(!lease.holds(second(begin, 7.0)));
        lease.renew(second(begin, 8.0));
        assert!(lease.holds(second(begin, 14.9)));
        // A late answer to an early beat takes nothing away.
        lease.renew(second(begin, 1.0));
        assert!(lease.holds(second(begin, 14.9)));
        lease.end();
        lease.renew(second(begin, 15.0));
        assert!(!lease.holds(second(begin, 15.0)));
        assert!(lease.is_over());
    }

    #[test]
    fn a_life_is_dead_after_a_whole_lease_without_a_beat() {
        let begin = Instant::now();
        let mut watch = Watch::new(LEASE);
        for step in 0..=100 {
            let now = second(begin, f64::from(step) / 10.0);
            // The second one beats every second.
            let silent = watch.see(now, now, [(1, 7), (2, i64::from(step / 10))]);
            let expected: &[_] = if step < 100 { &[] } else { &[(1, 7)] };
            assert_eq!(silent, expected, "after {step} tenths");
        }
    }

    #[test]
    fn a_life_is_beating_for_half_a_lease_after_its_last_beat() {
        let begin = Instant::now();
        let mut watch = Watch::new(LEASE);
        for step in 0..=10 {
            let now = second(begin, f64::from(step));
            watch.see(now, now, [(1, i64::from(step.min(3)))]);
            assert_eq!(watch.is_beating(1, now), step < 8, "{step}");
            assert!(!watch.is_beating(2, now));
        }
    }

    #[test]
    fn what_was_seen_before_the_database_was_away_does_not_count() {
        let begin = Instant::now();
        let mut watch = Watch::new(LEASE);
        let mut see = |at: f64| {
            let now = second(begin, at);
            watch.see(now, now, [(1, 7)])
        };
        for step in 0..95 {
            assert_eq!(see(f64::from(step) / 10.0), []);
        }
        // Away for five seconds and more, or this node was stopped.
        assert_eq!(see(14.5), []);
        for step in 146..245 {
            assert_eq!(see(f64::from(step) / 10.0), [], "{step}");
        }
        assert_eq!(see(24.5), [(1, 7)]);
    }

    #[test]
    fn a_slow_answer_counts_from_its_end_to_the_next_question() {
        let begin = Instant::now();
        let mut watch = Watch::new(LEASE);
        let asked = |step: u32| second(begin, f64::from(step));
        let answered = |step: u32| second(begin, f64::from(step) + 0.9);
        // First seen at 0.9; the question at 10.0 is only 9.1 later.
        for step in 0..=10 {
            assert_eq!(watch.see(asked(step), answered(step), [(1, 7)]), []);
        }
        assert_eq!(watch.see(asked(11), answered(11), [(1, 7)]), [(1, 7)]);
    }
}
