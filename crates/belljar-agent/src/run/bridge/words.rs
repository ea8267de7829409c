//! Messages about approvals and calls, for the model and its code.

use std::fmt::Write as _;

use belljar_protocol::Language;

use super::cell_call::{CellCall, CellCallState};
use crate::run::event::ToolAnswer;

/// The most calls of a cell that a message lists.
const MOST_CALLS_TOLD: usize = 20;

/// A cell or another call that was begun by a host that died; what its code had called by then.
pub(crate) fn lost_call(made: &[CellCall], differs: bool, language: Language) -> String {
    let texts = language.prompts();
    let mut text = String::from(if differs {
        texts.cell_differs
    } else {
        texts.host_restarted
    });
    if made.is_empty() {
        return text;
    }
    text.push_str(texts.calls_made);
    for call in made.iter().take(MOST_CALLS_TOLD) {
        let known = match &call.state {
            CellCallState::Asked
            | CellCallState::Approved
            | CellCallState::Answered(ToolAnswer::Refused { .. }) => texts.call_not_done,
            CellCallState::Begun
            | CellCallState::Answered(ToolAnswer::Lost | ToolAnswer::Cancelled) => {
                texts.call_unknown
            }
            CellCallState::Answered(_) => texts.call_done,
        };
        let mut arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
        arguments.truncate(arguments.floor_char_boundary(200));
        let _ = write!(text, "\n- {}({arguments}): {known}", call.tool);
    }
    if made.len() > MOST_CALLS_TOLD {
        text.push_str(&texts.more_calls(made.len() - MOST_CALLS_TOLD));
    }
    text
}
