//! Deleting runs: what is gone then, and what stays.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_test_model::ScriptedModel;
use serde_json::{Value, json};

use crate::runs::{client, offering, one_run};
use crate::support::{Ask as _, Client, World, world_in, world_with};

async fn desk() -> (World, Client, ScriptedModel) {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let client = client(&world, "a").await;
    (world, client, model)
}

/// A run with a file of these contents, to its end; its path.
async fn run_with(client: &Client, contents: &[u8]) -> String {
    let file = json!({"name": "given", "contents": BASE64.encode(contents)});
    let run = client
        .start(json!({"task": "Write.", "files": [file]}))
        .await;
    client.until(&run, "answered").await;
    run
}

/// Whether some file below a directory has these bytes, or a name with them.
pub(crate) fn holds(directory: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().any(|entry| {
        let path = entry.path();
        let named = entry.file_name().as_encoded_bytes() == bytes;
        let has = |held: Vec<u8>| held.windows(bytes.len()).any(|window| window == bytes);
        named
            || if path.is_dir() {
                holds(&path, bytes)
            } else {
                std::fs::read(path).is_ok_and(has)
            }
    })
}

async fn soon_gone(world: &World, bytes: &[u8]) {
    for _ in 0..1200 {
        if !holds(world.data.path(), bytes) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} is there still", String::from_utf8_lossy(bytes));
}

async fn listed(client: &Client) -> usize {
    let page = client.get("/v1/runs").json_with(200).await;
    page["runs"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_deleted_run_leaves_nothing_but_what_others_have() {
    let (world, client, _model) = desk().await;
    let alone = run_with(&client, b"what nobody else has").await;
    let parent = run_with(&client, b"what another has too").await;
    let go_on = client.post(&format!("{parent}/follow-up"), json!({"task": "And now?"}));
    let child = go_on.json_with(202).await["id"].clone();
    let child = format!("/v1/runs/{}", child.as_str().unwrap());
    // It runs no code.
    client.until(&child, "unverified").await;
    let waiting = client.waiting_run().await;

    let other = crate::runs::client(&world, "b").await;
    other.delete(&alone).problem(404, "run_not_found").await;
    let problem = client.delete(&waiting).problem(409, "run_not_ended").await;
    assert!(problem["detail"].as_str().unwrap().contains("cancel"));

    for run in [&alone, &parent] {
        client.delete(run).with(204).await;
        for path in ["", "/events", "/steps", "/export", "/artifacts/one"] {
            let gone = client.get(&format!("{run}{path}"));
            gone.problem(404, "run_not_found").await;
        }
        client.delete(run).problem(404, "run_not_found").await;
        let id = run.rsplit('/').next().unwrap();
        let directory = world.data.path().join("runs/a/runs").join(id);
        assert!(!directory.exists(), "{directory:?}");
    }
    assert_eq!(listed(&client).await, 2);
    // One that goes on may be about to name what it has found on disk.
    assert!(holds(world.data.path(), b"what nobody else has"));
    client
        .post(&format!("{waiting}/cancel"), json!({}))
        .with(202)
        .await;
    client.until(&waiting, "ended").await;
    soon_gone(&world, b"what nobody else has").await;
    let id = alone.rsplit('/').next().unwrap();
    soon_gone(&world, id.as_bytes()).await;

    // What went on from it is whole, and others can go on from that.
    assert!(holds(world.data.path(), b"what another has too"));
    let shown = client.get(&child).json_with(200).await;
    assert_eq!(shown["parent"]["id"], parent.rsplit('/').next().unwrap());
    client.get(&format!("{child}/export")).with(200).await;
    let go_on = client.post(&format!("{child}/branch"), json!({"step": 1}));
    let next = go_on.json_with(202).await["id"].clone();
    let next = format!("/v1/runs/{}", next.as_str().unwrap());
    client.until(&next, "answered").await;
    world.ends().await;
}

/// A tenant whose disk is full can help itself.
#[tokio::test]
async fn a_deletion_makes_room() {
    let (world, client, _model) = desk().await;
    let admin = world.admin(&belljar_server::Scope::ALL).await;
    let large: Vec<u8> = (0..250_000_u32).flat_map(u32::to_le_bytes).collect();
    let run = run_with(&client, &large).await;
    let quotas = json!({"quotas": {"disk_bytes": 800_000}});
    let set = admin.post("/v1/admin/tenants/a/quotas", quotas);
    set.with(200).await;
    let create = || client.post("/v1/runs", json!({"task": "Write."})).send();
    assert_eq!(create().await.unwrap().status(), 429);
    client.delete(&run).with(204).await;
    let mut status = 429;
    for _ in 0..100 {
        status = create().await.unwrap().status().as_u16();
        if status != 429 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 202);
    world.ends().await;
}

/// A request that comes again after its run was deleted begins no other.
#[tokio::test]
async fn a_deleted_run_does_not_begin_again() {
    let (world, client, model) = desk().await;
    let ask = |client: &Client| {
        let request = client.post("/v1/runs", json!({"task": "Write."}));
        request.header("idempotency-key", "one")
    };
    let begun: Value = ask(&client).json_with(202).await;
    let run = format!("/v1/runs/{}", begun["id"].as_str().unwrap());
    client.until(&run, "answered").await;
    client.delete(&run).with(204).await;
    let data = world.ends().await;
    let world = world_in(data, offering(&model)).await;
    let client = crate::runs::client(&world, "a").await;
    ask(&client).problem(410, "answer_gone").await;
    assert_eq!(listed(&client).await, 0);
    world.ends().await;
}
