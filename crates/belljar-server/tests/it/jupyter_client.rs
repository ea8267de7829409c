//! A client of Jupyter's wire, written from its specification.

use std::time::Duration;

use belljar_server::ServerOptions;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{Ask as _, Client, World, options};

pub(crate) const V1: &str = "v1.kernel.websocket.jupyter.org";

pub(crate) fn on() -> ServerOptions {
    options(|options| options.jupyter = true)
}

/// A request below `/jupyter` with the key of a client.
pub(crate) fn ask(client: &Client, method: &str, path: &str) -> RequestBuilder {
    let method: Method = method.parse().unwrap();
    let request = client.without_key(method, &format!("/jupyter{path}"));
    request.header("authorization", format!("token {}", client.key.text))
}

/// Starts a kernel. Returns its id.
pub(crate) async fn kernel(client: &Client) -> String {
    let made = ask(client, "POST", "/api/kernels").json(&json!({"name": "python3"}));
    let made = made.json_with(201).await;
    made["id"].as_str().unwrap().to_owned()
}

/// One socket of a kernel.
pub(crate) struct Wire {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) is_v1: bool,
    sent: u32,
}

/// Messages of one request: their channel, type and content.
pub(crate) struct Seen(pub(crate) Vec<(String, String, Value)>);

impl Seen {
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.0.iter().map(|(_, kind, _)| kind.as_str()).collect()
    }

    pub(crate) fn content(&self, kind: &str) -> &Value {
        let found = self.0.iter().find(|(_, one, _)| one == kind);
        &found.unwrap_or_else(|| panic!("no {kind}: {:?}", self.0)).2
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.0.iter().filter_map(|(_, _, it)| it["text"].as_str());
        texts.collect()
    }

    pub(crate) fn value(&self) -> &str {
        let value = &self.content("execute_result")["data"]["text/plain"];
        value.as_str().unwrap()
    }
}

impl Wire {
    /// Opens a socket, or returns the status of the refusal.
    pub(crate) async fn connect(
        world: &World,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("ws://{}/jupyter{path}", world.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((socket, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let is_v1 = protocol.is_some_and(|it| it == V1);
                Ok(Self {
                    socket,
                    is_v1,
                    sent: 0,
                })
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// The JSON form, as a gateway has it.
    pub(crate) async fn open(world: &World, client: &Client, kernel: &str) -> Self {
        let key = format!("token {}", client.key.text);
        let path = format!("/api/kernels/{kernel}/channels");
        let opened = Self::connect(world, &path, &[("authorization", &key)]).await;
        opened.unwrap()
    }

    /// The form with offsets, as `@jupyterlab/services` in Node has it.
    pub(crate) async fn open_v1(world: &World, client: &Client, kernel: &str, name: &str) -> Self {
        let (key, path) = (&client.key.text, format!("/api/kernels/{kernel}/channels"));
        let path = format!("{path}?token={key}&session_id={name}");
        let opened = Self::connect(world, &path, &[("sec-websocket-protocol", V1)]).await;
        let opened = opened.unwrap();
        assert!(opened.is_v1);
        opened
    }

    /// Sends a request. Returns its id.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that tests write `json!` without `&`"
    )]
    pub(crate) async fn send(&mut self, channel: &str, kind: &str, content: Value) -> String {
        self.sent += 1;
        let id = format!("{kind}-{}", self.sent);
        let header = json!({"msg_id": id, "msg_type": kind, "session": "s", "username": "u", "version": "5.4"});
        let message = if self.is_v1 {
            let parts = [header, json!({}), json!({}), content].map(|part| part.to_string());
            let mut all = vec![channel.as_bytes().to_vec()];
            all.extend(parts.map(String::into_bytes));
            Message::binary(with_offsets(&all))
        } else {
            let message = json!({
                "channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content,
            });
            Message::text(message.to_string())
        };
        self.socket.send(message).await.unwrap();
        id
    }

    /// The next message; `Err` with the code of the close.
    pub(crate) async fn hear(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(30), self.socket.next());
            match next.await.expect("nothing was said") {
                Some(Ok(Message::Text(text))) => {
                    assert!(!self.is_v1);
                    return Ok(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Binary(frame))) => {
                    assert!(self.is_v1);
                    return Ok(from_offsets(&frame));
                }
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The messages that a request causes, with its reply, until the kernel is idle.
    pub(crate) async fn seen(&mut self, id: &str) -> Seen {
        let (mut seen, mut is_idle, mut has_reply) = (Vec::new(), false, false);
        while !(is_idle && has_reply) {
            let message = self.hear().await.unwrap();
            if message["parent_header"]["msg_id"] != id {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let (channel, kind) = (
                text(&message["channel"]),
                text(&message["header"]["msg_type"]),
            );
            let content = message["content"].clone();
            is_idle = is_idle || content["execution_state"] == "idle";
            has_reply = has_reply || kind.ends_with("_reply");
            seen.push((channel, kind, content));
        }
        Seen(seen)
    }

    pub(crate) async fn ask(&mut self, kind: &str, content: Value) -> Value {
        let id = self.send("shell", kind, content).await;
        let seen = self.seen(&id).await;
        seen.content(&kind.replace("_request", "_reply")).clone()
    }

    pub(crate) async fn run(&mut self, code: &str) -> Seen {
        let id = self.send("shell", "execute_request", json!({"code": code}));
        let id = id.await;
        self.seen(&id).await
    }

    /// Begins a cell that runs until it is interrupted.
    pub(crate) async fn sleep(&mut self) -> String {
        let code = "print('begun', flush=True)\nimport time\ntime.sleep(600)";
        let id = self.send("shell", "execute_request", json!({"code": code}));
        let id = id.await;
        while self.hear().await.unwrap()["content"]["text"] != "begun\n" {}
        id
    }
}

/// Parts behind their offsets.
pub(crate) fn with_offsets(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut offset = 8 * (parts.len() + 2);
    let mut numbers = vec![parts.len() + 1, offset];
    for part in parts {
        offset += part.len();
        numbers.push(offset);
    }
    let numbers = numbers.into_iter().map(|number| number as u64);
    let mut frame: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    frame.extend(parts.concat());
    frame
}

fn from_offsets(frame: &[u8]) -> Value {
    let number = |place: usize| {
        let bytes = frame[8 * place..8 * place + 8].try_into().unwrap();
        usize::try_from(u64::from_le_bytes(bytes)).unwrap()
    };
    assert_eq!(number(number(0)), frame.len());
    let part = |place: usize| &frame[number(place)..number(place + 1)];
    let json = |place: usize| serde_json::from_slice::<Value>(part(place)).unwrap();
    json!({
        "channel": std::str::from_utf8(part(1)).unwrap(),
        "header": json(2), "parent_header": json(3), "metadata": json(4), "content": json(5),
    })
}
