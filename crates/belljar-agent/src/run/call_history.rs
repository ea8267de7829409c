//! The calls of a run with their results, to find the same ones again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dialect::PYTHON;

/// Calls so far. They survive when the conversation is shortened, and when it is rolled back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallHistory {
    /// For each call with its result, the steps in which it was done.
    done: BTreeMap<String, Vec<u32>>,
}

impl CallHistory {
    /// Records a call and its result; returns the steps with the same call and result, this one last.
    pub(crate) fn record(
        &mut self,
        step: u32,
        tool: &str,
        arguments: &Value,
        result: &str,
    ) -> &[u32] {
        let steps = self.done.entry(key(tool, arguments, result)).or_default();
        steps.push(step);
        steps
    }

    /// After a rollback to before a step: the calls still count, once.
    pub(crate) fn take_back(&mut self, to: u32) {
        for steps in self.done.values_mut() {
            steps.retain(|step| *step < to);
        }
        self.done.retain(|_, steps| !steps.is_empty());
    }
}

/// Equal calls have the same key, however they were written.
pub(super) fn key(tool: &str, arguments: &Value, result: &str) -> String {
    let mut arguments = arguments.clone();
    if let Some(fields) = arguments.as_object_mut() {
        fields.remove("tool_call_purpose");
        fields.remove("description");
        if tool == PYTHON
            && let Some(code) = fields.get("code").and_then(Value::as_str)
        {
            let code = plain_code(code);
            fields.insert("code".into(), code.into());
        }
    }
    format!("{tool} {arguments} -> {}", plain_result(result))
}

/// Code without empty lines and comments of their own.
fn plain_code(code: &str) -> String {
    let lines = code.lines().map(str::trim_end);
    let lines = lines.filter(|line| {
        let text = line.trim_start();
        !text.is_empty() && !text.starts_with('#')
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A result without its variable parts: numbers of cells, times, addresses.
fn plain_result(result: &str) -> String {
    let mut plain = String::new();
    let mut rest = result;
    while let Some(at) = ["<cell ", "0x"]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min()
    {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let skip = if after.starts_with("0x") { 2 } else { 6 };
        let end = after[skip..]
            .find(|c: char| !c.is_ascii_hexdigit())
            .map_or(after.len(), |end| skip + end);
        plain.push_str(&after[..skip]);
        rest = &after[end..];
    }
    plain.push_str(rest);
    // Long results are distinguished by their ends and their length.
    if plain.len() > 4000 {
        let head: String = plain.chars().take(1500).collect();
        let tail: String = plain.chars().rev().take(1500).collect();
        return format!("{head}…{tail} {}", plain.len());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_call_is_noticed_in_other_words() {
        let mut history = CallHistory::default();
        let code = |code: &str| json!({"code": code});
        assert_eq!(
            history.record(1, PYTHON, &code("x = 1\nprint(x)"), "1\n"),
            [1]
        );
        assert_eq!(
            history.record(2, PYTHON, &code("# again\nx = 1\n\nprint(x)  "), "1\n"),
            [1, 2]
        );
        assert_eq!(
            history.record(3, PYTHON, &code("x = 1\nprint(x)"), "2\n"),
            [3]
        );
        assert_eq!(
            history.record(4, PYTHON, &code("o"), "File \"<cell 3>\" at 0x7f12"),
            [4]
        );
        assert_eq!(
            history.record(5, PYTHON, &code("o"), "File \"<cell 4>\" at 0x7f13"),
            [4, 5]
        );
        history.record(5, PYTHON, &code("a"), "0x7f12 in <cell 4>");
        assert_eq!(
            history.record(6, PYTHON, &code("a"), "0x7f13 in <cell 5>"),
            [5, 6]
        );
        let purpose = json!({"path": "a", "tool_call_purpose": "look"});
        history.record(6, "read_file", &json!({"path": "a"}), "x");
        assert_eq!(history.record(7, "read_file", &purpose, "x"), [6, 7]);
        history.take_back(2);
        assert_eq!(
            history.record(8, PYTHON, &code("x = 1\nprint(x)"), "1\n"),
            [1, 8]
        );
    }
}
