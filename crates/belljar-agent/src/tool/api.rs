//! What a tool is, and what it can use.

use std::time::Duration;

use belljar_protocol::Language;
use belljar_sandbox::Session;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compute::{Computations, Evaluator};
use super::plan::Plan;
use crate::ToolSpec;
use crate::run::{CallResult, ShellCommand};

/// Where users choose the tools of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `belljar run --tool NAME`.
    Cli,
    /// `tools` of a run in the HTTP API.
    Http,
    /// Runs of `ask_agent` over MCP have all tools of this surface.
    Mcp,
    /// Runs of `belljar acp` have all tools of this surface.
    Acp,
}

/// A tool that the host performs for the model, without running a cell.
pub trait Tool: Sync {
    /// Its name for the model and on the command line.
    fn name(&self) -> &'static str;

    /// Its name in the HTTP API.
    fn api_name(&self) -> &'static str {
        self.name()
    }

    /// Where users can choose it.
    fn surfaces(&self) -> &'static [Surface];

    /// Its description for the model, with the schema of its arguments.
    fn spec(&self, language: Language) -> ToolSpec;

    /// Whether its argument `code` is Python, which the dialects repair.
    fn takes_code(&self) -> bool {
        false
    }

    /// Whether it needs the run's session.
    fn needs_session(&self) -> bool {
        false
    }

    /// The command that a call runs: it is approved as cells are.
    fn command(&self, _arguments: &Value) -> Option<ShellCommand> {
        None
    }

    /// Performs a call. When it is dropped, the run was stopped. An error is a message for the model.
    fn perform<'a>(
        &'a self,
        arguments: &'a Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, String>>;

    /// Updates the run's state after a call. Returns a note for the model, if there is one.
    fn remember(
        &self,
        _state: &mut ToolState,
        _arguments: &Value,
        _result: &CallResult,
        _language: Language,
    ) -> Option<String> {
        None
    }

    /// Whether the run continues without it.
    fn is_withdrawn(&self, _state: &ToolState) -> bool {
        false
    }
}

/// What a tool can use for a call.
#[derive(Clone, Copy, Debug)]
pub struct ToolContext<'a> {
    pub(crate) state: &'a ToolState,
    pub(crate) language: Language,
    /// The run's session, for tools that need it.
    pub(crate) session: Option<&'a Session>,
    pub(crate) evaluator: Option<&'a Evaluator>,
    /// The most time that it may take.
    pub(crate) limit: Duration,
}

/// What tools keep of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolState {
    pub(crate) plan: Plan,
    pub(crate) computations: Computations,
}

/// The result of a successful call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// The result as data, for tools that keep some.
    pub value: Option<Value>,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text, value: None }
    }
}

/// What every tool asks for.
pub(super) fn purpose(language: Language) -> Value {
    let description = language.prompts().tool_purpose;
    serde_json::json!({ "type": "string", "description": description })
}
