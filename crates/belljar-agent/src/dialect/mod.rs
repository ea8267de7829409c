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

mod clean;
mod fenced;
mod fences;
mod json_action;
mod loose;
mod native;
mod python;
mod render;
mod tags;
mod words;

use belljar_protocol::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ToolSpec;
pub(crate) use python::{parse_here, with_syntax};
pub use render::Rendered;

/// The name of the tool that runs a cell; its argument is `code`.
pub const PYTHON: &str = "python";
/// The name of the tool that ends a run; its argument is `text`.
pub const ANSWER: &str = "answer";

/// How a model writes actions.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Tool calls of the provider's own format.
    NativeTools,
    /// One JSON object: `thought`, `action`, `code`, `final_answer` (AGT-2).
    JsonAction,
    /// Tags like `<execution-code>` (AGT-3).
    Tags,
    /// Markdown: a `python` block is a cell, a line `FINAL:` begins the answer.
    FencedCode,
}

/// A tool call as a provider reports it. A legacy `function_call` has no id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawToolCall {
    /// The provider's id for the call.
    pub id: Option<String>,
    /// The name that the model wrote.
    pub name: String,
    /// The arguments, as the text that the model wrote.
    pub arguments: String,
}

/// What a parser looks at of a reply.
#[derive(Clone, Copy, Debug)]
pub struct ReplyParts<'a> {
    /// The text.
    pub text: &'a str,
    /// The tool calls, in order.
    pub tool_calls: &'a [RawToolCall],
    /// The reply was cut off at a limit of length.
    pub truncated: bool,
}

/// One thing that a model asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// Call a tool. A cell is the tool `python` with `{"code": …}`.
    Tool {
        /// Which.
        name: String,
        /// With what; an object.
        arguments: Value,
        /// The provider's id, which the result must repeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// End the run.
    Answer {
        /// The answer.
        text: String,
        /// The provider's id, if the answer was a tool call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// One of several tool calls that can't be performed. The others can; this one's result is
    /// [`Problem::repair_request`], because every call gets exactly one result.
    Refused {
        /// The name that the model wrote.
        name: String,
        /// Why.
        problem: Problem,
        /// The provider's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
}

impl Action {
    /// A cell.
    pub fn python(code: &str) -> Self {
        Self::Tool {
            name: PYTHON.into(),
            arguments: json!({ "code": code }),
            call_id: None,
        }
    }

    /// An answer in text.
    pub fn answer(text: &str) -> Self {
        Self::Answer {
            text: text.into(),
            call_id: None,
        }
    }
}

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parsed {
    /// What the model thought, where it said so.
    pub thought: Option<String>,
    /// What it asked for: never empty. An answer stands alone.
    pub actions: Vec<Action>,
    /// What had to be mended, each once, in the order it was met.
    pub mended: Vec<Mending>,
}

macro_rules! mendings {
    ($($(#[$doc:meta])+ $name:ident),+ $(,)?) => {
        /// One way in which a reply was not as asked, and was understood all the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Mending { $($(#[$doc])+ $name),+ }
    };
}

mendings! {
    /// A byte order mark or characters of no width were removed.
    InvisibleRemoved,
    /// A block of thoughts was never closed, or never opened.
    ThinkingDelimited,
    /// A fence stood where none belongs.
    FenceRemoved,
    /// A fence was not closed, or not on a line of its own.
    FenceClosed,
    /// Code stood without a fence.
    FenceMissing,
    /// A first line that only names the language was removed.
    LanguageLineRemoved,
    /// Several blocks of code became one cell.
    BlocksJoined,
    /// A block that repeats another was dropped.
    RepetitionDropped,
    /// A block that shows output was dropped.
    OutputBlockDropped,
    /// A block that does the same in another way was dropped.
    AlternativeDropped,
    /// Commands for a shell were dropped.
    ShellBlockDropped,
    /// An invented result, and all that follows it, was dropped.
    ObservationCut,
    /// Further objects after the first action were dropped.
    FurtherActionsDropped,
    /// What the cut through the reply left incomplete was dropped.
    CutTailDropped,
    /// An answer beside code was held back.
    AnswerHeldBack,
    /// A tag was not closed, or not completely.
    TagClosed,
    /// A tag had attributes.
    TagAttributes,
    /// A tag had another name than asked.
    TagName,
    /// Entities such as `&lt;` were characters.
    EntitiesUndone,
    /// Text stood around the JSON.
    ProseAroundJson,
    /// Strings or keys were in other quotes than JSON's, or in none.
    JsonQuotes,
    /// Quotes inside a string were not escaped.
    JsonUnescapedQuotes,
    /// Line breaks or tabs inside a string were not escaped.
    JsonRawCharacters,
    /// A backslash stood before a character that JSON does not escape.
    JsonEscapes,
    /// A comma was too many or missing.
    JsonCommas,
    /// Python's `True`, `False`, `None`.
    JsonPythonLiterals,
    /// Comments.
    JsonComments,
    /// Brackets were not closed.
    JsonClosed,
    /// `\n` in one line of code meant a new line.
    EscapesUndone,
    /// Typographic quotes in code were plain ones.
    SmartQuotes,
    /// All of the code was indented.
    Dedented,
    /// Prompts of an interactive interpreter were removed.
    PromptsRemoved,
    /// An action, or a tool's answer, had another name than asked.
    ActionName,
    /// No action was named; the fields that are there say which.
    ActionMissing,
    /// A field had another name than asked.
    FieldName,
    /// A field had another type than asked, with the same meaning.
    FieldType,
    /// Arguments were text instead of an object.
    ArgumentsAsText,
    /// A tool call stood in the text.
    CallInText,
    /// Code stood in the text, outside of the form that was asked for.
    CodeInText,
    /// The answer had no mark, or another than asked.
    AnswerMark,
}

/// Why a reply, or a tool call, is no action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Problem {
    /// There is nothing in it.
    Empty,
    /// It was cut off before an action was complete.
    Truncated,
    /// It has text, but no action.
    NoAction {
        /// How it begins.
        near: String,
    },
    /// The JSON can't be read.
    Json {
        /// What was expected.
        expected: String,
        /// The place.
        near: String,
    },
    /// A field that the action needs is not there.
    Missing {
        /// The field.
        field: String,
        /// The action.
        action: String,
    },
    /// There is no such action.
    UnknownAction {
        /// What the model wrote.
        given: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is no such tool.
    UnknownTool {
        /// What the model wrote.
        given: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The answer came together with calls whose results it had not seen.
    AnswerTooEarly,
}

/// A reply that is no action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("the reply is not an action: {problem:?}")]
pub struct Unparsed {
    /// How it should have been written.
    pub dialect: Dialect,
    /// What is wrong.
    pub problem: Problem,
}

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

/// What the parsers of all dialects get.
struct Reader<'a> {
    text: &'a str,
    truncated: bool,
    tools: &'a [ToolSpec],
}

impl<'a> Reader<'a> {
    /// Names that members of a tool's arguments have, and `others`.
    fn keys(&self, others: &[&'a str]) -> Vec<&'a str> {
        let properties = |tool: &'a ToolSpec| tool.parameters.get("properties")?.as_object();
        let properties = self.tools.iter().filter_map(properties).flatten();
        let mut keys: Vec<&str> = properties.map(|(key, _)| key.as_str()).collect();
        keys.push("tool_call_purpose");
        keys.extend(others);
        keys
    }

    fn knows(&self, tool: &str) -> bool {
        tool == PYTHON || tool == ANSWER || self.tools.iter().any(|known| known.name == tool)
    }

    fn known(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        for always in [ANSWER, PYTHON] {
            if !names.iter().any(|name| name == always) {
                names.insert(0, always.into());
            }
        }
        names
    }

    /// Why there is nothing to do in this text.
    fn nothing(&self) -> Problem {
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
struct Found {
    thought: String,
    actions: Vec<Action>,
}

impl Found {
    /// Code before the answer: drops an answer that stands beside tool calls, and a second answer.
    fn hold_back(mut self, mended: &mut Mended) -> Self {
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
fn add_cell(actions: &mut Vec<Action>, code: &str, mended: &mut Mended) {
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
struct Mended(Vec<Mending>);

impl Mended {
    fn add(&mut self, mending: Mending) {
        if !self.0.contains(&mending) {
            self.0.push(mending);
        }
    }
}

/// A short quotation of the text from `at` on.
fn quote(text: &str, at: usize) -> String {
    const LENGTH: usize = 60;
    let rest = text.get(at..).unwrap_or_default();
    let mut short: String = rest.chars().take(LENGTH).collect();
    if short.len() < rest.len() {
        short.push('…');
    }
    short
}

/// Whether `line` begins with `prefix`, ignoring the case of ASCII letters; and what follows.
fn strip_prefix_any_case<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let head = line.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &line[prefix.len()..])
}
