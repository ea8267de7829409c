//! Showing outcomes, events and errors to a person.

use std::io::{self, Read, Seek, Write};

use belljar_sandbox::protocol::{
    Cause, Display, Event, Fate, Language, Outcome, Output, Status, Stream,
};
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
            '\n' | '\t' | '\r' => c,
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Shows what a cell says while it runs. Its output goes to the stream it was written to.
pub(crate) fn event(event: &Event) -> io::Result<()> {
    match event {
        Event::Output { stream, text } => output(*stream, text),
        Event::Display(shown) => display(shown),
        Event::Denied(denial) => {
            note(&format!("[network: {denial}]"));
            Ok(())
        }
        Event::Truncated { .. } | Event::Started { .. } | Event::Outcome(_) => Ok(()),
    }
}

/// Shows what was too long to be told live. Of a stream that is kept in a file the first `live`
/// bytes were told; of one that is in memory, `shown` bytes of its text.
pub(crate) fn rest(written: &Output, stream: Stream, live: usize, shown: usize) -> io::Result<()> {
    let Some(path) = &written.file else {
        return match written.text.get(shown..) {
            Some(rest) => output(stream, rest),
            None => Ok(()),
        };
    };
    let mut file = std::fs::File::open(path)?;
    // The start of a character whose end was not told: it is at most three bytes.
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
        output(stream, &String::from_utf8_lossy(&pending[..whole]))?;
        pending.drain(..whole);
        if read == 0 {
            break;
        }
    }
    if written.file_truncated {
        note("[the output goes on; the rest was not kept]");
    }
    Ok(())
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
                "[the output is long; {} of it is in {} while the session lives]",
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

/// Writes a program's text. A terminal gets it without control characters, a pipe as it is.
fn output(stream: Stream, text: &str) -> io::Result<()> {
    fn write(mut out: impl Write + io::IsTerminal, text: &str) -> io::Result<()> {
        if out.is_terminal() {
            out.write_all(clean(text).as_bytes())?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()
    }
    match stream {
        Stream::Stdout => write(io::stdout().lock(), text),
        Stream::Stderr => write(io::stderr().lock(), text),
    }
}

/// Shows a rich output: its text, and what else it has.
fn display(display: &Display) -> io::Result<()> {
    if let Some(text) = display.text() {
        output(Stream::Stdout, &format!("{text}\n"))?;
    }
    for part in &display.parts {
        if part.mime.starts_with("image/") {
            crate::show_image::show(part);
        }
    }
    Ok(())
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
    // The exception says it all, and who calls sys.exit knows.
    let says_itself = outcome.state == Fate::Kept
        && outcome.status == Status::Failure
        && (outcome.exception.is_some() || matches!(outcome.cause, Cause::Exit { .. }));
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
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(
            clean("a\x1b[2Jb\u{9b}31m\tc\r\n"),
            "a\u{fffd}[2Jb\u{fffd}31m\tc\r\n"
        );
    }
}
