//! The expressions as a tool for the model.

use belljar_protocol::Language;
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::{COMPUTE, Computed};
use crate::ToolSpec;
use crate::run::CallResult;
use crate::tool::api::{Surface, Tool, ToolContext, ToolOutput, ToolState, purpose};

/// The tool.
#[derive(Debug)]
pub(in crate::tool) struct Compute;

impl Tool for Compute {
    fn name(&self) -> &'static str {
        COMPUTE
    }

    fn surfaces(&self) -> &'static [Surface] {
        &[Surface::Cli]
    }

    fn takes_code(&self) -> bool {
        true
    }

    /// EXP-4.
    fn spec(&self, language: Language) -> ToolSpec {
        let texts = language.prompts();
        ToolSpec {
            name: COMPUTE.into(),
            description: texts.compute_tool.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool_call_purpose": purpose(language),
                    "code": { "type": "string", "description": texts.compute_code },
                    "description": { "type": "string", "description": texts.compute_about },
                },
                "required": ["code"],
            }),
        }
    }

    fn perform<'a>(
        &'a self,
        arguments: &'a Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        async move {
            let Some(evaluator) = context.evaluator else {
                return Err("There is no tool for expressions here; use `python`.".into());
            };
            let code = arguments["code"].as_str().unwrap_or_default();
            let last = context.state.computations.last_result.as_ref();
            let computed = evaluator.evaluate(code, last).await;
            let computed = computed
                .map_err(|error| format!("The expression could not be evaluated: {error}"))?;
            let text = computed.text();
            match computed {
                Computed::Value { value, .. } => Ok(ToolOutput { text, value }),
                Computed::Error { .. } => Err(text),
            }
        }
        .boxed()
    }

    fn remember(
        &self,
        state: &mut ToolState,
        _arguments: &Value,
        result: &CallResult,
        language: Language,
    ) -> Option<String> {
        let computations = &mut state.computations;
        let before = computations.given_up();
        computations.remember(result.value.clone(), result.failed);
        let withdrawn = computations.given_up() && !before;
        withdrawn.then(|| computations.given_up_words(language))
    }

    fn is_withdrawn(&self, state: &ToolState) -> bool {
        state.computations.given_up()
    }
}
