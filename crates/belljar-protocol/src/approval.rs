//! The view of code, or of the arguments of a call, that a person approves.
//!
//! [`Shown::new`] makes it for everyone: the terminal, the web interface and MCP clients render its
//! result and nothing else. The view is complete. Characters that are invisible, move other text,
//! or pass for something else are escaped; repetitions that would push the rest out of sight are
//! folded. Two different texts are shown as different rows, except for a line feed at their end.
//! [`visible`](crate::visible) does the same for names, but doesn't distinguish the text `<U+202E>`
//! from the character; here that would be a way to deceive.

mod letters;
mod remarks;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use letters::{Kind, disguised, is_escaped, kind};

/// The longest run of blanks that is shown unchanged, in columns.
const GAP: usize = 60;
/// The longest run of blank lines that is shown unchanged, and how many kinds of them are
/// distinguished.
const EMPTY_LINES: usize = 4;
const EMPTY_KINDS: usize = 8;
/// The longest run of a character that is shown unchanged, and of an escaped one.
const REPEATS: usize = 120;
const ESCAPED_REPEATS: usize = 8;
/// Columns of a row. Longer lines take several.
const WIDTH: usize = 100;
/// A tab. The blanks are a part of it.
const TAB: &str = "⇥   ";

/// A text as a person sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// Warnings, each in a few words. Ordinary text has none.
    pub remarks: Vec<String>,
    /// All of it, row by row.
    pub rows: Vec<ShownRow>,
}

/// A line as a person sees it, or a part of a long one, or several blank ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownRow {
    /// The number of the line that begins here; none if the row continues the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Its parts, from left to right.
    pub parts: Vec<ShownPart>,
}

/// A piece of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownPart {
    /// Text to be shown unchanged: letters, signs and single spaces, and nothing that acts on other
    /// text.
    pub text: String,
    /// Whether it replaces something invisible or deceptive, as `\u{202e}`, or a long repetition,
    /// as `⟨40 empty lines⟩`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub odd: bool,
}

impl ShownRow {
    /// Its text.
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }
}

impl Shown {
    /// All of a text, without disguise.
    pub fn new(text: &str) -> Self {
        let lines = lines(text);
        let mut writer = Writer::new(WIDTH);
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let quiet = rest.iter().take_while(|line| is_quiet(line)).count();
            let (now, later) = rest.split_at(if quiet > EMPTY_LINES { quiet } else { 1 });
            match now {
                [line] => {
                    writer.begin(now);
                    writer.line(line);
                }
                quiet => writer.quiet(quiet),
            }
            rest = later;
        }
        Self {
            remarks: remarks::remarks(text, &lines),
            rows: writer.rows,
        }
    }
}

/// A name, or a few words of another party, on one line and without disguise.
pub fn shown_line(text: &str) -> String {
    let mut writer = Writer::new(usize::MAX);
    writer.row(None);
    writer.characters(text);
    writer.rows.iter().map(ShownRow::text).collect()
}

/// The lines of a text, each with its end. Python takes a carriage return for one too.
fn lines(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let ends = |at: usize| match bytes[at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    let (mut lines, mut start) = (Vec::new(), 0);
    for end in (0..bytes.len()).filter(|at| ends(*at)) {
        lines.push(&text[start..=end]);
        start = end + 1;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// A line that ends, and is blank.
fn is_quiet(line: &str) -> bool {
    let is_unseen = |c| {
        let unseen = [
            Kind::Control,
            Kind::Space,
            Kind::Invisible,
            Kind::Bidirectional,
        ];
        is_blank(c) || kind(c).is_some_and(|kind| unseen.contains(&kind))
    };
    line.ends_with(['\n', '\r']) && line.chars().all(is_unseen)
}

fn columns(blanks: &str) -> usize {
    let columns = |c| if c == '\t' { TAB.chars().count() } else { 1 };
    blanks.chars().map(columns).sum()
}

/// Blanks as text: `3 spaces, 1 tab`.
fn blanks_in_words(blanks: &str) -> String {
    let runs = blanks.as_bytes().chunk_by(|one, other| one == other);
    let words = runs.map(|run| match run.first() {
        Some(b'\t') => counted(run.len(), "tab", "tabs"),
        _ => counted(run.len(), "space", "spaces"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn escape(c: char) -> String {
    format!("\\u{{{:x}}}", u32::from(c))
}

struct Writer {
    rows: Vec<ShownRow>,
    width: usize,
    /// Columns that the last row has.
    used: usize,
    /// The number of the next line, if one begins there: a carriage return doesn't end a line for
    /// readers that count line feeds.
    line: u32,
    is_new: bool,
}

impl Writer {
    fn new(width: usize) -> Self {
        Self {
            rows: Vec::new(),
            width,
            used: 0,
            line: 1,
            is_new: true,
        }
    }

    /// A row for these lines.
    fn begin(&mut self, lines: &[&str]) {
        self.row(self.is_new.then_some(self.line));
        let ended = lines.iter().filter(|line| line.ends_with('\n')).count();
        let ended = u32::try_from(ended).unwrap_or(u32::MAX);
        self.line = self.line.saturating_add(ended);
        self.is_new = lines.last().is_some_and(|line| line.ends_with('\n'));
    }

    fn row(&mut self, line: Option<u32>) {
        let parts = Vec::new();
        self.rows.push(ShownRow { line, parts });
        self.used = 0;
    }

    /// Writes what belongs together.
    fn put(&mut self, text: &str, odd: bool) {
        // Letters of East Asia take two columns.
        let columns = text.chars().map(|c| 1 + usize::from(c >= '\u{1100}')).sum();
        if self.used > 0 && self.used.saturating_add(columns) > self.width {
            self.row(None);
        }
        self.used = self.used.saturating_add(columns);
        let Some(row) = self.rows.last_mut() else {
            return;
        };
        match row.parts.last_mut() {
            Some(part) if part.odd == odd => part.text.push_str(text),
            _ => row.parts.push(ShownPart {
                text: text.to_owned(),
                odd,
            }),
        }
    }

    fn mark(&mut self, words: &str) {
        self.put(&format!("⟨{words}⟩"), true);
    }

    /// A line. A line feed at its end is not shown.
    fn line(&mut self, line: &str) {
        match line.strip_suffix('\r') {
            Some(line) => {
                self.characters(line);
                self.mark("carriage return");
            }
            None => self.characters(line.strip_suffix('\n').unwrap_or(line)),
        }
    }

    fn characters(&mut self, text: &str) {
        let disguised = disguised(text);
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let same = rest.len() - rest.trim_start_matches(c).len();
            let blanks = &rest[..rest.len() - rest.trim_start_matches(is_blank).len()];
            let times = same / c.len_utf8();
            // Text that looks like our own escapes, marks or tabs is escaped.
            let ours = matches!(c, '⟨' | '⟩' | '⇥') || rest.starts_with("\\u{");
            let odd = ours || is_escaped(c) || disguised.contains(&at);
            at += if columns(blanks) > GAP {
                self.mark(&blanks_in_words(blanks));
                blanks.len()
            } else if c == '\t' {
                self.put(TAB, false);
                1
            } else if !is_blank(c) && times > if odd { ESCAPED_REPEATS } else { REPEATS } {
                let one = if odd { escape(c) } else { c.into() };
                self.mark(&format!("{} × {one}", thousands(times)));
                same
            } else {
                if odd {
                    self.put(&escape(c), true);
                } else {
                    self.put(c.encode_utf8(&mut [0; 4]), false);
                }
                c.len_utf8()
            };
        }
    }

    /// Many blank lines.
    fn quiet(&mut self, lines: &[&str]) {
        let same = || lines.chunk_by(|one, other| one == other);
        if same().count() > EMPTY_KINDS {
            self.begin(lines);
            let words = format!("{} lines with nothing to see", thousands(lines.len()));
            return self.mark(&words);
        }
        for same in same() {
            let line = same.first().copied().unwrap_or_default();
            let blanks = line.strip_suffix('\n').unwrap_or(line);
            self.begin(same);
            if blanks.is_empty() {
                self.mark(&counted(same.len(), "empty line", "empty lines"));
            } else if blanks.chars().all(is_blank) {
                let lines = counted(same.len(), "line", "lines");
                self.mark(&format!("{lines} of {}", blanks_in_words(blanks)));
            } else {
                let lines = counted(same.len(), "line", "lines");
                self.mark(&format!("{lines} of this"));
                self.line(line);
            }
        }
    }
}

/// `1 space`, `2,000 spaces`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        thousands(count),
        if count == 1 { one } else { many }
    )
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
