//! The events of a process as a stream of frames.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::{CommandEnd, CommandProcess, OutputStream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::rpc::{STREAM, last, last_error, message};
use crate::commands::explained;
use crate::listener::Listener;
use crate::sessions::SessionEntry;
use crate::streams::{KEY_CHECK, Reader};

/// Bytes that are read at once.
const PART: usize = 64 << 10;

/// Somebody who follows a process.
pub(super) struct ProcessReader {
    entry: Arc<SessionEntry>,
    process: Arc<CommandProcess>,
    at: u64,
    listener: Listener,
    /// When the client wants to stop following it.
    deadline: Option<Instant>,
    frames: VecDeque<Bytes>,
    ended: bool,
}

impl ProcessReader {
    pub(super) fn new(
        entry: Arc<SessionEntry>,
        process: Arc<CommandProcess>,
        at: u64,
        listener: Listener,
        deadline: Option<Instant>,
    ) -> Self {
        let start = event(&json!({"start": {"pid": process.pid()}}));
        Self {
            entry,
            process,
            at,
            listener,
            deadline,
            frames: [start].into(),
            ended: false,
        }
    }

    /// Takes what there is: output, and after all of it the end.
    fn take(&mut self) {
        // In this order: after the end, all of the output is there.
        let end = self.process.end();
        let part = self.process.output(self.at, PART);
        self.at = part.next;
        if part.lost_bytes > 0 {
            let note = format!("[{} bytes of output are no longer kept]\n", part.lost_bytes);
            self.frames.push_back(data("stderr", note.as_bytes()));
        }
        let is_empty = part.chunks.is_empty() && part.lost_bytes == 0;
        for chunk in part.chunks {
            let stream = match chunk.stream {
                OutputStream::Stdout => "stdout",
                OutputStream::Stderr => "stderr",
                OutputStream::Terminal => "pty",
            };
            self.frames.push_back(data(stream, &chunk.bytes));
        }
        if let (true, Some(end)) = (is_empty, end) {
            self.finish(&explained(end, &self.listener.service));
        }
    }

    fn finish(&mut self, end: &CommandEnd) {
        self.ended = true;
        if end.timed_out {
            let words = "the process ran longer than the timeout, and was ended";
            self.frames
                .push_back(last_error("deadline_exceeded", words));
            return;
        }
        let SessionEntry { id, tenant, .. } = &*self.entry;
        let sessions = &self.listener.service.sessions;
        if end.exit_code.is_none() && sessions.find(tenant, id).is_err() {
            // Not only the process is gone. Clients know it by these words.
            let words = format!("the sandbox `{id}` was not found");
            self.frames.push_back(last_error("unavailable", &words));
            return;
        }
        self.frames.push_back(event(&json!({"end": end_of(end)})));
        self.frames.push_back(last());
    }
}

impl Reader for ProcessReader {
    const KIND: &'static str = STREAM;

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(self.listener.say(frame));
            }
            if self.ended || self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                self.ended = true;
                let words = "the connection to the process ended at its timeout";
                self.frames
                    .push_back(last_error("deadline_exceeded", words));
                continue;
            }
            let until = now + KEY_CHECK;
            let until = self.deadline.map_or(until, |deadline| deadline.min(until));
            let waited = self.process.next_output(self.at, 1);
            if tokio::time::timeout_at(until, waited).await.is_ok() {
                self.take();
            } else if self.listener.sign_of_life().is_some() {
                self.frames.push_back(event(&json!({"keepalive": {}})));
            }
        }
    }
}

fn event(event: &Value) -> Bytes {
    message(&json!({"event": event}))
}

fn data(stream: &str, bytes: &[u8]) -> Bytes {
    event(&json!({"data": {stream: BASE64.encode(bytes)}}))
}

/// How a process ended, as clients read it.
fn end_of(end: &CommandEnd) -> Value {
    if let Some(code) = end.exit_code {
        let status = format!("exit status {code}");
        return json!({"exitCode": code, "exited": true, "status": status});
    }
    let why = match (&end.lost, end.signal) {
        (Some(lost), _) => format!("lost: {lost}"),
        (None, Some(2)) => "signal: interrupt".to_owned(),
        (None, Some(9)) => "signal: killed".to_owned(),
        (None, Some(15)) => "signal: terminated".to_owned(),
        (None, signal) => format!("signal: {}", signal.unwrap_or(0)),
    };
    json!({"exitCode": -1, "exited": false, "status": why, "error": why})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_how() {
        let end = |exit_code, signal, lost: Option<&str>| {
            end_of(&CommandEnd {
                exit_code,
                signal,
                timed_out: false,
                lost: lost.map(str::to_owned),
            })
        };
        let ended = json!({"exitCode": 3, "exited": true, "status": "exit status 3"});
        assert_eq!(end(Some(3), None, None), ended);
        assert_eq!(end(None, Some(9), None)["error"], "signal: killed");
        assert_eq!(end(None, Some(11), None)["error"], "signal: 11");
        assert_eq!(end(None, None, Some("asleep"))["error"], "lost: asleep");
        assert_eq!(end(None, Some(9), None)["exitCode"], -1);
    }
}
