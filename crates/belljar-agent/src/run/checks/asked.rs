//! What a task asks for, as far as its words show.

use super::words::words;
use crate::run::doubt::Computation;

/// What a task asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// A name of the data: which region, who.
    pub(super) name: bool,
    /// A number: how many, what total.
    pub(super) number: bool,
    /// Computations over many values.
    pub(super) computations: Vec<Computation>,
}

/// Words for computations, in English.
const COMPUTATIONS: &[(&str, Computation)] = &[
    ("total", Computation::Total),
    ("sum", Computation::Total),
    ("altogether", Computation::Total),
    ("average", Computation::Average),
    ("mean", Computation::Average),
    ("median", Computation::Median),
    ("highest", Computation::Largest),
    ("largest", Computation::Largest),
    ("biggest", Computation::Largest),
    ("maximum", Computation::Largest),
    ("lowest", Computation::Smallest),
    ("smallest", Computation::Smallest),
    ("fewest", Computation::Smallest),
    ("minimum", Computation::Smallest),
];

/// The same in Chinese, where words have no ends.
const COMPUTATIONS_CHINESE: &[(&str, Computation)] = &[
    ("总", Computation::Total),
    ("合计", Computation::Total),
    ("一共", Computation::Total),
    ("平均", Computation::Average),
    ("均值", Computation::Average),
    ("中位数", Computation::Median),
    ("最高", Computation::Largest),
    ("最大", Computation::Largest),
    ("最多", Computation::Largest),
    ("最低", Computation::Smallest),
    ("最小", Computation::Smallest),
    ("最少", Computation::Smallest),
    ("多少种", Computation::Distinct),
    ("几种", Computation::Distinct),
    ("不同", Computation::Distinct),
];

/// Nouns that are numbers.
const NUMBERS: &[&str] = &[
    "total",
    "sum",
    "average",
    "mean",
    "median",
    "count",
    "number",
    "percentage",
    "share",
    "amount",
    "maximum",
    "minimum",
    "difference",
];

/// What a task asks for. Words that are columns of the data name those.
pub(super) fn asked(task: &str, columns: &[&str]) -> Asked {
    let mut asked = Asked::default();
    let is_column = |word: &str| {
        columns
            .iter()
            .any(|column| column.eq_ignore_ascii_case(word))
    };
    for sentence in sentences(task) {
        let said = words(sentence);
        let at = |place: usize| said.get(place).map_or("", String::as_str);
        // "Which …", "In which …", "… and which …".
        let asks_which = |place: usize| matches!(at(place), "which" | "who" | "whose" | "whom");
        let begins = asks_which(0)
            || asks_which(1) && matches!(at(0), "in" | "on" | "at" | "for" | "from" | "of" | "by");
        let joined = (1..said.len()).any(|place| asks_which(place) && at(place - 1) == "and");
        asked.name |= begins || joined || sentence.contains(['哪', '谁']);
        asked.number |= (0..said.len()).any(|place| match at(place) {
            "how" => matches!(at(place + 1), "many" | "much"),
            "what" => {
                let next = &said[place + 1..said.len().min(place + 5)];
                next.iter().any(|word| NUMBERS.contains(&word.as_str()))
            }
            _ => false,
        });
        asked.number |= sentence.contains("多少");
        for (place, word) in said.iter().enumerate() {
            let known = COMPUTATIONS.iter().find(|(known, _)| known == word);
            if let Some((word, computation)) = known
                && !is_column(word)
            {
                asked.computations.push(*computation);
            }
            let counted = matches!(at(place.wrapping_sub(1)), "many" | "of");
            if counted && matches!(word.as_str(), "different" | "distinct" | "unique") {
                asked.computations.push(Computation::Distinct);
            }
        }
        let chinese = COMPUTATIONS_CHINESE.iter();
        let chinese = chinese.filter(|(word, _)| {
            sentence.contains(word) && !columns.iter().any(|column| column.contains(word))
        });
        asked.computations.extend(chinese.map(|(_, one)| *one));
    }
    asked
}

fn sentences(task: &str) -> impl Iterator<Item = &str> {
    let mut rest = task;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().find(|(at, c)| match c {
            '?' | '!' | '\n' | ';' | '。' | '？' | '！' | '；' => true,
            // Not within a number or the name of a file.
            '.' => rest[at + 1..]
                .chars()
                .next()
                .is_none_or(char::is_whitespace),
            _ => false,
        });
        let (at, length) = end.map_or((rest.len(), 0), |(at, c)| (at, c.len_utf8()));
        let sentence = &rest[..at];
        rest = &rest[at + length..];
        Some(sentence)
    })
}

/// Whether an answer says that the data does not have what was asked for.
pub(super) fn declines(answer: &str) -> bool {
    const SAID: &[&str] = &[
        "can't be answered",
        "cannot be answered",
        "cannot answer",
        "can't answer",
        "unable to answer",
        "unable to determine",
        "unable to calculate",
        "cannot be determined",
        "can't be determined",
        "cannot be calculated",
        "can't be calculated",
        "cannot be computed",
        "can't be computed",
        "not possible to",
        "no column",
        "no such column",
        "not have a column",
        "n't have a column",
        "no field",
        "无法",
        "不能回答",
        "没有该列",
        "这一列",
        "不存在",
        "没有名为",
    ];
    let answer = answer.to_lowercase().replace('’', "'");
    SAID.iter().any(|said| answer.contains(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood() {
        use Computation::{Average, Distinct, Largest, Smallest, Total};
        let look = |task: &str| {
            let asked = asked(task, &["region", "amount"]);
            (asked.name, asked.number, asked.computations)
        };
        for (task, expected) in [
            (
                "Which region has the highest amount?",
                (true, false, vec![Largest]),
            ),
            (
                "Which region sold most, and how much is the sum?",
                (true, true, vec![Total]),
            ),
            (
                "What is the average in a.csv of all?",
                (false, true, vec![Average]),
            ),
            (
                "How many different products are there?",
                (false, true, vec![Distinct]),
            ),
            ("Read the file, which has a header.", (false, false, vec![])),
            (
                "In which month was the lowest?",
                (true, false, vec![Smallest]),
            ),
            (
                "哪个地区最高？总额是多少？",
                (true, true, vec![Largest, Total]),
            ),
            ("Draw a chart of amount.", (false, false, vec![])),
        ] {
            assert_eq!(look(task), expected, "{task}");
        }
        assert_eq!(asked("What is the total?", &["total"]).computations, []);
    }

    #[test]
    fn a_refusal_is_told_from_a_result() {
        assert!(declines("It can’t be answered from this data, because …"));
        assert!(declines("无法回答：没有“折扣”这一列。"));
        assert!(!declines("There are no errors in the file."));
    }
}
