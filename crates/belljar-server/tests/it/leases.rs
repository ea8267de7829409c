//! Leases: the end of a session, which can be moved.

use std::time::{SystemTime, UNIX_EPOCH};

use belljar_server::ServerOptions;
use serde_json::{Value, json};

use crate::support::{Ask as _, Client, soon, world, world_in, world_with};

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

async fn renew(client: &Client, session: &str, lease: Value) -> Value {
    let moved = client.post(&format!("{session}/lease"), lease);
    moved.json_with(200).await
}

async fn state(client: &Client, session: &str) -> Value {
    client.get(session).json_with(200).await["state"].clone()
}

async fn becomes(client: &Client, session: &str, wanted: &str) {
    soon(async || state(client, session).await == wanted).await;
}

fn close(view: &Value, then: &str, seconds: u64) {
    assert_eq!(view["lease"]["then"], then, "{view:#}");
    let ends_at = view["lease"]["ends_at"].as_u64().unwrap();
    let left = ends_at.saturating_sub(now());
    assert!(left <= seconds && left + 10 >= seconds, "{left} {seconds}");
}

/// The time to live is the first lease; it is moved earlier and later, and past its first end.
#[tokio::test]
async fn a_lease_is_moved_earlier_and_later() {
    let world = world().await;
    let client = world.client("a").await;
    let first = client.post("/v1/sessions", json!({"ttl_seconds": 2}));
    let first = first.json_with(201).await;
    close(&first, "end", 2);
    assert_eq!(first["expires_at"], first["lease"]["ends_at"]);
    let path = format!("/v1/sessions/{}", first["id"].as_str().unwrap());
    close(
        &renew(&client, &path, json!({"seconds": 600})).await,
        "end",
        600,
    );
    client.run(&path, "x = 1").await;
    let past = first["lease"]["ends_at"].as_u64().unwrap() + 1;
    soon(async || now() > past).await;
    assert_eq!(client.printed(&path, "print(x)").await, "1\n");
    renew(&client, &path, json!({"seconds": 1, "then": "end"})).await;
    becomes(&client, &path, "ended").await;
    let late = client.post(&format!("{path}/lease"), json!({"seconds": 60}));
    late.problem(409, "session_ended").await;
    let none = client.session().await;
    assert_eq!(client.get(&none).json_with(200).await["lease"], Value::Null);
}

/// At its end the session hibernates, and wakes on demand without a lease.
#[tokio::test]
async fn a_session_sleeps_at_the_end_of_its_lease() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 41").await;
    let view = renew(&client, &session, json!({"seconds": 1, "then": "sleep"})).await;
    close(&view, "sleep", 1);
    assert_eq!(view["expires_at"], Value::Null);
    becomes(&client, &session, "hibernated").await;
    soon(async || client.get(&session).json_with(200).await["lease"].is_null()).await;
    assert_eq!(client.printed(&session, "print(x + 1)").await, "42\n");
    assert_eq!(state(&client, &session).await, "awake");
    // The next one counts from now.
    renew(&client, &session, json!({"seconds": 1, "then": "sleep"})).await;
    becomes(&client, &session, "hibernated").await;
}

#[tokio::test]
async fn a_lease_is_bounded() {
    let hour = ServerOptions {
        max_lease: std::time::Duration::from_hours(1),
        ..ServerOptions::default()
    };
    let world = world_with(hour).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let lease = format!("{session}/lease");
    close(
        &renew(&client, &session, json!({"seconds": 3600})).await,
        "end",
        3600,
    );
    for (asked, status, code) in [
        (json!({"seconds": 3601}), 400, "limit_too_high"),
        (json!({"seconds": u64::MAX}), 400, "limit_too_high"),
        (json!({"seconds": 0}), 400, "bad_body"),
        (json!({"seconds": -1}), 400, "bad_body"),
        (json!({"seconds": 60, "then": "explode"}), 400, "bad_body"),
        (json!({}), 400, "bad_body"),
    ] {
        client.post(&lease, asked).problem(status, code).await;
    }
    let long = client.post("/v1/sessions", json!({"ttl_seconds": 3601}));
    long.problem(400, "limit_too_high").await;
    let other = world.client("b").await;
    let foreign = other.post(&lease, json!({"seconds": 60}));
    foreign.problem(404, "session_not_found").await;
    close(&client.get(&session).json_with(200).await, "end", 3600);
}

/// The next service keeps both kinds of lease, also one that ended in between.
#[tokio::test]
async fn leases_survive_a_restart() {
    let world = world().await;
    let client = world.client("a").await;
    let (long, short) = (client.session().await, client.session().await);
    renew(&client, &long, json!({"seconds": 600, "then": "sleep"})).await;
    let short_view = renew(&client, &short, json!({"seconds": 60})).await;
    assert_eq!(short_view["state"], "awake");
    let data = world.ends().await;
    let world = world_in(data, ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    close(&client.get(&long).json_with(200).await, "sleep", 600);
    close(&client.get(&short).json_with(200).await, "end", 60);
    renew(&client, &short, json!({"seconds": 1})).await;
    becomes(&client, &short, "ended").await;
    assert_eq!(client.printed(&long, "print(1)").await, "1\n");
}
