//! Nodes of a cluster: services with one database and one object store. Whole programs, and their deaths, are in the
//! tests of the command.

use std::time::{Duration, Instant};

use belljar_server::{ServerError, ServerOptions, Tenants};
use serde_json::{Value, json};

use crate::nodes::{BOTH, Cluster};
use crate::postgres;
use crate::runs::{answer, code};
use crate::socket::Socket;
use crate::support::{Ask as _, Client, bare, soon, world_in};
use crate::weed::{self, proxy::Network, proxy::Proxy};

/// A run of one node as clients of another see it; each node has the keys, and no tenant sees another's runs.
#[tokio::test]
async fn a_run_of_another_node_is_read_here_and_controlled_there() {
    let script = [
        code("print(6 * 7)\nopen('made.txt', 'w').write('x')"),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let run = here.waiting_run().await;
    // As much as the first node knows.
    let shown = other.until(&run, "waits").await;
    assert_eq!(shown, here.get(&run).json_with(200).await);
    let listed = other.get("/v1/runs").json_with(200).await;
    assert_eq!(listed["runs"][0]["state"], "waits");
    assert_eq!(listed, here.get("/v1/runs").json_with(200).await);
    stranger.get(&run).problem(404, "run_not_found").await;
    let unseen = stranger.get("/v1/runs").json_with(200).await;
    assert_eq!(unseen, json!({"runs": []}));
    let events = other.events(&run, 0).await;
    // What only its node can do is passed on to it, once: the other node would refuse it.
    let node = std::fs::read_to_string(one.data.path().join("node")).unwrap();
    let approval = &shown["waits_for"][0];
    let path = format!("{run}/approvals/{}", approval["id"].as_str().unwrap());
    let decision = json!({"hash": approval["hash"], "decision": {"kind": "accept"}});
    for (path, body) in [
        (path.clone(), decision.clone()),
        (format!("{run}/cancel"), json!({})),
        (format!("{run}/interrupt"), json!({})),
        (format!("{run}/budget"), json!({"steps": 5})),
    ] {
        let passed_on = other
            .post(&path, body.clone())
            .header("x-belljar-node", "1");
        let refused = passed_on.problem(409, "other_node").await;
        assert!(
            refused["detail"].as_str().unwrap().contains(&node),
            "{refused}"
        );
        let of_nobody = stranger.post(&path, body);
        of_nobody.problem(404, "run_not_found").await;
    }
    let raised = other.post(&format!("{run}/budget"), json!({"steps": 5}));
    raised.with(200).await;
    let interrupted = other.post(&format!("{run}/interrupt"), json!({}));
    interrupted.with(200).await;
    other.post(&path, decision).with(204).await;
    let shown = other.until(&run, "answered").await;
    // The reader on the other node has all of it, in order.
    let all = events.rest().await;
    let numbers: Vec<u64> = all.iter().map(|event| event.id).collect();
    let last = shown["events"].as_u64().unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    let continued = here.events(&run, 3).await.rest().await;
    assert_eq!(continued, all[3..]);
    // Blobs and files are everywhere.
    other.get(&format!("{run}/steps")).with(200).await;
    other.get(&format!("{run}/export")).with(200).await;
    let file = format!("{run}/artifacts/made.txt");
    for client in [&here, &other] {
        let file = client.get(&file).header("x-belljar-node", "1");
        let file = file.with(200).await;
        assert_eq!(file.text().await.unwrap(), "x");
    }
    stranger.get(&file).problem(404, "run_not_found").await;
    stranger.delete(&run).problem(404, "run_not_found").await;
    let stored = cluster.objects_of(&run).await;
    assert!(!stored.is_empty());
    other.delete(&run).with(204).await;
    here.get(&run).problem(404, "run_not_found").await;
    soon(async || cluster.objects_of(&run).await.is_empty()).await;
    two.ends().await;
    one.ends().await;
}

/// A run has all that it needs of the one that it continues, on each node: its session, its files, its code.
#[tokio::test]
async fn a_follow_up_on_another_node_has_the_session_and_outlives_its_parent() {
    let script = [
        code("x = len(open('given.txt').read())\nprint(x, 6 * 7)"),
        answer("It is 42."),
        code("print(x + 1, open('given.txt').read())"),
        answer("It is 6."),
        code("print(open('given.txt').read(), 6 * 7)"),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, other) = cluster.two().await;
    let file = json!({"name": "given.txt", "contents": "Z2l2ZW4="});
    let run = json!({"task": "Read.", "files": [file]});
    let parent = here.start(run).await;
    here.until(&parent, "answered").await;
    one.ends().await;
    let follow = other.post(
        &format!("{parent}/follow-up"),
        json!({"task": "And one more?"}),
    );
    let child = follow.json_with(202).await;
    let child = format!("/v1/runs/{}", child["id"].as_str().unwrap());
    other.until(&child, "answered").await;
    let events = other.events(&child, 0).await.rest().await;
    let started = events.iter().find(|event| event.kind == "session_started");
    assert_eq!(started.unwrap().data["cells"], 1, "{started:?}");
    // It has the last session of its own alone.
    let sessions = async |run: &str| {
        let mut names = cluster.objects_of(run).await;
        names.retain(|name| name.contains("/sessions/"));
        names.len()
    };
    soon(async || sessions(&child).await == 1).await;
    assert_eq!(sessions(&parent).await, 1);

    let again = other.post(&format!("{parent}/again"), json!({}));
    let again = again.json_with(202).await;
    let again = format!("/v1/runs/{}", again["id"].as_str().unwrap());
    other.until(&again, "answered").await;

    other.delete(&parent).with(204).await;
    soon(async || cluster.objects_of(&parent).await.is_empty()).await;
    for run in [child, again] {
        other.get(&format!("{run}/steps")).with(200).await;
        other.get(&format!("{run}/export")).with(200).await;
    }
    two.ends().await;
}

/// A saved session that is not what was saved costs the variables, never the run.
#[tokio::test]
async fn a_damaged_session_of_a_run_costs_its_variables_alone() {
    let script = [
        code("x = 6 * 7\nprint(x)"),
        code("print('x' in globals(), 6 * 7)"),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, other) = cluster.two().await;
    let run = here.waiting_run().await;
    let waits_for = async |client: &Client| {
        let shown = client.get(&run).json_with(200).await;
        shown["waits_for"][0].clone()
    };
    let decision = |approval: &Value| {
        let path = format!("{run}/approvals/{}", approval["id"].as_str().unwrap());
        let decision = json!({"hash": approval["hash"], "decision": {"kind": "accept"}});
        (path, decision)
    };
    let first = waits_for(&here).await;
    let (path, body) = decision(&first);
    here.post(&path, body).with(204).await;
    soon(async || {
        let next = waits_for(&here).await;
        !next.is_null() && next["id"] != first["id"]
    })
    .await;
    let (path, body) = decision(&waits_for(&here).await);
    one.ends().await;
    let stored = cluster.objects_of(&run).await;
    let mut sessions = stored.iter().filter(|name| name.contains("/sessions/"));
    let runs = cluster.objects.below("runs");
    runs.put(sessions.next().unwrap(), "damaged").await.unwrap();
    assert_eq!(sessions.next(), None);
    soon(async || {
        let decided = other.post(&path, body.clone()).send().await.unwrap();
        decided.status() == 204
    })
    .await;
    other.until(&run, "answered").await;
    let events = other.events(&run, 0).await.rest().await;
    let started = events
        .iter()
        .filter(|event| event.kind == "session_started");
    let cells: Vec<&Value> = started.map(|event| &event.data["cells"]).collect();
    assert_eq!(cells, [0, 0]);
    let mut outputs = events
        .iter()
        .filter_map(|event| event.data["result"]["cell"]["output"].as_str());
    assert_eq!(outputs.next_back(), Some("False 42\n"));
    two.ends().await;
}

/// J2: a run whose object store fails waits for it, and has its variables and all of its events then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waits_a_run_outlives_a_store_that_fails() {
    let proxy = Proxy::start(weed::port()).await;
    let script = [
        code("x = 6 * 7\nprint(x)"),
        code("print(x + 1)").slow_first_byte(Duration::from_secs(2)),
        code("print(x + 1)"),
        answer("It is 43."),
    ];
    let mut cluster = Cluster::new(postgres::database(), script);
    cluster.objects = weed::open(&weed::address(&weed::prefix(), proxy.port));
    let one = cluster.node().await;
    let client = one.client_with("a", &BOTH).await;
    let run = client.start(json!({"task": "And one more?"})).await;
    soon(async || cluster.model.requests().len() == 2).await;
    proxy.set(Network::Fails);
    // The cell ran, and its outcome could not be stored.
    soon(async || {
        let shown = client.get(&run).json_with(200).await;
        shown["state"] == "interrupted" || shown["events"].as_u64() >= Some(12)
    })
    .await;
    let before = client.get(&run).json_with(200).await["events"].as_u64();
    let before = usize::try_from(before.unwrap()).unwrap();
    let mut stream = client.events(&run, 0).await;
    let mut first = Vec::new();
    for _ in 0..before {
        first.push(stream.next().await.unwrap());
    }
    proxy.set(Network::Works);
    until_answered(&client, &run).await;
    let events = client.events(&run, 0).await.rest().await;
    assert_eq!(events[..before], first);
    let outputs: Vec<&str> = events
        .iter()
        .filter_map(|event| event.data["result"]["cell"]["output"].as_str())
        .collect();
    assert_eq!(outputs.last(), Some(&"43\n"), "{outputs:?}");
    one.ends().await;
}

/// A session is reached by way of each node: requests, streams, sockets, files; and nobody else's.
#[tokio::test]
async fn a_session_is_reached_by_way_of_another_node() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let session = here.session().await;
    assert_eq!(
        other.printed(&session, "x = 20\nprint(x + 1)").await,
        "21\n"
    );
    assert_eq!(here.printed(&session, "print(x)").await, "20\n");
    let events = other.stream(&session, "for i in range(3): print(i)").await;
    let events = events.rest().await;
    assert_eq!(events.last().unwrap().kind, "outcome", "{events:?}");
    let sent = format!("{session}/files/sent.bin");
    other.put(&sent, vec![7_u8; 3 << 20]).with(204).await;
    for client in [&here, &other] {
        let got = client.get(&sent).with(200).await;
        assert_eq!(got.bytes().await.unwrap().len(), 3 << 20);
    }
    let mut socket = Socket::open(&two, &other, &format!("{session}/ws")).await;
    socket.say(json!({"type": "run", "code": "print(x)"})).await;
    let told = socket.events_to_outcome().await;
    let outcome = &told.last().unwrap()["data"];
    assert_eq!(outcome["stdout"]["text"], "20\n", "{outcome:#}");
    drop(socket);
    stranger
        .get(&session)
        .problem(404, "session_not_found")
        .await;
    let twice = other.get(&session).header("x-belljar-node", "1");
    twice.problem(404, "session_not_found").await;
    let nowhere = other.get("/v1/sessions/00000000-0");
    nowhere.problem(404, "session_not_found").await;

    drop(cluster.silence(&one).await);
    other.get(&session).problem(503, "node_lost").await;
    // It was hibernated, and wakes on the other node; also when its own one is there again.
    let data = one.ends().await;
    assert_eq!(other.printed(&session, "print(x)").await, "20\n");
    let one = world_in(data, cluster.options()).await;
    let here = one.client_by(here.key.clone());
    assert_eq!(here.printed(&session, "print(x + 1)").await, "21\n");
    here.delete(&session).with(204).await;
    other.get(&session).problem(404, "session_not_found").await;
    one.ends().await;
    two.ends().await;
}

/// What waits for a person is not lost with its node, and is driven by whichever node is asked.
#[tokio::test]
async fn a_waiting_run_goes_on_where_the_decision_arrives() {
    let script = [code("print(6 * 7)"), answer("It is 42.")];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, other) = cluster.two().await;
    let run = here.waiting_run().await;
    one.ends().await;
    let shown = other.until(&run, "waits").await;
    let approval = &shown["waits_for"][0];
    let path = format!("{run}/approvals/{}", approval["id"].as_str().unwrap());
    let decision = json!({"hash": approval["hash"], "decision": {"kind": "accept"}});
    soon(async || {
        let decided = other.post(&path, decision.clone()).send().await.unwrap();
        let status = decided.status().as_u16();
        // The life of the other is over at once.
        assert!([204, 503].contains(&status), "{status}");
        status == 204
    })
    .await;
    other.until(&run, "answered").await;
    two.ends().await;
}

/// J3: a node that others have declared dead writes nothing, joins again, and drives what it claims.
#[tokio::test]
async fn a_node_that_was_declared_dead_joins_again() {
    let cluster = Cluster::new(
        postgres::database(),
        [
            code("print(6 * 7)"),
            answer("It is 42.").slow_first_byte(Duration::from_secs(2)),
            answer("It is 42."),
        ],
    );
    let one = cluster.node().await;
    let client = one.client_with("a", &BOTH).await;
    let run = client
        .start(json!({"task": "What is six times seven?"}))
        .await;
    soon(async || cluster.model.requests().len() == 2).await;
    cluster
        .sql("UPDATE belljar.lives SET dead = true, died = now() WHERE NOT dead")
        .await;
    let events = client.events(&run, 0).await.rest().await;
    let shown = client.until(&run, "answered").await;
    let numbers: Vec<u64> = events.iter().map(|event| event.id).collect();
    let last = shown["events"].as_u64().unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    // Its first request to the model was given up with the life.
    assert_eq!(cluster.model.requests().len(), 3);
    one.ends().await;
}

/// A database that is away: refusals that say when to retry, and a run that ends once it is back.
#[tokio::test]
async fn waits_nothing_is_acknowledged_without_the_database() {
    let server = postgres::Server::start("");
    let script = [
        code("print(6 * 7)").slow_first_byte(Duration::from_secs(2)),
        code("print(6 * 7)"),
        answer("It is 42."),
    ];
    let cluster = Cluster::new(server.database(), script);
    let one = cluster.node().await;
    let client = one.client_with("a", &BOTH).await;
    let run = client
        .start(json!({"task": "What is six times seven?"}))
        .await;
    soon(async || cluster.model.requests().len() == 1).await;
    server.stop("-INT");
    let begin = Instant::now();
    // For a second, the key is still believed.
    soon(async || {
        let refused = client.get(&run).send().await.unwrap();
        let status = refused.status().as_u16();
        assert_eq!(status, 503);
        assert!(refused.headers().contains_key("retry-after"));
        begin.elapsed() > Duration::from_secs(4)
    })
    .await;
    let task = json!({"task": "What is six times seven?"});
    client
        .post("/v1/runs", task)
        .problem(503, "storage_failed")
        .await;
    server.start_again();
    let shown = until_answered(&client, &run).await;
    let events = client.events(&run, 0).await.rest().await;
    let numbers: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=shown).collect::<Vec<_>>());
    one.ends().await;
}

/// The number of the last event of a run, once it has ended; the service may be in trouble until then.
async fn until_answered(client: &Client, run: &str) -> u64 {
    let mut last = 0;
    soon(async || {
        let shown = client.get(run).send().await.unwrap();
        if shown.status() != 200 {
            return false;
        }
        let shown: serde_json::Value = shown.json().await.unwrap();
        last = shown["events"].as_u64().unwrap();
        shown["state"] == "answered"
    })
    .await;
    last
}

/// A node without what all nodes share is none, and no service has the objects of a cluster.
#[tokio::test]
async fn a_node_needs_what_all_nodes_share() {
    let cluster = Cluster::new(postgres::database(), []);
    let start = async |tenants: Tenants, options: ServerOptions| {
        let data = tempfile::tempdir().unwrap();
        tenants.first_key().await.unwrap();
        let engine = belljar_sandbox::Engine::builder(bare()).build();
        let server = belljar_server::Server::new(engine, tenants, data.path(), options);
        server.await.map(drop)
    };
    let shared = || Tenants::connect(&cluster.database);
    start(shared().await.unwrap(), cluster.options())
        .await
        .unwrap();
    let mut without = cluster.options();
    without.objects = None;
    let refused = start(shared().await.unwrap(), without).await.unwrap_err();
    assert!(matches!(refused, ServerError::NotShared(_)), "{refused:?}");
    let alone = tempfile::tempdir().unwrap();
    let alone = Tenants::open(alone.path()).await.unwrap();
    let refused = start(alone, cluster.options()).await.unwrap_err();
    assert!(matches!(refused, ServerError::NotShared(_)), "{refused:?}");
    let alone = tempfile::tempdir().unwrap();
    let alone = Tenants::open(alone.path()).await.unwrap();
    let mut single = cluster.options();
    single.cluster = None;
    let refused = start(alone, single).await.unwrap_err();
    assert!(matches!(refused, ServerError::ObjectsInUse), "{refused:?}");
}
