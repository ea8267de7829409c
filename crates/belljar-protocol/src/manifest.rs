//! The contents of a namespace, and the changes of a cell to it and to the workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::plain::visible;

/// The most characters of a preview.
const MAX_PREVIEW: usize = 80;

/// One name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameInfo {
    /// The name.
    pub name: String,
    /// Type of its value, with the module unless that is `builtins`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Shape of an array or table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    /// Length of a built-in container or string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Estimate of the bytes it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The cell where it was bound; 0 for a seeded name.
    pub cell: u32,
    /// The beginning of its value on one line, for built-in types and those of numpy and pandas. Only the manifest
    /// has it, not the changes of a cell.
    #[serde(
        default,
        deserialize_with = "preview",
        skip_serializing_if = "Option::is_none"
    )]
    pub preview: Option<String>,
}

/// Cut and without disguise, whatever a guest sends: later code need not care.
fn preview<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let given = Option::<String>::deserialize(from)?;
    Ok(given.map(|given| {
        let start: String = given.chars().take(MAX_PREVIEW + 1).collect();
        let shown = visible(&start);
        match shown.char_indices().nth(MAX_PREVIEW) {
            None => shown.into_owned(),
            Some(_) => shown.chars().take(MAX_PREVIEW - 1).chain(['…']).collect(),
        }
    }))
}

/// Changes of a cell to the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// New names.
    #[serde(default)]
    pub added: Vec<NameInfo>,
    /// Names bound to another value, or whose length or shape changed.
    #[serde(default)]
    pub changed: Vec<NameInfo>,
    /// Removed names.
    #[serde(default)]
    pub removed: Vec<String>,
}

/// A file that a cell made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Path relative to the workspace.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The change.
    pub change: ArtifactChange,
}

/// A change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactChange {
    /// It is new.
    Created,
    /// It had other contents.
    Changed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(preview: &str) -> String {
        let name = serde_json::json!({"name": "x", "type": "str", "cell": 1, "preview": preview});
        let name: NameInfo = serde_json::from_value(name).unwrap();
        // What was read once is read the same again.
        let again = serde_json::to_value(&name).unwrap();
        assert_eq!(serde_json::from_value::<NameInfo>(again).unwrap(), name);
        name.preview.unwrap()
    }

    #[test]
    fn previews_are_short_and_without_disguise() {
        assert_eq!(shown("41"), "41");
        assert_eq!(shown(&"é".repeat(80)), "é".repeat(80));
        let long = shown(&"字".repeat(3_000_000));
        assert_eq!(long, "字".repeat(79) + "…");
        assert_eq!(
            shown("a\u{1b}[2J\n\u{202e}b"),
            "a<U+001B>[2J<U+000A><U+202E>b"
        );
        assert_eq!(shown(&"\u{202e}".repeat(100)).chars().count(), 80);
    }
}
