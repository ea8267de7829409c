//! Responses as clients see them: a run, with its cells and its answer as items.

use belljar_agent::{Run, Usage};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Language;
use serde_json::{Value, json};

use super::follow::Finished;
use super::models;
use crate::problem::{Code, Problem};
use crate::runs::{Recorded, fault};

/// What the id of a response begins with, before that of its run.
const PREFIX: &str = "resp_";

/// The id of a run in that of its response.
pub(super) fn run_of(response: &str) -> Result<&str, Problem> {
    response.strip_prefix(PREFIX).ok_or_else(|| {
        let id: String = response.chars().take(100).collect();
        let detail = format!("no response has the id `{}`", id.escape_debug());
        Problem::new(Code::RunNotFound, detail)
    })
}

/// When a run began, in seconds since 1970.
pub(super) async fn created_at(recorded: &Recorded) -> Result<u64, Problem> {
    let first = recorded.directory.journal().read(&recorded.id, 0, 1).await;
    let first = first.map_err(|error| fault(error.into()))?;
    let micros = first.first().map_or(0, |entry| entry.at.0);
    Ok(u64::try_from(micros / 1_000_000).unwrap_or(0))
}

/// What is known of a response so far: its run, event by event.
pub(super) struct ResponseState {
    pub(super) id: RunId,
    pub(super) created: u64,
    pub(super) run: Run,
    pub(super) language: Language,
    pub(super) output: Vec<Value>,
    pub(super) usage: Usage,
    pub(super) finished: Option<Finished>,
    /// Whether outputs of cells are shown.
    pub(super) shows_outputs: bool,
    /// Bytes of images that are shown.
    pub(super) image_bytes: u64,
}

impl ResponseState {
    pub(super) fn new(id: RunId, created: u64, shows_outputs: bool) -> Self {
        Self {
            id,
            created,
            run: Run::default(),
            language: Language::default(),
            output: Vec::new(),
            usage: Usage::default(),
            finished: None,
            shows_outputs,
            image_bytes: 0,
        }
    }

    /// Its status; a run that nobody drives waits for the service to take it up again.
    fn status(&self, is_driven: bool) -> &'static str {
        match &self.finished {
            Some(Finished::Answered(_)) => "completed",
            Some(Finished::Cut(_)) => "incomplete",
            Some(Finished::Cancelled(_)) => "cancelled",
            Some(Finished::Failed(_)) => "failed",
            None if is_driven => "in_progress",
            None => "queued",
        }
    }

    pub(super) fn object(&self, is_driven: bool) -> Value {
        let start = self.run.start();
        let parent = start.and_then(|start| start.parent.as_ref());
        let error = match &self.finished {
            Some(Finished::Failed(why)) => json!({"code": "server_error", "message": why}),
            _ => Value::Null,
        };
        let incomplete = match &self.finished {
            Some(Finished::Cut(_)) => json!({"reason": "max_output_tokens"}),
            _ => Value::Null,
        };
        json!({
            "id": format!("{PREFIX}{}", self.id),
            "object": "response",
            "created_at": self.created,
            "status": self.status(is_driven),
            "error": error,
            "incomplete_details": incomplete,
            "instructions": null,
            "metadata": {},
            "model": start.map(|start| models::name(&start.model)),
            "output": self.output,
            "parallel_tool_calls": false,
            "previous_response_id": parent.map(|parent| format!("{PREFIX}{}", parent.run)),
            "temperature": start.and_then(|start| start.temperature),
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
            "top_p": null,
            "truncation": "disabled",
            "usage": self.finished.as_ref().map(|_| self.usage()),
        })
    }

    fn usage(&self) -> Value {
        let usage = &self.usage;
        json!({
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        })
    }

    /// Counts the tokens of a reply.
    pub(super) fn count(&mut self, more: &Usage) {
        let usage = &mut self.usage;
        usage.input_tokens += more.input_tokens;
        usage.output_tokens += more.output_tokens;
        usage.cached_tokens += more.cached_tokens;
        usage.cache_write_tokens += more.cache_write_tokens;
        usage.thinking_tokens += more.thinking_tokens;
    }
}
