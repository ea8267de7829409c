//! Output of a cell, within bounds: the head and the tail in memory, the full text in a file up to
//! a cap, the rest only counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use belljar_protocol::{Output, Stream, redrawn};

use crate::limits::Limits;

/// Both streams of one cell.
#[derive(Debug)]
pub(crate) struct Capture {
    streams: [Kept; 2],
    files: [Spill; 2],
    decoders: [Decoder; 2],
    /// Both in order, as a terminal would show them.
    transcript: Kept,
}

impl Capture {
    /// Keeps of each stream what the limits say in memory, and of one that has more also a file in
    /// `directory`.
    pub(crate) fn new(limits: &Limits, directory: &Path, cell: u32) -> Self {
        let file_cap = limits.output_file_bytes;
        let kept = || Kept::new(limits.live_bytes(), limits.output_kept_bytes);
        let spill = |name| Spill::new(directory.join(format!("cell-{cell}.{name}")), file_cap);
        Self {
            streams: [kept(), kept()],
            files: [spill("stdout"), spill("stderr")],
            decoders: [Decoder::default(), Decoder::default()],
            transcript: kept(),
        }
    }

    /// Takes what was read. Returns the text to show live, and whether the live view of this
    /// stream ends with it.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) -> (String, bool) {
        let index = match stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        let kept = &mut self.streams[index];
        let was_full = kept.is_full();
        if was_full {
            self.files[index].write(bytes);
        }
        let live = kept.push(bytes);
        self.transcript.push(bytes);
        if kept.is_full() && !was_full {
            // From here on the file has everything from the start.
            self.files[index].write(&kept.head);
            self.files[index].write(&bytes[live.len()..]);
        }
        (
            self.decoders[index].decode(live),
            kept.is_full() && !was_full,
        )
    }

    /// Bytes written so far, on both streams.
    pub(crate) fn total(&self) -> u64 {
        self.streams.iter().map(|kept| kept.total).sum()
    }

    /// Leaves what was written so far out of the texts.
    pub(crate) fn clear(&mut self) {
        let [stdout, stderr] = &mut self.streams;
        for kept in [stdout, stderr, &mut self.transcript] {
            kept.cleared = kept.total;
        }
    }

    /// Standard output, standard error, and the transcript of both.
    pub(crate) fn finish(self) -> (Output, Output, String) {
        let [stdout, stderr] = self.streams;
        let [stdout_file, stderr_file] = self.files;
        (
            stdout.finish(stdout_file),
            stderr.finish(stderr_file),
            self.transcript.text().0,
        )
    }
}

/// Head and tail of a byte stream.
#[derive(Debug)]
pub(super) struct Kept {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
    /// How much of it the program has cleared.
    cleared: u64,
}

impl Kept {
    pub(super) fn new(head_cap: usize, cap: usize) -> Self {
        Self {
            head: Vec::new(),
            head_cap,
            tail: VecDeque::new(),
            tail_cap: cap - head_cap,
            total: 0,
            cleared: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.head.len() == self.head_cap
    }

    /// Keeps what fits, and returns the part of it that belongs to the head.
    pub(super) fn push<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.total += bytes.len() as u64;
        let fits = bytes.len().min(self.head_cap - self.head.len());
        let (head, rest) = bytes.split_at(fits);
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..over);
        self.tail.extend(rest);
        head
    }

    /// The text, and how many bytes it leaves out at its mark.
    fn text(mut self) -> (String, u64) {
        let head_end = self.head.len() as u64;
        let tail_start = self.total - self.tail.len() as u64;
        let omitted = tail_start.saturating_sub(self.cleared.max(head_end));
        let cut = |bytes: &mut Vec<u8>, start: u64| {
            let cleared = self.cleared.saturating_sub(start);
            let cleared = usize::try_from(cleared).unwrap_or(usize::MAX);
            bytes.drain(..cleared.min(bytes.len()));
        };
        let mut tail: Vec<u8> = self.tail.into();
        cut(&mut self.head, 0);
        cut(&mut tail, tail_start);
        if omitted == 0 {
            self.head.extend(tail);
            return (redrawn(&Decoder::whole(&self.head)).into_owned(), 0);
        }
        let text = format!(
            "{}\n[… {omitted} bytes left out …]\n{}",
            redrawn(&Decoder::whole(&self.head)),
            redrawn(&Decoder::whole(&tail))
        );
        (text, omitted)
    }

    /// Without a file for the rest.
    pub(super) fn into_output(self) -> Output {
        let bytes = self.total;
        let (text, omitted_bytes) = self.text();
        Output {
            text,
            bytes,
            omitted_bytes,
            file: None,
            file_truncated: false,
        }
    }

    fn finish(self, file: Spill) -> Output {
        let mut output = self.into_output();
        // Whoever followed it live up to the end of the head finds the rest there.
        let is_less = output.omitted_bytes > 0 || (output.text.len() as u64) < output.bytes;
        (output.file, output.file_truncated) = file.finish(is_less);
        output
    }
}

/// The file that holds a whole stream, up to a cap.
#[derive(Debug)]
struct Spill {
    path: PathBuf,
    file: Option<File>,
    room: u64,
    truncated: bool,
}

impl Spill {
    fn new(path: PathBuf, cap: u64) -> Self {
        Self {
            path,
            file: None,
            room: cap,
            truncated: false,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.file.is_none() && !self.truncated {
            if let Some(parent) = self.path.parent() {
                let _ = std::fs::create_dir_all(parent);
            }
            self.file = File::create(&self.path).ok();
        }
        let fits = bytes
            .len()
            .min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let written = self
            .file
            .as_mut()
            .is_some_and(|file| file.write_all(&bytes[..fits]).is_ok());
        self.room -= fits as u64;
        self.truncated |= !written || fits < bytes.len();
    }

    /// The file's path, if it is wanted and there; and whether it lacks something.
    fn finish(self, wanted: bool) -> (Option<PathBuf>, bool) {
        if wanted && self.file.is_some() {
            return (Some(self.path), self.truncated);
        }
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
        (None, false)
    }
}

/// Turns bytes that arrive in pieces into text. Bytes that are not UTF-8 become `\xNN`, so nothing
/// is lost and nothing invalid is passed on.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The start of a character whose end has not arrived.
    pending: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut input = std::mem::take(&mut self.pending);
        input.extend_from_slice(bytes);
        let (text, rest) = escape(&input);
        self.pending = rest.to_vec();
        text
    }

    fn whole(bytes: &[u8]) -> String {
        let (mut text, rest) = escape(bytes);
        push_escaped(&mut text, rest);
        text
    }
}

/// The text, and an incomplete character at the end if there is one.
fn escape(mut bytes: &[u8]) -> (String, &[u8]) {
    let mut text = String::with_capacity(bytes.len());
    loop {
        match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return (text, &[]);
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                let Some(bad) = error.error_len() else {
                    return (text, rest);
                };
                let (bad, rest) = rest.split_at(bad);
                push_escaped(&mut text, bad);
                bytes = rest;
            }
        }
    }
}

fn push_escaped(text: &mut String, bytes: &[u8]) {
    use std::fmt::Write as _;
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture(kept: usize, cap: u64) -> (tempfile::TempDir, Capture) {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits {
            output_kept_bytes: kept,
            output_file_bytes: cap,
            ..Limits::default()
        };
        let capture = Capture::new(&limits, directory.path(), 1);
        (directory, capture)
    }

    #[test]
    fn short_output_is_kept_whole_and_leaves_no_file() {
        let (directory, mut capture) = capture(100, 1000);
        assert_eq!(
            capture.push(Stream::Stdout, b"one\n"),
            ("one\n".into(), false)
        );
        capture.push(Stream::Stderr, b"two\n");
        capture.push(Stream::Stdout, "x".repeat(90).as_bytes());
        let (stdout, stderr, transcript) = capture.finish();
        assert_eq!(stdout.text, "one\n".to_owned() + &"x".repeat(90));
        assert_eq!((stdout.omitted_bytes, stdout.file), (0, None));
        assert_eq!(stderr.text, "two\n");
        assert!(transcript.starts_with("one\ntwo\nxxx"));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn long_output_is_cut_in_the_middle_and_kept_in_a_file() {
        let (_directory, mut capture) = capture(100, 250);
        let mut truncations = 0;
        for i in 0..100 {
            truncations += usize::from(
                capture
                    .push(Stream::Stdout, format!("{i:04}\n").as_bytes())
                    .1,
            );
        }
        let (stdout, _, _) = capture.finish();
        assert_eq!(truncations, 1);
        assert_eq!((stdout.bytes, stdout.omitted_bytes), (500, 400));
        assert!(stdout.text.starts_with("0000\n0001\n"), "{}", stdout.text);
        assert!(
            stdout.text.contains("[… 400 bytes left out …]"),
            "{}",
            stdout.text
        );
        assert!(stdout.text.ends_with("0099\n"), "{}", stdout.text);
        let file = std::fs::read_to_string(stdout.file.unwrap()).unwrap();
        assert_eq!(file.len(), 250);
        assert!(file.starts_with("0000\n0001\n") && stdout.file_truncated);
    }

    proptest! {
        /// Whatever the pieces: head and tail are the head and tail of the whole, the live view
        /// is its beginning, and nothing is counted twice.
        #[test]
        fn pieces_do_not_matter(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
            let (_directory, mut capture) = capture(64, 10_000);
            let whole: Vec<u8> = pieces.concat();
            let mut live = String::new();
            for piece in &pieces {
                live += &capture.push(Stream::Stdout, piece).0;
            }
            let (stdout, _, transcript) = capture.finish();
            prop_assert_eq!(stdout.bytes, whole.len() as u64);
            prop_assert_eq!(stdout.omitted_bytes, whole.len().saturating_sub(64) as u64);
            prop_assert!(Decoder::whole(&whole).starts_with(&live));
            prop_assert_eq!(&transcript, &stdout.text);
            if whole.len() > 64 {
                prop_assert_eq!(std::fs::read(stdout.file.unwrap()).unwrap(), whole);
            } else {
                let whole = Decoder::whole(&whole);
                prop_assert_eq!(stdout.text, redrawn(&whole));
            }
        }
    }

    #[test]
    fn of_a_redrawn_line_the_last_state_is_kept_and_the_file_has_all() {
        let (_directory, mut capture) = capture(100, 10_000);
        for percent in 0..100 {
            capture.push(Stream::Stderr, format!("\r{percent:3}%").as_bytes());
        }
        capture.push(Stream::Stderr, b"\ndone\r\n");
        let (_, stderr, transcript) = capture.finish();
        // The first 75 bytes and the last 25.
        let text = " 14%\n[… 407 bytes left out …]\n 99%\ndone\r\n";
        assert_eq!((stderr.text.as_str(), stderr.omitted_bytes), (text, 407));
        assert_eq!(transcript, text);
        assert_eq!(std::fs::read(stderr.file.unwrap()).unwrap().len(), 507);
    }

    #[test]
    fn what_was_cleared_is_left_out_wherever_it_is() {
        for cleared in [0, 10, 75, 80, 300, 390, 400] {
            let (_directory, mut capture) = capture(100, 10_000);
            let whole: Vec<u8> = (b'a'..=b'z').cycle().take(400).collect();
            capture.push(Stream::Stdout, &whole[..cleared]);
            capture.clear();
            capture.push(Stream::Stdout, &whole[cleared..]);
            let (stdout, _, transcript) = capture.finish();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let omitted = 375_usize.saturating_sub(cleared.max(75));
            let head = text(&whole[cleared.min(75)..75]);
            let tail = text(&whole[cleared.max(375)..]);
            let expected = match omitted {
                0 => head + &tail,
                _ => format!("{head}\n[… {omitted} bytes left out …]\n{tail}"),
            };
            assert_eq!(stdout.text, expected, "{cleared}");
            assert_eq!(stdout.omitted_bytes, omitted as u64, "{cleared}");
            assert_eq!((stdout.bytes, transcript), (400, expected), "{cleared}");
            assert_eq!(std::fs::read(stdout.file.unwrap()).unwrap(), whole);
        }
    }

    #[test]
    fn a_character_in_two_pieces_is_one_character() {
        let mut decoder = Decoder::default();
        let bytes = "北".as_bytes();
        assert_eq!(decoder.decode(&bytes[..2]), "");
        assert_eq!(decoder.decode(&bytes[2..]), "北");
        assert_eq!(
            Decoder::whole(b"\xff\x00\xed\xa0\x80"),
            "\\xff\0\\xed\\xa0\\x80"
        );
    }
}
