//! The Model Context Protocol: sessions for other programs, and tools of theirs.
//!
//! # Sessions for other programs
//!
//! [`Sessions`] are those of one client, or of one tenant, within its [`Permits`]. A [`Server`] answers the calls of one
//! connection; it knows nothing of how the messages travel, so that a server of HTTP can hand it to
//! its own transport. With [`Runs`] it offers an agent, too; with approvals it has its client ask a
//! person before code runs. [`serve`] is the transport for a program that is started by its client: a
//! message a line, on two byte streams.
//!
//! What a client sends is not believed: lines, calls at once, sessions and results are bounded, and
//! what is wrong with a message is told in the answer to it.
//!
//! # Tools of other programs
//!
//! [`connect`] gives a [`Connection`] to a server of the settings, a [`ServerSpec`]; its tools are for
//! the code of runs. What a server sends is believed as little.

mod cell;
mod client;
mod files;
mod lines;
mod permits;
mod question;
mod report;
mod runs;
mod serve;
mod server;
mod sessions;
mod tasks;
mod tools;
mod values;
mod work;

pub use client::{
    Accept, ClientError, Connection, Header, OfferedTool, Part, ServerSpec, Source, Withheld,
    connect,
};
pub use permits::{Permit, Permits};
pub use runs::Runs;
pub use serve::{ServeError, serve};
pub use server::Server;
pub use sessions::Sessions;
pub use values::count_values;
