//! A fleet of up to thousands of nodes in virtual time: what saturates first, and what losses cost.
//!
//! ```text
//! cargo run -p belljar-server --example fleet -- steady [NODES] [SEED]
//! … deaths [NODES] [SEED] [PERCENT]        so many nodes die at once; 60 % load
//! … mixed [NODES] [SEED] [PERCENT]         the same with 86 % load, and half of the nodes half as large; two placements
//! … outage [NODES] [SEED] [SECONDS]        the database of one cell is gone
//! … hot [NODES] [SEED] [RATE]              one tenant asks for so many sessions in a second
//! … saturation [NODES] [SEED]              this and more nodes on one database
//! … cost [NODES] [SEED] [PRICE]            of a million sessions, if a node costs this in an hour
//! ```
//!
//! Placement, admission, start queue, leases and beats are the code of the service. The same seed gives the same output.
//! docs/scale.md says what is simulated, and has the figures.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a tool for measuring: its numbers are small, and it may fail by panicking"
)]

mod clock;
mod costs;
mod creates;
mod faults;
mod figures;
mod fleet;
mod ownership;
mod router;
mod scenarios;
#[cfg(test)]
mod tests;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> Option<f64> { Some(arguments.get(at)?.parse().unwrap()) };
    let nodes = |usual: usize| number(1).map_or(usual, |nodes| nodes as usize);
    let seed = number(2).map_or(1, |seed| seed as u64);
    let last = |usual: f64| number(3).unwrap_or(usual);
    match arguments.first().map_or("", String::as_str) {
        "steady" => scenarios::steady(nodes(1000), seed),
        "deaths" => scenarios::deaths(nodes(1000), seed, last(10.0)),
        "mixed" => scenarios::mixed(nodes(50), seed, last(10.0)),
        "outage" => scenarios::outage(nodes(50), seed, last(30.0)),
        "hot" => scenarios::hot(nodes(50), seed, last(2000.0)),
        "saturation" => scenarios::saturation(nodes(50), seed),
        "cost" => scenarios::cost(nodes(50), seed, last(0.1)),
        other => println!("no scenario `{other}`: see the head of the example's main.rs"),
    }
}
