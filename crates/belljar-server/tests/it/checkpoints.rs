//! Going back, forks, snapshots, sleep.

use serde_json::json;

use crate::support::{Ask as _, world};

#[tokio::test]
async fn a_session_goes_back_to_a_checkpoint() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let checkpoints = format!("{session}/checkpoints");
    client
        .post(&checkpoints, json!({"name": "one"}))
        .with(204)
        .await;
    client.run(&session, "x = 2").await;
    let list = client.get(&checkpoints).json_with(200).await;
    let names: Vec<_> = list["checkpoints"].as_array().unwrap().iter().collect();
    assert!(
        names
            .iter()
            .any(|copy| copy["name"] == "one" && copy["cell"] == 1),
        "{list:#}"
    );
    let restore = format!("{session}/restore");
    client
        .post(&restore, json!({"name": "one"}))
        .with(204)
        .await;
    assert_eq!(client.printed(&session, "print(x)").await, "1\n");
    client
        .post(&restore, json!({"name": "two"}))
        .problem(404, "checkpoint_not_found")
        .await;
    client
        .post(&restore, json!({}))
        .problem(400, "bad_body")
        .await;
    client
        .post(&checkpoints, json!({"name": ""}))
        .problem(400, "bad_body")
        .await;
    client.delete(&format!("{checkpoints}/one")).with(204).await;
    client
        .delete(&format!("{checkpoints}/one"))
        .problem(404, "checkpoint_not_found")
        .await;
}

#[tokio::test]
async fn a_fork_is_a_session_of_its_own() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let forks = client
        .post(&format!("{session}/fork"), json!({"count": 2}))
        .json_with(201)
        .await;
    let forks: Vec<_> = forks["sessions"].as_array().unwrap().iter().collect();
    assert_eq!(forks.len(), 2);
    let path = format!("/v1/sessions/{}", forks[0]["id"].as_str().unwrap());
    assert!(session.ends_with(forks[0]["forked_from"].as_str().unwrap()));
    assert_eq!(client.printed(&path, "x += 1; print(x)").await, "2\n");
    assert_eq!(client.printed(&session, "print(x)").await, "1\n");
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .problem(409, "not_hibernated")
        .await;
    for count in [0, 17] {
        let forks = client.post(&format!("{session}/fork"), json!({"count": count}));
        forks.problem(400, "bad_body").await;
    }
}

#[tokio::test]
async fn a_session_travels_as_a_file() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client
        .run(
            &session,
            "x = [1, 2]; lock = __import__('threading').Lock()",
        )
        .await;
    client
        .put(&format!("{session}/files/data.txt"), "text")
        .with(204)
        .await;
    let snapshot = client.get(&format!("{session}/snapshot")).with(200).await;
    assert_eq!(snapshot.headers()["belljar-left-out"], "1");
    assert_eq!(
        snapshot.headers()["content-type"],
        "application/vnd.belljar.snapshot"
    );
    let bytes = snapshot.bytes().await.unwrap();

    let load = |bytes: Vec<u8>| {
        let request = client.request(reqwest::Method::POST, "/v1/sessions/from-snapshot");
        request
            .header("content-type", "application/vnd.belljar.snapshot")
            .body(bytes)
    };
    let loaded = load(bytes.to_vec()).json_with(201).await;
    assert_eq!(loaded["cells"], 1);
    let path = format!("/v1/sessions/{}", loaded["id"].as_str().unwrap());
    let printed = client
        .printed(&path, "print(x, open('data.txt').read())")
        .await;
    assert_eq!(printed, "[1, 2] text\n");

    let mut damaged = bytes.to_vec();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    load(damaged).problem(422, "snapshot_refused").await;
    load(b"no snapshot".to_vec())
        .problem(422, "snapshot_refused")
        .await;
    let untyped = client.post("/v1/sessions/from-snapshot", json!({}));
    untyped.problem(415, "unsupported_media_type").await;
    // Nothing is left on the way.
    let spool = std::fs::read_dir(world.data.path().join("spool")).unwrap();
    assert_eq!(spool.count(), 0);
    let sessions = client.get("/v1/sessions").json_with(200).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_hibernates_and_wakes() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let hibernate = format!("{session}/hibernate");
    let report = client.post(&hibernate, json!({})).json_with(200).await;
    assert!(report["bytes"].as_u64().unwrap() > 0);
    assert_eq!(
        client.get(&session).json_with(200).await["state"],
        "hibernated"
    );
    client
        .request(reqwest::Method::POST, &format!("{session}/wake"))
        .with(204)
        .await;
    assert_eq!(client.get(&session).json_with(200).await["state"], "awake");
    client.post(&hibernate, json!({})).with(200).await;
    // Files wake it, too.
    client
        .put(&format!("{session}/files/one"), "1")
        .with(204)
        .await;
    assert_eq!(
        client
            .printed(&session, "print(x, open('one').read())")
            .await,
        "1 1\n"
    );
}
