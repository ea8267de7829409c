//! Actions, dialects, and what can be wrong with a reply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
