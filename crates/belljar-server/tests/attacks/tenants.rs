//! What one tenant tries with the names and answers of another.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Case, Severity};
use crate::support::{Ask as _, options};

/// All that can be asked about a session, where `{}` is its path.
const OF_A_SESSION: [(&str, &str); 20] = [
    ("GET", "{}"),
    ("DELETE", "{}"),
    ("GET", "{}/manifest"),
    ("POST", "{}/interrupt"),
    ("POST", "{}/lease"),
    ("GET", "{}/cells"),
    ("POST", "{}/cells"),
    ("GET", "{}/cells/1"),
    ("GET", "{}/cells/1/events"),
    ("GET", "{}/checkpoints"),
    ("POST", "{}/checkpoints"),
    ("POST", "{}/fork"),
    ("GET", "{}/snapshot"),
    ("POST", "{}/hibernate"),
    ("POST", "{}/wake"),
    ("GET", "{}/files"),
    ("GET", "{}/files/kept.txt"),
    ("PUT", "{}/files/kept.txt"),
    ("DELETE", "{}/files/kept.txt"),
    ("GET", "{}/archive"),
];

/// What stands before the id in the path of a session.
const CUT: usize = "/v1/sessions/".len();

#[tokio::test(flavor = "multi_thread")]
async fn n40_the_id_of_another_tenants_session_is_of_no_use() {
    let case = Case::begin(
        "N40",
        Severity::Lateral,
        "every route of a session with the id of another tenant's, which is known",
        "404 as for an id that there never was; nothing is done",
    )
    .await;
    let hostile = case.hostile().await;
    let (id_start, _) = case.peer_session.split_at(case.peer_session.len() - 6);
    let never = format!("{id_start}000000");
    for (method, route) in OF_A_SESSION {
        let ask = async |session: &str| {
            let path = route.replace("{}", session);
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let body = match method.as_str() {
                "POST" if path.ends_with("/cells") => json!({"code": "del kept"}),
                "POST" if path.ends_with("/lease") => json!({"seconds": 1}),
                "POST" if path.ends_with("/checkpoints") => json!({"name": "mine"}),
                _ => json!({}),
            };
            let mut request = hostile.request(method.clone(), &path);
            if method == Method::PUT {
                request = request.body("mine");
            } else if method == Method::POST {
                request = request.json(&body);
            }
            let problem = request.problem(404, "session_not_found").await;
            // It repeats what it was asked for, and says nothing else.
            problem.to_string().replace(&session[CUT..], "ID")
        };
        let (of_peer, of_nobody) = (ask(&case.peer_session).await, ask(&never).await);
        assert_eq!(of_peer, of_nobody, "{method} {route} tells them apart");
        case.search(route, &of_peer);
    }
    let listed = hostile.get("/v1/sessions").json_with(200).await;
    case.search("the list of sessions", &listed.to_string());
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n41_an_idempotency_key_is_its_tenants() {
    let case = Case::begin(
        "N41",
        Severity::Lateral,
        "the Idempotency-Key and the body that another tenant used",
        "a session of one's own, not the other tenant's answer",
    )
    .await;
    let hostile = case.hostile().await;
    let start = |client: &crate::support::Client| {
        let request = client.post("/v1/sessions", json!({}));
        request.header("idempotency-key", "the-same-key-of-both")
    };
    let of_peer = start(&case.peer).json_with(201).await;
    let mine = start(&hostile).json_with(201).await;
    assert_ne!(of_peer["id"], mine["id"]);
    let again = start(&hostile).json_with(201).await;
    assert_eq!(again["id"], mine["id"], "each has its own answer again");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n42_streams_that_nobody_reads_are_bounded() {
    let case = Case::begin_with(
        options(|options| options.tenant_streams = 4),
        "N42",
        Severity::PeerDos,
        "streams of a cell's events, opened and never read",
        "as many as a tenant may have; the next is refused with 429; free again once hung up",
    )
    .await;
    let hostile = case.hostile().await;
    let session = hostile.session().await;
    let events = format!("{session}/cells/1/events");
    let cell = "import time\nfor _ in range(200): print('x' * 10000); time.sleep(0.1)";
    let mut running = hostile.stream(&session, cell).await;
    running.next().await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(hostile.get(&events).with(200).await);
    }
    hostile.get(&events).problem(429, "too_many_streams").await;
    case.check_peer().await;
    drop((running, unread));
    hostile.delete(&session).with(204).await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n43_bodies_that_only_nest_are_refused() {
    let case = Case::begin(
        "N43",
        Severity::HostDos,
        "JSON of 4 MiB that nests without end, repeats a member, or ends too early",
        "400; no stack overflows",
    )
    .await;
    let hostile = case.hostile().await;
    let session = hostile.session().await;
    let depth = 4 << 20;
    for body in [
        "[".repeat(depth),
        "{\"code\":".repeat(depth / 8),
        format!("{{\"code\":\"1\",\"stdin\":{}", "[".repeat(depth)),
        "{\"code\":\"1\",\"code\":\"2\"}".to_owned(),
        "{\"code\":\"1\"".to_owned(),
        "{\"code\":\"\\ud800\"}".to_owned(),
    ] {
        let request = hostile.request(Method::POST, &format!("{session}/cells"));
        let request = request
            .header("content-type", "application/json")
            .body(body);
        request.problem(400, "bad_body").await;
    }
    assert_eq!(hostile.printed(&session, "print(2)").await, "2\n");
    case.end().await;
}
