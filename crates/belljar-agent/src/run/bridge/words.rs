//! Messages about approvals and calls, for the model and its code.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::{CellCall, CellCallState};
use crate::run::event::ToolAnswer;

/// The most calls of a cell that a message lists.
const MOST_CALLS_TOLD: usize = 20;

/// A cell or another call that was begun by a host that died; what its code had called by then.
pub(crate) fn lost_call(made: &[CellCall], differs: bool, language: Language) -> String {
    let mut text = String::from(match (differs, language) {
        (false, Language::English) => {
            "The host was restarted while this was done. Whether it took effect is not known: look before you do it again."
        }
        (false, Language::Chinese) => {
            "执行过程中主机重新启动。该操作是否已生效未知：再次执行前请先检查。"
        }
        (true, Language::English) => {
            "The host was restarted while this cell ran. It was run again, but called other tools than the first time, so it was given up: the variables are as they were before it."
        }
        (true, Language::Chinese) => {
            "单元运行过程中主机重新启动。重新运行时它调用的工具与第一次不同，因此已放弃：变量与运行之前相同。"
        }
    });
    if made.is_empty() {
        return text;
    }
    text.push_str(match language {
        Language::English => "\nIt had called:",
        Language::Chinese => "\n它已经调用：",
    });
    for call in made.iter().take(MOST_CALLS_TOLD) {
        let known = match &call.state {
            CellCallState::Asked
            | CellCallState::Approved
            | CellCallState::Answered(ToolAnswer::Refused { .. }) => ["not done", "未执行"],
            CellCallState::Begun
            | CellCallState::Answered(ToolAnswer::Lost | ToolAnswer::Cancelled) => {
                ["whether it took effect is not known", "是否已生效未知"]
            }
            CellCallState::Answered(_) => ["done", "已执行"],
        };
        let known = known[usize::from(language == Language::Chinese)];
        let mut arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        arguments.truncate(arguments.floor_char_boundary(200));
        let _ = write!(text, "\n- {}({arguments}): {known}", call.tool);
    }
    if made.len() > MOST_CALLS_TOLD {
        let more = made.len() - MOST_CALLS_TOLD;
        let _ = match language {
            Language::English => write!(text, "\n- and {more} more"),
            Language::Chinese => write!(text, "\n- 以及另外 {more} 个"),
        };
    }
    text
}

pub(crate) fn cell_edited(code: &str, language: Language) -> String {
    match language {
        Language::English => format!(
            "A person changed the code before it ran. What ran is this:\n```python\n{code}\n```"
        ),
        Language::Chinese => {
            format!("代码在运行前被人修改。实际运行的是：\n```python\n{code}\n```")
        }
    }
}

pub(crate) fn cell_feedback(text: &str, language: Language) -> String {
    match language {
        Language::English => {
            format!("The code was not run: a person looked at it first, and says: {text}")
        }
        Language::Chinese => format!("代码未运行：有人先查看了代码，并说：{text}"),
    }
}

pub(crate) fn cell_rejected(language: Language) -> String {
    match language {
        Language::English => {
            "The code was not run: a person looked at it and does not allow it. Go another way."
                .into()
        }
        Language::Chinese => "代码未运行：有人查看后不允许运行。请换一种方法。".into(),
    }
}

pub(crate) fn cell_held_back(language: Language) -> String {
    match language {
        Language::English => {
            "The code was not run, because a person did not allow what comes before it.".into()
        }
        Language::Chinese => "代码未运行，因为它之前的代码没有得到允许。".into(),
    }
}

pub(crate) fn call_rejected(language: Language) -> String {
    match language {
        Language::English => "a person does not allow this call".into(),
        Language::Chinese => "此调用没有得到允许".into(),
    }
}

pub(crate) fn call_feedback(text: &str, language: Language) -> String {
    match language {
        Language::English => format!("a person does not allow this call, and says: {text}"),
        Language::Chinese => format!("此调用没有得到允许，原因：{text}"),
    }
}

pub(crate) fn calls_used_up(most: u32, language: Language) -> String {
    match language {
        Language::English => {
            format!("the code of this run may call tools {most} times, and has done so")
        }
        Language::Chinese => format!("此任务的代码最多可调用工具 {most} 次，已用完"),
    }
}

/// The message for code about an interrupted call.
pub(crate) fn call_lost(language: Language) -> &'static str {
    match language {
        Language::English => {
            "the host was restarted while this call was performed: whether it took effect is not known"
        }
        Language::Chinese => "执行此调用时主机重新启动：是否已生效未知",
    }
}
