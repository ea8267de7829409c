//! What nodes report, and which of them take new sessions.

use std::time::Duration;

use belljar_journal::{Membership, Node, NodeLoad, NodeOptions};

use crate::ownership::{declare_dead, until};
use crate::postgres::database;

const LEASE: Duration = Duration::from_secs(2);

const LOAD: NodeLoad = NodeLoad {
    sessions: 3,
    session_limit: 7,
    free_memory: u64::MAX,
};

async fn join(database: &str, name: &str) -> Membership {
    let mut options = NodeOptions::new(name, format!("http://{name}"));
    options.lease = LEASE;
    Membership::join(database, options).await.unwrap()
}

async fn offering(node: &Node) -> Vec<String> {
    let offers = node.offers().await.unwrap();
    offers.into_iter().map(|offer| offer.place.name).collect()
}

#[tokio::test]
async fn nodes_offer_what_they_reported_while_they_beat() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    // Who has not reported offers nothing.
    tokio::time::sleep(LEASE / 4).await;
    assert!(offering(&one.node()).await.is_empty());
    for node in [&one, &two] {
        node.node().report(LOAD);
    }
    until("an offer", async || offering(&one.node()).await == ["two"]).await;
    let offers = two.node().offers().await.unwrap();
    let expected = NodeLoad {
        free_memory: u64::try_from(i64::MAX).unwrap(),
        ..LOAD
    };
    assert_eq!(offers[0].place.address, "http://one");
    assert_eq!(offers[0].load, expected);

    // The next life of the node reports the same load.
    declare_dead(&database, &two.node()).await;
    assert!(offering(&one.node()).await.is_empty());
    until("the end of the life", async || two.node().is_over()).await;
    two.join_again().await.unwrap();
    until("an offer", async || offering(&one.node()).await == ["two"]).await;

    // A node that is gone offers nothing, before anybody can declare it dead.
    drop(two);
    until("silence", async || offering(&one.node()).await.is_empty()).await;
}
