//! The plan as a tool for the model.

use belljar_protocol::Language;
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use serde_json::{Value, json};

use super::{PLAN, PlanTree};
use crate::ToolSpec;
use crate::run::CallResult;
use crate::tool::api::{Surface, Tool, ToolContext, ToolOutput, ToolState, purpose};

/// The tool.
#[derive(Debug)]
pub(in crate::tool) struct PlanTool;

impl Tool for PlanTool {
    fn name(&self) -> &'static str {
        PLAN
    }

    fn api_name(&self) -> &'static str {
        "plan"
    }

    fn surfaces(&self) -> &'static [Surface] {
        &[Surface::Cli, Surface::Http, Surface::Acp]
    }

    fn spec(&self, language: Language) -> ToolSpec {
        let mut tree = schemars::schema_for!(PlanTree).to_value();
        let definitions = tree.as_object_mut().and_then(|tree| {
            tree.remove("$schema");
            tree.remove("$defs")
        });
        ToolSpec {
            name: PLAN.into(),
            description: language.prompts().plan_tool.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool_call_purpose": purpose(language),
                    "recursive_plan_tree": tree,
                },
                "required": ["tool_call_purpose", "recursive_plan_tree"],
                "$defs": definitions,
            }),
        }
    }

    fn perform<'a>(
        &'a self,
        arguments: &'a Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        let mut plan = context.state.plan.clone();
        let updated = match plan.call(arguments) {
            Ok(update) => Ok(update.text(context.language).into()),
            Err(fault) => Err(fault.to_string()),
        };
        ready(updated).boxed()
    }

    /// The text of the call is in the conversation already; here it becomes the plan.
    fn remember(
        &self,
        state: &mut ToolState,
        arguments: &Value,
        _result: &CallResult,
        _language: Language,
    ) -> Option<String> {
        let _ = state.plan.call(arguments);
        None
    }
}
