//! Calls that the code of a cell makes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::run::event::ToolAnswer;

/// A call of a tool that the code of the running cell has made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellCall {
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// Its state.
    pub state: CellCallState,
}

/// The state of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CellCallState {
    /// A person was asked.
    Asked,
    /// A person has approved it; it was not begun.
    Approved,
    /// It is performed.
    Begun,
    /// It has its answer.
    Answered(ToolAnswer),
}
