//! Where the value of a setting came from.

use std::fmt;
use std::path::PathBuf;

use belljar_sandbox::protocol::Language;
use serde_json::Value;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    File(PathBuf, usize),
    Profile(String),
    Default,
}

impl Origin {
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Flag(flag) => serde_json::json!({"kind": "flag", "flag": flag}),
            Self::Variable(name) => serde_json::json!({"kind": "variable", "variable": name}),
            Self::File(path, line) => {
                serde_json::json!({"kind": "file", "path": path, "line": line})
            }
            Self::Profile(name) => serde_json::json!({"kind": "profile", "profile": name}),
            Self::Default => serde_json::json!({"kind": "default"}),
        }
    }

    pub(crate) fn text(&self, language: Language) -> String {
        match self {
            Self::Flag(flag) => (*flag).to_owned(),
            Self::Variable(name) => format!("${name}"),
            Self::File(path, line) => format!("{}:{line}", path.display()),
            Self::Profile(name) => language.texts().settings.from_profile(name),
            Self::Default => language.texts().settings.from_default.to_owned(),
        }
    }
}

/// A value that holds, with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("-"),
            Value::String(text) => f.write_str(text),
            other => write!(f, "{other}"),
        }
    }
}
