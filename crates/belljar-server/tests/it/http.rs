//! The service as a server of HTTP: hosts, headers, sizes, deadlines.

use std::time::{Duration, Instant};

use belljar_server::Scope;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Ask as _, options, world, world_with};

#[tokio::test]
async fn only_its_own_names_are_answered() {
    let world = world_with(options(|options| {
        options.hosts = vec!["Belljar.example".into()];
    }))
    .await;
    let client = world.client("a").await;
    let get = |host: &'static str| client.get("/v1/sessions").header("host", host);
    for host in [
        "localhost",
        "127.0.0.1:1",
        "[::1]:7878",
        "belljar.example:443",
    ] {
        get(host).with(200).await;
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:7878",
        "",
    ] {
        get(host).problem(421, "wrong_host").await;
    }
    let none = world.raw(b"GET /v1/sessions HTTP/1.0\r\n\r\n").await;
    assert!(none.starts_with("HTTP/1.0 421 "), "{none}");
}

#[tokio::test]
async fn browsers_are_told_to_do_nothing() {
    let world = world().await;
    let client = world.client("a").await;
    let foreign = "https://evil.example";
    let mut ids = std::collections::BTreeSet::new();
    for (method, path) in [
        (Method::GET, "/v1/sessions"),
        (Method::OPTIONS, "/v1/sessions"),
        (Method::GET, "/nothing"),
    ] {
        let request = client.request(method, path).header("origin", foreign);
        let request = request.header("access-control-request-method", "POST");
        let response = request.send().await.unwrap();
        let headers = response.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["cache-control"], "no-store");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"));
        assert!(
            headers
                .keys()
                .all(|name| !name.as_str().starts_with("access-control"))
        );
        ids.insert(headers["x-request-id"].clone().to_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn what_is_not_there_is_told_as_a_problem() {
    let world = world().await;
    let client = world.client("a").await;
    client.get("/nothing").problem(404, "route_not_found").await;
    client
        .get("/errors/nothing")
        .problem(404, "route_not_found")
        .await;
    client
        .request(Method::PATCH, "/v1/sessions")
        .problem(405, "method_not_allowed")
        .await;
    let body = client.request(Method::POST, "/v1/sessions").body("{");
    body.problem(400, "bad_body").await;
    let deep = "[".repeat(100_000);
    client
        .request(Method::POST, "/v1/sessions")
        .body(deep)
        .problem(400, "bad_body")
        .await;
}

/// K2: a key is good for its scopes alone.
#[tokio::test]
async fn a_key_does_only_what_its_scopes_say() {
    let world = world().await;
    let client = world.client_with("a", &[Scope::Runs, Scope::Admin]).await;
    client
        .get("/v1/sessions")
        .problem(403, "scope_missing")
        .await;
    client
        .post("/v1/sessions", json!({}))
        .problem(403, "scope_missing")
        .await;
    let (prefix, secret) = client.key.text.rsplit_once('_').unwrap();
    let other = if secret.starts_with('0') { "1" } else { "0" };
    let url = format!("http://{}/v1/sessions", world.address);
    for key in [
        format!("Bearer {prefix}_{other}{}", &secret[1..]),
        format!("Bearer {prefix}_"),
        format!("Bearer {prefix}"),
        format!("Basic {}", client.key.text),
        client.key.text.clone(),
        "Bearer bj_%_%".to_owned(),
        "Bearer bj_' OR 1=1 --_x".to_owned(),
    ] {
        let request = reqwest::Client::new()
            .get(&url)
            .header("authorization", &key);
        request.problem(401, "unauthorized").await;
    }
}

/// K6: what is too large is refused early.
#[tokio::test]
async fn large_heads_and_bodies_are_refused() {
    let world = world().await;
    let client = world.client("a").await;
    let (key, address) = (&client.key.text, world.address);
    let head =
        format!("POST /v1/sessions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n");
    let announced = format!("{head}Content-Length: 10000000000\r\n\r\n");
    let answer = world.raw(announced.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let headers = format!("{head}X: {}\r\n\r\n", "x".repeat(100_000));
    let answer = world.raw(headers.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!("{head}{}\r\n", "X: x\r\n".repeat(200));
    let answer = world.raw(many.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

/// K5: who sends slowly is cut off, in the head and in the body.
#[tokio::test]
async fn waits_slow_clients_are_cut_off() {
    let world = world().await;
    let client = world.client("a").await;
    let (key, address) = (&client.key.text, world.address);
    let head =
        format!("POST /v1/sessions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n");
    let start = Instant::now();
    let body = format!("{head}Content-Length: 100\r\n\r\n{{");
    let trickle = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        for byte in head.bytes().cycle() {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    };
    let (answer, ()) = tokio::join!(world.raw(body.as_bytes()), trickle);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn operators_see_numbers_on_a_listener_of_their_own() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "1 / 0").await;
    client
        .get("/v1/sessions/none")
        .problem(404, "session_not_found")
        .await;
    let metrics = world.metrics().await;
    for line in [
        "belljar_sessions 1",
        "belljar_cells_running 0",
        "belljar_cells_total{status=\"failure\"} 1",
        "belljar_http_problems_total{code=\"session_not_found\"} 1",
        "belljar_http_requests_total{method=\"POST\",route=\"/v1/sessions\",status=\"2xx\"} 1",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    for path in ["/metrics", "/healthz"] {
        client.get(path).problem(404, "route_not_found").await;
    }
    let health = reqwest::get(format!("http://{}/healthz", world.admin))
        .await
        .unwrap();
    assert_eq!(health.text().await.unwrap(), "ok\n");
}
