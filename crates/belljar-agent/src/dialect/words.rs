//! Texts for a model: how to act, and what was wrong.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::{ANSWER, Dialect, PYTHON, Problem};
use crate::ToolSpec;

pub(super) fn instructions(dialect: Dialect, tools: &[ToolSpec], language: Language) -> String {
    let texts = language.prompts();
    let mut out = String::from(match dialect {
        Dialect::NativeTools => texts.native_instructions,
        Dialect::JsonAction => texts.json_instructions,
        Dialect::Tags => texts.tags_instructions,
        Dialect::FencedCode => texts.fenced_instructions,
    });
    out.push('\n');
    let others: Vec<&ToolSpec> = tools
        .iter()
        .filter(|tool| tool.name != PYTHON && tool.name != ANSWER)
        .collect();
    // A provider shows tools itself in the native dialect.
    if dialect != Dialect::NativeTools && !others.is_empty() {
        out.push_str(match dialect {
            Dialect::JsonAction => texts.json_tools,
            Dialect::Tags => texts.tags_tools,
            Dialect::NativeTools | Dialect::FencedCode => texts.fenced_tools,
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
    let texts = language.prompts();
    let forms = match dialect {
        Dialect::NativeTools => return texts.native_form.to_owned(),
        Dialect::JsonAction => {
            "{\"thought\": \"…\", \"action\": \"execute_code\", \"code\": \"x = 6 * 7\\nprint(x)\"}\n\
             {\"thought\": \"…\", \"action\": \"provide_answer\", \"final_answer\": \"…\"}"
        }
        Dialect::Tags => {
            "<execution-code>\nx = 6 * 7\nprint(x)\n</execution-code>\n---\n<final-answer>\n…\n</final-answer>"
        }
        Dialect::FencedCode => "```python\nx = 6 * 7\nprint(x)\n```\n---\nFINAL: …",
    };
    texts.forms(forms)
}

impl Problem {
    /// The text for the model.
    pub fn repair_request(&self, language: Language) -> String {
        let texts = language.prompts();
        match self {
            Self::Empty => texts.reply_empty.to_owned(),
            Self::Truncated => texts.reply_truncated.to_owned(),
            Self::NoAction { near } => texts.reply_without_action(near),
            Self::Json { expected, near } => texts.reply_json(expected, near),
            Self::Missing { field, action } if action.is_empty() => texts.reply_without(field),
            Self::Missing { field, action } => texts.action_without(action, field),
            Self::UnknownAction { given, known } => texts.unknown_action(given, known),
            Self::UnknownTool { given, known } => texts.unknown_tool(given, known),
            Self::AnswerTooEarly => texts.answer_too_early.to_owned(),
        }
    }
}
