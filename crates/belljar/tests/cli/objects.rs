//! `belljar serve --objects`: blobs and hibernated sessions in an object store.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command};
use std::time::Duration;

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::Signal;

use crate::run::code;
use crate::serve::{ask_with, body, start, stop, text_of};
use crate::support::{BELLJAR, Scratch, bare};
use crate::weed;

fn command(scratch: &Scratch, address: &str) -> Command {
    let mut command = scratch.prepare(BELLJAR);
    command
        .env("AWS_ACCESS_KEY_ID", weed::KEY.0)
        .env("AWS_SECRET_ACCESS_KEY", weed::KEY.1)
        .args(["serve", "--env", bare(), "--data", "service"])
        .args(["--listen", "127.0.0.1:0", "--objects", address]);
    command
}

fn key_of(child: &mut Child) -> String {
    let mut key = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut key).unwrap();
    key.trim().to_owned()
}

/// A session and a run of a service, found by the next one without the files of the first.
#[test]
fn a_service_continues_from_its_object_store() {
    let scratch = Scratch::new();
    let address = weed::address(&weed::prefix(), weed::port());
    let model = ScriptedModel::start([code("print(6 * 7)"), Scripted::text("FINAL: It is 42.")]);
    let model = model.unwrap();
    let serve = || -> (Child, BufReader<ChildStderr>, String) {
        let mut command = command(&scratch, &address);
        command.env("BELLJAR_BASE_URL", model.base_url());
        command.args(["--model", "llamacpp/scripted"]);
        start(command)
    };
    let (mut child, _stderr, at) = serve();
    let key = key_of(&mut child);
    let post = |at: &str, path: &str, json: &str| {
        let answer = ask_with(at, &key, "POST", path, json);
        let status = answer.split(' ').nth(1).unwrap().to_owned();
        assert!(status.starts_with('2'), "{path}: {answer}");
        answer
    };
    let made = post(&at, "/v1/sessions", "{}");
    let session = format!("/v1/sessions/{}", text_of(body(&made), "id"));
    post(&at, &format!("{session}/cells"), r#"{"code": "x = 6 * 7"}"#);
    post(&at, &format!("{session}/hibernate"), "{}");
    let made = post(&at, "/v1/runs", r#"{"task": "What is six times seven?"}"#);
    let run = format!("/v1/runs/{}", text_of(body(&made), "id"));
    let mut state = String::new();
    for _ in 0..400 {
        state = text_of(body(&ask_with(&at, &key, "GET", &run, "")), "state");
        if state == "answered" {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(state, "answered");
    let steps = format!("{run}/steps");
    let before = ask_with(&at, &key, "GET", &steps, "");
    assert!(body(&before).contains("42"), "{before}");
    stop(&scratch, child, Signal::TERM).exits_with(0);

    // Neither blobs nor snapshots are in the directory; what is there of their places is not needed.
    let service = scratch.path("service");
    assert!(!service.join("runs/default/blobs").exists());
    assert_eq!(fs::read_dir(service.join("sessions")).unwrap().count(), 0);
    fs::remove_dir_all(service.join("sessions")).unwrap();
    fs::remove_dir_all(service.join("runs/default/spool")).unwrap();
    let (child, _stderr, at) = serve();
    let after = ask_with(&at, &key, "GET", &steps, "");
    assert_eq!(body(&after), body(&before));
    let path = format!("{session}/cells");
    let outcome = post(&at, &path, r#"{"code": "print(x + 1)"}"#);
    assert!(outcome.contains(r"43\n"), "{outcome}");
    stop(&scratch, child, Signal::TERM).exits_with(0);
}

/// What is wrong is said before the service listens, and no credential with it.
#[test]
fn a_store_that_cannot_be_used_is_refused_at_the_start() {
    let scratch = Scratch::new();
    let address = weed::address(&weed::prefix(), weed::port());
    let refused = |address: &str, change: &dyn Fn(&mut Command), why: &str| {
        let mut command = command(&scratch, address);
        change(&mut command);
        let ended = scratch.finish(command.spawn().unwrap()).exits_with(2);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
        for secret in [weed::KEY.1, weed::READER.1, "wrong-secret"] {
            assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
        }
    };
    let key = |id: &'static str, secret: &'static str| {
        move |command: &mut Command| {
            command.env("AWS_ACCESS_KEY_ID", id);
            command.env("AWS_SECRET_ACCESS_KEY", secret);
        }
    };
    let nothing = |_: &mut Command| {};
    refused("s3:/jars", &nothing, "it must begin with `s3://`");
    refused(
        "s3://wrong-secret@jars",
        &nothing,
        "credentials do not belong",
    );
    let none = |command: &mut Command| {
        command.env_remove("AWS_ACCESS_KEY_ID");
        command.env_remove("AWS_SECRET_ACCESS_KEY");
        command.env("AWS_SHARED_CREDENTIALS_FILE", "nowhere");
    };
    refused(&address, &none, "`nowhere`");
    refused(
        &address,
        &key(weed::READER.0, weed::READER.1),
        "AccessDenied",
    );
    refused(
        &address,
        &key(weed::KEY.0, "wrong-secret"),
        "SignatureDoesNotMatch",
    );
    let missing = address.replace("s3://jars", "s3://no-such-bucket");
    refused(&missing, &nothing, "NoSuchBucket");
    let gone = "s3://jars?endpoint=http://127.0.0.1:1";
    refused(gone, &nothing, "cannot be reached");
}
