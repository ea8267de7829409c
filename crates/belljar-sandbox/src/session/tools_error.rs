//! Why tools can't be granted to a session.

/// Why tools can't be granted to a session.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// There are too many, or their descriptions are too long.
    #[error("more than {tools} of them, or more than {bytes} bytes of descriptions")]
    TooMany {
        /// The most tools.
        tools: usize,
        /// The most bytes of their descriptions.
        bytes: usize,
    },
    /// No valid name in Python is left of the tool's.
    #[error("Python has no name for `{0}`")]
    NoName(String),
    /// The module `tools` has something else with this name.
    #[error("`{0}` is a name of the bridge itself")]
    Reserved(String),
    /// Two tools would have one name in Python.
    #[error("`{one}` and `{other}` would both be `tools.{identifier}`; rename one")]
    SameName {
        /// A tool.
        one: String,
        /// Another.
        other: String,
        /// The name of both in Python.
        identifier: String,
    },
    /// The schema of a tool's arguments is of something else than an object.
    #[error("the arguments of `{0}` are not an object")]
    NotObject(String),
    /// No valid name in Python is left of a parameter's.
    #[error("`{tool}`: Python has no name for the parameter `{parameter}`")]
    NoParameterName {
        /// The tool.
        tool: String,
        /// The parameter.
        parameter: String,
    },
    /// Two parameters of a tool would have one name in Python.
    #[error("`{tool}`: two parameters would both be `{identifier}`")]
    SameParameter {
        /// The tool.
        tool: String,
        /// The name of both in Python.
        identifier: String,
    },
}
