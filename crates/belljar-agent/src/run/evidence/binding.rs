//! Whether the place where a value was found is about what the answer says of it.
//!
//! Each rule compares words: those around the value in the answer with those around the digits in the output. A rule
//! speaks only where both have such words. What it finds makes evidence weaker; it does not refuse an answer.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::claim::Claim;
use super::dates::dates;
use super::derive::{Bound, Cells, Place as Computed, bind};
use super::names::{Statement, origins, statements};
use super::output::{Item, date_label, is_extreme, is_row_number, items, same_number, siblings};
use super::units;
use super::values::{Place, ValueKind, offset};
use super::words::{labels, mentions, says};
use super::{Derivation, Source, Weakness};

/// The most numbers of an output whose rows are looked at.
const MOST_LABELLED: usize = 300;

/// What the rules read of the sources, each once.
pub(super) struct Reading<'s> {
    sources: &'s [Source],
    items: Vec<OnceCell<Vec<Item<'s>>>>,
    cells: OnceCell<Vec<Vec<Statement>>>,
    bound: OnceCell<Vec<Option<Bound<'s>>>>,
    rows: OnceCell<BTreeSet<String>>,
    cited: OnceCell<Vec<String>>,
}

impl<'s> Reading<'s> {
    pub(super) fn new(sources: &'s [Source]) -> Self {
        Self {
            sources,
            items: sources.iter().map(|_| OnceCell::new()).collect(),
            cells: OnceCell::new(),
            bound: OnceCell::new(),
            rows: OnceCell::new(),
            cited: OnceCell::new(),
        }
    }

    fn items(&self, index: usize) -> &[Item<'s>] {
        self.items[index].get_or_init(|| items(&self.sources[index].text))
    }

    fn cells(&self) -> &[Vec<Statement>] {
        let read = || self.sources.iter().map(|one| statements(&one.code));
        self.cells.get_or_init(|| read().collect())
    }

    /// The outputs with the expressions that showed them.
    fn bound(&self, index: usize) -> Option<&Bound<'s>> {
        let all = self.bound.get_or_init(|| {
            let mut cells = Cells::default();
            let follow = |source: &'s Source| {
                let shown = cells.follow(&source.code, source.cell);
                bind(&shown, &source.text).filter(|_| !source.failed)
            };
            self.sources.iter().map(follow).collect()
        });
        all[index].as_ref()
    }

    /// The words that tell rows apart in the outputs.
    fn rows(&self) -> &BTreeSet<String> {
        self.rows.get_or_init(|| {
            let mut rows = BTreeSet::new();
            for index in 0..self.sources.len() {
                for item in self.items(index).iter().take(MOST_LABELLED) {
                    let is_row = |place: Computed| place.is_row;
                    let bound = self.bound(index);
                    if bound
                        .and_then(|bound| bound.at(item.number))
                        .is_some_and(is_row)
                    {
                        rows.extend(item.labels.iter().cloned());
                    }
                }
            }
            rows.retain(|label| super::derive::measure_of(label).is_none());
            rows
        })
    }

    /// What the code says of the values that it cites.
    pub(super) fn cited(&self) -> &[String] {
        self.cited.get_or_init(|| {
            let all = (0..self.sources.len()).filter_map(|index| self.bound(index));
            all.flat_map(Bound::labels).take(MOST_LABELLED).collect()
        })
    }

    /// How a value was computed, if that is what the answer says of it.
    pub(super) fn derivation(
        &self,
        claim: &Claim<'_>,
        place: &Place<'_>,
        index: usize,
        known: &str,
    ) -> Option<Derivation> {
        let computed = self.bound(index)?.at(place.found)?;
        let items = self.items(index);
        let item = items
            .iter()
            .find(|item| std::ptr::eq(item.number, place.found));
        let found = item.map(|item| (item, items));
        let agrees = claim.agrees(&computed, place, found, self.rows(), self.cited(), known);
        agrees.then(|| Derivation::new(&computed))
    }
}

impl Claim<'_> {
    /// What speaks against a place in the output of one of the sources.
    pub(super) fn weakness(
        &self,
        place: &Place<'_>,
        reading: &Reading<'_>,
        index: usize,
    ) -> Option<Weakness> {
        let (sources, cells) = (reading.sources, reading.cells());
        let source = &sources[index];
        let items = reading.items(index);
        let is_it = |item: &&Item<'_>| std::ptr::eq(item.number, place.found);
        let item = items.iter().find(is_it);
        let item =
            item.filter(|_| matches!(self.kind, ValueKind::Number { .. } | ValueKind::Parts));
        if source.failed || item.is_some_and(|item| self.is_incidental(item, items)) {
            return Some(Weakness::Incidental);
        }
        let showing = showing(&cells[index], source, place.line);
        if let Some(item) = item {
            if self.is_other_row(item, items) {
                return Some(Weakness::OtherRow);
            }
            if self.is_other_column(item) {
                return Some(Weakness::OtherColumn);
            }
            if self.is_other_measure(item, &showing, &cells[..=index]) {
                return Some(Weakness::OtherMeasure);
            }
            if self.is_other_unit(item, &source.code, &cells[..=index]) {
                return Some(Weakness::OtherUnit);
            }
        }
        self.is_outdated(place, &showing, sources, index, cells)
            .then_some(Weakness::Outdated)
    }

    /// Digits of something else than a quantity.
    fn is_incidental(&self, item: &Item<'_>, items: &[Item<'_>]) -> bool {
        let line = item.line.trim();
        let counts_rows = [
            "row", "record", "entry", "entrie", "column", "line", "order", "行", "列", "条",
        ];
        if item.is_part {
            return !self.says(&["year", "month", "day", "hour", "年", "月", "日"]);
        }
        if is_row_number(item, items) {
            return !self.says(&["row", "index", "position", "rank", "行", "索引"]);
        }
        let is_shape = line.starts_with('(') && line.ends_with(')') && labels(line).is_empty();
        let is_size =
            line.starts_with('[') && line.ends_with("columns]") || line.starts_with("RangeIndex");
        if is_size || is_shape && items.iter().filter(|one| one.line == item.line).count() == 2 {
            return !self.says(&counts_rows);
        }
        ["File \"", "Traceback", "Name: ", "dtype:"]
            .iter()
            .any(|start| line.starts_with(start))
    }

    /// The answer names another row of the same output.
    fn is_other_row(&self, item: &Item<'_>, items: &[Item<'_>]) -> bool {
        let named = siblings(item, items);
        // Words that all have do not tell rows apart.
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for label in named.iter().flat_map(|one| &one.labels) {
            *counts.entry(label).or_default() += 1;
        }
        let tells_apart =
            |label: &&String| counts.get(label).is_some_and(|count| *count < named.len());
        let all: BTreeSet<&String> = named
            .iter()
            .flat_map(|one| &one.labels)
            .filter(tells_apart)
            .collect();
        let own: BTreeSet<&String> = item.labels.iter().filter(tells_apart).collect();
        if own.is_empty() {
            return false;
        }
        let at = offset(self.answer, self.sentence);
        let here = offset(self.answer, self.value) - at;
        let found = mentioned(self.sentence, &all);
        if found.is_empty() {
            // "The best one is North. It sold 120."
            return match mentioned(&self.answer[..at], &all).last() {
                Some((_, last)) => !own.contains(last),
                None => self.is_not_extreme(item, items),
            };
        }
        // "North sold 120, South 80", or "120 in the North, 80 in the South".
        let is_before = found.iter().any(|(place, _)| *place < self.first);
        let picked = if is_before {
            found.iter().rfind(|(place, _)| *place < here)
        } else {
            found.iter().find(|(place, _)| *place > here)
        };
        let Some((_, picked)) = picked else {
            return false;
        };
        let in_clause = mentioned(self.clause, &all).into_iter();
        let in_clause: BTreeSet<&String> = in_clause.map(|(_, label)| label).collect();
        // "North sold 120 of 300 in all": what the clause itself names counts more.
        let is_named = !in_clause.contains(picked) && !in_clause.is_disjoint(&own);
        if !own.contains(picked) && !is_named {
            return true;
        }
        // A row of several names: another one has all that the clause names, and this one has not.
        let has_all = |labels: &BTreeSet<&String>| in_clause.is_subset(labels);
        !has_all(&own)
            && named
                .iter()
                .any(|one| has_all(&one.labels.iter().collect()))
    }

    /// "The highest is 80", where another row has more.
    fn is_not_extreme(&self, item: &Item<'_>, items: &[Item<'_>]) -> bool {
        let most = [
            "highest", "largest", "most", "maximum", "max", "biggest", "best", "top", "最高",
            "最大", "最多",
        ];
        let least = [
            "lowest", "smallest", "least", "minimum", "min", "fewest", "worst", "最低", "最小",
            "最少",
        ];
        let (most, least) = (self.says(&most), self.says(&least));
        most != least && is_extreme(item, &siblings(item, items), most) == Some(false)
    }

    /// The clause names another column of the table.
    fn is_other_column(&self, item: &Item<'_>) -> bool {
        let Some(header) = &item.header else {
            return false;
        };
        let is_named = |column: &str| {
            let words = labels(column);
            !words.is_empty()
                && words
                    .iter()
                    .all(|word| !mentions(self.clause, word).is_empty())
        };
        let others = header.all.iter().filter(|column| **column != header.own);
        !is_named(header.own) && others.into_iter().any(|column| is_named(column))
    }

    /// A mean is no median.
    fn is_other_measure(
        &self,
        item: &Item<'_>,
        showing: &[&Statement],
        cells: &[Vec<Statement>],
    ) -> bool {
        let text = format!("{} {}", self.intro, self.clause);
        let said = measures(&labels(&text), &text);
        let before = item.line.split(item.number).next().unwrap_or_default();
        let header = item.header.as_ref().map_or("", |header| header.own);
        let named: BTreeSet<usize> = measures(&item.labels, before)
            .into_iter()
            .chain(measures(&labels(header), header))
            .collect();
        if !named.is_empty() {
            return !said.is_empty() && said.is_disjoint(&named);
        }
        // "The highest" may be one of several sums.
        let said: BTreeSet<usize> = said
            .into_iter()
            .filter(|one| !SUPERLATIVES.contains(one))
            .collect();
        let computed = |statements: &mut dyn Iterator<Item = &Statement>| {
            let mut found = BTreeSet::new();
            for statement in statements {
                let uses: Vec<String> = statement.uses.iter().flat_map(|one| labels(one)).collect();
                found.extend(measures(&uses, ""));
                // A mean by hand.
                if statement.divides {
                    found.insert(MEAN);
                }
            }
            found
        };
        let one = match showing {
            [statement] => computed(&mut std::iter::once(*statement)),
            _ => BTreeSet::new(),
        };
        let all = computed(&mut cells.iter().flatten());
        let other = |computed: &BTreeSet<usize>| !computed.is_empty() && said.is_disjoint(computed);
        !said.is_empty() && (other(&one) || !all.is_empty() && said.is_disjoint(&all))
    }

    /// Another unit than the output has, and no code that converts it.
    fn is_other_unit(&self, item: &Item<'_>, code: &str, cells: &[Vec<Statement>]) -> bool {
        let at = offset(self.answer, self.value);
        let (before, after) = (&self.answer[..at], &self.answer[at + self.value.len()..]);
        let before = &before[before.floor_char_boundary(before.len().saturating_sub(8))..];
        let Some(said) = units::beside(before, after) else {
            return false;
        };
        let at = offset(item.line, item.number);
        let (before, after) = (&item.line[..at], &item.line[at + item.number.len()..]);
        if let Some(unit) = units::beside(before, after) {
            return units::differ(said, unit);
        }
        let header = item
            .header
            .as_ref()
            .and_then(|header| units::of_name(header.own));
        let label = || units::of_name(before.trim_end_matches([' ', ':', '=', '\'', '"']));
        let code_names = || {
            let names = cells.iter().flatten().flat_map(|statement| &statement.uses);
            let known: BTreeSet<usize> = names.filter_map(|name| units::of_name(name)).collect();
            let other = known
                .iter()
                .copied()
                .find(|unit| units::differ(said, *unit));
            other.filter(|_| !known.contains(&said))
        };
        let unit = header.or_else(label).or_else(code_names);
        let converts = [
            "/ 1000", "/1000", "* 1000", "/ 100", "/100", "* 100", "/ 60", "/60", "* 60", "3600",
            "/ 24", "1e3", "1024", "1.6", "0.6", "2.2", "0.45", "1.8", "9 / 5", "9/5", "rate",
        ];
        unit.is_some_and(|unit| units::differ(said, unit))
            && !converts.iter().any(|one| code.contains(one))
    }

    /// A later cell changed what the value was computed from, or printed it anew with another result.
    fn is_outdated(
        &self,
        place: &Place<'_>,
        showing: &[&Statement],
        sources: &[Source],
        index: usize,
        cells: &[Vec<Statement>],
    ) -> bool {
        let before = [
            "before", "original", "initial", "raw", "at first", "之前", "原来", "原始", "最初",
        ];
        if says(self.sentence, &before) {
            return false;
        }
        let later = || (index + 1..sources.len()).filter(|at| !sources[*at].failed);
        // The same words with another number.
        let frame = |line: &str| -> String { line.chars().filter(|c| c.is_alphabetic()).collect() };
        let own = frame(place.line);
        let again = |line: &str| own.chars().count() > 2 && frame(line) == own;
        let has = |line: &str| {
            super::super::number::numbers(line)
                .iter()
                .any(|number| same_number(number, place.found))
        };
        let (mut anew, mut kept) = (false, false);
        for at in later() {
            for line in sources[at].text.lines().filter(|line| again(line)) {
                kept |= has(line);
                anew |= !has(line);
            }
        }
        if anew
            && !kept
            && sources[index]
                .text
                .lines()
                .filter(|line| again(line))
                .count()
                == 1
        {
            return true;
        }
        let origins = origins(cells[..=index].iter().map(Vec::as_slice));
        let names: BTreeSet<&String> = showing
            .iter()
            .flat_map(|statement| &statement.reads)
            .flat_map(|name| origins.get(name).into_iter().flatten().chain([name]))
            .collect();
        let printed: BTreeSet<&String> = showing
            .iter()
            .flat_map(|statement| &statement.shown_names)
            .collect();
        let known: BTreeSet<&str> = cells[..=index]
            .iter()
            .flatten()
            .map(|one| one.code.as_str())
            .collect();
        let used: BTreeSet<&String> = cells[..=index]
            .iter()
            .flatten()
            .flat_map(|one| &one.uses)
            .collect();
        let changes = |statement: &Statement| {
            let is_known = !statement.code.is_empty() && known.contains(statement.code.as_str());
            // A new column changes nothing.
            let is_new = statement
                .sets
                .as_ref()
                .is_some_and(|column| !used.contains(column));
            let changed = statement.writes.iter().any(|name| {
                names.contains(name) && statement.reads.contains(name) || printed.contains(name)
            });
            changed && !is_known && !is_new
        };
        later().any(|at| cells[at].iter().any(changes))
    }
}

/// The statements that may have shown a line: one, if each statement showed one line.
fn showing<'s>(cell: &'s [Statement], source: &Source, line: &str) -> Vec<&'s Statement> {
    let all: Vec<&Statement> = cell.iter().filter(|statement| statement.shows).collect();
    let lines: Vec<&str> = source
        .text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let at = lines.iter().position(|one| std::ptr::eq(*one, line));
    match at {
        Some(at) if lines.len() == all.len() => vec![all[at]],
        _ => all,
    }
}

/// Names of measures, in outputs, code and answers.
const MEASURES: [&[&str]; 8] = [
    &["mean", "average", "avg", "平均", "均值"],
    &["median", "50%", "中位数"],
    &["sum", "total", "总", "合计", "总和", "总额", "总计"],
    &["count", "size", "len", "nunique", "value_count"],
    &["std", "deviation", "标准差"],
    &["var", "variance", "方差"],
    &[
        "max", "maximum", "highest", "largest", "idxmax", "最大", "最高",
    ],
    &[
        "min", "minimum", "lowest", "smallest", "idxmin", "最小", "最低",
    ],
];
const MEAN: usize = 0;
const SUPERLATIVES: [usize; 2] = [6, 7];

fn measures(words: &[String], text: &str) -> BTreeSet<usize> {
    let has = |name: &str| {
        words.iter().any(|word| word == name)
            || !name.chars().all(char::is_alphabetic) && text.contains(name)
            || !name.is_ascii() && text.contains(name)
    };
    let found = MEASURES.iter().enumerate();
    found
        .filter(|(_, names)| names.iter().any(|name| has(name)))
        .map(|(at, _)| at)
        .collect()
}

/// Where a text names which of these labels, in order.
fn mentioned<'l>(text: &str, all: &BTreeSet<&'l String>) -> Vec<(usize, &'l String)> {
    let mut found: Vec<(usize, &String)> = Vec::new();
    for label in all {
        found.extend(
            mentions(text, label)
                .into_iter()
                .map(|place| (place, *label)),
        );
    }
    for (whole, date) in dates(text) {
        let label = date_label(date);
        found.extend(
            all.iter()
                .find(|one| ***one == label)
                .map(|one| (offset(text, whole), *one)),
        );
    }
    found.sort();
    found
}
