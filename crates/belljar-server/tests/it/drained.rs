//! Draining a node of a cluster: other nodes continue its runs and sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_journal::ClusterStatus;
use serde_json::{Value, json};

use crate::mcp_client::Mcp;
use crate::nodes::{BOTH, Cluster, node_id};
use crate::postgres;
use crate::runs::{answer, code};
use crate::support::{Ask as _, Client, World, soon, world_in};

async fn drain(cluster: &Cluster, node: &World) {
    let drained = ClusterStatus::drain(&cluster.database, &node_id(node)).await;
    assert_eq!(drained.unwrap(), [node_id(node)]);
}

async fn until_drained(cluster: &Cluster, node: &World) {
    let name = node_id(node);
    soon(async || {
        let status = ClusterStatus::read(&cluster.database).await.unwrap();
        let mut nodes = status.nodes.iter();
        nodes.any(|node| node.place.name == name && node.is_drained())
    })
    .await;
}

async fn health(node: &World) -> (u16, String) {
    let answer = reqwest::get(format!("http://{}/healthz", node.admin));
    let answer = answer.await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn listed(client: &Client) -> BTreeSet<String> {
    let page = client.get("/v1/sessions").json_with(200).await;
    assert_eq!(page.get("unanswered"), None, "{page:#}");
    let sessions = page["sessions"].as_array().unwrap().iter();
    let paths = sessions.map(|one| format!("/v1/sessions/{}", one["id"].as_str().unwrap()));
    paths.collect()
}

/// Runs a cell, and retries on 503. Returns what it printed.
async fn printed(client: &Client, session: &str, code: &str) -> String {
    loop {
        let asked = client.post(&format!("{session}/cells"), json!({"code": code}));
        let answer = asked.send().await.unwrap();
        if answer.status() == 503 {
            assert!(answer.headers().contains_key("retry-after"));
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        assert_eq!(answer.status(), 200);
        let outcome: Value = answer.json().await.unwrap();
        return outcome["stdout"]["text"].as_str().unwrap().to_owned();
    }
}

/// Sessions of a drained node are woken by another one, with variables and files, and outlive their own node.
#[tokio::test]
async fn sessions_of_a_drained_node_go_on_at_another() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let session = here.session().await;
    here.run(&session, "x = 6 * 7\nopen('kept', 'w').write('file')")
        .await;
    let busy = here.session().await;
    let slow = "import time\ny = 5\nprint('begun', flush=True)\ntime.sleep(3)\nprint('end')";
    let mut stream = here.stream(&busy, slow).await;
    stream.next().await.unwrap();
    assert_eq!(health(&one).await, (200, "ok\n".to_owned()));
    drain(&cluster, &one).await;
    soon(async || health(&one).await == (503, "draining\n".to_owned())).await;
    assert_eq!(health(&two).await, (200, "ok\n".to_owned()));
    // New ones begin elsewhere.
    let placed = here.session().await;
    assert!(placed.starts_with(&format!("/v1/sessions/{}", node_id(&two))));
    let connection = Mcp::open(&here).await.connection;
    assert!(connection.unwrap().starts_with(&node_id(&two)));
    // The cell that runs ends first.
    let events = stream.rest().await;
    let outcome = &events.last().unwrap().data;
    assert_eq!(outcome["stdout"]["text"], "begun\nend\n", "{outcome:#}");
    until_drained(&cluster, &one).await;
    let what = "print(x, open('kept').read())";
    assert_eq!(other.printed(&session, what).await, "42 file\n");
    assert_eq!(here.printed(&session, "x += 1\nprint(x)").await, "43\n");
    let data = one.ends().await;
    assert_eq!(other.printed(&session, "print(x)").await, "43\n");
    assert_eq!(other.printed(&busy, "print(y)").await, "5\n");
    let all = BTreeSet::from([&session, &busy, &placed].map(String::clone));
    soon(async || listed(&other).await == all).await;

    // Its next start is a node as any other; what it had is where it is.
    let one = world_in(data, cluster.options()).await;
    let here = one.client_by(here.key.clone());
    assert_eq!(here.printed(&session, "print(x)").await, "43\n");
    let new = here.session().await;
    assert!(new.starts_with(&format!("/v1/sessions/{}", node_id(&one))));
    for session in [&session, &busy, &placed, &new] {
        here.delete(session).with(204).await;
        other.get(session).problem(404, "session_not_found").await;
    }
    // Nothing is left of them.
    soon(async || cluster.count("moved_sessions").await == 0).await;
    soon(async || cluster.snapshots().await.is_empty()).await;
    one.ends().await;
    two.ends().await;
}

/// Of several nodes that are asked for a session at the same time, one wakes it, and all give its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_wake_a_session_at_once_have_one_session() {
    // Nodes without room take over only what is asked for.
    let cluster = Cluster::new(postgres::database(), []);
    let one = cluster.node().await;
    let here = one.client_with("a", &BOTH).await;
    let mut full = cluster.options();
    full.max_sessions = 0;
    let mut others = Vec::new();
    for _ in 0..3 {
        let node = world_in(tempfile::tempdir().unwrap(), full.clone());
        others.push(node.await);
    }
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = here.session().await;
        here.run(&session, "x = 0").await;
        sessions.push(session);
    }
    drain(&cluster, &one).await;
    until_drained(&cluster, &one).await;
    assert_eq!(cluster.count("moved_sessions WHERE node IS NULL").await, 4);
    for session in &sessions {
        let mut asked = Vec::new();
        for node in others.iter().chain(&others) {
            let (client, session) = (node.client_by(here.key.clone()), session.clone());
            asked.push(tokio::spawn(async move {
                let printed = printed(&client, &session, "x += 1\nprint(x)").await;
                printed.trim().parse::<u32>().unwrap()
            }));
        }
        let mut counted = Vec::new();
        for asked in asked {
            counted.push(asked.await.unwrap());
        }
        counted.sort_unstable();
        assert_eq!(counted, (1..=6).collect::<Vec<_>>());
    }
    one.ends().await;
    for node in others {
        node.ends().await;
    }
}

/// A run continues on the other node, with its variables.
#[tokio::test]
async fn a_run_of_a_drained_node_continues_on_another() {
    let script = [
        code("x = 6 * 7\nprint(x)"),
        code("import time\ntime.sleep(2)\nx += 1\nprint(x)"),
        code("print(x + 1)"),
        answer("It is 44."),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, other) = cluster.two().await;
    let run = here.start(json!({"task": "And two more?"})).await;
    // Its second cell runs.
    soon(async || {
        let shown = here.get(&run).json_with(200).await;
        shown["events"].as_u64() >= Some(9) && cluster.model.requests().len() == 2
    })
    .await;
    drain(&cluster, &one).await;
    let events = here.events(&run, 0).await;
    until_drained(&cluster, &one).await;
    other.until(&run, "answered").await;
    let events = events.rest().await;
    let numbers: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let outputs: Vec<&str> = events
        .iter()
        .filter_map(|event| event.data["result"]["cell"]["output"].as_str())
        .collect();
    assert_eq!(outputs, ["42\n", "43\n", "44\n"]);
    let lost = events.iter().filter(|event| event.kind == "call_lost");
    assert_eq!(lost.count(), 0);
    // A new run begins elsewhere.
    let next = here.start(json!({"task": "And?"})).await;
    assert!(next.starts_with(&format!("/v1/runs/{}", node_id(&two))));
    one.ends().await;
    two.ends().await;
}

/// A rolling restart under load: each cell is carried out once, and clients see nothing but refusals to retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_notice_nothing_of_a_drain_and_a_restart() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for number in 0..4 {
        // Clients of a stopped node ask the other one.
        let first = if number % 2 == 0 { &here } else { &other };
        let session = first.session().await;
        first.run(&session, "x = 0").await;
        let (client, is_over) = (other.clone(), Arc::clone(&is_over));
        clients.push(tokio::spawn(async move {
            let mut count = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                let printed = printed(&client, &session, "x += 1\nprint(x)").await;
                assert_eq!(printed, format!("{count}\n"));
            }
            count
        }));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    drain(&cluster, &one).await;
    until_drained(&cluster, &one).await;
    let data = one.ends().await;
    let one = world_in(data, cluster.options()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 3);
    }
    one.ends().await;
    two.ends().await;
}
