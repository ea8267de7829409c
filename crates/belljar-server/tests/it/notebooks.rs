//! Notebooks of sessions: stored by revision, kept while a session hibernates and over a restart.

use serde_json::{Value, json};

use crate::support::{Ask as _, Client, world, world_in};

fn notebook(revision: u64, source: &str) -> Value {
    json!({
        "revision": revision,
        "cells": [
            {"id": "text", "kind": "markdown", "source": "# Überschrift"},
            {"id": "code", "kind": "code", "source": source, "cell": 2},
        ],
        "hidden": [1],
    })
}

fn store(client: &Client, session: &str, notebook: &Value) -> reqwest::RequestBuilder {
    client
        .put(&format!("{session}/notebook"), notebook.to_string())
        .header("content-type", "application/json")
}

#[tokio::test]
async fn a_notebook_is_stored_by_who_has_read_the_newest_one() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/notebook");
    let none = client.get(&path).json_with(200).await;
    assert_eq!(none, json!({"revision": 0, "cells": [], "hidden": []}));
    let view = client.get(&session).json_with(200).await;
    assert_eq!(view["notebook"], Value::Null);

    let first = store(&client, &session, &notebook(0, "x"));
    assert_eq!(first.json_with(200).await, json!({"revision": 1}));
    assert_eq!(client.get(&path).json_with(200).await, notebook(1, "x"));
    let view = client.get(&session).json_with(200).await;
    assert_eq!(view["notebook"], 1);

    // A second page that has read the one before changes nothing.
    let late = store(&client, &session, &notebook(0, "y"));
    let problem = late.problem(409, "notebook_changed").await;
    assert!(problem["detail"].as_str().unwrap().contains("is 1, not 0"));
    assert_eq!(client.get(&path).json_with(200).await, notebook(1, "x"));
    let again = store(&client, &session, &notebook(1, "y"));
    assert_eq!(again.json_with(200).await, json!({"revision": 2}));

    client.delete(&session).with(204).await;
    world.ends().await;
}

#[tokio::test]
async fn what_is_no_notebook_or_too_large_is_refused() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let cell = |id: &str| json!({"id": id, "kind": "code", "source": ""});
    for (cells, part) in [
        (json!([cell("")]), "1 to 64 bytes"),
        (json!([cell(&"i".repeat(65))]), "1 to 64 bytes"),
        (json!([cell("a"), cell("a")]), "two cells have the id `a`"),
        (
            json!([{"id": "a", "kind": "raw", "source": ""}]),
            "unknown variant `raw`",
        ),
    ] {
        let asked = json!({"revision": 0, "cells": cells});
        let problem = store(&client, &session, &asked);
        let problem = problem.problem(400, "bad_body").await;
        assert!(
            problem["detail"].as_str().unwrap().contains(part),
            "{problem}"
        );
    }
    let large = notebook(0, &"#".repeat(1 << 20));
    let problem = store(&client, &session, &large);
    problem.problem(413, "body_too_large").await;
    let fits = notebook(0, &"#".repeat((1 << 20) - 1000));
    store(&client, &session, &fits).with(200).await;

    client.delete(&session).with(204).await;
    let ended = store(&client, &session, &notebook(1, "x"));
    ended.with(404).await;
    world.ends().await;
}

#[tokio::test]
async fn a_notebook_survives_hibernation_and_a_restart() {
    let world = world().await;
    let client = world.client("a").await;
    let (session, plain) = (client.session().await, client.session().await);
    let path = format!("{session}/notebook");
    client.run(&session, "x = 1").await;
    client.run(&session, "x = 6 * 7").await;
    let asked = store(&client, &session, &notebook(0, "x = 6 * 7"));
    asked.with(200).await;
    let hibernate = client.post(&format!("{session}/hibernate"), json!({}));
    hibernate.with(200).await;
    // Neither reading nor storing it wakes the session.
    assert_eq!(
        client.get(&path).json_with(200).await,
        notebook(1, "x = 6 * 7")
    );
    let asked = store(&client, &session, &notebook(1, "x = 42"));
    asked.with(200).await;
    let view = client.get(&session).json_with(200).await;
    assert_eq!(
        (&view["state"], &view["notebook"]),
        (&json!("hibernated"), &json!(2))
    );
    assert_eq!(client.printed(&session, "print(x)").await, "42\n");

    let data = world.ends().await;
    let world = world_in(data, belljar_server::ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    assert_eq!(
        client.get(&path).json_with(200).await,
        notebook(2, "x = 42")
    );
    let view = client.get(&session).json_with(200).await;
    assert_eq!(
        (&view["state"], &view["notebook"]),
        (&json!("hibernated"), &json!(2))
    );
    let none = client
        .get(&format!("{plain}/notebook"))
        .json_with(200)
        .await;
    assert_eq!(none["revision"], 0);
    // Its outputs are gone, and the next revision follows.
    let cells = client.get(&format!("{session}/cells")).json_with(200).await;
    assert_eq!(cells["cells"], json!([]));
    let asked = store(&client, &session, &notebook(2, "x"));
    assert_eq!(asked.json_with(200).await, json!({"revision": 3}));
    assert_eq!(client.printed(&session, "print(x)").await, "42\n");
    world.ends().await;
}
