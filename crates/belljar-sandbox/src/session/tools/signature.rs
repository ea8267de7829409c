//! Signatures of tools, for describing tools and for checking code.

use std::fmt;

use belljar_protocol::{GuestParameter, GuestTool, ToolStub};
use serde_json::Value;

use super::{python, schema};
use crate::error::Error;

/// The most characters of a default that a signature shows.
const DEFAULT: usize = 40;

/// A tool as a function of the module `tools`. Its text is that of Python:
///
/// ```
/// use belljar_sandbox::ToolSignature;
/// use belljar_sandbox::protocol::ToolStub;
/// use serde_json::json;
///
/// let search = ToolSignature::new(&ToolStub {
///     name: "web-search".into(),
///     description: "Searches the web.".into(),
///     parameters: json!({
///         "properties": {"limit": {"type": "integer", "default": 10}, "query": {"type": "string"}},
///         "required": ["query"],
///     }),
///     result: Some(json!({"x-belljar": "table"})),
/// })?;
/// let text = "web_search(query: str, limit: int = 10) -> DataFrame";
/// assert_eq!(search.to_string(), text);
/// # Ok::<(), belljar_sandbox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolSignature {
    tool: GuestTool,
    schema: Value,
}

impl ToolSignature {
    /// # Errors
    /// [`Error::Tools`] if Python can't call it; no session can be granted such a tool.
    pub fn new(stub: &ToolStub) -> Result<Self, Error> {
        let tool = python::stub(stub)?;
        let schema = stub.parameters.clone();
        Ok(Self { tool, schema })
    }

    /// Its name in the module `tools`.
    pub fn identifier(&self) -> &str {
        &self.tool.identifier
    }

    /// Its parameters in their order, required ones first.
    pub fn parameters(&self) -> &[GuestParameter] {
        &self.tool.parameters
    }

    /// Whether it accepts arguments with other names too.
    pub fn is_open(&self) -> bool {
        self.tool.open
    }

    /// What is wrong with a value for a parameter, if the host would deny a call for it.
    pub fn mismatch(&self, parameter: &GuestParameter, value: &Value) -> Option<String> {
        let schema = self.schema.get("properties")?.get(&parameter.name)?;
        schema::mismatch(value, schema, &format!("`{}`", parameter.identifier))
    }

    /// Whether the module `tools` has a name that is not a tool.
    pub fn is_reserved(name: &str) -> bool {
        name.starts_with("__") || python::RESERVED.contains(&name)
    }
}

impl fmt::Display for ToolSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.tool.identifier)?;
        let mut comma = "";
        for parameter in &self.tool.parameters {
            write!(
                f,
                "{comma}{}: {}",
                parameter.identifier, parameter.annotation
            )?;
            comma = ", ";
            if !parameter.required {
                let default = parameter.default.as_ref();
                write!(f, " = {}", default.map_or_else(|| "None".into(), literal))?;
            }
        }
        if self.tool.open {
            write!(f, "{comma}**arguments")?;
        }
        write!(f, ") -> {}", self.tool.returns)
    }
}

/// A default as Python writes it, or that there is a longer one.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Array(items) if !items.is_empty() => "[...]".into(),
        Value::Object(members) if !members.is_empty() => "{...}".into(),
        value => {
            let text = value.to_string();
            let is_short = text.chars().nth(DEFAULT).is_none();
            if is_short { text } else { "...".into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn signature(parameters: Value) -> ToolSignature {
        ToolSignature::new(&ToolStub {
            name: "a-b".into(),
            description: String::new(),
            parameters,
            result: None,
        })
        .unwrap()
    }

    #[test]
    fn signatures_are_python() {
        for (parameters, text) in [
            (json!({"properties": {}}), "a_b() -> Any"),
            (json!({}), "a_b(**arguments) -> Any"),
            (
                json!({"properties": {"from": {"type": "string"}}, "additionalProperties": true}),
                "a_b(from_: str = None, **arguments) -> Any",
            ),
            (
                json!({"properties": {
                    "a": {"default": true}, "b": {"default": [1]}, "c": {"default": "x\n"},
                    "d": {"default": "long".repeat(20)}, "e": {"default": {}},
                }}),
                r#"a_b(a: Any = True, b: Any = [...], c: Any = "x\n", d: Any = ..., e: Any = {}) -> Any"#,
            ),
        ] {
            assert_eq!(signature(parameters).to_string(), text);
        }
        let nameless = ToolStub {
            name: "北京".into(),
            description: String::new(),
            parameters: json!({}),
            result: None,
        };
        assert!(matches!(
            ToolSignature::new(&nameless),
            Err(Error::Tools(_))
        ));
    }

    #[test]
    fn values_are_judged_as_calls_are() {
        let signature = signature(json!({"properties": {"from": {"type": "integer"}}}));
        let from = &signature.parameters()[0];
        let wrong = r#"`from_`: not of type "integer""#;
        assert_eq!(
            signature.mismatch(from, &json!("a")).as_deref(),
            Some(wrong)
        );
        assert_eq!(signature.mismatch(from, &json!(3)), None);
    }
}
