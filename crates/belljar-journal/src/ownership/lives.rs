//! Who is alive: judged by each node with its own monotonic clock. No two clocks are compared.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often a node beats.
pub fn beat_interval(lease: Duration) -> Duration {
    lease / 20
}

/// The lease of a node's own life.
#[derive(Debug)]
pub struct Lease {
    length: Duration,
    /// When the last beat that succeeded was sent.
    beaten: Instant,
    is_over: bool,
}

impl Lease {
    /// Of this length, from a beat on that was sent at this moment.
    pub fn new(length: Duration, beaten: Instant) -> Self {
        Self {
            length,
            beaten,
            is_over: false,
        }
    }

    /// Notes a beat that succeeded, and was sent at this moment.
    pub fn renew(&mut self, sent: Instant) {
        self.beaten = self.beaten.max(sent);
    }

    /// Ends it for ever: others have declared this life dead.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Whether it was ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether this node may act for its runs. It stops well before others may declare it dead.
    pub fn holds(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.beaten);
        !self.is_over && age < self.length.mul_f64(0.7)
    }
}

/// What a node has seen of the other lives.
#[derive(Debug)]
pub struct Watch {
    lease: Duration,
    seen: HashMap<i64, Seen>,
    answered: Option<Instant>,
    unreached: HashMap<i64, Unreached>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    since: Instant,
}

/// When a life could last not be connected to, and its beat as first seen after that.
#[derive(Clone, Copy, Debug)]
struct Unreached {
    at: Instant,
    beat: Option<i64>,
}

impl Watch {
    /// Of nodes that have this lease.
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            seen: HashMap::new(),
            answered: None,
            unreached: HashMap::new(),
        }
    }

    /// Notes the beats of the lives that are not dead. Returns those that have not beaten for a whole lease, with their
    /// last beats.
    ///
    /// The database was asked and has answered at these moments. If it had not answered for a while, what was seen
    /// before proves nothing: the others could not beat either, or this node was stopped itself.
    pub fn see(
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
            if let Some(unreached) = self.unreached.get_mut(&life)
                && asked >= unreached.at
            {
                // The first beat that is seen may be older than the failure.
                let first = *unreached.beat.get_or_insert(beat);
                if first != beat {
                    self.unreached.remove(&life);
                }
            }
            seen.insert(life, Seen { beat, since });
        }
        self.unreached.retain(|life, _| seen.contains_key(life));
        self.seen = seen;
        silent
    }

    /// Notes that a life could not be connected to at this moment.
    pub fn note_unreached(&mut self, life: i64, now: Instant) {
        let (at, beat) = (now, None);
        self.unreached.insert(life, Unreached { at, beat });
    }

    /// Whether a life can be given work: it has beaten not long ago, and since it could last not be connected to, as far
    /// as this node has seen.
    pub fn is_available(&self, life: i64, now: Instant) -> bool {
        self.is_beating(life, now) && !self.unreached.contains_key(&life)
    }

    /// How many lives have beaten not long ago.
    pub fn beating(&self, now: Instant) -> usize {
        let lives = self.seen.keys();
        lives.filter(|life| self.is_beating(**life, now)).count()
    }

    fn is_beating(&self, life: i64, now: Instant) -> bool {
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
    fn a_life_that_could_not_be_reached_is_avoided_until_it_beats() {
        let begin = Instant::now();
        let mut watch = Watch::new(LEASE);
        let see = |watch: &mut Watch, asked: f64, answered: f64, beat: i64| {
            let (asked, answered) = (second(begin, asked), second(begin, answered));
            watch.see(asked, answered, [(1, beat), (2, 7)]);
            [1, 2].map(|life| watch.is_available(life, answered))
        };
        assert_eq!(see(&mut watch, 0.0, 0.1, 1), [true, true]);
        watch.note_unreached(1, second(begin, 1.1));
        // Asked before the failure.
        assert_eq!(see(&mut watch, 1.0, 1.2, 2), [false, true]);
        // This beat may be from before the failure, too.
        assert_eq!(see(&mut watch, 1.3, 1.4, 3), [false, true]);
        assert_eq!(see(&mut watch, 1.6, 1.7, 3), [false, true]);
        assert_eq!(see(&mut watch, 1.8, 1.9, 4), [true, true]);
        // One that is dead is forgotten.
        let now = second(begin, 2.0);
        watch.note_unreached(1, now);
        watch.see(now, now, [(2, 7)]);
        assert!(watch.unreached.is_empty());
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
