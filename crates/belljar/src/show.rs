//! Showing outcomes, events and errors to a person. What a program wrote goes to a terminal without
//! commands to it, and to a pipe as it is; names that it chose are shown with all their characters.

use std::io::{self, IsTerminal, Read, Seek, Write};

use belljar_sandbox::protocol::{
    Cause, Display, Event, Fate, Language, Outcome, Output, PlainStream, Status, Stream, plain,
    visible,
};
use belljar_sandbox::{FileLeftOut, LoadReport, SnapshotReport};
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
    let _ = writeln!(stderr, "{} {}", "error:".red().bold(), message(&text));
}

/// A message of several lines, in which there may be a guest's words and names.
pub(crate) fn message(text: &str) -> String {
    let text = plain(text);
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// What one cell writes, as it is shown. On a terminal, a sequence that comes in two pieces is still
/// one.
#[derive(Debug, Default)]
pub(crate) struct Screen([PlainStream; 2]);

impl Screen {
    /// Shows what a cell says while it runs. Its output goes to the stream it was written to.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Output { stream, text } => self.output(*stream, text),
            Event::Display(shown) => display(shown),
            Event::Denied(denial) => {
                note(&format!("[network: {denial}]"));
                Ok(())
            }
            Event::Called { .. }
            | Event::CallDenied { .. }
            | Event::CallCancelled { .. }
            | Event::Truncated { .. }
            | Event::Started { .. }
            | Event::Outcome(_) => Ok(()),
        }
    }

    /// Shows output that was too long to show live. Of a stream in a file, the first `live` bytes were shown;
    /// of one in memory, `shown` bytes of its text.
    pub(crate) fn rest(
        &mut self,
        written: &Output,
        stream: Stream,
        live: usize,
        shown: usize,
    ) -> io::Result<()> {
        let Some(path) = &written.file else {
            return match written.text.get(shown..) {
                Some(rest) => self.output(stream, rest),
                None => Ok(()),
            };
        };
        let mut file = std::fs::File::open(path)?;
        // The start of an incomplete character: at most three bytes.
        let mut pending = vec![0; live.min(3)];
        file.seek(io::SeekFrom::Start((live - pending.len()) as u64))?;
        file.read_exact(&mut pending)?;
        pending.drain(..pending.len() - unfinished(&pending));
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer)?;
            pending.extend_from_slice(&buffer[..read]);
            let whole = match read {
                0 => pending.len(),
                _ => pending.len() - unfinished(&pending),
            };
            self.output(stream, &String::from_utf8_lossy(&pending[..whole]))?;
            pending.drain(..whole);
            if read == 0 {
                break;
            }
        }
        if written.file_truncated {
            note("[output truncated; the rest was not kept]");
        }
        Ok(())
    }

    /// Shows what was held back, for the cell has ended.
    pub(crate) fn end(mut self) -> io::Result<()> {
        for (stream, held) in [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .zip(&mut self.0)
        {
            write(stream, &held.finish())?;
        }
        Ok(())
    }

    /// Writes a program's text. A terminal gets it without commands, a pipe as it is.
    fn output(&mut self, stream: Stream, text: &str) -> io::Result<()> {
        if is_terminal(stream) {
            let [stdout, stderr] = &mut self.0;
            let held = match stream {
                Stream::Stdout => stdout,
                Stream::Stderr => stderr,
            };
            return write(stream, &held.push(text));
        }
        write(stream, text)
    }
}

pub(crate) fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Stdout => io::stdout().is_terminal(),
        Stream::Stderr => io::stderr().is_terminal(),
    }
}

pub(crate) fn write(stream: Stream, text: &str) -> io::Result<()> {
    fn to(mut out: impl Write, text: &str) -> io::Result<()> {
        out.write_all(text.as_bytes())?;
        out.flush()
    }
    match stream {
        Stream::Stdout => to(io::stdout().lock(), text),
        Stream::Stderr => to(io::stderr().lock(), text),
    }
}

/// How many bytes at the end are the start of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let lead = tail.iter().rposition(|byte| byte & 0xc0 == 0xc0);
    match lead.map(|at| &tail[at..]) {
        Some(start)
            if std::str::from_utf8(start).is_err_and(|error| error.error_len().is_none()) =>
        {
            start.len()
        }
        _ => 0,
    }
}

/// Says where the middle of a long output is, which was not shown.
pub(crate) fn left_out(outcome: &Outcome) {
    for output in [&outcome.stdout, &outcome.stderr] {
        if let Some(file) = &output.file {
            note(&format!(
                "[long output: {} is in {} while the session is live]",
                if output.file_truncated {
                    "the beginning"
                } else {
                    "all"
                },
                file.display(),
            ));
        }
    }
}

/// Shows a rich output: its text, and what else it has.
fn display(display: &Display) -> io::Result<()> {
    if let Some(text) = display.text() {
        // On a screen of its own: it is no part of what the program writes to the stream.
        let mut screen = Screen::default();
        screen.output(Stream::Stdout, &format!("{text}\n"))?;
        screen.end()?;
    }
    for part in &display.parts {
        if part.mime.starts_with("image/") {
            crate::show_image::show(part, Stream::Stdout);
        }
    }
    Ok(())
}

/// Shows how a cell ended, where that needs saying.
pub(crate) fn ending(outcome: &Outcome) {
    for artifact in &outcome.artifacts {
        note(&format!(
            "[file: {} ({} bytes)]",
            visible(&artifact.path),
            artifact.size
        ));
    }
    for line in &outcome.notes {
        note(&format!("[{}]", visible(line)));
    }
    if let Some(exception) = &outcome.exception {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{}", plain(exception.traceback.trim_end()).red());
    }
    if outcome.status == Status::Success {
        return;
    }
    // The exception says it all, and who calls sys.exit knows.
    let says_itself = outcome.state == Fate::Kept
        && outcome.status == Status::Failure
        && outcome.package.is_none()
        && (outcome.exception.is_some() || matches!(outcome.cause, Cause::Exit { .. }));
    if let Some(next) = outcome
        .next_step(Language::English)
        .filter(|_| !says_itself)
    {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{} {}", "belljar:".yellow().bold(), message(&next));
    }
}

/// Says what a snapshot has not.
pub(crate) fn saved(report: &SnapshotReport) {
    let names = report.names.iter();
    not_there("not saved", names.map(|name| (&name.name, &name.why)));
    files_left_out(&report.files_left_out);
}

/// Says what did not come back from a snapshot.
pub(crate) fn loaded(report: &LoadReport) {
    let names = report.names.iter();
    not_there("not restored", names.map(|name| (&name.name, &name.why)));
    files_left_out(&report.files_left_out);
    if !report.packages.is_empty() {
        let packages = report.packages.join("; ");
        note(&format!("[different packages: {}]", visible(&packages)));
    }
}

/// Maximum number of names or files that are listed.
const MAX_TOLD: usize = 20;

fn not_there<'a>(what: &str, names: impl Iterator<Item = (&'a String, &'a Option<String>)>) {
    let told = names.filter_map(|(name, why)| Some((name, why.as_ref()?)));
    list(what, &told.collect::<Vec<_>>());
}

fn files_left_out(files: &[FileLeftOut]) {
    let files = files.iter().map(|file| (&file.path, &file.why));
    list("file not saved", &files.collect::<Vec<_>>());
}

fn list(what: &str, told: &[(&String, &String)]) {
    for (name, why) in told.iter().take(MAX_TOLD) {
        note(&format!("[{what}: {} ({})]", visible(name), visible(why)));
    }
    if told.len() > MAX_TOLD {
        note(&format!("[{what}: {} more]", told.len() - MAX_TOLD));
    }
}

/// A remark of ours, on standard error so that it never mixes with a program's output.
pub(crate) fn note(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}", text.dimmed());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_character_is_found() {
        let text = "ab北";
        let bytes = text.as_bytes();
        assert_eq!(unfinished(bytes), 0);
        assert_eq!(unfinished(&bytes[..4]), 2);
        assert_eq!(unfinished(&bytes[..3]), 1);
        assert_eq!(unfinished(&bytes[..2]), 0);
        assert_eq!(unfinished(b"\xff"), 0);
        assert_eq!(unfinished("🙂".as_bytes().split_at(3).0), 3);
        assert_eq!(unfinished(b""), 0);
    }

    #[test]
    fn messages_keep_their_lines_and_nothing_that_hides() {
        assert_eq!(
            message("a\x1b[2Jb\u{9b}31m\u{202e}c\r\nd"),
            "ab<U+202E>c\nd"
        );
    }
}
