//! Evidence: where the values of an answer come from.

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod agreement;
mod binding;
mod claim;
mod concepts;
mod dates;
mod derive;
mod names;
mod output;
#[cfg(test)]
mod tests;
mod units;
mod values;
mod words;

use super::constants::constants;
use super::number::Decimal;
use binding::Reading;
use claim::Claim;
use values::{Value, ValueKind, values};

pub(super) use values::{file_names, quoted};

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
        /// Why the output shows the same digits, but not what the answer says; left out if nothing speaks against it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weak: Option<Weakness>,
        /// How the code computed it, if that is what the answer says of it; left out if the output only has the digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        derived: Option<Derivation>,
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

/// How the code of cells computed a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Derivation {
    /// The expression that was shown.
    pub expression: String,
    /// The names that it was computed from, directly or not, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<DerivationInput>,
    /// The files that these were read from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the code says that it is, by `cite`; left out if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A name that a value was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DerivationInput {
    /// The name.
    pub name: String,
    /// The cell that wrote it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// The statement that wrote it.
    pub code: String,
}

impl Derivation {
    fn new(computed: &derive::Place) -> Self {
        let inputs = computed.made.inputs.iter().take(MOST_INPUTS);
        Self {
            expression: computed.code.clone(),
            inputs: inputs
                .map(|(name, origin)| DerivationInput {
                    name: name.clone(),
                    cell: origin.cell,
                    code: origin.code.clone(),
                })
                .collect(),
            files: computed
                .made
                .files
                .iter()
                .take(MOST_INPUTS)
                .cloned()
                .collect(),
            label: computed.label.clone(),
        }
    }

    /// What computed it, in a part of a line: for a mere name, the statement that wrote it.
    fn summary(&self) -> String {
        let wrote = self.inputs.iter().find(|one| one.name == self.expression);
        let code = wrote.map_or(&self.expression, |one| &one.code);
        let mut words = code.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((at, _)) = words.char_indices().nth(SUMMARY) {
            words.truncate(at);
            words.push('…');
        }
        words
    }
}

/// What speaks against the place where a value was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weakness {
    /// It belongs to another row or name than the one in the answer.
    OtherRow,
    /// It stands in another column.
    OtherColumn,
    /// It is another measure, such as a mean for a median.
    OtherMeasure,
    /// The output has it in another unit.
    OtherUnit,
    /// A later cell changed the data that it was computed from.
    Outdated,
    /// Its digits are those of something else: a row number, a part of a date, an error.
    Incidental,
}

impl Weakness {
    fn text(self, language: Language) -> &'static str {
        let texts = &language.texts().run;
        match self {
            Self::OtherRow => texts.weak_other_row,
            Self::OtherColumn => texts.weak_other_column,
            Self::OtherMeasure => texts.weak_other_measure,
            Self::OtherUnit => texts.weak_other_unit,
            Self::Outdated => texts.weak_outdated,
            Self::Incidental => texts.weak_incidental,
        }
    }
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
    /// Whether something printed the value as the answer says it, or it was given.
    pub fn is_strong(&self) -> bool {
        matches!(
            self.seen,
            Some(Seen::Task | Seen::File | Seen::Output { weak: None, .. })
        )
    }

    /// Whether the code is known that computed what the answer says, or the value was given.
    pub fn is_derived(&self) -> bool {
        let is_known = |seen: &Seen| match seen {
            Seen::Task | Seen::File => true,
            Seen::Output { derived, .. } => derived.is_some(),
            Seen::Code { .. } => false,
        };
        self.seen.as_ref().is_some_and(is_known)
    }

    /// It in one line.
    pub fn text(&self, language: Language) -> String {
        let (texts, value) = (&language.texts().run, &self.value);
        match &self.seen {
            Some(Seen::Output {
                step,
                cell,
                rounded,
                weak,
                derived,
                ..
            }) => {
                let rounded = if *rounded { texts.rounded } else { "" };
                let weak = weak.map_or("", |weak| weak.text(language));
                let mut how = format!("{rounded}{weak}");
                match (cell, derived) {
                    (Some(cell), Some(derived)) => {
                        if !derived.files.is_empty() {
                            how += &texts.from_files(&derived.files.join(", "));
                        }
                        texts.computed_in_cell(value, *cell, &derived.summary(), &how)
                    }
                    (Some(cell), None) => texts.printed_by_cell(value, *cell, &how),
                    (None, _) => texts.result_of_step(value, *step, &how),
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

/// The most values that are searched, the most places of one output that are judged, and the longest line that is quoted.
const MOST: usize = 50;
const MOST_PLACES: usize = 8;
const LINE: usize = 160;
/// The longest code in the line of a derived value.
const SUMMARY: usize = 80;
/// The most names and files of a derivation.
const MOST_INPUTS: usize = 12;

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
    let plain = without_markers(answer);
    let all = values(&plain);
    let reading = Reading::new(sources.outputs);
    for value in &all {
        if found.len() >= MOST || found.iter().any(|other| other.value == value.text) {
            continue;
        }
        let claim = Claim::new(&plain, value, &all);
        found.push(Evidence {
            value: value.text.to_owned(),
            seen: value.seen_in(sources, &claim, &reading),
        });
    }
    found
}

/// The line of an output of this code that has a value of an answer.
pub(crate) fn line_with<'t>(
    answer: &str,
    value: &str,
    output: &'t str,
    code: &str,
) -> Option<&'t str> {
    let plain = without_markers(answer);
    let value = values(&plain).into_iter().find(|one| one.text == value)?;
    value
        .places(output, code, true)
        .first()
        .map(|place| place.line)
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

impl Value<'_> {
    fn seen_in(
        &self,
        sources: &Sources<'_>,
        claim: &Claim<'_>,
        reading: &Reading<'_>,
    ) -> Option<Seen> {
        if self.kind == ValueKind::File && (sources.exists)(self.text) {
            return Some(Seen::File);
        }
        let (mut written, mut weak, mut printed, mut computed) = (None, None, None, None);
        for (index, source) in sources.outputs.iter().enumerate().rev() {
            let places = self.places(&source.text, &source.code, claim.falls());
            if places.is_empty() {
                continue;
            }
            if self.is_written_in(source, sources.has_data) {
                let (step, cell) = (source.step, source.cell);
                written = written.or(Some(Seen::Code { step, cell }));
                continue;
            }
            for place in places.into_iter().take(MOST_PLACES) {
                let weakness = claim.weakness(&place, reading, index);
                let derived = match weakness {
                    None => reading.derivation(claim, &place, index, sources.task),
                    Some(_) => None,
                };
                let mut line: String = place.line.trim().chars().take(LINE).collect();
                line.truncate(line.trim_end().len());
                let seen = Seen::Output {
                    step: source.step,
                    cell: source.cell,
                    line,
                    rounded: place.rounded,
                    weak: weakness,
                    derived: derived.clone(),
                };
                match (weakness, derived) {
                    (None, Some(derived))
                        if derived.label.is_some() || reading.cited().is_empty() =>
                    {
                        return Some(seen);
                    }
                    (None, Some(_)) => computed = computed.or(Some(seen)),
                    (None, None) => printed = printed.or(Some(seen)),
                    (Some(_), _) => weak = weak.or(Some(seen)),
                }
            }
        }
        if computed.is_some() || printed.is_some() {
            return computed.or(printed);
        }
        match self.kind {
            // What the task names need not exist.
            ValueKind::File => weak,
            _ if !self.places(sources.task, "%", false).is_empty() => Some(Seen::Task),
            _ => weak.or(written),
        }
    }

    /// Whether a source shows it only because its code says it.
    fn is_written_in(&self, source: &Source, has_data: bool) -> bool {
        match self.kind {
            ValueKind::Text | ValueKind::Parts => false,
            ValueKind::File => source.code.contains(self.text),
            ValueKind::Number { .. } => {
                let wanted = Decimal::parse(self.text);
                let is_same = |constant: &String| Decimal::parse(constant) == wanted;
                // Small numbers are in any code.
                has_data && self.text.len() > 1 && constants(&source.code).iter().any(is_same)
            }
        }
    }
}
