//! `/api/kernels/{id}/channels`: the WebSocket of a kernel.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use belljar_jupyter::{
    Channel, MessageError, Object, Request, Route, V1, decode_json, decode_json_with_buffers,
    decode_v1, json_from_v1,
};
use belljar_mcp::count_values;
use serde::Deserialize;
use tracing::Instrument as _;

use super::kernel::find;
use super::running::kernel_of;
use crate::api::socket::{Closing, close, revoked, send, stops, upgrade_needed};
use crate::body::{Named, Query};
use crate::kernels::{KernelHandle, LogReader, TooSlow};
use crate::listener::Listener;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::streams::KEY_CHECK;
use crate::tenants::TenantName;

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;
type Decoded = Result<(Channel, belljar_jupyter::Message), MessageError>;

/// The largest message of a client. Each socket may hold one.
const MAX_MESSAGE: usize = 1 << 20;

/// The most values of a message, and about how many bytes of memory each takes.
const MAX_VALUES: usize = 10_000;
const VALUE_BYTES: usize = 64;

/// Sockets of one kernel.
const MAX_SOCKETS: usize = 16;

/// The longest name that a client gives itself, in bytes.
const MAX_NAME: usize = 255;

#[derive(Deserialize)]
pub(super) struct ChannelsAsked {
    session_id: Option<String>,
}

pub(super) async fn open(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<ChannelsAsked>,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    connect(service, caller, &id, asked, upgrade)
}

/// The same for clients that have their key in the path.
pub(super) async fn open_by_path(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((_, id)): Named<(String, String)>,
    Query(asked): Query<ChannelsAsked>,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    connect(service, caller, &id, asked, upgrade)
}

fn connect(
    service: Arc<Service>,
    caller: Caller,
    id: &str,
    asked: ChannelsAsked,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    let entry = find(&service, &caller, id)?;
    let upgrade = upgrade.map_err(|error| upgrade_needed(&error))?;
    let name = asked.session_id.filter(|name| !name.is_empty());
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        let detail = format!("`session_id` must have at most {MAX_NAME} bytes and no spaces");
        return Err(Problem::new(Code::BadQuery, detail));
    }
    let handle = kernel_of(&service, &entry);
    if handle.connections() >= MAX_SOCKETS {
        let detail = format!("the limit is {MAX_SOCKETS} connections of a kernel");
        return Err(Problem::new(Code::TooManyStreams, detail));
    }
    let listener = Listener::new(&service, &caller)?;
    let upgrade = upgrade
        .protocols([V1])
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE);
    let socket = Socket {
        reader: handle.join(name.as_deref()),
        is_v1: upgrade.selected_protocol().is_some(),
        handle,
        listener,
        service,
        tenant: caller.tenant,
    };
    let span = tracing::Span::current();
    Ok(upgrade.on_upgrade(move |web| socket.serve(web).instrument(span)))
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && !name.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// One client of a kernel. It takes no message while it sends one.
struct Socket {
    service: Arc<Service>,
    handle: Arc<KernelHandle>,
    listener: Listener,
    reader: LogReader,
    is_v1: bool,
    tenant: TenantName,
}

impl Socket {
    async fn serve(mut self, mut web: WebSocket) {
        let Err(closing) = self.talk(&mut web).await;
        close(&mut web, closing).await;
    }

    async fn talk(&mut self, web: &mut WebSocket) -> Result<std::convert::Infallible, Closing> {
        let over = self.service.over.clone();
        let ended = self.handle.over.clone();
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
            tokio::select! {
                () = over.cancelled() => return Err(stops()),
                heard = web.recv() => self.hear(heard)?,
                said = self.reader.next() => self.tell(web, said).await?,
                () = ended.cancelled() => {
                    // The last words first.
                    while let Some(said) = self.reader.read().map_err(slow)? {
                        self.tell(web, Ok(said)).await?;
                    }
                    if over.is_cancelled() {
                        return Err(stops());
                    }
                    return Err(Closing::With(close_code::NORMAL, "the kernel has ended"));
                }
                () = tokio::time::sleep(KEY_CHECK) => {}
            }
        }
    }

    async fn tell(
        &mut self,
        web: &mut WebSocket,
        said: Result<axum::body::Bytes, TooSlow>,
    ) -> Result<(), Closing> {
        let frame = said.map_err(slow)?;
        let message = if self.is_v1 {
            Message::Binary(frame)
        } else {
            let Some(text) = json_from_v1(&frame) else {
                tracing::error!("cannot read a message again");
                return Ok(());
            };
            Message::Text(text.into())
        };
        self.send(web, message).await
    }

    async fn send(&mut self, web: &mut WebSocket, message: Message) -> Result<(), Closing> {
        send(&mut self.listener, web, message).await
    }

    fn hear(&mut self, heard: Option<Result<Message, axum::Error>>) -> Result<(), Closing> {
        let (bytes, decode): (_, fn(&[u8]) -> Decoded) = match heard {
            None | Some(Ok(Message::Close(_))) => return Err(Closing::Gone),
            // Too large, most often.
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot read a message");
                return Err(Closing::With(close_code::SIZE, "cannot parse the message"));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Text(text))) => (axum::body::Bytes::from(text), decode_json),
            Some(Ok(Message::Binary(bytes))) if self.is_v1 => (bytes, decode_v1),
            Some(Ok(Message::Binary(bytes))) => (bytes, decode_json_with_buffers),
        };
        let values = count_values(&bytes);
        if values > MAX_VALUES {
            return Err(Closing::With(close_code::SIZE, "too many values"));
        }
        let Ok((channel, mut message)) = decode(&bytes) else {
            let why = "not a message of the protocol";
            return Err(Closing::With(close_code::INVALID, why));
        };
        // No request that is answered has more than a header and a content.
        (message.parent, message.metadata) = (Object::new(), Object::new());
        message.buffers = Vec::new();
        let charged = &self.service.admission.charged;
        let size = bytes.len() + VALUE_BYTES * values;
        let Some(charge) = charged.charge(&self.tenant, size) else {
            let why = "the service holds the maximum of bytes for the tenant";
            return Err(Closing::With(close_code::AGAIN, why));
        };
        let request = Request {
            from: Route {
                identity: self.reader.name.clone().into_bytes(),
                ..Route::default()
            },
            message,
            held: Some(Arc::new(charge)),
        };
        if !self.handle.submit(channel, request) {
            let why = "too many requests wait";
            return Err(Closing::With(close_code::POLICY, why));
        }
        Ok(())
    }
}

fn slow(_: TooSlow) -> Closing {
    let why = "messages are no longer kept: the client read too slowly";
    Closing::With(close_code::POLICY, why)
}
