//! Attacks on ports by programs in sessions and by the pages that they serve.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Case, Severity};
use crate::port_client::{ECHO, Port, offering_ports, port};
use crate::support::{Ask as _, Client, soon};

/// Serves raw bytes: `answer(request)` of each connection.
const RAW: &str = r"
import socket, threading, time
seen = []
def serve(listener):
    while True:
        one, _ = listener.accept()
        threading.Thread(target=talk, args=[one], daemon=True).start()
def talk(one):
    with one:
        request = b''
        while b'\r\n\r\n' not in request and (part := one.recv(65536)): request += part
        seen.append(request)
        try: answer(one)
        except OSError: pass
listener = socket.create_server(('127.0.0.1', 8000), backlog=64)
threading.Thread(target=serve, args=[listener], daemon=True).start()
print('on')
";

/// A session whose port 8000 answers each request with what `answer(one)` sends.
async fn answering(case: &Case, hostile: &Client, answer: &str) -> (String, Port) {
    let session = hostile.session().await;
    hostile.printed(&session, &format!("{answer}\n{RAW}")).await;
    let port = port(&case.world, hostile, &session, 8000).await;
    (session, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn n70_a_program_never_sees_a_key() {
    let case = Case::begin_with(
        offering_ports(),
        "N70",
        Severity::Escape,
        "a program on a port that keeps all it is sent, asked with a key, a token and cookies of the service",
        "none of them is in what arrives, wherever the client put it",
    )
    .await;
    let hostile = case.hostile().await;
    let answer =
        "def answer(one): one.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')";
    let (session, port) = answering(&case, &hostile, answer).await;
    let key = &hostile.key.text;
    let cookie = port.cookie().await;
    let asked = port
        .get("/?a=1&belljar_token=secret-of-a-link")
        .bearer_auth(key)
        .header("x-belljar-port-token", &port.token)
        .header("x-api-key", key)
        .header("cookie", format!("own=1; belljar={key}; {cookie}"))
        .header("x-forwarded-for", "192.0.2.7");
    assert_eq!(asked.with(200).await.text().await.unwrap(), "ok");
    let protocols = format!("chat, belljar.key.{key}");
    let bearer = format!("Bearer {key}");
    let socket = [
        ("authorization", bearer.as_str()),
        ("sec-websocket-protocol", &protocols),
    ];
    let no_socket = port.socket(&socket).await;
    assert_eq!(no_socket.unwrap_err(), 200, "the program wants none");
    let seen = hostile.printed(&session, "print(*seen)").await;
    assert!(seen.contains("own=1") && seen.contains("chat"), "{seen}");
    let secret = key.rsplit('_').next().unwrap();
    let mac = port.token.rsplit('.').next().unwrap();
    let cookie = cookie.rsplit('.').next().unwrap();
    for secret in [secret, mac, cookie, "secret-of-a-link", "192.0.2.7"] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n71_the_name_of_another_tenants_port_is_of_no_use() {
    let case = Case::begin_with(
        offering_ports(),
        "N71",
        Severity::Lateral,
        "names of ports of another tenant's session, with a key, tokens, links and cookies of one's own",
        "401, and 404 for a key: nothing reaches the program",
    )
    .await;
    let hostile = case.hostile().await;
    case.peer.printed(&case.peer_session, ECHO).await;
    let theirs = port(&case.world, &case.peer, &case.peer_session, 8000).await;
    let session = hostile.session().await;
    let own = port(&case.world, &hostile, &session, 8000).await;
    let by_key = theirs.get("/").bearer_auth(&hostile.key.text);
    by_key.problem(404, "session_not_found").await;
    let open = format!("{}/ports/8000", case.peer_session);
    let open = hostile.post(&open, json!({}));
    open.problem(404, "session_not_found").await;
    let cookie = own.cookie().await;
    let forged = own
        .token
        .replace(&hostile.key.info.prefix, &case.peer.key.info.prefix);
    for token in [own.token.as_str(), &forged, "", "0.0.0", "9999999999.a."] {
        let by_token = theirs.get("/").header("x-belljar-port-token", token);
        by_token.problem(401, "unauthorized").await;
        let page = format!("/?belljar_token={token}");
        theirs.get(&page).problem(401, "unauthorized").await;
        let by_cookie = theirs
            .get("/")
            .header("cookie", format!("belljar-port={token}"));
        let by_cookie = by_cookie.header("sec-fetch-site", "none");
        by_cookie.problem(401, "unauthorized").await;
    }
    let by_cookie = theirs.get("/").header("cookie", cookie);
    by_cookie
        .header("sec-fetch-site", "none")
        .problem(401, "unauthorized")
        .await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n72_malformed_answers_of_a_program() {
    let case = Case::begin_with(
        offering_ports(),
        "N72",
        Severity::HostDos,
        "answers that are no HTTP, split headers, lie about lengths, switch protocols, or come twice",
        "502, or an answer that is cut; never a second answer, never a header of the program's making",
    )
    .await;
    let hostile = case.hostile().await;
    let answer = "def answer(one): one.sendall(next_answer)";
    let (session, port) = answering(&case, &hostile, answer).await;
    let raw = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nX-Belljar-Port-Token: {}\r\nConnection: close\r\n\r\n",
        port.host, port.token
    );
    for refused in [
        "",
        "\\x00\\x01\\x02",
        "SSH-2.0-OpenSSH_9.9\\r\\n",
        "200 OK\\r\\n\\r\\n",
        "HTTP/1.1 20 OK\\r\\n\\r\\n",
        "HTTP/2.0 200 OK\\r\\n\\r\\n",
        "HTTP/1.1 200 OK\\r\\nA: b\\rSet-Cookie: belljar=x\\r\\n\\r\\n",
        "HTTP/1.1 200 OK\\r\\nA: b\\x00c\\r\\n\\r\\n",
        "HTTP/1.1 200 OK\\r\\nA : b\\r\\n\\r\\n",
        "HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab",
        "HTTP/1.1 200 OK\\r\\nContent-Length: -1\\r\\n\\r\\n",
        "HTTP/1.1 200 OK\\r\\nContent-Length: 99999999999999999999\\r\\n\\r\\n",
        "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: upgrade\\r\\n\\r\\n",
        "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: h2c\\r\\nConnection: upgrade\\r\\n\\r\\n",
    ] {
        hostile
            .run(&session, &format!("next_answer = b'{refused}'"))
            .await;
        let told = case.world.raw(raw.as_bytes()).await;
        assert!(told.starts_with("HTTP/1.1 502 "), "{refused}: {told}");
        assert!(told.contains("\"port_failed\""), "{refused}: {told}");
        assert_eq!(told.matches("HTTP/1.1 ").count(), 1, "{refused}: {told}");
    }
    for cut in [
        "HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nshort",
        "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nshort\\r\\nzz",
        "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 1\\r\\n\\r\\n5\\r\\nshort\\r\\nzz",
    ] {
        hostile
            .run(&session, &format!("next_answer = b'{cut}'"))
            .await;
        let answer = port.ask(Method::GET, "/").with(200).await;
        assert!(answer.bytes().await.is_err(), "{cut} seems whole");
    }
    // A second answer is nobody's.
    let twice = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nokHTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nevil";
    hostile
        .run(&session, &format!("next_answer = b'{twice}'"))
        .await;
    let told = case.world.raw(raw.as_bytes()).await;
    assert!(told.ends_with("\r\n\r\nok"), "{told}");
    // Not even a request that two programs could read in two ways reaches it.
    hostile.run(&session, "seen.clear()").await;
    let smuggled = raw.replace(
        "Connection: close\r\n",
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    );
    let told = case.world.raw(smuggled.as_bytes()).await;
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    assert_eq!(hostile.printed(&session, "print(seen)").await, "[]\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n73_headers_without_end() {
    let case = Case::begin_with(
        offering_ports(),
        "N73",
        Severity::HostDos,
        "an answer whose headers never end: one long line, and many short ones",
        "502 after 64 KiB or 100 headers; the program can't write more",
    )
    .await;
    let hostile = case.hostile().await;
    for endless in ["b'x' * 65536", "b'A: b\\r\\n' * 10000"] {
        let answer = format!(
            "sent = 0\ndef answer(one):\n    global sent\n    one.sendall(b'HTTP/1.1 200 OK\\r\\nX: ')\n    \
             while sent < 1 << 30: sent += one.send({endless})"
        );
        let (session, port) = answering(&case, &hostile, &answer).await;
        port.ask(Method::GET, "/").problem(502, "port_failed").await;
        // What was written is what the kernel took.
        let sent = hostile.printed(&session, "print(sent)").await;
        let sent: u64 = sent.trim().parse().unwrap();
        assert!(sent < 64 << 20, "{sent}");
    }
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_n74_an_answer_that_begins_slowly() {
    let case = Case::begin_with(
        offering_ports(),
        "N74",
        Severity::PeerDos,
        "an answer whose head comes a byte a second",
        "504 a minute after the request, whatever comes",
    )
    .await;
    let hostile = case.hostile().await;
    let answer = "def answer(one):\n    one.sendall(b'HTTP/1.1 200 OK\\r\\nX: ')\n    \
                  while True:\n        one.sendall(b'x')\n        time.sleep(1)";
    let (_, port) = answering(&case, &hostile, answer).await;
    let began = Instant::now();
    port.ask(Method::GET, "/")
        .problem(504, "port_timeout")
        .await;
    assert!(began.elapsed() < Duration::from_secs(90));
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n75_connections_that_hang() {
    let case = Case::begin_with(
        offering_ports(),
        "N75",
        Severity::PeerDos,
        "a hundred requests to a program that answers none",
        "32 wait, the others get 429; free again once their clients are gone",
    )
    .await;
    let hostile = case.hostile().await;
    let answer = "hang = threading.Event()\ndef answer(one): hang.wait()";
    let answer = format!("import threading\n{answer}");
    let (session, port) = answering(&case, &hostile, &answer).await;
    let mut hanging = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let request = port.ask(Method::GET, "/");
        hanging.spawn(async move { request.send().await.unwrap().status().as_u16() });
    }
    for _ in 0..68 {
        assert_eq!(hanging.join_next().await.unwrap().unwrap(), 429);
    }
    port.ask(Method::GET, "/")
        .problem(429, "too_many_connections")
        .await;
    case.check_peer().await;
    drop(hanging);
    hostile
        .run(
            &session,
            "def answer(one): one.sendall(b'HTTP/1.1 204 No\\r\\n\\r\\n')",
        )
        .await;
    soon(async || port.ask(Method::GET, "/").send().await.unwrap().status() == 204).await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n76_headers_that_act_beyond_the_origin() {
    let case = Case::begin_with(
        offering_ports(),
        "N76",
        Severity::Lateral,
        "an answer that sets cookies of the service and of the whole domain, clears them, or redirects its transport",
        "cookies are for their own host and never have names of ours; the other headers are gone",
    )
    .await;
    let hostile = case.hostile().await;
    let headers = [
        "Set-Cookie: belljar=evil; Path=/",
        "Set-Cookie: __Host-belljar=evil; Path=/; Secure",
        "Set-Cookie: belljar-port=evil",
        "Set-Cookie: =belljar-port=evil",
        "Set-Cookie: own=1; Domain=localhost; Path=/",
        "Clear-Site-Data: \"*\"",
        "Strict-Transport-Security: max-age=99999999; includeSubDomains",
        "Alt-Svc: h2=\"evil.example:443\"; ma=99999999",
        "Cross-Origin-Resource-Policy: cross-origin",
        "Connection: X-Hop",
        "X-Hop: 1",
        "Content-Length: 0",
    ];
    let answer = format!(
        "def answer(one): one.sendall('HTTP/1.1 200 OK\\r\\n{}\\r\\n\\r\\n'.encode())",
        headers.join("\\r\\n")
    );
    let (_, port) = answering(&case, &hostile, &answer).await;
    let answer = port.ask(Method::GET, "/").with(200).await;
    let mut left: Vec<String> = answer
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .filter(|line| !line.starts_with("date: "))
        .collect();
    left.sort_unstable();
    let expected = [
        "content-length: 0",
        "cross-origin-resource-policy: same-origin",
        "set-cookie: own=1; Path=/",
    ];
    assert_eq!(left, expected);
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n77_a_page_of_another_session() {
    let case = Case::begin_with(
        offering_ports(),
        "N77",
        Severity::Lateral,
        "a page of another session, which is of the same site, uses a person's cookie: fetch, form, frame, script, \
         WebSocket; and the API of the service",
        "403; only its own pages, and a whole tab, use the cookie",
    )
    .await;
    let hostile = case.hostile().await;
    case.peer.printed(&case.peer_session, ECHO).await;
    let victim = port(&case.world, &case.peer, &case.peer_session, 8000).await;
    let session = hostile.session().await;
    let own = port(&case.world, &hostile, &session, 8000).await;
    let evil = format!("http://{}", own.host);
    let cookie = victim.cookie().await;
    let page = |method: Method, headers: &[(&str, &str)]| {
        let request = victim.request(method, "/").header("cookie", &cookie);
        let lines = headers.iter();
        lines.fold(request, |request, (name, value)| {
            request.header(*name, *value)
        })
    };
    for (method, headers) in [
        (Method::GET, vec![("origin", evil.as_str())]),
        (
            Method::POST,
            vec![("origin", evil.as_str()), ("sec-fetch-mode", "navigate")],
        ),
        (
            Method::GET,
            vec![
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "no-cors"),
            ],
        ),
        (
            Method::GET,
            vec![
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
        ),
        (Method::GET, vec![]),
    ] {
        page(method, &headers).problem(403, "wrong_origin").await;
    }
    let socket = victim
        .socket(&[("cookie", &cookie), ("origin", &evil)])
        .await;
    assert_eq!(socket.unwrap_err(), 403);
    // The same page at the API, with the cookie that a browser would send there.
    let log_in = format!("belljar={}", case.peer.key.text);
    let url = format!("http://{}/v1/me", case.world.address);
    let api = reqwest::Client::new().get(url).header("cookie", log_in);
    let with_mark = api.try_clone().unwrap().header("x-belljar", "1");
    with_mark
        .header("origin", &evil)
        .problem(403, "wrong_origin")
        .await;
    api.problem(401, "unauthorized").await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n78_no_way_out_through_a_port() {
    let mut options = offering_ports();
    options.allow = vec!["pypi.org".to_owned()];
    let case = Case::begin_with(
        options,
        "N78",
        Severity::Escape,
        "a session without and with an allow-list: reach the service and the host from inside; its proxy from outside",
        "nothing of the host answers inside; the proxy's port is not offered; a connection is one request",
    )
    .await;
    let hostile = case.hostile().await;
    let (session, port) = answering(
        &case,
        &hostile,
        // The rest of a connection carries nothing: the program writes, and nobody reads it.
        "left = None\ndef answer(one):\n    global left\n    one.sendall(b'HTTP/1.1 204 No\\r\\n\\r\\n' + \
         b'GET /v1/me HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n    left = one.recv(100)",
    )
    .await;
    port.ask(Method::GET, "/").with(204).await;
    soon(async || hostile.printed(&session, "print(left)").await == "b''\n").await;
    let reach = format!(
        "for address in [('127.0.0.1', {}), ('127.0.0.1', {}), ('127.0.0.1', 3128)]:\n    try:\n        \
         socket.create_connection(address, timeout=5); print('reached')\n    except OSError as error: \
         print(type(error).__name__)",
        case.world.address.port(),
        case.world.admin.port()
    );
    let refused = "ConnectionRefusedError\n".repeat(3);
    assert_eq!(hostile.printed(&session, &reach).await, refused);
    let networked = json!({"network": {"allow": ["pypi.org"]}});
    let networked = hostile.post("/v1/sessions", networked).json_with(201).await;
    let id = networked["id"].as_str().unwrap();
    let open = hostile.post(&format!("/v1/sessions/{id}/ports/3128"), json!({}));
    open.problem(400, "port_not_offered").await;
    let (_, service) = port.host.split_once('.').unwrap();
    let proxy = port.named(format!("3128-{id}.{service}"));
    let proxy = proxy.get("/").bearer_auth(&hostile.key.text);
    proxy.problem(400, "port_not_offered").await;
    case.end().await;
}
