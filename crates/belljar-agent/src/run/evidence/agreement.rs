//! Whether what the code computed is what the answer says of a value.
//!
//! Evidence is derived only if nothing speaks against it and something speaks for it: the row, the measure, and the
//! column or the name of the value are those of the answer. Where the words don't meet, a value stays printed.

mod cited;

use std::collections::BTreeSet;

use super::claim::Claim;
use super::concepts::{concepts, speaks_of};
use super::dates::dates;
use super::derive::{Made, Measure, Place as Computed};
use super::output::{Item, is_extreme, siblings};
use super::units;
use super::values::{Place, ValueKind, offset, parts_of};
use super::words::{labels, mentions, says};

const MEAN: [&str; 9] = [
    "mean", "average", "avg", "averages", "averaged", "typical", "平均", "均值", "人均",
];
const MEDIAN: [&str; 5] = ["median", "half", "middle", "中位数", "中位"];
const TOTAL: [&str; 8] = [
    "total",
    "sum",
    "combined",
    "altogether",
    "合计",
    "总",
    "共计",
    "总计",
];
const PER: [&str; 10] = [
    "per", "each", "every", "expected", "rate", "ratio", "times", "share", "每", "率",
];
const DIFFERENCE: [&str; 24] = [
    "difference",
    "gap",
    "apart",
    "between",
    "more",
    "less",
    "minus",
    "change",
    "increase",
    "decrease",
    "net",
    "after",
    "span",
    "warmer",
    "cooler",
    "colder",
    "higher",
    "lower",
    "fewer",
    "over",
    "rose",
    "fell",
    "range",
    "spread",
];
const DIFFERENCE_CHINESE: [&str; 10] = [
    "差", "变动", "增加", "减少", "净", "相差", "增长", "下降", "多", "少",
];
const MOST: [&str; 25] = [
    "highest", "largest", "most", "maximum", "max", "biggest", "latest", "last", "longest",
    "heaviest", "hottest", "warmest", "tallest", "peak", "peaked", "top", "slowest", "oldest",
    "newest", "record", "最高", "最大", "最多", "最长", "最晚",
];
const LEAST: [&str; 18] = [
    "lowest", "smallest", "least", "minimum", "min", "fewest", "earliest", "first", "shortest",
    "lightest", "coldest", "youngest", "cheapest", "最低", "最小", "最少", "最短", "最早",
];
const RANKS: [&str; 16] = [
    "best",
    "worst",
    "second",
    "third",
    "fourth",
    "fifth",
    "lead",
    "leads",
    "ranks",
    "rank",
    "strongest",
    "weakest",
    "never",
    "最",
    "第一",
    "第二",
];
/// Words that end as a superlative and are none.
const NO_SUPERLATIVES: [&str; 14] = [
    "interest",
    "request",
    "test",
    "west",
    "east",
    "forest",
    "harvest",
    "honest",
    "invest",
    "rest",
    "guest",
    "suggest",
    "northwest",
    "southwest",
];
const ORDINALS: [&str; 12] = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
];
/// What any row may be called.
const ROWS: [&str; 22] = [
    "row",
    "record",
    "entry",
    "entries",
    "item",
    "line",
    "value",
    "data",
    "people",
    "case",
    "observation",
    "result",
    "in",
    "of",
    "are",
    "were",
    "different",
    "distinct",
    "行",
    "条",
    "个",
    "份",
];
const COMPARES: [&str; 16] = [
    "above",
    "below",
    "exceed",
    "exceeds",
    "exceeding",
    "than",
    "least",
    "under",
    "older",
    "younger",
    "beyond",
    "between",
    "超过",
    "高于",
    "低于",
    "以上",
];

impl Claim<'_> {
    /// Whether a computed value is what the answer says. `rows` are the words that tell rows apart in the outputs of
    /// the run, `cited` are the labels of its citations, `known` is the task with the names of its files.
    pub(super) fn agrees(
        &self,
        computed: &Computed,
        place: &Place<'_>,
        found: Option<(&Item<'_>, &[Item<'_>])>,
        rows: &BTreeSet<String>,
        cited: &[String],
        known: &str,
    ) -> bool {
        let compared = Compared {
            claim: self,
            made: &computed.made,
            computed,
            place,
            item: found.map(|(item, _)| item),
            items: found.map_or(&[][..], |(_, items)| items),
            text: format!("{} {}", self.intro, self.clause),
        };
        let is_subject = match &computed.label {
            // What the model itself says of it counts alone.
            Some(label) => compared.is_as_cited(label, cited, rows, known),
            None => compared.is_row(rows, known) && compared.is_subject(),
        };
        is_subject && compared.is_measure() && compared.is_unit() && compared.is_count(known)
    }
}

struct Compared<'c> {
    claim: &'c Claim<'c>,
    made: &'c Made,
    computed: &'c Computed,
    place: &'c Place<'c>,
    item: Option<&'c Item<'c>>,
    items: &'c [Item<'c>],
    /// What the answer says of the value alone, with the head of its list or table.
    text: String,
}

impl Compared<'_> {
    fn is_number(&self) -> bool {
        matches!(self.claim.kind, ValueKind::Number { .. })
    }

    /// The words of the output that name the value.
    fn named(&self) -> Vec<String> {
        let mut named = self
            .item
            .map(|item| item.labels.clone())
            .unwrap_or_default();
        if let Some(header) = self.item.and_then(|item| item.header.as_ref()) {
            named.extend(labels(header.own));
        }
        named.extend(self.made.about.iter().flat_map(|one| labels(one)));
        named
    }

    fn is_percentage(&self) -> bool {
        matches!(self.claim.kind, ValueKind::Number { shift: 2 })
    }

    fn is_measure(&self) -> bool {
        let (made, text) = (self.made, &self.text);
        let named = self.named();
        let is_named = |words: &[&str]| named.iter().any(|one| words.contains(&one.as_str()));
        let outer = made.outer();
        if says(text, &MEDIAN[..1]) || says(text, &["中位数"]) {
            return made.has(Measure::Median) || is_named(&["median", "50%", "中位数"]);
        }
        if says(text, &MEAN) {
            let is_ratio = made.has(Measure::Ratio) && made.picked.is_none();
            return made.has(Measure::Mean)
                || is_ratio
                || is_named(&["mean", "average", "avg", "平均"]);
        }
        if outer == Some(Measure::Mean) && !says(text, &PER) && !says(self.claim.sentence, &MEAN) {
            return false;
        }
        if outer == Some(Measure::Median) && !says(self.claim.sentence, &MEDIAN) {
            return false;
        }
        let is_total = says(text, &TOTAL);
        if is_total {
            let others = [
                Measure::Max,
                Measure::Min,
                Measure::Ratio,
                Measure::Spread,
                Measure::Median,
            ];
            if outer.is_some_and(|outer| others.contains(&outer)) && !self.is_percentage() {
                return false;
            }
            if outer.is_none()
                && self.computed.is_row
                && !is_named(&["total", "sum", "all", "合计", "总分", "总"])
            {
                return false;
            }
        }
        if outer == Some(Measure::Ratio) && self.is_number() && !self.is_percentage() {
            let spoken = concepts(text);
            let is_meant =
                says(text, &PER) || made.about.iter().any(|one| speaks_of(text, &spoken, one));
            if !is_meant {
                return false;
            }
        }
        if self.is_percentage() {
            let line = self.place.line;
            let shares = [
                "share", "pct", "percent", "rate", "ratio", "margin", "growth", "lift", "率", "比",
                "占比",
            ];
            let is_share = made.has(Measure::Ratio)
                || line.contains('%')
                || is_named(&shares)
                || made.about.iter().any(|one| one.contains(['率', '比', '%']));
            if !is_share {
                return false;
            }
        }
        if outer == Some(Measure::Spread) {
            return is_named(&labels(text).iter().map(String::as_str).collect::<Vec<_>>());
        }
        if outer == Some(Measure::Difference) && made.about.len() > 1 {
            let is_said =
                says(text, &DIFFERENCE) || DIFFERENCE_CHINESE.iter().any(|one| text.contains(one));
            if !is_said {
                return false;
            }
        }
        if outer == Some(Measure::Both) && made.about.len() > 1 {
            let spoken = concepts(text);
            let all = made.about.iter().all(|one| speaks_of(text, &spoken, one));
            if !all && !is_total {
                return false;
            }
        }
        self.is_extreme_meant()
    }

    /// A largest, a first: said by the answer, and computed.
    fn is_extreme_meant(&self) -> bool {
        let (made, text) = (self.made, &self.text);
        let is_picked = made.has(Measure::Max) || made.has(Measure::Min) || made.picked.is_some();
        let (most, least) = (says(text, &MOST), says(text, &LEAST));
        let sentence = self.claim.sentence;
        let is_said = |text: &str| says(text, &MOST) || says(text, &LEAST) || is_superlative(text);
        match made.outer() {
            Some(Measure::Max) if least && !most => return false,
            Some(Measure::Min) if most && !least => {
                // The latest of dates is the largest; the best may be the smallest.
                return made.picked.is_some();
            }
            _ => {}
        }
        if is_picked && !is_said(sentence) && !is_said(self.claim.intro) {
            let labels = self
                .item
                .map(|item| item.labels.clone())
                .unwrap_or_default();
            return labels.iter().any(|one| !mentions(sentence, one).is_empty());
        }
        if !is_picked && is_said(text) && (self.claim.kind == ValueKind::Parts) {
            return self.row_named() == Some(true) || self.is_extreme_date(most);
        }
        true
    }

    /// Whether a date is the first of its column, or the last.
    fn is_extreme_date(&self, last: bool) -> bool {
        let own = dates(self.place.found).first().map(|(_, date)| *date);
        let Some(item) = self.item else {
            return false;
        };
        let all = siblings(item, self.items).into_iter();
        let all: Vec<_> = all
            .flat_map(|one| dates(one.number))
            .map(|(_, date)| date)
            .collect();
        let extreme = if last {
            all.iter().max()
        } else {
            all.iter().min()
        };
        all.len() > 1 && own.as_ref() == extreme
    }

    /// Whether the answer names the row of the value; `None` if it names none, or the row has no words.
    fn row_named(&self) -> Option<bool> {
        let item = self.item?;
        let named = siblings(item, self.items);
        let is_common =
            |label: &String| named.len() > 1 && named.iter().all(|one| one.labels.contains(label));
        let columns: Vec<String> = self.made.about.iter().flat_map(|one| labels(one)).collect();
        let own = item
            .labels
            .iter()
            .filter(|label| !is_common(label) && !columns.contains(label));
        let before = &self.claim.answer
            [..offset(self.claim.answer, self.claim.sentence) + self.claim.sentence.len()];
        let has = |label: &String| {
            !mentions(self.claim.sentence, label).is_empty()
                || !mentions(before, label).is_empty()
                || dates(before)
                    .iter()
                    .any(|(_, date)| super::output::date_label(*date) == *label)
                || month_of(label)
                    .is_some_and(|month| !mentions(self.claim.sentence, month).is_empty())
        };
        let own: Vec<&String> = own.collect();
        (!own.is_empty()).then(|| own.into_iter().any(has))
    }

    /// The row is the one that the answer speaks of, and so are the conditions.
    fn is_row(&self, rows: &BTreeSet<String>, known: &str) -> bool {
        let (claim, made) = (self.claim, self.made);
        let at = offset(claim.answer, claim.sentence) + claim.sentence.len();
        let before = &claim.answer[..at];
        let spoken = concepts(before);
        let limits: Vec<&String> = made
            .limits
            .iter()
            .filter(|one| *one != "not" && !one.is_empty())
            .collect();
        let asked = concepts(known);
        let is_met = |limit: &&String| {
            let is_number = limit.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            if is_number {
                let numbers = super::super::number::numbers(before).into_iter();
                numbers
                    .chain(super::super::number::numbers(known))
                    .any(|one| super::output::same_number(one, limit) && one != claim.value)
            } else {
                speaks_of(before, &spoken, limit)
                    || speaks_of(known, &asked, limit)
                    || self.item.is_some_and(|item| {
                        item.labels
                            .iter()
                            .any(|one| limit.to_lowercase().contains(one))
                    })
            }
        };
        let named = self.row_named();
        let is_named = self.computed.is_row && (named == Some(true) || self.is_extreme_row());
        // Who names the row need not repeat the condition.
        if !is_named && !limits.is_empty() && !limits.iter().any(is_met) {
            return false;
        }
        if self.computed.is_row {
            match named {
                Some(true) => {}
                Some(false) => return self.is_extreme_row(),
                None => return self.is_keyed() || self.is_extreme_row(),
            }
        } else {
            // A value of all rows is not that of the one that the answer names.
            let start = offset(claim.answer, claim.clause);
            let ahead = &claim.answer[start..offset(claim.answer, claim.value).max(start)];
            let own = self.named();
            let is_own = |label: &String| {
                own.contains(label)
                    || limits.iter().any(|limit| labels(limit).contains(label))
                    || made.by.iter().any(|one| labels(one).contains(label))
                    || self.place.line.to_lowercase().contains(label.as_str())
            };
            if rows
                .iter()
                .any(|label| !is_own(label) && !mentions(ahead, label).is_empty())
            {
                return false;
            }
        }
        true
    }

    /// "The highest is 80", and no other row has more.
    fn is_extreme_row(&self) -> bool {
        let Some(item) = self.item else {
            return false;
        };
        let text = &self.text;
        let (most, least) = (says(text, &MOST), says(text, &LEAST));
        let all = siblings(item, self.items);
        (most || least || is_superlative(text))
            && [most || !least, !least]
                .iter()
                .any(|largest| is_extreme(item, &all, *largest) == Some(true))
    }

    /// A row without words has a number or a date in front: "the twelfth".
    fn is_keyed(&self) -> bool {
        let line = self.place.line;
        let sentence = self.claim.sentence;
        if let Some(part) = parts_of(line).first() {
            let is_month = |month: &str| {
                let year = part.split('-').next().unwrap_or_default();
                !mentions(sentence, month).is_empty() && self.claim.answer.contains(year)
            };
            return sentence.contains(part)
                || month_of(part).is_some_and(is_month)
                || dates(line)
                    .iter()
                    .any(|(_, date)| dates(sentence).iter().any(|(_, other)| other == date));
        }
        let first = super::super::number::numbers(line).into_iter().next();
        let Some(first) = first.filter(|one| *one != self.place.found) else {
            return false;
        };
        let ordinal = first
            .parse::<usize>()
            .ok()
            .and_then(|at| ORDINALS.get(at.checked_sub(1)?));
        ordinal.is_some_and(|word| !mentions(sentence, word).is_empty())
            || super::super::number::numbers(sentence)
                .iter()
                .any(|one| *one != self.claim.value && super::output::same_number(one, first))
    }

    /// The column or the name is what the answer speaks of.
    fn is_subject(&self) -> bool {
        let made = self.made;
        let spoken = concepts(&self.text);
        let is_about = |made: &Made, text: &str, spoken: &[usize]| {
            made.about.iter().any(|one| speaks_of(text, spoken, one))
        };
        let own = is_about(made, &self.text, &spoken);
        if own {
            return true;
        }
        // The words right after it, or the unit of the column.
        let is_label = |label: &String| !mentions(self.claim.sentence, label).is_empty();
        let item = self.item.filter(|_| !self.computed.is_row);
        if item.is_some_and(|item| item.labels.iter().any(is_label)) {
            return true;
        }
        let is_unit = self
            .said_unit()
            .is_some_and(|unit| made.units.contains(&unit));
        if is_unit || self.is_unit_of_line(&spoken) {
            return true;
        }
        if self.claim.kind == ValueKind::Parts {
            // A date is not called by its column.
            return true;
        }
        let said = |one: &Made| {
            one.has(Measure::Mean) && says(self.claim.sentence, &MEAN)
                || one.has(Measure::Ratio) && (self.is_percentage() || says(&self.text, &MEAN))
                || one.has(Measure::Median) && says(&self.text, &MEDIAN)
                || one.has(Measure::Sum) && says(&self.text, &TOTAL)
                || matches!(one.outer(), Some(Measure::Count | Measure::Distinct))
                    && self.counted().is_some()
        };
        let numeric = self.computed.others.iter();
        let others: Vec<&Made> = numeric
            .filter(|one| !one.about.is_empty() || !one.measures.is_empty())
            .collect();
        if said(made) && !others.iter().any(|one| said(one)) {
            return true;
        }
        if others.iter().any(|one| is_about(one, &self.text, &spoken)) {
            return false;
        }
        let sentence = concepts(self.claim.sentence);
        if is_about(made, self.claim.sentence, &sentence) {
            return true;
        }
        // What it is by other words must not be something else.
        let mut is: BTreeSet<usize> = made.about.iter().flat_map(|one| concepts(one)).collect();
        for words in [&made.limits, made.picked.as_ref().unwrap_or(&made.by)] {
            is.extend(words.iter().flat_map(|one| concepts(one)));
        }
        let is_difference = made.has(Measure::Difference);
        if !is_difference
            && !is.is_empty()
            && !spoken.is_empty()
            && !spoken.iter().any(|one| is.contains(one))
        {
            return false;
        }
        others.is_empty()
    }

    /// Whether the output has words after the number that the answer has too.
    fn is_unit_of_line(&self, spoken: &[usize]) -> bool {
        let line = self.place.line;
        let Some(after) = line.get(offset(line, self.place.found) + self.place.found.len()..)
        else {
            return false;
        };
        let to = after.find([',', ';', ')', '\'']).unwrap_or(after.len());
        let after = &after[..to];
        let unit: String = after
            .trim_start()
            .chars()
            .take_while(|c| !c.is_ascii_digit())
            .collect();
        self.is_number() && concepts(&unit).iter().any(|one| spoken.contains(one))
    }

    /// The unit that the answer gives the value.
    fn said_unit(&self) -> Option<units::Unit> {
        let claim = self.claim;
        let at = offset(claim.answer, claim.value);
        let (before, after) = (&claim.answer[..at], &claim.answer[at + claim.value.len()..]);
        let before = &before[before.floor_char_boundary(before.len().saturating_sub(8))..];
        units::beside(before, after)
    }

    /// The unit of the answer is that of the column.
    fn is_unit(&self) -> bool {
        let (claim, made) = (self.claim, self.made);
        if !self.is_number() {
            return true;
        }
        let spoken = concepts(&self.text);
        // A year is not written with a separator.
        if claim.value.contains(',')
            && made
                .about
                .iter()
                .any(|one| matches!(one.as_str(), "year" | "founded" | "年份"))
        {
            return false;
        }
        // "(thousands)" in the head of a table.
        let scales = ["thousand", "million", "billion", "万", "亿", "千"];
        let line = self.place.line.to_lowercase();
        if let ValueKind::Number { shift: 0 } = claim.kind
            && says(claim.intro, &scales)
            && !scales.iter().any(|one| line.contains(one))
        {
            return false;
        }
        let Some(said) = self.said_unit() else {
            return true;
        };
        let line = self.place.line;
        let at = offset(line, self.place.found);
        let (before, after) = (
            line.get(..at).unwrap_or_default(),
            line.get(at + self.place.found.len()..),
        );
        if let Some(unit) = units::beside(before, after.unwrap_or_default()) {
            return !units::differ(said, unit);
        }
        if made.units.is_empty() || made.units.contains(&said) {
            return true;
        }
        // The unit of one thing; with several, nothing is sure.
        made.units
            .iter()
            .any(|unit| !units::differ(said, *unit) && units::is_same_kind(said, *unit))
            || made
                .about
                .iter()
                .any(|one| units::of_name(one).is_none() && speaks_of(&self.text, &spoken, one))
                && !made.units.iter().any(|unit| units::differ(said, *unit))
    }

    /// The words after a value that counts things.
    fn counted(&self) -> Option<String> {
        let claim = self.claim;
        let ValueKind::Number { shift: 0 } = claim.kind else {
            return None;
        };
        if claim.value.contains('.') {
            return None;
        }
        let after = &claim.answer[offset(claim.answer, claim.value) + claim.value.len()..];
        let after = after.trim_start_matches('*');
        let is_chinese = after
            .trim_start()
            .starts_with(|c: char| !c.is_ascii() && c.is_alphabetic());
        let rest = after.strip_prefix(' ').or(is_chinese.then_some(after))?;
        let end = rest
            .find(['.', ',', ';', '(', '，', '。', '、', '（', '\n', '|'])
            .unwrap_or(rest.len());
        let words: Vec<&str> = rest[..end].split_whitespace().take(3).collect();
        let noun = words.join(" ");
        let is_word = noun.starts_with(|c: char| c.is_alphabetic());
        let is_unit = units::beside("", &format!(" {rest}")).is_some();
        (is_word && !is_unit).then_some(noun)
    }

    /// A number of things is one that was counted, or a quantity of the data.
    fn is_count(&self, known: &str) -> bool {
        let Some(noun) = self.counted() else {
            return true;
        };
        let made = self.made;
        let verbs = [
            "in", "of", "on", "at", "for", "from", "to", "and", "is", "was", "were", "are", "a",
            "per", "the", "than", "by", "with", "over",
        ];
        if noun
            .split(' ')
            .next()
            .is_some_and(|first| verbs.contains(&first))
        {
            return true;
        }
        let spoken = concepts(&noun);
        let is_noun = |one: &str| speaks_of(&noun, &spoken, one);
        let named = self.named();
        let is_named =
            made.about.iter().any(|one| is_noun(one)) || named.iter().any(|one| is_noun(one));
        let counts = made.has(Measure::Count) || made.has(Measure::Distinct);
        if !counts {
            // A measure word says nothing of what it counts.
            let is_measure_word = !noun.is_ascii() && noun.chars().count() == 1;
            let is_sum = made.has(Measure::Sum) && spoken.is_empty();
            return is_named || is_measure_word || is_sum || self.is_unit_of_line(&spoken);
        }
        // How many satisfy a condition that nobody computed.
        let clause = self.claim.clause;
        if made.limits.is_empty()
            && says(clause, &COMPARES)
            && super::super::number::numbers(clause).len() > 1
        {
            return false;
        }
        let words = labels(&noun);
        let is_known =
            |word: &String| !mentions(known, word).is_empty() || mentions_part(known, word);
        is_named
            || !made.limits.is_empty()
            || made.by.iter().any(|one| is_noun(one))
            || words.iter().any(is_known)
            || says(&noun, &ROWS)
            || self.row_named() == Some(true)
    }
}

/// File names run words together.
fn mentions_part(known: &str, word: &str) -> bool {
    word.chars().count() > 3 && known.to_lowercase().contains(word)
        || !word.is_ascii()
            && word
                .chars()
                .any(|c| !c.is_ascii() && known.contains(c) && c.is_alphabetic())
}

/// A word such as "strongest".
fn is_superlative(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic());
    let mut words = words.map(str::to_lowercase);
    words.any(|word| {
        word.len() > 5 && word.ends_with("est") && !NO_SUPERLATIVES.contains(&word.as_str())
    }) || says(text, &RANKS)
        || text.contains('最')
}

/// The month of a label such as `2024-02`.
fn month_of(label: &str) -> Option<&'static str> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let (year, month) = label.split_once('-')?;
    let month: usize = month.parse().ok().filter(|_| year.len() == 4)?;
    MONTHS.get(month.checked_sub(1)?).copied()
}
