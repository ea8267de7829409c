//! Code as it is shown to a person who decides whether it runs.
//!
//! [`approval_text`] shows all of it, and nothing that can't be seen stays so: two codes that differ
//! are shown as texts that differ. [`oddities`] says what to look out for. [`visible`](crate::visible)
//! is the same idea for names, but joins what was written as `<U+202E>` with what was the character;
//! here that would be a way to deceive.
//!
//! Written by hand: crates for look-alike letters bring a table of ten thousand, of which code that
//! is read by an English or Chinese speaker needs few.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::plain::is_hidden;

/// Blanks in a row that are shown as they are, in columns; more push code out of the view.
const BLANKS: usize = 120;
/// Columns of a tab.
const TAB: usize = 8;
/// Empty lines in a row that are shown as they are.
const EMPTY_LINES: usize = 20;
/// Lines and characters of a line past which their number is told.
const MANY_LINES: usize = 500;
const LONG_LINE: usize = 400;
/// The most names that a remark lists, and characters of one.
const LISTED: usize = 3;
const NAME: usize = 40;

/// Code for approval: whole, with each character that can't be seen, deceives about the order of
/// the others, or looks like a space, as `\u{202e}`; with more than 120 columns of blanks as
/// `⟨137 spaces⟩`, and more than 20 empty lines as `⟨25 empty lines⟩`. Line feeds and tabs stay.
///
/// No two codes give the same text: `\u{` and `⟨` of the code itself are escaped too.
pub fn approval_text(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let lines: Vec<&str> = code.split_inclusive('\n').collect();
    let mut rest = lines.as_slice();
    while !rest.is_empty() {
        let empty = rest.iter().take_while(|line| is_empty_line(line)).count();
        let (now, later) = rest.split_at(empty.max(1));
        rest = later;
        if empty > EMPTY_LINES {
            for same in now.chunk_by(|one, other| one == other) {
                mark_lines(same, &mut out);
            }
            out.push('\n');
        } else {
            for line in now {
                show_line(line, &mut out);
            }
        }
    }
    out
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// A line that ends, and has nothing on it.
fn is_empty_line(line: &str) -> bool {
    line.strip_suffix('\n')
        .is_some_and(|line| line.chars().all(is_blank))
}

fn columns(blanks: &str) -> usize {
    let columns = |c| if c == '\t' { TAB } else { 1 };
    blanks.chars().map(columns).sum()
}

/// Blanks in words: `3 spaces, 1 tab`.
fn blanks_in_words(blanks: &str) -> String {
    let runs = blanks.as_bytes().chunk_by(|one, other| one == other);
    let words = runs.map(|run| match run.first() {
        Some(b'\t') => counted(run.len(), "tab", "tabs"),
        _ => counted(run.len(), "space", "spaces"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Several lines that are the same.
fn mark_lines(same: &[&str], out: &mut String) {
    let blanks = same.first().map_or("", |line| line.trim_end_matches('\n'));
    let _ = if blanks.is_empty() {
        write!(
            out,
            "⟨{}⟩",
            counted(same.len(), "empty line", "empty lines")
        )
    } else {
        let lines = counted(same.len(), "line", "lines");
        write!(out, "⟨{lines} of {}⟩", blanks_in_words(blanks))
    };
}

fn show_line(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let blanks = &rest[..rest.len() - rest.trim_start_matches(is_blank).len()];
        if columns(blanks) > BLANKS {
            let _ = write!(out, "⟨{}⟩", blanks_in_words(blanks));
        } else if !blanks.is_empty() {
            out.push_str(blanks);
        } else if c == '⟨' || rest.starts_with("\\u{") || is_escaped(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
        rest = &rest[blanks.len().max(c.len_utf8())..];
    }
}

fn is_escaped(c: char) -> bool {
    !matches!(c, '\n' | '\t' | ' ') && kind(c).is_some_and(|kind| kind != Kind::RightToLeft)
}

/// What is odd about a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bidirectional,
    Control,
    Space,
    Invisible,
    Combining,
    /// Its look is up to the font.
    Private,
    RightToLeft,
}

fn kind(c: char) -> Option<Kind> {
    Some(match c {
        ' '..='~' => return None,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Kind::Bidirectional
        }
        // Line and paragraph separators among them.
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => Kind::Control,
        c if c.is_whitespace() => Kind::Space,
        c if is_hidden(c) => Kind::Invisible,
        '\u{300}'..='\u{36f}'
        | '\u{483}'..='\u{489}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}' => Kind::Combining,
        '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{f0000}'.. => Kind::Private,
        c if u32::from(c) & 0xfffe == 0xfffe => Kind::Private,
        '\u{590}'..='\u{8ff}'
        | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefe}'
        | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}' => Kind::RightToLeft,
        _ => return None,
    })
}

/// What a person who reads the code should know of it first, each in a few words. Ordinary code has
/// nothing.
pub fn oddities(code: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut of_kind = |kind_of: Kind, one: &str, many: &str| {
        let pairs = || code.chars().zip(code.chars().skip(1).chain(['\0']));
        let is_it = |(c, next): &(char, char)| {
            // A line feed ends the line anyway.
            !matches!((c, next), ('\n' | '\t', _) | ('\r', '\n')) && kind(*c) == Some(kind_of)
        };
        let count = pairs().filter(is_it).count();
        if count > 0 {
            remarks.push(counted(count, one, many));
        }
    };
    of_kind(
        Kind::Bidirectional,
        "bidirectional control",
        "bidirectional controls",
    );
    of_kind(Kind::Control, "control character", "control characters");
    of_kind(
        Kind::Invisible,
        "invisible character",
        "invisible characters",
    );
    of_kind(Kind::Space, "unusual space", "unusual spaces");
    of_kind(
        Kind::Combining,
        "combining character",
        "combining characters",
    );
    of_kind(
        Kind::Private,
        "character without a fixed look",
        "characters without a fixed look",
    );
    of_kind(
        Kind::RightToLeft,
        "letter that runs from right to left",
        "letters that run from right to left",
    );
    look_alikes(code, &mut remarks);
    lengths(code, &mut remarks);
    remarks
}

/// Letters that look like Latin ones, by script. Greek ones that formulas use are not among them.
const LOOK_ALIKES: [(&str, &str); 3] = [
    ("Cyrillic", "асеорхуіјѕһԁԛԝӏАВЕЗКМНОРСТХУІЈЅҮԌԚԜӀ"),
    ("Greek", "νοΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ"),
    ("Armenian", "օոսհցզքՏՕԼՍ"),
];

/// The script of a letter that looks like a Latin one.
fn look_alike(c: char) -> Option<&'static str> {
    if matches!(c, '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}') {
        return Some("Cherokee");
    }
    let found = LOOK_ALIKES.iter().find(|(_, all)| all.contains(c));
    found.map(|(script, _)| *script)
}

/// Letters that Python takes for others: `ｅｖａｌ` is `eval`.
fn is_taken_for_another(c: char) -> bool {
    matches!(c, 'ª' | 'º' | 'ſ' | '\u{132}'..='\u{133}' | '\u{1d2c}'..='\u{1d6a}'
        | '\u{2090}'..='\u{209c}' | '\u{2102}'..='\u{214f}' | '\u{2160}'..='\u{217f}'
        | '\u{fb00}'..='\u{fb06}' | '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}'
        | '\u{ff41}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}')
}

fn look_alikes(code: &str, remarks: &mut Vec<String>) {
    // Why, and the names.
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut add = |why: String, name| found.entry(why).or_default().insert(name);
    let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    for name in names.filter(|name| !name.is_ascii()) {
        if name.chars().any(is_taken_for_another) {
            add("in letters that Python takes for others".into(), name);
        }
        let Some(script) = name.chars().find_map(look_alike) else {
            continue;
        };
        let letters = || name.chars().filter(|c| c.is_alphabetic());
        if letters().any(|c| matches!(c, 'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}')) {
            add(format!("with Latin and {script} letters"), name);
        } else if letters().all(|c| look_alike(c).is_some()) {
            add(format!("in {script} letters that look Latin"), name);
        }
    }
    for (why, names) in found {
        let listed: Vec<String> = names
            .iter()
            .take(LISTED)
            .map(|name| revealed(name))
            .collect();
        let more = if names.len() > LISTED { ", …" } else { "" };
        let count = counted(names.len(), "name", "names");
        remarks.push(format!("{count} {why}: {}{more}", listed.join(", ")));
    }
}

/// A name in plain letters and escapes.
fn revealed(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(NAME) {
        let _ = match c {
            ' '..='~' => write!(out, "{c}"),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    out
}

fn lengths(code: &str, remarks: &mut Vec<String>) {
    let lines = || code.split_inclusive('\n');
    let count = lines().count();
    if count > MANY_LINES {
        remarks.push(counted(count, "line", "lines"));
    }
    let length = |line: &str| line.trim_end_matches('\n').chars().count();
    let long = lines().map(length).filter(|length| *length > LONG_LINE);
    let (long, longest) = long.fold((0, 0), |(n, most), length| (n + 1, most.max(length)));
    match long {
        0 => {}
        1 => remarks.push(format!("one line has {} characters", thousands(longest))),
        long => remarks.push(format!(
            "{} lines have more than {LONG_LINE} characters, one {}",
            thousands(long),
            thousands(longest)
        )),
    }
    let runs = code.split(|c| !is_blank(c)).map(columns);
    let widest = runs.max().unwrap_or_default();
    if widest > BLANKS {
        remarks.push(format!("a gap of {} columns", thousands(widest)));
    }
    let lines: Vec<&str> = lines().collect();
    let empty = lines.chunk_by(|one, other| is_empty_line(one) && is_empty_line(other));
    let most = empty.map(<[_]>::len).max().unwrap_or_default();
    if most > EMPTY_LINES {
        remarks.push(format!("{} empty lines in a row", thousands(most)));
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
