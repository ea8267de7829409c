//! Compares what the service has with the answers that its clients got.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::Fault;
use super::clients::{Followed, Sessions};

/// The events of a run, with their numbers.
pub(super) type Events = Vec<(u64, Value)>;

/// What a campaign has shown.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) faults: BTreeMap<&'static str, usize>,
    pub(super) runs: usize,
    pub(super) ends: BTreeMap<String, usize>,
    pub(super) events: usize,
    pub(super) moves: Moves,
    pub(super) sessions: Sessions,
    pub(super) refusals: BTreeMap<String, usize>,
    /// How often a node ended that nobody had killed.
    pub(super) exits: Vec<String>,
    /// How often a node lost its lease: without a fault, the machine gave it no CPU for seconds.
    pub(super) lost_leases: usize,
    /// Sorted, and whether database or store had a fault in the same time.
    pub(super) take_overs: Vec<(Duration, bool)>,
    pub(super) violations: Vec<String>,
    /// The last lines of what each node said.
    pub(super) said: Vec<String>,
}

/// Sessions of runs that were begun once more, on another node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moves {
    pub(super) with_variables: usize,
    /// Of those that there were.
    pub(super) without: usize,
    /// Cells of which nothing is known.
    pub(super) lost_calls: usize,
}

impl Moves {
    pub(super) fn add(&mut self, other: Self) {
        self.with_variables += other.with_variables;
        self.without += other.without;
        self.lost_calls += other.lost_calls;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.faults.values().sum();
        writeln!(formatter, "seed {}", self.seed)?;
        writeln!(formatter, "faults {all}: {:?}", self.faults)?;
        writeln!(
            formatter,
            "runs {}: {:?}; events {}; {:?}",
            self.runs, self.ends, self.events, self.moves
        )?;
        writeln!(formatter, "sessions: {:?}", self.sessions)?;
        writeln!(formatter, "refused or unanswered: {:?}", self.refusals)?;
        writeln!(
            formatter,
            "nodes that ended by themselves: {:?}; lost leases: {}",
            self.exits, self.lost_leases
        )?;
        for (name, of) in [
            ("database and store without a fault", false),
            ("with one", true),
        ] {
            let times = self.take_overs.iter().filter(|(_, fault)| *fault == of);
            let times: Vec<Duration> = times.map(|(time, _)| *time).collect();
            writeln!(
                formatter,
                "pauses by a kill or a stop, {name}: {}, p50 {:?}, p99 {:?}, longest {:?}",
                times.len(),
                quantile(&times, 50),
                quantile(&times, 99),
                times.last()
            )?;
        }
        writeln!(formatter, "violations {}", self.violations.len())?;
        for violation in self.violations.iter().take(20) {
            writeln!(formatter, "  {violation}")?;
        }
        for said in self.said.iter().filter(|_| !self.violations.is_empty()) {
            writeln!(formatter, "== a node\n{said}")?;
        }
        Ok(())
    }
}

fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let index = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
    sorted.get(index).copied()
}

/// S1 and J2: what was shown is a beginning of what there is.
pub(super) fn check_reader(
    name: &str,
    seen: &Followed,
    all: &Events,
    violations: &mut Vec<String>,
) {
    for (expected, (seq, event)) in (1..).zip(&seen.events) {
        let stored = usize::try_from(*seq).ok().and_then(|seq| all.get(seq - 1));
        if *seq != expected {
            violations.push(format!("S1: {name}: {seq} was read instead of {expected}"));
            return;
        }
        if stored.is_none_or(|(_, stored)| stored != event) {
            violations.push(format!("J2: {name}: {seq} was {event}, and is {stored:?}"));
            return;
        }
    }
    if !seen.ended {
        violations.push(format!("L1: {name} has not ended"));
    }
}

/// J1, J5, J6 and C1, and that a run which moves has the variables that its events say it has.
pub(super) fn check_run(name: &str, events: &Events, violations: &mut Vec<String>) -> Moves {
    let mut moves = Moves::default();
    let mut violation =
        |rule: &str, seq: u64, why: String| violations.push(format!("{rule}: {name} {seq}: {why}"));
    let mut calls: BTreeMap<(u64, u64), bool> = BTreeMap::new();
    let (mut count, mut unknown, mut ended) = (0, 0, false);
    for (expected, (seq, event)) in (1..).zip(events) {
        let seq = *seq;
        if seq != expected {
            violation("J1", seq, format!("it should be {expected}"));
        }
        if ended {
            violation("J5", seq, format!("{} after the end", event["kind"]));
        }
        let call = || Some((event["step"].as_u64()?, event["call"].as_u64()?));
        match event["kind"].as_str().unwrap_or_default() {
            "started" if seq != 1 => violation("J6", seq, "another beginning".into()),
            "ended" => ended = true,
            "session_started" => {
                if event["cells"].as_u64() == Some(0) {
                    moves.without += usize::from(count + unknown > 0);
                    (count, unknown) = (0, 0);
                } else {
                    moves.with_variables += 1;
                }
            }
            "call_started" if calls.insert(call().unwrap(), false).is_some() => {
                violation("C1", seq, "a call is performed again".into());
            }
            kind @ ("call_ended" | "call_lost") => {
                if calls.insert(call().unwrap(), true) != Some(false) {
                    violation("C1", seq, format!("{kind} of a call that is not open"));
                }
                if kind == "call_lost" {
                    moves.lost_calls += 1;
                    unknown += 1;
                    continue;
                }
                let said = event["result"]["cell"]["output"].as_str();
                let now = said.and_then(|said| said.trim().strip_prefix("n ")?.parse::<u64>().ok());
                // A cell that was stopped, as one is when its node loses the run, says nothing.
                let Some(now) = now else {
                    unknown += 1;
                    continue;
                };
                if !(count + 1..=count + 1 + unknown).contains(&now) {
                    violation(
                        "C1",
                        seq,
                        format!("n is {now} after {count}, {unknown} unknown"),
                    );
                }
                (count, unknown) = (now, 0);
            }
            _ => {}
        }
    }
    if !ended {
        violation("J6", events.len() as u64, "no end".into());
    }
    moves
}

/// How long runs stood still while a node was killed or stopped: an upper bound of what a take-over takes. Whether
/// database and store had a fault in the same time stands beside it.
pub(super) fn take_overs(events: &Events, faults: &[Fault]) -> Vec<(Duration, bool)> {
    let time = |(_, event): &(u64, Value)| event["at"].as_i64().unwrap_or_default();
    let mut found = Vec::new();
    for pair in events.windows(2) {
        let (begin, end) = (time(&pair[0]), time(&pair[1]));
        // Less is the pace of a run, and much more is a clock that was put forward.
        if !(1000..600_000).contains(&(end - begin)) {
            continue;
        }
        let around = || {
            faults
                .iter()
                .filter(|fault| fault.begin <= end && fault.end >= begin)
        };
        if around().any(|fault| matches!(fault.name, "kill" | "stop")) {
            let time = Duration::from_millis((end - begin).unsigned_abs());
            found.push((time, around().any(|fault| fault.node.is_none())));
        }
    }
    found
}
