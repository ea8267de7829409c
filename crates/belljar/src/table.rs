//! Rows in columns, for people: the heading is a remark of ours, the rows are data.

use std::fmt::Write as _;
use std::io::Write as _;

use belljar_sandbox::protocol::visible;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::show;

/// The widest that a column gets; longer text is cut.
const MAX_WIDTH: usize = 60;

/// Prints a table: its heading to standard error, its rows to standard output.
pub(crate) fn print<const N: usize>(
    head: &[&str; N],
    right: &[bool; N],
    rows: impl Iterator<Item = [String; N]>,
) -> std::io::Result<()> {
    let table = table(head, right, rows);
    let (head, rows) = table.split_once('\n').unwrap_or_default();
    show::note(head);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(rows.as_bytes())?;
    stdout.flush()
}

/// A time in seconds since 1970, as ISO 8601 in UTC.
pub(crate) fn time(seconds: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let shown = time.and_then(|time| time.format(&Rfc3339).ok());
    shown.unwrap_or_else(|| seconds.to_string())
}

/// Rows in aligned columns, those of numbers to the right.
pub(crate) fn table<const N: usize>(
    head: &[&str; N],
    right: &[bool; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.map(|row| row.map(|text| shorten(&visible(&text)))));
    let mut widths = [0; N];
    for line in &lines {
        for (width, text) in widths.iter_mut().zip(line) {
            *width = (*width).max(columns(text));
        }
    }
    let mut out = String::new();
    for line in &lines {
        let mut shown = String::new();
        for ((text, width), right) in line.iter().zip(widths).zip(right) {
            let space = " ".repeat(width - columns(text));
            let (before, after) = if *right {
                (space.as_str(), "")
            } else {
                ("", space.as_str())
            };
            let _ = write!(shown, "{before}{text}{after}  ");
        }
        let _ = writeln!(out, "{}", shown.trim_end());
    }
    out
}

fn shorten(text: &str) -> String {
    if columns(text) <= MAX_WIDTH {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    for c in text.chars() {
        width += column(c);
        if width >= MAX_WIDTH {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// A text with spaces after it, to this width.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// How many columns of a terminal a text takes.
fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

/// Python's names may be Chinese, Japanese or Korean, which take two columns; nothing else that is
/// wide or without width is likely in a table of names.
fn column(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(1_794_897_872), "2026-11-17T06:44:32Z");
        assert_eq!(time(i64::MAX), i64::MAX.to_string());
    }
}
