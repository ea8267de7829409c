//! One address for all nodes of a cluster: lists of all of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::nodes::{BOTH, Cluster, node_id};
use crate::postgres;
use crate::support::{Ask as _, Client, soon};

/// The ids of all sessions, a page at a time, each from another node.
async fn paged(clients: [&Client; 2], limit: usize) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for client in clients.into_iter().cycle() {
        let page = client.get(&format!("/v1/sessions?limit={limit}{cursor}"));
        let page = page.json_with(200).await;
        assert_eq!(page.get("unanswered"), None);
        let ids = ids(&page);
        assert!(ids.len() <= limit);
        all.extend(ids);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
    unreachable!()
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().unwrap().iter();
    let ids = sessions.map(|session| session["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn id(session: &str) -> String {
    session.rsplit('/').next().unwrap().to_owned()
}

/// Each session is listed once, in one order, on pages of any size and of any node; others' never.
#[tokio::test]
async fn sessions_of_all_nodes_are_listed_by_each_of_them() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    stranger.session().await;
    let mut made = BTreeSet::new();
    for client in [&here, &other, &other, &here, &other] {
        made.insert(id(&client.session().await));
    }
    let whole = other.get("/v1/sessions").json_with(200).await;
    assert_eq!(whole, here.get("/v1/sessions").json_with(200).await);
    let times: Vec<u64> = whole["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["created_at"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let whole = ids(&whole);
    assert_eq!(whole.iter().cloned().collect::<BTreeSet<_>>(), made);
    for limit in [1, 2, 3, 5, 6] {
        assert_eq!(paged([&here, &other], limit).await, whole, "{limit}");
    }
    // A session that ends between two pages moves no other.
    let first = here.get("/v1/sessions?limit=2").json_with(200).await;
    other
        .delete(&format!("/v1/sessions/{}", whole[1]))
        .with(204)
        .await;
    let next = first["next_cursor"].as_str().unwrap();
    let rest = other.get(&format!("/v1/sessions?cursor={next}"));
    assert_eq!(ids(&rest.json_with(200).await), whole[2..]);

    let named = json!({"name": "report", "metadata": {"team": "7"}});
    let named = here.post("/v1/sessions", named).json_with(201).await;
    for filter in ["name=report", "metadata=team%3D7"] {
        let found = other.get(&format!("/v1/sessions?{filter}"));
        assert_eq!(
            ids(&found.json_with(200).await),
            [named["id"].as_str().unwrap()]
        );
    }
    // What a node is asked by another one is its own.
    let own = other.get("/v1/sessions").header("x-belljar-node", "1");
    let own = ids(&own.json_with(200).await);
    assert!(
        own.iter().all(|id| id.starts_with(&node_id(&two))),
        "{own:?}"
    );
    for cursor in ["AAAA", "AAAAAAAAAAD_"] {
        let refused = other.get(&format!("/v1/sessions?cursor={cursor}"));
        refused.problem(400, "bad_query").await;
    }
    one.ends().await;
    two.ends().await;
}

/// A node that has stopped, or that takes a connection and says nothing, is named, and keeps nobody waiting.
#[tokio::test]
async fn nodes_that_do_not_answer_are_named() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let moved = here.session().await;
    let session = other.session().await;
    let listed = other.get("/v1/sessions").json_with(200).await;
    assert_eq!(ids(&listed).len(), 2);
    assert_eq!(listed.get("unanswered"), None);

    let node = node_id(&one);
    let _silent = cluster.silence(&one).await;
    let began = Instant::now();
    let listed = other.get("/v1/sessions").json_with(200).await;
    let took = began.elapsed();
    assert_eq!(listed["unanswered"], json!([node]));
    assert_eq!(ids(&listed), [id(&session)]);
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");

    // Nothing is missing with a node that has left its sessions to others.
    one.ends().await;
    soon(async || {
        let listed = other.get("/v1/sessions").json_with(200).await;
        // Sessions of one second are in the order of their ids, which begin with those of their nodes.
        let both = BTreeSet::from([id(&moved), id(&session)]);
        listed.get("unanswered").is_none()
            && ids(&listed).into_iter().collect::<BTreeSet<_>>() == both
    })
    .await;
    two.ends().await;
}
