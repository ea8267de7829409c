//! Virtual time: events in their order, and what serves one request after another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Microseconds since the begin of the simulation.
pub(crate) type Time = u64;

pub(crate) const MILLISECOND: Time = 1_000;
pub(crate) const SECOND: Time = 1_000_000;

/// Events that are to happen. Those of the same time happen in the order in which they were added.
pub(crate) struct Timeline<E> {
    heap: BinaryHeap<Reverse<Due<E>>>,
    added: u64,
}

struct Due<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> Timeline<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            added: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Time, event: E) {
        let number = self.added;
        self.added += 1;
        self.heap.push(Reverse(Due { at, number, event }));
    }

    /// The next event, and when it happens.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse(due) = self.heap.pop()?;
        Some((due.at, due.event))
    }
}

/// Some servers with one queue: CPUs of a node, or a database.
pub(crate) struct Servers {
    free_at: Vec<Time>,
    busy: Time,
    /// The share of them that is taken by what is not simulated one by one.
    background: f64,
}

impl Servers {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free_at: vec![0; count],
            busy: 0,
            background: 0.0,
        }
    }

    /// Sets how much of the servers' time something takes that comes so often in a second, and takes so long.
    pub(crate) fn set_background(&mut self, per_second: f64, work: Time) {
        let share = per_second * work as f64 / SECOND as f64 / self.free_at.len() as f64;
        self.background = share.min(0.9);
    }

    /// When work is done that comes now.
    pub(crate) fn submit(&mut self, now: Time, work: Time) -> Time {
        self.busy += work;
        let work = (work as f64 / (1.0 - self.background)) as Time;
        let free_at = self.free_at.iter_mut().min().unwrap();
        *free_at = (*free_at).max(now) + work;
        *free_at
    }

    /// The time of all servers that was needed.
    pub(crate) fn busy(&self) -> Time {
        self.busy
    }

    /// Their use until now, from 0 to 1 and above: what waits counts as well.
    pub(crate) fn use_until(&self, now: Time) -> f64 {
        self.background + self.busy as f64 / (now as f64 * self.free_at.len() as f64)
    }
}
