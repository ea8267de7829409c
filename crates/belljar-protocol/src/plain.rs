//! Text of a guest made safe to show: without commands to a terminal, and, for names, without
//! characters that can't be seen.
//!
//! Two ways, for two kinds of text:
//!
//! * [`plain`] and [`PlainStream`] are for what a program writes: output, tracebacks, displays.
//!   Every sequence of ECMA-48 is taken out whole, and every control character but line feed and
//!   tab. They never hide text that a reader could have seen:
//!   * a carriage return, which would let a program write over its own line, becomes a line feed
//!     (a progress bar is shown line by line); with the line feed that follows it, it is one.
//!     Only a line that is redrawn again and again is redrawn on a live terminal
//!     ([`PlainStream::redrawing`]), and an outcome has its last state ([`redrawn`]);
//!   * a backspace is dropped, and what it would have rubbed out stays;
//!   * what begins like a sequence and isn't one (it breaks off, has no end on its line, or none
//!     within 4 KiB) loses its control characters only; the rest of it is shown. So a string that
//!     is never ended doesn't eat the output that follows it.
//! * [`visible`] is for names: files, hosts, processes, types. There a character that can't be seen
//!   is a disguise, so each one is shown as `<U+202E>`, and nothing is left out.
//!
//! Written by hand: the crates for it follow a terminal's own parser, in which a string without an
//! end hides everything that comes after it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Goes to the start of the line and erases it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The longest sequence, in bytes after its introducer. Longer ones are taken for text.
const MAX_SEQUENCE: usize = 4096;

/// A program's text without commands to a terminal; see the module for what that means.
///
/// It is idempotent, never longer than the text, and the text itself if there is nothing to do.
pub fn plain(text: &str) -> Cow<'_, str> {
    let mut stream = PlainStream::default();
    let mut out = stream.push(text);
    let rest = stream.finish();
    if !rest.is_empty() {
        out.to_mut().push_str(&rest);
    }
    out
}

/// A line with so many carriage returns in it is redrawn, as a progress bar is. One that was written
/// over once or twice is shown with what it was before.
const REDRAWN: usize = 3;

/// A program's text as a terminal would leave it where lines were redrawn: of such a line, what was
/// written after the last carriage return. A line feed after one is the end of the line, as ever.
pub fn redrawn(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\r', '\n']);
        let is_redrawn = content.matches('\r').count() >= REDRAWN;
        let last = content.rfind('\r').filter(|_| is_redrawn);
        out.push_str(&line[last.map_or(0, |at| at + 1)..]);
    }
    Cow::Owned(out)
}

/// What was read of a sequence so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// None has begun.
    #[default]
    Text,
    /// ESC, and intermediates.
    Escape,
    /// CSI, parameters and intermediates.
    Control,
    /// The introducer of a string, and its contents. Of those only OSC may end with BEL.
    String { bell_ends: bool },
    /// The same, and an ESC that may be the first half of its end.
    StringEscape { bell_ends: bool },
}

/// [`plain`] for text that arrives in pieces: together the results are that of the whole text,
/// wherever it was cut. Holds back at most 4 KiB.
#[derive(Clone, Debug, Default)]
pub struct PlainStream {
    state: State,
    /// What may be seen of a sequence whose end has not come.
    held: String,
    /// Whether something stands on the current line.
    in_line: bool,
    /// Whether the last line ended with a carriage return, which a line feed may follow.
    returned: bool,
    redraw: Redraw,
}

/// Whether a line may be redrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Redraw {
    #[default]
    Never,
    /// It may, once it was written over often enough: so often so far.
    Ready(usize),
    /// The next text takes the place of the line.
    Next,
}

impl PlainStream {
    /// For a terminal that a person watches: from the third carriage return of a line on, the line is
    /// written anew in its place. So a progress bar is three lines, and nothing is hidden by a line
    /// that is written over.
    pub fn redrawing() -> Self {
        Self {
            redraw: Redraw::Ready(0),
            ..Self::default()
        }
    }

    /// The next piece, made plain.
    pub fn push<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let mut rest = text;
        if self.state == State::Text {
            let (clean, other) = split_plain(text);
            let is_new_line = self.returned && clean.starts_with('\n');
            if other.is_empty() && !is_new_line && self.redraw != Redraw::Next {
                self.saw(clean);
                return Cow::Borrowed(text);
            }
        }
        let mut out = String::with_capacity(text.len());
        while !rest.is_empty() {
            if self.state == State::Text {
                let (clean, other) = split_plain(rest);
                self.show(clean, &mut out);
                rest = other;
            }
            let mut characters = rest.chars();
            if let Some(c) = characters.next() {
                self.step(c, &mut out);
            }
            rest = characters.as_str();
        }
        Cow::Owned(out)
    }

    /// What was held back, once nothing more comes. The stream is then as new.
    pub fn finish(&mut self) -> String {
        let new = match self.redraw {
            Redraw::Never => Self::default(),
            Redraw::Ready(_) | Redraw::Next => Self::redrawing(),
        };
        std::mem::replace(self, new).held
    }

    /// One character that is a control, or part of a sequence.
    fn step(&mut self, c: char, out: &mut String) {
        let next = match (self.state, c) {
            (State::String { bell_ends: true }, '\x07')
            | (State::String { .. }, '\u{9c}')
            | (State::StringEscape { .. }, '\\')
            | (State::Control, '\x40'..='\x7e') => self.done(),
            // Part of the string, and nothing to see.
            (State::String { .. }, '\x07') => self.state,
            (State::String { bell_ends }, '\x1b') => State::StringEscape { bell_ends },
            (State::StringEscape { .. }, c) => {
                self.broken(out);
                self.state = State::Escape;
                return self.step(c, out);
            }
            (State::Control, '\x20'..='\x3f') | (State::Escape, '\x20'..='\x2f') => {
                self.hold(c, out)
            }
            (State::String { .. }, c) if c == '\t' || !c.is_control() => self.hold(c, out),
            (State::Escape, '\x30'..='\x7e') => match c {
                '[' | ']' | 'P' | 'X' | '^' | '_' if self.held.is_empty() => introduced(c),
                _ => self.done(),
            },
            (_, '\x1b') => {
                self.broken(out);
                State::Escape
            }
            (_, '\u{80}'..='\u{9f}') => {
                self.broken(out);
                // An 8-bit control is ESC with the character 64 places before it.
                char::from_u32(u32::from(c) - 0x40).map_or(State::Text, introduced)
            }
            (_, c) => {
                self.broken(out);
                match c {
                    '\r' if self.in_line => match self.redraw {
                        Redraw::Ready(times) if times + 1 >= REDRAWN => self.redraw = Redraw::Next,
                        Redraw::Next => {}
                        before => {
                            self.show("\n", out);
                            self.returned = true;
                            if let Redraw::Ready(times) = before {
                                self.redraw = Redraw::Ready(times + 1);
                            }
                        }
                    },
                    c if c.is_control() && c != '\n' && c != '\t' => {}
                    c => self.show(c.encode_utf8(&mut [0; 4]), out),
                }
                State::Text
            }
        };
        self.state = next;
    }

    /// Keeps a character of a sequence until it is known whether it is one.
    fn hold(&mut self, c: char, out: &mut String) -> State {
        self.held.push(c);
        if self.held.len() < MAX_SEQUENCE {
            return self.state;
        }
        self.broken(out);
        State::Text
    }

    /// The sequence is whole: nothing of it is shown.
    fn done(&mut self) -> State {
        self.held.clear();
        State::Text
    }

    /// It was no sequence: what can be seen of it is shown.
    fn broken(&mut self, out: &mut String) {
        let mut held = std::mem::take(&mut self.held);
        self.show(&held, out);
        held.clear();
        self.held = held;
    }

    /// Writes text without controls, but for the line feed of a carriage return already written.
    fn show(&mut self, text: &str, out: &mut String) {
        let text = match text.strip_prefix('\n') {
            Some(rest) if self.returned => {
                self.returned = false;
                self.end_line();
                rest
            }
            _ => text,
        };
        if self.redraw == Redraw::Next && !text.is_empty() {
            self.redraw = Redraw::Ready(REDRAWN);
            if !text.starts_with('\n') {
                out.push_str(CLEAR_LINE);
            }
        }
        self.saw(text);
        out.push_str(text);
    }

    /// The next line was not written over yet.
    fn end_line(&mut self) {
        if self.redraw != Redraw::Never {
            self.redraw = Redraw::Ready(0);
        }
    }

    fn saw(&mut self, text: &str) {
        if text.contains('\n') {
            self.end_line();
        }
        if let Some(last) = text.as_bytes().last() {
            self.in_line = *last != b'\n';
            self.returned = false;
        }
    }
}

/// What ESC and this character, or the one 8-bit control for both, begin.
fn introduced(c: char) -> State {
    match c {
        '[' => State::Control,
        ']' => State::String { bell_ends: true },
        'P' | 'X' | '^' | '_' => State::String { bell_ends: false },
        _ => State::Text,
    }
}

/// The longest start without a control other than line feed and tab, and the rest.
fn split_plain(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let control = |at: usize, byte: u8| match byte {
        b'\n' | b'\t' => false,
        0..0x20 | 0x7f => true,
        // C1, in UTF-8.
        0xc2 => bytes.get(at + 1).is_some_and(|next| *next < 0xa0),
        _ => false,
    };
    let end = bytes
        .iter()
        .enumerate()
        .position(|(at, byte)| control(at, *byte));
    text.split_at(end.unwrap_or(text.len()))
}

/// A name on one line, with every character that can't be seen as `<U+202E>`: controls of text
/// direction, characters without width, tags, fillers, and all control characters. A variation
/// selector stays where it belongs, after a symbol that may be an emoji.
///
/// It is idempotent, and the name itself if there is nothing to do. For output of programs use
/// [`plain`]: many scripts and emoji need some of these characters.
pub fn visible(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| matches!(byte, 0x20..0x7f)) {
        return Cow::Borrowed(name);
    }
    let mut out = String::new();
    let mut shown = 0;
    let mut previous = '\0';
    for (at, c) in name.char_indices() {
        let selects = matches!(c, '\u{fe0e}' | '\u{fe0f}') && may_be_emoji(previous);
        if is_hidden(c) && !selects {
            out.push_str(&name[shown..at]);
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
            shown = at + c.len_utf8();
        }
        previous = c;
    }
    if shown == 0 {
        return Cow::Borrowed(name);
    }
    out.push_str(&name[shown..]);
    Cow::Owned(out)
}

/// Characters that are controls, end a line, or leave no mark: what Unicode calls
/// `Default_Ignorable_Code_Point`, and of its format characters those without a glyph.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The symbols among which are all that have an emoji form. Digits have one too, but a digit with a
/// selector looks like one without.
fn may_be_emoji(c: char) -> bool {
    matches!(c, '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23fa}' | '\u{24c2}'
        | '\u{25aa}'..='\u{27bf}' | '\u{2934}'..='\u{2935}' | '\u{2b05}'..='\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// How many bytes at the end are the beginning of a character: the rest of it may come with the next bytes.
pub fn unfinished(bytes: &[u8]) -> usize {
    let end = &bytes[bytes.len().saturating_sub(4)..];
    let last = end
        .utf8_chunks()
        .last()
        .map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
