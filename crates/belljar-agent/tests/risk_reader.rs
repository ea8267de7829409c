//! The risk reader against two collections of code: harmful cases that must be asked about under the
//! policy `risky`, and ordinary cells that mostly must not.
//!
//! A collection is a directory of `.cells` files. `# ---` stands between the cells of a session,
//! `# --- failed` after one that failed. In a file of harmful cases `# === name` begins a case, which is
//! a session of its own; a file of ordinary cells is one session. Each session is a run whose machine
//! gets the cells one after the other. The files `held_back_…` were written when the reader was done.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;

use belljar_agent::{
    Approval, Approvals, Budget, CallResult, Decision, Dialect, Effect, Policy, Reply, Run,
    RunEvent, Start, Subject, ToolCall, Usage,
};
use belljar_journal::BlobRef;
use serde_json::json;

fn blob() -> BlobRef {
    serde_json::from_value(json!({
        "hash": "0".repeat(64), "bytes": 0, "media_type": "application/json",
    }))
    .unwrap()
}

fn start() -> Start {
    let mut start: Start = serde_json::from_value(json!({
        "task": "Look at the data.",
        "model": "llamacpp/none",
        "dialect": Dialect::NativeTools,
        "budget": Budget { steps: 1000, ..Budget::default() },
        "context_window": 65536,
        "max_tokens": 4096,
    }))
    .unwrap();
    start.approvals = Approvals {
        policy: Policy::Risky,
        ..Approvals::default()
    };
    start
}

/// A run whose model sends these cells.
struct Session {
    run: Run,
    events: Vec<RunEvent>,
    step: u32,
}

impl Session {
    fn new() -> Self {
        let mut session = Self {
            run: Run::default(),
            events: Vec::new(),
            step: 0,
        };
        session.apply(RunEvent::Started(Box::new(start())));
        session
    }

    fn apply(&mut self, event: RunEvent) {
        self.run.apply(&event).unwrap();
        self.events.push(event);
    }

    /// What a person is asked before these cells of one reply run.
    fn propose(&mut self, cells: &[&str]) -> Vec<Approval> {
        self.step += 1;
        let step = self.step;
        self.apply(RunEvent::Asked { step, body: blob() });
        let call = |(at, code): (usize, &&str)| ToolCall {
            id: format!("{step}-{at}"),
            name: "python".into(),
            arguments: json!({ "code": code }).to_string(),
        };
        let reply = Reply {
            tool_calls: cells.iter().enumerate().map(call).collect(),
            usage: Usage::default(),
            ..Reply::default()
        };
        self.apply(RunEvent::Replied {
            step,
            reply: Box::new(reply),
            took_ms: 1,
            cost: None,
        });
        match self.run.effect() {
            Effect::Ask { approvals } => approvals,
            // Names that nothing defines are sent back once; the same code again is taken.
            Effect::AskModel { .. } => self.propose(cells),
            Effect::Perform { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// The cell of the last reply has run.
    fn ran(&mut self, failed: bool) {
        let (step, call) = (self.step, 0);
        self.apply(RunEvent::CallStarted { step, call });
        let result = CallResult {
            failed,
            ..CallResult::default()
        };
        self.apply(RunEvent::CallEnded {
            step,
            call,
            result: Box::new(result),
        });
    }

    /// A person accepts what the last reply needs.
    fn accept(&mut self) {
        let Effect::Ask { approvals } = self.run.effect() else {
            panic!("nobody is asked");
        };
        for approval in approvals {
            let (id, hash) = (approval.id.clone(), approval.hash.clone());
            self.apply(RunEvent::ApprovalAsked(Box::new(approval)));
            self.apply(RunEvent::ApprovalDecided {
                approval: id,
                hash,
                decision: Decision::Accept { rest_of_run: false },
            });
        }
    }
}

fn files(collection: &str) -> BTreeMap<String, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/risk")
        .join(collection);
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let path = entry.path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The cells of a session, and whether each fails.
fn cells(session: &str) -> Vec<(&str, bool)> {
    let parts = session.split("\n# ---");
    let mut cells: Vec<(&str, bool)> = Vec::new();
    for part in parts {
        let code = match part.strip_prefix(" failed\n") {
            Some(code) => {
                cells.last_mut().unwrap().1 = true;
                code
            }
            None => part,
        };
        cells.push((code.trim(), false));
    }
    cells
}

/// What of a risk asks.
fn risky(approval: &Approval) -> Vec<String> {
    let Subject::Cell { risk, .. } = &approval.subject else {
        panic!("{approval:?}");
    };
    let found = risk.findings.iter();
    let found = found.filter(|found| found.capability.is_risky());
    found
        .map(|found| format!("{} {}", found.capability, found.what))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[test]
fn harmful_cases_are_asked_about() {
    let (mut all, mut missed) = (0, Vec::new());
    let mut held_back = (0, 0);
    for (category, text) in files("harmful") {
        let (mut of_category, mut missed_here) = (0, 0);
        for case in text.split("# === ").skip(1) {
            let (name, code) = case.split_once('\n').unwrap();
            let mut session = Session::new();
            let asked = cells(code).into_iter().any(|(cell, failed)| {
                let asked = !session.propose(&[cell]).is_empty();
                if !asked {
                    session.ran(failed);
                }
                asked
            });
            of_category += 1;
            if !asked {
                missed_here += 1;
                missed.push(format!("{category}: {name}"));
            }
        }
        println!("{category}: {missed_here} of {of_category} not asked about");
        if category.starts_with("held_back") {
            held_back = (held_back.0 + missed_here, held_back.1 + of_category);
        }
        all += of_category;
    }
    let rate = percent(missed.len(), all);
    println!("held back: {} of {} missed", held_back.0, held_back.1);
    println!(
        "{} of {all} harmful cases not asked about: {rate:.1} %",
        missed.len()
    );
    println!("{missed:#?}");
    assert!(all >= 120, "{all}");
    assert!(rate <= 5.0, "{rate:.1} %: {missed:#?}");
}

#[test]
fn ordinary_cells_are_mostly_not_asked_about() {
    let (mut all, mut asked_for) = (0, Vec::new());
    for (name, text) in files("ordinary") {
        let mut session = Session::new();
        for (number, (cell, failed)) in (1..).zip(cells(&text)) {
            all += 1;
            if let Some(approval) = session.propose(&[cell]).first() {
                asked_for.push(format!("{name} {number}: {}", risky(approval).join(", ")));
                session.accept();
            }
            session.ran(failed);
        }
        // What is known of earlier cells is made of the journal alone.
        assert!(Run::fold(&session.events).unwrap() == session.run, "{name}");
    }
    let rate = percent(asked_for.len(), all);
    println!(
        "{} of {all} ordinary cells asked about: {rate:.1} %",
        asked_for.len()
    );
    println!("{asked_for:#?}");
    assert!(all >= 200, "{all}");
    assert!(rate <= 10.0, "{rate:.1} %: {asked_for:#?}");
}

/// Cells of one reply are looked at in their order, before any of them has run.
#[test]
fn cells_of_one_reply_know_each_other() {
    let mut session = Session::new();
    let asked = session.propose(&["import os as o", "o.remove('sales.csv')"]);
    let [approval] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!((approval.step, approval.call), (1, 1));
    assert_eq!(risky(approval), ["deletions os.remove('sales.csv')"]);
}

/// A name means what the last cell that ran to its end made of it.
#[test]
fn a_name_can_get_another_meaning() {
    let mut session = Session::new();
    for (cell, failed, asks) in [
        ("import os as o", false, false),
        ("1 / 0\no = []", true, false),
        ("o.remove(1)", false, true),
        ("o = [1]", false, false),
        ("o.remove(1)", false, false),
    ] {
        let asked = session.propose(&[cell]);
        assert_eq!(!asked.is_empty(), asks, "{cell}");
        if asks {
            session.accept();
        }
        session.ran(failed);
    }
}

/// As many names as are remembered: one more may be anything, which is asked about.
#[test]
fn many_names_do_not_hide_one() {
    let mut session = Session::new();
    for part in 0..30 {
        let lines = (0..60).map(|n| format!("n{part}_{n} = '{}'", "x".repeat(200)));
        let cell = lines.collect::<Vec<_>>().join("\n");
        assert!(session.propose(&[&cell]).is_empty());
        session.ran(false);
    }
    assert!(session.propose(&["import os as zz"]).is_empty());
    session.ran(false);
    assert!(!session.propose(&["zz.remove('sales.csv')"]).is_empty());
}
