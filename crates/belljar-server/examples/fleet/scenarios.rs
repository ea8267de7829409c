//! The scenarios, each printed as one line for each figure.

use belljar_journal::{NodeLoad, NodeOffer};
use belljar_server::ServerOptions;
use belljar_server::simulation::{Placement, place};

use crate::clock::{SECOND, Time};
use crate::figures::{milliseconds, percent, print};
use crate::fleet::{Fault, Fleet, Place, Plan};

/// Runs of each node, of the 64 that it may have.
const RUNS: usize = 38;

/// The most nodes on one database.
const CELL: usize = 50;

pub(crate) fn plan(nodes: usize, seed: u64, fault: Fault) -> Plan {
    Plan {
        seed,
        nodes,
        nodes_of_cell: CELL,
        // Large enough that cells have about as many; two for each node are a hundred in a cell.
        tenants: (2 * nodes).max(100),
        is_mixed: false,
        load: 0.6,
        runs: RUNS,
        fault_at: 15 * SECOND,
        end: 75 * SECOND,
        fault,
        place,
    }
}

pub(crate) fn simulate(plan: Plan) -> Fleet {
    let mut fleet = Fleet::new(plan);
    fleet.run();
    fleet.check();
    fleet
}

pub(crate) fn steady(nodes: usize, seed: u64) {
    let fleet = simulate(plan(nodes, seed, Fault::None));
    let name = format!("steady_{nodes}");
    fleet.figures.after.print(&name);
    print_uses(&name, &fleet);
}

fn print_uses(name: &str, fleet: &Fleet) {
    let now = fleet.now;
    let databases = fleet.cells.iter().map(|cell| cell.database.use_until(now));
    print(
        name,
        "database_use",
        &percent(databases.fold(0.0, f64::max)),
    );
    let cpus = fleet.nodes.iter().map(|node| node.cpu.use_until(now));
    print(name, "cpu_use", &percent(cpus.fold(0.0, f64::max)));
    let sessions = (0..fleet.nodes.len()).map(|node| {
        let load = fleet.load(node);
        load.sessions as f64 / load.session_limit as f64
    });
    print(name, "session_use", &percent(sessions.fold(0.0, f64::max)));
    let memory = (0..fleet.nodes.len()).map(|node| fleet.memory(node));
    let memory = memory.map(|memory| 1.0 - memory.available as f64 / memory.total as f64);
    print(name, "memory_use", &percent(memory.fold(0.0, f64::max)));
    let events = fleet.figures.appends.len() as f64 / seconds(now) / fleet.cells.len() as f64;
    print(name, "events_per_second_and_cell", &format!("{events:.0}"));
    print_time(name, "append_p99_ms", &fleet.figures.appends, 0.99);
    print_time(name, "beat_p99_ms", &fleet.figures.beats, 0.99);
    print_count(name, "lives_ended", fleet.figures.lives_ended);
}

pub(crate) fn deaths(nodes: usize, seed: u64, percent_dead: f64) {
    let dead = (nodes as f64 * percent_dead / 100.0).round() as usize;
    let fleet = simulate(plan(nodes, seed, Fault::Deaths(dead)));
    print_loss(&format!("deaths_{nodes}_{percent_dead}"), &fleet);
}

/// What was before decision 76: the one with most room.
pub(crate) fn most_room(
    here: Option<NodeLoad>,
    others: &[NodeOffer],
    memory: u64,
    chance: u64,
) -> Placement<'_> {
    let room = |offer: &&NodeOffer| {
        let load = offer.load;
        let sessions = load.session_limit.saturating_sub(load.sessions);
        sessions.min(load.free_memory / memory)
    };
    match others.iter().max_by_key(room) {
        Some(most) => place(here, std::slice::from_ref(most), memory, chance),
        None => place(here, &[], memory, chance),
    }
}

pub(crate) fn mixed_plan(nodes: usize, seed: u64, dead: usize, place: Place) -> Plan {
    Plan {
        is_mixed: true,
        load: 0.86,
        place,
        ..plan(nodes, seed, Fault::Deaths(dead))
    }
}

pub(crate) fn mixed(nodes: usize, seed: u64, percent_dead: f64) {
    let dead = (nodes as f64 * percent_dead / 100.0).round() as usize;
    for (name, place) in [
        ("most_room", most_room as Place),
        ("by_room", place as Place),
    ] {
        let fleet = simulate(mixed_plan(nodes, seed, dead, place));
        print_loss(&format!("mixed_{nodes}_{percent_dead}.{name}"), &fleet);
    }
}

fn print_loss(name: &str, fleet: &Fleet) {
    let figures = &fleet.figures;
    print_count(name, "sessions_lost", figures.sessions_lost);
    print_count(name, "creates_broken_off", figures.creates_broken);
    figures.before.print(&format!("{name}.before"));
    figures.after.print(&format!("{name}.after"));
    figures.herd.print(&format!("{name}.herd"));
    print_count(name, "passed_on", figures.passed_on);
    print_count(name, "passed_on_refused", figures.passed_on_refused);
    print_count(name, "passed_on_to_dead", figures.passed_on_dead);
    print_refusals(name, fleet);
    print_count(name, "runs_lost", figures.runs_lost);
    print_count(name, "runs_taken_over", figures.takeovers.len());
    print_count(name, "runs_given_back", figures.runs_given_back);
    print_time(name, "takeover_p50_ms", &figures.takeovers, 0.5);
    print_time(name, "takeover_last_ms", &figures.takeovers, 1.0);
    print_uses(name, fleet);
}

fn print_refusals(name: &str, fleet: &Fleet) {
    for (code, count) in &fleet.figures.refusals {
        print_count(name, &format!("refused.{code}"), *count);
    }
}

pub(crate) fn outage(nodes: usize, seed: u64, length: f64) {
    let name = format!("outage_{nodes}_{length}");
    let gone = (length * SECOND as f64) as Time;
    let fleet = simulate(plan(nodes, seed, Fault::DatabaseGone(gone)));
    fleet.figures.before.print(&format!("{name}.before"));
    fleet.figures.after.print(&format!("{name}.after"));
    print_refusals(&name, &fleet);
    print_count(&name, "runs_taken_over", fleet.figures.takeovers.len());
    print_count(&name, "lives_ended", fleet.figures.lives_ended);
}

pub(crate) fn hot(nodes: usize, seed: u64, rate: f64) {
    let name = format!("hot_{nodes}_{rate}");
    let fleet = simulate(plan(nodes, seed, Fault::HotTenant(rate)));
    fleet.figures.before.print(&format!("{name}.before"));
    fleet.figures.after.print(&format!("{name}.after"));
    fleet.figures.hot.print(&format!("{name}.hot"));
    print_refusals(&name, &fleet);
    print_uses(&name, &fleet);
}

/// More and more nodes on one database, with some of the runs that they may have, and with all.
pub(crate) fn saturation(nodes: usize, seed: u64) {
    for factor in [2, 3, 4, 6] {
        let nodes = factor * nodes / 2;
        for runs in [RUNS, ServerOptions::default().runs.max_runs] {
            let fleet = simulate(Plan {
                nodes_of_cell: nodes,
                runs,
                ..plan(nodes, seed, Fault::None)
            });
            print_uses(&format!("saturation_{nodes}_runs_{runs}"), &fleet);
        }
    }
}

/// Per million sessions that are started, at the load of the plan.
pub(crate) fn cost(nodes: usize, seed: u64, price: f64) {
    let fleet = simulate(plan(nodes, seed, Fault::None));
    let (name, time) = (format!("cost_{nodes}"), seconds(fleet.now));
    let creates = fleet.figures.before.count() + fleet.figures.after.count();
    let millions = creates as f64 / 1e6;
    let node_seconds = nodes as f64 * time / millions;
    let busy = |time: Time| seconds(time) / millions;
    let cpu: Time = fleet.nodes.iter().map(|node| node.cpu.busy()).sum();
    let database: Time = fleet.cells.iter().map(|cell| cell.database.busy()).sum();
    print(
        &name,
        "sessions_per_second",
        &format!("{:.0}", creates as f64 / time),
    );
    print(
        &name,
        "node_seconds_per_million",
        &format!("{node_seconds:.0}"),
    );
    let cells = fleet.cells.len() as f64 * time / millions;
    print(
        &name,
        "database_seconds_per_million",
        &format!("{cells:.0}"),
    );
    print(
        &name,
        "cpu_seconds_per_million",
        &format!("{:.0}", busy(cpu)),
    );
    print(
        &name,
        "database_busy_seconds_per_million",
        &format!("{:.0}", busy(database)),
    );
    let money = node_seconds / 3600.0 * price;
    print(
        &name,
        &format!("nodes_at_{price}_an_hour"),
        &format!("{money:.2}"),
    );
}

fn seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

fn print_count(name: &str, what: &str, count: usize) {
    print(name, what, &count.to_string());
}

fn print_time(name: &str, what: &str, times: &[Time], part: f64) {
    print(name, what, &milliseconds(times, part));
}
