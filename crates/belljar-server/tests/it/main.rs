//! The service, as its clients see it: a real server on a loopback port, real sessions in the environment
//! `bare`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod bounds;
mod cells;
mod checkpoints;
mod documents;
mod drain;
mod files;
mod http;
mod idempotency;
mod metrics;
mod runs;
mod sessions;
mod steering;
mod support;
mod tenants;
mod web;
