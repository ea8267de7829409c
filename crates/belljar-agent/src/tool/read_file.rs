//! `read_file`: a text file of the workspace, with the rules of scenario S15.

use belljar_protocol::Language;
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Surface, Tool, ToolContext, ToolOutput, purpose};
use crate::ToolSpec;

/// The tool's name.
pub const READ_FILE: &str = "read_file";

/// The arguments of a call.
#[derive(Debug, Deserialize)]
struct ReadFile {
    #[serde(alias = "path", alias = "file")]
    file_path: String,
    #[serde(default = "utf8")]
    encoding: String,
    #[serde(default = "one", deserialize_with = "number")]
    max_size_mb: f64,
}

fn utf8() -> String {
    "utf-8".into()
}

fn one() -> f64 {
    1.0
}

/// A number, also one that was written as text.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    }
    .ok_or_else(|| serde::de::Error::custom("`max_size_mb` must be a number"))
}

/// The tool.
#[derive(Debug)]
pub(super) struct ReadFileTool;

impl Tool for ReadFileTool {
    fn name(&self) -> &'static str {
        READ_FILE
    }

    fn surfaces(&self) -> &'static [Surface] {
        &[Surface::Cli, Surface::Http]
    }

    fn needs_session(&self) -> bool {
        true
    }

    fn spec(&self, language: Language) -> ToolSpec {
        let texts = language.prompts();
        ToolSpec {
            name: READ_FILE.into(),
            description: texts.read_file_tool.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool_call_purpose": purpose(language),
                    "file_path": { "type": "string", "description": texts.read_file_path },
                    "encoding": { "type": "string", "default": "utf-8", "description": texts.read_file_encoding },
                    "max_size_mb": { "type": "number", "default": 1, "description": texts.read_file_size },
                },
                "required": ["file_path"],
            }),
        }
    }

    fn perform<'a>(
        &'a self,
        arguments: &'a Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        let read = match serde_json::from_value::<ReadFile>(arguments.clone()) {
            Ok(wanted) => {
                let contents = context
                    .session
                    .and_then(|session| Some(session.scrub(session.get(&wanted.file_path).ok()?)));
                read(&wanted, contents.as_deref()).map(ToolOutput::from)
            }
            Err(error) => Err(format!("Error: {error}")),
        };
        ready(read).boxed()
    }
}

/// The text for the model: that of the file, or why not. `Err` is a failure of the call.
fn read(call: &ReadFile, contents: Option<&[u8]>) -> Result<String, String> {
    let path = &call.file_path;
    let Some(bytes) = contents else {
        return Err(format!("Error: File '{path}' does not exist"));
    };
    #[expect(clippy::cast_precision_loss, reason = "a size in megabytes")]
    let megabytes = bytes.len() as f64 / f64::from(1 << 20);
    if megabytes > call.max_size_mb {
        let lines = bytes.split(|byte| *byte == b'\n').count();
        return Ok(format!(
            "File '{path}' is too large to show: {megabytes:.2} MB, {lines} lines, {} bytes",
            bytes.len()
        ));
    }
    let text = decode(bytes, &call.encoding).ok_or_else(|| {
        format!(
            "Encoding error: Cannot decode file with {}. Try a different encoding.",
            call.encoding
        )
    })?;
    Ok(format!(
        "File contents ({} chars):\n{text}",
        text.chars().count()
    ))
}

fn decode(bytes: &[u8], encoding: &str) -> Option<String> {
    match encoding.to_ascii_lowercase().replace('_', "-").as_str() {
        "utf-8" | "utf8" | "utf-8-sig" => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            String::from_utf8(bytes.to_vec()).ok()
        }
        "ascii" | "us-ascii" => bytes
            .is_ascii()
            .then(|| String::from_utf8_lossy(bytes).into_owned()),
        "latin-1" | "latin1" | "iso-8859-1" => {
            Some(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        "utf-16" | "utf16" | "utf-16-le" | "utf-16-be" => {
            let (big, bytes) = match bytes {
                [0xfe, 0xff, rest @ ..] => (true, rest),
                [0xff, 0xfe, rest @ ..] => (false, rest),
                _ => (encoding.to_ascii_lowercase().ends_with("be"), bytes),
            };
            let pairs = bytes.chunks_exact(2);
            if !pairs.remainder().is_empty() {
                return None;
            }
            let units = pairs.map(|pair| {
                let pair = [pair[0], pair[1]];
                if big {
                    u16::from_be_bytes(pair)
                } else {
                    u16::from_le_bytes(pair)
                }
            });
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(encoding: &str, size: f64) -> ReadFile {
        ReadFile {
            file_path: "a.txt".into(),
            encoding: encoding.into(),
            max_size_mb: size,
        }
    }

    /// S15: the four cases.
    #[test]
    fn s15_a_file_is_read_or_it_is_said_why_not() {
        let utf8 = call("utf-8", 1.0);
        assert_eq!(
            read(&utf8, Some("北京\n".as_bytes())).unwrap(),
            "File contents (3 chars):\n北京\n"
        );
        assert_eq!(
            read(&utf8, None).unwrap_err(),
            "Error: File 'a.txt' does not exist"
        );
        let large = "x\n".repeat(1 << 20);
        assert_eq!(
            read(&utf8, Some(large.as_bytes())).unwrap(),
            "File 'a.txt' is too large to show: 2.00 MB, 1048577 lines, 2097152 bytes"
        );
        assert_eq!(
            read(&utf8, Some(b"\xff\xfe")).unwrap_err(),
            "Encoding error: Cannot decode file with utf-8. Try a different encoding."
        );
        assert!(
            read(&call("latin-1", 1.0), Some(b"\xe9"))
                .unwrap()
                .ends_with('é')
        );
        assert!(
            read(&call("utf-16", 1.0), Some(b"\xff\xfea\0"))
                .unwrap()
                .ends_with('a')
        );
        assert!(read(&call("klingon", 1.0), Some(b"a")).is_err());
    }
}
