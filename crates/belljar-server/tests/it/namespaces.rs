//! Namespaces of a session, over HTTP.

use serde_json::{Value, json};

use crate::support::{Ask as _, Client, world};

async fn prints(client: &Client, session: &str, namespace: &str, code: &str) -> Value {
    let cell = json!({"code": code, "namespace": namespace});
    let outcome = client.post(&format!("{session}/cells"), cell);
    outcome.json_with(200).await["stdout"]["text"].clone()
}

#[tokio::test]
async fn a_client_creates_uses_restarts_and_removes_namespaces() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let namespaces = format!("{session}/namespaces");
    client.run(&session, "x = 'main'").await;
    let made = client.post(&namespaces, json!({"name": "a", "directory": "/tmp"}));
    assert_eq!(
        made.json_with(201).await,
        json!({"name": "a", "directory": "/tmp"})
    );
    let code = "import os; x = 'a'; print(x, os.getcwd())";
    assert_eq!(prints(&client, &session, "a", code).await, "a /tmp\n");
    assert_eq!(
        prints(&client, &session, "main", "print(x)").await,
        "main\n"
    );
    assert_eq!(client.printed(&session, "print(x)").await, "main\n");
    let list = client.get(&namespaces).json_with(200).await;
    let expected = json!({"namespaces": [
        {"name": "main", "directory": "/workspace"},
        {"name": "a", "directory": "/tmp"},
    ]});
    assert_eq!(list, expected);
    let names = async |query: &str| {
        let manifest = client.get(&format!("{session}/manifest{query}"));
        manifest.json_with(200).await["names"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((names("").await, names("?namespace=a").await), (1, 2));
    let restart = format!("{namespaces}/a/restart");
    client.post(&restart, json!({})).with(204).await;
    assert_eq!(names("?namespace=a").await, 0);
    // What a lost name of a hibernated session was in.
    prints(
        &client,
        &session,
        "a",
        "import threading; lock = threading.Lock()",
    )
    .await;
    let hibernate = client.post(&format!("{session}/hibernate"), json!({}));
    let left_out = hibernate.json_with(200).await;
    assert_eq!(left_out["names"][0]["name"], "lock", "{left_out:#}");
    assert_eq!(left_out["names"][0]["namespace"], "a", "{left_out:#}");
    assert_eq!(client.get(&namespaces).json_with(200).await, expected);
    client.delete(&format!("{namespaces}/a")).with(204).await;

    for request in [
        client.delete(&format!("{namespaces}/a")),
        client.post(&restart, json!({})),
        client.get(&format!("{session}/manifest?namespace=a")),
        client.post(
            &format!("{session}/cells"),
            json!({"code": "1", "namespace": "a"}),
        ),
    ] {
        request.problem(404, "namespace_not_found").await;
    }
    for name in ["__main__", "", "a/b", "..", &"x".repeat(65)] {
        let refused = client.post(&namespaces, json!({"name": name}));
        refused.problem(400, "bad_body").await;
    }
    client
        .post(&namespaces, json!({"name": "main"}))
        .problem(409, "namespace_refused")
        .await;
    client
        .delete(&format!("{namespaces}/main"))
        .problem(409, "namespace_refused")
        .await;
    for number in 1..16 {
        let made = client.post(&namespaces, json!({"name": format!("n{number}")}));
        made.with(201).await;
    }
    client
        .post(&namespaces, json!({"name": "more"}))
        .problem(409, "namespace_refused")
        .await;
}
