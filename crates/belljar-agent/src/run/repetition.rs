//! Loop detection: finds repetition by actions and their results, not by their wording. The model gets a note at the
//! second time, and the run is rolled back to before it at the third.

use std::collections::BTreeMap;

use belljar_protocol::NameInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answers::answer_of;
use super::event::CallResult;
use super::machine::{Call, Run, Step};
use super::words;
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

impl Run {
    pub(super) fn notice_repetition(&mut self, number: u32, call: &Call, result: &CallResult) {
        let steps = self
            .call_history
            .record(number, &call.tool, &call.arguments, &result.text);
        match *steps.to_vec() {
            // Other code was requested, and the same is no example of that.
            [earlier, _] if self.answered_since(earlier) => self.going_back_to = Some(earlier),
            [earlier, _] if earlier < number => {
                let note = words::done_before(earlier, result.failed, self.language());
                self.add_note(&note);
            }
            [_, second, _, ..] => self.going_back_to = Some(second.min(number)),
            _ => {}
        }
        // What fails again with the same error is forgotten, so that it is no example.
        if let Some(first) = self.failing_alike_since() {
            self.going_back_to = Some(first);
        }
    }

    /// Whether an answer was given since a step began; it was refused, then.
    fn answered_since(&self, step: u32) -> bool {
        let mut steps = self.steps.iter().filter(|other| other.number >= step);
        steps.any(|step| answer_of(step).is_some())
    }

    /// The first of the last steps in which nothing succeeded, if the last failed with an error that
    /// was among them before.
    fn failing_alike_since(&self) -> Option<u32> {
        let error = |call: &Call| -> Option<String> {
            let result = call.result().filter(|result| result.failed)?;
            result.cell.as_ref()?.error.clone()
        };
        let fails = |step: &&Step| {
            let mut results = step.calls.iter().filter_map(Call::result);
            results.all(|result| result.failed)
        };
        let (last, earlier) = self.steps.split_last()?;
        let error_now = last.calls.iter().filter_map(error).next_back()?;
        let failing = earlier.iter().rev().take_while(fails);
        let failing: Vec<&Step> = failing.filter(|step| !step.calls.is_empty()).collect();
        let mut before = failing
            .iter()
            .flat_map(|step| &step.calls)
            .filter_map(error);
        let again = before.any(|error| error == error_now);
        failing.last().filter(|_| again).map(|step| step.number)
    }

    pub(super) fn take_back(&mut self, to: u32, restored: bool, manifest: &[NameInfo]) {
        let last = self.steps.last();
        let result = last.and_then(|step| step.calls.iter().filter_map(Call::result).next_back());
        let words = match result.filter(|result| result.failed) {
            Some(result) => words::failed_again(result, restored, self.language()),
            None if self.answered_since(to) => words::showed_nothing(restored, self.language()),
            None => words::repetition(
                &last.map(words::summary).unwrap_or_default(),
                restored,
                self.language(),
            ),
        };
        self.steps.retain(|step| step.number < to);
        self.collapsed = self.collapsed.min(self.steps.len());
        self.call_history.take_back(to);
        self.manifest = manifest.to_vec();
        self.spent.repeats += 1;
        self.going_back_to = None;
        self.taken_back = Some((self.steps.len(), words));
    }
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
