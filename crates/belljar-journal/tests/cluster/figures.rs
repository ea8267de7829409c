//! What appends cost beside the bare server, and which plans the queries have in a journal of many runs.
//!
//! `.ci/cluster-figures` prints them.

use std::time::{Duration, Instant};

use belljar_journal::{Journal, NewEvent, Node, NodeOptions, RunId, RunState, Timestamp};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::postgres::Server;

/// Appends of a run, and how many times as many are compared.
const APPENDS: u32 = 200;
const TURNS: u32 = 10;
const BODY_BYTES: usize = 400;

const DURABLE: &str = "fsync = on\nfull_page_writes = on\n";
const EXPLAIN: &str = "shared_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\n\
    auto_explain.log_analyze = on\nauto_explain.log_timing = off\nlog_min_messages = log\n";

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

async fn join(database: &str) -> Node {
    let mut options = NodeOptions::new("figures", "nowhere");
    options.lease = Duration::from_mins(10);
    Node::join(database, options).await.unwrap()
}

/// They take turns with each append, so that each sees the same machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures, for minutes: .ci/cluster-figures"]
async fn figures() {
    let server = Server::start(DURABLE);
    let address = server.database();
    let node = join(&address).await;
    let journal = node.journal();
    let mut bare = PgConnection::connect(&address).await.unwrap();
    let table = "CREATE TABLE bare (run bigint NOT NULL, seq bigint NOT NULL, at bigint NOT NULL, \
        version integer NOT NULL, kind text NOT NULL, body text NOT NULL, PRIMARY KEY (run, seq))";
    bare.execute(table).await.unwrap();
    let event = NewEvent::new("measure", 1, Timestamp::now(), &"x".repeat(BODY_BYTES)).unwrap();

    let one = std::slice::from_ref(&event);
    let ten = vec![event.clone(); 10];
    node.submit(&run("owned"), "t", one).await.unwrap();
    let mut owned = node.claim(1).await.unwrap().remove(0);
    let (mut plain_last, mut ten_last) = (0, 0);
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..APPENDS * TURNS {
        let begin = Instant::now();
        bare_insert(&mut bare, i64::from(round), &event).await;
        times[0].push(begin.elapsed());
        let begin = Instant::now();
        plain_last = journal
            .append(&run("plain"), plain_last, one)
            .await
            .unwrap();
        times[1].push(begin.elapsed());
        let begin = Instant::now();
        owned.append(owned.last_seq(), one).await.unwrap();
        times[2].push(begin.elapsed());
        let begin = Instant::now();
        ten_last = journal.append(&run("ten"), ten_last, &ten).await.unwrap();
        times[3].push(begin.elapsed());
    }
    owned.give_up(RunState::Ended).await.unwrap();
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let medians = times.each_mut().map(median);
    println!("{:<40} {:>10}  {:>6}", "what, median", "µs", "ratio");
    for (what, time) in [
        "bare insert, one event",
        "append, one event",
        "append of an owner, one event",
        "append, ten events",
    ]
    .into_iter()
    .zip(medians)
    {
        println!("{what:<40} {time:>10.0}  {:>6.2}", time / medians[0]);
    }

    for writers in [4, 16] {
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..writers {
            let (journal, event) = (journal.clone(), event.clone());
            tasks.spawn(async move {
                appends(&journal, &format!("many-{writers}-{writer}"), &[event]).await;
            });
        }
        tasks.join_all().await;
        let rate = f64::from(APPENDS * writers) / begin.elapsed().as_secs_f64();
        println!(
            "{:<40} {rate:>10.0}  events a second",
            format!("{writers} runs at once")
        );
    }

    let mut connection = PgConnection::connect(&address).await.unwrap();
    let size =
        "SELECT pg_total_relation_size('belljar.events')::float8 / count(*) FROM belljar.events";
    let size = sqlx::query(size).fetch_one(&mut connection).await.unwrap();
    let size: f64 = size.try_get(0).unwrap();
    println!(
        "{:<40} {size:>10.0}  of {} of body",
        "bytes an event, with its index",
        BODY_BYTES + 2
    );
    let ratio = medians[2] / medians[0];
    assert!(ratio <= 1.3, "an append costs {ratio:.2} bare inserts");
}

async fn bare_insert(bare: &mut PgConnection, seq: i64, event: &NewEvent) {
    sqlx::query(
        "INSERT INTO bare (run, seq, at, version, kind, body) VALUES (1, $1, $2, $3, $4, $5)",
    )
    .bind(seq)
    .bind(event.at.0)
    .bind(1)
    .bind(&event.kind)
    .bind(event.body.get())
    .execute(bare)
    .await
    .unwrap();
}

async fn appends(journal: &Journal, name: &str, events: &[NewEvent]) {
    let mut last = 0;
    for _ in 0..APPENDS {
        last = journal.append(&run(name), last, events).await.unwrap();
    }
}

/// The plans of the real statements, as the server logs them.
async fn plans(runs: u32) -> Vec<(&'static str, String)> {
    let server = Server::start(EXPLAIN);
    let address = server.database();
    let (node, other) = (join(&address).await, join(&address).await);
    let mut connection = PgConnection::connect(&address).await.unwrap();
    let dead = "INSERT INTO belljar.lives (node, address, dead, died) VALUES ('n', 'a', true, now()) RETURNING life";
    let dead: i64 = sqlx::query(dead)
        .fetch_one(&mut connection)
        .await
        .unwrap()
        .try_get(0)
        .unwrap();
    let life = node.life();
    // Most have ended, some are ready, some are driven by the living, and some by the dead.
    let fill = format!(
        "INSERT INTO belljar.runs (id, last_seq, tenant, state, turn, life) \
            SELECT 'run-' || n, 10, 'tenant-' || n % 100, \
                CASE WHEN n % 100 = 0 THEN 'ready' WHEN n % 100 IN (1, 2) THEN 'driven' ELSE 'ended' END, \
                n / 100, CASE WHEN n % 10000 = 1 THEN {dead} WHEN n % 100 IN (1, 2) THEN {life} END \
            FROM generate_series(1, {runs}) AS n; \
        INSERT INTO belljar.events (run, seq, at, version, kind, body) \
            SELECT number, seq, 0, 1, 'fill', '\"' || repeat('x', 100) || '\"' \
            FROM belljar.runs, generate_series(1, 10) AS seq; \
        ANALYZE belljar.runs, belljar.events, belljar.lives"
    );
    connection
        .execute(sqlx::raw_sql(AssertSqlSafe(fill)))
        .await
        .unwrap();

    let event = [NewEvent::new("test", 1, Timestamp(0), &"body").unwrap()];
    let journal = node.journal();
    let last = run(&format!("run-{runs}"));
    let mut found = Vec::new();
    let mut read = server.whole_log().len();
    let mut collect = |name| {
        let log = server.whole_log();
        let new = &log[read..];
        read = log.len();
        found.push((name, new.to_owned()));
    };
    collect("fill");
    // More often than it takes to get a plan for any argument.
    for _ in 0..7 {
        let claimed = other.claim(5).await.unwrap();
        assert_eq!(claimed.len(), 5);
        for run in claimed {
            run.give_up(RunState::Waits).await.unwrap();
        }
    }
    collect("claim, take over, give up");
    for number in 0..7 {
        let new = run(&format!("new-{number}"));
        node.submit(&new, "tenant-5", &event).await.unwrap();
    }
    collect("submit");
    for _ in 0..7 {
        assert_eq!(journal.runs(Some(&last), 50).await.unwrap().len(), 50);
    }
    collect("list");
    for _ in 0..7 {
        assert_eq!(journal.read(&run("run-77"), 3, 100).await.unwrap().len(), 7);
        journal.last_seq(&run("run-77")).await.unwrap();
    }
    collect("read");
    let mut seq = 10;
    for _ in 0..7 {
        let mine = run("run-3");
        seq = journal.append(&mine, seq, &event).await.unwrap();
    }
    collect("append");
    found.remove(0);
    found
}

fn check(plans: &[(&str, String)]) {
    for (name, log) in plans {
        assert!(log.contains("Query Text"), "{name}: no plan in {log}");
        for table in ["runs", "events"] {
            let scan = format!("Seq Scan on {table}");
            let scan = log.lines().find(|line| line.contains(&scan));
            assert_eq!(scan, None, "{name}: {log}");
        }
    }
}

/// A claim must not cost more in a journal of many runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_goes_by_an_index() {
    check(&plans(5_000).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it prints plans: .ci/cluster-figures"]
async fn plans_of_many_runs() {
    let plans = plans(100_000).await;
    for (name, log) in &plans {
        println!("== {name}");
        // The last of each is a plan for any argument.
        let mut last = std::collections::BTreeMap::new();
        for plan in log.split("duration: ").skip(1) {
            let (time, plan) = plan.split_once("plan:").unwrap_or(("", plan));
            let text = plan.trim().lines().next().unwrap_or_default().to_owned();
            last.insert(text, (time.trim().to_owned(), plan.to_owned()));
        }
        for (_, (time, plan)) in last {
            println!("{time}{plan}");
        }
    }
    check(&plans);
}
