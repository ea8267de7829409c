//! A run as a notebook, a script or a page.

mod markdown;
mod page;
mod record;
mod report_key;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_journal::Blobs;
use belljar_protocol::{Cause, DisplayData, MIME_TYPES, MimeType, Outcome};
use serde_json::{Map, Value, json};

use crate::driver::RunError;
use crate::run::RunEvent;
use crate::story::{Story, Told, asked, python_text, repeatable};

pub use page::page;
pub use report_key::{ReportKey, SignatureFault, signer_of};

/// Whether it ends with an exception where nothing catches it; `sys.exit(0)`, a success, does too.
fn raises(outcome: &Outcome) -> bool {
    !outcome.is_success() || matches!(outcome.cause, Cause::Exit { .. })
}

/// The run as a notebook (nbformat 4.5): the task, its files, each cell with its output, the answer.
///
/// It can be run again from its top to its end: cells that failed say that they do, cells that were
/// stopped are text, and what was taken back is not there.
pub async fn notebook(events: &[RunEvent], blobs: &Blobs) -> Result<Value, RunError> {
    let story = Story::from_events(events, blobs).await?;
    let mut cells = vec![markdown(&format!("# Task\n\n{}", story.task()))];
    if let Some(files) = story.writing_files() {
        cells.push(code_cell(&files, None, &["files"], &[]));
    }
    for part in &story.parts {
        match &part.told {
            Told::Thought(thought) => cells.push(markdown(thought)),
            Told::Anew => {
                cells.push(markdown(
                    "The session was lost here; another one began without its variables.",
                ));
                cells.push(code_cell("%reset -f", None, &[], &[]));
            }
            Told::Cell {
                code,
                result,
                outcome,
                ..
            } => cells.push(match outcome {
                Some(outcome) if repeatable(outcome) => {
                    let fails = raises(outcome);
                    let tags: &[&str] = if fails { &["raises-exception"] } else { &[] };
                    code_cell(code, Some(outcome.cell), tags, &outputs(outcome))
                }
                _ => markdown(&format!(
                    "This cell did not come to its end:\n\n{}\n\n{}",
                    fenced(code),
                    fenced(&result.text)
                )),
            }),
            Told::Other { call, text } => {
                let asked = fenced(&asked(call));
                cells.push(markdown(&format!("{asked}\n\n{}", fenced(text))));
            }
        }
    }
    if let Some((heading, text, lines)) = story.end() {
        let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
        let lines = lines.join("\n");
        let parts = match story.run.ending().and_then(|ending| ending.answer.as_ref()) {
            Some(_) => [format!("# {heading}"), text.to_owned(), lines],
            None => [format!("# {heading}"), lines, fenced(text)],
        };
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        cells.push(markdown(&parts.join("\n\n")));
    }
    for (cell, number) in cells.iter_mut().zip(1..) {
        cell["id"] = format!("cell-{number}").into();
    }
    Ok(json!({
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }))
}

fn markdown(text: &str) -> Value {
    json!({"cell_type": "markdown", "metadata": {}, "source": text})
}

fn code_cell(code: &str, number: Option<u32>, tags: &[&str], outputs: &[Value]) -> Value {
    json!({
        "cell_type": "code",
        "execution_count": number,
        "metadata": {"tags": tags},
        "outputs": outputs,
        "source": code,
    })
}

fn outputs(outcome: &Outcome) -> Vec<Value> {
    let mut outputs = Vec::new();
    for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if !output.text.is_empty() {
            outputs.push(json!({"output_type": "stream", "name": name, "text": output.text}));
        }
    }
    for display in &outcome.displays {
        // Jupyter shows HTML of a notebook that it does not trust without its scripts.
        let types = MIME_TYPES.iter().filter(|mime| mime.notebook);
        let shown = types.filter_map(|mime| {
            let data = notebook_data(mime, display.get(mime.name)?)?;
            Some((mime.name.to_owned(), data.into()))
        });
        let data: Map<String, Value> = shown.collect();
        outputs.push(json!({"output_type": "display_data", "data": data, "metadata": {}}));
    }
    if let Cause::Exit { code } = outcome.cause {
        outputs.push(json!({
            "output_type": "error",
            "ename": "SystemExit",
            "evalue": code.to_string(),
            "traceback": [],
        }));
    } else if let Some(exception) = &outcome.exception {
        let lines: Vec<&str> = exception.traceback.lines().collect();
        outputs.push(json!({
            "output_type": "error",
            "ename": exception.type_name,
            "evalue": exception.value,
            "traceback": lines,
        }));
    }
    outputs
}

/// Text as it is, images as base64.
fn notebook_data(mime: &MimeType, part: &DisplayData) -> Option<String> {
    if mime.is_image() {
        return Some(BASE64.encode(&part.data));
    }
    String::from_utf8(part.data.clone()).ok()
}

/// The run's cells in order, as one file that a plain Python can run. Cells that failed are run so
/// that the rest continues.
pub async fn script(events: &[RunEvent], blobs: &Blobs) -> Result<String, RunError> {
    let story = Story::from_events(events, blobs).await?;
    let mut text = String::new();
    comment(&mut text, &format!("Task: {}", story.task()));
    if let Some(files) = story.writing_files() {
        let _ = write!(text, "\n{files}\n");
    }
    let cells = || {
        let cells = story.parts.iter();
        cells.filter_map(|part| match &part.told {
            Told::Cell { code, outcome, .. } => Some((code, outcome.as_ref()?)),
            _ => None,
        })
    };
    if cells().any(|(code, _)| code.contains("display(")) {
        text.push_str("\n# Sessions have it; a plain Python does not.\ndisplay = print\n");
    }
    for (code, outcome) in cells() {
        if !raises(outcome) {
            let _ = write!(text, "\n{}\n", code.trim_end());
        } else if repeatable(outcome) {
            text.push_str("\n# This cell ended with an exception in the run:\n");
            comment(&mut text, code.trim_end());
            let _ = write!(
                text,
                "try:\n    exec(compile({}, \"<cell {}>\", \"exec\"))\n\
                 except (Exception, SystemExit):\n    __import__(\"traceback\").print_exc()\n",
                python_text(code),
                outcome.cell
            );
        } else {
            text.push_str("\n# This cell did not come to its end in the run:\n");
            comment(&mut text, code.trim_end());
        }
    }
    if let Some((heading, words, lines)) = story.end() {
        text.push('\n');
        comment(&mut text, &format!("{heading}: {words}"));
        for line in &lines {
            comment(&mut text, line);
        }
    }
    Ok(text)
}

fn comment(text: &mut String, words: &str) {
    // Python ends a line at a lone carriage return too, where Rust does not.
    for line in words.split(['\n', '\r']) {
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
}

/// A block of Markdown that its text can't end.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
