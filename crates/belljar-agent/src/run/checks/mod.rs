//! Checks of a whole answer, before it is taken: cheap, deterministic, and without a model.
//!
//! Each looks at the task, the answer, the code that ran and what it printed. None proves an answer
//! right. What one finds goes back to the model once; then the answer is taken as unverified. A check
//! stays silent where it can't tell.

mod asked;
mod words;
mod work;

use super::doubt::{Computation, Doubt};
use super::event::TaskFile;
use super::evidence::{Evidence, Seen, Source, file_names, quoted};
use super::number::numbers;
use asked::{Asked, asked, declines};
use words::{
    columns, differ, distinct_words, has_word, is_cjk, row_values, unit_of_column, unit_of_task,
    word_columns,
};
use work::{CellWork, Work, work_of};

/// What the checks look at.
pub(super) struct Answered<'a> {
    pub(super) task: &'a str,
    pub(super) files: &'a [TaskFile],
    pub(super) answer: &'a str,
    pub(super) evidence: &'a [Evidence],
    pub(super) sources: &'a [Source],
    /// Whether a file of this name exists, or was made.
    pub(super) exists: &'a dyn Fn(&str) -> bool,
    /// Whether the session has values that this run did not load, or tools that compute.
    pub(super) has_more: bool,
}

/// A check, and whether it also judges an answer that says that there is none.
type Check = (fn(&Looked<'_>) -> Vec<Doubt>, OfRefusals);

#[derive(Clone, Copy, PartialEq, Eq)]
enum OfRefusals {
    Judged,
    Skipped,
}

const CHECKS: [Check; 8] = [
    (data_is_read, OfRefusals::Judged),
    (files_exist, OfRefusals::Skipped),
    (question_is_answered, OfRefusals::Skipped),
    (values_are_computed, OfRefusals::Skipped),
    (columns_exist, OfRefusals::Skipped),
    (denied_columns_are_missing, OfRefusals::Judged),
    (terms_are_used, OfRefusals::Skipped),
    (units_are_converted, OfRefusals::Skipped),
];

/// What is doubtful about an answer as a whole.
pub(super) fn doubts(answered: &Answered<'_>) -> Vec<Doubt> {
    let looked = Looked::new(answered);
    let refuses = declines(answered.answer);
    let checks = CHECKS.iter();
    let checks = checks.filter(|(_, refusals)| !refuses || *refusals == OfRefusals::Judged);
    checks.flat_map(|(check, _)| check(&looked)).collect()
}

/// Whether an answer says that the data does not have what was asked for, after a look at it.
pub(super) fn is_founded_refusal(answer: &str, sources: &[Source]) -> bool {
    let looked = |source: &Source| !source.failed && !source.text.trim().is_empty();
    declines(answer) && sources.iter().any(looked)
}

/// What the checks look at, read once.
struct Looked<'a> {
    given: &'a Answered<'a>,
    columns: Vec<&'a str>,
    asked: Asked,
    /// What each source computes.
    work: Vec<CellWork>,
    /// The places of sources that show numbers of the answer; all, if none does.
    showing: Vec<usize>,
    /// Lines of outputs that have numbers of the answer.
    lines: Vec<&'a str>,
}

impl<'a> Looked<'a> {
    fn new(given: &'a Answered<'a>) -> Self {
        let columns: Vec<&str> = given.files.iter().flat_map(columns).collect();
        let mut work = work_of(given.sources.iter().map(|source| source.code.as_str()));
        for (work, source) in work.iter_mut().zip(given.sources) {
            if source.code.is_empty() {
                // A tool: what it computes is not known.
                (work.printed, work.all) = (Work::ALL, Work::ALL);
            }
        }
        let (mut showing, mut lines) = (Vec::new(), Vec::new());
        for found in given.evidence {
            if let Some(Seen::Output {
                step, cell, line, ..
            }) = &found.seen
            {
                let same = |source: &Source| source.step == *step && source.cell == *cell;
                showing.extend(given.sources.iter().rposition(same));
                lines.push(line.as_str());
            }
        }
        if showing.is_empty() {
            showing = (0..given.sources.len()).collect();
        }
        Self {
            given,
            asked: asked(given.task, &columns),
            columns,
            work,
            showing,
            lines,
        }
    }

    fn code_has(&self, term: &str) -> bool {
        let term = term.to_lowercase();
        let mut ran = self.given.sources.iter().filter(|source| !source.failed);
        ran.any(|source| source.code.is_empty() || source.code.to_lowercase().contains(&term))
    }

    /// Computations of the outputs that show the answer; of all code, if it is not a value.
    fn shown(&self) -> Work {
        if self.lines.is_empty() {
            return self.all();
        }
        let shown = self.showing.iter().map(|place| self.work[*place].printed);
        shown.fold(Work::default(), |all, one| all | one)
    }

    fn all(&self) -> Work {
        let all = self.work.iter().map(|work| work.all);
        all.fold(Work::default(), |all, one| all | one)
    }
}

/// Some code read the files of the task, if it asks a question or the answer has values.
fn data_is_read(looked: &Looked<'_>) -> Vec<Doubt> {
    const LISTS: [&str; 5] = ["glob", "listdir", "iterdir", "scandir", "walk("];
    let given = looked.given;
    let Asked { name, number, .. } = looked.asked;
    let is_question =
        name || number || !looked.asked.computations.is_empty() || given.task.contains(['?', '？']);
    if !is_question && given.evidence.is_empty() && !declines(given.answer) {
        return Vec::new();
    }
    let reads = |source: &Source| {
        let code = source.code.as_str();
        let names = |file: &TaskFile| {
            let stem = file
                .name
                .rsplit_once('.')
                .map_or(&*file.name, |(stem, _)| stem);
            code.contains(stem)
        };
        code.is_empty() || given.files.iter().any(names) || LISTS.iter().any(|l| code.contains(l))
    };
    let unread = !given.files.is_empty() && !given.has_more && !given.sources.is_empty();
    if unread && !given.sources.iter().any(reads) {
        return vec![Doubt::DataNotRead];
    }
    Vec::new()
}

/// Files that the task requests were made, and files that the answer names exist.
fn files_exist(looked: &Looked<'_>) -> Vec<Doubt> {
    const MAKES: [&str; 10] = [
        "save", "write", "create", "export", "store", "produce", "保存", "写入", "生成", "导出",
    ];
    let task = looked.given.task.to_lowercase();
    let requested = if MAKES.iter().any(|word| task.contains(word)) {
        file_names(looked.given.task)
    } else {
        Vec::new()
    };
    let named = looked.given.evidence.iter();
    let named = named.filter(|found| found.is_file() && found.seen.is_none());
    let mut missing: Vec<&str> = requested
        .into_iter()
        .filter(|name| !(looked.given.exists)(name))
        .chain(named.map(|found| found.value.as_str()))
        .collect();
    missing.dedup();
    let missing = missing.into_iter().map(|file| Doubt::FileMissing {
        file: file.to_owned(),
    });
    missing.collect()
}

/// Words of outputs that are no data, and words that any answer has.
const NO_NAMES: [&str; 32] = [
    "name", "dtype", "object", "int64", "float64", "length", "index", "none", "true", "false",
    "nan", "the", "is", "of", "and", "has", "with", "in", "for", "to", "a", "an", "by", "at", "on",
    "no", "yes", "it", "are", "was", "total", "sum",
];

/// The answer has a name if the task asks for one, and a number if it asks for one.
fn question_is_answered(looked: &Looked<'_>) -> Vec<Doubt> {
    const IN_WORDS: [&str; 18] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve", "none", "no", "nobody", "nothing", "twice",
    ];
    let answer = looked.given.answer;
    // A number of the task is no result.
    let results = looked.given.evidence.iter().filter(|found| {
        numbers(&found.value) == [found.value.as_str()] && found.seen != Some(Seen::Task)
    });
    let found = results.count();
    let in_words = IN_WORDS.iter().any(|word| has_word(answer, word))
        || answer.contains([
            '零', '一', '二', '两', '三', '四', '五', '六', '七', '八', '九', '十', '没',
        ]);
    let mut doubts = Vec::new();
    let Asked { name, number, .. } = looked.asked;
    // A name may be a number: a year, an order.
    let may_be_number = !looked
        .given
        .files
        .iter()
        .any(|file| asks_for_word(looked.given.task, file));
    let is_number = may_be_number && found > usize::from(number);
    if name && !is_number && !names_something(looked) {
        doubts.push(Doubt::NameOmitted);
    }
    if number && found == 0 && !in_words {
        doubts.push(Doubt::NumberOmitted);
    }
    doubts
}

/// Whether a task asks which value of a column it is, and the column has words.
fn asks_for_word(task: &str, file: &TaskFile) -> bool {
    let task = task.to_lowercase();
    let asks = |column: &str| {
        let column = column.to_lowercase();
        ["which ", "哪个", "哪种", "哪一个"].iter().any(|which| {
            let asked = format!("{which}{column}");
            let end = task.find(&asked).map(|at| &task[at + asked.len()..]);
            // "Which product", and no "which products": those are several.
            end.is_some_and(|end| !end.starts_with(|c: char| c.is_ascii_alphanumeric()))
        })
    };
    word_columns(file).into_iter().any(asks)
}

/// Whether the answer has a word of an output that its code and the columns do not have, or a name
/// that the task offers.
fn names_something(looked: &Looked<'_>) -> bool {
    let given = looked.given;
    let is_name = |word: &str, code: &str| {
        let offered = is_offered(given.task, word);
        word.chars().any(char::is_alphabetic)
            && !NO_NAMES.contains(&word.to_lowercase().as_str())
            && !looked.columns.contains(&word)
            && has_word(given.answer, word)
            && (offered || !code.contains(word))
    };
    let outputs = given.sources.iter().any(|source| {
        let mut words = distinct_words(&source.text).into_iter();
        words.any(|word| is_name(word, &source.code))
    });
    outputs
        || given
            .files
            .iter()
            .flat_map(row_values)
            .any(|value| is_name(value, ""))
}

/// Whether a task has a word as a name: by how it is spelled, or as a quoted value, which is not a key of JSON.
fn is_offered(task: &str, word: &str) -> bool {
    let is_value = |(at, text): &(usize, &str)| {
        let after =
            task[at + text.len()..].trim_start_matches(|c: char| !c.is_alphanumeric() && c != ':');
        *text == word && !after.starts_with(':')
    };
    let is_spelled = |c: char| c.is_uppercase() || c.is_numeric() || is_cjk(c);
    word.contains(is_spelled) && has_word(task, word) || quoted(task).iter().any(is_value)
}

/// A total, a mean, a median, a count of different values was computed where the answer was printed.
fn values_are_computed(looked: &Looked<'_>) -> Vec<Doubt> {
    let given = looked.given;
    if given.has_more || given.sources.is_empty() {
        return Vec::new();
    }
    let (shown, all) = (looked.shown(), looked.all());
    // Where the values are in the task, a sum may be written out.
    let written_out = given.files.is_empty() && shown.has(Work::ARITHMETIC);
    let mut missing: Vec<Computation> = Vec::new();
    for computation in &looked.asked.computations {
        let is_done = match computation {
            Computation::Total => shown.has(Work::SUM) || written_out,
            Computation::Average => {
                shown.has(Work::MEAN) || shown.has_all(Work::SUM | Work::COUNT) || written_out
            }
            Computation::Median => shown.has(Work::MEDIAN) || written_out,
            Computation::Distinct => shown.has(Work::DISTINCT) || given.files.is_empty(),
            // A person can read them off a table: only the contrary is a doubt.
            Computation::Largest => all.has(Work::MAX) || !all.has(Work::MIN),
            Computation::Smallest => all.has(Work::MIN) || !all.has(Work::MAX),
        };
        if !is_done && !missing.contains(computation) {
            missing.push(*computation);
        }
    }
    let missing = missing.into_iter();
    let doubts = missing.map(|computation| Doubt::NotComputed { computation });
    doubts.collect()
}

/// Columns that the task names exist.
fn columns_exist(looked: &Looked<'_>) -> Vec<Doubt> {
    let given = looked.given;
    if given.files.is_empty() || given.has_more {
        return Vec::new();
    }
    let in_data = |column: &str| {
        let head = |file: &TaskFile| has_word(&file.head, column);
        let output = |source: &Source| {
            !source.failed && has_word(&source.text, column) && !source.code.contains(column)
        };
        // The beginning of a file may have ended within its first line.
        let may_follow =
            |file: &TaskFile| file.bytes > file.head.len() as u64 && file.head.lines().count() < 2;
        given.files.iter().any(head)
            || given.sources.iter().any(output)
            || given.files.iter().any(may_follow) && looked.code_has(column)
    };
    let missing = named_columns(given.task).into_iter();
    let missing = missing.filter(|column| !in_data(column));
    let doubts = missing.map(|column| Doubt::ColumnMissing {
        column: column.to_owned(),
    });
    doubts.collect()
}

/// Columns that a text names as such, unless it wants new ones.
fn named_columns(text: &str) -> Vec<&str> {
    const NEW: [&str; 8] = [
        "add", "new", "create", "insert", "rename", "append", "新", "添加",
    ];
    const NO_NAMES: [&str; 22] = [
        "the", "a", "this", "that", "each", "every", "which", "what", "first", "last", "is", "in",
        "of", "names", "headers", "and", "with", "for", "no", "second", "third", "named",
    ];
    if NEW.iter().any(|word| has_word(text, word)) {
        return Vec::new();
    }
    let mut found: Vec<&str> = Vec::new();
    for (at, name) in quoted(text) {
        let before = text[..at].to_lowercase();
        let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        let after = text[at + name.len()..].to_lowercase();
        let after = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let said = ["column", "field", "列", "字段"];
        if said
            .iter()
            .any(|word| before.ends_with(word) || after.starts_with(word))
        {
            found.push(name);
        }
    }
    let ends = |c: char| !(c.is_alphanumeric() || c == '_');
    let words: Vec<&str> = text.split(ends).filter(|word| !word.is_empty()).collect();
    for (place, word) in words.iter().enumerate() {
        if !word.eq_ignore_ascii_case("column") {
            continue;
        }
        let is_name = |name: &&&str| {
            let name = name.to_lowercase();
            !NO_NAMES.contains(&name.as_str()) && !name.chars().all(|c| c.is_ascii_digit())
        };
        // "The column discount"; else "the discount column".
        let next = words.get(place + 1).filter(is_name);
        let before = place.checked_sub(1).and_then(|before| words.get(before));
        let named = match before.filter(is_name) {
            Some(before) if !["in", "by", "a"].contains(before) => Some(before),
            _ => next,
        };
        found.extend(named.copied());
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A column that an answer says is missing is missing.
fn denied_columns_are_missing(looked: &Looked<'_>) -> Vec<Doubt> {
    if !declines(looked.given.answer) {
        return Vec::new();
    }
    let denied = named_columns(looked.given.answer).into_iter();
    let exists = |name: &&str| {
        looked
            .columns
            .iter()
            .any(|column| column.eq_ignore_ascii_case(name))
    };
    let wrong = denied.filter(exists);
    let doubts = wrong.map(|column| Doubt::ColumnExists {
        column: column.to_owned(),
    });
    doubts.collect()
}

/// Values and columns of the data that the task names are used by the code, or stand beside the
/// result.
fn terms_are_used(looked: &Looked<'_>) -> Vec<Doubt> {
    let given = looked.given;
    if given.files.is_empty() || given.has_more || given.sources.is_empty() {
        return Vec::new();
    }
    let task = without_lists(given.task);
    let beside = |term: &str| looked.lines.iter().any(|line| has_word(line, term));
    let mut terms: Vec<&str> = Vec::new();
    let values = given.files.iter().flat_map(row_values);
    let values = values.filter(|value| is_term(value) && has_word(&task, value));
    terms.extend(values.filter(|value| !beside(value)));
    for source in given.sources {
        let words = distinct_words(&source.text).into_iter();
        let words = words.filter(|word| {
            let is_named = word.starts_with(|c: char| c.is_uppercase() || is_cjk(c));
            is_named && is_term(word) && !looked.columns.contains(word) && has_word(&task, word)
        });
        terms.extend(words.filter(|word| !beside(word)));
    }
    let by_position = looked.work.iter().any(|work| work.by_position);
    if !by_position {
        let shown = |column: &&&str| {
            let mut outputs = looked
                .showing
                .iter()
                .map(|place| &given.sources[*place].text);
            outputs.any(|text| has_word(text, column))
        };
        let columns = looked.columns.iter();
        let columns = columns.filter(|column| is_term(column) && has_word(&task, column));
        terms.extend(columns.filter(|column| !shown(column)));
    }
    terms.extend(
        years(looked, &task)
            .into_iter()
            .filter(|year| !beside(year)),
    );
    terms.sort_unstable();
    terms.dedup();
    let ignored = terms.into_iter().filter(|term| !looked.code_has(term));
    let doubts = ignored.map(|term| Doubt::Ignored {
        term: term.to_owned(),
    });
    doubts.collect()
}

/// A word that can be meant as a value: not a number, not a sign, not a word of every text.
fn is_term(word: &str) -> bool {
    let length = word.chars().count();
    let least = if word.chars().any(is_cjk) { 2 } else { 3 };
    length >= least
        && word.chars().any(char::is_alphabetic)
        && !NO_NAMES.contains(&word.to_lowercase().as_str())
}

/// Years of the data that the task names, where the data or the code has others too.
fn years<'t>(looked: &Looked<'_>, task: &'t str) -> Vec<&'t str> {
    fn all(text: &str) -> impl Iterator<Item = &str> {
        let parts = text.split(|c: char| !c.is_ascii_digit());
        parts.filter(|part| part.len() == 4 && (part.starts_with("19") || part.starts_with("20")))
    }
    let heads = looked.given.files.iter().map(|file| file.head.as_str());
    let sources = looked.given.sources.iter();
    let texts = sources.clone().map(|source| source.text.as_str());
    let data: Vec<&str> = heads.chain(texts).flat_map(all).collect();
    let code: Vec<&str> = sources.flat_map(|source| all(&source.code)).collect();
    let named = all(task).filter(|year| {
        let mut years = data.iter().chain(&code);
        data.contains(year) && years.any(|other| other != year)
    });
    named.collect()
}

/// A task without what stands in brackets, where columns are listed.
fn without_lists(task: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in task.chars() {
        match c {
            '(' | '（' | '[' | '{' => depth += 1,
            ')' | '）' | ']' | '}' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

/// Data in another unit than the task asks for is converted.
fn units_are_converted(looked: &Looked<'_>) -> Vec<Doubt> {
    let Some(to) = unit_of_task(looked.given.task) else {
        return Vec::new();
    };
    let used = looked
        .columns
        .iter()
        .filter(|column| looked.code_has(column));
    let mut units = used.filter_map(|column| unit_of_column(column));
    let Some(from) = units.find(|from| differ(from, to)) else {
        return Vec::new();
    };
    if looked
        .work
        .iter()
        .any(|work| work.all.has(Work::ARITHMETIC))
    {
        return Vec::new();
    }
    vec![Doubt::NotConverted {
        data_unit: from.to_owned(),
        task_unit: to.to_owned(),
    }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TaskFile, asks_for_word, is_offered};

    #[test]
    fn names_of_a_task_are_known_by_spelling_or_quotes() {
        let task =
            r#"Which name has the highest score, Ann or {"name": "bob", "score": 9}, "qWhH"?"#;
        for name in ["Ann", "bob", "qWhH"] {
            assert!(is_offered(task, name), "{name}");
        }
        for other in ["score", "name", "highest", "An"] {
            assert!(!is_offered(task, other), "{other}");
        }
    }

    #[test]
    fn a_column_of_words_is_asked_for() {
        let head = "product,year,产品,units\n,2024,伞,1\nchair,2025,椅,7\n";
        let contents = json!({"hash": "0".repeat(64), "bytes": 0, "media_type": ""});
        let file =
            json!({"name": "a.csv", "bytes": head.len(), "head": head, "contents": contents});
        let file: TaskFile = serde_json::from_value(file).unwrap();
        for (task, expected) in [
            ("Which product sold most?", true),
            ("In which year, and which Product?", true),
            ("哪个产品最多？", true),
            ("Which year was best?", false),
            ("Which products sold?", false),
            ("Which row has the most units?", false),
        ] {
            assert_eq!(asks_for_word(task, &file), expected, "{task}");
        }
    }
}
