//! A value of an answer, with what the answer says of it.

use super::values::{Value, ValueKind, offset};
use super::words::says;

/// A value in its sentence.
pub(super) struct Claim<'a> {
    pub(super) kind: ValueKind,
    pub(super) value: &'a str,
    pub(super) answer: &'a str,
    /// The sentence, or the line of a list or a table.
    pub(super) sentence: &'a str,
    /// What is said of this value alone: from the value before it to the end of the clause.
    pub(super) clause: &'a str,
    /// Where the first value of its sentence stands in it.
    pub(super) first: usize,
    /// What a list or a table says of all its lines: the sentence before it, or the head of the column.
    pub(super) intro: &'a str,
}

impl<'a> Claim<'a> {
    pub(super) fn new(answer: &'a str, value: &Value<'a>, all: &[Value<'a>]) -> Self {
        let from = offset(answer, value.text);
        let to = from + value.text.len();
        let start = sentence_start(answer, from);
        let end = sentence_end(answer, to);
        let place = |other: &Value<'_>| offset(answer, other.text);
        let numbers = || {
            all.iter()
                .filter(|other| !matches!(other.kind, ValueKind::Text | ValueKind::File))
        };
        let before = numbers().filter(|other| (start..from).contains(&place(other)));
        let before = before.map(|other| place(other) + other.text.len()).max();
        let next = numbers()
            .map(place)
            .filter(|at| (to..end).contains(at))
            .min();
        let after = &answer[to..next.unwrap_or(end)];
        // With another value to come, what follows a comma is said of that one.
        let own = next.map_or(after.len(), |_| {
            let breaks = [
                ", ", "，", "; ", "；", " and ", " but ", " while ", "、", "|", "和", "而",
            ];
            let found = breaks.iter().filter_map(|one| after.find(one)).min();
            found.unwrap_or(after.len())
        });
        Self {
            kind: value.kind,
            value: value.text,
            answer,
            sentence: &answer[start..end],
            clause: &answer[before.unwrap_or(start)..to + own],
            first: numbers()
                .map(place)
                .filter(|at| (start..end).contains(at))
                .min()
                .unwrap_or(from)
                - start,
            intro: intro(answer, start, from),
        }
    }

    pub(super) fn says(&self, words: &[&str]) -> bool {
        says(self.clause, words)
    }

    /// Whether the answer has the sign of a negative number as a word.
    pub(super) fn falls(&self) -> bool {
        let words = [
            "loss",
            "lost",
            "down",
            "fell",
            "fall",
            "drop",
            "dropped",
            "decrease",
            "decreased",
            "decline",
            "declined",
            "sank",
            "less",
            "lower",
            "fewer",
            "below",
            "shrank",
            "下降",
            "减少",
            "亏损",
            "下跌",
            "降低",
            "少了",
        ];
        self.says(&words)
    }
}

/// What stands above a line of a list, or above a field of a table.
fn intro(answer: &str, start: usize, value: usize) -> &str {
    let line_start = answer[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = answer[line_start..].trim_start();
    let above: Vec<&str> = answer[..line_start].lines().collect();
    if line.starts_with('|') {
        let head = above
            .iter()
            .rev()
            .take_while(|line| line.trim_start().starts_with('|'))
            .last();
        let field = answer[line_start..value].matches('|').count();
        return head
            .and_then(|head| head.split('|').nth(field))
            .unwrap_or_default();
    }
    if !line.starts_with(['-', '*', '•']) {
        return "";
    }
    let intro = above
        .iter()
        .rev()
        .find(|line| !line.trim_start().starts_with(['-', '*', '•']) && !line.trim().is_empty());
    intro.copied().unwrap_or_default()
}

/// A sentence ends with its sign, or with the line.
fn sentence_start(answer: &str, from: usize) -> usize {
    let ends = sentence_ends(&answer[..from]);
    ends.last().copied().unwrap_or(0)
}

fn sentence_end(answer: &str, to: usize) -> usize {
    let ends = sentence_ends(&answer[to..]);
    ends.first().map_or(answer.len(), |end| to + end)
}

fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (at, c) in text.char_indices() {
        let next = at + c.len_utf8();
        let is_end = match c {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => text[next..].starts_with([' ', '\n']),
            _ => false,
        };
        if is_end {
            ends.push(next);
        }
    }
    ends
}
