//! Which node of a cluster takes a new session.

use serde_json::json;

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
