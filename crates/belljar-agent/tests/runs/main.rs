//! Runs from end to end: a scripted model, real sessions, a real journal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod approvals;
mod branches;
mod bridge;
mod claims;
mod corpus;
mod data_scenarios;
mod direct;
mod emergency;
mod emergency_data;
mod judgement;
mod recovery;
mod reproduce;
mod scenarios;
mod seen;
mod support;
mod tool_calls;
