//! Showing outcomes, events and errors to a person. What a program wrote goes to a terminal without
//! commands to it, and to a pipe as it is; names that it chose are shown with all their characters.

use std::io::{self, IsTerminal, Read, Seek, Write};

use belljar_sandbox::protocol::{
    Cause, Display, Event, Fate, Outcome, Output, PlainStream, Status, Stream, plain, unfinished,
    visible,
};
use belljar_sandbox::{FileLeftOut, LoadReport, OutputChunk, OutputStream, SnapshotReport};
use owo_colors::OwoColorize;

use crate::{error_texts, words};

/// Shows an error of ours: what happened, why, what to do.
pub(crate) fn error(error: &anyhow::Error) {
    let text = message(&error_texts::full(error));
    let mut stderr = anstream::stderr().lock();
    let mark = words::texts().errors.mark;
    let _ = writeln!(stderr, "{} {text}", mark.red().bold());
}

/// A message of several lines, in which there may be a guest's words and names.
pub(crate) fn message(text: &str) -> String {
    let text = plain(text);
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// What one cell writes, as it is shown. On a terminal, a sequence that comes in two pieces is still
/// one.
#[derive(Debug)]
pub(crate) struct Screen {
    streams: [PlainStream; 2],
    /// The beginning of a character, the rest of which has not come yet.
    cut: [Vec<u8>; 2],
    /// What stands before the value of the last expression.
    value_mark: Option<String>,
}

impl Default for Screen {
    fn default() -> Self {
        Self {
            streams: [PlainStream::redrawing(), PlainStream::redrawing()],
            cut: Default::default(),
            value_mark: None,
        }
    }
}

impl Screen {
    pub(crate) fn mark_values(self, mark: String) -> Self {
        Self {
            value_mark: Some(mark),
            ..self
        }
    }

    /// Shows what a cell says while it runs. Its output goes to the stream it was written to.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Output { stream, text } => self.output(*stream, text),
            Event::Display(shown) => {
                let mark = self.value_mark.as_deref().filter(|_| shown.value);
                display(shown, mark.unwrap_or_default())
            }
            Event::Denied(denial) => {
                note(&words::texts().session.network(denial));
                Ok(())
            }
            Event::Called { .. }
            | Event::CallDenied { .. }
            | Event::CallCancelled { .. }
            | Event::InputRequested { .. }
            | Event::InputClosed { .. }
            | Event::Cleared { .. }
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
            note(words::texts().session.rest_not_kept);
        }
        Ok(())
    }

    /// Shows what a command wrote. What it wrote to a terminal is for ours, as it is.
    pub(crate) fn chunk(&mut self, chunk: &OutputChunk) -> io::Result<()> {
        let stream = match chunk.stream {
            OutputStream::Stdout => Stream::Stdout,
            OutputStream::Stderr => Stream::Stderr,
            OutputStream::Terminal => return write(Stream::Stdout, &chunk.bytes),
        };
        if !is_terminal(stream) {
            return write(stream, &chunk.bytes);
        }
        let cut = &mut self.cut[usize::from(stream == Stream::Stderr)];
        cut.extend_from_slice(&chunk.bytes);
        let whole: Vec<u8> = cut.drain(..cut.len() - unfinished(cut)).collect();
        self.output(stream, &String::from_utf8_lossy(&whole))
    }

    /// Shows what was held back, for the cell or the command has ended.
    pub(crate) fn end(mut self) -> io::Result<()> {
        let cut = std::mem::take(&mut self.cut);
        for ((stream, cut), place) in [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .zip(cut)
            .zip(0..)
        {
            self.output(stream, &String::from_utf8_lossy(&cut))?;
            write(stream, self.streams[place].finish().as_bytes())?;
        }
        Ok(())
    }

    /// Writes a program's text. A terminal gets it without commands, a pipe as it is.
    fn output(&mut self, stream: Stream, text: &str) -> io::Result<()> {
        if is_terminal(stream) {
            let [stdout, stderr] = &mut self.streams;
            let held = match stream {
                Stream::Stdout => stdout,
                Stream::Stderr => stderr,
            };
            return write(stream, held.push(text).as_bytes());
        }
        write(stream, text.as_bytes())
    }
}

pub(crate) fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Stdout => io::stdout().is_terminal(),
        Stream::Stderr => io::stderr().is_terminal(),
    }
}

pub(crate) fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    fn to(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
        out.write_all(bytes)?;
        out.flush()
    }
    match stream {
        Stream::Stdout => to(io::stdout().lock(), bytes),
        Stream::Stderr => to(io::stderr().lock(), bytes),
    }
}

/// Says where the middle of a long output is, which was not shown.
pub(crate) fn left_out(outcome: &Outcome) {
    for output in [&outcome.stdout, &outcome.stderr] {
        if let Some(file) = &output.file {
            let texts = &words::texts().session;
            note(&if output.file_truncated {
                texts.long_output_beginning(&file.display())
            } else {
                texts.long_output(&file.display())
            });
        }
    }
}

/// Shows a rich output: its text after a mark, and what else it has.
fn display(display: &Display, mark: &str) -> io::Result<()> {
    if let Some(text) = display.text() {
        if !mark.is_empty() {
            // The columns of a table stay under each other.
            let end = if text.contains('\n') { "\n" } else { "" };
            let mut stdout = anstream::stdout().lock();
            write!(stdout, "{}{end}", mark.red())?;
            stdout.flush()?;
        }
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
        let texts = &words::texts().session;
        note(&texts.file(&visible(&artifact.path), artifact.size));
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
        && outcome.remedy.is_none()
        && (outcome.exception.is_some() || matches!(outcome.cause, Cause::Exit { .. }));
    if !says_itself && let Some(next) = outcome.next_step(words::language()) {
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{} {}", "belljar:".yellow().bold(), message(&next));
    }
}

/// Says what a snapshot has not.
pub(crate) fn saved(report: &SnapshotReport) {
    let texts = &words::texts().session;
    let names = report.names.iter();
    let names = names.filter_map(|name| Some((&name.name, name.why.as_ref()?)));
    list(names, texts.not_saved, texts.more_not_saved);
    files_left_out(&report.files_left_out);
}

/// Says what did not come back from a snapshot.
pub(crate) fn loaded(report: &LoadReport) {
    let texts = &words::texts().session;
    let names = report.names.iter();
    let names = names.filter_map(|name| Some((&name.name, name.why.as_ref()?)));
    list(names, texts.not_restored, texts.more_not_restored);
    files_left_out(&report.files_left_out);
    if !report.packages.is_empty() {
        let packages = report.packages.join("; ");
        note(&texts.other_packages(&visible(&packages)));
    }
}

/// Maximum number of names or files that are listed.
const MAX_TOLD: usize = 20;

fn files_left_out(files: &[FileLeftOut]) {
    let texts = &words::texts().session;
    let files = files.iter().map(|file| (&file.path, &file.why));
    list(files, texts.file_not_saved, texts.more_files_not_saved);
}

/// Shows each thing with its reason, and how many more there are.
fn list<'a>(
    things: impl Iterator<Item = (&'a String, &'a String)>,
    one: fn(&str, &str) -> String,
    more: fn(usize) -> String,
) {
    let things: Vec<_> = things.collect();
    for (name, why) in things.iter().take(MAX_TOLD) {
        note(&one(&visible(name), &visible(why)));
    }
    if things.len() > MAX_TOLD {
        note(&more(things.len() - MAX_TOLD));
    }
}

/// Shows a cell as the editor does where it is typed.
pub(crate) fn prompted(prompt: &str, text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{}{text}", prompt.green());
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
