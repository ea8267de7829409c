//! How a model is asked for actions, and how its reply becomes [`Action`]s.
//!
//! A parser here is forgiving. It reports what it mended ([`Mending`]), so that runs can count it.
//! What it can't mend goes back to the model as a repair request ([`Unparsed::repair_request`]). It
//! runs nothing, and takes time in proportion to the reply.
//!
//! Rules that hold in every dialect:
//!
//! - **Code before the answer.** An answer that stands in one reply with code has not seen the
//!   code's output. The code is taken, the answer is held back ([`Mending::AnswerHeldBack`]).
//! - **Nothing after an invented observation.** What a model writes after a result of its own
//!   invention is dropped ([`Mending::ObservationCut`]).
//! - **Never half a cell.** Of a reply that was cut off, only what was complete before the cut is
//!   taken; if nothing was, the reply is [`Problem::Truncated`].
//! - **No silent guess at a tool.** An unknown name is an error that lists the known ones.
//! - **Valid Python is left alone.** Code is changed only where it does not parse and the change
//!   makes it parse; the one exception is a first line that is only a language's name.

mod action;
mod clean;
mod fenced;
mod fences;
mod json_action;
mod loose;
mod native;
mod python;
mod reader;
mod render;
mod tags;
mod words;

use belljar_protocol::Language;
use serde_json::Value;

use crate::ToolSpec;
pub use action::{
    ANSWER, Action, Dialect, Mending, PYTHON, Parsed, Problem, RawToolCall, ReplyParts, Unparsed,
};
pub(crate) use python::{parse_here, with_syntax};
pub use render::Rendered;

use reader::{Found, Mended, Reader, add_cell, quote, strip_prefix_any_case};

impl Unparsed {
    /// The text for the model: what was wrong, where, and the expected form.
    pub fn repair_request(&self, language: Language) -> String {
        let problem = self.problem.repair_request(language);
        let form = words::form(self.dialect, language);
        format!("{problem}\n{form}")
    }
}

impl Dialect {
    /// The text of a prompt that explains how to act.
    pub fn instructions(self, tools: &[ToolSpec], language: Language) -> String {
        words::instructions(self, tools, language)
    }

    /// The schema that a reply keeps to, where a provider can be asked to constrain it.
    pub fn response_schema(self, tools: &[ToolSpec]) -> Option<Value> {
        (self == Self::JsonAction).then(|| json_action::schema(tools))
    }

    /// Parses a reply. `tools` are those in the prompt.
    pub fn parse(self, reply: &ReplyParts<'_>, tools: &[ToolSpec]) -> Result<Parsed, Unparsed> {
        let mut mended = Mended::default();
        let cleaned = clean::clean(reply.text, reply.truncated, &mut mended);
        let reader = Reader {
            text: &cleaned.text,
            truncated: reply.truncated,
            tools,
        };
        let found = match self {
            Self::NativeTools => native::parse(&reader, reply.tool_calls, &mut mended),
            Self::JsonAction => json_action::parse(&reader, &mut mended),
            Self::Tags => tags::parse(&reader, &mut mended),
            Self::FencedCode => fenced::parse(&reader, &mut mended),
        };
        let unparsed = |problem| Unparsed {
            dialect: self,
            problem,
        };
        let found = found.map_err(unparsed)?;
        let thoughts = [cleaned.thought.as_str(), found.thought.trim()];
        let thought: Vec<&str> = thoughts.into_iter().filter(|t| !t.is_empty()).collect();
        Ok(Parsed {
            thought: (!thought.is_empty()).then(|| thought.join("\n\n")),
            actions: found.actions,
            mended: mended.0,
        })
    }

    /// The canonical way to write these actions, as [`Self::parse`] reads it back.
    pub fn render(self, thought: Option<&str>, actions: &[Action]) -> Rendered {
        render::render(self, thought, actions)
    }
}
