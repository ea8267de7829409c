//! The two tools that every run has: `python` runs a cell, `answer` ends the run.

use belljar_protocol::Language;
use serde_json::json;

use super::api::purpose;
use crate::ToolSpec;
use crate::dialect::{ANSWER, PYTHON};

pub(super) fn spec(language: Language) -> ToolSpec {
    let texts = language.prompts();
    ToolSpec {
        name: PYTHON.into(),
        description: texts.python_tool.into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "tool_call_purpose": purpose(language),
                "code": { "type": "string", "description": texts.python_code },
            },
            "required": ["code"],
        }),
    }
}

pub(super) fn answer_spec(language: Language) -> ToolSpec {
    let texts = language.prompts();
    ToolSpec {
        name: ANSWER.into(),
        description: texts.answer_tool.into(),
        parameters: json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": texts.answer_text } },
            "required": ["text"],
        }),
    }
}
