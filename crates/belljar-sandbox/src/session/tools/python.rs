//! A tool as Python sees it: names, annotations and a doc string, from its JSON Schema.

use std::collections::HashSet;

use belljar_protocol::{GuestParameter, GuestTool, ToolStub};
use serde_json::Value;

use crate::session::tools_error::ToolsError;

/// Names in the module `tools` that are no tools.
pub(super) const RESERVED: [&str; 4] = ["ToolError", "ToolDenied", "Kept", "ResultFile"];

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// How deep annotations describe nested types.
const DEPTH: usize = 3;

/// The most values that an annotation lists.
const MAX_LISTED: usize = 12;

/// The definition of a tool for the guest, or why it can't be granted.
pub(super) fn stub(tool: &ToolStub) -> Result<GuestTool, ToolsError> {
    let name = &tool.name;
    let identifier = identifier(name).ok_or_else(|| ToolsError::NoName(shown(name)))?;
    if RESERVED.contains(&identifier.as_str()) {
        return Err(ToolsError::Reserved(identifier));
    }
    let schema = &tool.parameters;
    if schema
        .get("type")
        .is_some_and(|of| of.as_str() != Some("object"))
    {
        return Err(ToolsError::NotObject(name.clone()));
    }
    let parameters = parameters(name, schema)?;
    let open = match schema.get("additionalProperties") {
        None => parameters.is_empty() && schema.get("properties").is_none(),
        Some(more) => *more != Value::Bool(false),
    };
    let table = |schema: &Value| schema.get("x-belljar").and_then(Value::as_str) == Some("table");
    Ok(GuestTool {
        doc: doc(tool, &parameters),
        name: name.clone(),
        identifier,
        parameters,
        open,
        returns: tool
            .result
            .as_ref()
            .map_or_else(|| "Any".into(), |schema| annotation(schema, DEPTH)),
        table: tool.result.as_ref().is_some_and(table),
    })
}

fn parameters(tool: &str, schema: &Value) -> Result<Vec<GuestParameter>, ToolsError> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required: HashSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut seen = HashSet::new();
    let mut parameters = Vec::new();
    for (name, schema) in properties.into_iter().flatten() {
        let no_name = || ToolsError::NoParameterName {
            tool: tool.to_owned(),
            parameter: shown(name),
        };
        let identifier = identifier(name).ok_or_else(no_name)?;
        if !seen.insert(identifier.clone()) {
            let tool = tool.to_owned();
            return Err(ToolsError::SameParameter { tool, identifier });
        }
        let annotation = annotation(schema, DEPTH);
        parameters.push(GuestParameter {
            name: name.clone(),
            nullable: annotation == "Any" || annotation.split(" | ").any(|part| part == "None"),
            identifier,
            annotation,
            required: required.contains(name.as_str()),
            default: schema.get("default").cloned(),
        });
    }
    // The sort is stable: within each the order is the schema's.
    parameters.sort_by_key(|parameter| !parameter.required);
    Ok(parameters)
}

/// A valid Python name; none if nothing of it is left.
fn identifier(name: &str) -> Option<String> {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() { c } else { '_' }
    };
    let mut identifier: String = name.chars().map(plain).collect();
    if !identifier.contains(|c: char| c.is_ascii_alphanumeric()) || identifier.len() > 100 {
        return None;
    }
    if identifier.starts_with(|c: char| c.is_ascii_digit()) {
        identifier.insert(0, '_');
    }
    if identifier.starts_with("__") {
        return None;
    }
    if KEYWORDS.contains(&identifier.as_str()) {
        identifier.push('_');
    }
    Some(identifier)
}

/// A name in a message: short, and without commands to a terminal.
fn shown(name: &str) -> String {
    belljar_protocol::visible(&name.chars().take(100).collect::<String>()).into()
}

fn annotation(schema: &Value, depth: usize) -> String {
    if depth == 0 {
        return "Any".into();
    }
    if schema.get("x-belljar").and_then(Value::as_str) == Some("table") {
        return "DataFrame".into();
    }
    let listed = schema.get("enum").and_then(Value::as_array);
    if let Some(values) = listed.filter(|values| (1..=MAX_LISTED).contains(&values.len())) {
        let is_literal = |value: &&Value| value.is_string() || value.is_i64();
        if values.iter().all(|value| is_literal(&value)) {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            return format!("Literal[{}]", values.join(", "));
        }
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema.get(choice).and_then(Value::as_array) {
            return union(schemas.iter().map(|schema| annotation(schema, depth - 1)));
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) => of_type(name, schema, depth),
        Some(Value::Array(names)) => union(
            names
                .iter()
                .filter_map(Value::as_str)
                .map(|name| of_type(name, schema, depth)),
        ),
        _ => "Any".into(),
    }
}

fn of_type(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "string" => "str".into(),
        "integer" => "int".into(),
        "number" => "float".into(),
        "boolean" => "bool".into(),
        "null" => "None".into(),
        "object" => "dict".into(),
        "array" => match schema.get("items") {
            Some(items) => format!("list[{}]", annotation(items, depth - 1)),
            None => "list".into(),
        },
        _ => "Any".into(),
    }
}

fn union(types: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in types.take(MAX_LISTED) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() || parts.iter().any(|part| part == "Any") {
        "Any".into()
    } else {
        parts.join(" | ")
    }
}

fn doc(tool: &ToolStub, parameters: &[GuestParameter]) -> String {
    let described = |schema: Option<&Value>| {
        let words = schema.and_then(|schema| schema.get("description"));
        words.and_then(Value::as_str).map(str::to_owned)
    };
    let mut doc = tool.description.trim().to_owned();
    let properties = &tool.parameters["properties"];
    for (at, parameter) in parameters.iter().enumerate() {
        if at == 0 {
            doc.push_str("\n\nParameters:");
        }
        doc.push_str("\n    ");
        doc.push_str(&parameter.identifier);
        doc.push_str(" (");
        doc.push_str(&parameter.annotation);
        doc.push_str(if parameter.required {
            ")"
        } else {
            ", optional)"
        });
        if let Some(words) = described(properties.get(&parameter.name)) {
            doc.push_str(": ");
            doc.push_str(&words);
        }
    }
    if let Some(words) = described(tool.result.as_ref()) {
        doc.push_str("\n\nReturns:\n    ");
        doc.push_str(&words);
    }
    doc
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, parameters: Value) -> ToolStub {
        ToolStub {
            name: name.into(),
            description: String::new(),
            parameters,
            result: None,
        }
    }

    #[test]
    fn names_become_identifiers() {
        for (name, expected) in [
            ("search", Some("search")),
            ("web-search", Some("web_search")),
            ("3d.plot", Some("_3d_plot")),
            ("import", Some("import_")),
            ("a b\u{202e}", Some("a_b_")),
            ("__class__", None),
            ("北京", None),
            ("", None),
        ] {
            assert_eq!(identifier(name).as_deref(), expected, "{name}");
        }
        let refused = |name, schema| stub(&tool(name, schema)).unwrap_err();
        assert_eq!(
            refused("ToolError", json!({})),
            ToolsError::Reserved("ToolError".into())
        );
        let twice = refused("x", json!({"properties": {"a-b": {}, "a_b": {}}}));
        assert!(
            matches!(&twice, ToolsError::SameParameter { identifier, .. } if identifier == "a_b")
        );
        assert_eq!(twice.to_string(), "`x`: two parameters would both be `a_b`");
        assert_eq!(
            refused("x", json!({"type": "array"})),
            ToolsError::NotObject("x".into())
        );
    }

    #[test]
    fn schemas_become_annotations() {
        for (schema, expected) in [
            (json!({"type": "integer"}), "int"),
            (json!({"type": ["string", "null"]}), "str | None"),
            (
                json!({"enum": ["a", "b\"", 3]}),
                r#"Literal["a", "b\"", 3]"#,
            ),
            (
                json!({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
                "list[list[float]]",
            ),
            (
                json!({"anyOf": [{"type": "boolean"}, {"type": "null"}, {"type": "boolean"}]}),
                "bool | None",
            ),
            (json!({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}), "Any"),
            (json!({"x-belljar": "table"}), "DataFrame"),
            (json!(true), "Any"),
            (json!("nonsense"), "Any"),
        ] {
            assert_eq!(annotation(&schema, DEPTH), expected, "{schema}");
        }
    }
}
