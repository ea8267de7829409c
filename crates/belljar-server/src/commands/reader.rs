//! Reading the output of a command as events: from any position, over as many connections as it takes.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use belljar_sandbox::protocol::unfinished;
use belljar_sandbox::{CommandEnd, CommandProcess, OutputChunk, OutputPart};

use super::view::CommandEvent;
use crate::listener::Listener;
use crate::problem::Problem;
use crate::service::Service;
use crate::streams::{KEY_CHECK, Reader, event};

/// Bytes that are read at once.
const PART: usize = 64 << 10;

/// How far a command has been read.
#[derive(Debug)]
pub(crate) struct CommandPosition {
    process: Arc<CommandProcess>,
    at: u64,
    ended: bool,
}

impl CommandPosition {
    pub(crate) fn new(process: Arc<CommandProcess>, from: u64) -> Self {
        Self {
            at: from.min(written(&process)),
            process,
            ended: false,
        }
    }

    /// The next events; none after the end.
    async fn next(&mut self, service: &Service) -> Vec<CommandEvent> {
        let mut seen = self.at;
        while !self.ended {
            self.process.next_output(seen, 1).await;
            // In this order: after the end, all of the output is there.
            let end = self.process.end();
            let part = self.process.output(self.at, PART);
            let next = part.next;
            let (events, at) = events(part, self.at, end.is_some());
            self.at = at;
            if !events.is_empty() {
                return events;
            }
            if let Some(end) = end {
                self.ended = true;
                return vec![CommandEvent::from_end(explained(end, service))];
            }
            seen = next;
        }
        Vec::new()
    }

    /// An event of a stream. Its id is the position after it, so that a client can continue there.
    fn render(&self, told: &CommandEvent) -> Result<Bytes, Problem> {
        let number = match told {
            CommandEvent::Started { .. } => 0,
            CommandEvent::Output { next, .. } | CommandEvent::Lost { next, .. } => *next,
            CommandEvent::End { .. } => self.at + 1,
        };
        let json = serde_json::to_string(told)
            .map_err(|error| Problem::internal("cannot write an event", error))?;
        Ok(event(number, told.kind(), &json))
    }
}

/// How many bytes a command has written so far.
pub(crate) fn written(process: &CommandProcess) -> u64 {
    process.output(u64::MAX, 0).next
}

/// The events of a part of the output that begins at this position, and the position after them. A letter that
/// is not whole yet waits for its rest.
fn events(part: OutputPart, from: u64, ended: bool) -> (Vec<CommandEvent>, u64) {
    let mut at = from + part.lost_bytes;
    let mut events = Vec::new();
    if part.lost_bytes > 0 {
        events.push(CommandEvent::Lost {
            bytes: part.lost_bytes,
            next: at,
        });
    }
    let mut chunks: Vec<OutputChunk> = Vec::new();
    for chunk in part.chunks {
        match chunks.last_mut() {
            Some(last) if last.stream == chunk.stream => last.bytes.extend(chunk.bytes),
            _ => chunks.push(chunk),
        }
    }
    let count = chunks.len();
    for (index, chunk) in chunks.into_iter().enumerate() {
        let tail = unfinished(&chunk.bytes);
        let mut whole = chunk.bytes.len() - tail;
        if index + 1 < count || ended && whole == 0 {
            whole = chunk.bytes.len();
        }
        if whole == 0 {
            break;
        }
        at += whole as u64;
        events.push(CommandEvent::Output {
            stream: chunk.stream.into(),
            text: String::from_utf8_lossy(&chunk.bytes[..whole]).into_owned(),
            next: at,
        });
    }
    (events, at)
}

/// The end of a command. The engine can't know that the whole service stops.
pub(crate) fn explained(end: CommandEnd, service: &Service) -> CommandEnd {
    match end.lost {
        Some(_) if service.is_draining() => CommandEnd {
            lost: Some("the service stopped".to_owned()),
            ..end
        },
        _ => end,
    }
}

/// Kills a command when its client is gone. No effect on one that has ended.
#[derive(Debug)]
struct KillOnDrop(Arc<CommandProcess>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill() {
            tracing::warn!(%error, pid = self.0.pid(), "cannot kill a command without a client");
        }
    }
}

/// Somebody who reads a stream of the events of a command.
pub(crate) struct CommandReader {
    position: CommandPosition,
    listener: Listener,
    rendered: VecDeque<Bytes>,
    _kill: Option<KillOnDrop>,
}

impl CommandReader {
    /// A stream from a position.
    pub(crate) fn answer_from(position: CommandPosition, listener: Listener) -> Response {
        Self {
            position,
            listener,
            rendered: VecDeque::new(),
            _kill: None,
        }
        .answer()
    }

    /// A stream for the client that started the command: with a first event, and the command ends with it.
    pub(crate) fn answer_starter(
        process: &Arc<CommandProcess>,
        listener: Listener,
    ) -> Result<Response, Problem> {
        let position = CommandPosition::new(Arc::clone(process), 0);
        let pid = process.pid();
        let started = position.render(&CommandEvent::Started { pid })?;
        let reader = Self {
            position,
            listener,
            rendered: [started].into(),
            _kill: Some(KillOnDrop(Arc::clone(process))),
        };
        Ok(reader.answer())
    }
}

impl Reader for CommandReader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.rendered.pop_front() {
                return Some(self.listener.say(event));
            }
            if self.listener.is_due() && !self.listener.check_key().await {
                return None;
            }
            match tokio::time::timeout(KEY_CHECK, self.position.next(&self.listener.service)).await
            {
                Ok(events) if events.is_empty() => return None,
                Ok(events) => {
                    for event in &events {
                        self.rendered.push_back(self.position.render(event).ok()?);
                    }
                }
                Err(_) => {
                    if let Some(sign) = self.listener.sign_of_life() {
                        return Some(sign);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::view::CommandStream;
    use belljar_sandbox::OutputStream;

    fn part(lost_bytes: u64, chunks: &[(OutputStream, &[u8])]) -> OutputPart {
        let chunks = chunks.iter().map(|(stream, bytes)| OutputChunk {
            stream: *stream,
            bytes: bytes.to_vec(),
        });
        OutputPart {
            lost_bytes,
            chunks: chunks.collect(),
            next: 0,
        }
    }

    fn output(stream: CommandStream, text: &str, next: u64) -> CommandEvent {
        CommandEvent::Output {
            stream,
            text: text.to_owned(),
            next,
        }
    }

    #[test]
    fn a_letter_in_two_pieces_is_one() {
        let (out, err) = (OutputStream::Stdout, OutputStream::Stderr);
        let euro = "€".as_bytes();
        // Its beginning waits, its rest makes it whole.
        let first = part(0, &[(out, b"ab"), (out, &euro[..2])]);
        let (told, at) = events(first, 10, false);
        assert_eq!(told, [output(CommandStream::Stdout, "ab", 12)]);
        assert_eq!(at, 12);
        assert_eq!(
            events(part(0, &[(out, &euro[..2])]), 12, false),
            (vec![], 12)
        );
        let whole = part(0, &[(out, &euro[..2]), (out, &euro[2..])]);
        let told = events(whole, 12, false);
        assert_eq!(told, (vec![output(CommandStream::Stdout, "€", 15)], 15));
        // Nothing waits for a rest that can't come.
        let cut = part(3, &[(out, &euro[..2]), (err, b"x")]);
        let told = events(cut, 0, false);
        let lost = CommandEvent::Lost { bytes: 3, next: 3 };
        let expected = [
            lost,
            output(CommandStream::Stdout, "\u{fffd}", 5),
            output(CommandStream::Stderr, "x", 6),
        ];
        assert_eq!(told, (expected.to_vec(), 6));
        let cut = part(0, &[(out, &euro[..2])]);
        let told = events(cut, 0, true);
        assert_eq!(
            told,
            (vec![output(CommandStream::Stdout, "\u{fffd}", 2)], 2)
        );
    }
}
