//! `belljar serve --database`: three nodes on one database and one object store.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use belljar_test_model::Scripted;
use serde_json::Value;

use crate::clock::{Clock, Set};
use crate::nodes::{Cluster, RunningNode, events};
use crate::postgres;
use crate::run::code;
use crate::serve::{ask_with, ask_with_header, body, text_of};
use crate::support::{Scratch, eventually};

/// S1, L1, J3: what a third node streams has no gap and no repetition, and the run ends on another node than it began.
#[test]
fn waits_a_run_survives_its_node() {
    let cluster = Cluster::new([
        code("print(6 * 7)"),
        code("import time\nprint('long')\ntime.sleep(300)"),
        code("print(6 * 7)"),
        Scripted::text("FINAL: It is 42."),
    ]);
    let mut first = cluster.node();
    let key = first.key();
    let (second, third) = (cluster.node(), cluster.node());
    let made = ask_with(&first.address, &key, "POST", "/v1/sessions", "{}");
    let session = format!("/v1/sessions/{}", text_of(body(&made), "id"));
    let shown = second.get(&key, &session);
    assert!(shown.starts_with("HTTP/1.1 200 "), "{shown}");
    let run = first.start_run(&key);
    let stream = third.stream(&key, &run);
    // Its second cell runs.
    second.until(&key, &run, "running", |view| {
        view["events"].as_u64() >= Some(9) && cluster.model.requests().len() == 2
    });
    let listed = second.get(&key, "/v1/runs");
    assert!(body(&listed).contains(r#""state":"running""#), "{listed}");
    let scratch = Scratch::new();
    let status = ["cluster", "status", "--database", &cluster.database];
    let status = || scratch.belljar(&status).exits_with(0);
    let runs = |node: &RunningNode, status: &str| {
        let row = status.lines().find(|line| line.contains(&node.address));
        row.map(|row| {
            row.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
    };
    let shown = status();
    // The run has a session, too.
    for (node, drives, sessions) in [(&first, "1", "2"), (&second, "0", "0"), (&third, "0", "0")] {
        let row = runs(node, &shown.stdout).unwrap();
        assert_eq!(row[3..], ["beats", drives, sessions], "{}", shown.stdout);
    }
    shown.says("0 ready, 0 waiting for approval, 0 stuck, 0 of dead nodes");
    first.child.kill();
    let killed = Instant::now();
    second.until(&key, &run, "the end", |view| view["state"] == "answered");
    let took = killed.elapsed();

    let streamed = stream.join().unwrap();
    let numbers: Vec<u64> = streamed.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    // The same is read from each of them.
    let whole = events(&second.get(&key, &format!("{run}/events")));
    assert_eq!(whole, streamed);
    let kinds: Vec<&str> = streamed
        .iter()
        .map(|(_, event)| event["kind"].as_str().unwrap())
        .collect();
    // The cell that was running is reported as lost, and is not run once more by itself.
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!(count("call_lost"), 1, "{kinds:?}");
    assert_eq!(count("call_started"), 3, "{kinds:?}");
    assert_eq!(count("started") + count("ended"), 2, "{kinds:?}");
    assert_eq!(cluster.model.requests().len(), 4);
    assert!(took < Duration::from_mins(1), "{took:?}");
    let shown = status();
    assert_eq!(runs(&first, &shown.stdout), None, "{}", shown.stdout);
    let shown = second.get(&key, &session);
    assert!(shown.starts_with("HTTP/1.1 503 "), "{shown}");
    assert!(body(&shown).contains(r#""code":"node_lost""#), "{shown}");
    first.child.wait();
    second.stop();
    third.stop();
}

/// A session of a node that is drained and stopped continues on another node, and requests to the first one are passed on
/// after its restart.
#[test]
fn a_node_is_drained_stopped_and_started_again() {
    let cluster = Cluster::new([]);
    let mut first = cluster.node();
    let key = first.key();
    let second = cluster.node();
    let made = ask_with(&first.address, &key, "POST", "/v1/sessions", "{}");
    let id = text_of(body(&made), "id");
    let cells = format!("/v1/sessions/{id}/cells");
    let run = |node: &RunningNode, code: &str| {
        let cell = serde_json::json!({"code": code}).to_string();
        let answer = ask_with(&node.address, &key, "POST", &cells, &cell);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let outcome: Value = serde_json::from_str(body(&answer)).unwrap();
        outcome["stdout"]["text"].as_str().unwrap().to_owned()
    };
    run(&first, "x = 6 * 7");
    let (name, _) = id.split_once('-').unwrap();
    let scratch = Scratch::new();
    let database = ["--database", &cluster.database];
    let drain = |node: &str, wait: &[&str]| {
        let command = [&["cluster", "drain", node][..], &database[..], wait].concat();
        scratch.belljar(&command)
    };
    drain("nobody", &["--wait"])
        .exits_with(2)
        .says("no live node has the id or address `nobody`\nhint: list nodes with `belljar cluster status`");
    drain(name, &["--wait"])
        .exits_with(0)
        .says(&format!("[node {name} is drained]"));
    // Once more, by its address.
    drain(&format!("http://{}", first.address), &[])
        .exits_with(0)
        .says(&format!("[node {name} is draining]"));
    let status = [&["cluster", "status"][..], &database[..]].concat();
    let status = scratch.belljar(&status).exits_with(0);
    let row = status.stdout.lines().find(|line| line.starts_with(name));
    let row: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(row[3..], ["drained", "0", "0"], "{}", status.stdout);
    let scratch = first.stop();
    assert_eq!(run(&second, "x += 1\nprint(x)"), "43\n");
    let first = cluster.node_in(scratch);
    assert_eq!(run(&first, "x += 1\nprint(x)"), "44\n");
    first.stop();
    second.stop();
}

/// C2: the same request begins one run, also where the clock of a node is days ahead: keys of requests are kept by the clock
/// of the database.
#[test]
fn the_same_request_begins_one_run_whatever_clocks_say() {
    let cluster = Cluster::new([]);
    let mut first = cluster.node();
    let key = first.key();
    let files = Scratch::new();
    let clock = Clock::new(files.path("clock"));
    clock.set("+3d");
    let ahead = cluster.node_with(Scratch::new(), |command| {
        clock.give_to(command, Set::Wall);
    });
    let begin = |node: &RunningNode, name: &str| {
        let (header, task) = (
            format!("Idempotency-Key: {name}\r\n"),
            format!(r#"{{"task": "{name}"}}"#),
        );
        let made = ask_with_header(&node.address, &key, "POST", "/v1/runs", &header, &task);
        assert!(made.starts_with("HTTP/1.1 202 "), "{made}");
        text_of(body(&made), "id")
    };
    let one = begin(&first, "one");
    let two = begin(&ahead, "two");
    assert_eq!(begin(&ahead, "one"), one);
    assert_eq!(begin(&first, "two"), two);
    ahead.stop();
    first.stop();
}

/// A node that is lost for good is removed. What it had taken over continues elsewhere, and nobody asks for it any more.
#[test]
fn waits_a_lost_node_is_evicted() {
    let cluster = Cluster::new([]);
    let mut first = cluster.node();
    let key = first.key();
    let run = |node: &RunningNode, session: &str, code: &str| {
        let cell = serde_json::json!({"code": code}).to_string();
        let cells = format!("{session}/cells");
        let answer = ask_with(&node.address, &key, "POST", &cells, &cell);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let outcome: Value = serde_json::from_str(body(&answer)).unwrap();
        outcome["stdout"]["text"].as_str().unwrap().to_owned()
    };
    let start = |node: &RunningNode| {
        let made = ask_with(&node.address, &key, "POST", "/v1/sessions", "{}");
        format!("/v1/sessions/{}", text_of(body(&made), "id"))
    };
    let second = cluster.node();
    let (moved, own) = (start(&first), start(&second));
    run(&first, &moved, "x = 6 * 7");
    first.stop();
    // The other node takes it, and leaves it asleep.
    let begin = Instant::now();
    while !second.get(&key, &moved).contains(r#""state":"hibernated""#) {
        assert!(begin.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(50));
    }
    let third = cluster.node();
    let id = own.rsplit('/').next().unwrap();
    let (name, _) = id.split_once('-').unwrap();
    let scratch = Scratch::new();
    let evict =
        |node: &str| scratch.belljar(&["cluster", "evict", node, "--database", &cluster.database]);
    evict("nobody").exits_with(2).says(
        "the cluster knows no node with the id `nobody`\nhint: list nodes with `belljar cluster status`",
    );
    evict(name).exits_with(2).says(&format!(
        "node `{name}` beats\nhint: stop it, or empty it with `belljar cluster drain {name}`"
    ));
    second.crash();
    let begin = Instant::now();
    while !third.get(&key, &moved).contains(r#""code":"node_lost""#) {
        assert!(begin.elapsed() < Duration::from_mins(1));
        std::thread::sleep(Duration::from_millis(50));
    }
    evict(name).exits_with(0).says(&format!(
        "[node {name} is removed; for other nodes: runs 0, sessions that had moved to it 1; its own sessions are lost unless it \
         returns]"
    ));
    assert_eq!(run(&third, &moved, "print(x)"), "42\n");
    let shown = third.get(&key, &own);
    assert!(shown.contains(r#""code":"session_not_found""#), "{shown}");
    let listed = third.get(&key, "/v1/sessions");
    assert!(!listed.contains("unanswered"), "{listed}");
    third.stop();
}

/// A run keeps its variables and the files of its workspace, and an ended one its artifacts, when their node is killed.
#[test]
fn waits_a_run_that_moves_keeps_its_variables_and_files() {
    let cluster = Cluster::new([
        code("open('first.txt', 'w').write('of the first node')\nprint(6 * 7)"),
        Scripted::text("FINAL: It is 42."),
        code("x = 6 * 7\nopen('kept.txt', 'w').write('kept')\nprint(x)"),
        Scripted::text("FINAL: It is 42.").slow_first_byte(Duration::from_mins(5)),
        code("print(x + 1, open('kept.txt').read())"),
        Scripted::text("FINAL: It is 43."),
    ]);
    let mut first = cluster.node();
    let key = first.key();
    let second = cluster.node();
    let ended = first.start_run(&key);
    first.until(&key, &ended, "the end", |view| view["state"] == "answered");
    let moved = first.start_run(&key);
    second.until(&key, &moved, "the second request", |_| {
        cluster.model.requests().len() == 4
    });
    first.child.kill();
    first.child.wait();
    second.until(&key, &moved, "the end", |view| view["state"] == "answered");

    let events = events(&second.get(&key, &format!("{moved}/events")));
    let of_kind = |kind: &'static str| {
        let events = events.iter().map(|(_, event)| event);
        let found: Vec<&Value> = events.filter(|event| event["kind"] == kind).collect();
        found
    };
    let sessions = of_kind("session_started");
    let cells: Vec<&Value> = sessions.iter().map(|event| &event["cells"]).collect();
    assert_eq!(cells, [0, 1], "{sessions:#?}");
    let results = of_kind("call_ended");
    let last = &results.last().unwrap()["result"]["cell"];
    assert_eq!(last["output"], "43 kept\n", "{results:#?}");
    for (run, name, contents) in [
        (&ended, "first.txt", "of the first node"),
        (&moved, "kept.txt", "kept"),
    ] {
        let artifact = second.get(&key, &format!("{run}/artifacts/{name}"));
        assert!(artifact.starts_with("HTTP/1.1 200 "), "{artifact}");
        assert!(artifact.ends_with(contents), "{artifact}");
    }
    second.stop();
}

/// A node that stops in order gives its runs up at once; it finds what the others did when it starts again.
#[test]
fn a_node_that_stops_gives_its_runs_up() {
    let cluster = Cluster::new([
        code("print(6 * 7)"),
        Scripted::text("FINAL: It is 42.").slow_first_byte(Duration::from_secs(20)),
        Scripted::text("FINAL: It is 42."),
    ]);
    let mut first = cluster.node();
    let key = first.key();
    let second = cluster.node();
    let run = first.start_run(&key);
    second.until(&key, &run, "the second request", |_| {
        cluster.model.requests().len() == 2
    });
    let stream = second.stream(&key, &run);
    let scratch = first.stop();
    second.until(&key, &run, "the end", |view| view["state"] == "answered");
    let streamed = stream.join().unwrap();
    let numbers: Vec<u64> = streamed.iter().map(|(id, _)| *id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let first = cluster.node_in(scratch);
    let again = events(&first.get(&key, &format!("{run}/events")));
    assert_eq!(again, streamed);
    first.stop();
    second.stop();
}

/// What is missing is said before anything is begun, and no password with it.
#[test]
fn a_cluster_that_cannot_be_joined_is_refused_at_the_start() {
    let cluster = Cluster::new([]);
    let scratch = Scratch::new();
    let refused = |arguments: &[&str], why: &str| {
        let mut command = cluster.command(&scratch);
        command.args(arguments);
        let ended = scratch.finish(command.spawn().unwrap()).exits_with(2);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    };
    let listen = ["--listen", "127.0.0.1:7979"];
    let on = |database| [&listen[..], &["--database", database]].concat();
    refused(&on(&cluster.database), "`--database` has no `--objects`");
    let objects = ["--objects", &cluster.objects];
    let nowhere = "postgres://user:secret@127.0.0.1:1/x?sslmode=disable";
    refused(&[&on(nowhere)[..], &objects].concat(), "cannot be reached");
    let everywhere = ["--listen", "0.0.0.0:0", "--database", &cluster.database];
    refused(
        &[&everywhere[..], &objects].concat(),
        "cannot reach this one",
    );
    // Not the prefix of another cluster either.
    let other = cluster.node();
    let elsewhere = postgres::database();
    let arguments = [&on(&elsewhere)[..], &objects].concat();
    refused(&arguments, "another service uses this prefix");
    other.stop();
}

/// `belljar keys` and `belljar tenants` at the database, from a machine that is no node.
#[test]
fn keys_of_a_cluster_are_managed_at_its_database() {
    let cluster = Cluster::new([]);
    let scratch = Scratch::new();
    let manage = |arguments: &[&str]| {
        let database = ["--database", &cluster.database];
        scratch.belljar(&[arguments, &database].concat())
    };
    let made = manage(&["keys", "create", "--tenant", "team", "--new-tenant"]).exits_with(0);
    let key = made.stdout.trim();
    let prefix = key.split('_').nth(1).unwrap();
    manage(&["tenants", "set", "team", "--quota", "sessions=7"]).exits_with(0);
    let listed = manage(&["tenants", "list"]).exits_with(0).stdout;
    assert!(listed.contains("sessions=7"), "{listed}");
    assert!(manage(&["keys", "list"]).stdout.contains(prefix));

    let node = cluster.node();
    assert!(node.get(key, "/v1/me").contains(r#""tenant":"team""#));
    manage(&["keys", "revoke", prefix]).exits_with(0);
    let answer = eventually(
        || node.get(key, "/v1/me"),
        |answer| answer.starts_with("HTTP/1.1 401 "),
    );
    assert!(answer.contains("unauthorized"), "{answer}");
    node.stop();
    manage(&["keys", "list", "--data", "service"])
        .exits_with(2)
        .says("cannot be used with");
}

/// A connection that is used for one request after another.
struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    fn new(node: &RunningNode, key: &str, session: &str) -> Self {
        let stream = TcpStream::connect(&node.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let (address, path) = (&node.address, format!("{session}/cells"));
        Self {
            stream: BufReader::new(stream),
            head: format!(
                "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
                 Content-Type: application/json\r\n"
            ),
        }
    }

    /// Runs a cell, and returns how long that took.
    fn run(&mut self, body: &str) -> Duration {
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        let begin = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length, mut status) = (String::new(), 0, String::new());
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if status.is_empty() {
                status.clone_from(&line);
            }
            let lower = line.to_ascii_lowercase();
            if let Some(bytes) = lower.strip_prefix("content-length: ") {
                length = bytes.trim().parse().unwrap();
            }
        }
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        let took = begin.elapsed();
        assert!(String::from_utf8_lossy(&answer).contains(r#""status":"success""#));
        took
    }
}

/// What a cell costs by way of another node: `.ci/cluster-figures`.
#[test]
#[ignore = "prints figures"]
fn figures_of_a_cell_through_another_node() {
    const ROUNDS: usize = 500;
    let cluster = Cluster::new([]);
    let mut first = cluster.node();
    let key = first.key();
    let second = cluster.node();
    let made = ask_with(&first.address, &key, "POST", "/v1/sessions", "{}");
    let session = format!("/v1/sessions/{}", text_of(body(&made), "id"));
    for code in ["x = 1", "sum(i * i for i in range(100_000))"] {
        let cell = format!(r#"{{"code": "{code}"}}"#);
        let mut direct = Client::new(&first, &key, &session);
        let mut passed_on = Client::new(&second, &key, &session);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(direct.run(&cell));
            times[1].push(passed_on.run(&cell));
        }
        let [direct, passed_on] = times.map(|mut all| {
            all.sort();
            all[ROUNDS / 2]
        });
        let ratio = passed_on.as_secs_f64() / direct.as_secs_f64();
        println!(
            "{code}: {direct:?} direct, {passed_on:?} by way of another node: {ratio:.2} times"
        );
    }
    first.stop();
    second.stop();
}
