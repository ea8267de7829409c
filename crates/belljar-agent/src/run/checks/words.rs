//! Words, names and units in tasks, answers and data.

use std::collections::BTreeSet;

use crate::run::event::TaskFile;
use crate::run::evidence::quoted;

/// Whether the text has this word, or these characters in a language without spaces.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.to_lowercase());
    if word.is_empty() {
        return false;
    }
    let is_joined = |c: char| (c.is_alphanumeric() || c == '_') && !is_cjk(c);
    let inner = |c: Option<char>| c.is_some_and(is_joined);
    text.match_indices(&word).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        let (first, last) = (word.chars().next(), word.chars().next_back());
        !(inner(before) && inner(first) || inner(after) && inner(last))
    })
}

/// The most different words of an output that are compared with a text: a guest may print any number.
const MOST_WORDS: usize = 20_000;

/// The different words of an output, the first ones if there are too many.
pub(super) fn distinct_words(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
    let words = words.map(|word| word.trim_matches('-'));
    words
        .filter(|word| !word.is_empty())
        .take(MOST_WORDS)
        .collect()
}

/// Words in lower case, without signs.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\'' | '’')))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

pub(super) fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x2E80..=0x9FFF | 0xF900..=0xFAFF)
}

/// The columns of a table, or the keys of JSON, as far as the beginning of a file shows them.
pub(super) fn columns(file: &TaskFile) -> Vec<&str> {
    let extension = file.name.rsplit('.').next().unwrap_or_default();
    match extension.to_lowercase().as_str() {
        "csv" | "tsv" => {
            let line = file.head.lines().next().unwrap_or_default();
            values(line.trim_start_matches('\u{feff}')).collect()
        }
        "json" | "jsonl" => {
            let texts = quoted(&file.head).into_iter();
            let key = |(at, text): (usize, &str)| {
                let rest = &file.head[at + text.len()..];
                rest.trim_start_matches('"').trim_start().starts_with(':')
            };
            texts
                .filter(|found| key(*found))
                .map(|(_, text)| text)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The columns of a table whose values are words, as far as its first whole row shows it.
pub(super) fn word_columns(file: &TaskFile) -> Vec<&str> {
    let columns = columns(file);
    let rows = file.head.lines().skip(1);
    let mut rows = rows.map(|row| values(row).collect::<Vec<_>>());
    let Some(row) = rows.find(|row| row.len() == columns.len()) else {
        return Vec::new();
    };
    let is_word =
        |value: &str| !value.is_empty() && value.chars().all(|c| c.is_alphabetic() || c == ' ');
    let pairs = columns.into_iter().zip(row);
    pairs
        .filter(|(_, value)| is_word(value))
        .map(|(column, _)| column)
        .collect()
}

/// Values of the first rows.
pub(super) fn row_values(file: &TaskFile) -> impl Iterator<Item = &str> {
    let columns = columns(file);
    // In JSON the keys stand in every row.
    let is_table = !file.head.trim_start().starts_with(['[', '{']);
    let skipped = usize::from(is_table && !columns.is_empty());
    let rows = file.head.lines().skip(skipped);
    rows.flat_map(values)
        .filter(move |value| !columns.contains(value))
}

fn values(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split([',', ';', '\t', '|', ':', '{', '}', '[', ']']);
    parts
        .map(|part| part.trim().trim_matches('"').trim())
        .filter(|part| !part.is_empty())
}

/// Units of one kind, each with its names.
const UNITS: &[&[&[&str]]] = &[
    &[
        &["mg", "milligrams"],
        &["g", "gram", "grams", "克"],
        &["kg", "kilogram", "kilograms", "公斤", "千克"],
        &["t", "tons", "tonnes", "吨"],
    ],
    &[
        &["mm", "millimetres", "毫米"],
        &["cm", "centimetres", "厘米"],
        &["m", "metres", "meters", "米"],
        &["km", "kilometres", "kilometers", "公里", "千米"],
    ],
    &[
        &["cent", "cents", "ct", "pence", "分"],
        &[
            "euro", "euros", "eur", "dollar", "dollars", "usd", "pounds", "gbp", "元",
        ],
        &["万元"],
    ],
    &[
        &["ms", "milliseconds", "毫秒"],
        &["s", "sec", "seconds", "秒"],
        &["min", "minutes", "分钟"],
        &["h", "hours", "小时"],
    ],
    &[
        &["bytes", "byte", "字节"],
        &["kb", "kib"],
        &["mb", "mib"],
        &["gb", "gib"],
    ],
];

/// The kind of a unit, and its place in it.
fn unit(name: &str) -> Option<(usize, usize)> {
    let name = name.to_lowercase();
    UNITS.iter().enumerate().find_map(|(kind, units)| {
        let place = units
            .iter()
            .position(|names| names.contains(&name.as_str()));
        place.map(|place| (kind, place))
    })
}

/// The unit in the name of a column: `weight_g`, `金额(元)`.
pub(super) fn unit_of_column(column: &str) -> Option<&str> {
    let (_, last) = column.rsplit_once(['_', '(', '（', '[', ' '])?;
    let last = last.trim_end_matches([')', '）', ']']);
    unit(last).map(|_| last)
}

/// The unit that a task asks for: `in kg`, `多少公斤`.
pub(super) fn unit_of_task(task: &str) -> Option<&str> {
    let parts: Vec<&str> = task.split(|c: char| !c.is_alphanumeric()).collect();
    let after = |pair: &&[&str]| pair[0].eq_ignore_ascii_case("in") && unit(pair[1]).is_some();
    if let Some(pair) = parts.windows(2).find(after) {
        return Some(pair[1]);
    }
    let asked = task.split_once("多少").map(|(_, rest)| rest)?;
    let mut names = UNITS.iter().copied().flatten().copied().flatten();
    let names: Vec<&&str> = names
        .by_ref()
        .filter(|name| asked.starts_with(**name))
        .collect();
    let longest = names.into_iter().max_by_key(|name| name.len())?;
    Some(&asked[..longest.len()])
}

/// Whether two units measure the same and differ.
pub(super) fn differ(one: &str, other: &str) -> bool {
    match (unit(one), unit(other)) {
        (Some((kind, place)), Some((other_kind, other_place))) => {
            kind == other_kind && place != other_place
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_units_are_found() {
        assert!(has_word("the North region", "north"));
        assert!(!has_word("Northern", "North"));
        assert!(has_word("水壶的总金额", "水壶"));
        assert!(has_word("total (Widget)", "Widget"));
        assert_eq!(unit_of_column("weight_g"), Some("g"));
        assert_eq!(unit_of_column("金额(元)"), Some("元"));
        assert_eq!(unit_of_column("unit_price"), None);
        assert_eq!(unit_of_task("What is it in kg?"), Some("kg"));
        assert_eq!(unit_of_task("一共多少公斤？"), Some("公斤"));
        assert_eq!(unit_of_task("How many in March?"), None);
        assert!(differ("g", "kg") && !differ("g", "g") && !differ("g", "km"));
    }
}
