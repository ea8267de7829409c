//! Sessions over a restart of the service: saved when it stops, found by the next one.

use std::time::Duration;

use belljar_server::{Quota, ServerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Ask as _, Client, World, options, world, world_in, world_with};

/// The next service with the same data, and a client of it.
async fn restarted(data: TempDir, client: &Client) -> (World, Client) {
    restarted_with(data, client, ServerOptions::default()).await
}

async fn restarted_with(data: TempDir, client: &Client, options: ServerOptions) -> (World, Client) {
    let world = world_in(data, options).await;
    let client = world.client_by(client.key.clone());
    (world, client)
}

fn notes(outcome: &Value) -> Vec<String> {
    let notes = outcome["notes"].as_array().unwrap();
    let text = |note: &Value| note.as_str().unwrap().to_owned();
    notes.iter().map(text).collect()
}

fn files(world: &World) -> usize {
    let directory = world.data.path().join("sessions");
    directory.read_dir().unwrap().count()
}

async fn show(client: &Client, session: &str) -> Value {
    client.get(session).json_with(200).await
}

/// Variables, modules, files, options and numbers of cells are as before, for sessions, hibernated sessions and forks.
#[tokio::test]
async fn sessions_survive_a_restart() {
    let world = world().await;
    let (client, other) = (world.client("a").await, world.client("b").await);
    let asked = json!({"limits": {"memory_bytes": 200_000_000, "wall_time_ms": 5000}, "checkpoints": "every"});
    let awake = client.post("/v1/sessions", asked).json_with(201).await;
    let awake = format!("/v1/sessions/{}", awake["id"].as_str().unwrap());
    client.run(&awake, "x = 20\nimport json").await;
    client.run(&awake, "open('kept', 'w').write('file')").await;
    let asleep = client.session().await;
    client.run(&asleep, "y = 'asleep'").await;
    client
        .post(&format!("{asleep}/hibernate"), json!({}))
        .with(200)
        .await;
    let forks = client.post(&format!("{awake}/fork"), json!({}));
    let forks = forks.json_with(201).await;
    let fork = format!(
        "/v1/sessions/{}",
        forks["sessions"][0]["id"].as_str().unwrap()
    );
    client.run(&fork, "x = 21").await;
    let of_other = other.session().await;
    other.run(&of_other, "z = 1").await;
    let deleted = client.session().await;
    client.delete(&deleted).with(204).await;
    let before = client.get("/v1/sessions").json_with(200).await;

    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    assert_eq!(files(&world), 4);
    let mut after = client.get("/v1/sessions").json_with(200).await;
    for session in after["sessions"].as_array_mut().unwrap() {
        assert_eq!(session["state"], "hibernated");
    }
    let mut expected = before;
    for session in expected["sessions"].as_array_mut().unwrap() {
        session["state"] = "hibernated".into();
    }
    assert_eq!(after, expected);
    assert_eq!(
        show(&client, &awake).await["limits"]["memory_bytes"],
        200_000_000
    );
    let metrics = world.metrics().await;
    for line in [
        "belljar_sessions_taken_over{state=\"hibernated\"} 4",
        "belljar_sessions_taken_over{state=\"lost\"} 0",
        "belljar_sessions_hibernated 4",
        "belljar_sessions 4",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    client
        .get(&of_other)
        .problem(404, "session_not_found")
        .await;

    let outcome = client
        .run(&awake, "print(json.dumps(2 * x), open('kept').read())")
        .await;
    assert_eq!(outcome["stdout"]["text"], "40 file\n", "{outcome:#}");
    assert_eq!(outcome["cell"], 3);
    let told = notes(&outcome);
    assert!(told[0].contains("hibernated after cell 2"), "{told:?}");
    assert_eq!(notes(&client.run(&awake, "x").await), [""; 0]);
    assert_eq!(client.printed(&asleep, "print(y)").await, "asleep\n");
    let outcome = client.run(&fork, "import os; print(x, os.getcwd())").await;
    assert_eq!(outcome["stdout"]["text"], "21 /workspace\n");
    assert!(
        notes(&outcome)
            .iter()
            .any(|note| note.starts_with("it was a fork"))
    );
    let other = world.client_by(other.key.clone());
    assert_eq!(other.printed(&of_other, "print(z)").await, "1\n");
    // Nothing is left of those that are awake.
    assert_eq!(files(&world), 0);

    // And again.
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    assert_eq!(client.printed(&awake, "print(2 * x)").await, "40\n");
    client.delete(&asleep).with(204).await;
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    client.get(&asleep).problem(404, "session_not_found").await;
    world.ends().await;
}

/// What does not survive: in the first outcome, once.
#[tokio::test]
async fn what_is_lost_is_in_the_first_outcome() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let code = "import threading, time\ngone = (n for n in [1])\nkept = 1\n\
                threading.Thread(target=time.sleep, args=(600,), daemon=True).start()";
    client.run(&session, code).await;
    client
        .post(&format!("{session}/checkpoints"), json!({"name": "mine"}))
        .with(204)
        .await;
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    // Files wake it, too, and take nothing of the report away.
    client.get(&format!("{session}/files")).with(200).await;
    let outcome = client.run(&session, "print(kept)").await;
    assert_eq!(outcome["stdout"]["text"], "1\n");
    let told = notes(&outcome).join("\n");
    for part in [
        "the variable `gone` is gone",
        "generator",
        "1 earlier thread",
        "`mine`",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    world.ends().await;
}

const STUBBORN: &str = "import time\nx = 'changed'\nwhile True:\n    try:\n        time.sleep(0.01)\n    \
                        except BaseException:\n        pass";

/// Running cells have the grace period; then they are interrupted, and killed if they ignore it. Cells that wait have
/// not begun, and are for the next service.
#[tokio::test]
async fn running_cells_are_interrupted_at_the_deadline() {
    let short = || {
        options(|options| {
            options.drain = Duration::from_millis(500);
            options.session.limits.grace = Duration::from_millis(500);
        })
    };
    let world = world_with(short()).await;
    let client = world.client("a").await;
    let (polite, stubborn) = (client.session().await, client.session().await);
    for session in [&polite, &stubborn] {
        client.run(session, "x = 'kept'").await;
        // The checkpoint is made after the outcome.
        client
            .post(&format!("{session}/checkpoints"), json!({"name": "kept"}))
            .with(204)
            .await;
    }
    let sleep = "import time\nx = 'slept'\ntime.sleep(20)";
    let mut running = client.stream(&polite, sleep).await;
    running.next().await.unwrap();
    let waiting = client.post(&format!("{polite}/cells"), json!({"code": "x = 'waited'"}));
    let waiting = tokio::spawn(async move { waiting.problem(503, "draining").await });
    let mut ignoring = client.stream(&stubborn, STUBBORN).await;
    ignoring.next().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let data = world.ends().await;
    let last = running.rest().await.pop().unwrap();
    assert_eq!(last.data["cause"]["kind"], "interrupted", "{last:?}");
    let last = ignoring.rest().await.pop().unwrap();
    assert_eq!(last.data["state"]["fate"], "restored", "{last:?}");
    waiting.await.unwrap();

    let (world, client) = restarted_with(data, &client, short()).await;
    let outcome = client.run(&polite, "print(x)").await;
    assert_eq!(outcome["stdout"]["text"], "slept\n");
    let told = notes(&outcome);
    let interrupted = "cell 2 was interrupted when the service stopped";
    assert!(told.iter().any(|note| note == interrupted), "{told:?}");
    let outcome = client.run(&stubborn, "print(x)").await;
    assert_eq!(outcome["stdout"]["text"], "kept\n");
    let told = notes(&outcome);
    let killed = "cell 2 was killed when the service stopped";
    assert!(told.iter().any(|note| note.starts_with(killed)), "{told:?}");
    world.ends().await;
}

/// While one cell keeps the service, the other sessions are saved already: requests for them are for the next service.
#[tokio::test]
async fn requests_for_saved_sessions_are_refused_until_the_restart() {
    let mut world = world().await;
    let client = world.client("a").await;
    let (idle, busy) = (client.session().await, client.session().await);
    client.run(&idle, "x = 1").await;
    let mut running = client.stream(&busy, "import time\ntime.sleep(3)").await;
    running.next().await.unwrap();
    world.stop.take().unwrap().send(()).unwrap();
    let saved = async {
        while show(&client, &idle).await["state"] != "hibernated" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), saved)
        .await
        .unwrap();
    for path in ["manifest", "files", "snapshot", "checkpoints"] {
        let request = client.get(&format!("{idle}/{path}"));
        request.problem(503, "draining").await;
    }
    let cell = client.post(&format!("{idle}/cells"), json!({"code": "x"}));
    let refused = cell.send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "5");
    let rest = running.rest().await;
    assert_eq!(rest.last().unwrap().data["status"], "success");
    let ended = tokio::time::timeout(Duration::from_secs(20), world.task).await;
    ended.unwrap().unwrap().unwrap();
}

/// A session that does not fit the disk quota of its tenant is lost, and every request for it says why. The others of
/// the tenant are saved.
#[tokio::test]
async fn a_session_over_the_disk_quota_is_reported() {
    let world = world().await;
    let client = world.client("a").await;
    let quotas = [(Quota::DiskBytes, Some(1_000_000))].into();
    let tenant = "a".parse().unwrap();
    world
        .server
        .tenants()
        .set_quotas(&tenant, &quotas)
        .await
        .unwrap();
    let (small, large) = (client.session().await, client.session().await);
    client
        .run(&large, "import os\nx = os.urandom(2_000_000)")
        .await;
    client.run(&small, "x = 1").await;
    // The service looks for changed quotas every two seconds.
    let full = async {
        let put = || client.put(&format!("{small}/files/f"), vec![0; 1_500_000]);
        while put().send().await.unwrap().status() != 429 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), full)
        .await
        .unwrap();
    client
        .delete(&format!("{small}/files/f"))
        .send()
        .await
        .unwrap();
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    let shown = show(&client, &large).await;
    assert_eq!(shown["state"], "ended", "{shown:#}");
    let why = "its snapshot would exceed the disk quota of its tenant";
    assert_eq!(shown["lost_because"], why);
    let cell = client.post(&format!("{large}/cells"), json!({"code": "x"}));
    let problem = cell.problem(409, "session_ended").await;
    assert!(
        problem["detail"].as_str().unwrap().starts_with(why),
        "{problem:#}"
    );
    assert_eq!(client.printed(&small, "print(x)").await, "1\n");
    // Told by one service, not for ever.
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    client.get(&large).problem(404, "session_not_found").await;
    world.ends().await;
}

/// Hosts that the operator has taken off the allow-list are out of reach, and the first outcome says so. Limits stay.
#[tokio::test]
async fn the_allow_list_of_the_next_start_holds() {
    let with = |allow: &[&str]| {
        let allow = allow.iter().map(|host| (*host).to_owned()).collect();
        options(|options| options.allow = allow)
    };
    let world = world_with(with(&["one.test:443", "two.test:443"])).await;
    let client = world.client("a").await;
    let asked = json!({"network": {"allow": ["one.test:443", "two.test:443"]}});
    let session = client.post("/v1/sessions", asked).json_with(201).await;
    let session = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    client.run(&session, "x = 1").await;
    let data = world.ends().await;
    let (world, client) = restarted_with(data, &client, with(&["two.test:443"])).await;
    assert_eq!(
        show(&client, &session).await["allow"],
        json!(["two.test:443"])
    );
    let told = notes(&client.run(&session, "x").await);
    let gone = "network access to `one.test:443` is gone";
    assert!(told.iter().any(|note| note.starts_with(gone)), "{told:?}");
    world.ends().await;
}

/// A service that dies without a signal loses its sessions. What it had on disk of others' is removed, not read.
#[tokio::test]
async fn files_of_no_session_are_removed() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 1").await;
    let data = world.ends().await;
    let directory = data.path().join("sessions");
    std::fs::write(directory.join("stray.snapshot"), "half").unwrap();
    std::fs::write(directory.join(".belljar-snapshot-x"), "half").unwrap();
    let (world, client) = restarted(data, &client).await;
    assert_eq!(files(&world), 1);
    client.run(&session, "x").await;
    let data = world.data.path().to_owned();
    // As after a crash: it was woken, and is in no file.
    let database = std::fs::read(data.join("tenants.sqlite")).unwrap();
    let wal = std::fs::read(data.join("tenants.sqlite-wal"));
    let copy = tempfile::tempdir().unwrap();
    std::fs::write(copy.path().join("tenants.sqlite"), database).unwrap();
    if let Ok(wal) = wal {
        std::fs::write(copy.path().join("tenants.sqlite-wal"), wal).unwrap();
    }
    world.ends().await;
    let (world, client) = restarted(copy, &client).await;
    let shown = show(&client, &session).await;
    assert_eq!(shown["lost_because"], "the service ended without saving it");
    world.ends().await;
}

/// A client that lost a response repeats its request: nothing is done twice, by this service or by the next.
#[tokio::test]
async fn executed_requests_are_not_repeated_after_a_restart() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "x = 0").await;
    let create = |client: &Client| {
        let create = client.post("/v1/sessions", json!({}));
        create.header("idempotency-key", "create")
    };
    let add = |client: &Client, code: &str| {
        let add = client.post(&format!("{session}/cells"), json!({"code": code}));
        add.header("idempotency-key", "add")
    };
    create(&client).with(201).await;
    add(&client, "x += 1").with(200).await;
    let data = world.ends().await;
    let (world, client) = restarted(data, &client).await;
    add(&client, "x += 1").problem(410, "answer_gone").await;
    create(&client).problem(410, "answer_gone").await;
    add(&client, "x += 2")
        .problem(422, "idempotency_mismatch")
        .await;
    assert_eq!(client.printed(&session, "print(x)").await, "1\n");
    let listed = client.get("/v1/sessions").json_with(200).await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    world.ends().await;
}
