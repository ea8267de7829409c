//! The Model Context Protocol: sessions for other programs, and tools of theirs.
//!
//! # Sessions for other programs
//!
//! [`Sessions`] are those of one client or tenant, within its admission ([`Permits`]). A [`Server`]
//! answers the calls of one connection; it is independent of the transport, so that an HTTP server
//! can use it. With [`Runs`] it offers an agent, too; with approvals it has its client ask a person
//! before code runs. [`serve`] is the transport for a program that is started by its client: a
//! message a line, on two byte streams.
//!
//! A client is not trusted: lines, concurrent calls, sessions and results are limited, and errors
//! of a message are returned in the answer to it.
//!
//! # Tools of other programs
//!
//! [`connect`] returns a [`Connection`] to a server of the settings, a [`ServerSpec`]; its tools
//! are for the code of runs. A server is not trusted either.
//!
//! # For other protocols of lines
//!
//! [`LineStreams`] are bounded lines on two byte streams, and [`approval_text`] is all that a person
//! needs to decide.

mod arguments;
mod cell;
mod client;
mod commands;
mod error;
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
    Accept, ClientError, Connection, Header, OfferError, OfferedTool, Part, ServerSpec, Source,
    SpecError, ValueError, Withheld, connect,
};
pub use error::CallError;
pub use lines::{Line, LineStreams, MAX_LINE, line_of};
pub use permits::{Permit, Permits};
pub use question::approval_text;
pub use runs::Runs;
pub use serve::{ServeError, serve};
pub use server::Server;
pub use sessions::Sessions;
pub use values::count_values;
