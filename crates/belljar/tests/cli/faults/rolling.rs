//! A rolling upgrade: the nodes are drained, stopped and started as another program, one at a time, while clients use them.

use std::time::Duration;

use super::{Plan, SESSIONS, run};
use crate::support::BELLJAR;

/// How long the nodes are used between two upgrades, and after the last one.
const PAUSE: Duration = Duration::from_secs(3);

/// J1, J2, J5, J6, S1, C1, C2, X1, L1. The program stands for both versions here; `.ci/rolling-upgrade` has two.
#[test]
fn waits_clients_notice_nothing_of_a_rolling_upgrade() {
    println!("{}", upgrade(BELLJAR, BELLJAR));
}

#[test]
#[ignore = "it takes a program of another version: .ci/rolling-upgrade"]
fn between_two_versions() {
    let program = |name: &str| std::env::var(name).ok().map(|path| &*path.leak());
    let old = program("BELLJAR_OLD").expect("`BELLJAR_OLD` has the path of the old program");
    let new = program("BELLJAR_NEW").unwrap_or(BELLJAR);
    println!("{}", upgrade(old, new));
}

/// Returns what it has shown.
fn upgrade(old: &'static str, new: &'static str) -> String {
    let plan = Plan {
        program: old,
        faults: 0,
        seed: 7,
        has_disks: false,
        // Each session lasts from the first version to the last.
        cells: u64::MAX,
        // A run lasts longer than it takes until its node knows that it is drained.
        thinks: Duration::from_millis(700),
    };
    let mut schemas = Vec::new();
    let report = run(plan, |cluster| {
        schemas.push(cluster.schemas());
        cluster.upgrade(new, PAUSE);
        schemas.push(cluster.schemas());
        Vec::new()
    });
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.exits.is_empty(), "{report}");
    assert!(report.ends.keys().eq(["\"answered\""]), "{report}");
    // Clients saw only errors that can be retried. A node that stops resets the connections that it has not accepted yet.
    let mut refusals = report.refusals.keys();
    let later = [
        "503 ",
        "no answer: connection refused",
        "no answer: connection reset",
    ];
    let is_for_later = |why: &String| later.iter().any(|start| why.starts_with(start));
    assert!(refusals.all(is_for_later), "{report}");
    assert_eq!(report.sessions.made, SESSIONS, "{report}");
    assert_eq!(report.sessions.lost, 0, "{report}");
    // Runs have moved, and have all that their cells did.
    let moves = report.moves;
    assert!(moves.with_variables > 0, "{report}");
    if report.lost_leases == 0 {
        let said = report.said.join("\n\n");
        assert_eq!(
            (moves.without, moves.lost_calls),
            (0, 0),
            "{report}\n{said}"
        );
    }
    format!("schemas of the journal and the tenants, before and after: {schemas:?}\n{report}")
}
