//! An outcome as the result of a call: text and images for the model, data for the program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::protocol::{
    Artifact, Cause, Durations, Fate, Language, MimeType, NameInfo, Outcome, Output, Status,
    TABLE_MIME, Walls, bytes_left_out,
};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;

/// The most bytes of text in one result; more is cut in the middle.
pub(crate) const MAX_TEXT: usize = 128 << 10;
/// The most bytes of images in one result.
pub(crate) const MAX_IMAGE_BYTES: usize = 4 << 20;
/// The most bytes that the tables of one result have as JSON.
const MAX_TABLE_BYTES: usize = 128 << 10;
/// The most names, files and lines that one list of a report has.
const MAX_LISTED: usize = 100;
/// The most bytes of an exception's message.
const MAX_MESSAGE: usize = 4 << 10;

/// How a cell ended, as data.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellReport {
    /// The session that it ran in.
    session_id: String,
    /// Its number in the session, counted from 1.
    cell: u32,
    status: Status,
    cause: Cause,
    /// What became of the variables.
    state: Fate,
    /// The exception, where one came out of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<ExceptionReport>,
    stdout: OutputReport,
    stderr: OutputReport,
    /// Tables that the cell showed: columns with dtypes, index, and at most 200 rows of 50 columns.
    tables: Vec<serde_json::Value>,
    /// How many images are in the content.
    images: usize,
    /// Files that the cell made or changed.
    files: Vec<Artifact>,
    /// Names that are new.
    names_added: Vec<NameInfo>,
    /// Names that are bound to another value.
    names_changed: Vec<NameInfo>,
    /// Names that are gone.
    names_removed: Vec<String>,
    /// What was left out or lost, and why.
    notes: Vec<String>,
    durations: Durations,
    /// The most memory that the session held, where the kernel tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
    /// What stood between the code and the machine.
    walls: Walls,
}

/// An exception without its traceback, which is in the text.
#[derive(Debug, Serialize, JsonSchema)]
struct ExceptionReport {
    #[serde(rename = "type")]
    type_name: String,
    message: String,
    /// The line of the cell where it came from.
    line: Option<u32>,
}

/// What was written to one stream.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct OutputReport {
    /// The text, cut in the middle with a mark where it was too long.
    pub(crate) text: String,
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// Bytes that `text` leaves out.
    pub(crate) omitted_bytes: u64,
}

impl From<Output> for OutputReport {
    fn from(output: Output) -> Self {
        Self {
            text: output.text,
            bytes: output.bytes,
            omitted_bytes: output.omitted_bytes,
        }
    }
}

/// The result of a call that ran this cell.
pub(crate) fn cell_result(session_id: &str, code: &str, outcome: Outcome) -> CallToolResult {
    let text = cut(outcome.text(code, Language::English), MAX_TEXT);
    let failed = !outcome.is_success();
    let mut notes = first(outcome.notes);
    let mut tables = Vec::new();
    let mut images = Vec::new();
    let (mut table_bytes, mut image_bytes) = (0, 0);
    let (mut tables_left, mut images_left) = (0, 0);
    for display in outcome.displays {
        for part in display.parts {
            if part.mime == TABLE_MIME {
                table_bytes += part.data.len();
                match serde_json::from_slice(&part.data) {
                    Ok(table) if table_bytes <= MAX_TABLE_BYTES => tables.push(table),
                    _ => tables_left += 1,
                }
            } else if let Some(mime) = MimeType::named(&part.mime).filter(|mime| mime.is_image()) {
                image_bytes += part.data.len();
                if image_bytes <= MAX_IMAGE_BYTES {
                    images.push(ContentBlock::image(BASE64.encode(&part.data), mime.name));
                } else {
                    images_left += 1;
                }
            }
        }
    }
    let mut content = vec![ContentBlock::text(text)];
    let count = images.len();
    content.append(&mut images);
    if tables_left > 0 {
        notes.push(format!("{tables_left} tables were too large to be data"));
    }
    if images_left > 0 {
        let left = format!(
            "{images_left} images were left out: a result has at most {} MiB of them. Save a smaller \
             one to a file, and read that.",
            MAX_IMAGE_BYTES >> 20
        );
        content.push(ContentBlock::text(left.clone()));
        notes.push(left);
    }
    let report = CellReport {
        session_id: session_id.to_owned(),
        cell: outcome.cell,
        status: outcome.status,
        cause: outcome.cause,
        state: outcome.state,
        exception: outcome.exception.map(|exception| ExceptionReport {
            type_name: exception.type_name,
            message: cut(exception.value, MAX_MESSAGE),
            line: exception.line,
        }),
        stdout: outcome.stdout.into(),
        stderr: outcome.stderr.into(),
        tables,
        images: count,
        files: first(outcome.artifacts),
        names_added: first(outcome.changes.added),
        names_changed: first(outcome.changes.changed),
        names_removed: first(outcome.changes.removed),
        notes,
        durations: outcome.durations,
        peak_memory_bytes: outcome.peak_memory_bytes,
        walls: outcome.walls,
    };
    let mut result = result(content, &report);
    result.is_error = Some(failed);
    result
}

/// A result with content for the model and the same as data.
pub(crate) fn result(content: Vec<ContentBlock>, data: &impl Serialize) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    result.structured_content = serde_json::to_value(data).ok();
    result
}

/// What the model did wrong or has to know, as a result that says it is an error.
pub(crate) fn refusal(why: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

fn first<T>(mut list: Vec<T>) -> Vec<T> {
    list.truncate(MAX_LISTED);
    list
}

/// The text, without its middle where it is longer than `most` bytes.
pub(crate) fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!(
        "{}\n[… {} bytes are left out here …]\n{}",
        &text[..head],
        bytes_left_out(&text[head..tail]),
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_text_keeps_its_head_and_its_tail() {
        assert_eq!(cut("short".into(), 5), "short");
        let long = cut("ä".repeat(1000), 101);
        assert!(long.starts_with("ää") && long.ends_with("ää"), "{long}");
        assert!(
            long.contains("[… 1900 bytes are left out here …]"),
            "{long}"
        );
        assert!(long.len() < 160);
    }
}
