//! A value that the code cites: the label is what the model says of it before it answers.
//!
//! A label is a claim like the answer. It must not contradict the code, and the answer must say the same. Only then do
//! its words stand for the names of columns, which an answer may call anything.

use std::collections::BTreeSet;

use super::super::derive::Measure;
use super::super::output::same_number;
use super::{
    Compared, LEAST, MEAN, MEDIAN, MOST, TOTAL, concepts, labels, mentions, says, speaks_of,
};
use crate::run::number::numbers;

const SHARES: [&str; 8] = [
    "share",
    "percent",
    "percentage",
    "proportion",
    "ratio",
    "占比",
    "比例",
    "率",
];
const COUNTS: [&str; 6] = ["number", "count", "many", "数量", "个数", "人数"];
/// Words that say how a value was computed, or nothing.
const OTHERS: [&str; 22] = [
    "all",
    "from",
    "who",
    "that",
    "which",
    "than",
    "this",
    "between",
    "among",
    "as",
    "its",
    "their",
    "per",
    "each",
    "an",
    "a",
    "over",
    "under",
    "difference",
    "more",
    "less",
    "value",
];

impl Compared<'_> {
    /// Whether the label agrees with the code, and the answer with the label. `all` are the labels of the run.
    pub(super) fn is_as_cited(
        &self,
        label: &str,
        all: &[String],
        rows: &BTreeSet<String>,
        known: &str,
    ) -> bool {
        self.is_measure_of(label)
            && self.has_limits(label, known)
            && self.says(label, all, rows, known)
    }

    /// No average is cited as a total.
    fn is_measure_of(&self, label: &str) -> bool {
        let made = self.made;
        let Some(outer) = made.outer().filter(|outer| *outer != Measure::Other) else {
            return true;
        };
        let is = |measures: &[Measure]| measures.contains(&outer);
        let has = |measures: &[Measure]| measures.iter().any(|one| made.has(*one));
        let (most, least) = (says(label, &MOST), says(label, &LEAST));
        let is_other = says(label, &["median", "中位数"]) && !has(&[Measure::Median])
            || says(label, &MEAN) && !has(&[Measure::Mean, Measure::Ratio])
            || says(label, &TOTAL)
                && is(&[Measure::Mean, Measure::Median, Measure::Max, Measure::Min, Measure::Spread])
                && !has(&[Measure::Sum, Measure::Count, Measure::Both])
            || says(label, &SHARES)
                && !has(&[Measure::Ratio, Measure::Mean, Measure::Difference])
            || says(label, &COUNTS)
                && is(&[Measure::Mean, Measure::Median, Measure::Spread, Measure::Ratio])
            || most && !least && outer == Measure::Min && made.picked.is_none()
            || least && !most && outer == Measure::Max && made.picked.is_none()
            // What is neither of them, and is said to be nothing else.
            || outer == Measure::Mean && !says(label, &MEAN) && !says(label, &SHARES)
            || outer == Measure::Median && !says(label, &MEDIAN);
        !is_other
    }

    /// Its rows are those that the label or the answer names.
    fn has_limits(&self, label: &str, known: &str) -> bool {
        let said = format!("{label} {} {}", self.claim.intro, self.claim.sentence);
        let spoken = concepts(&said);
        let in_numbers = |limit: &str| {
            let mut all = numbers(&said).into_iter().chain(numbers(known));
            all.any(|one| same_number(one, limit) && one != self.claim.value)
        };
        self.made.limits.iter().all(|limit| {
            let is_number = limit.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            if limit == "not" || is_number && limit.len() < 2 {
                return true;
            }
            if is_number {
                in_numbers(limit)
            } else {
                speaks_of(&said, &spoken, limit)
            }
        })
    }

    /// The answer says what the label says, and speaks of no other citation.
    fn says(&self, label: &str, all: &[String], rows: &BTreeSet<String>, known: &str) -> bool {
        let claim = self.claim;
        let at = super::offset(claim.answer, claim.sentence) + claim.sentence.len();
        let before = &claim.answer[..at];
        let has_number = |one: &&str| {
            let mut all = numbers(before).into_iter().chain(numbers(known));
            all.any(|other| same_number(one, other))
        };
        if !numbers(label).iter().all(has_number) {
            return false;
        }
        let own = words_of(label);
        let limits: Vec<String> = self
            .made
            .limits
            .iter()
            .flat_map(|one| labels(one))
            .collect();
        let is_missing = |word: &String| limits.contains(word) && mentions(before, word).is_empty();
        if own.iter().any(is_missing) {
            return false;
        }
        let is_own = |word: &String| {
            own.contains(word) || limits.contains(word) || !mentions(label, word).is_empty()
        };
        if rows
            .iter()
            .any(|word| !is_own(word) && !mentions(claim.clause, word).is_empty())
        {
            return false;
        }
        let text = format!("{} {}", claim.intro, claim.clause);
        let (about, spoken) = (concepts(label), concepts(&text));
        let matched = |label: &str| {
            let words = words_of(label);
            let said = words.iter().filter(|word| speaks_of(&text, &spoken, word));
            said.count()
        };
        let here = matched(label);
        if all
            .iter()
            .any(|other| other != label && matched(other) > here)
        {
            return false;
        }
        let spoken_before = concepts(before);
        let is_said = |word: &&String| speaks_of(before, &spoken_before, word);
        let earlier = own.iter().filter(is_said).count();
        if earlier == own.len() {
            return true;
        }
        let is_other = !about.is_empty()
            && !spoken.is_empty()
            && !spoken.iter().any(|one| about.contains(one));
        !is_other && here > 0 && 2 * earlier >= own.len()
    }
}

/// The words of a label that name something.
fn words_of(label: &str) -> Vec<String> {
    let mut words = labels(label);
    let lists: [&[&str]; 8] = [
        &MEAN, &MEDIAN, &TOTAL, &MOST, &LEAST, &SHARES, &COUNTS, &OTHERS,
    ];
    words.retain(|word| !lists.iter().any(|list| list.contains(&word.as_str())));
    words
}
