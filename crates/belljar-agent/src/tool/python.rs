//! The two tools that every run has: `python` runs a cell, `answer` ends the run.

use belljar_protocol::Language;
use serde_json::json;

use super::purpose;
use crate::ToolSpec;
use crate::dialect::{ANSWER, PYTHON};

pub(super) fn spec(language: Language) -> ToolSpec {
    let (description, code) = match language {
        Language::English => (
            "Runs a cell of Python in the session and returns what it prints, the value of its last \
             line, and what went wrong. Variables, imports and files stay from cell to cell.",
            "Python source.",
        ),
        Language::Chinese => (
            "在会话中运行一个 Python 单元，返回其打印内容、最后一行的值以及出现的错误。变量、导入和文件在单元之间保留。",
            "Python 源代码。",
        ),
    };
    ToolSpec {
        name: PYTHON.into(),
        description: description.into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "tool_call_purpose": purpose(language),
                "code": { "type": "string", "description": code },
            },
            "required": ["code"],
        }),
    }
}

pub(super) fn answer_spec(language: Language) -> ToolSpec {
    let (description, text) = match language {
        Language::English => (
            "Ends the run with the answer. Call it alone, after you have seen the results that the \
             answer rests on.",
            "The answer, with the exact values.",
        ),
        Language::Chinese => (
            "给出答案并结束。请在看到答案所依据的结果之后单独调用。",
            "答案，使用确切的值。",
        ),
    };
    ToolSpec {
        name: ANSWER.into(),
        description: description.into(),
        parameters: json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": text } },
            "required": ["text"],
        }),
    }
}
