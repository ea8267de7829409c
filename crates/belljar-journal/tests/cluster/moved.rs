//! Sessions that move between nodes, and nodes that are drained.

use std::time::Duration;

use belljar_journal::{
    ClusterStatus, Eviction, Membership, MovedSession, NewEvent, Node, NodeLoad, NodeOptions,
    RunState, SessionPlace, Timestamp,
};

use crate::ownership::{declare_dead, until};
use crate::postgres::database;

async fn join(database: &str, name: &str) -> Membership {
    let mut options = NodeOptions::new(name, format!("http://{name}"));
    options.lease = Duration::from_secs(2);
    Membership::join(database, options).await.unwrap()
}

fn session(id: &str, snapshot: &str) -> MovedSession {
    MovedSession {
        id: id.to_owned(),
        tenant: "t".to_owned(),
        record: "{}".to_owned(),
        snapshot: snapshot.to_owned(),
    }
}

fn with_sessions(sessions: u64) -> NodeLoad {
    NodeLoad {
        sessions,
        session_limit: 10,
        free_memory: 1,
    }
}

async fn names_of_others(node: &Node) -> Vec<String> {
    node.others().await.unwrap().into_keys().collect()
}

/// Of all nodes that take a session at once, one has it, and says so to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_node_gets_a_session() {
    let database = database();
    let mut nodes = Vec::new();
    for name in ["one", "two", "three"] {
        nodes.push(join(&database, name).await.node());
    }
    let (one, id) = (&nodes[0], "one-1");
    let place = one.find_session(id, "one").await.unwrap();
    assert!(matches!(&place, SessionPlace::Home(home) if home.name == "one"));
    let nowhere = one.find_session("four-1", "four").await.unwrap();
    assert_eq!(nowhere, SessionPlace::Unknown);
    assert_eq!(one.take_session(id).await.unwrap(), None);

    let mut owner = one.clone();
    for round in 0..20 {
        let given = session(id, &format!("snapshot-{round}"));
        assert!(owner.give_session(&given).await.unwrap());
        // The answer was lost.
        assert!(owner.give_session(&given).await.unwrap());
        assert_eq!(
            owner.find_session(id, "one").await.unwrap(),
            SessionPlace::Free
        );
        assert_eq!(owner.free_sessions(9).await.unwrap(), [id]);
        let tries = nodes.iter().map(|node| {
            let node = node.clone();
            tokio::spawn(async move { (node.take_session(id).await.unwrap(), node) })
        });
        let tries: Vec<_> = tries.collect();
        let mut owners = Vec::new();
        for tried in tries {
            if let (Some(taken), node) = tried.await.unwrap() {
                assert_eq!(taken, given);
                owners.push(node);
            }
        }
        assert_eq!(owners.len(), 1, "{owners:?}");
        owner = owners.remove(0);
        for node in &nodes {
            let place = node.find_session(id, "one").await.unwrap();
            assert!(matches!(&place, SessionPlace::Moved(place) if place.name == owner.name()));
            // What another node has can't be given, nor forgotten.
            if node.name() != owner.name() {
                let other = session(id, "of another");
                assert!(!node.give_session(&other).await.unwrap());
                node.forget_sessions(&[id.to_owned()]).await.unwrap();
            }
        }
        assert!(one.free_sessions(9).await.unwrap().is_empty());
        let names = one.moved_snapshots().await.unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), [given.snapshot]);
    }
    // An owner whose process died lets go of it when it starts.
    owner.release_sessions().await.unwrap();
    assert_eq!(one.free_sessions(9).await.unwrap(), [id]);
    assert!(one.take_session(id).await.unwrap().is_some());
    one.forget_sessions(&[id.to_owned()]).await.unwrap();
    let place = nodes[1].find_session(id, "one").await.unwrap();
    assert!(matches!(&place, SessionPlace::Home(_)), "{place:?}");
}

/// A node whose life is over takes nothing, and what a lost node had is lost with it.
#[tokio::test]
async fn a_life_that_is_over_takes_no_session() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    let (one, id) = (one.node(), "two-1");
    let given = session(id, "snapshot");
    assert!(two.node().give_session(&given).await.unwrap());
    declare_dead(&database, &one).await;
    assert_eq!(one.take_session(id).await.unwrap(), None);
    two.node().take_session(id).await.unwrap().unwrap();
    let before = two.node();
    before.report(with_sessions(1));
    before.leave().await.unwrap();
    let lost = one.find_session(id, "two").await.unwrap();
    assert_eq!(lost, SessionPlace::Lost("two".to_owned()));
    assert_eq!(names_of_others(&one).await, ["two"]);
    // Nothing is missing with a node that has left without sessions.
    let again = two.join_again().await.unwrap();
    again.report(with_sessions(0));
    again.leave().await.unwrap();
    assert!(names_of_others(&one).await.is_empty());
}

/// A node that is drained claims nothing and is offered nothing, in this life and the next one of its process.
#[tokio::test]
async fn a_drained_node_gets_nothing() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    for member in [&one, &two] {
        member.node().report(with_sessions(2));
    }
    until("an offer", async || {
        !two.node().offers().await.unwrap().is_empty()
    })
    .await;
    let nobody = ClusterStatus::drain(&database, "http://nowhere").await;
    assert!(nobody.unwrap().is_empty());
    assert!(!one.node().is_draining());
    let drained = ClusterStatus::drain(&database, "http://one").await.unwrap();
    assert_eq!(drained, ["one"]);
    assert_eq!(
        ClusterStatus::drain(&database, "one").await.unwrap(),
        ["one"]
    );
    until("the mark", async || one.node().is_draining()).await;
    assert!(two.node().offers().await.unwrap().is_empty());

    let event = NewEvent::new("test", 1, Timestamp(0), &"body").unwrap();
    let (run, owner) = ("a".parse().unwrap(), two.node());
    owner.submit(&run, "t", &[event]).await.unwrap();
    assert!(one.node().claim(9).await.unwrap().is_empty());
    declare_dead(&database, &one.node()).await;
    until("the end of the life", async || one.node().is_over()).await;
    one.join_again().await.unwrap();
    assert!(one.node().claim(9).await.unwrap().is_empty());
    let state = async || {
        let status = ClusterStatus::read(&database).await.unwrap();
        let mut nodes = status.nodes.into_iter();
        let node = nodes.find(|node| node.place.name == "one").unwrap();
        (node.is_draining, node.is_drained(), node.sessions)
    };
    until("a beat", async || state().await == (true, false, Some(2))).await;
    one.node().report(with_sessions(0));
    until("a beat", async || state().await == (true, true, Some(0))).await;
    let mut claimed = two.node().claim(9).await.unwrap();
    claimed.remove(0).give_up(RunState::Ready).await.unwrap();
}

/// A node that will not return is removed, unless it beats: others have its runs, and the sessions that it had taken over.
#[tokio::test]
async fn a_lost_node_is_evicted() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    let evict = async |name: &str| ClusterStatus::evict(&database, name).await.unwrap();
    assert_eq!(evict("nobody").await, Eviction::Unknown);
    let given = session("one-1", "snapshot");
    assert!(one.node().give_session(&given).await.unwrap());
    two.node().take_session("one-1").await.unwrap().unwrap();
    let event = NewEvent::new("test", 1, Timestamp(0), &"body").unwrap();
    let run = "a".parse().unwrap();
    one.node().submit(&run, "t", &[event]).await.unwrap();
    let held = two.node().claim(9).await.unwrap();
    two.node().report(with_sessions(3));
    assert_eq!(evict("two").await, Eviction::Beating);
    assert!(two.node().may_act());

    // It is gone without a word.
    declare_dead(&database, &two.node()).await;
    let one = one.node();
    let place = one.find_session("two-1", "two").await.unwrap();
    assert_eq!(place, SessionPlace::Lost("two".to_owned()));
    assert_eq!(names_of_others(&one).await, ["two"]);
    let (runs, sessions) = (1, 1);
    assert_eq!(evict("two").await, Eviction::Done { runs, sessions });
    assert_eq!(
        one.find_session("two-1", "two").await.unwrap(),
        SessionPlace::Unknown
    );
    assert!(names_of_others(&one).await.is_empty());
    assert_eq!(one.take_session("one-1").await.unwrap(), Some(given));
    let mut claimed = one.claim(9).await.unwrap();
    claimed.remove(0).give_up(RunState::Ended).await.unwrap();
    drop(held);

    // It does return, with what it had.
    let two = two.join_again().await.unwrap();
    let place = one.find_session("two-1", "two").await.unwrap();
    assert!(matches!(&place, SessionPlace::Home(place) if place.life == two.life()));
}
