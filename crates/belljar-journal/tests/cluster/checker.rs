//! Compares the journal with what each node and each reader knows for certain.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use belljar_journal::{Entry, Journal, RunId};

use crate::campaign::{Fault, Plan, Seen, body};
use crate::history::{Body, Fact, Line, Task};

/// What a campaign has shown.
#[derive(Debug)]
pub(crate) struct Report {
    seed: u64,
    lease: Duration,
    faults: BTreeMap<&'static str, usize>,
    runs: usize,
    events: usize,
    pub(crate) acknowledged: usize,
    refused: usize,
    read: usize,
    /// Sorted.
    take_overs: Vec<Duration>,
    all_take_overs: Vec<Duration>,
    pub(crate) violations: Vec<String>,
}

impl Report {
    /// At most the lease and five seconds, while there was a database to ask.
    pub(crate) fn is_take_over_in_time(&self) -> bool {
        let limit = self.lease + Duration::from_secs(5);
        quantile(&self.take_overs, 99).is_none_or(|time| time <= limit)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.faults.values().sum();
        writeln!(formatter, "seed {}, lease {:?}", self.seed, self.lease)?;
        writeln!(formatter, "faults {all}: {:?}", self.faults)?;
        writeln!(
            formatter,
            "runs {}, events {}, acknowledged {}, refused {}, read by tails {}",
            self.runs, self.events, self.acknowledged, self.refused, self.read
        )?;
        for (name, times) in [
            ("database without a fault", &self.take_overs),
            ("all", &self.all_take_overs),
        ] {
            writeln!(
                formatter,
                "take-overs, {name}: {}, p50 {:?}, p99 {:?}, longest {:?}",
                times.len(),
                quantile(times, 50),
                quantile(times, 99),
                times.last(),
            )?;
        }
        writeln!(formatter, "violations {}", self.violations.len())?;
        for violation in self.violations.iter().take(20) {
            writeln!(formatter, "  {violation}")?;
        }
        Ok(())
    }
}

fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let index = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
    sorted.get(index).copied()
}

pub(crate) async fn check(
    plan: &Plan,
    journal: &Journal,
    seen: &Seen,
    never_ended: &[RunId],
    histories: &[Vec<Line>],
    faults: &[Fault],
) -> Report {
    let mut violations: Vec<String> = never_ended
        .iter()
        .map(|run| format!("L1: {run} has not ended"))
        .collect();
    let (mut runs, mut nonces) = (HashMap::new(), HashMap::new());
    for run in seen.keys() {
        let entries = read(journal, run, &mut violations).await;
        check_run(run, &entries, never_ended.contains(run), &mut violations);
        for entry in &entries {
            if let Some(body) = body(entry.body.get())
                && let Some(other) = nonces.insert(body.nonce, (run.clone(), entry.seq))
            {
                violations.push(format!("J2: {run} {} is also {other:?}", entry.seq));
            }
        }
        runs.insert(run.clone(), entries);
    }

    let (mut acknowledged, mut refused) = (0, 0);
    for line in histories.iter().flatten() {
        match &line.fact {
            Fact::Acknowledged { seq, body } => {
                acknowledged += 1;
                let stored = event(&runs, &line.run, *seq);
                if stored.as_ref() != Some(body) {
                    let run = &line.run;
                    violations.push(format!("J2: {run} {seq} is {stored:?}, was {body:?}"));
                }
            }
            Fact::Refused { nonce } => {
                refused += 1;
                if let Some(place) = nonces.get(nonce) {
                    violations.push(format!("J2: {place:?} is there, and was refused"));
                }
            }
            Fact::Claimed | Fact::GaveUp => {}
        }
    }

    let mut read = 0;
    for (run, entries) in seen {
        let entries = entries.lock().unwrap();
        read += entries.len();
        for (expected, (seq, text)) in (1..).zip(&*entries) {
            let stored = usize::try_from(*seq)
                .ok()
                .and_then(|seq| runs[run].get(seq - 1));
            if *seq != expected || stored.is_none_or(|stored| stored.body.get() != text) {
                violations.push(format!("S1: {run}: {seq} was read instead of {expected}"));
                break;
            }
        }
    }

    let mut counted = BTreeMap::new();
    for fault in faults {
        *counted.entry(fault.name).or_default() += 1;
    }
    let (take_overs, all_take_overs) = take_overs(histories, faults);
    Report {
        seed: plan.seed,
        lease: plan.lease,
        faults: counted,
        runs: runs.len(),
        events: runs.values().map(Vec::len).sum(),
        acknowledged,
        refused,
        read,
        take_overs,
        all_take_overs,
        violations,
    }
}

/// J1 is also checked by the store itself, which refuses a gap as damage.
async fn read(journal: &Journal, run: &RunId, violations: &mut Vec<String>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut faults = 0;
    loop {
        match journal.read(run, entries.len() as u64, 1000).await {
            Ok(page) if page.is_empty() => break,
            Ok(page) => entries.extend(page),
            // The first after the database was restarted.
            Err(_) if faults < 20 => faults += 1,
            Err(error) => {
                violations.push(format!("J1: {run}: {error}"));
                return entries;
            }
        }
    }
    let last = journal.last_seq(run).await.unwrap();
    if last != entries.len() as u64 {
        violations.push(format!(
            "J1: {run} has {} events, not {last}",
            entries.len()
        ));
    }
    entries
}

fn check_run(run: &RunId, entries: &[Entry], is_open: bool, violations: &mut Vec<String>) {
    let mut violation = |name: &str, seq: u64, why: String| {
        violations.push(format!("{name}: {run} {seq}: {why}"));
    };
    let mut owners: HashMap<i64, i64> = HashMap::new();
    let (mut epoch, mut steps, mut ends, mut of) = (0, 0, 0, None);
    for (seq, entry) in (1..).zip(entries) {
        if entry.seq != seq {
            violation("J1", seq, format!("it is {}", entry.seq));
        }
        if seq == 1 {
            of = entry.decode::<Task>().ok().map(|task| task.steps);
            continue;
        }
        let Some(body) = body(entry.body.get()) else {
            violation("J2", seq, format!("nobody wrote {}", entry.body));
            continue;
        };
        if body.epoch < epoch {
            violation("J3", seq, format!("epoch {} after {epoch}", body.epoch));
        }
        epoch = epoch.max(body.epoch);
        let owner = *owners.entry(body.epoch).or_insert(body.life);
        if owner != body.life {
            violation("J4", seq, format!("{owner} and {} in one epoch", body.life));
        }
        if ends > 0 {
            violation("J5", seq, format!("a {} after the end", entry.kind));
        }
        if entry.kind == "end" {
            ends += 1;
        } else {
            steps += 1;
            if body.step != steps {
                violation("J2", seq, format!("step {} instead of {steps}", body.step));
            }
        }
    }
    if ends > 1 || (ends == 0 && !is_open) {
        violation("J6", entries.len() as u64, format!("{ends} ends"));
    }
    if ends > 0 && of != Some(steps) {
        violation(
            "J2",
            entries.len() as u64,
            format!("{steps} steps of {of:?}"),
        );
    }
}

fn event(runs: &HashMap<RunId, Vec<Entry>>, run: &RunId, seq: u64) -> Option<Body> {
    let index = usize::try_from(seq).ok()?.checked_sub(1)?;
    body(runs.get(run)?.get(index)?.body.get())
}

/// How long a run stood still when its owner did not give it up: from the owner's last acknowledged event to the claim of
/// the next life. Those while the database had no fault, and all.
fn take_overs(histories: &[Vec<Line>], faults: &[Fault]) -> (Vec<Duration>, Vec<Duration>) {
    let mut runs: HashMap<&RunId, Vec<&Line>> = HashMap::new();
    for line in histories.iter().flatten() {
        runs.entry(&line.run).or_default().push(line);
    }
    let (mut quiet, mut all) = (Vec::new(), Vec::new());
    for lines in runs.values_mut() {
        lines.sort_by_key(|line| (line.epoch, line.at));
        // The last that its owner has done.
        let mut last: Option<&Line> = None;
        for line in lines {
            if let (Some(last), Fact::Claimed) = (last, &line.fact)
                && last.life != line.life
                && !matches!(last.fact, Fact::GaveUp)
            {
                let time = u64::try_from(line.at.0 - last.at.0).unwrap_or(0);
                let time = Duration::from_micros(time);
                all.push(time);
                let overlaps = |fault: &Fault| {
                    fault.node.is_none() && fault.end >= last.at && fault.begin <= line.at
                };
                if !faults.iter().any(overlaps) {
                    quiet.push(time);
                }
            }
            if !matches!(line.fact, Fact::Refused { .. }) {
                last = Some(line);
            }
        }
    }
    quiet.sort_unstable();
    all.sort_unstable();
    (quiet, all)
}
