//! Clients of model providers.
//!
//! A [`Profile`] describes a family of servers: its address, its wire format (one of two), its key,
//! its quirks. A [`Provider`] is a profile with a model's name: it turns a [`ModelRequest`] into a
//! body ([`Profile::body`], the same bytes for the same request, without key or network), sends it,
//! and makes one [`Reply`] of the response, streamed or not.
//!
//! This is written by hand on a plain HTTP client, because the parts that matter here are the ones
//! that libraries of this kind hide: the exact bytes of a request (runs are replayed and compared by
//! them), what is retried and why, where a reply was cut, which server left the usage out.
//!
//! # A server is not trusted
//!
//! It may be slow, broken or hostile. Sizes are capped before memory is allocated (a line, a reply,
//! the number of tool calls, the bytes on the wire). Every wait has a timeout. Redirects are not
//! followed, since they would carry the key elsewhere. Error messages are shown without terminal
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
pub use http::{http_client, http_client_builder, is_loopback};
pub use key::ApiKey;
pub use profile::{ModelName, ModelNameError, Prices, Profile, Retries, Timeouts, WireFormat};
pub use provider::Provider;
pub use reply::{Finish, Reply, ReplyEvent, Usage};
pub use request::{Message, ModelRequest, Part, ToolCall, ToolSpec};
pub use tokens::{estimate_request_tokens, estimate_tokens};
