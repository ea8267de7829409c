//! Sessions: made, listed, shown, ended.

use serde_json::json;

use crate::support::{Ask as _, options, world, world_with};

#[tokio::test]
async fn a_session_lives_from_its_creation_to_its_deletion() {
    let world = world().await;
    let client = world.client("a").await;
    let created = client.post("/v1/sessions", json!({})).with(201).await;
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    let session: serde_json::Value = created.json().await.unwrap();
    assert_eq!(
        location,
        format!("/v1/sessions/{}", session["id"].as_str().unwrap())
    );
    assert_eq!(session["state"], "awake");
    assert_eq!(session["environment"], "bare");

    let outcome = client.run(&location, "x = 20\nx + 22").await;
    assert_eq!(outcome["cell"], 1);
    assert_eq!(outcome["displays"][0]["parts"][0]["text"], "42");
    let manifest = client
        .get(&format!("{location}/manifest"))
        .json_with(200)
        .await;
    assert_eq!(manifest["names"][0]["name"], "x");
    assert_eq!(manifest["names"][0]["preview"], "20");

    client.delete(&location).with(204).await;
    client
        .get(&location)
        .problem(404, "session_not_found")
        .await;
    client
        .delete(&location)
        .problem(404, "session_not_found")
        .await;
    world.ends().await;
}

/// A session is shown again only if it has changed.
#[tokio::test]
async fn a_session_has_an_etag() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let shown = client.get(&session).with(200).await;
    let tag = shown.headers()["etag"].clone();
    let same = client
        .get(&session)
        .header("if-none-match", tag.clone())
        .with(304)
        .await;
    assert_eq!(same.headers()["etag"], tag);
    assert_eq!(same.text().await.unwrap(), "");
    client.run(&session, "1").await;
    let changed = client
        .get(&session)
        .header("if-none-match", tag.clone())
        .with(200)
        .await;
    assert_ne!(changed.headers()["etag"], tag);
}

/// What it uses is shown while a cell runs, and is neither in the list nor a reason to be shown again.
#[tokio::test]
async fn a_session_shows_what_it_uses() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let before = client.get(&session).json_with(200).await;
    let used = |view: &serde_json::Value, what: &str| view["use"][what].as_u64().unwrap();
    assert!(used(&before, "processes") >= 1, "{before}");
    assert!(used(&before, "memory_bytes") > 1_000_000, "{before}");
    client.run(&session, "held = bytearray(200_000_000)").await;
    let cells = format!("{session}/cells");
    let code = json!({"code": "while True: pass"});
    let runs = async { client.post(&cells, code).json_with(200).await };
    let looks = async {
        loop {
            let view = client.get(&session).json_with(200).await;
            if view["busy"] == true && used(&view, "cpu_ms") > used(&before, "cpu_ms") + 200 {
                break view;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let stops = async {
        let view = looks.await;
        client
            .post(&format!("{session}/interrupt"), json!({}))
            .json_with(200)
            .await;
        view
    };
    let (_, view) = tokio::join!(runs, stops);
    let memory = |view| used(view, "memory_bytes");
    assert!(memory(&view) > memory(&before) + 190_000_000, "{view}");

    let list = client.get("/v1/sessions").json_with(200).await;
    assert_eq!(list["sessions"][0].get("use"), None);
    // A thread that goes on changes what is used, and nothing else.
    let thread = "import threading\ndef burn():\n    while True: pass\nthreading.Thread(target=burn, daemon=True).start()";
    client.run(&session, thread).await;
    let shown = client.get(&session).with(200).await;
    let tag = shown.headers()["etag"].clone();
    let before: serde_json::Value = shown.json().await.unwrap();
    while used(&client.get(&session).json_with(200).await, "cpu_ms") == used(&before, "cpu_ms") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let known = client.get(&session).header("if-none-match", tag);
    known.with(304).await;

    let other = client.session().await;
    client
        .post(&format!("{other}/hibernate"), json!({}))
        .with(200)
        .await;
    let hibernated = client.get(&other).json_with(200).await;
    assert_eq!(
        (&hibernated["state"], hibernated.get("use")),
        (&json!("hibernated"), None)
    );
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let world = world().await;
    let client = world.client("a").await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(client.session().await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for size in [2, 2, 1] {
        let page = client
            .get(&format!("/v1/sessions?limit=2{cursor}"))
            .json_with(200)
            .await;
        let sessions = page["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), size);
        let paths = sessions
            .iter()
            .map(|session| session["id"].as_str().unwrap());
        seen.extend(paths.map(|id| format!("/v1/sessions/{id}")));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => assert_eq!(size, 1),
        }
    }
    assert_eq!(seen, made);
    for query in [
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=x",
        "cursor=AAAA",
        "other=1",
    ] {
        client
            .get(&format!("/v1/sessions?{query}"))
            .problem(400, "bad_query")
            .await;
    }
}

/// K3: what a client can't ask for is refused by name.
#[tokio::test]
async fn unknown_and_excessive_wishes_are_refused() {
    let world = world_with(options(|options| {
        options.allow = vec!["pypi.org".into()];
    }))
    .await;
    let client = world.client("a").await;
    let create = |body| client.post("/v1/sessions", body);
    for field in ["tenant_id", "privileged", "tools"] {
        let problem = create(json!({field: 1})).problem(400, "bad_body").await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
    }
    let inner = create(json!({"limits": {"walls": "none"}}))
        .problem(400, "bad_body")
        .await;
    assert!(inner["detail"].as_str().unwrap().contains("`walls`"));
    create(json!([])).problem(400, "bad_body").await;
    create(json!({"limits": {"memory_bytes": -1}}))
        .problem(400, "bad_body")
        .await;
    create(json!({"limits": {"memory_bytes": 1}}))
        .problem(400, "bad_body")
        .await;
    for limit in [
        "cpu_time_ms",
        "memory_bytes",
        "milli_cpus",
        "processes",
        "wall_time_ms",
        "workspace_bytes",
    ] {
        let problem = create(json!({"limits": {limit: u64::MAX}}))
            .problem(400, "limit_too_high")
            .await;
        assert!(problem["detail"].as_str().unwrap().contains(limit));
    }
    create(json!({"network": {"allow": ["example.com"]}}))
        .problem(400, "network_not_allowed")
        .await;
    create(json!({"network": {"allow": ["*"]}}))
        .problem(400, "network_not_allowed")
        .await;
    let session = create(json!({"network": {"allow": ["pypi.org"]}}))
        .json_with(201)
        .await;
    assert_eq!(session["allow"], json!(["pypi.org"]));
}

#[tokio::test]
async fn limits_that_are_asked_for_hold() {
    let world = world().await;
    let client = world.client("a").await;
    let wish =
        json!({"limits": {"wall_time_ms": 300, "memory_bytes": 268_435_456}, "checkpoints": "off"});
    let session = client.post("/v1/sessions", wish).json_with(201).await;
    assert_eq!(session["limits"]["memory_bytes"], 268_435_456);
    assert_eq!(session["checkpoints"], "off");
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let outcome = client.run(&path, "while True: pass").await;
    assert_eq!(outcome["status"], "timeout");
    assert_eq!(outcome["cause"]["limit_ms"], 300);
    let longer = json!({"code": "1", "wall_time_ms": 301});
    client
        .post(&format!("{path}/cells"), longer)
        .problem(400, "limit_too_high")
        .await;
    let none = json!({"code": "1", "wall_time_ms": 0});
    client
        .post(&format!("{path}/cells"), none)
        .problem(400, "bad_body")
        .await;
}

/// A session that crashed without a copy is still there to be looked at, and takes no place.
#[tokio::test]
async fn an_ended_session_can_be_looked_at() {
    let world = world_with(options(|options| options.tenant_sessions = 1)).await;
    let client = world.client("a").await;
    let session = client
        .post("/v1/sessions", json!({"checkpoints": "off"}))
        .json_with(201)
        .await;
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let outcome = client.run(&path, "import os; os._exit(3)").await;
    assert_eq!(outcome["state"]["fate"], "lost");
    assert_eq!(client.get(&path).json_with(200).await["state"], "ended");
    client.get(&format!("{path}/cells/1")).json_with(200).await;
    let cell = json!({"code": "1"});
    client
        .post(&format!("{path}/cells"), cell)
        .problem(409, "session_ended")
        .await;
    client
        .get(&format!("{path}/manifest"))
        .problem(409, "session_ended")
        .await;
    client.session().await;
}
