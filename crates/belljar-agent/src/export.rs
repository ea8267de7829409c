//! A run as a notebook, a script or a page.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::dialect::PYTHON;
use crate::run::{Call, Run};

/// The run as a notebook (nbformat 4.5): the task, each cell with its output, the answer. A cell that
/// failed says so to whoever runs the notebook again.
pub fn notebook(run: &Run) -> Value {
    let mut cells = Vec::new();
    let mut add = |cell: Value| {
        let mut cell = cell;
        cell["id"] = format!("cell-{}", cells.len() + 1).into();
        cells.push(cell);
    };
    let markdown = |text: &str| json!({"cell_type": "markdown", "metadata": {}, "source": text});
    if let Some(start) = run.start() {
        let mut text = format!("# Task\n\n{}", start.task);
        for file in &start.files {
            let _ = write!(text, "\n\n- file `{}`, {} bytes", file.name, file.bytes);
        }
        add(markdown(&text));
    }
    for step in run.steps() {
        if let Some(thought) = &step.thought {
            add(markdown(thought));
        }
        for (code, call) in python_calls(&step.calls) {
            let result = call.result();
            let failed = result.is_some_and(|result| result.failed);
            let cell = result.and_then(|result| result.cell.as_ref());
            let mut outputs = Vec::new();
            if let Some(cell) = cell.filter(|cell| !cell.output.is_empty()) {
                outputs
                    .push(json!({"output_type": "stream", "name": "stdout", "text": cell.output}));
            }
            let tags: &[&str] = if failed { &["raises-exception"] } else { &[] };
            add(json!({
                "cell_type": "code",
                "execution_count": cell.map(|cell| cell.number),
                "metadata": {"tags": tags},
                "outputs": outputs,
                "source": code,
            }));
        }
    }
    if let Some(answer) = run.ending().and_then(|ending| ending.answer.as_ref()) {
        add(markdown(&format!("# Answer\n\n{answer}")));
    }
    json!({
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
}

/// The code of the run's cells that succeeded, in order, as one file.
pub fn script(run: &Run) -> String {
    let mut text = String::new();
    if let Some(start) = run.start() {
        comment(&mut text, &format!("Task: {}", start.task));
    }
    for step in run.steps() {
        for (code, call) in python_calls(&step.calls) {
            if call.result().is_some_and(|result| !result.failed) {
                let _ = write!(text, "\n{}\n", code.trim_end());
            }
        }
    }
    if let Some(answer) = run.ending().and_then(|ending| ending.answer.as_ref()) {
        text.push('\n');
        comment(&mut text, &format!("Answer: {answer}"));
    }
    text
}

/// The run as a page to read.
pub fn page(run: &Run) -> String {
    let mut body = String::new();
    let mut block = |tag: &str, text: &str| {
        let _ = writeln!(body, "<{tag}>{}</{tag}>", escape(text));
    };
    let task = run.start().map_or("", |start| &start.task);
    block("h1", task);
    for step in run.steps() {
        block("h2", &format!("Step {}", step.number));
        if let Some(thought) = &step.thought {
            block("p", thought);
        }
        for call in &step.calls {
            block("pre", call.code().unwrap_or(&call.arguments.to_string()));
            if let Some(result) = call.result() {
                let output = result.cell.as_ref().filter(|_| !result.failed);
                block("pre", output.map_or(&result.text, |cell| &cell.output));
            }
        }
    }
    if let Some(ending) = run.ending() {
        block("h2", "Answer");
        block("p", ending.answer.as_deref().unwrap_or("none"));
    }
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{}</title>\n\
         <style>body{{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto}}pre{{background:#f4f4f4;padding:.5em;white-space:pre-wrap}}</style>\n{body}",
        escape(task)
    )
}

fn python_calls(calls: &[Call]) -> impl Iterator<Item = (&str, &Call)> {
    calls
        .iter()
        .filter(|call| call.tool == PYTHON)
        .filter_map(|call| Some((call.code()?, call)))
}

fn comment(text: &mut String, words: &str) {
    for line in words.lines() {
        let _ = writeln!(text, "# {line}");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
