//! Events of a running cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CallDenial, CallId, Denial, Display, Outcome};

/// One of the two output streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

/// One fact about a running cell. The last one is always [`Event::Outcome`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The guest has received the cell.
    Started {
        /// Its number in the session, counted from 1.
        cell: u32,
    },
    /// Text the program wrote, in the order it was written.
    Output {
        /// Where it was written.
        stream: Stream,
        /// The text; invalid UTF-8 becomes `\xNN`.
        text: String,
    },
    /// The live view of a stream ends here; the outcome holds the end of the text.
    Truncated {
        /// The stream.
        stream: Stream,
    },
    /// A rich output. With `update` it replaces the newest display with the same `id`.
    Display(Display),
    /// The cell takes back its displays and output so far. The outcome leaves them out.
    Cleared {
        /// Whether to keep showing them until the next output.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wait: bool,
    },
    /// Code of the cell calls a tool and waits for the answer.
    Called {
        /// The id of the call, for the answer.
        call: CallId,
        /// The tool, which is granted to the session.
        tool: String,
        /// The arguments by name.
        arguments: serde_json::Map<String, serde_json::Value>,
    },
    /// Code of the cell called a tool that it may not call, or with wrong arguments; the call was
    /// denied at once.
    CallDenied {
        /// The id of the call.
        call: CallId,
        /// The requested name, shortened.
        tool: String,
        /// Why it was denied.
        why: CallDenial,
    },
    /// No code waits for the answer to this call any more: it cancelled the call, or the cell
    /// ended.
    CallCancelled {
        /// The id of the call.
        call: CallId,
    },
    /// Code of the cell asks for a line, by `input()` or `getpass()`, and waits for the answer.
    InputRequested {
        /// The id of the question, for the answer.
        call: CallId,
        /// The text before the answer, which a program chose.
        prompt: String,
        /// Whether the answer must not be shown.
        password: bool,
    },
    /// No code waits for the answer to this question any more: it has one, or the code was
    /// interrupted.
    InputClosed {
        /// The id of the question.
        call: CallId,
    },
    /// The session requested something on the network that its policy does not allow.
    Denied(Denial),
    /// The cell has ended.
    Outcome(Box<Outcome>),
}
