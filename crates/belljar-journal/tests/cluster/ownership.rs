//! Ownership of runs, one property at a time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use belljar_journal::{
    AppendError, Error, Journal, NewEvent, Node, NodeOptions, OwnedRun, RunId, RunState, Timestamp,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::postgres::{Server, database};
use crate::proxy::{Network, Proxy};

/// So long that nothing expires during a test.
const LONG: Duration = Duration::from_mins(10);
/// Long enough for a machine that is busy with other tests.
const SHORT: Duration = Duration::from_secs(2);

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &"body").unwrap()
}

async fn join(database: &str, lease: Duration) -> Node {
    let mut options = NodeOptions::new("test", "nowhere");
    options.lease = lease;
    Node::join(database, options).await.unwrap()
}

pub(crate) async fn declare_dead(database: &str, node: &Node) {
    let mut connection = PgConnection::connect(database).await.unwrap();
    let life = node.life();
    let declare = format!("UPDATE belljar.lives SET dead = true, died = now() WHERE life = {life}");
    let declare = sqlx::query(AssertSqlSafe(declare));
    declare.execute(&mut connection).await.unwrap();
}

async fn claim_one(node: &Node) -> OwnedRun {
    let mut claimed = node.claim(10).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "not in time: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// J3: the statement itself refuses, since this owner has not noticed that it is declared dead.
#[tokio::test]
async fn an_owner_that_was_replaced_can_write_nothing() {
    let database = database();
    let (one, other) = (join(&database, LONG).await, join(&database, LONG).await);
    one.submit(&run("a"), "t", &[event()]).await.unwrap();
    let mut before = claim_one(&one).await;
    assert_eq!(before.append(1, &[event()]).await.unwrap(), 2);
    declare_dead(&database, &one).await;
    // It is the only writer until another has claimed the run.
    assert_eq!(before.append(2, &[event()]).await.unwrap(), 3);
    let mut after = claim_one(&other).await;
    assert!(after.epoch() > before.epoch());
    assert_eq!(after.last_seq(), 3);
    assert!(one.may_act(), "it does not know yet");
    for expected in [3, 2] {
        let refused = before.append(expected, &[event()]).await.unwrap_err();
        assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    }
    let refused = before.reconcile().await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    // Nor can it take the run from its owner by giving it up.
    let refused = before.give_up(RunState::Ready).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    assert!(other.claim(10).await.unwrap().is_empty());
    assert_eq!(after.append(3, &[event()]).await.unwrap(), 4);
    // Nor can somebody who never claimed it.
    let journal = Journal::connect(&database).await.unwrap();
    let refused = journal.append(&run("a"), 4, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
}

/// J4: of many who claim at the same time, one gets each run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_run_is_claimed_once() {
    const RUNS: usize = 60;
    let database = database();
    let first = join(&database, LONG).await;
    for number in 0..RUNS {
        let run = run(&format!("run-{number}"));
        first.submit(&run, "t", &[event()]).await.unwrap();
    }
    let mut claimers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let node = join(&database, LONG).await;
        claimers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = node.claim(3).await.unwrap();
                if claimed.is_empty() {
                    return mine;
                }
                assert!(claimed.len() <= 3);
                mine.extend(claimed);
            }
        });
    }
    let claimed = claimers.join_all().await;
    let ids: Vec<_> = claimed.iter().flatten().map(OwnedRun::id).collect();
    assert_eq!(ids.len(), RUNS);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), RUNS);
    assert!(claimed.iter().flatten().all(|run| run.epoch() == 1));
}

#[tokio::test]
async fn tenants_take_turns() {
    let database = database();
    let node = join(&database, LONG).await;
    for number in 0..30 {
        let run = run(&format!("many-{number}"));
        node.submit(&run, "many", &[event()]).await.unwrap();
    }
    let begun = node.claim(10).await.unwrap();
    assert_eq!(begun.len(), 10);
    for number in 0..2 {
        let run = run(&format!("few-{number}"));
        node.submit(&run, "few", &[event()]).await.unwrap();
    }
    // Twenty of the other tenant came before them.
    let next = node.claim(4).await.unwrap();
    let few = next.iter().filter(|run| run.tenant() == "few").count();
    assert_eq!(few, 2, "{next:?}");
}

#[tokio::test]
async fn a_run_that_nobody_holds_is_claimed_again() {
    let database = database();
    let node = join(&database, LONG).await;
    node.submit(&run("a"), "t", &[event()]).await.unwrap();
    let held = claim_one(&node).await;
    assert!(node.claim(10).await.unwrap().is_empty());
    let epoch = held.epoch();
    // As after a panic of its driver, or an answer that was lost.
    drop(held);
    // A node without room has it again, and nothing else.
    node.submit(&run("b"), "t", &[event()]).await.unwrap();
    let mut again = node.claim_dropped(10).await.unwrap();
    assert_eq!(again.len(), 1);
    let mut again = again.remove(0);
    assert_eq!(again.id(), &run("a"));
    let other = claim_one(&node).await;
    other.give_up(RunState::Ended).await.unwrap();
    assert!(again.epoch() > epoch);
    assert_eq!(again.append(1, &[event()]).await.unwrap(), 2);
    again.give_up(RunState::Waits).await.unwrap();
    assert!(node.claim(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_that_is_given_up_is_ready_for_others_and_an_ended_one_for_nobody() {
    let database = database();
    let (one, other) = (join(&database, LONG).await, join(&database, LONG).await);
    one.submit(&run("a"), "t", &[event()]).await.unwrap();
    let again = one.submit(&run("a"), "t", &[event()]).await.unwrap_err();
    assert!(
        matches!(
            again,
            AppendError::Conflict {
                expected: 0,
                actual: 1
            }
        ),
        "{again:?}"
    );
    claim_one(&one)
        .await
        .give_up(RunState::Ready)
        .await
        .unwrap();
    let run = claim_one(&other).await;
    run.give_up(RunState::Ended).await.unwrap();
    for node in [&one, &other] {
        assert!(node.claim(10).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn the_runs_of_a_node_that_leaves_are_free_at_once() {
    let database = database();
    let (one, other) = (join(&database, LONG).await, join(&database, LONG).await);
    one.submit(&run("a"), "t", &[event()]).await.unwrap();
    let mut before = claim_one(&one).await;
    one.clone().leave().await.unwrap();
    let refused = before.append(1, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    assert!(matches!(one.claim(1).await.unwrap_err(), Error::LifeOver));
    let mut after = claim_one(&other).await;
    assert_eq!(after.append(1, &[event()]).await.unwrap(), 2);
}

/// After a lost answer the owner finds its events; after a lost request it finds that they never will be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outcome_is_reconciled() {
    let server = Server::start("");
    server.sql("postgres", "CREATE DATABASE one");
    let proxy = Proxy::start(&server.socket()).await;
    let node = join(&proxy.address("one"), LONG).await;
    node.submit(&run("a"), "t", &[event()]).await.unwrap();
    let mut owned = claim_one(&node).await;
    // The first prepares the statement, which is a request of its own.
    let mut last = owned.append(1, &[event()]).await.unwrap();
    for (network, is_there) in [(Network::LosesAnswers, 2), (Network::LosesRequests, 0)] {
        let epoch = owned.epoch();
        proxy.set(network);
        let error = owned.append(last, &[event(), event()]).await.unwrap_err();
        assert!(matches!(error, AppendError::Journal(_)), "{error:?}");
        // Its own answer is lost, too.
        let error = owned.reconcile().await.unwrap_err();
        assert!(matches!(error, AppendError::Journal(_)), "{error:?}");
        proxy.reset();
        last += is_there;
        assert_eq!(owned.reconcile().await.unwrap(), last);
        assert!(owned.epoch() > epoch);
        last = owned.append(last, &[event()]).await.unwrap();
    }
    // Without asking: the next append reconciles first.
    proxy.set(Network::LosesAnswers);
    owned.append(last, &[event()]).await.unwrap_err();
    proxy.reset();
    let refused = owned.append(last, &[event()]).await.unwrap_err();
    assert!(
        matches!(refused, AppendError::Conflict { .. }),
        "{refused:?}"
    );
    assert_eq!(owned.append(last + 1, &[event()]).await.unwrap(), last + 2);
}

/// A request that the network delivers after its sender has reconciled changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_changes_nothing_after_the_run_was_taken_over() {
    let server = Server::start("");
    server.sql("postgres", "CREATE DATABASE one");
    let proxy = Proxy::start(&server.socket()).await;
    let node = join(&proxy.address("one"), SHORT).await;
    let other = join(&server.address("one"), SHORT).await;
    node.submit(&run("a"), "t", &[event()]).await.unwrap();
    let mut before = claim_one(&node).await;
    before.append(1, &[event()]).await.unwrap();
    proxy.set(Network::Stalls);
    let begin = Instant::now();
    // On its way, and with nobody who waits for it.
    let events = [event()];
    let sent = before.append(2, &events);
    let waited = tokio::time::timeout(Duration::from_millis(100), sent).await;
    assert!(waited.is_err(), "{waited:?}");
    until("self-fencing", async || !node.may_act()).await;
    let refused = before.append(2, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::LeaseExpired), "{refused:?}");
    let mut taken = Vec::new();
    until("take-over", async || {
        taken.extend(other.claim(1).await.unwrap());
        !taken.is_empty()
    })
    .await;
    // The last beat may have been seen a moment before.
    assert!(
        begin.elapsed() >= SHORT / 2,
        "too soon: {:?}",
        begin.elapsed()
    );
    proxy.set(Network::Works);
    until("the end of the life", async || node.is_over()).await;
    let refused = before.append(2, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced), "{refused:?}");
    let mut after = taken.remove(0);
    assert_eq!(after.append(2, &[event()]).await.unwrap(), 3);
    assert_eq!(
        node.journal().read(&run("a"), 0, 10).await.unwrap().len(),
        3
    );
}

/// A new connection takes several round trips, and so does its first statement: longer than a beat may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_on_a_slow_network_beats_again_after_its_connections_were_lost() {
    let server = Server::start("");
    server.sql("postgres", "CREATE DATABASE one");
    let proxy = Proxy::start(&server.socket()).await;
    let node = join(&proxy.address("one"), SHORT).await;
    proxy.set(Network::Stalls);
    until("self-fencing", async || !node.may_act()).await;
    proxy.reset_to(Network::Slow(SHORT / 12));
    until("beats", async || node.may_act()).await;
}

/// A node declares no other node dead because the database was away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_dies_of_a_database_that_is_away() {
    let server = Server::start("");
    let address = server.database();
    let nodes = [join(&address, SHORT).await, join(&address, SHORT).await];
    nodes[0].submit(&run("a"), "t", &[event()]).await.unwrap();
    let mut owned = claim_one(&nodes[0]).await;
    server.stop("-INT");
    tokio::time::sleep(SHORT * 3 / 2).await;
    assert!(nodes.iter().all(|node| !node.may_act() && !node.is_over()));
    let refused = owned.append(1, &[event()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::LeaseExpired), "{refused:?}");
    server.start_again();
    until("beats", async || nodes.iter().all(Node::may_act)).await;
    assert!(nodes[1].claim(10).await.unwrap().is_empty());
    assert_eq!(owned.append(1, &[event()]).await.unwrap(), 2);
}

#[tokio::test]
async fn lives_that_ended_long_ago_and_left_nothing_are_forgotten() {
    let database = database();
    let (one, other) = (join(&database, LONG).await, join(&database, LONG).await);
    one.submit(&run("a"), "t", &[event()]).await.unwrap();
    let _owned = claim_one(&one).await;
    let mut connection = PgConnection::connect(&database).await.unwrap();
    let long_ago = "UPDATE belljar.lives SET dead = true, died = now() - interval '2 days'";
    sqlx::query(long_ago)
        .execute(&mut connection)
        .await
        .unwrap();
    let new = join(&database, LONG).await;
    let lives = sqlx::query("SELECT life FROM belljar.lives ORDER BY life");
    let lives = lives.fetch_all(&mut connection).await.unwrap();
    let lives: Vec<i64> = lives.iter().map(|row| row.get(0)).collect();
    // The first has a run, which nobody has taken over yet.
    assert_eq!(lives, [one.life(), new.life()], "{} has gone", other.life());
}

#[tokio::test]
async fn what_is_not_possible_is_refused() {
    let database = database();
    let mut options = NodeOptions::new("n", "a");
    options.lease = Duration::from_millis(10);
    let error = Node::join(&database, options).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let error = Node::join(&database, NodeOptions::new("n".repeat(300), "a")).await;
    assert!(matches!(error.unwrap_err(), Error::Invalid(_)));
    let node = join(&database, LONG).await;
    for (tenant, events) in [("t\0", vec![event()]), ("t", vec![])] {
        let refused = node.submit(&run("a"), tenant, &events).await.unwrap_err();
        assert!(
            matches!(refused, AppendError::Journal(Error::Invalid(_))),
            "{refused:?}"
        );
    }
}
