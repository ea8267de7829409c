//! Whole services on one database and one object store while everything fails: `.ci/cluster-faults service`.
//!
//! Names such as J1 are of the invariants in docs/cluster.md.

mod checker;
mod clients;
mod cluster;
#[path = "../../../belljar-journal/tests/cluster/proxy.rs"]
mod database_proxy;
#[path = "../../../belljar-journal/tests/cluster/random.rs"]
mod random;
mod rolling;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use self::checker::{Events, Moves, Report};
use self::clients::{Followed, Load};
use self::cluster::Cluster;
use self::random::Random;
use crate::support::BELLJAR;

/// Runs that are driven at the same time, and sessions that are used.
const RUNS: usize = 4;
const SESSIONS: usize = 2;
const CELLS: u64 = 40;

#[derive(Clone, Copy, Debug)]
struct Plan {
    /// What the nodes are started as.
    program: &'static str,
    faults: u64,
    seed: u64,
    /// Each data directory is a file system of its own, which can be full: it takes root, and other tests that run beside
    /// would see its mount.
    has_disks: bool,
    /// Cells after which a client begins another session.
    cells: u64,
    /// How long the model of the runs takes for a step.
    thinks: Duration,
}

/// When something was broken, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// None: the database or the store.
    pub(super) node: Option<usize>,
    pub(super) begin: i64,
    pub(super) end: i64,
}

/// J1, J2, J5, J6, S1, C1, L1 with a few faults. The long campaign is for the rest.
#[test]
fn waits_services_with_faults_violate_nothing() {
    let report = inject(Plan {
        program: BELLJAR,
        faults: 8,
        seed: 3,
        has_disks: false,
        cells: CELLS,
        thinks: Duration::from_millis(100),
    });
    println!("{report}");
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.runs >= RUNS, "{report}");
}

#[test]
#[ignore = "many minutes, and root for a full disk: .ci/cluster-faults service"]
fn long_campaign() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap())
    };
    let report = inject(Plan {
        program: BELLJAR,
        faults: number("BELLJAR_CLUSTER_FAULTS", 100),
        seed: number("BELLJAR_CLUSTER_SEED", 1),
        has_disks: rustix::process::geteuid().is_root(),
        cells: CELLS,
        thinks: Duration::from_millis(100),
    });
    println!("{report}");
    assert!(report.violations.is_empty(), "{report}");
}

/// The checker can fail: each of these journals has one mistake.
#[test]
fn the_checker_notices() {
    let event = |kind: &str, more: Value| {
        let mut event = json!({"kind": kind, "at": 0});
        let fields = more.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(fields);
        event
    };
    let cell = |n: u64| {
        let output = format!("n {n}\n");
        let (step, call) = (n, 0);
        [
            event("call_started", json!({"step": step, "call": call})),
            event(
                "call_ended",
                json!({"step": step, "call": call, "result": {"cell": {"output": output}}}),
            ),
        ]
    };
    let numbered = |events: &[Value]| (1..).zip(events.to_vec()).collect::<Events>();
    let [one, two] = [cell(1), cell(2)];
    let (begin, end) = (event("started", json!({})), event("ended", json!({})));
    let session = |cells: u64| event("session_started", json!({"cells": cells}));
    let good = [
        &[begin, session(0)],
        &one[..],
        &[session(1)],
        &two[..],
        std::slice::from_ref(&end),
    ]
    .concat();
    let broken = |change: &dyn Fn(&mut Vec<Value>)| {
        let (mut events, mut violations) = (good.clone(), Vec::new());
        change(&mut events);
        checker::check_run("r", &numbered(&events), &mut violations);
        violations
            .iter()
            .map(|why| why[..2].to_owned())
            .collect::<Vec<_>>()
    };
    assert!(broken(&|_| {}).is_empty());
    // The second session has the variables of the first, or says that it has not.
    assert_eq!(broken(&|events| events[4] = session(0)), ["C1"]);
    assert_eq!(
        broken(&|events| drop(events.remove(4))),
        Vec::<String>::new()
    );
    assert_eq!(broken(&|events| events.insert(3, one[0].clone())), ["C1"]);
    assert_eq!(broken(&|events| drop(events.remove(2))), ["C1"]);
    assert_eq!(broken(&|events| events.push(end.clone())), ["J5"]);
    assert_eq!(broken(&|events| drop(events.pop())), ["J6"]);

    let all = numbered(&good);
    let read = |change: &dyn Fn(&mut Events)| {
        let mut seen = Followed {
            events: all.clone(),
            ended: true,
            ..Followed::default()
        };
        change(&mut seen.events);
        let mut violations = Vec::new();
        checker::check_reader("r", &seen, &all, &mut violations);
        violations
            .iter()
            .map(|why| why[..2].to_owned())
            .collect::<Vec<_>>()
    };
    assert!(read(&|_| {}).is_empty());
    assert_eq!(read(&|events| drop(events.remove(2))), ["S1"]);
    assert_eq!(read(&|events| events.insert(2, events[2].clone())), ["S1"]);
    assert_eq!(read(&|events| events[3].1["step"] = json!(7)), ["J2"]);
    assert_eq!(read(&|events| events.push((9, end.clone()))), ["J2"]);
}

fn inject(plan: Plan) -> Report {
    run(plan, |cluster| cluster.inject(plan))
}

/// Clients use a cluster until the work is done.
fn run(plan: Plan, work: impl FnOnce(&mut Cluster) -> Vec<Fault>) -> Report {
    let mut cluster = Cluster::start(plan);
    let load = Arc::new(Load {
        addresses: cluster
            .members
            .iter()
            .map(|member| member.listens())
            .collect(),
        key: cluster.key(),
        cells: plan.cells,
        stop: false.into(),
        runs: Mutex::default(),
        sessions: Mutex::default(),
        violations: Mutex::default(),
        refusals: Mutex::default(),
    });
    let mut clients = Vec::new();
    for number in 0..RUNS + SESSIONS {
        let (load, random) = (load.clone(), Random::new(plan.seed + 1000 + number as u64));
        clients.push(std::thread::spawn(move || {
            if number < RUNS {
                load.drive_runs(number, random);
            } else {
                load.use_sessions(random);
            }
        }));
    }
    let members = cluster.members.clone();
    let supervised = load.clone();
    let supervisor = std::thread::spawn(move || {
        // Until the clients have gone.
        while Arc::strong_count(&supervised) > 2 {
            for member in &members {
                member.supervise();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    // A moment without faults, so that there is something to lose.
    std::thread::sleep(Duration::from_secs(5));
    let faults = work(&mut cluster);
    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    supervisor.join().unwrap();
    check(plan, &cluster, &load, &faults)
}

fn check(plan: Plan, cluster: &Cluster, load: &Load, faults: &[Fault]) -> Report {
    let mut violations = std::mem::take(&mut *load.violations.lock().unwrap());
    let mut random = Random::new(plan.seed);
    let runs = load.runs.lock().unwrap();
    let (mut moves, mut count, mut ends) = (Moves::default(), 0, BTreeMap::new());
    let mut take_overs = Vec::new();
    for (name, seen) in runs.iter() {
        let Some(all) = read(load, seen, &mut random) else {
            violations.push(format!("J2: {name} cannot be read"));
            continue;
        };
        checker::check_reader(name, seen, &all, &mut violations);
        moves.add(checker::check_run(name, &all, &mut violations));
        take_overs.extend(checker::take_overs(&all, faults));
        count += all.len();
        let end = all
            .last()
            .map(|(_, event)| event["reason"]["kind"].to_string());
        *ends.entry(end.unwrap_or_default()).or_default() += 1;
    }
    for (task, times) in tasks(load, &mut random) {
        if times != 1 {
            violations.push(format!("C2: {task} was begun {times} times"));
        }
    }
    take_overs.sort_unstable();
    let mut counted = BTreeMap::new();
    for fault in faults {
        *counted.entry(fault.name).or_default() += 1;
    }
    let exits = cluster.members.iter();
    let exits: Vec<String> = exits.flat_map(|member| member.exits()).collect();
    let panics = exits
        .iter()
        .filter(|exit| exit.contains("101") || exit.contains("signal"));
    violations.extend(panics.map(|exit| format!("node {exit}")));
    Report {
        seed: plan.seed,
        faults: counted,
        runs: runs.len(),
        ends,
        events: count,
        moves,
        sessions: *load.sessions.lock().unwrap(),
        refusals: load.refusals.lock().unwrap().clone(),
        exits,
        lost_leases: cluster.members.iter().map(|one| one.lost_leases()).sum(),
        said: cluster.members.iter().map(|member| member.said()).collect(),
        take_overs,
        violations,
    }
}

/// All events of a run that has ended.
fn read(load: &Load, seen: &Followed, random: &mut Random) -> Option<Events> {
    let path = format!("/v1/runs/{}/events", seen.id);
    for _ in 0..20 {
        let mut events = Events::new();
        let address = *random.pick(&load.addresses);
        let read = clients::stream(address, &load.key, &path, 0, |seq, event| {
            events.push((seq, event));
            true
        });
        if matches!(read, Ok(200)) || !seen.ended && !events.is_empty() {
            return Some(events);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    None
}

/// How often each task was begun.
fn tasks(load: &Load, random: &mut Random) -> BTreeMap<String, usize> {
    let mut tasks = BTreeMap::new();
    let mut path = "/v1/runs".to_owned();
    for _ in 0..10_000 {
        let Some(page) = load
            .ask(random, "GET", &path, &[], "")
            .filter(|page| page.status == 200)
        else {
            std::thread::sleep(Duration::from_millis(500));
            continue;
        };
        for run in page.body["runs"].as_array().unwrap() {
            let task = run["task"].as_str().unwrap().to_owned();
            *tasks.entry(task).or_default() += 1;
        }
        let Some(next) = page.body["next_cursor"].as_str() else {
            return tasks;
        };
        path = format!("/v1/runs?cursor={next}");
    }
    tasks
}
