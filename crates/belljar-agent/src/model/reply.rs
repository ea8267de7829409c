//! What a model answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::ToolCall;

/// A whole reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// What it said.
    pub text: String,
    /// What it thought, where the server tells that apart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// What it wants called, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
    /// The model that the server says it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Thoughts with the server's seal, which have to go back unchanged with this reply.
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
    /// All that the model read, cached or not.
    pub input_tokens: u64,
    /// All that it wrote, thoughts too.
    pub output_tokens: u64,
    /// How many of the input came from the server's cache.
    pub cached_tokens: u64,
    /// How many of the input were written to the server's cache.
    pub cache_write_tokens: u64,
    /// How many of the output were thoughts, where the server tells.
    pub thinking_tokens: u64,
    /// Whether a count was left out by the server, so that it is our estimate.
    pub estimated: bool,
}

/// What is heard of a reply while it comes.
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
    /// This attempt failed and there will be another. What was heard before is void.
    Retrying {
        /// Milliseconds from now.
        after_ms: u64,
        /// What happened.
        why: String,
    },
}
