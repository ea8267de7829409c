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
        match language {
            _ if u32::try_from(many).is_ok_and(|many| (1..=most).contains(&many)) => Ok(given),
            Language::English => Err(format!(
                "from 1 to {most} alternatives can be tried, not {many}"
            )),
            Language::Chinese => Err(format!("可尝试 1 到 {most} 个候选值，不能是 {many} 个")),
        }
    }

    /// The text for the model.
    pub(super) fn text(&self, language: Language) -> String {
        let (most, check) = (self.most, &self.check);
        match language {
            Language::English => format!(
                "Where it is not clear which way is right, `x = tools.{BRANCH}([a, b])` tries up to {most} values: \
                 for each, the rest of the cell runs in a copy of the session, and the first is given with which \
                 this is true at the end: `{check}`. If it is so with none, it is an error that says what came of \
                 each. Call it without `await` and threads. After it, in the same cell, call no other tools, and \
                 name files without `/workspace/`.\n"
            ),
            Language::Chinese => format!(
                "不确定哪种做法正确时，`x = tools.{BRANCH}([a, b])` 可尝试最多 {most} 个值：\
                 对每个值，单元的其余部分在会话的副本中运行，返回第一个使以下条件在结束时成立的值：`{check}`。\
                 如果都不成立，则报错并说明每个值的结果。调用时不要用 `await` 或线程。\
                 在同一单元中，调用之后不要再调用其他工具，文件名不要带 `/workspace/`。\n"
            ),
        }
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
    let english = language == Language::English;
    match (&outcome.cause, &outcome.exception) {
        (Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms }, _) if english => {
            format!("it was stopped after {limit_ms} ms")
        }
        (Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms }, _) => {
            format!("运行 {limit_ms} 毫秒后被停止")
        }
        (Cause::Memory { .. }, _) if english => "it used up the memory".into(),
        (Cause::Memory { .. }, _) => "内存用尽".into(),
        (Cause::OutputLimit { .. }, _) if english => "it wrote too much".into(),
        (Cause::OutputLimit { .. }, _) => "输出过多".into(),
        (Cause::Signal { name, .. }, _) if english => format!("{name} ended it"),
        (Cause::Signal { name, .. }, _) => format!("被 {name} 终止"),
        (Cause::Exit { code }, _) if english => format!("it exited with {code}"),
        (Cause::Exit { code }, _) => format!("以 {code} 退出"),
        (Cause::Protocol { detail }, _) => visible(detail).into_owned(),
        (_, Some(exception)) => exception_line(exception),
        _ if english => "it did not come to its end".into(),
        _ => "没有运行到结尾".into(),
    }
}

/// Why the check did not accept a branch.
pub(crate) fn check_failed(outcome: &Outcome, language: Language) -> String {
    match (&outcome.exception, language) {
        (Some(e), Language::English) if e.type_name == "AssertionError" && e.value.is_empty() => {
            "the check is false".into()
        }
        (Some(e), Language::Chinese) if e.type_name == "AssertionError" && e.value.is_empty() => {
            "条件不成立".into()
        }
        (_, Language::English) => format!("the check failed: {}", branch_failed(outcome, language)),
        (_, Language::Chinese) => format!("条件出错：{}", branch_failed(outcome, language)),
    }
}

/// The message for code if no alternative was accepted.
pub(crate) fn none_accepted(branches: &[Branch], language: Language) -> String {
    let mut text = String::from(match language {
        Language::English => "no alternative was accepted",
        Language::Chinese => "没有候选值被接受",
    });
    for branch in branches {
        let why = branch.why.as_deref().unwrap_or_default();
        let _ = write!(text, "\n- {}: {why}", branch.alternative);
    }
    text
}

/// The message for code if its session can't be forked.
pub(crate) fn not_forked(why: &str, language: Language) -> String {
    match language {
        Language::English => format!(
            "nothing was tried: {why}. Call `tools.{BRANCH}` without `await` and threads, while no other call is open"
        ),
        Language::Chinese => format!(
            "没有尝试：{why}。调用 `tools.{BRANCH}` 时不要用 `await` 或线程，也不要有其他未完成的调用"
        ),
    }
}

/// The message for code in a branch that calls a tool.
pub(crate) fn no_calls_in_branch(language: Language) -> &'static str {
    match language {
        Language::English => {
            "in a branch no tools can be called, nor branches tried: call them before `tools.branch`, or in the next cell"
        }
        Language::Chinese => {
            "在分支中不能调用工具，也不能再分支：请在 `tools.branch` 之前或在下一个单元中调用"
        }
    }
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
