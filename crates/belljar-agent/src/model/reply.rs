//! Replies of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::ToolCall;

/// A complete reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// Its text.
    pub text: String,
    /// Its reasoning, if the server separates it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// Its calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// Its usage.
    pub usage: Usage,
    /// The model, according to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning with the server's signature, which must go back unchanged with this reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed_thinking: Vec<Value>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done, or wrote a stop sequence.
    #[default]
    Stop,
    /// It waits for results of its calls.
    ToolCalls,
    /// The limit of tokens cut it.
    Length,
    /// A reason that we don't know, in the server's word.
    Other(String),
}

/// Tokens of one request and its reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input tokens, cached or not.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens from the server's cache.
    pub cached_tokens: u64,
    /// Input tokens written to the server's cache.
    pub cache_write_tokens: u64,
    /// Output tokens of reasoning, if the server reports them.
    pub thinking_tokens: u64,
    /// Whether a count was left out by the server, so that it is our estimate.
    pub estimated: bool,
}

/// Parts of a reply while it arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyEvent {
    /// More text.
    Text {
        /// What is added.
        delta: String,
    },
    /// More thought.
    Thinking {
        /// What is added.
        delta: String,
    },
    /// A call begins.
    ToolCall {
        /// Its place among the calls of the reply.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    ToolArguments {
        /// The call's place.
        index: usize,
        /// What is added.
        delta: String,
    },
    /// This attempt failed and will be retried. Earlier parts are void.
    Retrying {
        /// Milliseconds from now.
        after_ms: u64,
        /// What happened.
        why: String,
    },
}
