//! Code of a sandbox: a cell, and its events as lines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::protocol::{Cause, Display, Event, Fate, Outcome, Stream};
use belljar_sandbox::{Cell, Variables};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::contexts;
use super::sandbox::moment;
use crate::api::cells::begin_cell;
use crate::body::Json;
use crate::cell_record::{CellEnd, CellRecord, Position};
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::{KEY_CHECK, Reader, parts};

/// A sign of life is sent when nothing else was for so long.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The most characters of an exception's value: programs return data by it.
const EXCEPTION_CHARACTERS: usize = 1 << 20;

// Without `Debug`: variables may be secrets.
#[derive(Deserialize)]
pub(super) struct ExecuteAsked {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

/// Runs a cell after those before it, and streams what it does. It is interrupted when its client goes away.
pub(super) async fn execute(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<ExecuteAsked>,
) -> Result<Response, Problem> {
    let code = contexts::source(asked.code, asked.language.as_deref())?;
    let context = asked.context_id.as_deref();
    let variables = Variables::new(asked.env_vars.unwrap_or_default());
    let cell = Cell {
        code,
        namespace: context.map(|context| contexts::namespace(context).to_owned()),
        installs: true,
        exception_characters: Some(EXCEPTION_CHARACTERS),
        variables: variables.map_err(belljar_sandbox::Error::from)?,
        ..Cell::default()
    };
    let listener = Listener::new(&service, &caller)?;
    let record = begin_cell(&service, &entry, cell, None).await?;
    let running = RunningCell { entry, record };
    let reader = LineReader {
        position: running.record.after(0)?,
        running,
        listener,
        lines: VecDeque::new(),
        spoke: Instant::now(),
        ended: false,
    };
    Ok(reader.answer())
}

/// A cell whose client is there.
struct RunningCell {
    entry: Arc<SessionEntry>,
    record: Arc<CellRecord>,
}

impl Drop for RunningCell {
    fn drop(&mut self) {
        if self.record.ended().is_none()
            && let Ok(session) = self.entry.any_session()
        {
            session.interrupt_cell(self.record.number);
        }
    }
}

/// Somebody who reads what a cell does.
struct LineReader {
    running: RunningCell,
    position: Position,
    listener: Listener,
    lines: VecDeque<Bytes>,
    spoke: Instant,
    ended: bool,
}

impl Reader for LineReader {
    const KIND: &'static str = "application/x-ndjson";

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                self.spoke = Instant::now();
                return Some(line);
            }
            if self.ended || self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            match tokio::time::timeout(KEY_CHECK, self.position.next()).await {
                Ok(Some(event)) => self.take(&event),
                Ok(None) => {
                    let note = "[some output came faster than it was read, and is missing]\n";
                    self.say(&output(Stream::Stderr, note));
                    let end = self.running.record.end().await;
                    self.finish(&end);
                }
                Err(_) if self.spoke.elapsed() >= SIGN_OF_LIFE => {
                    self.say(&json!({"type": "keepalive"}));
                }
                Err(_) => {}
            }
        }
    }
}

impl LineReader {
    fn say(&mut self, line: &Value) {
        self.lines.push_back(format!("{line}\n").into());
    }

    /// The lines of an event, as a record keeps it.
    fn take(&mut self, event: &[u8]) {
        let Some((_, kind, json)) = parts(event) else {
            return;
        };
        match kind {
            "outcome" | "fault" => {
                if let Some(end) = self.running.record.ended() {
                    self.finish(&end);
                }
            }
            _ => {
                if let Some(line) = serde_json::from_str(json).ok().and_then(line) {
                    self.say(&line);
                }
            }
        }
    }

    /// The lines of the end.
    fn finish(&mut self, end: &CellEnd) {
        match end {
            CellEnd::Outcome(json) => match serde_json::from_slice::<Outcome>(json) {
                Ok(outcome) => {
                    for note in &outcome.notes {
                        self.say(&output(Stream::Stderr, &format!("[{note}]\n")));
                    }
                    if let Some(error) = error(&outcome) {
                        self.say(&error);
                    }
                }
                Err(error) => {
                    let fault = Problem::internal("cannot read an outcome", error);
                    self.say(&fault_line(&fault));
                }
            },
            CellEnd::Fault(problem) => self.say(&fault_line(problem)),
        }
        self.say(&json!({"type": "end_of_execution"}));
        self.ended = true;
    }
}

fn fault_line(problem: &Problem) -> Value {
    let name = problem.code.as_str();
    json!({"type": "error", "name": name, "value": problem.words(), "traceback": ""})
}

/// The line of an event, if it has one.
fn line(event: Event) -> Option<Value> {
    match event {
        Event::Started { cell } => {
            Some(json!({"type": "number_of_executions", "execution_count": cell}))
        }
        Event::Output { stream, text } => Some(output(stream, &text)),
        Event::Truncated { .. } => {
            let note = "[the rest of the output is not shown]\n";
            Some(output(Stream::Stderr, note))
        }
        // A change of one that was sent has no form here.
        Event::Display(display) if !display.update => Some(result(&display)),
        Event::Denied(denial) => {
            let note = format!("[network: {denial}]\n");
            Some(output(Stream::Stderr, &note))
        }
        _ => None,
    }
}

fn output(stream: Stream, text: &str) -> Value {
    let kind = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    json!({"type": kind, "text": text, "timestamp": moment(SystemTime::now())})
}

/// A display, each representation under the name that this wire has for its type.
fn result(display: &Display) -> Value {
    let (mut line, mut extra) = (Map::new(), Map::new());
    line.insert("type".into(), "result".into());
    line.insert("is_main_result".into(), display.value.into());
    for part in &display.parts {
        let text = || String::from_utf8_lossy(&part.data).into_owned();
        let base64 = || BASE64.encode(&part.data);
        let (name, value): (_, Value) = match part.mime.as_str() {
            "text/plain" => ("text", unquoted(text(), display.value).into()),
            "text/html" => ("html", text().into()),
            "text/markdown" => ("markdown", text().into()),
            "text/latex" => ("latex", text().into()),
            "image/svg+xml" => ("svg", text().into()),
            "image/png" => ("png", base64().into()),
            "image/jpeg" => ("jpeg", base64().into()),
            "application/pdf" => ("pdf", base64().into()),
            "application/javascript" => ("javascript", text().into()),
            "application/json" => (
                "json",
                serde_json::from_slice(&part.data).unwrap_or_else(|_| text().into()),
            ),
            other => {
                let value = match std::str::from_utf8(&part.data) {
                    Ok(text) => text.to_owned(),
                    Err(_) => base64(),
                };
                extra.insert(other.to_owned(), value.into());
                continue;
            }
        };
        line.insert(name.to_owned(), value);
    }
    line.insert("extra".into(), extra.into());
    line.into()
}

/// The value of a cell without the quotes of a string.
fn unquoted(text: String, is_value: bool) -> String {
    let inner = ['\'', '"'].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        is_value.then(|| inner.to_owned())
    });
    inner.unwrap_or(text)
}

/// The error of a cell that failed.
fn error(outcome: &Outcome) -> Option<Value> {
    let state = match outcome.state {
        Fate::Kept => "its variables are kept".to_owned(),
        Fate::Restored { cell } => format!("the variables are as after cell {cell}"),
        Fate::Lost => "the variables are lost, and the sandbox has ended".to_owned(),
    };
    if let Some(exception) = &outcome.exception {
        let name = match exception.name.as_str() {
            "" => &exception.type_name,
            name => name,
        };
        return Some(json!({
            "type": "error", "name": name, "value": exception.value, "traceback": exception.traceback,
        }));
    }
    let (name, why) = match &outcome.cause {
        Cause::Completed => return None,
        Cause::Exit { code: 0 } if outcome.state == Fate::Kept => return None,
        Cause::Exit { code } => ("SystemExit", format!("the code exited with {code}")),
        Cause::Interrupted => ("KeyboardInterrupt", "the cell was interrupted".to_owned()),
        Cause::WallTime { limit_ms } => (
            "TimeoutError",
            format!("the cell ran longer than {limit_ms} ms"),
        ),
        Cause::CpuTime { limit_ms } => (
            "TimeoutError",
            format!("the cell used more than {limit_ms} ms of CPU time"),
        ),
        Cause::Memory { limit_bytes } => (
            "MemoryError",
            format!("the sandbox used more than {limit_bytes} bytes of memory"),
        ),
        Cause::Signal { name, .. } => (name.as_str(), "a signal ended the process".to_owned()),
        Cause::OutputLimit { limit_bytes } => (
            "RuntimeError",
            format!("the cell printed more than {limit_bytes} bytes"),
        ),
        Cause::Exception | Cause::Syntax => ("RuntimeError", "the cell failed".to_owned()),
        Cause::Protocol { .. } => ("RuntimeError", "the process broke its protocol".to_owned()),
    };
    let value = format!("{why}; {state}");
    Some(json!({"type": "error", "name": name, "value": value, "traceback": value}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_sandbox::protocol::DisplayData;

    #[test]
    fn a_display_has_a_name_for_each_type() {
        let part = |mime: &str, data: &[u8]| DisplayData {
            mime: mime.to_owned(),
            data: data.to_vec(),
        };
        let display = Display {
            parts: vec![
                part("text/plain", b"'it'"),
                part("image/png", &[0x89, 0x50]),
                part("application/json", b"[1]"),
                part("application/x-other", b"o"),
            ],
            value: true,
            ..Display::default()
        };
        let expected = json!({
            "type": "result", "is_main_result": true, "text": "it", "png": "iVA=", "json": [1],
            "extra": {"application/x-other": "o"},
        });
        assert_eq!(result(&display), expected);
        let shown = Display {
            value: false,
            ..display
        };
        assert_eq!(result(&shown)["text"], "'it'");
    }

    #[test]
    fn only_whole_quotes_are_left_out() {
        let unquoted = |text: &str| super::unquoted(text.to_owned(), true);
        assert_eq!(unquoted("'a'"), "a");
        assert_eq!(unquoted("\"a'\""), "a'");
        assert_eq!(unquoted("'"), "'");
        assert_eq!(unquoted("b'a'"), "b'a'");
        assert_eq!(unquoted(""), "");
    }
}
