//! What a simulation counts.

use std::collections::BTreeMap;

use crate::clock::{MILLISECOND, Time};

/// What became of the sessions that were asked for in a part of the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Creates {
    /// From the first request to the answer that had the session.
    latencies: Vec<Time>,
    /// Refused or broken off at first, whatever came of it.
    failed_first: usize,
    /// Given up by the client.
    failed: usize,
}

impl Creates {
    pub(crate) fn succeeded(&mut self, latency: Time, refusals: u32) {
        self.latencies.push(latency);
        self.failed_first += usize::from(refusals > 0);
    }

    pub(crate) fn failed(&mut self) {
        self.failed += 1;
        self.failed_first += 1;
    }

    pub(crate) fn count(&self) -> usize {
        self.latencies.len() + self.failed
    }

    pub(crate) fn failed_share(&self) -> f64 {
        share(self.failed, self.count())
    }

    pub(crate) fn print(&self, name: &str) {
        print(name, "creates", &self.count().to_string());
        print(name, "p50_ms", &milliseconds(&self.latencies, 0.5));
        print(name, "p99_ms", &milliseconds(&self.latencies, 0.99));
        print(
            name,
            "failed_at_first",
            &percent(share(self.failed_first, self.count())),
        );
        print(name, "failed", &percent(self.failed_share()));
    }
}

/// All that is counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Before the fault.
    pub(crate) before: Creates,
    /// In the minute after it: sessions that have nothing to do with it.
    pub(crate) after: Creates,
    /// Sessions in the place of those that were lost.
    pub(crate) herd: Creates,
    /// Of the hot tenant.
    pub(crate) hot: Creates,
    pub(crate) sessions_lost: usize,
    pub(crate) creates_broken: usize,
    pub(crate) passed_on: usize,
    /// By the node that they were passed on to.
    pub(crate) passed_on_refused: usize,
    /// To a node that others took for alive.
    pub(crate) passed_on_dead: usize,
    /// Reasons of nodes, by code.
    pub(crate) refusals: BTreeMap<&'static str, usize>,
    pub(crate) runs_lost: usize,
    /// From the fault to the claim.
    pub(crate) takeovers: Vec<Time>,
    /// Runs that were claimed by a node that had no permit for them.
    pub(crate) runs_given_back: usize,
    /// Lives that ended while their node lived.
    pub(crate) lives_ended: usize,
    pub(crate) appends: Vec<Time>,
    pub(crate) beats: Vec<Time>,
}

pub(crate) fn print(scenario: &str, name: &str, value: &str) {
    println!("{:<44} {value}", format!("{scenario}.{name}"));
}

/// One of the times below which this part of them is, in milliseconds.
pub(crate) fn milliseconds(times: &[Time], part: f64) -> String {
    match percentile(times, part) {
        Some(time) => format!("{:.1}", time as f64 / MILLISECOND as f64),
        None => "-".to_owned(),
    }
}

pub(crate) fn percentile(times: &[Time], part: f64) -> Option<Time> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * part).round() as usize])
}

pub(crate) fn share(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}
