//! Requests about one run, and what a tenant sees.

use std::time::Duration;

use belljar_journal::{
    AppendError, Error, Membership, NewEvent, Node, NodeOptions, OwnedRun, RunClaim, RunId,
    RunState, Timestamp,
};

use crate::ownership::declare_dead;
use crate::postgres::database;

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &"body").unwrap()
}

/// With a lease that never expires during a test.
fn options(name: &str) -> NodeOptions {
    let mut options = NodeOptions::new(name, format!("http://{name}"));
    options.lease = Duration::from_mins(10);
    options
}

async fn join(database: &str, name: &str) -> Node {
    Node::join(database, options(name)).await.unwrap()
}

fn owned(claim: RunClaim) -> OwnedRun {
    match claim {
        RunClaim::Owned(owned) => owned,
        other => panic!("{other:?}"),
    }
}

/// J3, J4: who begins a run owns it, and no other gets it before it is given up or its node is dead.
#[tokio::test]
async fn one_run_is_claimed_when_nobody_drives_it() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    let a = run("a");
    assert!(matches!(one.claim_run(&a).await.unwrap(), RunClaim::Over));
    assert_eq!(one.place(&a).await.unwrap(), None);
    let mut begun = one.begin_run(&a, "t", &[event()]).await.unwrap();
    assert_eq!((begun.epoch(), begun.last_seq()), (1, 1));
    assert_eq!(begun.append(1, &[event()]).await.unwrap(), 2);
    // Neither a claim of all runs nor one of this takes it away.
    assert!(one.claim(9).await.unwrap().is_empty());
    assert!(two.claim(9).await.unwrap().is_empty());
    assert!(matches!(one.claim_run(&a).await.unwrap(), RunClaim::Here));
    let RunClaim::Elsewhere(place) = two.claim_run(&a).await.unwrap() else {
        panic!("it is on another node");
    };
    assert_eq!(
        (place.name.as_str(), place.address.as_str()),
        ("one", "http://one")
    );
    assert_eq!(two.find("one").await.unwrap(), Some(place));
    let again = two.begin_run(&a, "t", &[event()]).await.unwrap_err();
    assert!(
        matches!(again, AppendError::Conflict { actual: 2, .. }),
        "{again:?}"
    );

    for state in [RunState::Waits, RunState::Stuck, RunState::Ready] {
        begun.give_up(state).await.unwrap();
        let moved = owned(two.claim_run(&a).await.unwrap());
        moved.give_up(state).await.unwrap();
        begun = owned(one.claim_run(&a).await.unwrap());
    }
    begun.give_up(RunState::Waits).await.unwrap();
    begun = owned(one.claim_run(&a).await.unwrap());
    declare_dead(&database, &one).await;
    let mut after = owned(two.claim_run(&a).await.unwrap());
    assert!(after.epoch() > begun.epoch());
    let refused = begun.append(2, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    let unborn = one.begin_run(&run("b"), "t", &[event()]).await.unwrap_err();
    assert!(matches!(unborn, AppendError::Fenced), "{unborn:?}");
    assert_eq!(after.append(2, &[event()]).await.unwrap(), 3);
    after.give_up(RunState::Ended).await.unwrap();
    assert!(matches!(two.claim_run(&a).await.unwrap(), RunClaim::Over));
    let place = two.place(&a).await.unwrap().unwrap();
    assert_eq!((place.last.as_deref(), place.driver), (Some("two"), None));
}

/// A run that was dropped is released by its own life alone, and not while somebody has it.
#[tokio::test]
async fn a_dropped_run_is_released() {
    let database = database();
    let (one, two) = (join(&database, "one").await, join(&database, "two").await);
    let a = run("a");
    let begun = one.begin_run(&a, "t", &[event()]).await.unwrap();
    one.release(&a, RunState::Ready).await.unwrap();
    assert!(matches!(one.claim_run(&a).await.unwrap(), RunClaim::Here));
    drop(begun);
    two.release(&a, RunState::Ready).await.unwrap();
    assert!(matches!(
        two.claim_run(&a).await.unwrap(),
        RunClaim::Elsewhere(_)
    ));
    one.release(&a, RunState::Waits).await.unwrap();
    // It waits for somebody who asks for it.
    assert!(one.claim(9).await.unwrap().is_empty());
    let mut claimed = owned(two.claim_run(&a).await.unwrap());
    assert_eq!(claimed.append(1, &[event()]).await.unwrap(), 2);
    drop(claimed);
    let claimed = two.claim(9).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].last_seq(), 2);
}

#[tokio::test]
async fn a_tenant_sees_its_own_runs_alone() {
    let database = database();
    let node = join(&database, "one").await;
    let (mine, other) = (node.journal_of("mine"), node.journal_of("other"));
    for (name, tenant) in [("a", "mine"), ("b", "other"), ("c", "mine")] {
        let begun = node.begin_run(&run(name), tenant, &[event()]).await;
        begun.unwrap().give_up(RunState::Ended).await.unwrap();
    }
    let listed = mine.runs(None, 10).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|run| run.first.run.as_str()).collect();
    assert_eq!(names, ["c", "a"]);
    assert_eq!(mine.runs(Some(&run("c")), 10).await.unwrap().len(), 1);
    let unknown = mine.runs(Some(&run("b")), 10).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownRun(_)), "{unknown:?}");
    assert_eq!(mine.last_seq(&run("b")).await.unwrap(), 0);
    let unknown = mine.read(&run("b"), 0, 10).await.unwrap_err();
    assert!(matches!(unknown, Error::UnknownRun(_)), "{unknown:?}");
    mine.remove(&run("b")).await.unwrap();
    assert_eq!(other.read(&run("b"), 0, 10).await.unwrap().len(), 1);
    let mut bodies = 0;
    mine.each_body(&mut |_| bodies += 1).await.unwrap();
    assert_eq!(bodies, 2);
    mine.append(&run("a"), 1, &[event()]).await.unwrap_err();
    mine.append(&run("new"), 0, &[event()]).await.unwrap_err();
    mine.remove(&run("a")).await.unwrap();
    assert_eq!(node.journal().last_seq(&run("a")).await.unwrap(), 0);
}

/// Each life has its own runs; the journals of the earlier one stay good.
#[tokio::test]
async fn a_member_joins_again_after_its_life() {
    let database = database();
    let member = Membership::join(&database, options("one")).await.unwrap();
    let journal = member.journal_of("t");
    let before = member.node();
    let owned = before.begin_run(&run("a"), "t", &[event()]).await.unwrap();
    declare_dead(&database, &before).await;
    let after = member.join_again().await.unwrap();
    assert!(after.life() > before.life());
    assert_eq!(member.node().life(), after.life());
    assert_eq!(
        after.cluster().await.unwrap(),
        before.cluster().await.unwrap()
    );
    let mut claimed = after.claim(9).await.unwrap();
    assert_eq!(claimed.len(), 1);
    claimed[0].append(1, &[event()]).await.unwrap();
    assert_eq!(journal.read(&run("a"), 0, 10).await.unwrap().len(), 2);
    drop(owned);
    assert!(matches!(
        after.claim_run(&run("a")).await.unwrap(),
        RunClaim::Here
    ));
}
