//! Evidence: where the values of an answer come from.

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constants::constants;
use super::number::{Decimal, numbers};

/// A number, a quoted text or the name of a file in an answer. It shows where a value comes from, not
/// that it is right.
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
    /// It is a file that the run made, or was given.
    File,
    /// Only in an output whose code has it as a constant: it was written, not computed.
    Code {
        /// The step.
        step: u32,
        /// The cell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<u32>,
    },
}

/// Something that was seen before the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) step: u32,
    pub(crate) cell: Option<u32>,
    pub(crate) text: String,
    /// The code that printed it; empty for a tool.
    pub(crate) code: String,
    pub(crate) failed: bool,
}

impl Evidence {
    /// It in one line.
    pub fn text(&self, language: Language) -> String {
        let (texts, value) = (&language.texts().run, &self.value);
        match &self.seen {
            Some(Seen::Output {
                step,
                cell,
                rounded,
                ..
            }) => {
                let rounded = if *rounded { texts.rounded } else { "" };
                match cell {
                    Some(cell) => texts.printed_by_cell(value, *cell, rounded),
                    None => texts.result_of_step(value, *step, rounded),
                }
            }
            Some(Seen::Task) => texts.given_in_task(value),
            Some(Seen::File) => texts.file_of_run(value),
            Some(Seen::Code { step, cell }) => texts.written_in_code(value, cell.unwrap_or(*step)),
            None => texts.seen_nowhere(value),
        }
    }

    /// Whether the value is the name of a file.
    pub(super) fn is_file(&self) -> bool {
        file_names(&self.value) == [self.value.as_str()]
    }
}

/// The most values that are searched, and the longest line that is quoted.
const MOST: usize = 50;
const LINE: usize = 160;

/// What the values of an answer are looked for in.
pub(crate) struct Sources<'a> {
    pub(crate) outputs: &'a [Source],
    pub(crate) task: &'a str,
    /// Whether a file of this name exists, or was made.
    pub(crate) exists: &'a dyn Fn(&str) -> bool,
    /// Whether results come from data: then a constant of the code is none.
    pub(crate) has_data: bool,
}

/// For each number, each quoted text and each file of an answer, the newest output that has it.
pub(crate) fn evidence(answer: &str, sources: &Sources<'_>) -> Vec<Evidence> {
    let mut found: Vec<Evidence> = Vec::new();
    for value in values(&without_markers(answer)) {
        if found.len() >= MOST || found.iter().any(|other| other.value == value.text) {
            continue;
        }
        found.push(Evidence {
            value: value.text.to_owned(),
            seen: value.seen_in(sources),
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

impl Evidence {
    /// Whether nothing computed the value, and a reader would take it for a result. Small numbers count
    /// things ("the 3 largest") more often than they are results.
    pub(super) fn is_unfounded(&self) -> bool {
        matches!(self.seen, None | Some(Seen::Code { .. })) && self.value.len() > 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    text: &'a str,
    kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Text,
    File,
    /// As it stands, or of numbers that become it when their point is moved by this.
    Number {
        shift: i32,
    },
}

impl Value<'_> {
    fn seen_in(&self, sources: &Sources<'_>) -> Option<Seen> {
        if self.kind == ValueKind::File && (sources.exists)(self.text) {
            return Some(Seen::File);
        }
        let mut written = None;
        for source in sources.outputs.iter().rev() {
            let Some((line, rounded)) = self.stands_in(&source.text, &source.code) else {
                continue;
            };
            if self.is_written_in(source, sources.has_data) {
                let (step, cell) = (source.step, source.cell);
                written = written.or(Some(Seen::Code { step, cell }));
                continue;
            }
            let mut line: String = line.trim().chars().take(LINE).collect();
            line.truncate(line.trim_end().len());
            return Some(Seen::Output {
                step: source.step,
                cell: source.cell,
                line,
                rounded,
            });
        }
        match self.kind {
            // What the task names need not exist.
            ValueKind::File => None,
            _ if self.stands_in(sources.task, "%").is_some() => Some(Seen::Task),
            _ => written,
        }
    }

    /// Whether a source shows it only because its code says it.
    fn is_written_in(&self, source: &Source, has_data: bool) -> bool {
        match self.kind {
            ValueKind::Text => false,
            ValueKind::File => source.code.contains(self.text),
            ValueKind::Number { .. } => {
                let wanted = Decimal::parse(self.text);
                let is_same = |constant: &String| Decimal::parse(constant) == wanted;
                // Small numbers are in any code.
                has_data && self.text.len() > 1 && constants(&source.code).iter().any(is_same)
            }
        }
    }

    /// The line that has it, and whether only after rounding; the exact one is preferred.
    fn stands_in<'t>(&self, text: &'t str, code: &str) -> Option<(&'t str, bool)> {
        let ValueKind::Number { shift } = self.kind else {
            return text
                .lines()
                .find(|line| line.contains(self.text))
                .map(|line| (line, false))
                .or_else(|| text.contains(self.text).then_some((text, false)));
        };
        let wanted = Decimal::parse(self.text)?;
        let mut rounded = None;
        for line in text.lines() {
            for number in numbers(line) {
                let Some(number) = Decimal::parse(number) else {
                    continue;
                };
                // A fraction is no percentage, unless something says so.
                let is_percentage =
                    code.contains('%') || code.contains("100") || line.contains('%');
                let as_it_is = shift != PERCENT || !wanted.is_fraction() || is_percentage;
                let shifted = (shift != 0).then(|| number.clone().shifted(shift));
                for number in as_it_is.then_some(number).into_iter().chain(shifted) {
                    if number == wanted {
                        return Some((line, false));
                    }
                    if rounded.is_none() && number.rounds_to(&wanted) {
                        rounded = Some((line, true));
                    }
                }
            }
        }
        rounded
    }
}

/// The shift of a fraction that is written as a percentage.
const PERCENT: i32 = 2;

/// The shift that the words after a number stand for.
fn shift_of(after: &str) -> i32 {
    const SCALES: [(&str, i32); 9] = [
        ("%", PERCENT),
        ("％", PERCENT),
        ("percent", PERCENT),
        ("thousand", -3),
        ("million", -6),
        ("billion", -9),
        ("万", -4),
        ("百万", -6),
        ("亿", -8),
    ];
    let after = after.trim_start().to_lowercase();
    let scale = SCALES.iter().find(|(word, _)| after.starts_with(word));
    scale.map_or(0, |(_, shift)| *shift)
}

fn values(answer: &str) -> Vec<Value<'_>> {
    let files = file_names(answer).into_iter();
    let files = files.map(|text| (text, ValueKind::File));
    let texts = quoted(answer).into_iter().map(|(_, text)| text);
    let texts = texts.filter(|text| (1..=200).contains(&text.len()) && !text.contains('\n'));
    let texts = texts.map(|text| (text, ValueKind::Text));
    let numbers = numbers(answer).into_iter().map(|text| {
        let after = &answer[offset(answer, text) + text.len()..];
        let shift = shift_of(after);
        (text, ValueKind::Number { shift })
    });
    let codes = tokens(answer).into_iter();
    let codes = codes.map(|text| (text, ValueKind::Text));
    let mut found: Vec<(usize, Value<'_>)> = Vec::new();
    // What stands within an earlier kind belongs to it.
    for (text, kind) in files.chain(texts).chain(numbers).chain(codes) {
        let at = offset(answer, text);
        let is_free = |(from, value): &(usize, Value<'_>)| {
            at + text.len() <= *from || from + value.text.len() <= at
        };
        if found.iter().all(is_free) {
            found.push((at, Value { text, kind }));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, value)| value).collect()
}

/// Extensions of files that tasks ask for.
const EXTENSIONS: [&str; 12] = [
    "png", "jpg", "svg", "pdf", "csv", "tsv", "json", "xlsx", "parquet", "html", "md", "txt",
];

/// Names of files in a text.
pub(super) fn file_names(text: &str) -> Vec<&str> {
    let ends =
        |c: char| c.is_whitespace() || "\"'`()[]{}<>,;:*，。；：、（）《》“”「」".contains(c);
    let names = text
        .split(ends)
        .map(|name| name.trim_end_matches(['.', '!', '?']));
    let is_file = |name: &&str| {
        let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
        extension.is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
    };
    names.filter(is_file).collect()
}

fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Texts in quotes of any kind, and where they begin.
pub(super) fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (open, close) in [
        ('"', '"'),
        ('`', '`'),
        ('“', '”'),
        ('「', '」'),
        ('\'', '\''),
    ] {
        let mut from = 0;
        while let Some(start) = text[from..].find(open).map(|at| from + at) {
            let inner = start + open.len_utf8();
            let before = text[..start].chars().next_back();
            // An apostrophe stands within a word.
            if open == '\'' && before.is_some_and(char::is_alphanumeric) {
                from = inner;
                continue;
            }
            let Some(end) = text[inner..].find(close).map(|at| inner + at) else {
                break;
            };
            found.push((inner, &text[inner..end]));
            from = end + close.len_utf8();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn look(answer: &str, output: &str) -> Vec<(String, Option<bool>)> {
        look_at(answer, output, "")
    }

    fn look_at(answer: &str, output: &str, code: &str) -> Vec<(String, Option<bool>)> {
        let outputs = [Source {
            step: 1,
            cell: Some(1),
            text: output.into(),
            code: code.into(),
            failed: false,
        }];
        let sources = Sources {
            outputs: &outputs,
            task: "the task says 77",
            exists: &|name| name == "made.png",
            has_data: true,
        };
        evidence(answer, &sources)
            .into_iter()
            .map(|found| {
                let rounded = match found.seen {
                    Some(Seen::Output { rounded, .. }) => Some(rounded),
                    Some(Seen::Task | Seen::File) => Some(false),
                    Some(Seen::Code { .. }) | None => None,
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

    #[test]
    fn percentages_and_large_numbers_are_found_by_what_they_mean() {
        for (answer, output, code, expected) in [
            ("41.7 %", "0.41666", "m()", Some(true)),
            ("41.67%", "41.67", "x * 100", Some(false)),
            ("0.42%", "0.41666", "m()", None),
            ("0.42%", "0.42%", "m()", Some(false)),
            ("1.72 million", "1724590", "", Some(true)),
            ("12.3万", "123000", "", Some(false)),
            ("1.72", "1724590", "", None),
        ] {
            let found = look_at(answer, output, code);
            assert_eq!(found[0].1, expected, "{answer} in {output}");
        }
    }

    #[test]
    fn a_constant_of_the_code_is_no_result() {
        assert_eq!(
            look_at("42.3", "It is 42.3", "a = 42.3\nprint(a)")[0].1,
            None
        );
        assert_eq!(look_at("42.3", "42.3", "print(x.mean())")[0].1, Some(false));
        assert_eq!(look_at("100", "100", "print(n * 100)")[0].1, Some(false));
    }

    #[test]
    fn files_are_found_by_their_names() {
        assert_eq!(
            look("It is in made.png.", "")[0],
            ("made.png".into(), Some(false))
        );
        assert_eq!(look("It is in `made.png`.", "").len(), 1);
        assert_eq!(
            look("See 2024-report.csv", "")[0],
            ("2024-report.csv".into(), None)
        );
        let listed = look_at("The largest is b.pdf", "b.pdf 12", "print(files)");
        assert_eq!(listed[0].1, Some(false));
        assert_eq!(
            look_at("Saved as b.pdf", "saved b.pdf", "print('saved b.pdf')")[0].1,
            None
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_looked_through(answer in ".{0,200}", output in ".{0,200}") {
            look(&answer, &output);
        }
    }
}
