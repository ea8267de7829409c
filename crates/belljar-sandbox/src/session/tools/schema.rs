//! Whether a value matches a JSON Schema, as far as mistakes of callers go: `type`, `enum`,
//! `const`, `required`, `properties`, `additionalProperties: false`, `items`. The tool checks the
//! rest; a full validator would be a larger thing to trust than any tool.

use serde_json::Value;

/// What is wrong with the value; `at` is its place.
pub(super) fn mismatch(value: &Value, schema: &Value, at: &str) -> Option<String> {
    let place = if at.is_empty() { "they" } else { at };
    if let Some(types) = schema.get("type") {
        let fits = match types {
            Value::String(name) => is_of(value, name),
            Value::Array(names) => names
                .iter()
                .any(|name| name.as_str().is_some_and(|name| is_of(value, name))),
            _ => true,
        };
        if !fits {
            return Some(format!("{place}: not of type {}", cut(&types.to_string())));
        }
    }
    let allowed = schema.get("enum").and_then(Value::as_array);
    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
        let allowed = cut(&schema["enum"].to_string());
        return Some(format!("{place}: not one of {allowed}"));
    }
    if schema
        .get("const")
        .is_some_and(|constant| constant != value)
    {
        return Some(format!(
            "{place}: not {}",
            cut(&schema["const"].to_string())
        ));
    }
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    return Some(format!("`{}` is missing", cut(name)));
                }
            }
            let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            members.iter().find_map(|(name, member)| {
                match properties.and_then(|properties| properties.get(name)) {
                    Some(schema) => mismatch(member, schema, &format!("`{}`", cut(name))),
                    None => closed.then(|| format!("`{}` is unknown", cut(name))),
                }
            })
        }
        Value::Array(items) => {
            let schema = schema.get("items").filter(|schema| schema.is_object())?;
            let at = format!("an item of {place}");
            items.iter().find_map(|item| mismatch(item, schema, &at))
        }
        _ => None,
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // By JSON Schema 1.0 is one.
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// So that a denial is short, whatever was given.
fn cut(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::mismatch;

    #[test]
    fn mistakes_are_found_and_named() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "who": {"type": ["string", "null"]},
                "unit": {"enum": ["c", "f"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"type": "object", "required": ["city"], "additionalProperties": false},
            },
            "required": ["n"],
            "additionalProperties": false,
        });
        for good in [
            json!({"n": 1}),
            json!({"n": 1.0, "who": null, "unit": "c", "tags": ["a"]}),
        ] {
            assert_eq!(mismatch(&good, &schema, ""), None, "{good}");
        }
        for (bad, words) in [
            (json!([]), r#"they: not of type "object""#),
            (json!({}), "`n` is missing"),
            (json!({"n": 1.5}), r#"`n`: not of type "integer""#),
            (json!({"n": 1, "x": 1}), "`x` is unknown"),
            (
                json!({"n": 1, "unit": "k"}),
                r#"`unit`: not one of ["c","f"]"#,
            ),
            (
                json!({"n": 1, "tags": ["a", 1]}),
                r#"an item of `tags`: not of type "string""#,
            ),
            (json!({"n": 1, "where": {}}), "`city` is missing"),
        ] {
            assert_eq!(mismatch(&bad, &schema, "").as_deref(), Some(words), "{bad}");
        }
    }
}
