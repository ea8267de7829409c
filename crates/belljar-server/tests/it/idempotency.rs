//! The same request twice has one effect.

use belljar_server::Scope;
use belljar_test_model::ScriptedModel;
use serde_json::{Value, json};

use crate::cells::LARGE;
use crate::nodes::{Cluster, node_id};
use crate::postgres;
use crate::runs::{offering, one_run};
use crate::support::{Ask as _, Client, Events, options, world, world_in, world_with};

#[tokio::test]
async fn a_session_is_made_once() {
    let world = world().await;
    let client = world.client("a").await;
    let create = |key: &'static str, body: Value| {
        client
            .post("/v1/sessions", body)
            .header("idempotency-key", key)
    };
    // Also at once.
    let (first, second) = tokio::join!(
        create("one", json!({})).json_with(201),
        create("one", json!({})).json_with(201)
    );
    assert_eq!(first, second);
    let again = create("one", json!({})).with(201).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert!(
        again.headers()["location"]
            .to_str()
            .unwrap()
            .ends_with(first["id"].as_str().unwrap())
    );
    assert_eq!(again.json::<Value>().await.unwrap(), first);
    create("one", json!({"checkpoints": "off"}))
        .problem(422, "idempotency_mismatch")
        .await;
    let other = create("two", json!({})).json_with(201).await;
    assert_ne!(other["id"], first["id"]);
    // K8: keys of another tenant are others.
    let theirs = world.client("b").await;
    let theirs = theirs
        .post("/v1/sessions", json!({}))
        .header("idempotency-key", "one");
    assert_ne!(theirs.json_with(201).await["id"], first["id"]);
    let long = "x".repeat(256);
    for key in ["", long.as_str()] {
        let wrong = client
            .post("/v1/sessions", json!({}))
            .header("idempotency-key", key);
        wrong.problem(400, "bad_header").await;
    }
}

/// A client that lost the answer to a cell asks again and gets the same cell, whether it still runs or
/// not, as a stream or as an outcome.
#[tokio::test]
async fn a_cell_is_run_once() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "n = 0").await;
    let path = format!("{session}/cells");
    let run = || {
        let code = "import time; n += 1; print(n, flush=True); time.sleep(0.5)";
        let request = client.post(&path, json!({"code": code}));
        request.header("idempotency-key", "cell")
    };
    let gave_up = run()
        .timeout(std::time::Duration::from_millis(150))
        .send()
        .await;
    assert!(gave_up.unwrap_err().is_timeout());
    let events = Events::from_request(run().header("accept", "text/event-stream"))
        .await
        .rest()
        .await;
    let outcome = run().json_with(200).await;
    assert_eq!(outcome["stdout"]["text"], "1\n");
    assert_eq!(events.last().unwrap().data["stdout"], outcome["stdout"]);
    assert_eq!(client.printed(&session, "print(n)").await, "1\n");
    for code in [LARGE, "1"] {
        client.run(&session, code).await;
    }
    run().problem(410, "answer_gone").await;
    assert_eq!(client.printed(&session, "print(n)").await, "1\n");
}

/// What was refused for the moment is tried again.
#[tokio::test]
async fn a_refusal_for_the_moment_is_not_kept() {
    let world = world_with(options(|options| options.tenant_sessions = 1)).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let create = || {
        let request = client.post("/v1/sessions", json!({}));
        request.header("idempotency-key", "later")
    };
    create().problem(429, "too_many_sessions").await;
    client.delete(&session).with(204).await;
    create().with(201).await;
}

#[tokio::test]
async fn files_are_written_once() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/files/one");
    let put = |text: &'static str| client.put(&path, text).header("idempotency-key", "file");
    put("first").with(204).await;
    client.put(&path, "second").with(204).await;
    put("first").with(204).await;
    put("other").problem(422, "idempotency_mismatch").await;
    let got = client.get(&path).with(200).await;
    assert_eq!(got.text().await.unwrap(), "second");
}

/// Runs outlive the service, and so does which run a request has begun.
#[tokio::test]
async fn a_run_is_begun_once_also_after_a_restart() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let client = world.client_with("a", &[Scope::Runs]).await;
    let create = |client: &Client, task: &str| {
        let request = client.post("/v1/runs", json!({"task": task}));
        request.header("idempotency-key", "one")
    };
    let first = create(&client, "Write.").json_with(202).await;
    let run = format!("/v1/runs/{}", first["id"].as_str().unwrap());
    client.until(&run, "answered").await;

    let world = world_in(world.ends().await, offering(&model)).await;
    let client = world.client_with("a", &[Scope::Runs]).await;
    let again = create(&client, "Write.").with(202).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.headers()["location"], run);
    let again: Value = again.json().await.unwrap();
    assert_eq!(
        (&again["id"], &again["state"]),
        (&first["id"], &json!("answered"))
    );
    create(&client, "Write another.")
        .problem(422, "idempotency_mismatch")
        .await;
    // The key of another tenant is another.
    let other = world.client_with("b", &[Scope::Runs]).await;
    let theirs = create(&other, "Write.").json_with(202).await;
    assert_ne!(theirs["id"], first["id"]);
    let listed = client.get("/v1/runs").json_with(200).await;
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    world.ends().await;
}

/// In a cluster the same request has one effect whichever nodes get it, also at once. A node that has stopped leaves the
/// keys: what it has done is not done again.
#[tokio::test]
async fn the_same_request_at_two_nodes_has_one_effect() {
    let cluster = Cluster::new(postgres::database(), []);
    let cluster = cluster.with(|options| options.tenant_sessions = 1);
    let (one, two, here, other) = cluster.two().await;
    let create = |client: &Client, key: &str, body: Value| {
        let request = client.post("/v1/sessions", body);
        request.header("idempotency-key", key)
    };
    let (first, second) = tokio::join!(
        create(&here, "one", json!({})).json_with(201),
        create(&other, "one", json!({})).json_with(201)
    );
    assert_eq!(first, second);
    let again = create(&other, "one", json!({})).with(201).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    for client in [&here, &other] {
        let otherwise = create(client, "one", json!({"checkpoints": "off"}));
        otherwise.problem(422, "idempotency_mismatch").await;
        let listed = client.get("/v1/sessions").json_with(200).await;
        assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    }
    let first = format!("/v1/sessions/{}", first["id"].as_str().unwrap());
    here.delete(&first).with(204).await;
    // A refusal for the moment binds the key to no node.
    here.session().await;
    create(&here, "later", json!({}))
        .problem(429, "too_many_sessions")
        .await;
    let later = create(&other, "later", json!({})).json_with(201).await;
    let id = later["id"].as_str().unwrap();
    assert!(id.starts_with(&node_id(&two)), "{id}");
    two.ends().await;
    create(&here, "later", json!({}))
        .problem(410, "answer_gone")
        .await;
    one.ends().await;
}
