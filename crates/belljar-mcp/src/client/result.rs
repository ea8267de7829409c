//! Results of tools, as code in a session gets them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_agent::Given;
use belljar_protocol::ToolError;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::offer::words;

/// The most characters of a tool's error message.
const MAX_ERROR: usize = 2000;

/// The result of a call; `schema` is the tool's schema of its results.
///
/// Structured content takes precedence. Without it: no content is `None`; one text is a string, or
/// its JSON value if the schema wants something else than a string; one image, sound or binary
/// resource is kept; several contents are a list of strings, and of objects with `type`,
/// `mime_type` and `data` (base64) for what is not text, or `uri` and `name` for a link.
pub(super) fn given(result: CallToolResult, schema: Option<&Value>) -> Result<Given, ToolError> {
    if result.is_error == Some(true) {
        return Err(failure(&result.content));
    }
    if let Some(value) = result.structured_content {
        return Ok(Given::Value(value));
    }
    let mut contents = result.content;
    match contents.len() {
        0 => Ok(Given::Value(Value::Null)),
        1 => match contents.pop().map(Piece::from) {
            Some(Piece::Text(text)) => Ok(Given::Value(parsed(text, schema))),
            Some(Piece::Data { mime, base64, .. }) => match STANDARD.decode(base64) {
                Ok(data) => Ok(Given::Kept { mime, data }),
                Err(_) => Err(ToolError("the tool's data is not base64".into())),
            },
            Some(Piece::Link(link)) => Ok(Given::Value(link)),
            None => Ok(Given::Value(Value::Null)),
        },
        _ => {
            let items = contents.into_iter().map(Piece::from).map(Piece::item);
            Ok(Given::Value(items.collect()))
        }
    }
}

/// The tool's own message.
fn failure(contents: &[ContentBlock]) -> ToolError {
    let texts = contents.iter().filter_map(|content| match content {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let said = words(&texts.collect::<Vec<_>>().join("\n"), MAX_ERROR);
    if said.is_empty() {
        return ToolError("the tool failed, and did not say why".into());
    }
    ToolError(said)
}

fn parsed(text: String, schema: Option<&Value>) -> Value {
    let wanted = schema.and_then(|schema| schema.get("type"));
    let is_text = wanted.is_none_or(|kind| kind == "string");
    match serde_json::from_str(&text) {
        Ok(value) if !is_text => value,
        _ => Value::String(text),
    }
}

enum Piece {
    Text(String),
    Data {
        kind: &'static str,
        mime: String,
        base64: String,
    },
    Link(Value),
}

impl From<ContentBlock> for Piece {
    fn from(content: ContentBlock) -> Self {
        let data = |kind, mime: Option<String>, base64| Self::Data {
            kind,
            mime: mime
                .filter(|mime| is_mime(mime))
                .unwrap_or_else(|| "application/octet-stream".into()),
            base64,
        };
        match content {
            ContentBlock::Text(text) => Self::Text(text.text),
            ContentBlock::Image(image) => data("image", Some(image.mime_type), image.data),
            ContentBlock::Audio(audio) => data("audio", Some(audio.mime_type), audio.data),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { text, .. } => Self::Text(text),
                ResourceContents::BlobResourceContents {
                    mime_type, blob, ..
                } => data("resource", mime_type, blob),
                _ => Self::Link(Value::Null),
            },
            ContentBlock::ResourceLink(link) => Self::Link(json!({
                "type": "resource_link", "uri": link.uri, "name": link.name,
            })),
            _ => Self::Link(Value::Null),
        }
    }
}

impl Piece {
    fn item(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Data { kind, mime, base64 } => {
                json!({"type": kind, "mime_type": mime, "data": base64})
            }
            Self::Link(link) => link,
        }
    }
}

/// Names of files are made of it.
fn is_mime(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/.+-".contains(&byte);
    text.len() <= 100 && text.matches('/').count() == 1 && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: Value, schema: &Value) -> Result<Given, ToolError> {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        given(result, Some(schema).filter(|schema| !schema.is_null()))
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn contents_become_values() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBO"});
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "A"}});
        for (result, schema, value) in [
            (json!({"content": []}), Value::Null, Value::Null),
            (json!({"content": [text("{}")]}), Value::Null, json!("{}")),
            (
                json!({"content": [text("{\"a\": 1}")]}),
                json!({"type": "object"}),
                json!({"a": 1}),
            ),
            (
                json!({"content": [text("{")]}),
                json!({"type": "object"}),
                json!("{"),
            ),
            (
                json!({"content": [text("7")]}),
                json!({"type": "string"}),
                json!("7"),
            ),
            (
                json!({"content": [text("x")], "structuredContent": {"a": 1}}),
                json!({"type": "object"}),
                json!({"a": 1}),
            ),
            (
                json!({"content": [text("x"), image, link, resource]}),
                Value::Null,
                json!(["x", {"type": "image", "mime_type": "image/png", "data": "iVBO"}, link, "A"]),
            ),
        ] {
            let given = of(result.clone(), &schema).unwrap();
            assert_eq!(given, Given::Value(value), "{result}");
        }
    }

    #[test]
    fn what_is_not_text_is_kept() {
        let kept = |content: Value| of(json!({"content": [content]}), &Value::Null);
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
        let data = b"hi".to_vec();
        let mime = "image/png".to_owned();
        assert_eq!(
            kept(image),
            Ok(Given::Kept {
                mime,
                data: data.clone()
            })
        );
        let blob = json!({"type": "resource", "resource": {
            "uri": "file:///a", "mimeType": "../../x/y", "blob": "aGk=",
        }});
        let mime = "application/octet-stream".to_owned();
        assert_eq!(kept(blob), Ok(Given::Kept { mime, data }));
        let broken = json!({"type": "audio", "mimeType": "audio/wav", "data": "?"});
        assert!(kept(broken).unwrap_err().0.contains("base64"));
    }

    #[test]
    fn a_failure_is_told_in_plain_words() {
        let failed = |content: Value| {
            let result = json!({"content": content, "structuredContent": {}, "isError": true});
            of(result, &Value::Null).unwrap_err().0
        };
        assert_eq!(
            failed(json!([text("no \u{1b}[31mfile\u{202e}")])),
            "no file<U+202E>"
        );
        assert_eq!(failed(json!([])), "the tool failed, and did not say why");
        let long = failed(json!([text(&"y".repeat(9000))]));
        assert_eq!(long.chars().count(), MAX_ERROR + 1);
    }
}
