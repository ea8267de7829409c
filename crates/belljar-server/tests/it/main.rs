//! The service, as its clients see it: a real server on a loopback port, real sessions in the environment
//! `bare`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod admin;
mod admission;
mod cells;
mod checkpoints;
mod clock;
mod cluster;
mod command_quotas;
mod commands;
mod deletion;
mod documents;
mod drain;
mod drained;
mod e2b;
mod endings;
mod fairness;
mod faults;
mod files;
mod handover;
mod http;
mod idempotency;
#[allow(dead_code, reason = "another test uses more of it")]
#[path = "../../../belljar-sandbox/tests/network/world.rs"]
mod internet;
mod isolation;
mod jupyter;
mod jupyter_client;
mod leases;
mod library;
mod mcp;
mod mcp_client;
mod metrics;
mod namespaces;
mod node_tls;
mod nodes;
mod notebooks;
mod objects;
mod openai;
mod passed_on;
mod placement;
mod places;
mod port_client;
mod ports;
#[path = "../../../belljar-journal/tests/postgres/mod.rs"]
mod postgres;
mod quotas;
mod runs;
mod sessions;
#[path = "../../../belljar-sandbox/tests/support/clock.rs"]
mod set_clock;
mod socket;
mod spread;
mod steering;
mod support;
mod tables;
mod tenants;
mod tls;
mod uploads;
mod variables;
mod web;
#[path = "../../../belljar-journal/tests/weed/mod.rs"]
mod weed;
mod wires;
