//! Live Python sessions behind walls.
//!
//! An [`Engine`] keeps a warmed template of one [`Environment`] and forks [`Session`]s from it in
//! milliseconds. A session runs cells one after another in the same interpreter; each ends in a
//! typed [`Outcome`](belljar_protocol::Outcome).

mod capture;
mod cell;
mod channel;
mod directory;
mod engine;
mod environment;
mod error;
mod files;
mod guest;
mod limits;
mod measure;
mod session;
mod template;
mod warm;

pub use belljar_protocol as protocol;
pub use belljar_walls::{Entry, EntryKind};
pub use engine::{Engine, EngineBuilder};
pub use environment::{
    Environment, EnvironmentError, EnvironmentSpec, EnvironmentStore, LockedPackage,
};
pub use error::Error;
pub use files::Listing;
pub use limits::Limits;
pub use session::{Cell, CellRun, Session, WhenBusy};

/// The example of the README, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
