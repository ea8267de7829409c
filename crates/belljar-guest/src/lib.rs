//! The Python that runs in a template and in its sessions, embedded as source.
//!
//! The files are a package, `belljar_guest`, that the walls mount read-only into every session.

/// The files of the package: path relative to the package's parent directory, and contents.
pub const FILES: &[(&str, &str)] = &[];
