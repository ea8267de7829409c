//! Tools of the host for code in a session, and calls of them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that is granted to a session, as code in it calls it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStub {
    /// Its name. Characters that are invalid in Python become `_`: `web-search` of the host is
    /// `tools.web_search` in code.
    pub name: String,
    /// Its description.
    pub description: String,
    /// JSON Schema of its arguments, which are an object. The order of the properties is the order
    /// of the parameters, required ones first.
    pub parameters: Value,
    /// JSON Schema of its result, if known. `{"x-belljar": "table"}` makes a result with `columns`
    /// and `rows`, or an array of objects, a `pandas.DataFrame`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// The id of a call, unique in its session.
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
    /// Number of its cell.
    pub cell: u32,
    /// Its number in the cell, counted from 1 in the order in which the code makes calls.
    pub number: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cell, self.number)
    }
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolResult {
    /// A value. One of more than 1 MiB becomes a file of the workspace.
    Value(Value),
    /// Something that is not JSON and stays with the host. In the session an object represents it,
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

/// The marker of a result that the host keeps: `⟦chart:7⟧`.
pub fn marker(name: &str, id: impl fmt::Display) -> String {
    format!("⟦{name}:{id}⟧")
}

/// Why a tool failed, in its own words: the message of the exception in the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// Why the host denied a call by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum CallDenial {
    /// The tool is not granted to this session.
    NotGranted,
    /// The caller of the cell does not answer calls.
    NobodyAnswers,
    /// The arguments don't match the tool's schema.
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
