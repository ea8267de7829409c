//! What the parsers of all dialects have in common.

use serde_json::Value;

use super::action::{ANSWER, Action, Mending, PYTHON, Problem};
use crate::ToolSpec;

/// What the parsers of all dialects get.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) truncated: bool,
    pub(super) tools: &'a [ToolSpec],
}

impl<'a> Reader<'a> {
    /// Names that members of a tool's arguments have, and `others`.
    pub(super) fn keys(&self, others: &[&'a str]) -> Vec<&'a str> {
        let properties = |tool: &'a ToolSpec| tool.parameters.get("properties")?.as_object();
        let properties = self.tools.iter().filter_map(properties).flatten();
        let mut keys: Vec<&str> = properties.map(|(key, _)| key.as_str()).collect();
        keys.push("tool_call_purpose");
        keys.extend(others);
        keys
    }

    pub(super) fn knows(&self, tool: &str) -> bool {
        tool == PYTHON || tool == ANSWER || self.tools.iter().any(|known| known.name == tool)
    }

    pub(super) fn known(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        for always in [ANSWER, PYTHON] {
            if !names.iter().any(|name| name == always) {
                names.insert(0, always.into());
            }
        }
        names
    }

    /// Why there is nothing to do in this text.
    pub(super) fn nothing(&self) -> Problem {
        if self.truncated {
            Problem::Truncated
        } else if self.text.trim().is_empty() {
            Problem::Empty
        } else {
            Problem::NoAction {
                near: quote(self.text.trim_start(), 0),
            }
        }
    }
}

/// What a dialect's parser found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) thought: String,
    pub(super) actions: Vec<Action>,
}

impl Found {
    /// Code before the answer: drops an answer that stands beside tool calls, and a second answer.
    pub(super) fn hold_back(mut self, mended: &mut Mended) -> Self {
        let answer = |action: &Action| matches!(action, Action::Answer { .. });
        if self.actions.iter().any(answer) && !self.actions.iter().all(answer) {
            self.actions.retain(|action| !answer(action));
            mended.add(Mending::AnswerHeldBack);
        } else if self.actions.len() > 1 && self.actions.iter().all(answer) {
            self.actions.truncate(1);
            mended.add(Mending::FurtherActionsDropped);
        }
        self
    }
}

/// Adds a cell. Code joins the code right before it.
pub(super) fn add_cell(actions: &mut Vec<Action>, code: &str, mended: &mut Mended) {
    if let Some(Action::Tool {
        name, arguments, ..
    }) = actions.last_mut()
        && name == PYTHON
        && let Some(Value::String(before)) = arguments.get_mut("code")
    {
        if before == code {
            mended.add(Mending::RepetitionDropped);
        } else {
            before.push_str("\n\n");
            before.push_str(code);
            mended.add(Mending::BlocksJoined);
        }
        return;
    }
    actions.push(Action::python(code));
}

/// What was mended so far; each once.
#[derive(Debug, Default)]
pub(super) struct Mended(pub(super) Vec<Mending>);

impl Mended {
    pub(super) fn add(&mut self, mending: Mending) {
        if !self.0.contains(&mending) {
            self.0.push(mending);
        }
    }
}

/// A short quotation of the text from `at` on.
pub(super) fn quote(text: &str, at: usize) -> String {
    const LENGTH: usize = 60;
    let rest = text.get(at..).unwrap_or_default();
    let mut short: String = rest.chars().take(LENGTH).collect();
    if short.len() < rest.len() {
        short.push('…');
    }
    short
}

/// Whether `line` begins with `prefix`, ignoring the case of ASCII letters; and what follows.
pub(super) fn strip_prefix_any_case<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let head = line.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &line[prefix.len()..])
}
