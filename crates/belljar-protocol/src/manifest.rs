//! What a namespace holds, and what a cell did to it and to the workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

/// What a cell did to the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Names that are new.
    #[serde(default)]
    pub added: Vec<NameInfo>,
    /// Names bound to another value, or whose length or shape changed.
    #[serde(default)]
    pub changed: Vec<NameInfo>,
    /// Names that are gone.
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
    /// What happened to it.
    pub change: ArtifactChange,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactChange {
    /// It was not there before the cell.
    Created,
    /// It was there with other contents.
    Changed,
}
