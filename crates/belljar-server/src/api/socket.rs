//! `/v1/sessions/{id}/ws`: a session as somebody uses it who types.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use utoipa::IntoParams;

use super::cells::{OnFailureAsked, RunCell, WhenBusyAsked, begin};
use super::variables::VariablesAsked;
use crate::body::{Named, Query};
use crate::cell_record::{CellRecord, Position};
use crate::listener::Listener;
use crate::problem::{Code, Problem, ProblemBody};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::{KEY_CHECK, parts};

/// The subprotocol. A browser can't send headers of its own with a WebSocket, so the key may stand in a second one, which
/// is never answered.
pub(super) const PROTOCOL: &str = "belljar";

/// The largest message of a client. Each socket may hold one.
const MAX_MESSAGE: usize = 1 << 20;

/// Cells of a socket that wait, run, or are not read to their ends.
const MAX_CELLS: usize = 16;

/// The longest name that a client gives a cell, in bytes.
const MAX_ID: usize = 255;

/// How long a client may take for one message.
const SEND_TIME: Duration = Duration::from_mins(1);

/// How long the last word may take.
const CLOSE_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Resume {
    /// Cell whose events to send first.
    cell: Option<u32>,
    /// Number of the last received event of that cell.
    after: Option<u64>,
}

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ClientMessage {
    Run {
        /// What the client calls the cell.
        id: Option<String>,
        code: String,
        namespace: Option<String>,
        wall_time_ms: Option<u64>,
        #[serde(default)]
        when_busy: WhenBusyAsked,
        #[serde(default)]
        on_failure: OnFailureAsked,
        #[serde(default)]
        input: bool,
        #[serde(default)]
        variables: VariablesAsked,
    },
    Interrupt,
}

/// What is said to a client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ServerMessage<'a> {
    /// A cell has begun.
    Accepted {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        cell: u32,
    },
    /// What was said had no effect.
    Refused {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        problem: ProblemBody<'a>,
    },
    Interrupted {
        /// False if no cell ran.
        interrupted: bool,
    },
    /// An event of a cell, with its number, kind and contents as a stream has them.
    Event {
        cell: u32,
        number: u64,
        kind: &'a str,
        data: &'a RawValue,
    },
}

/// Opens a WebSocket: cells and interrupts in, events out, as JSON text messages.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/ws", tag = "cells", operation_id = "open_socket",
    params(
        ("id" = String, Path, description = "The session."),
        Resume,
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
    Named(id): Named<String>,
    Query(resume): Query<Resume>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let upgrade = upgrade.map_err(|error| upgrade_needed(&error))?;
    let mut following = VecDeque::new();
    match (resume.cell, resume.after) {
        (Some(cell), after) => following.push_back(entry.cell(cell)?.after(after.unwrap_or(0))?),
        (None, Some(_)) => {
            return Err(Problem::new(Code::BadQuery, "`after` needs `cell`"));
        }
        (None, None) => {}
    }
    let socket = Socket {
        listener: Listener::new(&service, &caller)?,
        service,
        entry,
        starting: FuturesUnordered::new(),
        following,
    };
    let span = tracing::Span::current();
    Ok(upgrade
        .protocols([PROTOCOL])
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |web| socket.serve(web).instrument(span)))
}

/// A cell that waits for its turn, and what its client calls it.
type Starting = JoinHandle<(Option<String>, Result<Arc<CellRecord>, Problem>)>;

/// One socket. What it holds is bounded: it takes no message while it sends one.
struct Socket {
    service: Arc<Service>,
    entry: Arc<SessionEntry>,
    listener: Listener,
    /// They begin though the socket closes, as they would if a connection broke.
    starting: FuturesUnordered<Starting>,
    following: VecDeque<Position>,
}

/// Why a socket ends.
pub(super) enum Closing {
    Gone,
    With(u16, &'static str),
}

enum SocketEvent {
    Heard(Option<Result<Message, axum::Error>>),
    Begun(Option<String>, Result<Arc<CellRecord>, Problem>),
    Told(Option<axum::body::Bytes>),
    Look,
}

impl Socket {
    async fn serve(mut self, mut web: WebSocket) {
        let Err(closing) = self.talk(&mut web).await;
        close(&mut web, closing).await;
    }

    async fn talk(&mut self, web: &mut WebSocket) -> Result<std::convert::Infallible, Closing> {
        let over = self.service.over.clone();
        loop {
            if self.listener.is_due() {
                self.look(web).await?;
            }
            let follows = !self.following.is_empty();
            let step = tokio::select! {
                () = over.cancelled() => return Err(stops()),
                heard = web.recv() => SocketEvent::Heard(heard),
                Some(begun) = self.starting.next(), if !self.starting.is_empty() => match begun {
                    Ok((id, record)) => SocketEvent::Begun(id, record),
                    Err(error) => SocketEvent::Begun(None, Err(Problem::internal("a cell", error))),
                },
                told = next(&mut self.following), if follows => SocketEvent::Told(told),
                () = tokio::time::sleep(KEY_CHECK) => SocketEvent::Look,
            };
            match step {
                SocketEvent::Heard(heard) => self.hear(web, heard).await?,
                SocketEvent::Begun(id, Ok(record)) => {
                    let cell = record.number;
                    let id = id.as_deref();
                    self.say(web, &ServerMessage::Accepted { id, cell }).await?;
                    match record.after(0) {
                        Ok(position) => self.following.push_back(position),
                        Err(_) => return Err(slow()),
                    }
                }
                SocketEvent::Begun(id, Err(problem)) => {
                    self.refuse(web, id.as_deref(), &problem).await?;
                }
                SocketEvent::Told(Some(event)) => self.tell(web, &event).await?,
                SocketEvent::Told(None) => {
                    let read = self.following.pop_front();
                    if read.is_some_and(|read| !read.is_at_the_end()) {
                        return Err(slow());
                    }
                }
                SocketEvent::Look => {}
            }
        }
    }

    /// Looks whether the socket may stay open, and shows a sign of life.
    async fn look(&mut self, web: &mut WebSocket) -> Result<(), Closing> {
        if !self.listener.check_key().await {
            return Err(revoked());
        }
        if self.following.is_empty()
            && self.starting.is_empty()
            && self.entry.any_session().is_err()
        {
            return Err(Closing::With(close_code::NORMAL, "the session has ended"));
        }
        if self.listener.sign_of_life().is_some() {
            self.send(web, Message::Ping(axum::body::Bytes::new()))
                .await?;
        }
        Ok(())
    }

    async fn hear(
        &mut self,
        web: &mut WebSocket,
        heard: Option<Result<Message, axum::Error>>,
    ) -> Result<(), Closing> {
        let text = match heard {
            None | Some(Ok(Message::Close(_))) => return Err(Closing::Gone),
            // Too large, most often.
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot read a message");
                return Err(Closing::With(close_code::SIZE, "cannot parse the message"));
            }
            Some(Ok(Message::Binary(_))) => {
                let why = "messages must be JSON text";
                return Err(Closing::With(close_code::UNSUPPORTED, why));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Text(text))) => text,
        };
        let said = match serde_json::from_str(&text) {
            Ok(said) => said,
            Err(error) => {
                let problem = Problem::new(Code::BadBody, error.to_string());
                return self.refuse(web, None, &problem).await;
            }
        };
        match said {
            ClientMessage::Interrupt => match self.entry.any_session() {
                Ok(session) => {
                    let interrupted = session.interrupt();
                    drop(session);
                    self.say(web, &ServerMessage::Interrupted { interrupted })
                        .await
                }
                Err(problem) => self.refuse(web, None, &problem).await,
            },
            ClientMessage::Run {
                id,
                code,
                namespace,
                wall_time_ms,
                when_busy,
                on_failure,
                input,
                variables,
            } => {
                if let Err(problem) = self.check(id.as_deref()) {
                    return self.refuse(web, None, &problem).await;
                }
                let asked = RunCell {
                    code,
                    namespace,
                    wall_time_ms,
                    when_busy,
                    on_failure,
                    input,
                    variables,
                };
                let (service, entry) = (Arc::clone(&self.service), Arc::clone(&self.entry));
                let begins = async move { (id, begin(&service, &entry, asked).await) };
                self.starting.push(tokio::spawn(begins.in_current_span()));
                Ok(())
            }
        }
    }

    /// Whether one more cell may be begun.
    fn check(&self, id: Option<&str>) -> Result<(), Problem> {
        if id.is_some_and(|id| id.len() > MAX_ID) {
            let detail = format!("`id` must have at most {MAX_ID} bytes");
            return Err(Problem::new(Code::BadBody, detail));
        }
        if self.service.is_draining() {
            return Err(Problem::draining());
        }
        if self.starting.len() + self.following.len() >= MAX_CELLS {
            let detail = format!("a socket may have at most {MAX_CELLS} unfinished cells");
            return Err(Problem::new(Code::TooManyCells, detail));
        }
        Ok(())
    }

    async fn tell(&mut self, web: &mut WebSocket, event: &[u8]) -> Result<(), Closing> {
        let cell = self.following.front().map_or(0, Position::cell);
        let told = parts(event).and_then(|(number, kind, json)| {
            Some(ServerMessage::Event {
                cell,
                number: number.parse().ok()?,
                kind,
                data: serde_json::from_str(json).ok()?,
            })
        });
        let Some(told) = told else {
            tracing::error!("cannot read an event again");
            return Ok(());
        };
        self.say(web, &told).await
    }

    async fn refuse(
        &mut self,
        web: &mut WebSocket,
        id: Option<&str>,
        problem: &Problem,
    ) -> Result<(), Closing> {
        let problem = problem.body();
        self.say(web, &ServerMessage::Refused { id, problem }).await
    }

    async fn say(
        &mut self,
        web: &mut WebSocket,
        answer: &ServerMessage<'_>,
    ) -> Result<(), Closing> {
        match serde_json::to_string(answer) {
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

/// Sends a message. A client that does not take it, or may not any more, is cut off.
pub(super) async fn send(
    listener: &mut Listener,
    web: &mut WebSocket,
    message: Message,
) -> Result<(), Closing> {
    let began = Instant::now();
    let over = listener.service.over.clone();
    let mut sending = std::pin::pin!(web.send(message));
    loop {
        tokio::select! {
            sent = &mut sending => {
                listener.spoke();
                return sent.map_err(|_| Closing::Gone);
            }
            () = over.cancelled() => return Err(Closing::Gone),
            () = tokio::time::sleep(KEY_CHECK) => {
                // There is no use in a last word behind what is not read.
                if began.elapsed() > SEND_TIME || !listener.check_key().await {
                    return Err(Closing::Gone);
                }
            }
        }
    }
}

/// Closes a socket, with a last word where somebody may hear it.
pub(super) async fn close(web: &mut WebSocket, closing: Closing) {
    if let Closing::With(code, why) = closing {
        let frame = CloseFrame {
            code,
            reason: why.into(),
        };
        let last = web.send(Message::Close(Some(frame)));
        let _ = tokio::time::timeout(CLOSE_TIME, last).await;
    }
}

pub(super) fn upgrade_needed(error: &WebSocketUpgradeRejection) -> Problem {
    tracing::debug!(%error, "no WebSocket upgrade requested");
    Problem::new(Code::UpgradeNeeded, "send `Upgrade: websocket`")
}

/// The next event of the cell that is read now.
async fn next(following: &mut VecDeque<Position>) -> Option<axum::body::Bytes> {
    following.front_mut()?.next().await
}

pub(super) fn stops() -> Closing {
    Closing::With(close_code::AWAY, "the service is shutting down")
}

pub(super) fn revoked() -> Closing {
    Closing::With(close_code::POLICY, "the key was revoked")
}

fn slow() -> Closing {
    let why = "events are no longer kept: the client read too slowly";
    Closing::With(close_code::POLICY, why)
}
