//! Showing outcomes, events and errors to a person.

use std::io::Write;

use belljar_sandbox::protocol::{Display, Event, Fate, Language, Outcome, Status, Stream};
use owo_colors::OwoColorize;

/// Shows an error of ours: what happened, why, what to do.
pub(crate) fn error(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many messages tell their cause themselves.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{} {}", "error:".red().bold(), clean(&text));
}

/// Makes a guest's text safe for a terminal: no escape sequence of its own goes through.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\r' => '\r',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Shows what a cell says while it runs. Its output goes to the stream it was written to.
pub(crate) fn event(event: &Event) {
    match event {
        Event::Output { stream, text } => output(*stream, text),
        Event::Truncated { stream } => {
            let name = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            note(&format!("[{name} is long: the rest is not shown live]"));
        }
        Event::Display(shown) => display(shown),
        Event::Started { .. } | Event::Outcome(_) => {}
    }
}

fn output(stream: Stream, text: &str) {
    let text = clean(text);
    let _ = match stream {
        Stream::Stdout => {
            let mut stdout = std::io::stdout().lock();
            stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush())
        }
        Stream::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
    };
}

/// Shows a rich output: its text, and what else it has.
fn display(display: &Display) {
    if let Some(text) = display.text() {
        output(Stream::Stdout, &format!("{text}\n"));
    }
    for part in &display.parts {
        if part.mime.starts_with("image/") {
            crate::show_image::show(part);
        }
    }
}

/// Shows how a cell ended, where that needs saying.
pub(crate) fn ending(outcome: &Outcome) {
    for artifact in &outcome.artifacts {
        note(&format!(
            "[file: {} ({} bytes)]",
            clean(&artifact.path),
            artifact.size
        ));
    }
    for output in [&outcome.stdout, &outcome.stderr] {
        if let Some(file) = &output.file {
            note(&format!(
                "[{} bytes were left out; while the session lives, {} has {}]",
                output.omitted_bytes,
                file.display(),
                if output.file_truncated {
                    "the beginning"
                } else {
                    "all"
                },
            ));
        }
    }
    for dropped in &outcome.dropped {
        note(&format!("[{}]", clean(dropped)));
    }
    if let Some(exception) = &outcome.exception {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{}", clean(exception.traceback.trim_end()).red());
    }
    if outcome.status == Status::Success {
        return;
    }
    let says_itself = outcome.exception.is_some()
        && outcome.state == Fate::Kept
        && outcome.status == Status::Failure;
    if let Some(next) = outcome
        .next_step(Language::English)
        .filter(|_| !says_itself)
    {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{} {}", "belljar:".yellow().bold(), clean(&next));
    }
}

/// A remark of ours, on standard error so that it never mixes with a program's output.
pub(crate) fn note(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}", text.dimmed());
}
