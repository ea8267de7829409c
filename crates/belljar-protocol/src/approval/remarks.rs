//! Warnings for a person who reads a text.

use std::collections::{BTreeMap, BTreeSet};

use super::letters::{Kind, disguises, kind};
use super::{EMPTY_LINES, GAP, columns, counted, escape, is_blank, is_quiet, thousands};

/// Lines, and characters of a line, above which their number is shown.
const MANY_LINES: usize = 500;
const LONG_LINE: usize = 400;
/// The most names that a remark lists, and characters of one.
const LISTED: usize = 3;
const NAME: usize = 40;

const KINDS: [(Kind, &str, &str); 8] = [
    (
        Kind::Bidirectional,
        "bidirectional control",
        "bidirectional controls",
    ),
    (Kind::Control, "control character", "control characters"),
    (
        Kind::Invisible,
        "invisible character",
        "invisible characters",
    ),
    (Kind::Space, "unusual space", "unusual spaces"),
    (
        Kind::Combining,
        "combining character",
        "combining characters",
    ),
    (
        Kind::Private,
        "character without a fixed look",
        "characters without a fixed look",
    ),
    (
        Kind::LooksLikeSign,
        "sign that looks like another",
        "signs that look like others",
    ),
    (
        Kind::RightToLeft,
        "letter that runs from right to left",
        "letters that run from right to left",
    ),
];

pub(super) fn remarks(text: &str, lines: &[&str]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (of_kind, one, many) in KINDS {
        let pairs = text.chars().zip(text.chars().skip(1).chain(['\0']));
        // A line feed ends the line anyway.
        let is_it = |(c, next): &(char, char)| {
            !matches!((c, next), ('\n' | '\t', _) | ('\r', '\n')) && kind(*c) == Some(of_kind)
        };
        let count = pairs.filter(is_it).count();
        if count > 0 {
            remarks.push(counted(count, one, many));
        }
    }
    look_alikes(lines, &mut remarks);
    lengths(text, lines, &mut remarks);
    remarks
}

fn look_alikes(lines: &[&str], remarks: &mut Vec<String>) {
    // Why, and the names.
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for disguise in lines.iter().flat_map(|line| disguises(line)) {
        found.entry(disguise.why).or_default().insert(disguise.name);
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
    let reveal = |c| match c {
        ' '..='~' => String::from(c),
        c => escape(c),
    };
    name.chars().take(NAME).map(reveal).collect()
}

fn lengths(text: &str, lines: &[&str], remarks: &mut Vec<String>) {
    if lines.len() > MANY_LINES {
        remarks.push(counted(lines.len(), "line", "lines"));
    }
    let length = |line: &&str| line.trim_end_matches('\n').chars().count();
    let long = lines
        .iter()
        .map(length)
        .filter(|length| *length > LONG_LINE);
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
    let runs = text.split(|c| !is_blank(c)).map(columns);
    let widest = runs.max().unwrap_or_default();
    if widest > GAP {
        remarks.push(format!("a gap of {} columns", thousands(widest)));
    }
    let empty = lines.chunk_by(|one, other| is_quiet(one) && is_quiet(other));
    let most = empty.map(<[_]>::len).max().unwrap_or_default();
    if most > EMPTY_LINES {
        remarks.push(format!("{} empty lines in a row", thousands(most)));
    }
}
