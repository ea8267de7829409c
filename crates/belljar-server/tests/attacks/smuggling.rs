//! Requests that two programs could read in two ways, by raw sockets, against both listeners.

use std::net::SocketAddr;
use std::time::Duration;

use belljar_server::Scope;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Case, Severity};
use crate::support::World;

/// What is answered to these bytes, until the connection is closed.
async fn said(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let closed = tokio::time::timeout(Duration::from_secs(8), read).await;
    closed
        .unwrap_or_else(|_| panic!("the connection stayed open: {bytes}"))
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn answers(text: &str) -> usize {
    text.matches("HTTP/1.1 ").count()
}

/// Both listeners, each with a path that only a valid key gets and the key.
async fn listeners(world: &World) -> [(SocketAddr, &'static str, String); 2] {
    let client = world.client("a").await;
    let admin = world.admin(&[Scope::Admin]).await;
    [
        (world.address, "/v1/sessions", client.key.text),
        (world.admin, "/v1/admin/keys", admin.key.text),
    ]
}

/// Each of these heads is refused with 400 on both listeners, the connection is closed, and nothing after it is heard: also
/// where it comes second.
async fn assert_refused(world: &World, heads: &[&str]) {
    for (address, path, key) in listeners(world).await {
        for lines in heads {
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n{lines}\r\n\
                 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {address}\r\n\r\n"
            );
            let answer = said(address, &head).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{lines}{answer}");
            assert_eq!(answers(&answer), 1, "{lines}{answer}");
            let before = format!("GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
            let answer = said(address, &format!("{before}{head}")).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{lines}{answer}");
            assert!(answer.contains("HTTP/1.1 400 "), "{lines}{answer}");
            assert_eq!(answers(&answer), 2, "{lines}{answer}");
        }
    }
}

/// Of `Content-Length` and `Transfer-Encoding`, neither counts.
#[tokio::test(flavor = "multi_thread")]
async fn n1_two_kinds_of_length_are_refused() {
    let case = Case::begin(
        "N1",
        Severity::Integrity,
        "`Content-Length` together with `Transfer-Encoding`, in either order, also as the second request",
        "400 on both listeners, the connection closed; what was hidden in it is not answered",
    )
    .await;
    let world = &case.world;
    assert_refused(
        world,
        &[
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "transfer-encoding: chunked\r\nCONTENT-LENGTH: 0\r\n",
        ],
    )
    .await;
    case.end().await;
}

/// A request is for one host.
#[tokio::test(flavor = "multi_thread")]
async fn n2_two_hosts_are_refused() {
    let case = Case::begin(
        "N2",
        Severity::Integrity,
        "two `Host` headers",
        "400 on both listeners, also on paths without a key",
    )
    .await;
    let world = &case.world;
    assert_refused(world, &["Host: evil.example\r\n", "host: localhost\r\n"]).await;
    // Also where no key is needed.
    for (address, path) in [(world.address, "/openapi.json"), (world.admin, "/healthz")] {
        let twice = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n\r\n");
        let answer = said(address, &twice).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path} {answer}");
    }
    case.end().await;
}

/// A length is said once, and is a number; there is one transfer coding.
#[tokio::test(flavor = "multi_thread")]
async fn n3_lengths_that_are_none_are_refused() {
    let case = Case::begin(
        "N3",
        Severity::Integrity,
        "two lengths, a length that is no number, other transfer codings than `chunked`",
        "400, the connection closed",
    )
    .await;
    let world = &case.world;
    assert_refused(
        world,
        &[
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length:\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: identity, chunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
        ],
    )
    .await;
    case.end().await;
}

/// A line is a line: no folding, no space before the colon, no line feed or carriage return alone.
#[tokio::test(flavor = "multi_thread")]
async fn n4_odd_lines_are_refused() {
    let case = Case::begin(
        "N4",
        Severity::Integrity,
        "folded lines, spaces before the colon, bare line feeds and carriage returns, NUL",
        "400, the connection closed",
    )
    .await;
    let world = &case.world;
    assert_refused(
        world,
        &[
            "X: y\r\n Transfer-Encoding: chunked\r\n",
            "X: y\r\n\tfolded\r\n",
            " X: y\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding\t: chunked\r\n",
            "Transfer-Encoding\r\n: chunked\r\n",
            "X: y\nTransfer-Encoding: chunked\r\n",
            "X: y\rTransfer-Encoding: chunked\r\n",
            "X: y\0\r\n",
            "X\0: y\r\n",
            ": y\r\n",
        ],
    )
    .await;
    let (address, _, _) = listeners(world).await[0];
    let feeds = format!("GET /openapi.json HTTP/1.1\nHost: {address}\n\n");
    let answer = said(address, &feeds).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    case.end().await;
}

/// A target that names a host names the one of `Host`.
#[tokio::test(flavor = "multi_thread")]
async fn n5_targets_of_another_host_are_refused() {
    let case = Case::begin(
        "N5",
        Severity::Integrity,
        "a target with another host than `Host`",
        "400; with the same host it is answered",
    )
    .await;
    let world = &case.world;
    for (address, path, key) in listeners(world).await {
        let get = |target: String| {
            format!(
                "GET {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
                 Connection: close\r\n\r\n"
            )
        };
        let same = said(address, &get(format!("http://{address}{path}"))).await;
        assert!(same.starts_with("HTTP/1.1 200 "), "{same}");
        for target in [
            format!("http://evil.example{path}"),
            format!("http://{address}@evil.example{path}"),
            format!("http://evil.example@{address}{path}"),
            format!("http://evil.example#{address}{path}"),
            format!("evil.example{path}"),
            address.to_string(),
        ] {
            let answer = said(address, &get(target.clone())).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{target} {answer}");
        }
    }
    case.end().await;
}

/// Chunks that are none end the connection, and what comes after them is not heard.
#[tokio::test(flavor = "multi_thread")]
async fn n6_bad_chunks_are_refused() {
    let case = Case::begin(
        "N6",
        Severity::Integrity,
        "chunk sizes that are none: signs, prefixes, spaces, overflows, missing line ends",
        "400, and what follows is not answered",
    )
    .await;
    let world = &case.world;
    let (address, path, key) = &listeners(world).await[0];
    for chunks in [
        "-1\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2;a\nb\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{chunks}GET /smuggled HTTP/1.1\r\nHost: {address}\r\n\r\n"
        );
        let answer = said(*address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{chunks:?} {answer}");
        assert_eq!(answers(&answer), 1, "{chunks:?} {answer}");
    }
    case.end().await;
}

/// Requests one after the other are answered, where it is certain where each ends; after one with chunks, nothing is
/// heard.
#[tokio::test(flavor = "multi_thread")]
async fn n7_nothing_is_heard_after_chunks() {
    let case = Case::begin(
        "N7",
        Severity::Integrity,
        "requests behind a body with chunks",
        "those before it are answered; after it the connection is closed",
    )
    .await;
    let world = &case.world;
    let (address, path, key) = &listeners(world).await[0];
    let head = |lines: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n{lines}\r\n"
        )
    };
    let sized = format!("{}{{}}", head("Content-Length: 2\r\n"));
    let chunked = format!(
        "{}2\r\n{{}}\r\n0\r\n\r\n",
        head("Transfer-Encoding: chunked\r\n")
    );
    let answer = said(*address, &format!("{sized}{sized}{chunked}{sized}")).await;
    assert_eq!(answer.matches("HTTP/1.1 201 ").count(), 3, "{answer}");
    assert_eq!(answers(&answer), 3, "{answer}");
    let last = answer.rsplit("HTTP/1.1 201 ").next().unwrap();
    assert!(last.contains("connection: close"), "{last}");
    // In pieces, as a network may deliver them.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.set_nodelay(true);
    for byte in format!("{sized}{chunked}").as_bytes() {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 201 ").count(), 2, "{answer}");
    case.end().await;
}

/// What becomes a WebSocket has one host and no body, and is the last request of its connection.
#[tokio::test(flavor = "multi_thread")]
async fn n8_upgrades_are_refused_as_other_requests() {
    let case = Case::begin(
        "N8",
        Severity::Integrity,
        "WebSocket upgrades with two hosts, a body, two lengths, a request behind them",
        "400; a refused upgrade closes its connection",
    )
    .await;
    let world = &case.world;
    let client = world.client("a").await;
    let session = client.session().await;
    let (key, address) = (&client.key.text, world.address);
    let upgrade = |lines: &str| {
        format!(
            "GET {session}/ws HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
        )
    };
    let after = format!("0\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
    for lines in [
        "Host: evil.example\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let answer = said(address, &format!("{}{after}", upgrade(lines))).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines}{answer}");
        assert_eq!(answers(&answer), 1, "{lines}{answer}");
    }
    // Where it is refused, nothing after it is a request.
    let other = upgrade("").replace("/ws", "/none");
    let answer = said(
        address,
        &format!("{other}GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert_eq!(answers(&answer), 1, "{answer}");
    // And one that is none of these opens.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(upgrade("").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    drop(stream);
    case.end().await;
}
