//! A request that is passed on has the answer that it would have had at the other node.

use std::time::Duration;

use serde_json::{Value, json};

use crate::nodes::{Cluster, node_id};
use crate::postgres;
use crate::runs::{answer, code};
use crate::support::{Ask as _, Client, World, soon};

/// A session of the second node, and a client at the first one.
async fn apart(cluster: &Cluster) -> (World, World, Client, String) {
    let (one, two, here, other) = cluster.two().await;
    let session = other.session().await;
    assert!(session.contains(&node_id(&two)), "{session}");
    (one, two, here, session)
}

/// The run is driven where the session is.
#[tokio::test]
async fn a_run_has_files_of_a_session_of_another_node() {
    let script = [code("print(open('x.txt').read())"), answer("Read.")];
    let cluster = Cluster::new(postgres::database(), script);
    let (one, two, here, session) = apart(&cluster).await;
    here.put(&format!("{session}/files/data"), "what it has")
        .with(204)
        .await;
    let id = session.rsplit('/').next().unwrap();
    let asked = |path: &str| {
        let file = json!({"name": "x.txt", "session_id": id, "path": path});
        json!({"task": "Read.", "files": [file]})
    };
    here.post("/v1/runs", asked("none"))
        .problem(404, "file_not_found")
        .await;
    let run = here.start(asked("data")).await;
    assert!(run.contains(&node_id(&two)), "{run}");
    here.until(&run, "answered").await;
    let events = here.events(&run, 0).await.rest().await;
    let told: String = events.iter().map(|event| event.data.to_string()).collect();
    assert!(told.contains("what it has"), "{told}");
    one.ends().await;
    two.ends().await;
}

/// The other node reads nothing of a body that is too large, and would close the connection.
#[tokio::test]
async fn what_is_too_large_is_refused_by_every_node() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, session) = apart(&cluster).await;
    let large = json!({"code": "x".repeat(9 << 20)});
    here.post(&format!("{session}/cells"), large)
        .problem(413, "body_too_large")
        .await;
    one.ends().await;
    two.ends().await;
}

/// A path is not tidied up on its way.
#[tokio::test]
async fn a_path_that_leads_out_is_refused_by_every_node() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, session) = apart(&cluster).await;
    let (key, address) = (&here.key.text, one.address);
    for name in ["../x", "%2e%2E/x", "a/./x", "a\\..\\x"] {
        let request = format!(
            "GET {session}/files/{name} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Connection: close\r\n\r\n"
        );
        let answer = one.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{name}: {answer}");
        assert!(answer.contains("bad_path"), "{name}: {answer}");
    }
    one.ends().await;
    two.ends().await;
}

/// A node that stops lets cells end that came by way of it.
#[tokio::test]
async fn a_node_that_stops_waits_for_what_it_has_passed_on() {
    let cluster = Cluster::new(postgres::database(), []);
    let (mut one, two, here, session) = apart(&cluster).await;
    let asked = json!({"code": "import time\nbegun = 1\ntime.sleep(2)\nprint('end')"});
    let cell = here.post(&format!("{session}/cells"), asked);
    let cell = tokio::spawn(cell.json_with(200));
    let busy = async || here.get(&session).json_with(200).await["busy"] == true;
    soon(busy).await;
    let _ = one.stop.take().unwrap().send(());
    let outcome: Value = cell.await.unwrap();
    assert_eq!(outcome["stdout"]["text"], "end\n", "{outcome:#}");
    let ended = tokio::time::timeout(Duration::from_secs(20), one.task).await;
    ended.unwrap().unwrap().unwrap();
    two.ends().await;
}
