//! `/v1/sessions/{id}/commands/{pid}/terminal`: the terminal of a command over a WebSocket.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use belljar_sandbox::{CommandProcess, OutputPart};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::commands::{TerminalSizeAsked, find};
use super::socket::{Closing, PROTOCOL, close, revoked, send, stops, upgrade_needed};
use crate::body::Named;
use crate::commands::{CommandEvent, explained};
use crate::listener::Listener;
use crate::problem::{Code, Problem, ProblemBody};
use crate::service::{Caller, Service};
use crate::streams::KEY_CHECK;

/// The largest message of a client, and how many may wait for a program that does not read.
const MAX_MESSAGE: usize = 64 << 10;
const MAX_WAITING: usize = 16;

/// Bytes of output in one message.
const PART: usize = 64 << 10;

/// What a client says, besides keys.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ClientMessage {
    Resize { rows: u16, columns: u16 },
}

/// What is said to a client, besides output.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ServerMessage<'a> {
    Event(CommandEvent),
    Refused(Refused<'a>),
}

/// What was said had no effect.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "refused")]
struct Refused<'a> {
    problem: ProblemBody<'a>,
}

/// Opens a WebSocket to the terminal of a command: bytes as binary messages in both directions, `resize` in and `end` out
/// as JSON text messages. Begins with the output that is kept.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands/{pid}/terminal", tag = "commands", operation_id = "open_terminal",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "`belljar`; plus `belljar.key.KEY` if \
         the client cannot send `Authorization`."),
    ),
    responses(
        (status = 101, description = "The WebSocket is open."),
        (status = 426, description = "The request is not a WebSocket upgrade."),
    )
)]
pub(super) async fn open(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let (_, process) = find(&service, &caller, &id, &pid)?;
    if process.command().terminal.is_none() {
        let detail = "the command has no terminal; start it with `terminal`";
        return Err(Problem::new(Code::CommandRefused, detail));
    }
    let upgrade = upgrade.map_err(|error| upgrade_needed(&error))?;
    let listener = Listener::new(&service, &caller)?;
    let span = tracing::Span::current();
    Ok(upgrade
        .protocols([PROTOCOL])
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |web| serve(process, listener, web).instrument(span)))
}

async fn serve(process: Arc<CommandProcess>, listener: Listener, mut web: WebSocket) {
    // In a task of its own: a program that does not read holds up neither its output nor the end.
    let (keys, mut waiting) = mpsc::channel::<axum::body::Bytes>(MAX_WAITING);
    let typist = tokio::spawn({
        let process = Arc::clone(&process);
        async move {
            while let Some(bytes) = waiting.recv().await {
                if process.write(&bytes).await.is_err() {
                    return;
                }
            }
        }
    });
    let mut terminal = Terminal {
        process,
        listener,
        keys,
        at: 0,
    };
    let Err(closing) = terminal.talk(&mut web).await;
    typist.abort();
    close(&mut web, closing).await;
}

/// One socket. What it holds is bounded: it takes no message while it sends one, or while too many wait.
struct Terminal {
    process: Arc<CommandProcess>,
    listener: Listener,
    keys: mpsc::Sender<axum::body::Bytes>,
    /// How much of the output was sent.
    at: u64,
}

enum TerminalEvent {
    Heard(Option<Result<Message, axum::Error>>),
    Shown(OutputPart),
    Look,
}

impl Terminal {
    async fn talk(&mut self, web: &mut WebSocket) -> Result<std::convert::Infallible, Closing> {
        let over = self.listener.service.over.clone();
        loop {
            if self.listener.is_due() {
                if !self.listener.check_key().await {
                    return Err(revoked());
                }
                if self.listener.sign_of_life().is_some() {
                    self.send(web, Message::Ping(axum::body::Bytes::new()))
                        .await?;
                }
            }
            let can_type = self.keys.capacity() > 0 || self.keys.is_closed();
            let step = tokio::select! {
                () = over.cancelled() => return Err(stops()),
                heard = web.recv(), if can_type => TerminalEvent::Heard(heard),
                shown = self.process.next_output(self.at, PART) => TerminalEvent::Shown(shown),
                () = tokio::time::sleep(KEY_CHECK) => TerminalEvent::Look,
            };
            match step {
                TerminalEvent::Heard(heard) => self.hear(web, heard).await?,
                TerminalEvent::Shown(part) => self.show(web, part).await?,
                TerminalEvent::Look => {}
            }
        }
    }

    async fn hear(
        &mut self,
        web: &mut WebSocket,
        heard: Option<Result<Message, axum::Error>>,
    ) -> Result<(), Closing> {
        match heard {
            None | Some(Ok(Message::Close(_))) => Err(Closing::Gone),
            // Too large, most often.
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot read a message");
                Err(Closing::With(close_code::SIZE, "cannot parse the message"))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(bytes))) => {
                // There is a place; closed where the program takes nothing any more, and its end follows.
                let _ = self.keys.try_send(bytes);
                Ok(())
            }
            Some(Ok(Message::Text(text))) => match self.resize(&text) {
                Ok(()) => Ok(()),
                Err(problem) => {
                    let problem = problem.body();
                    let refused = ServerMessage::Refused(Refused { problem });
                    self.say(web, &refused).await
                }
            },
        }
    }

    fn resize(&self, text: &str) -> Result<(), Problem> {
        let said: ClientMessage = serde_json::from_str(text)
            .map_err(|error| Problem::new(Code::BadBody, error.to_string()))?;
        let ClientMessage::Resize { rows, columns } = said;
        Ok(self
            .process
            .resize(TerminalSizeAsked { rows, columns }.check()?)?)
    }

    /// Sends output, or the end.
    async fn show(&mut self, web: &mut WebSocket, part: OutputPart) -> Result<(), Closing> {
        let is_last = part.chunks.is_empty() && part.lost_bytes == 0;
        if part.lost_bytes > 0 {
            let next = self.at + part.lost_bytes;
            let lost = CommandEvent::Lost {
                bytes: part.lost_bytes,
                next,
            };
            self.say(web, &ServerMessage::Event(lost)).await?;
        }
        self.at = part.next;
        if !part.chunks.is_empty() {
            let bytes: Vec<u8> = part.chunks.into_iter().flat_map(|one| one.bytes).collect();
            self.send(web, Message::Binary(bytes.into())).await?;
        }
        match self.process.end() {
            Some(end) if is_last => {
                let end = explained(end, &self.listener.service);
                let end = ServerMessage::Event(CommandEvent::from_end(end));
                self.say(web, &end).await?;
                Err(Closing::With(close_code::NORMAL, "the command has ended"))
            }
            _ => Ok(()),
        }
    }

    async fn say(
        &mut self,
        web: &mut WebSocket,
        message: &ServerMessage<'_>,
    ) -> Result<(), Closing> {
        match serde_json::to_string(message) {
            Ok(json) => self.send(web, Message::Text(json.into())).await,
            Err(error) => {
                tracing::error!(%error, "cannot write a message");
                Ok(())
            }
        }
    }

    async fn send(&mut self, web: &mut WebSocket, message: Message) -> Result<(), Closing> {
        send(&mut self.listener, web, message).await
    }
}
