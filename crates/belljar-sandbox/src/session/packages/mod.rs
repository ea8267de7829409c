//! Packages that are installed into a live session.
//!
//! `uv` resolves them on the host and unpacks their wheels into a layer: a directory named by its
//! contents, kept in the data directory, and shown read-only to its sessions. The environment stays
//! as it is. Nothing of a package runs on the host.

mod error;
mod install;
mod layer;
mod policy;
mod requirement;
mod store;
mod suggest;
mod tree;
mod wheels;

pub use error::PackageError;
pub use policy::Packages;
pub use requirement::{Requirement, requires};
pub use store::PackageStore;

pub(crate) use install::{give_back, install, paths};
pub(crate) use layer::Layer;
pub(crate) use store::LAYERS;
pub(crate) use suggest::suggestion;
