//! Evidence: where the values of an answer come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number or a quoted text in an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// As it stands in the answer.
    pub value: String,
    /// Where it was seen; left out if nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// Where a value was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Seen {
    /// In the result of a tool.
    Output {
        /// The step.
        step: u32,
        /// The cell, for a call of `python`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<u32>,
        /// The line of the output that has it.
        line: String,
        /// Whether the output has more digits.
        #[serde(default)]
        rounded: bool,
    },
    /// In the task itself.
    Task,
}

/// Something that was seen before the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) step: u32,
    pub(crate) cell: Option<u32>,
    pub(crate) text: &'a str,
}

/// The most values that are searched, and the longest line that is quoted.
const MOST: usize = 50;
const LINE: usize = 160;

/// For each number and each quoted text of an answer, the newest output that has it.
pub(crate) fn evidence(answer: &str, sources: &[Source<'_>], task: &str) -> Vec<Evidence> {
    let mut found: Vec<Evidence> = Vec::new();
    for value in values(&without_markers(answer)) {
        if found.len() >= MOST || found.iter().any(|other| other.value == value.text) {
            continue;
        }
        let seen = sources
            .iter()
            .rev()
            .find_map(|source| value.seen_in(source))
            .or_else(|| value.stands_in(task).map(|_| Seen::Task));
        found.push(Evidence {
            value: value.text.to_owned(),
            seen,
        });
    }
    found
}

/// An answer without markers: their numbers are no results.
fn without_markers(answer: &str) -> String {
    let mut plain = String::new();
    let mut rest = answer;
    while let Some((before, marker)) = rest.split_once('⟦') {
        plain.push_str(before);
        rest = marker.split_once('⟧').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

/// Values of an answer that were seen nowhere, and that a reader would take for results. Small
/// numbers count things ("the 3 largest") more often than they are results.
pub(crate) fn unseen(evidence: &[Evidence]) -> Vec<&str> {
    evidence
        .iter()
        .filter(|value| value.seen.is_none())
        .map(|value| value.value.as_str())
        .filter(|value| value.len() > 1)
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    text: &'a str,
    number: bool,
}

impl Value<'_> {
    fn seen_in(&self, source: &Source<'_>) -> Option<Seen> {
        let (line, rounded) = self.stands_in(source.text)?;
        let mut line: String = line.trim().chars().take(LINE).collect();
        line.truncate(line.trim_end().len());
        Some(Seen::Output {
            step: source.step,
            cell: source.cell,
            line,
            rounded,
        })
    }

    /// The line that has it, and whether only after rounding; the exact one is preferred.
    fn stands_in<'t>(&self, text: &'t str) -> Option<(&'t str, bool)> {
        if !self.number {
            return text
                .lines()
                .find(|line| line.contains(self.text))
                .map(|line| (line, false))
                .or_else(|| text.contains(self.text).then_some((text, false)));
        }
        let wanted = Decimal::parse(self.text)?;
        let mut rounded = None;
        for line in text.lines() {
            for number in numbers(line) {
                let Some(number) = Decimal::parse(number) else {
                    continue;
                };
                if number == wanted {
                    return Some((line, false));
                }
                if rounded.is_none() && number.rounds_to(&wanted) {
                    rounded = Some((line, true));
                }
            }
        }
        rounded
    }
}

fn values(answer: &str) -> Vec<Value<'_>> {
    let mut found: Vec<(usize, Value<'_>)> = quoted(answer)
        .into_iter()
        .map(|text| {
            (
                offset(answer, text),
                Value {
                    text,
                    number: false,
                },
            )
        })
        .collect();
    let spans: Vec<(usize, usize)> = found
        .iter()
        .map(|(at, v)| (*at, at + v.text.len()))
        .collect();
    let numbers = numbers(answer).into_iter().map(|text| (text, true));
    let codes = tokens(answer).into_iter().map(|text| (text, false));
    for (text, number) in numbers.chain(codes) {
        let at = offset(answer, text);
        if !spans.iter().any(|(from, to)| (*from..*to).contains(&at)) {
            found.push((at, Value { text, number }));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, value)| value).collect()
}

fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Short texts in quotes, of any kind.
fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [
        ('"', '"'),
        ('`', '`'),
        ('“', '”'),
        ('「', '」'),
        ('\'', '\''),
    ] {
        let mut rest = text;
        while let Some(start) = rest.find(open) {
            let before = rest[..start].chars().next_back();
            let inner = &rest[start + open.len_utf8()..];
            // An apostrophe stands within a word.
            if open == '\'' && before.is_some_and(char::is_alphanumeric) {
                rest = inner;
                continue;
            }
            let Some(end) = inner.find(close) else { break };
            let value = &inner[..end];
            if (1..=200).contains(&value.len()) && !value.contains('\n') {
                found.push(value);
            }
            rest = &inner[end + close.len_utf8()..];
        }
    }
    found
}

/// Words that mix letters and digits: keys, hashes, codes. They are results, quoted or not.
fn tokens(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| {
            word.len() >= 5
                && word.bytes().any(|b| b.is_ascii_digit())
                && word.bytes().any(|b| b.is_ascii_alphabetic())
        })
        .collect()
}

/// Numbers as they are written: signs, separators, fractions, exponents.
fn numbers(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts = bytes[at].is_ascii_digit()
            && (at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_'));
        if !starts {
            at += 1;
            continue;
        }
        let mut end = at;
        while end < bytes.len() {
            let next = bytes.get(end + 1).copied().unwrap_or(b' ');
            let goes_on = match bytes[end] {
                b'0'..=b'9' => true,
                b'.' => next.is_ascii_digit() && !text[at..end].contains('.'),
                b',' | b'_' => {
                    let three = &bytes[end + 1..bytes.len().min(end + 4)];
                    let after = bytes.get(end + 4).copied().unwrap_or(b' ');
                    three.len() == 3
                        && three.iter().all(u8::is_ascii_digit)
                        && !after.is_ascii_digit()
                        && !text[at..end].contains('.')
                }
                b'e' | b'E' => {
                    next.is_ascii_digit()
                        || (matches!(next, b'+' | b'-')
                            && bytes.get(end + 2).is_some_and(u8::is_ascii_digit))
                }
                b'+' | b'-' => matches!(bytes[end - 1], b'e' | b'E'),
                _ => false,
            };
            if !goes_on {
                break;
            }
            end += 1;
        }
        // A word that begins with digits is no number.
        if !bytes.get(end).is_some_and(u8::is_ascii_alphabetic) {
            let negative = at > 0
                && bytes[at - 1] == b'-'
                && !(at > 1 && (bytes[at - 2].is_ascii_alphanumeric() || bytes[at - 2] == b')'));
            let from = if negative { at - 1 } else { at };
            found.push(&text[from..end]);
        }
        at = end.max(at + 1);
        while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
            at += 1;
        }
    }
    found
}

/// A number as its digits say, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_')).collect();
        let plain = if plain.contains(['e', 'E']) {
            let value: f64 = plain.parse().ok()?;
            if !value.is_finite() || value.abs() > 1e300 {
                return None;
            }
            format!("{value}")
        } else {
            plain
        };
        let (negative, digits) = match plain.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, plain.as_str()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        Some(Self {
            negative: negative && !(whole.is_empty() && fraction.is_empty()),
            whole,
            fraction,
        })
    }

    /// Whether it has more digits than `other`, and becomes it when they are rounded off.
    fn rounds_to(&self, other: &Self) -> bool {
        let places = other.fraction.len();
        if self.negative != other.negative || self.fraction.len() <= places {
            return false;
        }
        let mut digits: Vec<u8> = self
            .whole
            .bytes()
            .chain(self.fraction.bytes().take(places))
            .collect();
        let up = self.fraction.as_bytes()[places] >= b'5';
        if up {
            let mut at = digits.len();
            loop {
                if at == 0 {
                    digits.insert(0, b'1');
                    break;
                }
                at -= 1;
                if digits[at] == b'9' {
                    digits[at] = b'0';
                } else {
                    digits[at] += 1;
                    break;
                }
            }
        }
        let wanted = other.whole.bytes().chain(other.fraction.bytes());
        let digits: Vec<u8> = digits.into_iter().skip_while(|d| *d == b'0').collect();
        digits == wanted.skip_while(|d| *d == b'0').collect::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(answer: &str, output: &str) -> Vec<(String, Option<bool>)> {
        let sources = [Source {
            step: 1,
            cell: Some(1),
            text: output,
        }];
        evidence(answer, &sources, "the task says 77")
            .into_iter()
            .map(|found| {
                let rounded = match found.seen {
                    Some(Seen::Output { rounded, .. }) => Some(rounded),
                    Some(Seen::Task) => Some(false),
                    None => None,
                };
                (found.value, rounded)
            })
            .collect()
    }

    #[test]
    fn numbers_are_found_however_they_are_written() {
        for (answer, output, expected) in [
            ("It is 21,386.41.", "21386.413...\n", Some(true)),
            ("It is 21386.41", "total 21,386.41", Some(false)),
            ("-5 degrees", "x = -5.0", Some(false)),
            ("5 degrees", "x = -5", None),
            ("1e3 of them", "1000", Some(false)),
            ("100", "99.97", Some(true)),
            ("0.13", "0.125", Some(true)),
            ("77", "", Some(false)),
            (
                "118630475888464041783523321036",
                "118630475888464041783523321036",
                Some(false),
            ),
            ("12", "3112 120", None),
        ] {
            let found = look(answer, output);
            assert_eq!(found.len(), 1, "{answer}: {found:?}");
            assert_eq!(found[0].1, expected, "{answer} in {output}");
        }
    }

    #[test]
    fn texts_are_found_if_they_are_quoted_or_look_like_codes() {
        let found = look(
            "The reverse is `aQue9ScN`, and Bob's name is 'Ann'.",
            "aQue9ScN",
        );
        let expected = [
            ("aQue9ScN".to_owned(), Some(false)),
            ("Ann".to_owned(), None),
        ];
        assert_eq!(found, expected);
        assert_eq!(look("It is jvEgm4RSGJ5m", "x")[0].1, None);
        assert!(look("plain words only", "").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_looked_through(answer in ".{0,200}", output in ".{0,200}") {
            look(&answer, &output);
        }
    }
}
