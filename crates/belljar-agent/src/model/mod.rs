//! Clients of model providers.
//!
//! A [`Profile`] says how a family of servers is talked to: where it is, which of two wire formats
//! it speaks, which key it wants, what it gets wrong. A [`Provider`] is a profile with a model's
//! name: it turns a [`ModelRequest`] into a body ([`Profile::body`], the same bytes for the same
//! request, without key or network), sends it, and makes one [`Reply`] of what comes back, streamed or not.
//!
//! This is written by hand on a plain HTTP client, because the parts that matter here are the ones
//! that libraries of this kind hide: the exact bytes of a request (runs are replayed and compared by
//! them), what is retried and why, where a reply was cut, which server left the usage out.
//!
//! # A server is not believed
//!
//! It may be slow, broken or hostile. Sizes are capped before memory is taken (a line, a reply, the
//! number of tool calls, the bytes on the wire); every wait has a limit; redirects are not followed,
//! since they would carry the key elsewhere; what it says in an error is shown without terminal
//! sequences and without the key.
//!
//! # What is not an error
//!
//! A reply cut by the limit of tokens is a reply with [`Finish::Length`]. Arguments of a tool call
//! that are not JSON are kept as they came: mending them is the work of a dialect. So are marks that
//! a model leaves in its text, as `<think>`.

mod anthropic;
mod draft;
mod error;
mod exchange;
mod http;
mod key;
mod openai;
mod profile;
mod provider;
mod refusal;
mod reply;
mod request;
mod sse;
mod tokens;

pub use error::{ModelError, ModelFault, Phase};
pub use http::{http_client, is_loopback};
pub use key::ApiKey;
pub use profile::{ModelName, ModelNameError, Prices, Profile, Retries, Timeouts, WireFormat};
pub use provider::Provider;
pub use reply::{Finish, Reply, ReplyEvent, Usage};
pub use request::{Message, ModelRequest, Part, ToolCall, ToolSpec};
pub use tokens::{estimate_request_tokens, estimate_tokens};
