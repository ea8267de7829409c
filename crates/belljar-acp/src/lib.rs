//! Belljar's agent in an editor, by the Agent Client Protocol, version 1.
//!
//! [`serve`] is one connection: a message a line, on two byte streams. A session of the protocol is a
//! conversation: its first prompt is a run, and each later one is a run that continues the one before.
//! The id of a session is the id of its first run, so that the journal is all that a session needs to
//! be loaded again.
//!
//! The types of the messages are those of the protocol's own crate. A client is not trusted: lines,
//! concurrent requests, sessions, runs and files are limited, files are read below the directory of the
//! session only, and whatever is not a clear permission is none.

mod cell_view;
mod client_files;
mod connection;
mod conversation;
mod directory;
mod history;
mod methods;
mod options;
mod peer;
mod permission;
mod prompt;
mod results;
mod serve;
mod servers;
mod turn;
mod updates;
mod words;

pub use connection::{Model, Offer};
pub use serve::{ServeError, serve};
