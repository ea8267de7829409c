//! What a tenant may use, and how it is told that it is too much.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Ask as _, options, world_with};

/// K4: of many creations at once exactly as many succeed as may, and the others are told at once.
#[tokio::test]
async fn a_quota_holds_for_requests_at_once() {
    let world = world_with(options(|options| {
        options.tenant_sessions = 5;
        options.creates_per_second = 1000;
    }))
    .await;
    let client = world.client("a").await;
    client.session().await;
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let request = client.post("/v1/sessions", json!({}));
            tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
        })
        .collect();
    let mut counts = std::collections::BTreeMap::new();
    for task in tasks {
        *counts.entry(task.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts, [(201, 4), (429, 96)].into());
    // At once; not always, on a busy machine.
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        let problem = client.post("/v1/sessions", json!({}));
        problem.problem(429, "too_many_sessions").await;
        best = best.min(start.elapsed());
        if best < Duration::from_millis(50) {
            break;
        }
    }
    assert!(best < Duration::from_millis(50), "{best:?}");
    // Another tenant has its own.
    world.client("b").await.session().await;
}

#[tokio::test]
async fn creations_have_a_rate_and_tell_it() {
    let world = world_with(options(|options| options.creates_per_second = 1)).await;
    let client = world.client("a").await;
    let tasks: Vec<_> = (0..10)
        .map(|_| tokio::spawn(client.post("/v1/sessions", json!({})).send()))
        .collect();
    let mut refused = Vec::new();
    for task in tasks {
        let response = task.await.unwrap().unwrap();
        if response.status() == 429 {
            refused.push(response);
        }
    }
    assert_eq!(refused.len(), 8);
    let headers = refused[0].headers();
    assert_eq!(headers["retry-after"], "1");
    let policy = headers["ratelimit-policy"].to_str().unwrap();
    assert_eq!(
        policy,
        "\"creates\";q=1;w=1, \"sessions\";q=100, \"cells\";q=64"
    );
    let left = headers["ratelimit"].to_str().unwrap();
    assert_eq!(
        left,
        "\"creates\";r=0;t=1, \"sessions\";r=98, \"cells\";r=64"
    );
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.session().await;
}

#[tokio::test]
async fn the_service_as_a_whole_can_be_full() {
    let world = world_with(options(|options| options.max_sessions = 2)).await;
    let (a, b) = (world.client("a").await, world.client("b").await);
    let session = a.session().await;
    b.session().await;
    let forks = json!({"count": 1});
    a.post(&format!("{session}/fork"), forks)
        .problem(503, "service_full")
        .await;
    b.post("/v1/sessions", json!({}))
        .problem(503, "service_full")
        .await;
    a.delete(&session).with(204).await;
    b.session().await;
}

#[tokio::test]
async fn cells_at_once_are_bounded() {
    let world = world_with(options(|options| options.tenant_cells = 2)).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut long = client.stream(&session, "import time\ntime.sleep(20)").await;
    long.next().await.unwrap();
    let cells = format!("{session}/cells");
    let waiting = client.post(&cells, json!({"code": "1"}));
    let waiting = tokio::spawn(async move { waiting.with(200).await });
    // It is counted once the service has it.
    for _ in 0..200 {
        if world.metrics().await.contains("belljar_cells_running 2") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client
        .post(&cells, json!({"code": "1"}))
        .problem(429, "too_many_cells")
        .await;
    client
        .post(&format!("{session}/interrupt"), json!({}))
        .with(200)
        .await;
    waiting.await.unwrap();
    client.post(&cells, json!({"code": "1"})).with(200).await;
}
