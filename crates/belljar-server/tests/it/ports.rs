//! Ports of sessions, on host names of their own.

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_tungstenite::tungstenite::Message;

use crate::port_client::{ECHO, got, offering_ports, port};
use crate::support::{Ask as _, options, world, world_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_reached_by_key_token_and_link() {
    let world = world_with(offering_ports()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let port = port(&world, &client, &session, 8000).await;
    let id = session.rsplit('/').next().unwrap();
    let service_port = world.address.port();
    assert_eq!(port.host, format!("8000-{id}.localhost:{service_port}"));
    port.ask(Method::GET, "/").problem(502, "port_closed").await;
    client.printed(&session, ECHO).await;

    let by_key = port.get("/a?b=1").bearer_auth(&client.key.text);
    let seen = by_key.json_with(200).await;
    assert_eq!(
        (&seen["method"], &seen["path"]),
        (&json!("GET"), &json!("/a?b=1"))
    );
    assert_eq!(got(&seen, "host"), [&port.host]);
    assert_eq!(got(&seen, "authorization"), Vec::<&str>::new());

    let by_token = port.ask(Method::PUT, "/").basic_auth("user", Some("x"));
    let seen = by_token.body("abc").json_with(200).await;
    assert_eq!(
        (&seen["method"], &seen["bytes"]),
        (&json!("PUT"), &json!(3))
    );
    assert_eq!(got(&seen, "authorization"), ["Basic dXNlcjp4"], "its own");
    assert_eq!(got(&seen, "x-belljar-port-token"), Vec::<&str>::new());

    // A browser: the link sets a cookie and leads to the page without the token.
    let token = port.link.split_once('?').unwrap().1;
    let opened = port
        .get(&format!("//deep/page?x=1&{token}"))
        .with(303)
        .await;
    let location = opened.headers()["location"].to_str().unwrap();
    assert_eq!(location, format!("http://{}//deep/page?x=1", port.host));
    let cookie = opened.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("belljar-port="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"));
    let cookie = cookie.split_once(';').unwrap().0;
    let page = port
        .get("/page")
        .header("cookie", format!("own=1; {cookie}"));
    let seen = page.header("sec-fetch-site", "none").json_with(200).await;
    assert_eq!(got(&seen, "cookie"), ["own=1"]);
    // The token of a link is none for a header, and an old link is no hindrance.
    let link = token.split_once('=').unwrap().1;
    let wrong = port.get("/").header("x-belljar-port-token", link);
    wrong.problem(401, "unauthorized").await;
    let again = port.get("/?y&belljar_token=old").header("cookie", cookie);
    let seen = again.header("sec-fetch-site", "none").json_with(200).await;
    assert_eq!(seen["path"], "/?y");

    // Answers have no headers of the service.
    let answer = port.ask(Method::HEAD, "/").with(200).await;
    let names: Vec<&str> = answer
        .headers()
        .keys()
        .map(reqwest::header::HeaderName::as_str)
        .collect();
    assert!(!names.contains(&"content-security-policy"), "{names:?}");
    assert_eq!(
        answer.headers()["cross-origin-resource-policy"],
        "same-origin"
    );
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_passed_on_as_they_come() {
    let world = world_with(offering_ports()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.printed(&session, ECHO).await;
    let port = port(&world, &client, &session, 8000).await;
    let body = vec![7; 8 << 20];
    let sum = json!(Sha256::digest(&body).to_vec());
    let seen = port
        .ask(Method::POST, "/")
        .body(body.clone())
        .json_with(200)
        .await;
    assert_eq!((&seen["bytes"], &seen["sum"]), (&json!(8 << 20), &sum));
    let chunks: Vec<std::io::Result<Vec<u8>>> =
        body.chunks(100_000).map(|part| Ok(part.to_vec())).collect();
    let chunked = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    let seen = port
        .ask(Method::POST, "/")
        .body(chunked)
        .json_with(200)
        .await;
    assert_eq!(seen["sum"], sum);
    // The program waits until the first event was read.
    let mut events = port.ask(Method::GET, "/events").with(200).await;
    let first = events.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: 0\n\n"), "{first:?}");
    client.run(&session, "first.set()").await;
    assert!(events.chunk().await.unwrap().is_some());
    drop(events);
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_socket_is_passed_on() {
    let world = world_with(offering_ports()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.printed(&session, ECHO).await;
    let port = port(&world, &client, &session, 8000).await;
    let key = format!("chat, belljar.key.{}", client.key.text);
    let headers = [
        ("x-belljar-port-token", port.token.as_str()),
        ("sec-websocket-protocol", &key),
    ];
    let (mut socket, headers) = port.socket(&headers).await.unwrap();
    assert_eq!(headers["sec-websocket-protocol"], "chat", "without the key");
    for text in ["hello", &"long ".repeat(2000)] {
        socket.send(Message::text(text)).await.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        assert_eq!(answer.into_text().unwrap().as_str(), text.to_uppercase());
    }
    assert_eq!(port.socket(&[]).await.unwrap_err(), 401);
    // With a cookie, its own pages alone.
    let cookie = port.cookie().await;
    let from = |origin: &str| format!("http://{origin}");
    let own = from(&port.host);
    let by_cookie = port.socket(&[("cookie", &cookie), ("origin", &own)]).await;
    assert!(by_cookie.is_ok());
    for origin in [
        from(&port.host.replacen("8000", "8001", 1)),
        from("localhost"),
        "null".into(),
    ] {
        let refused = port
            .socket(&[("cookie", &cookie), ("origin", &origin)])
            .await;
        assert_eq!(refused.unwrap_err(), 403, "{origin}");
    }
    assert_eq!(port.socket(&[("cookie", &cookie)]).await.unwrap_err(), 403);
    // It ends with the key.
    let tenants = world.server.tenants();
    assert!(tenants.revoke(&client.key.info.prefix).await.unwrap());
    let rest = async { while let Some(Ok(_)) = socket.next().await {} };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), rest);
    ended.await.expect("the socket stays open");
    world.ends().await;
}

/// K1: the name of another tenant's port is of no use, and without a credential there is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn ports_keep_tenants_and_sessions_apart() {
    let world = world_with(offering_ports()).await;
    let owner = world.client("a").await;
    let other = world.client("b").await;
    let (session, second) = (owner.session().await, owner.session().await);
    owner.printed(&session, ECHO).await;
    owner.printed(&second, ECHO).await;
    let first = port(&world, &owner, &session, 8000).await;
    let second = port(&world, &owner, &second, 8000).await;
    let theirs = other.session().await;
    let theirs = port(&world, &other, &theirs, 8000).await;
    first.get("/").problem(401, "unauthorized").await;
    let by_other = first.get("/").bearer_auth(&other.key.text);
    by_other.problem(404, "session_not_found").await;
    let wrong = first.get("/").bearer_auth("bj_0_wrong");
    wrong.problem(401, "unauthorized").await;
    let runs = world.client_with("a", &[belljar_server::Scope::Runs]).await;
    let by_runs = first.get("/").bearer_auth(&runs.key.text);
    by_runs.problem(403, "scope_missing").await;
    let cookie = second.cookie().await;
    for other in [&second, &theirs] {
        let by_token = first.get("/").header("x-belljar-port-token", &other.token);
        by_token.problem(401, "unauthorized").await;
        let page = other.link.split_once(&other.host).unwrap().1;
        first.get(page).problem(401, "unauthorized").await;
    }
    let by_cookie = first.get("/").header("cookie", &cookie);
    by_cookie
        .header("sec-fetch-site", "none")
        .problem(401, "unauthorized")
        .await;
    // Another port of the same session is another name, with another token.
    let elsewhere = second.named(second.host.replacen("8000", "8001", 1));
    let elsewhere = elsewhere.ask(Method::GET, "/");
    elsewhere.problem(401, "unauthorized").await;
    // All of it ends with the key.
    let events = first.ask(Method::GET, "/events").with(200).await;
    let cookie = first.cookie().await;
    assert!(
        world
            .server
            .tenants()
            .revoke(&owner.key.info.prefix)
            .await
            .unwrap()
    );
    first
        .ask(Method::GET, "/")
        .problem(401, "unauthorized")
        .await;
    let by_cookie = first.get("/").header("cookie", &cookie);
    by_cookie
        .header("sec-fetch-site", "none")
        .problem(401, "unauthorized")
        .await;
    let rest = tokio::time::timeout(std::time::Duration::from_secs(20), events.bytes()).await;
    assert!(
        rest.expect("the stream stays open").is_err(),
        "it is cut, not ended"
    );
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_off_without_a_domain() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let open = client.post(&format!("{session}/ports/8000"), json!({}));
    open.problem(400, "port_not_offered").await;
    let host = format!("8000-{}.localhost", session.rsplit('/').next().unwrap());
    let named = client.get("/").header("host", host);
    named.problem(421, "wrong_host").await;
    world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_port_can_not_do() {
    let world = world_with(offering_ports()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    for wrong in ["0", "80", "3128", "65536", "x"] {
        let open = client.post(&format!("{session}/ports/{wrong}"), json!({}));
        open.problem(400, "port_not_offered").await;
    }
    let own = port(&world, &client, &session, 8000).await;
    let proxy = own.named(own.host.replacen("8000", "3128", 1));
    let proxy = proxy.get("/").bearer_auth(&client.key.text);
    proxy.problem(400, "port_not_offered").await;
    // The admin address has no such names.
    let admin = format!("http://{}/", world.admin);
    let admin = reqwest::Client::new().get(admin).header("host", &own.host);
    let admin = admin.bearer_auth(&client.key.text);
    admin.problem(421, "wrong_host").await;
    // Neither sleep nor the end is the fault of the service.
    client.printed(&session, ECHO).await;
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .with(200)
        .await;
    own.ask(Method::GET, "/").problem(502, "port_closed").await;
    let shown: Value = client.get(&session).json_with(200).await;
    assert_eq!(shown["state"], "hibernated", "{shown:#}");
    client.delete(&session).with(204).await;
    own.ask(Method::GET, "/")
        .problem(404, "session_not_found")
        .await;
    assert!(world.metrics().await.contains("route=\"port\""));
    world.ends().await;
}

/// A page of a port can set cookies for the whole domain, so the cookie of the interface has a name that forbids it.
#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_of_the_interface_is_of_its_own_host() {
    let offering = options(|options| {
        options.ports_domain = Some("ports.example.org".to_owned());
    });
    let world = world_with(offering).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let log_in = client
        .post("/login", json!({"key": client.key.text}))
        .with(204)
        .await;
    let cookie = log_in.headers()["set-cookie"].to_str().unwrap();
    let expected = format!(
        "__Host-belljar={}; HttpOnly; SameSite=Strict; Path=/; Secure",
        client.key.text
    );
    assert_eq!(cookie, expected);
    let me = |cookie: String| {
        let url = format!("http://{}/v1/me", world.address);
        let request = reqwest::Client::new().get(url).header("x-belljar", "1");
        request.header("cookie", cookie)
    };
    me(format!("__Host-belljar={}", client.key.text))
        .with(200)
        .await;
    me(format!("belljar={}", client.key.text))
        .problem(401, "unauthorized")
        .await;
    // The same for the cookie of a port, whose links are always HTTPS there.
    let own = port(&world, &client, &session, 8000).await;
    assert!(own.link.starts_with("https://8000-"), "{}", own.link);
    let page = own.link.split_once(&own.host).unwrap().1;
    let opened = own.get(page).with(303).await;
    let cookie = opened.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-belljar-port=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    world.ends().await;
}
