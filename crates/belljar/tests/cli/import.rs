//! `belljar cluster import`: the data of a single node in a cluster.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use belljar_test_model::Scripted;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::nodes::{Cluster, events};
use crate::postgres::Server;
use crate::run::code;
use crate::serve::{ask_with, body, start, stop};
use crate::support::{BELLJAR, Scratch, bare};
use crate::weed;
use crate::weed::proxy::{Network, Proxy};

/// The files of a directory. Those of databases differ when they were opened.
fn contents(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contents(&path, found);
        } else if !path.to_string_lossy().contains(".sqlite") {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
}

fn all_of(address: &str, key: &str, run: &str) -> Vec<(u64, Value)> {
    events(&ask_with(address, key, "GET", &format!("{run}/events"), ""))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn until_answered(address: &str, key: &str, run: &str) {
    let state = || ask_with(address, key, "GET", run, "");
    until(run, || state().contains(r#""state":"answered""#));
}

fn posted(address: &str, key: &str, path: &str, json: &Value) -> Value {
    let answer = ask_with(address, key, "POST", path, &json.to_string());
    let status = answer.split(' ').nth(1).unwrap();
    assert!(status.starts_with('2'), "{path}: {answer}");
    serde_json::from_str(body(&answer)).unwrap()
}

fn start_run(address: &str, key: &str, path: &str) -> String {
    let made = posted(address, key, path, &json!({"task": "How much is it?"}));
    format!("/v1/runs/{}", made["id"].as_str().unwrap())
}

fn printed(address: &str, key: &str, session: &str, code: &str) -> Value {
    let outcome = posted(
        address,
        key,
        &format!("{session}/cells"),
        &json!({"code": code}),
    );
    outcome["stdout"]["text"].clone()
}

/// A key, a quota, a session, a run that has ended and one that has not: a cluster continues all of it. An import that was
/// killed continues, and a second one changes nothing.
#[test]
fn waits_a_cluster_has_all_that_a_single_node_had() {
    let file = "x = 6 * 7\nopen('kept.txt', 'w').write('kept')\nprint(x)";
    let server = Server::start("");
    server.sql("postgres", "CREATE DATABASE cluster");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(Proxy::start(weed::port()));
    let script = [
        code(file),
        Scripted::text("FINAL: It is 42."),
        code("y = 6 * 7\nprint(y)"),
        Scripted::text("FINAL: It is 42.").slow_first_byte(Duration::from_mins(5)),
        // In the cluster.
        code("print(y + 1)"),
        Scripted::text("FINAL: It is 43."),
        code("print(x + 2)"),
        Scripted::text("FINAL: It is 44."),
    ];
    let mut cluster = Cluster::on(server.address("cluster"), script);
    cluster.objects = weed::address(&weed::prefix(), store.port);
    let scratch = Scratch::new();
    let set = ["tenants", "set", "default", "--new-tenant", "--quota"];
    let set = |value: &str, place: &[&str]| {
        let arguments = [&set[..], &[value], place].concat();
        scratch.belljar(&arguments).exits_with(0)
    };
    set("runs=5", &["--data", "service"]);
    let mut command = scratch.prepare(BELLJAR);
    command
        .env("BELLJAR_BASE_URL", cluster.model.base_url())
        .args([
            "serve",
            "--env",
            bare(),
            "--data",
            "service",
            "--drain",
            "1",
        ])
        .args(["--listen", "127.0.0.1:0", "--model", "llamacpp/scripted"]);
    let (mut child, _stderr, address) = start(command);
    let mut key = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut key).unwrap();
    let key = key.trim();
    let made = posted(&address, key, "/v1/sessions", &json!({}));
    let session = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    assert_eq!(printed(&address, key, &session, "z = 6\nprint(z)"), "6\n");
    let ended = start_run(&address, key, "/v1/runs");
    until_answered(&address, key, &ended);
    let before = all_of(&address, key, &ended);
    let open = start_run(&address, key, "/v1/runs");
    until("the fourth request", || cluster.model.requests().len() == 4);
    let import = || -> Command {
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("AWS_ACCESS_KEY_ID", weed::KEY.0)
            .env("AWS_SECRET_ACCESS_KEY", weed::KEY.1)
            .args(["cluster", "import", "--data", "service"])
            .args(["--database", &cluster.database])
            .args(["--objects", &cluster.objects]);
        command
    };
    let run = || import().output().unwrap();
    let refused = run();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(why.contains("hint: stop it first"), "{why}");
    stop(&scratch, child, Signal::TERM).exits_with(0);

    let service = scratch.path("service");
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    contents(&service, &mut old);
    // Another quota of the same tenant.
    let database = ["--database", &cluster.database[..]];
    set("runs=9", &database);
    let ended_with = |expected: i32, said: &str| {
        let output = scratch.finish(import().spawn().unwrap());
        output.exits_with(expected).says(said);
    };
    ended_with(2, "the cluster has other quotas for `default`");
    set("runs=5", &database);
    // Killed when one run is there.
    store.set(Network::Slow(Duration::from_millis(100)));
    let mut killed = import().spawn().unwrap();
    let count =
        |table: &str| server.sql("cluster", &format!("SELECT count(*) FROM belljar.{table}"));
    until("a run", || count("runs") != "0");
    killed.kill().unwrap();
    killed.wait().unwrap();
    store.set(Network::Works);
    let rest = [
        count("runs WHERE state = 'ready'"),
        count("moved_sessions"),
        count("keys"),
    ];
    assert_eq!(rest, ["0", "0", "0"]);
    ended_with(0, "1 hibernated sessions, 2 runs with ");
    ended_with(0, "imported before");
    contents(&service, &mut new);
    assert_eq!(old, new);

    let node = cluster.node();
    let address = &node.address;
    assert_eq!(printed(address, key, &session, "print(z + 1)"), "7\n");
    until_answered(address, key, &open);
    let outputs = all_of(address, key, &open);
    let outputs = outputs.iter().map(|(_, event)| event);
    let outputs: Vec<&Value> = outputs
        .map(|event| &event["result"]["cell"]["output"])
        .filter(|output| output.is_string())
        .collect();
    assert_eq!(outputs, ["42\n", "43\n"]);
    let after = all_of(address, key, &ended);
    assert_eq!(after.len(), before.len());
    for ((_, old), (_, new)) in before.iter().zip(&after) {
        // These name objects in a cluster.
        if !["call_ended", "ended"].contains(&old["kind"].as_str().unwrap()) {
            assert_eq!(old, new);
        }
    }
    let artifact = node.get(key, &format!("{ended}/artifacts/kept.txt"));
    assert!(artifact.ends_with("kept"), "{artifact}");
    let next = start_run(address, key, &format!("{ended}/follow-up"));
    until_answered(address, key, &next);
    let last = all_of(address, key, &next);
    let output = last
        .iter()
        .find_map(|(_, event)| event["result"]["cell"]["output"].as_str());
    assert_eq!(output, Some("44\n"));
    let audit = scratch.belljar(&[&["tenants", "audit"][..], &database].concat());
    let audit = audit.exits_with(0).stdout;
    assert!(audit.contains("data_imported"), "{audit}");
    assert!(audit.contains("service_started"), "{audit}");
    let shown = scratch.belljar(&[&["tenants", "show", "default"][..], &database].concat());
    let shown = shown.exits_with(0).stdout;
    let mut rows = shown.lines().map(str::split_whitespace);
    assert!(rows.any(|row| row.take(2).eq(["runs", "5"])), "{shown}");
    node.stop();
}
