//! A chat as a stream of chunks.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use belljar_agent::RunEvent;
use serde_json::{Value, json};

use super::chat_state::{ChatHead, ChatState};
use super::errors::in_stream;
use super::follow::{Attended, Finished, Follower};
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::{KEY_CHECK, Reader};

/// A client that reads the chunks of a chat.
pub(super) struct ChatReader {
    head: ChatHead,
    /// Whether the last chunk is to tell the use of tokens.
    usage: bool,
    state: ChatState,
    follower: Follower,
    attended: Attended,
    listener: Listener,
    unsent: VecDeque<Bytes>,
    is_over: bool,
}

impl ChatReader {
    pub(super) fn new(
        service: &Arc<Service>,
        caller: &Caller,
        head: ChatHead,
        usage: bool,
        follower: Follower,
        attended: Attended,
    ) -> Result<Self, Problem> {
        let mut reader = Self {
            head,
            usage,
            state: ChatState::default(),
            follower,
            attended,
            listener: Listener::new(service, caller)?,
            unsent: VecDeque::new(),
            is_over: false,
        };
        reader.chunk(&json!({"role": "assistant", "content": ""}), None);
        Ok(reader)
    }

    fn send(&mut self, object: &Value) {
        self.unsent.push_back(format!("data: {object}\n\n").into());
    }

    fn chunk(&mut self, delta: &Value, reason: Option<&str>) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
        let mut object = self.head.object("chat.completion.chunk", &json!([choice]));
        if self.usage {
            object["usage"] = Value::Null;
        }
        self.send(&object);
    }

    /// A line that clients skip: it says what is being done, and keeps the connection.
    fn note(&mut self, step: u32, what: &str) {
        self.unsent
            .push_back(format!(": step {step}, {what}\n\n").into());
    }

    fn hear(&mut self, event: Result<Option<RunEvent>, Problem>) {
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return self.end(),
            Err(problem) => {
                self.send(&in_stream(problem.code.as_str(), &problem.detail));
                return self.is_over = true;
            }
        };
        self.state.hear(&event);
        match event {
            RunEvent::Asked { step, .. } => self.note(step, "model"),
            RunEvent::CallStarted { step, .. } => self.note(step, "python"),
            _ => {}
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        self.attended.ended();
        let (text, reason) = match self.state.finished.take() {
            Some(Finished::Answered(text)) => (text, "stop"),
            Some(Finished::Cut(text)) => (text, "length"),
            Some(Finished::Cancelled(why) | Finished::Failed(why)) => {
                return self.send(&in_stream("run_failed", &why));
            }
            None => return self.send(&in_stream("internal", "the run has no end")),
        };
        self.chunk(&json!({"content": text}), None);
        self.chunk(&json!({}), Some(reason));
        if self.usage {
            let mut object = self.head.object("chat.completion.chunk", &json!([]));
            object["usage"] = self.state.usage();
            self.send(&object);
        }
        self.unsent
            .push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

impl Reader for ChatReader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(part) = self.unsent.pop_front() {
                return Some(self.listener.say(part));
            }
            if self.is_over || self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            tokio::select! {
                event = self.follower.next() => self.hear(event),
                () = tokio::time::sleep(KEY_CHECK) => {
                    if let Some(sign) = self.listener.sign_of_life() {
                        return Some(sign);
                    }
                }
            }
        }
    }
}
