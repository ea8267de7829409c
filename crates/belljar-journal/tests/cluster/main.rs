//! Many nodes on one PostgreSQL: ownership of runs, and what is left of it under faults.
//!
//! `.ci/cluster-faults` runs the long campaign. Names such as J1 are of the invariants in docs/cluster.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "in a test a panic with the place is the best report, and a campaign prints its figures"
)]

mod campaign;
mod checker;
mod failover;
mod figures;
mod history;
mod moved;
mod node;
mod offers;
mod orphans;
mod ownership;
#[path = "../postgres/mod.rs"]
mod postgres;
mod proxy;
mod random;
mod single;
mod store;
#[path = "../weed/mod.rs"]
mod weed;

use campaign::Plan;

/// J1–J6, S1 and L1 with ten faults: enough to notice that something is broken. The long campaign is for the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_ten_faults_violate_nothing() {
    let report = campaign::run(Plan::new(10, 1)).await;
    println!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.acknowledged > 100, "{report}");
}

/// The checker can fail: writers that nothing fences give a run two of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_the_checker_notices_writers_that_are_not_fenced() {
    let mut plan = Plan::new(8, 2);
    plan.is_unfenced = true;
    plan.only_stops = true;
    let report = campaign::run(plan).await;
    println!("{report}");
    let two_writers = |violation: &String| violation.starts_with("J3");
    assert!(report.violations.iter().any(two_writers), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "many minutes: .ci/cluster-faults"]
async fn long_campaign() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap())
    };
    let faults = number("BELLJAR_CLUSTER_FAULTS", 100);
    let seed = number("BELLJAR_CLUSTER_SEED", 1);
    let report = campaign::run(Plan::new(faults, seed)).await;
    println!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.is_take_over_in_time(), "{report}");
}
