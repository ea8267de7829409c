//! Load on a service, and what comes of it. Server and load are on the same machine.
//!
//! ```text
//! cargo build --release -p belljar
//! cargo run --release -p belljar-server --example load -- target/release/belljar round-trip
//! … burst [SESSIONS]            sessions that are asked for at once, each to the result of a cell
//! … hold [SESSIONS] [SECONDS]   live sessions, each with a cell every ten seconds
//! … overload [SECONDS]          ten times as many cells as can be run, then a look whether it recovers
//! … fairness [SECONDS]          what one tenant sees while another uses all that it may
//! … jupyter [KERNELS] [SECONDS]  `hold` with the program `jupyter-kernelgateway` in the place of `belljar`
//! … memory [SECONDS]            1 GiB of memory, and every flood of bytes at once; needs root for the cgroup
//! … kills [KILLS]               the service is killed and started again under load; runs go on
//! … soak [SECONDS]              sessions and runs that end in every way; what grows is told
//! ```
//!
//! Arrivals are open-loop: a request has its time, and its latency counts from then, however late it is
//! sent. The environment is `default`, with pandas; tenants are ten.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for measuring, which may fail by panicking"
)]

mod fairness;
mod jupyter;
mod kills;
mod latencies;
mod memory;
mod pipe;
mod processes;
mod runs;
mod scenarios;
mod service;
mod soak;

use service::{Requests, Service};

#[tokio::main]
async fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| -> u64 {
        arguments
            .get(at)
            .map_or(usual, |text| text.parse().unwrap())
    };
    let [binary, scenario, ..] = &arguments[..] else {
        println!(
            "usage: load BELLJAR round-trip|burst|hold|overload|fairness|memory|kills|soak [N] [SECONDS]"
        );
        return;
    };
    if scenario == "jupyter" {
        // In the place of Belljar is the program `jupyter-kernelgateway`.
        return jupyter::hold(binary, number(2, 100), number(3, 60)).await;
    }
    if let ("flood", [_, _, key, busy @ ..]) = (scenario.as_str(), &arguments[..]) {
        // Of `fairness`: here is the address of the service.
        let requests = Requests::to(binary.clone(), Vec::new());
        return fairness::flood(&requests, key, busy).await;
    }
    if let ("memory-flood", [_, _, keys @ ..]) = (scenario.as_str(), &arguments[..]) {
        let requests = Requests::to(binary.clone(), Vec::new());
        return memory::flood(&requests, keys).await;
    }
    let model = runs::model();
    // What is killed is to be back soon.
    let environment = match scenario.as_str() {
        "kills" | "memory" => "bare",
        _ => "default",
    };
    let cgroup = (scenario == "memory").then(memory::Cgroup::make);
    let mut service = Service::start(binary, environment, &model.base_url(), cgroup.as_ref());
    let mut held = true;
    match scenario.as_str() {
        "round-trip" => scenarios::round_trip(&service).await,
        "burst" => scenarios::burst(&service, number(2, 200)).await,
        "hold" => scenarios::hold(&service, number(2, 1000), number(3, 600)).await,
        "overload" => scenarios::overload(&service, number(2, 30)).await,
        "fairness" => fairness::fairness(&service, number(2, 60)).await,
        "memory" => {
            if let Some(cgroup) = &cgroup {
                held = memory::memory(&service, cgroup, number(2, 600)).await;
            }
        }
        "kills" => kills::kills(&mut service, number(2, 50)).await,
        "soak" => soak::soak(&service, number(2, 3600)).await,
        other => println!("there is no `{other}`"),
    }
    service.stop();
    drop(cgroup);
    if !held {
        std::process::exit(1);
    }
}
