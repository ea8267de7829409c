//! A response as a stream of events.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use belljar_agent::RunEvent;
use serde_json::{Value, json};

use super::follow::{Attended, Follower};
use super::response_object::ResponseState;
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::streams::{KEY_CHECK, Reader};

/// A client that reads the events of a response.
pub(super) struct ResponseReader {
    state: ResponseState,
    follower: Follower,
    /// None for a run that continues without its client.
    attended: Option<Attended>,
    listener: Listener,
    unsent: VecDeque<Bytes>,
    /// The number of the next event.
    number: u64,
    /// The number of the first one that the client has not got yet.
    first: u64,
    is_over: bool,
}

impl ResponseReader {
    pub(super) fn new(
        service: &Arc<Service>,
        caller: &Caller,
        state: ResponseState,
        follower: Follower,
        attended: Option<Attended>,
        first: u64,
    ) -> Result<Self, Problem> {
        Ok(Self {
            state,
            follower,
            attended,
            listener: Listener::new(service, caller)?,
            unsent: VecDeque::new(),
            number: 0,
            first,
            is_over: false,
        })
    }

    fn send(&mut self, mut event: Value) {
        if self.number >= self.first {
            event["sequence_number"] = self.number.into();
            let kind = event["type"].as_str().unwrap_or_default();
            let text = format!("event: {kind}\ndata: {event}\n\n");
            self.unsent.push_back(text.into());
        }
        self.number += 1;
    }

    async fn hear(&mut self, event: Option<RunEvent>) -> Result<(), Problem> {
        let Some(event) = event else {
            self.is_over = true;
            if let Some(attended) = &mut self.attended {
                attended.ended();
            }
            return Ok(());
        };
        let told = self.state.hear(&event, &self.follower.blobs()).await?;
        for event in told {
            self.send(event);
        }
        Ok(())
    }
}

impl Reader for ResponseReader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(part) = self.unsent.pop_front() {
                return Some(self.listener.say(part));
            }
            if self.is_over || self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            let event = tokio::select! {
                event = self.follower.next() => event,
                () = tokio::time::sleep(KEY_CHECK) => {
                    if let Some(sign) = self.listener.sign_of_life() {
                        return Some(sign);
                    }
                    continue;
                }
            };
            let heard = match event {
                Ok(event) => self.hear(event).await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = heard {
                self.is_over = true;
                self.send(json!({
                    "type": "error",
                    "code": problem.code.as_str(),
                    "message": problem.detail,
                    "param": null,
                }));
            }
        }
    }
}
