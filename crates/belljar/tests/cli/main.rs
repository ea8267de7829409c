//! The whole program, from outside: exit code, standard output, standard error, and what is left
//! on the host when it has ended.
//!
//! Most tests use the environment `bare` (no packages, built here in a second if it is missing):
//! its template is warm at once. The few that need libraries use `default`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod acp;
mod approvals;
mod backup;
mod branches;
#[path = "../../../belljar-sandbox/tests/support/clock.rs"]
mod clock;
mod cluster;
mod config;
mod crash;
mod demo;
mod exec;
mod exports;
mod faults;
mod images;
mod import;
mod input;
mod languages;
mod mcp;
mod mcp_agent;
mod mcp_approvals;
mod mcp_commands;
mod mcp_servers;
mod mcp_tools;
mod node_tls;
mod nodes;
mod notebooks;
mod objects;
mod options;
#[path = "../../src/options_table.rs"]
mod options_table;
mod others;
mod packages;
#[path = "../../../belljar-journal/tests/postgres/mod.rs"]
mod postgres;
mod readme;
mod repl;
mod repl_terminal;
mod reproduce;
mod run;
mod run_interrupts;
mod run_screen;
mod runs_list;
mod screens;
mod secrets;
mod serve;
mod shell;
mod snapshots;
mod steered;
mod support;
mod telemetry;
mod tiers;
mod transfer;
mod typist;
mod upgrade;
#[path = "../../../belljar-journal/tests/weed/mod.rs"]
mod weed;
mod wrong;
