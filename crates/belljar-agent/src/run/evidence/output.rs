//! An output as a reader sees it: each number with the words that name it, and the column it stands in.

use super::super::number::{Decimal, numbers};
use super::dates::dates;
use super::units;
use super::values::{offset, parts_of};
use super::words::labels;

/// A number of an output.
#[derive(Clone, Debug)]
pub(super) struct Item<'t> {
    pub(super) line: &'t str,
    pub(super) number: &'t str,
    /// The words that name it: those right before it, or those at the beginning of its row.
    pub(super) labels: Vec<String>,
    /// Its place among the numbers after these words.
    column: usize,
    /// Lines of one table or list have the same.
    block: usize,
    /// The words above it, if it stands in a table.
    pub(super) header: Option<Header<'t>>,
    /// Whether it is a part of something longer, such as a date or an identifier.
    pub(super) is_part: bool,
}

/// The head of a table.
#[derive(Clone, Debug)]
pub(super) struct Header<'t> {
    /// The word above the number.
    pub(super) own: &'t str,
    /// All of them.
    pub(super) all: Vec<&'t str>,
}

/// The most numbers of an output that are looked at, the most rows of a table that one is compared with, the most lines
/// that a head of a table is looked for in, and the most lines up to what a line is a part of.
const MOST_ITEMS: usize = 4000;
const MOST_ROWS: usize = 300;
const MOST_HEADS: usize = 4;
const MOST_UP: usize = 50;

/// The numbers and dates of an output.
pub(super) fn items(text: &str) -> Vec<Item<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut items, mut block, mut last) = (Vec::new(), 0, None);
    // Lines of words above, up to an empty one.
    let mut heads: Vec<&str> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if items.len() >= MOST_ITEMS {
            break;
        }
        let all = numbers(line);
        if line.trim().is_empty() {
            heads.clear();
        } else if all.is_empty() {
            if heads.len() == MOST_HEADS {
                heads.remove(0);
            }
            heads.push(line);
        }
        let shape = shape(line);
        if last.as_ref() != Some(&shape) {
            (block, last) = (block + 1, Some(shape));
        }
        let dates = dates(line);
        let parts = parts_of(line);
        let is_part = |number: &str| {
            let at = offset(line, number);
            let within = |whole: &&str| {
                let from = offset(line, whole);
                from <= at && at + number.len() <= from + whole.len()
            };
            // `A-3`, `10.0.0.7`, `P_101`.
            let before = line[..at].chars().rev();
            let mut joined = before.take_while(|c| c.is_alphanumeric() || "-_/:.".contains(*c));
            let mut wholes = parts.iter().chain(dates.iter().map(|(whole, _)| whole));
            wholes.any(within) || joined.any(char::is_alphabetic)
        };
        let parent = parent(&lines[..index], line);
        let row: Vec<String> = dates.iter().map(|(_, date)| date_label(*date)).collect();
        let item = |number, labels: &[String], column, is_part| Item {
            line,
            number,
            labels: parent.iter().chain(labels).cloned().collect(),
            column,
            block,
            header: None,
            is_part,
        };
        for (whole, _) in &dates {
            let named = labels(&line[..offset(line, whole)]);
            items.push(item(whole, &named, 0, false));
        }
        let (mut labelled, mut own, mut column) = (0, Vec::new(), 0);
        for number in all {
            if is_part(number) {
                items.push(item(number, &[], 0, true));
                continue;
            }
            let at = offset(line, number);
            let between = named_between(&line[labelled.min(at)..at], labelled > 0);
            if between.is_empty() {
                column += 1;
            } else {
                (own, column) = (between, 0);
            }
            labelled = at + number.len();
            let named: Vec<String> = own.iter().chain(&row).cloned().collect();
            let mut found = item(number, &named, column, false);
            found.header = header(&heads, line, at, labelled);
            items.push(found);
        }
    }
    items
}

/// The words that name the next number; a unit belongs to the one before.
fn named_between(between: &str, follows: bool) -> Vec<String> {
    let mut named = labels(between);
    let is_unit = |word: &String| units::unit(word, true).is_some();
    if follows && named.first().is_some_and(is_unit) {
        named.remove(0);
    }
    named
}

/// A date as the label of its row.
pub(super) fn date_label([year, month, day]: [u32; 3]) -> String {
    format!("{year}-{month}-{day}")
}

/// The signs of a line, without its words and digits.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.trim().chars() {
        let sign = match c {
            c if c.is_alphabetic() || c == '_' => 'w',
            c if c.is_ascii_digit() || c == '.' => '9',
            c if c.is_whitespace() => continue,
            c => c,
        };
        if !shape.ends_with(sign) {
            shape.push(sign);
        }
    }
    shape
}

/// The name of what a line is a part of, in indented JSON.
fn parent(above: &[&str], line: &str) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    if !line.trim_start().starts_with(['"', '\'']) {
        return Vec::new();
    }
    let mut up = above.iter().rev().take(MOST_UP);
    let outer = up.find(|other| indent(other) < indent(line));
    outer
        .filter(|other| other.trim_end().ends_with(['{', '[']))
        .map_or_else(Vec::new, |other| labels(other))
}

/// The words of a table that stand above what ends here: tables of pandas are aligned to the right, and those of CSV
/// have as many fields in each line.
fn header<'t>(heads: &[&'t str], line: &str, from: usize, to: usize) -> Option<Header<'t>> {
    let end = line[..to].chars().count();
    for head in heads.iter().rev() {
        for sign in [',', '\t', '|'] {
            let all: Vec<&str> = head.split(sign).map(str::trim).collect();
            let field = line[..from].matches(sign).count();
            if field > 0 && all.len() == line.split(sign).count() {
                return all.get(field).map(|own| Header {
                    own,
                    all: all.clone(),
                });
            }
        }
        let all: Vec<&str> = head.split_whitespace().collect();
        let ends_here = |word: &&&str| {
            let to = offset(head, word) + word.len();
            head[..to].chars().count() == end
        };
        if let Some(own) = all.iter().find(ends_here) {
            return Some(Header { own, all });
        }
    }
    None
}

/// The items of the same list, table or line.
pub(super) fn siblings<'i, 't>(item: &Item<'t>, items: &'i [Item<'t>]) -> Vec<&'i Item<'t>> {
    let is_it = |one: &Item<'_>| std::ptr::eq(one.number, item.number);
    let at = items.iter().position(is_it).unwrap_or(0);
    let near = items.iter().skip(at.saturating_sub(MOST_ROWS / 2));
    let near = near.take(MOST_ROWS);
    let block = near.filter(|one| one.block == item.block);
    block
        .filter(|one| !one.labels.is_empty() && !one.is_part)
        .collect()
}

/// Whether the first numbers of the rows count them, as pandas prints it.
pub(super) fn is_row_number(item: &Item<'_>, items: &[Item<'_>]) -> bool {
    let first = |item: &Item<'_>| item.line.trim_start().starts_with(item.number);
    if !first(item) || item.header.is_some() {
        return false;
    }
    let rows: Vec<i64> = items
        .iter()
        .filter(|one| first(one) && one.line.trim() != one.number)
        .filter_map(|one| one.number.parse().ok())
        .collect();
    rows.len() > 1 && rows[0] <= 1 && rows.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// Whether an item is the largest of its column, or the smallest; `None` if it is alone in it.
pub(super) fn is_extreme(item: &Item<'_>, siblings: &[&Item<'_>], largest: bool) -> Option<bool> {
    let value =
        |item: &Item<'_>| -> Option<f64> { item.number.replace([',', '_'], "").parse().ok() };
    let own = value(item)?;
    let same = siblings.iter().filter(|other| other.column == item.column);
    let others: Vec<f64> = same.filter_map(|other| value(other)).collect();
    let beaten = |other: &f64| if largest { *other > own } else { *other < own };
    (others.len() > 1).then(|| !others.iter().any(beaten))
}

/// The items that one value may stand for.
pub(super) fn same_number(one: &str, other: &str) -> bool {
    one == other || Decimal::parse(one) == Decimal::parse(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_words_before_it() {
        let text = "{'North': 120, 'South': 80.5}";
        let found = items(text);
        assert_eq!(found[0].labels, ["north"]);
        assert_eq!(found[1].labels, ["south"]);
        let row = items("North  30  450.0");
        assert_eq!(row[1].labels, ["north"]);
        assert_eq!(row[1].column, 1);
        let dated = items("id A-3 on 2024-01-09");
        let whole = dated.iter().filter(|one| !one.is_part);
        let whole: Vec<&str> = whole.map(|one| one.number).collect();
        assert_eq!(whole, ["2024-01-09"]);
        assert_eq!(items("range 6.3 ft = 1.92 m")[1].labels, ["range"]);
        let nested = items("  \"north\": {\n    \"mean\": 5\n");
        assert_eq!(nested[0].labels, ["north", "mean"]);
    }

    #[test]
    fn a_table_of_pandas_has_a_header() {
        let text = "        units  amount\nregion               \nNorth      30   450.0\nSouth       4   860.5";
        let found = items(text);
        assert_eq!(found[0].header.as_ref().unwrap().own, "units");
        assert_eq!(found[3].header.as_ref().unwrap().own, "amount");
        assert_eq!(
            is_extreme(&found[3], &siblings(&found[3], &found), true),
            Some(true)
        );
        let csv = items("product,units,rev\nlamp,259,6374.44");
        assert_eq!(csv[0].header.as_ref().unwrap().own, "units");
        let rows = items("  name  age\n0  ann   34\n1   bo   27");
        assert!(is_row_number(&rows[2], &rows) && !is_row_number(&rows[3], &rows));
    }
}
