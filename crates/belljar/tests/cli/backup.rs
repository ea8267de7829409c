//! The database of a cluster, restored to a point in time by the commands of docs/cluster.md.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use belljar_test_model::Scripted;
use serde_json::{Value, json};

use crate::nodes::{Cluster, RunningNode, events};
use crate::postgres::{self, Server};
use crate::run::code;
use crate::serve::{ask_with, body, text_of};
use crate::support::Scratch;

/// The code blocks of the section, with another directory for backups: settings of the server, a backup, a restore.
fn commands(backup: &Path) -> [String; 3] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/cluster.md")).unwrap();
    let (_, section) = page.split_once("\n## Backup and restore\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```").skip(1).step_by(2);
    let of_test = |block: &str| {
        let (_, text) = block.split_once('\n').unwrap();
        text.replace("/backup", backup.to_str().unwrap())
    };
    let blocks: Vec<String> = blocks.map(of_test).collect();
    blocks.try_into().unwrap()
}

/// Waits until everything that was written so far is in the archive.
fn archive(server: &Server) {
    let last = server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    let archived = format!("SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver");
    let begin = Instant::now();
    while server.sql("postgres", &archived) != "t" {
        assert!(begin.elapsed() < Duration::from_mins(1), "no {last}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn session(node: &RunningNode, key: &str) -> String {
    let made = ask_with(&node.address, key, "POST", "/v1/sessions", "{}");
    let path = format!("/v1/sessions/{}", text_of(body(&made), "id"));
    assert_eq!(printed(node, key, &path, "x = 6\nprint(x)"), "6\n");
    path
}

/// What a cell prints.
fn printed(node: &RunningNode, key: &str, session: &str, code: &str) -> String {
    let cell = json!({"code": code}).to_string();
    let answer = ask_with(
        &node.address,
        key,
        "POST",
        &format!("{session}/cells"),
        &cell,
    );
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let outcome: Value = serde_json::from_str(body(&answer)).unwrap();
    outcome["stdout"]["text"].as_str().unwrap().to_owned()
}

fn status(node: &RunningNode, key: &str, method: &str, path: &str) -> String {
    let answer = ask_with(&node.address, key, method, path, "");
    answer.split(' ').nth(1).unwrap().to_owned()
}

/// J1, J2: what was acknowledged before the time is there. What is younger in the object store or on a node is as
/// docs/cluster.md says.
#[test]
fn waits_a_database_is_restored_to_a_point_in_time() {
    let backup = postgres::directory();
    let [settings, take, restore] = commands(backup.path());
    let wal = backup.path().join("wal");
    fs::create_dir(&wal).unwrap();
    let owner = fs::metadata(backup.path()).unwrap();
    chown(wal, Some(owner.uid()), Some(owner.gid())).unwrap();
    let server = Server::start(&settings);
    server.sql("postgres", "CREATE DATABASE cluster");
    let answer = |text: &str| Scripted::text(format!("FINAL: {text}"));
    let mut cluster = Cluster::on(
        server.address("cluster"),
        [
            // Ended before the time; deleted after it.
            code("print(6 * 7)"),
            answer("It is 42."),
            code("print(6 * 7)"),
            answer("It is 42."),
            // A cell before the time, and one after it.
            code("x = 6 * 7\nprint(x)"),
            code("x += 1\nprint(x)").slow_first_byte(Duration::from_secs(15)),
            answer("It is 43."),
            // Begun after it.
            code("print(6 * 7)"),
            answer("It is 42."),
            // The one before once more, on the restored database.
            code("print(globals().get('x'))"),
            answer("It is gone."),
        ],
    );
    cluster.options = vec!["--drain".into(), "1".into()];
    let mut first = cluster.node();
    let key = first.key();
    let answered = |node: &RunningNode, run: &str| {
        node.until(&key, run, "the end", |view| view["state"] == "answered");
    };
    let all_of = |node: &RunningNode, run: &str| events(&node.get(&key, &format!("{run}/events")));
    server.shell(&take);

    // Two sessions move to another node: their rows are in the database.
    let (kept, used) = (session(&first, &key), session(&first, &key));
    let second = cluster.node();
    let scratch = first.stop();
    for session in [&kept, &used] {
        assert_eq!(status(&second, &key, "GET", session), "200");
    }
    let first = cluster.node_in(scratch);
    let ended = first.start_run(&key);
    answered(&first, &ended);
    let deleted = first.start_run(&key);
    answered(&first, &deleted);
    let operator = Scratch::new();
    let manage = |arguments: &[&str], database: &str| {
        let arguments = [&["keys"], arguments, &["--database", database]].concat();
        operator.belljar(&arguments).exits_with(0).stdout
    };
    let revoked = manage(&["create"], &cluster.database);
    let revoked = revoked.trim();
    let moved = second.start_run(&key);
    second.until(&key, &moved, "the second request", |_| {
        cluster.model.requests().len() == 6
    });
    let shown = second.get(&key, &moved);
    let shown: Value = serde_json::from_str(body(&shown)).unwrap();
    let acknowledged = usize::try_from(shown["events"].as_u64().unwrap()).unwrap();
    let time = server.sql("postgres", "SELECT clock_timestamp()");

    assert_eq!(cluster.model.requests().len(), 6, "the run has continued");
    assert_eq!(status(&first, &key, "DELETE", &deleted), "204");
    let prefix = revoked.split('_').nth(1).unwrap();
    manage(&["revoke", prefix], &cluster.database);
    assert_eq!(printed(&first, &key, &used, "x += 1\nprint(x)"), "7\n");
    answered(&second, &moved);
    let late = first.start_run(&key);
    answered(&first, &late);
    let before = [&ended, &moved].map(|run| all_of(&first, run));
    assert!(before[1].len() > acknowledged);
    archive(&server);
    server.stop("-KILL");
    drop(server);
    let first = first.crash();
    let second = second.stop();

    let server = Server::recovered(&restore, &time);
    cluster.database = server.address("cluster");
    let (first, second) = (cluster.node_in(first), cluster.node_in(second));
    assert_eq!(all_of(&first, &ended), before[0]);
    answered(&first, &moved);
    let after = all_of(&second, &moved);
    assert_eq!(after[..acknowledged], before[1][..acknowledged]);
    // The object with its variables was replaced after the time.
    let of_kind = |kind: &str| {
        let mut events = after.iter().rev().map(|(_, event)| event);
        events.find(|event| event["kind"] == kind).unwrap()
    };
    let session = of_kind("session_started");
    assert_eq!(session["cells"], 0, "{session:#}");
    let note = session["note"].as_str().unwrap();
    assert!(note.contains("all variables are gone"), "{note}");
    let result = of_kind("call_ended");
    assert_eq!(result["result"]["cell"]["output"], "None\n", "{result:#}");
    assert_eq!(status(&first, &key, "GET", &late), "404");
    assert_eq!(status(&first, &key, "GET", &deleted), "200");
    assert_eq!(status(&first, &key, "DELETE", &deleted), "204");
    assert_eq!(status(&first, &key, "GET", &deleted), "404");
    assert_eq!(status(&first, revoked, "GET", "/v1/me"), "200");
    // One was not used since; the other one was saved by its node when this was stopped.
    assert_eq!(printed(&first, &key, &kept, "print(x)"), "6\n");
    assert_eq!(printed(&first, &key, &used, "print(x)"), "7\n");
    first.stop();
    second.stop();
}
