//! Parameters that Belljar cannot keep.

use serde_json::{Map, Value, json};

use super::errors::{invalid, unsupported};
use crate::problem::Problem;

/// Refuses a parameter with a value that would change something.
pub(super) struct Others<'a>(pub(super) &'a Map<String, Value>);

impl Others<'_> {
    /// Refuses each of these, unless it is null or as if it were left out.
    pub(super) fn refuse(&self, refused: &[(&str, &[Value], &str)]) -> Result<(), Problem> {
        for (name, harmless, why) in refused {
            let given = self.0.get(*name).filter(|value| !value.is_null());
            if given.is_some_and(|value| !harmless.contains(value)) {
                return Err(unsupported(name, why));
            }
        }
        Ok(())
    }

    /// Refuses what neither a chat nor a response can have.
    pub(super) fn refuse_common(&self) -> Result<(), Problem> {
        let no_choice = "the agent decides when to run Python; leave it out";
        self.refuse(&[
            ("tool_choice", &[json!("auto"), json!("none")], no_choice),
            ("top_logprobs", &[json!(0)], NO_LOGPROBS),
        ])
    }
}

pub(super) const NO_LOGPROBS: &str = "a run has no log probabilities";

/// What is said to functions of the caller.
pub(super) const NO_FUNCTIONS: &str =
    "a run cannot call functions of the client; give tools to the service as MCP servers";

/// The temperature and the limit of a reply, which both kinds of requests have.
pub(super) fn check_sampling(
    temperature: Option<f64>,
    max_tokens: Option<(&str, u64)>,
) -> Result<(), Problem> {
    if temperature.is_some_and(|given| !(0.0..=2.0).contains(&given)) {
        return Err(invalid("temperature", "it must be from 0 to 2"));
    }
    match max_tokens {
        Some((name, 0)) => Err(invalid(name, "it must be at least 1")),
        _ => Ok(()),
    }
}

/// The value of `include` that shows what cells have printed and shown.
const OUTPUTS: &str = "code_interpreter_call.outputs";

/// Whether outputs of cells are wanted.
pub(super) fn shows_outputs<'a>(include: impl Iterator<Item = &'a str>) -> Result<bool, Problem> {
    let mut shows = false;
    for value in include {
        if value != OUTPUTS {
            let why = format!("it can be `{OUTPUTS}`");
            return Err(unsupported("include", &why));
        }
        shows = true;
    }
    Ok(shows)
}
