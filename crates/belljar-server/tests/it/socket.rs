//! Sessions over a WebSocket.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{Ask as _, Client, Events, World, options, world, world_with};

pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What the server answers to a request for a WebSocket with these headers.
async fn connect(
    world: &World,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Option<String>), Value> {
    let url = format!("ws://{}{path}", world.address);
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match connect_async(request).await {
        Ok((socket, response)) => {
            let protocol = response.headers().get("sec-websocket-protocol");
            let protocol = protocol.map(|it| it.to_str().unwrap().to_owned());
            Ok((Socket(socket), protocol))
        }
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err(serde_json::from_slice(&body).unwrap())
        }
        Err(error) => panic!("{error}"),
    }
}

impl Socket {
    pub(crate) async fn open(world: &World, client: &Client, path: &str) -> Self {
        let key = format!("Bearer {}", client.key.text);
        let opened = connect(world, path, &[("authorization", &key)]).await;
        opened.unwrap_or_else(|problem| panic!("{problem:#}")).0
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that tests write `json!` without `&`"
    )]
    pub(crate) async fn say(&mut self, message: Value) {
        self.0
            .send(Message::text(message.to_string()))
            .await
            .unwrap();
    }

    /// The next message; `Err` with the code of the close.
    async fn hear(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(15), self.0.next());
            match next.await.expect("nothing was said") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Messages until the outcome of a cell, it included.
    pub(crate) async fn events_to_outcome(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            all.push(self.hear().await.unwrap());
            if all.last().unwrap()["kind"] == "outcome" {
                return all;
            }
        }
    }
}

/// The same events with the same numbers as a stream has them; from wherever a client left off.
#[tokio::test]
async fn events_are_those_of_the_stream() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut socket = Socket::open(&world, &client, &format!("{session}/ws")).await;
    socket
        .say(json!({"type": "run", "id": "mine", "code": "x = 6 * 7\nprint(x)\nx"}))
        .await;
    let told = socket.events_to_outcome().await;
    assert_eq!(
        told[0],
        json!({"type": "accepted", "id": "mine", "cell": 1})
    );
    let streamed = Events::from_request(client.get(&format!("{session}/cells/1/events"))).await;
    let streamed = streamed.rest().await;
    assert_eq!(streamed.len(), told.len() - 1);
    for (event, told) in streamed.iter().zip(&told[1..]) {
        let same = json!({"type": "event", "cell": 1, "number": event.id, "kind": event.kind, "data": event.data});
        assert_eq!(*told, same);
    }
    // Cells that are sent at once run one after another.
    for n in 0..3 {
        socket
            .say(json!({"type": "run", "code": format!("print(x + {n})")}))
            .await;
    }
    for n in 0..3 {
        let told = socket.events_to_outcome().await;
        let last = &told.last().unwrap();
        assert_eq!(last["cell"], n + 2);
        assert_eq!(last["data"]["stdout"]["text"], format!("{}\n", 42 + n));
    }
    drop(socket);

    let path = format!("{session}/ws?cell=1&after=2");
    let mut again = Socket::open(&world, &client, &path).await;
    let rest = again.events_to_outcome().await;
    assert_eq!(rest[..], told[3..]);
    world.ends().await;
}

#[tokio::test]
async fn a_cell_is_interrupted_and_outlives_its_socket() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/ws");
    let mut socket = Socket::open(&world, &client, &path).await;
    socket.say(json!({"type": "interrupt"})).await;
    assert_eq!(
        socket.hear().await.unwrap(),
        json!({"type": "interrupted", "interrupted": false})
    );
    socket
        .say(json!({"type": "run", "code": "x = 1\nwhile True: pass"}))
        .await;
    assert_eq!(socket.hear().await.unwrap()["type"], "accepted");
    socket.say(json!({"type": "interrupt"})).await;
    let told = socket.events_to_outcome().await;
    assert_eq!(
        told.last().unwrap()["data"]["cause"]["kind"],
        "interrupted",
        "{told:#?}"
    );

    socket
        .say(json!({"type": "run", "code": "import time; time.sleep(1); x = 2"}))
        .await;
    assert_eq!(socket.hear().await.unwrap()["type"], "accepted");
    drop(socket);
    assert_eq!(client.printed(&session, "print(x)").await, "2\n");

    // It ends with its session.
    let mut socket = Socket::open(&world, &client, &path).await;
    client.delete(&session).with(204).await;
    assert_eq!(socket.hear().await, Err(Some(1000)));
    world.ends().await;
}

/// K1, K9: whose session it is is looked at before the upgrade, and so are Host and Origin; a browser sends its key as a
/// subprotocol, which is not sent back.
#[tokio::test]
async fn nobody_else_gets_in() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/ws");
    let key = format!("belljar, belljar.key.{}", client.key.text);
    let opened = connect(&world, &path, &[("sec-websocket-protocol", &key)]).await;
    let (mut socket, protocol) = opened.unwrap_or_else(|problem| panic!("{problem:#}"));
    assert_eq!(protocol.as_deref(), Some("belljar"));
    socket.say(json!({"type": "run", "code": "1"})).await;
    socket.events_to_outcome().await;

    let refused = async |path: &str, headers: &[(&'static str, &str)]| {
        let refused = connect(&world, path, headers).await;
        refused.err().unwrap()["code"].as_str().unwrap().to_owned()
    };
    let other = world.client("b").await;
    let other = format!("Bearer {}", other.key.text);
    let bearer = format!("Bearer {}", client.key.text);
    assert_eq!(
        refused(&path, &[("authorization", &other)]).await,
        "session_not_found"
    );
    assert_eq!(refused(&path, &[]).await, "unauthorized");
    let wrong = "belljar, belljar.key.bj_00000000_0";
    assert_eq!(
        refused(&path, &[("sec-websocket-protocol", wrong)]).await,
        "unauthorized"
    );
    let query = format!("{path}?key={}", client.key.text);
    assert_eq!(refused(&query, &[]).await, "unauthorized");
    assert_eq!(
        refused(&query, &[("authorization", &bearer)]).await,
        "bad_query"
    );
    let origin = [
        ("authorization", bearer.as_str()),
        ("origin", "https://evil.example"),
    ];
    assert_eq!(refused(&path, &origin).await, "wrong_origin");
    let host = [("authorization", bearer.as_str()), ("host", "evil.example")];
    assert_eq!(refused(&path, &host).await, "wrong_host");
    for (query, code) in [
        ("cell=9", "cell_not_found"),
        ("cell=1&after=99", "bad_header"),
        ("after=1", "bad_query"),
    ] {
        let path = format!("{path}?{query}");
        assert_eq!(refused(&path, &[("authorization", &bearer)]).await, code);
    }
    client.get(&path).problem(426, "upgrade_needed").await;
    world.ends().await;
}

/// K9: a key that is revoked closes its sockets, also those that nobody reads.
#[tokio::test]
async fn a_revoked_key_closes_its_sockets() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/ws");
    let mut quiet = Socket::open(&world, &client, &path).await;
    let mut deaf = Socket::open(&world, &client, &path).await;
    let flood = "import time\nfor _ in range(300): print('x' * 20000); time.sleep(0.02)";
    deaf.say(json!({"type": "run", "code": flood})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    world
        .server
        .tenants()
        .revoke(&client.key.info.prefix)
        .await
        .unwrap();
    assert_eq!(quiet.hear().await, Err(Some(1008)));
    until_streams_are(&world, 0).await;
    world.ends().await;
}

async fn until_streams_are(world: &World, count: u64) {
    let line = format!("belljar_permits_used{{kind=\"streams\",of=\"tenant\"}} {count}\n");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let metrics = world.metrics().await;
        if metrics.contains(&line) {
            return;
        }
        assert!(Instant::now() < deadline, "{metrics}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// K5: a socket that is not read costs no memory and hinders nobody: its cell goes on, and events that are given up
/// meanwhile cut it off.
#[tokio::test]
async fn a_socket_that_is_not_read_is_cut() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut socket = Socket::open(&world, &client, &format!("{session}/ws")).await;
    // More than the kernel keeps for a reader, and more than is kept of a cell.
    let code = "class Large:\n    def _repr_html_(self): return 'x' * 1_000_000\nfor _ in range(25): display(Large())";
    socket.say(json!({"type": "run", "code": code})).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let cell = client
            .get(&format!("{session}/cells/1"))
            .send()
            .await
            .unwrap();
        let cell: Value = cell.json().await.unwrap();
        if cell["state"] == "done" {
            break;
        }
        assert!(Instant::now() < deadline, "{cell:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // What the kernel and the socket held comes; then the end, and not what was given up.
    let end = loop {
        match socket.hear().await {
            Ok(told) => assert_ne!(told["kind"], "outcome"),
            Err(end) => break end,
        }
    };
    assert_eq!(end, Some(1008));
    until_streams_are(&world, 0).await;
    world.ends().await;
}

/// K6: what is too large, is no JSON or no text, and too much at once.
#[tokio::test]
async fn messages_are_bounded() {
    let world = world_with(options(|options| options.tenant_streams = 2)).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/ws");
    let mut socket = Socket::open(&world, &client, &path).await;
    for wrong in [
        "{",
        "[]",
        "{\"type\": \"run\"}",
        "{\"type\": \"other\"}",
        "{\"type\": \"run\", \"code\": \"1\", \"tenant\": \"b\"}",
    ] {
        socket.0.send(Message::text(wrong)).await.unwrap();
        let refused = socket.hear().await.unwrap();
        assert_eq!(
            (&refused["type"], &refused["problem"]["code"]),
            (&json!("refused"), &json!("bad_body")),
            "{wrong}"
        );
    }
    for _ in 0..20 {
        socket
            .say(json!({"type": "run", "id": "n", "code": "import time; time.sleep(0.3)"}))
            .await;
    }
    let mut refused = 0;
    while refused < 4 {
        let told = socket.hear().await.unwrap();
        if told["type"] == "refused" {
            assert_eq!(told["problem"]["code"], "too_many_cells", "{told:#}");
            refused += 1;
        }
    }
    let mut second = Socket::open(&world, &client, &path).await;
    let key = format!("Bearer {}", client.key.text);
    let third = connect(&world, &path, &[("authorization", &key)]).await;
    assert_eq!(third.err().unwrap()["code"], "too_many_streams");
    second.0.send(Message::binary(vec![1])).await.unwrap();
    assert_eq!(second.hear().await, Err(Some(1003)));
    until_streams_are(&world, 1).await;
    let mut large = Socket::open(&world, &client, &path).await;
    let _ = large.0.send(Message::text("x".repeat(2 << 20))).await;
    assert!(large.hear().await.is_err());
    until_streams_are(&world, 1).await;
    world.ends().await;
}

/// K7: nothing of a second request is taken from what follows the upgrade.
#[tokio::test]
async fn what_follows_an_upgrade_is_no_request() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let request = format!(
        "GET {session}/ws HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\
         DELETE {session} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        client.key.text, client.key.text
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .expect("it stays open")
        .unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert_eq!(client.printed(&session, "print(1)").await, "1\n");
    world.ends().await;
}

#[tokio::test]
async fn a_service_that_stops_closes_its_sockets() {
    let mut world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut socket = Socket::open(&world, &client, &format!("{session}/ws")).await;
    socket
        .say(json!({"type": "run", "code": "import time; time.sleep(1)"}))
        .await;
    assert_eq!(socket.hear().await.unwrap()["type"], "accepted");
    let _ = world.stop.take().unwrap().send(());
    tokio::time::sleep(Duration::from_millis(200)).await;
    socket.say(json!({"type": "run", "code": "1"})).await;
    let told = socket.events_to_outcome().await;
    let refused = told.iter().find(|told| told["type"] == "refused").unwrap();
    assert_eq!(refused["problem"]["code"], "draining");
    let last = loop {
        if let Err(last) = socket.hear().await {
            break last;
        }
    };
    assert_eq!(last, Some(1001));
    let ended = tokio::time::timeout(Duration::from_secs(8), world.task).await;
    ended.expect("the service did not stop").unwrap().unwrap();
}
