//! Tools: what the host does for code in a session, and the calls of them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that is granted to a session: what code in it needs to know to call it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStub {
    /// Its name. What Python can't say is replaced by `_`; code may call `tools.web_search` what
    /// the host calls `web-search`.
    pub name: String,
    /// What it does, in words.
    pub description: String,
    /// JSON Schema of its arguments, which are an object. The order of the properties is the order
    /// of the parameters, those that are required first.
    pub parameters: Value,
    /// JSON Schema of its result, where it is known. `{"x-belljar": "table"}` makes a result with
    /// `columns` and `rows`, or one that is an array of objects, a `pandas.DataFrame`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// Which call it is: no two of one session are the same.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub struct CallId {
    /// Number of the cell that makes it.
    pub cell: u32,
    /// Its number in the cell, counted from 1 in the order in which the code makes calls.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cell, self.number)
    }
}

/// What a tool gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolResult {
    /// A value. What is larger than a mebibyte becomes a file of the workspace.
    Value(Value),
    /// Something that is not JSON and stays with the host. In the session an object stands for it
    /// whose text is the marker; [`marker`] makes one.
    Kept {
        /// The text.
        marker: String,
    },
}

impl From<Value> for ToolResult {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// The marker that stands in text for a result which the host keeps: `⟦chart:7⟧`.
pub fn marker(name: &str, id: impl fmt::Display) -> String {
    format!("⟦{name}:{id}⟧")
}

/// Why a tool gave nothing back, in its own words: the message of the exception in the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// Why the host denied a call without asking anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum CallDenial {
    /// The tool is not granted to this session.
    NotGranted,
    /// Whoever runs the cell does not answer calls.
    NobodyAnswers,
    /// The arguments are not what the tool takes.
    Arguments {
        /// What is wrong with them.
        why: String,
    },
}

impl fmt::Display for CallDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted => f.write_str("this tool is not granted to this session"),
            Self::NobodyAnswers => f.write_str("nobody answers calls of this cell"),
            Self::Arguments { why } => write!(f, "the arguments don't fit: {why}"),
        }
    }
}
