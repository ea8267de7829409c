//! A database that fails over to a replica.

use std::time::Duration;

use belljar_journal::{
    AppendError, Membership, NewEvent, Node, NodeOptions, OwnedRun, RunId, RunState, Timestamp,
};

use crate::ownership::until;
use crate::postgres::Server;
use crate::proxy::Proxy;

/// A database with a replica, and the way of nodes to whichever is in charge.
struct Pair {
    primary: Server,
    replica: Server,
    proxy: Proxy,
    name: String,
}

impl Pair {
    async fn start() -> Self {
        let primary = Server::start("");
        let address = primary.database();
        let name = address.split(['/', '?']).nth(3).unwrap().to_owned();
        let replica = primary.replica();
        let proxy = Proxy::start(&primary.socket()).await;
        Self {
            primary,
            replica,
            proxy,
            name,
        }
    }

    /// Whether the replica has all that was committed.
    fn is_even(&self) -> bool {
        let sent =
            "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
        self.primary.sql("postgres", sent) == "1"
    }

    /// The primary is gone, and the replica takes its place.
    fn fail_over(&self) {
        self.primary.stop("-KILL");
        self.replica.sql("postgres", "SELECT pg_promote()");
        self.proxy.lead_to(self.replica.socket());
    }

    fn options(&self, name: &str) -> (String, NodeOptions) {
        let mut options = NodeOptions::new(name, "nowhere");
        options.lease = Duration::from_secs(2);
        (self.proxy.address(&self.name), options)
    }

    async fn join(&self, name: &str) -> Node {
        let (address, options) = self.options(name);
        Node::join(&address, options).await.unwrap()
    }
}

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn event(number: u64) -> NewEvent {
    NewEvent::new("test", 1, Timestamp(0), &number).unwrap()
}

/// Appends until the database is gone. Returns the last sequence number that was acknowledged.
async fn append_on_and_on(mut owned: OwnedRun) -> u64 {
    loop {
        let next = owned.last_seq() + 1;
        if owned.append(next - 1, &[event(next)]).await.is_err() {
            return next - 1;
        }
    }
}

/// J1, J2: with a synchronous replica, a failover loses nothing that was acknowledged, and runs continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_with_a_synchronous_replica() {
    let pair = Pair::start().await;
    let synchronous = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    pair.primary.sql("postgres", synchronous);
    pair.primary.sql("postgres", "SELECT pg_reload_conf()");
    let (address, options) = pair.options("one");
    let member = Membership::join(&address, options).await.unwrap();

    let mut writers = Vec::new();
    for number in 0..8 {
        let id = run(&format!("run-{number}"));
        let owned = member
            .node()
            .begin_run(&id, "t", &[event(1)])
            .await
            .unwrap();
        writers.push((id, tokio::spawn(append_on_and_on(owned))));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    pair.fail_over();

    let mut acknowledged = Vec::new();
    for (id, writer) in writers {
        acknowledged.push((id, writer.await.unwrap()));
    }
    let total: u64 = acknowledged.iter().map(|(_, last)| last).sum();
    assert!(
        total > 50,
        "{total} events: too few for a failover in their midst"
    );
    let mut owned = Vec::new();
    until("the node has its runs again", async || {
        let mut node = member.node();
        if node.is_over() {
            node = member.join_again().await.unwrap();
        }
        owned.extend(node.claim(8).await.unwrap_or_default());
        owned.len() == acknowledged.len()
    })
    .await;
    for mut owned in owned {
        let (_, last) = acknowledged
            .iter()
            .find(|(id, _)| id == owned.id())
            .unwrap();
        assert_eq!(owned.missing_events(), 0);
        assert!(
            owned.last_seq() >= *last,
            "{owned:?}: {last} were acknowledged"
        );
        let events = member
            .node()
            .journal()
            .read(owned.id(), 0, 100_000)
            .await
            .unwrap();
        let numbers: Vec<u64> = events.iter().map(|event| event.decode().unwrap()).collect();
        assert!(
            numbers.iter().copied().eq(1..=owned.last_seq()),
            "{numbers:?}"
        );
        let next = owned.last_seq() + 1;
        assert_eq!(owned.append(next - 1, &[event(next)]).await.unwrap(), next);
        owned.give_up(RunState::Ended).await.unwrap();
    }
}

/// With a replica that was behind, acknowledged events are lost. Whoever knows of them stops their runs, and the others
/// continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_late_replica_has_lost_is_noticed() {
    let pair = Pair::start().await;
    let node = pair.join("one").await;
    let mut held = node
        .begin_run(&run("held"), "t", &[event(1)])
        .await
        .unwrap();
    let mut dropped = node
        .begin_run(&run("dropped"), "t", &[event(1)])
        .await
        .unwrap();
    let mut whole = node
        .begin_run(&run("whole"), "t", &[event(1)])
        .await
        .unwrap();
    assert_eq!(whole.append(1, &[event(2)]).await.unwrap(), 2);
    until("the replica has it", async || pair.is_even()).await;

    pair.replica.stop("-INT");
    for owned in [&mut held, &mut dropped] {
        let events = [event(2), event(3), event(4)];
        assert_eq!(owned.append(1, &events).await.unwrap(), 4);
    }
    let late = pair.join("late").await;
    drop(dropped);
    pair.primary.stop("-KILL");
    pair.replica.start_again();
    pair.replica.sql("postgres", "SELECT pg_promote()");
    pair.proxy.lead_to(pair.replica.socket());
    let mut claimed = Vec::new();
    until("the node is back", async || {
        claimed.extend(node.claim(9).await.unwrap_or_default());
        !claimed.is_empty()
    })
    .await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    let again = &claimed[0];
    assert_eq!(
        (again.id(), again.last_seq(), again.missing_events()),
        (&run("dropped"), 1, 3)
    );
    let refused = held.append(4, &[event(5)]).await.unwrap_err();
    assert!(
        matches!(
            refused,
            AppendError::Rewound {
                known: 4,
                actual: 1
            }
        ),
        "{refused:?}"
    );
    // A person who has looked at it may continue.
    assert_eq!(held.append(1, &[event(2)]).await.unwrap(), 2);
    assert_eq!(whole.append(2, &[event(3)]).await.unwrap(), 3);

    // Its life was lost as well, and another node got the number.
    let number = late.life();
    let rewind = "SELECT setval(pg_get_serial_sequence('belljar.lives', 'life'), ";
    pair.replica
        .sql(&pair.name, &format!("{rewind}{number}, false)"));
    let other = pair.join("other").await;
    assert_eq!(other.life(), number);
    until("the life that was lost is over", async || late.is_over()).await;
    assert!(other.may_act());
}
