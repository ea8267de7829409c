//! Texts for a model: how to act, and what was wrong.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::{ANSWER, Dialect, PYTHON, Problem};
use crate::ToolSpec;

pub(super) fn instructions(dialect: Dialect, tools: &[ToolSpec], language: Language) -> String {
    let english = language == Language::English;
    let mut out = String::from(match (dialect, english) {
        (Dialect::NativeTools, true) => {
            "Act by calling tools. To run Python, call `python`; variables stay from call to call. \
             Calls that do not need each other's results may stand in one reply. Do not write code \
             as text. When you have seen the results that the answer rests on, give the answer, and \
             nothing else in that reply."
        }
        (Dialect::NativeTools, false) => {
            "通过调用工具来行动。要运行 Python，请调用 `python`；变量在多次调用之间保留。互不依赖的调用可以放在同一条回复中。\
             不要把代码写成普通文本。看到答案所依据的结果之后再给出答案，并且该回复中只给出答案。"
        }
        (Dialect::JsonAction, true) => {
            "Reply with one JSON object and nothing else. Fields:\n\
             - `thought`: your reasoning, short.\n\
             - `action`: `execute_code` (run new code), `debug_error` (run corrected code after an \
             error) or `provide_answer` (end with the answer).\n\
             - `code`: Python; only with `execute_code` and `debug_error`. Print what you need to \
             see. Variables stay from step to step.\n\
             - `final_answer`: text; only with `provide_answer`, after you have seen the results."
        }
        (Dialect::JsonAction, false) => {
            "只回复一个 JSON 对象，不要有其他内容。字段：\n\
             - `thought`：简短的思考。\n\
             - `action`：`execute_code`（运行新代码）、`debug_error`（出错后运行修正的代码）或 \
             `provide_answer`（给出答案并结束）。\n\
             - `code`：Python 代码；仅用于 `execute_code` 和 `debug_error`。用 print 输出需要看到的内容。变量在各步之间保留。\n\
             - `final_answer`：文本；仅用于 `provide_answer`，且在看到结果之后。"
        }
        (Dialect::Tags, true) => {
            "Write one action in each reply, in tags, each tag on a line of its own.\n\
             To run Python, write the code in <execution-code>. Print what you need to see. Variables \
             stay from step to step. If it needs libraries that are not installed, name them before \
             it, separated by commas, in <pip-dependencies-to-install>.\n\
             Stop after </execution-code>: the result is sent to you. When you have seen the results, \
             write the answer in <final-answer>."
        }
        (Dialect::Tags, false) => {
            "每条回复写一个动作，用标签表示，每个标签单独占一行。\n\
             要运行 Python，请把代码写在 <execution-code> 中。用 print 输出需要看到的内容。变量在各步之间保留。如需未安装的库，\
             请在其前用 <pip-dependencies-to-install> 写出库名，用逗号分隔。\n\
             写完 </execution-code> 就停止：结果会发送给你。看到结果之后，把答案写在 <final-answer> 中。"
        }
        (Dialect::FencedCode, true) => {
            "To run Python, write one block that begins with ```python and ends with ```. Print what \
             you need to see. Variables stay from step to step. Stop after the block: its output is \
             sent to you, do not write it yourself.\n\
             When you have seen the output that the answer rests on, write a line that begins with \
             FINAL: and then the answer. A reply has either a block or the answer, never both."
        }
        (Dialect::FencedCode, false) => {
            "要运行 Python，请写一个以 ```python 开头、以 ``` 结尾的代码块。用 print 输出需要看到的内容。变量在各步之间保留。\
             写完代码块就停止：输出会发送给你，不要自己编写输出。\n\
             看到答案所依据的输出之后，写一行以 FINAL: 开头的文字，其后是答案。一条回复只能有代码块或答案之一，不能两者都有。"
        }
    });
    out.push('\n');
    let others: Vec<&ToolSpec> = tools
        .iter()
        .filter(|tool| tool.name != PYTHON && tool.name != ANSWER)
        .collect();
    // A provider shows tools itself in the native dialect.
    if dialect != Dialect::NativeTools && !others.is_empty() {
        out.push_str(match (dialect, english) {
            (Dialect::JsonAction, true) => {
                "`action` can also be the name of a tool, with its `arguments`:\n"
            }
            (Dialect::JsonAction, false) => "`action` 也可以是工具名，并用 `arguments` 给出参数：\n",
            (Dialect::Tags, true) => {
                "To call another tool, write <tool name=\"NAME\">, its arguments as a JSON object, \
                 and </tool>. Tools:\n"
            }
            (Dialect::Tags, false) => {
                "要调用其他工具，请写 <tool name=\"工具名\">、JSON 对象形式的参数和 </tool>。工具：\n"
            }
            (_, true) => {
                "To call another tool, write a block that begins with ``` and the tool's name, with \
                 its arguments as a JSON object inside. Tools:\n"
            }
            (_, false) => "要调用其他工具，请写以 ``` 加工具名开头的代码块，其中是 JSON 对象形式的参数。工具：\n",
        });
        for tool in others {
            let _ = writeln!(out, "- `{}`: {}", tool.name, tool.description);
            let _ = writeln!(out, "  {}", tool.parameters);
        }
    }
    out.push_str(form(dialect, language).as_str());
    out
}

/// The form that is expected, shown once.
pub(super) fn form(dialect: Dialect, language: Language) -> String {
    let english = language == Language::English;
    let form = match dialect {
        Dialect::NativeTools => {
            return if english {
                "Call one of your tools, or give the answer.".into()
            } else {
                "请调用一个工具，或给出答案。".into()
            };
        }
        Dialect::JsonAction => {
            "{\"thought\": \"…\", \"action\": \"execute_code\", \"code\": \"x = 6 * 7\\nprint(x)\"}\n\
             {\"thought\": \"…\", \"action\": \"provide_answer\", \"final_answer\": \"…\"}"
        }
        Dialect::Tags => {
            "<execution-code>\nx = 6 * 7\nprint(x)\n</execution-code>\n---\n<final-answer>\n…\n</final-answer>"
        }
        Dialect::FencedCode => "```python\nx = 6 * 7\nprint(x)\n```\n---\nFINAL: …",
    };
    if english {
        format!("Write it in one of these two forms:\n{form}")
    } else {
        format!("请使用以下两种形式之一：\n{form}")
    }
}

impl Problem {
    /// The text for the model.
    pub fn repair_request(&self, language: Language) -> String {
        match language {
            Language::English => self.english(),
            Language::Chinese => self.chinese(),
        }
    }

    fn english(&self) -> String {
        match self {
            Self::Empty => "Your reply was empty; nothing was run.".into(),
            Self::Truncated => "Your reply was cut off at the limit of length before it was \
                complete; nothing of it was run. Write less: do the work in smaller steps."
                .into(),
            Self::NoAction { near } => format!(
                "Your reply has no action that could be found, so nothing was run. It begins: «{near}»"
            ),
            Self::Json { expected, near } => format!(
                "The JSON in your reply can't be read: {expected} was expected near «{near}». \
                 Escape quotes in strings as \\\" and line breaks as \\n."
            ),
            Self::Missing { field, action } if action.is_empty() => {
                format!("Your reply has no `{field}`.")
            }
            Self::Missing { field, action } => {
                format!("`{action}` needs `{field}`, which is missing or empty.")
            }
            Self::UnknownAction { given, known } => format!(
                "There is no action `{given}`. The actions are: {}.",
                list(known, ", ")
            ),
            Self::UnknownTool { given, known } => format!(
                "There is no tool `{given}`, so nothing was called. The tools are: {}.",
                list(known, ", ")
            ),
            Self::AnswerTooEarly => {
                "The answer was not taken, because it came together with other \
                calls. Look at their results first, then answer."
                    .into()
            }
        }
    }

    fn chinese(&self) -> String {
        match self {
            Self::Empty => "你的回复是空的，没有执行任何内容。".into(),
            Self::Truncated => {
                "你的回复因长度限制在完成之前被截断，没有执行任何内容。请写短一些：分成更小的步骤。"
                    .into()
            }
            Self::NoAction { near } => {
                format!("你的回复中没有找到动作，因此没有执行任何内容。回复开头：«{near}»")
            }
            Self::Json { expected, near } => format!(
                "无法读取回复中的 JSON：在 «{near}» 附近应为 {expected}。字符串中的引号请写成 \\\"，换行请写成 \\n。"
            ),
            Self::Missing { field, action } if action.is_empty() => {
                format!("你的回复缺少 `{field}`。")
            }
            Self::Missing { field, action } => {
                format!("`{action}` 需要 `{field}`，但它缺失或为空。")
            }
            Self::UnknownAction { given, known } => {
                format!(
                    "没有名为 `{given}` 的动作。可用的动作：{}。",
                    list(known, "、")
                )
            }
            Self::UnknownTool { given, known } => format!(
                "没有名为 `{given}` 的工具，因此没有调用。可用的工具：{}。",
                list(known, "、")
            ),
            Self::AnswerTooEarly => {
                "答案未被采纳，因为它与其他调用同时给出。请先查看这些调用的结果，再回答。".into()
            }
        }
    }
}

fn list(names: &[String], between: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(between)
}
