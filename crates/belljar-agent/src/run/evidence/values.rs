//! Values of an answer, and the places of a text that have them.

use super::super::number::{Decimal, numbers};
use super::dates::dates;

#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    /// A part of the answer.
    pub(super) text: &'a str,
    pub(super) kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Text,
    File,
    /// A date, a time or a version: its numbers belong together.
    Parts,
    /// As it stands, or of numbers that become it when their point is moved by this.
    Number {
        shift: i32,
    },
}

/// Where a text has a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'t> {
    pub(super) line: &'t str,
    /// The words or digits themselves, a part of the line.
    pub(super) found: &'t str,
    /// Whether it has more digits.
    pub(super) rounded: bool,
}

impl Value<'_> {
    /// All places of a text that have it: those with the very value first. `falls` says that the answer has the sign as
    /// a word: "a loss of 5".
    pub(super) fn places<'t>(&self, text: &'t str, code: &str, falls: bool) -> Vec<Place<'t>> {
        let whole = |line: &'t str, found: &'t str| Place {
            line,
            found,
            rounded: false,
        };
        let ValueKind::Number { shift } = self.kind else {
            let lines = text.lines();
            if self.kind == ValueKind::Parts {
                let wanted: Vec<_> = dates(self.text).into_iter().map(|(_, date)| date).collect();
                let found = lines.filter_map(|line| {
                    if wanted.is_empty() {
                        return has_parts(line, self.text).then(|| whole(line, line));
                    }
                    let mut there = dates(line).into_iter();
                    let date = there.find(|(_, date)| wanted.contains(date));
                    date.map(|(found, _)| whole(line, found))
                });
                return found.collect();
            }
            let has = |line: &'t str| {
                let at = line.find(self.text)?;
                Some(whole(line, &line[at..at + self.text.len()]))
            };
            let found: Vec<Place<'t>> = lines.filter_map(has).collect();
            return if found.is_empty() && text.contains(self.text) {
                vec![whole(text, text)]
            } else {
                found
            };
        };
        let Some(wanted) = Decimal::parse(self.text) else {
            return Vec::new();
        };
        let in_that_scale = says_scale(shift, text, code);
        let mut places = Vec::new();
        for line in text.lines() {
            for found in numbers(line) {
                let Some(number) = Decimal::parse(found) else {
                    continue;
                };
                // A fraction is no percentage, unless something says so.
                let is_percentage =
                    code.contains('%') || code.contains("100") || line.contains('%');
                let as_it_is = match shift {
                    PERCENT => !wanted.is_fraction() || is_percentage,
                    _ => in_that_scale,
                };
                // "205,650 thousand" is "205.65 million".
                let after = &line[offset(line, found) + found.len()..];
                let own = shift_of(after).min(0);
                let as_it_is = as_it_is && own == 0;
                let by = if shift == PERCENT { shift } else { shift - own };
                let shifted = (by != 0 || own != 0).then(|| number.clone().shifted(by));
                let forms = as_it_is.then_some(number).into_iter().chain(shifted);
                let mut forms = forms.map(|form| if falls { form.without_sign() } else { form });
                let fits = |form: &Decimal| *form == wanted || form.rounds_to(&wanted);
                if let Some(form) = forms.find(fits) {
                    places.push(Place {
                        line,
                        found,
                        rounded: form != wanted,
                    });
                }
            }
        }
        places.sort_by_key(|place| place.rounded);
        places
    }
}

/// The shift of a fraction that is written as a percentage.
const PERCENT: i32 = 2;

/// Words after a number, and the shift that they stand for.
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

/// The shift that the words after a number stand for.
fn shift_of(after: &str) -> i32 {
    let after = after.trim_start().to_lowercase();
    let scale = SCALES.iter().find(|(word, _)| after.starts_with(word));
    scale.map_or(0, |(_, shift)| *shift)
}

/// Whether an output may have numbers in this scale: "48" is "48 million" only where the output says so, or the code
/// divides by a million.
fn says_scale(shift: i32, output: &str, code: &str) -> bool {
    // Most numbers have none.
    if shift >= 0 {
        return true;
    }
    let zeros = "0".repeat(shift.unsigned_abs() as usize);
    let (output, code) = (output.to_lowercase(), code.replace('_', ""));
    SCALES
        .iter()
        .any(|(word, other)| *other == shift && output.contains(word))
        || code
            .split(|c: char| !c.is_ascii_digit())
            .any(|digits| digits == format!("1{zeros}"))
        || code.contains(&format!("1e{}", -shift))
        || code.contains(&format!("10**{}", -shift))
        || code.contains(&format!("10 ** {}", -shift))
}

/// Dates (`2026-06`, `2026-06-01`, `1/6/2026`), times (`10:30`) and versions (`3.11.2`).
pub(super) fn parts_of(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "-/:.".contains(c));
    let words = text
        .split(ends)
        .map(|word| word.trim_matches(['.', ':', '-', '/']));
    let is_whole = |word: &&str| {
        let separated = |by: char| -> Vec<&str> { word.split(by).collect() };
        let are_digits = |parts: &[&str], digits: &[usize]| {
            let is_short = |part: &&str| {
                part.bytes().all(|b| b.is_ascii_digit()) && digits.contains(&part.len())
            };
            parts.iter().all(is_short)
        };
        match separated('-')[..] {
            [year, ref rest @ ..] if matches!(rest.len(), 1 | 2) => {
                return are_digits(&[year], &[4]) && are_digits(rest, &[2]);
            }
            _ => {}
        }
        let (slashes, colons, points) = (separated('/'), separated(':'), separated('.'));
        (slashes.len() == 3 && are_digits(&slashes, &[1, 2, 4]))
            || (matches!(colons.len(), 2 | 3) && are_digits(&colons, &[1, 2]))
            || (matches!(points.len(), 3 | 4) && are_digits(&points, &[1, 2, 3]))
    };
    words.filter(is_whole).collect()
}

/// Whether a line has a date, a time or a version, in whatever way it writes its parts.
fn has_parts(line: &str, value: &str) -> bool {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let stands = line.match_indices(value).any(|(at, _)| {
        !is_digit(line[..at].chars().next_back())
            && !is_digit(line[at + value.len()..].chars().next())
    });
    let number = |text: &str| text.trim_start_matches('0').to_owned();
    let runs = |text: &str| -> Vec<String> {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        digits.filter(|run| !run.is_empty()).map(number).collect()
    };
    let sorted = |mut parts: Vec<String>| {
        parts.sort_unstable();
        parts
    };
    let (wanted, there) = (sorted(runs(value)), runs(line));
    // One after the other, in any order: 15/6/2026 is 2026-06-15.
    stands
        || there
            .windows(wanted.len())
            .any(|parts| sorted(parts.to_vec()) == wanted)
}

pub(super) fn values(answer: &str) -> Vec<Value<'_>> {
    let files = file_names(answer).into_iter();
    let files = files.map(|text| (text, ValueKind::File));
    let texts = quoted(answer).into_iter().map(|(_, text)| text);
    let texts = texts.filter(|text| (1..=200).contains(&text.len()) && !text.contains('\n'));
    let texts = texts.map(|text| (text, ValueKind::Text));
    let whole = dates(answer).into_iter().map(|(text, _)| text);
    let whole = whole.chain(parts_of(answer));
    let whole = whole.map(|text| (text, ValueKind::Parts));
    let ids = identifiers(answer).into_iter();
    let ids = ids.map(|text| (text, ValueKind::Text));
    let numbers = numbers(answer).into_iter().map(|text| {
        let after = &answer[offset(answer, text) + text.len()..];
        let shift = shift_of(after);
        (text, ValueKind::Number { shift })
    });
    let codes = tokens(answer).into_iter();
    let codes = codes.map(|text| (text, ValueKind::Text));
    let mut found: Vec<(usize, Value<'_>)> = Vec::new();
    // What stands within an earlier kind belongs to it.
    for (text, kind) in files
        .chain(texts)
        .chain(whole)
        .chain(ids)
        .chain(numbers)
        .chain(codes)
    {
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
pub(crate) fn file_names(text: &str) -> Vec<&str> {
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

pub(super) fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Texts in quotes of any kind, and where they begin.
pub(crate) fn quoted(text: &str) -> Vec<(usize, &str)> {
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

/// Such as `INV-313`: its digits are no number.
fn identifiers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let is_one = |word: &&str| {
        word.split_once('-').is_some_and(|(name, digits)| {
            (1..=5).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_uppercase())
                && !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
        })
    };
    words.filter(is_one).collect()
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
