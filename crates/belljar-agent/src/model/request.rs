//! Requests to a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request to a model, in no server's format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// A JSON schema for the text of the reply.
    pub response_schema: Option<Value>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// The most tokens of the reply; by default those of the server or the profile.
    pub max_tokens: Option<u32>,
    /// Sampling temperature; by default that of the server.
    pub temperature: Option<f64>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The system prompt.
    System {
        /// The text.
        text: String,
    },
    /// A message of the user.
    User {
        /// Text and images.
        parts: Vec<Part>,
    },
    /// An earlier reply of the model.
    Assistant {
        /// The text.
        text: String,
        /// Its calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// [`Reply::sealed_thinking`](crate::Reply::sealed_thinking) of that reply.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sealed_thinking: Vec<Value>,
    },
    /// The result of one of its calls.
    ToolResult {
        /// The call's id.
        call_id: String,
        /// The tool's name.
        name: String,
        /// Text and images.
        parts: Vec<Part>,
        /// Whether the call failed.
        #[serde(default)]
        is_error: bool,
    },
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// As `image/png`.
        media_type: String,
        /// Its bytes in Base64.
        base64: String,
    },
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// A call by a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Unique within a reply. Empty for the `function_call` of older servers, whose result is then
    /// sent in the older form too.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON, if all is well.
    pub arguments: String,
}

impl Message {
    /// A message of the user that is only text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            parts: vec![Part::Text { text: text.into() }],
        }
    }

    /// The message that a reply becomes in the conversation.
    pub fn assistant(reply: crate::Reply) -> Self {
        Self::Assistant {
            text: reply.text,
            tool_calls: reply.tool_calls,
            sealed_thinking: reply.sealed_thinking,
        }
    }

    /// A result that is only text.
    pub fn tool_result(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            parts: vec![Part::Text { text: text.into() }],
            is_error: false,
        }
    }
}

impl ToolCall {
    /// The arguments as an object, for servers that parse them. llama.cpp refuses a conversation in
    /// which any earlier call has broken arguments, so broken ones are wrapped.
    pub(super) fn input(&self) -> Value {
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(map)) => Value::Object(map),
            _ => serde_json::json!({ "unparsed": self.arguments }),
        }
    }
}

/// The texts among some parts, one below the other.
pub(super) fn joined_text(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image { .. } => None,
        })
        .collect();
    texts.join("\n")
}
