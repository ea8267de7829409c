//! Branches: code asks for the best of several values. Each is tried in a fork of the session, and
//! the first whose end a check accepts is taken.

use std::fmt::Write as _;

use belljar_protocol::{Cause, ExceptionInfo, Language, Outcome, ToolStub, visible};
use ruff_python_ast::{Mod, Stmt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dialect::with_syntax;
use crate::tool::{GrantedTool, ToolEffects};

/// The name of the tool by which code asks for branches.
pub const BRANCH: &str = "branch";

/// The most characters of an alternative, and of its result, in messages.
const ALTERNATIVE: usize = 200;
const WHY: usize = 300;

/// Whether code of a run may try alternatives, and which of them is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Branches {
    most: u32,
    check: String,
}

/// Invalid branches of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BranchesError {
    /// Their number is out of range.
    #[error("from 2 to 8 branches can be tried, not {0}")]
    Most(u32),
    /// The check is not an expression.
    #[error("the check is not one expression of Python")]
    Check,
}

/// The result of an alternative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Branch {
    /// The alternative as JSON; cut where it is long.
    pub alternative: String,
    /// Whether the check accepted it.
    pub accepted: bool,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Branches {
    /// Up to `most` alternatives at a call, from 2 to 8. The `check` is an expression of Python
    /// over the variables of the session: if it is true after the cell, the alternative is
    /// accepted.
    pub fn new(most: u32, check: &str) -> Result<Self, BranchesError> {
        if !(2..=8).contains(&most) {
            return Err(BranchesError::Most(most));
        }
        // By itself, so that it closes no bracket of ours; in brackets, as it is run.
        if !is_expression(check) || !is_expression(&format!("(\n{check}\n)")) {
            return Err(BranchesError::Check);
        }
        Ok(Self {
            most,
            check: check.to_owned(),
        })
    }

    /// The most alternatives of a call.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// The check.
    pub fn check(&self) -> &str {
        &self.check
    }

    /// The tool by which code asks for them.
    pub(crate) fn tool(&self) -> GrantedTool {
        let most = self.most;
        let description = format!(
            "Gives one of up to {most} alternatives: the first with which the rest of the cell ends as it should."
        );
        GrantedTool {
            stub: ToolStub {
                name: BRANCH.into(),
                description,
                parameters: json!({
                    "type": "object",
                    "properties": {"alternatives": {"type": "array"}},
                    "required": ["alternatives"],
                }),
                result: None,
            },
            effects: ToolEffects::None,
            direct: false,
        }
    }

    /// A cell that ends well where the check is true. Whatever the session has made of the names in
    /// it, it can't end well else.
    pub(crate) fn check_cell(&self) -> String {
        format!("if not (\n{}\n):\n    raise AssertionError", self.check)
    }

    /// The alternatives of a call.
    pub(crate) fn alternatives<'a>(
        &self,
        arguments: &'a serde_json::Map<String, Value>,
        language: Language,
    ) -> Result<&'a [Value], String> {
        let given = arguments.get("alternatives").and_then(Value::as_array);
        let given = given.map(Vec::as_slice).unwrap_or_default();
        let (many, most) = (given.len(), self.most);
        if u32::try_from(many).is_ok_and(|many| (1..=most).contains(&many)) {
            Ok(given)
        } else {
            Err(language.prompts().branch_count(most, many))
        }
    }

    /// The text for the model.
    pub(super) fn text(&self, language: Language) -> String {
        language.prompts().branches(BRANCH, self.most, &self.check)
    }
}

fn is_expression(code: &str) -> bool {
    let look = |parsed: &ruff_python_parser::Parsed<Mod>| {
        let Mod::Module(module) = parsed.syntax() else {
            return false;
        };
        parsed.has_valid_syntax() && matches!(&module.body[..], [Stmt::Expr(_)])
    };
    with_syntax(code, look).unwrap_or(false)
}

impl Branch {
    /// The result of an alternative: accepted, or the reason.
    pub(crate) fn new(alternative: &Value, why: Option<&str>) -> Self {
        Self {
            alternative: cut(&alternative.to_string(), ALTERNATIVE),
            accepted: why.is_none(),
            why: why.map(|why| cut(why, WHY)),
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An exception in one line.
pub(crate) fn exception_line(exception: &ExceptionInfo) -> String {
    let message = exception.value.lines().next().unwrap_or_default();
    visible(&format!("{}: {message}", exception.type_name)).into_owned()
}

/// Why the rest of a cell did not end well in a branch.
pub(crate) fn branch_failed(outcome: &Outcome, language: Language) -> String {
    let texts = language.prompts();
    match (&outcome.cause, &outcome.exception) {
        (Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms }, _) => {
            texts.branch_stopped(*limit_ms)
        }
        (Cause::Memory { .. }, _) => texts.branch_memory.to_owned(),
        (Cause::OutputLimit { .. }, _) => texts.branch_output.to_owned(),
        (Cause::Signal { name, .. }, _) => texts.branch_signal(name),
        (Cause::Exit { code }, _) => texts.branch_exit(*code),
        (Cause::Protocol { detail }, _) => visible(detail).into_owned(),
        (_, Some(exception)) => exception_line(exception),
        _ => texts.branch_unfinished.to_owned(),
    }
}

/// Why the check did not accept a branch.
pub(crate) fn check_failed(outcome: &Outcome, language: Language) -> String {
    let texts = language.prompts();
    match &outcome.exception {
        Some(e) if e.type_name == "AssertionError" && e.value.is_empty() => {
            texts.check_false.to_owned()
        }
        _ => texts.check_failed(&branch_failed(outcome, language)),
    }
}

/// The message for code if no alternative was accepted.
pub(crate) fn none_accepted(branches: &[Branch], language: Language) -> String {
    let mut text = language.prompts().none_accepted.to_owned();
    for branch in branches {
        let why = branch.why.as_deref().unwrap_or_default();
        let _ = write!(text, "\n- {}: {why}", branch.alternative);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_one_expression() {
        for check in [
            "x > 1",
            "x  # as said",
            "all(\n  y for y in z)",
            "(n := f())",
            "'\\n'",
        ] {
            assert!(Branches::new(2, check).is_ok(), "{check}");
        }
        for check in [
            "",
            "x = 1",
            "x;",
            "1) or (1",
            "x\ny",
            "import os",
            "x >",
            "*x",
            "x \\",
        ] {
            assert_eq!(
                Branches::new(2, check),
                Err(BranchesError::Check),
                "{check}"
            );
        }
        assert_eq!(Branches::new(1, "x"), Err(BranchesError::Most(1)));
        assert_eq!(Branches::new(9, "x"), Err(BranchesError::Most(9)));
    }

    #[test]
    fn what_is_long_is_cut() {
        let branch = Branch::new(&json!("ä".repeat(1000)), Some(&"ö".repeat(1000)));
        assert_eq!(branch.alternative.chars().count(), ALTERNATIVE + 1);
        assert_eq!(branch.why.map(|why| why.chars().count()), Some(WHY + 1));
    }
}
