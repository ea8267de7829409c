//! An agent that answers with Python.
//!
//! [`Provider`] talks to a language model: one [`ModelRequest`] in, one [`Reply`] out, whatever the
//! model's server speaks.

mod model;

pub use model::{
    ApiKey, Finish, Message, ModelError, ModelFault, ModelName, ModelNameError, ModelRequest, Part,
    Phase, Prices, Profile, Provider, Reply, ReplyEvent, Retries, Timeouts, ToolCall, ToolSpec,
    Usage, WireFormat, estimate_request_tokens, estimate_tokens,
};
