//! What happens in a cell, as messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_protocol::{Cause, Display, DisplayData, Fate, Language, Outcome, Status, visible};
use serde_json::{Map, Value, json};

/// What marks our own words among a program's.
pub(crate) const MARK: &str = "[belljar] ";

/// A display: the type of its message, and the content.
pub(crate) fn display(shown: &Display, execution_count: u32) -> (&'static str, Value) {
    let data: Map<String, Value> = shown
        .parts
        .iter()
        .map(|part| (part.mime.clone(), data(part)))
        .collect();
    let metadata = &shown.metadata;
    let transient = match &shown.id {
        Some(id) => json!({"display_id": id}),
        None => json!({}),
    };
    if shown.update {
        let content = json!({"data": data, "metadata": metadata, "transient": transient});
        return ("update_display_data", content);
    }
    if shown.value {
        let content = json!({
            "execution_count": execution_count, "data": data, "metadata": metadata, "transient": transient,
        });
        return ("execute_result", content);
    }
    let content = json!({"data": data, "metadata": metadata, "transient": transient});
    ("display_data", content)
}

/// Text as it is, JSON as a value, bytes in base64.
fn data(part: &DisplayData) -> Value {
    let Ok(text) = std::str::from_utf8(&part.data) else {
        return BASE64.encode(&part.data).into();
    };
    let is_json = part.mime == "application/json" || part.mime.ends_with("+json");
    match serde_json::from_str(text) {
        Ok(value) if is_json => value,
        _ => text.into(),
    }
}

/// Why a cell failed, as an exception of Python would be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    name: String,
    value: String,
    traceback: Vec<String>,
}

impl Failure {
    /// A fault of ours, or a refusal.
    pub(crate) fn from_error(error: &dyn std::error::Error) -> Self {
        let text = error.to_string();
        Self {
            name: "BelljarError".into(),
            traceback: text.lines().map(str::to_owned).collect(),
            value: text,
        }
    }

    /// That of an outcome, unless it is a success.
    pub(crate) fn from_outcome(outcome: &Outcome, labels: &Labels) -> Option<Self> {
        if outcome.status == Status::Success {
            return None;
        }
        if let Some(exception) = &outcome.exception {
            let traceback = labels.replace(exception.traceback.trim_end());
            let name = match exception.name.as_str() {
                "" => &exception.type_name,
                name => name,
            };
            return Some(Self {
                name: name.to_owned(),
                value: exception.value.clone(),
                traceback: traceback.lines().map(str::to_owned).collect(),
            });
        }
        let (name, value) = match &outcome.cause {
            Cause::Completed | Cause::Exception => ("Exception", String::new()),
            Cause::Syntax => ("SyntaxError", String::new()),
            Cause::Exit { code } => ("SystemExit", code.to_string()),
            Cause::Interrupted => ("KeyboardInterrupt", String::new()),
            Cause::WallTime { limit_ms } => ("TimeLimit", format!("{limit_ms} ms")),
            Cause::CpuTime { limit_ms } => ("TimeLimit", format!("{limit_ms} ms of CPU time")),
            Cause::Memory { limit_bytes } => ("MemoryLimit", format!("{} MiB", limit_bytes >> 20)),
            Cause::Signal { name, .. } => ("Crashed", name.clone()),
            Cause::OutputLimit { limit_bytes } => {
                ("OutputLimit", format!("{} MiB", limit_bytes >> 20))
            }
            Cause::Protocol { detail } => ("Crashed", visible(detail).into_owned()),
        };
        let line = format!("{name}: {value}");
        Some(Self {
            name: name.into(),
            value,
            traceback: vec![line.trim_end_matches([':', ' ']).to_owned()],
        })
    }

    /// The content of `error`.
    pub(crate) fn content(&self) -> Value {
        json!({"ename": self.name, "evalue": self.value, "traceback": self.traceback})
    }

    /// The content of a reply.
    pub(crate) fn reply(&self, execution_count: u32) -> Value {
        json!({
            "status": "error", "execution_count": execution_count,
            "ename": self.name, "evalue": self.value, "traceback": self.traceback,
        })
    }
}

/// What an outcome says that the protocol has no place for: what became of the variables, what to do next, what was left
/// out.
pub(crate) fn remarks(outcome: &Outcome, language: Language) -> Vec<String> {
    let mut remarks: Vec<String> = outcome
        .notes
        .iter()
        .map(|note| visible(note).into_owned())
        .collect();
    // The exception says it all, and who calls sys.exit knows.
    let says_itself = outcome.state == Fate::Kept
        && outcome.status == Status::Failure
        && outcome.package.is_none()
        && outcome.remedy.is_none()
        && (outcome.exception.is_some() || matches!(outcome.cause, Cause::Exit { .. }));
    if !says_itself {
        remarks.extend(outcome.next_step(language));
    }
    remarks
}

/// Our own words as the text of a stream.
pub(crate) fn marked(remarks: &[String]) -> String {
    let lines = remarks.iter().flat_map(|remark| remark.lines());
    lines.flat_map(|line| [MARK, line, "\n"]).collect()
}

/// The most cells whose numbers are remembered.
const MAX_LABELS: usize = 10_000;

/// The prompts of cells: a session counts its cells otherwise than a notebook.
#[derive(Debug, Default)]
pub(crate) struct Labels(BTreeMap<u32, u32>);

impl Labels {
    pub(crate) fn insert(&mut self, cell: u32, execution_count: u32) {
        self.0.insert(cell, execution_count);
        if self.0.len() > MAX_LABELS {
            self.0.pop_first();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A traceback with `In [7]` for the `<cell 9>` that had this prompt.
    fn replace(&self, traceback: &str) -> String {
        let mut parts = traceback.split("<cell ");
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let label = part.split_once('>').and_then(|(number, rest)| {
                let count = self.0.get(&number.parse().ok()?)?;
                Some((count, rest))
            });
            if let Some((count, rest)) = label {
                let _ = write!(replaced, "In [{count}]{rest}");
            } else {
                replaced.push_str("<cell ");
                replaced.push_str(part);
            }
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(mime: &str, data: &[u8]) -> DisplayData {
        DisplayData {
            mime: mime.into(),
            data: data.to_vec(),
        }
    }

    #[test]
    fn displays_are_data_by_type() {
        let shown = Display {
            parts: vec![
                part("text/plain", b"x"),
                part("application/json", b"{\"a\": 1}"),
                part("application/vnd.plotly.v1+json", b"[1]"),
                part("image/png", b"\x89PNG"),
                part("image/svg+xml", b"<svg/>"),
            ],
            ..Display::default()
        };
        let (kind, content) = display(&shown, 3);
        assert_eq!(kind, "display_data");
        let expected = json!({
            "text/plain": "x", "application/json": {"a": 1}, "application/vnd.plotly.v1+json": [1],
            "image/png": "iVBORw==", "image/svg+xml": "<svg/>",
        });
        assert_eq!(content["data"], expected);
        assert_eq!(content["transient"], json!({}));
    }

    #[test]
    fn values_and_changes_have_messages_of_their_own() {
        let mut shown = Display {
            parts: vec![part("text/plain", b"x")],
            value: true,
            ..Display::default()
        };
        let (kind, content) = display(&shown, 3);
        assert_eq!(
            (kind, &content["execution_count"]),
            ("execute_result", &json!(3))
        );
        shown.value = false;
        shown.id = Some("a".into());
        shown.update = true;
        let (kind, content) = display(&shown, 3);
        assert_eq!(kind, "update_display_data");
        assert_eq!(content["transient"], json!({"display_id": "a"}));
    }

    #[test]
    fn tracebacks_have_the_prompts_of_the_notebook() {
        let mut labels = Labels::default();
        labels.insert(9, 7);
        let traceback = "File \"<cell 9>\", line 1\nFile \"<cell 8>\", <cell x>, <cell ";
        let expected = "File \"In [7]\", line 1\nFile \"<cell 8>\", <cell x>, <cell ";
        assert_eq!(labels.replace(traceback), expected);
    }
}
