//! A chat as far as it has come: its run, event by event.

use belljar_agent::{RunEvent, Usage};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Language;
use serde_json::{Value, json};

use super::follow::Finished;

/// What stands in each chunk, and in the whole.
#[derive(Clone)]
pub(super) struct ChatHead {
    pub(super) run: RunId,
    pub(super) model: String,
    pub(super) created: u64,
}

impl ChatHead {
    pub(super) fn object(&self, kind: &str, choices: &Value) -> Value {
        json!({
            "id": format!("chatcmpl-{}", self.run),
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// What is known of a run so far.
#[derive(Default)]
pub(super) struct ChatState {
    language: Language,
    usage: Usage,
    pub(super) finished: Option<Finished>,
}

impl ChatState {
    pub(super) fn hear(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started(start) => self.language = start.language,
            RunEvent::Replied { reply, .. } => {
                self.usage.input_tokens += reply.usage.input_tokens;
                self.usage.output_tokens += reply.usage.output_tokens;
            }
            RunEvent::Ended(ending) => self.finished = Some(Finished::new(ending, self.language)),
            _ => {}
        }
    }

    pub(super) fn usage(&self) -> Value {
        let (input, output) = (self.usage.input_tokens, self.usage.output_tokens);
        json!({
            "prompt_tokens": input,
            "completion_tokens": output,
            "total_tokens": input + output,
        })
    }
}
