//! Which node of a cluster takes a new session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::e2b::sandbox;
use crate::jupyter_client::{ask as jupyter, kernel};
use crate::nodes::{BOTH, Cluster, node_id};
use crate::openai::{ask as openai, container, respond};
use crate::postgres;
use crate::runs::{answer, code};
use crate::support::{Ask as _, Client, soon, world_in};

/// Starts a session as soon as a node takes it: nodes learn from beats who has room.
async fn session(client: &Client) -> String {
    let mut id = None;
    soon(async || {
        let answer = client.post("/v1/sessions", json!({})).send().await.unwrap();
        let status = answer.status();
        let body: serde_json::Value = answer.json().await.unwrap();
        assert!([201, 503].contains(&status.as_u16()), "{body:#}");
        id = body["id"].as_str().map(str::to_owned);
        id.is_some()
    })
    .await;
    id.unwrap()
}

/// What a full node is asked for begins on the node with room, on each wire, and is used by way of both.
#[tokio::test]
async fn what_a_full_node_is_asked_for_begins_on_another() {
    let script = [code("print(6 * 7)"), answer("It is 42.")];
    let cluster = Cluster::new(postgres::database(), script).with(|options| {
        options.e2b = true;
        options.jupyter = true;
        options.openai = true;
        options.tenant_sessions = 20;
    });
    let mut small = cluster.options();
    small.max_sessions = 1;
    let one = world_in(tempfile::tempdir().unwrap(), small).await;
    let two = cluster.node().await;
    let here = one.client_with("a", &BOTH).await;
    let other = two.client_by(here.key.clone());
    let (first, second) = (node_id(&one), node_id(&two));

    // Who has room keeps it.
    let kept = session(&here).await;
    assert!(kept.starts_with(&first), "{kept}");
    assert!(session(&other).await.starts_with(&second));
    let placed = session(&here).await;
    assert!(placed.starts_with(&second), "{placed}");
    let placed = format!("/v1/sessions/{placed}");
    assert_eq!(here.printed(&placed, "x = 6 * 7\nprint(x)").await, "42\n");
    assert_eq!(other.printed(&placed, "print(x)").await, "42\n");
    // Once: another node has asked this one.
    let passed_on = here
        .post("/v1/sessions", json!({}))
        .header("x-belljar-node", "1");
    passed_on.problem(503, "service_full").await;

    assert!(sandbox(&here).await.id.starts_with(&second));
    assert!(
        container(&here)
            .await
            .starts_with(&format!("cntr_{second}"))
    );
    assert!(kernel(&here).await.starts_with(&second));
    let notebook = json!({"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}});
    let made = jupyter(&here, "POST", "/api/sessions").json(&notebook);
    let made = made.json_with(201).await;
    assert!(made["id"].as_str().unwrap().starts_with(&second), "{made}");
    let run = here
        .start(json!({"task": "What is six times seven?"}))
        .await;
    assert!(run.starts_with(&format!("/v1/runs/{second}")), "{run}");
    here.until(&run, "answered").await;

    // What names something goes where that is, full or not.
    let asked =
        json!({"path": "b.ipynb", "kernel": {"id": "00000000-0000-0000-0000-000000000000"}});
    let unknown = jupyter(&here, "POST", "/api/sessions").json(&asked);
    unknown.with(404).await;
    here.delete(&format!("/v1/sessions/{kept}")).with(204).await;
    assert!(session(&here).await.starts_with(&first));
    one.ends().await;
    two.ends().await;
}

/// If no node has room, the client gets 503 with `Retry-After`.
#[tokio::test]
async fn no_node_has_room() {
    let cluster = Cluster::new(postgres::database(), [answer("It is 42.")]).with(|options| {
        options.openai = true;
        options.max_sessions = 1;
    });
    let (one, two, here, other) = cluster.two().await;
    session(&here).await;
    let there = session(&other).await;
    for client in [&here, &other] {
        let refused = client.post("/v1/sessions", json!({})).send().await.unwrap();
        assert_eq!(refused.headers()["retry-after"], "5");
        let refused = client.post("/v1/sessions", json!({}));
        refused.problem(503, "service_full").await;
        respond(client, &json!({})).with(503).await;
        openai(client, "POST", "/containers")
            .json(&json!({"name": "a"}))
            .with(503)
            .await;
    }
    here.delete(&format!("/v1/sessions/{there}"))
        .with(204)
        .await;
    let placed = session(&here).await;
    assert!(placed.starts_with(&node_id(&two)), "{placed}");
    one.ends().await;
    two.ends().await;
}

/// Leads other nodes to an address in place of that of a node, which keeps beating.
async fn lead_away(cluster: &Cluster, node: &str, address: &str) {
    let moved =
        format!("UPDATE belljar.lives SET address = 'http://{address}' WHERE node = '{node}'");
    cluster.sql(&moved).await;
}

/// A node that refuses connections has nothing of a request: it begins on another one, on each wire, with its body.
#[tokio::test]
async fn what_could_not_be_passed_on_begins_on_a_third_node() {
    let script = [
        code("print(open('given.txt').read(), 6 * 7)"),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(postgres::database(), script).with(|options| {
        options.openai = true;
        options.jupyter = true;
        options.creates_per_second = 100;
    });
    let mut full = cluster.options();
    full.max_sessions = 0;
    let one = world_in(tempfile::tempdir().unwrap(), full).await;
    let (two, three) = (cluster.node().await, cluster.node().await);
    let here = one.client_with("a", &BOTH).await;
    // Both are known.
    let mut seen = BTreeSet::new();
    soon(async || {
        seen.insert(session(&here).await[..8].to_owned());
        seen.len() == 2
    })
    .await;
    let closed = "127.0.0.1:1";
    lead_away(&cluster, &node_id(&two), closed).await;
    let third = node_id(&three);
    for number in 0..12 {
        // It beats, so it is tried again and again.
        let made = here.post("/v1/sessions", json!({"name": format!("session {number}")}));
        let made = made.json_with(201).await;
        assert!(made["id"].as_str().unwrap().starts_with(&third), "{made:#}");
        assert_eq!(made["name"], format!("session {number}"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let notebook = json!({"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}});
    let made = jupyter(&here, "POST", "/api/sessions").json(&notebook);
    let made = made.json_with(201).await;
    assert!(made["id"].as_str().unwrap().starts_with(&third), "{made}");
    assert!(container(&here).await.starts_with(&format!("cntr_{third}")));
    let file = json!({"name": "given.txt", "contents": "Z2l2ZW4="});
    let run = here.start(json!({"task": "Read.", "files": [file]})).await;
    assert!(run.starts_with(&format!("/v1/runs/{third}")), "{run}");
    here.until(&run, "answered").await;

    // Without a node that can be reached, it is refused as without room.
    lead_away(&cluster, &third, closed).await;
    let refused = here.post("/v1/sessions", json!({})).send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "5");
    let refused = here.post("/v1/sessions", json!({}));
    refused.problem(503, "service_full").await;
    for node in [one, two, three] {
        node.ends().await;
    }
}

/// What another node may have begun is not begun again; the node is avoided from then on.
#[tokio::test]
async fn what_may_have_begun_is_not_tried_again() {
    let cluster = Cluster::new(postgres::database(), []).with(|options| {
        // Beats are three seconds apart.
        options.cluster.as_mut().unwrap().lease = Duration::from_mins(1);
    });
    let mut full = cluster.options();
    full.max_sessions = 0;
    let one = world_in(tempfile::tempdir().unwrap(), full).await;
    let two = cluster.node().await;
    let here = one.client_with("a", &BOTH).await;
    session(&here).await;
    // It takes a request, and closes the connection.
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = rude.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let taken = Arc::clone(&count);
    let taking = tokio::spawn(async move {
        loop {
            let (mut stream, _) = rude.accept().await.unwrap();
            let mut head = [0; 16];
            stream.read_exact(&mut head).await.unwrap();
            assert!(head.starts_with(b"POST /v1/session"), "{head:?}");
            taken.fetch_add(1, Ordering::Relaxed);
        }
    });
    lead_away(&cluster, &node_id(&two), &address).await;
    let broken = here.post("/v1/sessions", json!({}));
    broken.problem(502, "node_broke_off").await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // Without another one, there is none until it beats.
    let refused = here.post("/v1/sessions", json!({}));
    refused.problem(503, "service_full").await;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let again = async || here.post("/v1/sessions", json!({})).send().await.unwrap();
    soon(async || again().await.status() == 502).await;
    assert_eq!(count.load(Ordering::Relaxed), 2);
    taking.abort();
    one.ends().await;
    two.ends().await;
}

/// A node without room for a session leaves runs to others, and takes none to give them back.
#[tokio::test]
async fn waits_a_full_node_claims_no_run() {
    let script = [
        code("print(6 * 7)"),
        answer("It is 42.").slow_first_byte(Duration::from_secs(30)),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let mut full = cluster.options();
    full.max_sessions = 0;
    let two = world_in(tempfile::tempdir().unwrap(), full).await;
    let one = cluster.node().await;
    let here = one.client_with("a", &BOTH).await;
    let other = two.client_by(here.key.clone());
    let run = here
        .start(json!({"task": "What is six times seven?"}))
        .await;
    soon(async || cluster.model.requests().len() == 2).await;
    one.ends().await;
    let ready = async || cluster.count("runs WHERE state = 'ready'").await;
    let epochs = async || cluster.count("runs, generate_series(1, runs.epoch)").await;
    soon(async || ready().await == 1).await;
    let before = epochs().await;
    // It looks each second.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!((ready().await, epochs().await), (1, before));
    let three = cluster.node().await;
    other.until(&run, "answered").await;
    two.ends().await;
    three.ends().await;
}
