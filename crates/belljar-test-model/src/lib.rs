//! A scripted model server for tests.
//!
//! It listens on a port of loopback, speaks the two formats of model servers
//! (`/v1/chat/completions` and `/v1/messages`, streamed or not, as requested), replies by a script,
//! misbehaves if the script says so, and records every request to the byte.
//!
//! ```
//! use belljar_test_model::{Scripted, ScriptedModel};
//! use serde_json::json;
//!
//! # fn main() -> std::io::Result<()> {
//! let model = ScriptedModel::start([
//!     Scripted::call("python", json!({"code": "6 * 7"})),
//!     Scripted::text("It is 42."),
//! ])?;
//! // … ask at model.base_url() …
//! assert_eq!(model.requests().len(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! The server has a thread of its own, so a test may block. It ends when it is dropped. HTTP is
//! spoken by hand, on `httparse`: what it is for is to do what a proper server never does, such as
//! cutting a reply after a given byte.

mod record;
mod script;
mod server;
mod wire;

pub use record::Recorded;
pub use script::Scripted;
pub use server::ScriptedModel;
