//! Sessions as a user of the library meets them: real Python behind real walls.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::format_collect, reason = "expected texts are small")]

mod blas;
mod cells;
mod checkpoints;
mod commands;
mod compatibility;
mod container;
mod container_faults;
mod container_hostile;
mod container_long;
mod covert;
mod directories;
mod displays;
mod files;
mod forks;
mod forks_files;
mod forks_shared;
mod forks_state;
mod gvisor;
mod hibernate;
mod hygiene;
mod input;
mod ipython;
mod limits;
mod namespaces;
mod outcomes;
mod packages;
mod packages_hostile;
mod ports;
mod posture;
mod previews;
mod reference;
mod sessions;
mod snapshots;
mod snapshots_hostile;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod templates;
mod tools;
mod unwalled;
mod variables;
mod walls;
#[path = "../support/wheels.rs"]
mod wheels;
