//! Secrets in logs, journals and what a model is sent.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::Signal;
use serde_json::json;

use crate::run::code;
use crate::serve::{ask_with, start, stop};
use crate::support::{BELLJAR, Scratch, bare};

const TOKEN: &str = "tok-fcde2b2edba56bf4";

fn has(directory: &Path) -> bool {
    directory.read_dir().unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            return has(&path);
        }
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(TOKEN.len())
            .any(|window| window == TOKEN.as_bytes())
    })
}

/// P10: the log of a service at its most verbose, and its directory.
#[test]
fn p10_a_secret_is_in_no_log_of_the_service() {
    let scratch = Scratch::new();
    let mut command = scratch.prepare(BELLJAR);
    command.arg("serve").args([
        "--env",
        bare(),
        "--listen",
        "127.0.0.1:0",
        "--data",
        "service",
    ]);
    command.env("BELLJAR_LOG", "trace");
    let (mut child, mut stderr, address) = start(command);
    // The log is long, and a full pipe would stop the service.
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let mut key = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut key).unwrap();
    let ask = |path: &str, body: &serde_json::Value| {
        let answer = ask_with(&address, key.trim(), "POST", path, &body.to_string());
        assert!(!answer.contains(TOKEN), "{answer}");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str::<serde_json::Value>(body).unwrap()
    };
    let session = ask("/v1/sessions", &json!({"secrets": {"TOKEN": TOKEN}}));
    let session = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let cell = json!({"code": "import os; t = os.environ['TOKEN']; print(t); raise ValueError(t)"});
    let outcome = ask(&format!("{session}/cells"), &cell);
    assert_eq!(outcome["stdout"]["text"], "[secret TOKEN]\n", "{outcome}");
    ask(
        &format!("{session}/commands"),
        &json!({"command": "env; false"}),
    );
    let pin = ask(
        "/v1/sessions",
        &json!({"secrets": {"PIN": "1234567", "TOKEN": TOKEN}}),
    );
    assert_eq!(pin["code"], "variable_refused");
    ask("/v1/sessions", &json!({"secrets": TOKEN.len()}));
    stop(&scratch, child, Signal::TERM).exits_with(0);
    let log = log.join().unwrap();
    assert!(
        log.contains("/v1/sessions") && !log.contains(TOKEN),
        "{log}"
    );
    assert!(!has(&scratch.path("service")));
}

/// P11: the journal of a run, the screen, and all that its model is sent.
#[test]
fn p11_a_secret_is_in_no_journal_and_no_prompt() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("import os\nt = os.environ['TOKEN']\nprint('got', t, len(t))\n_ = open('/tmp/kept.txt', 'w').write(t)"),
        code("raise ValueError(t)"),
        code("print(open('/tmp/kept.txt').read()); t"),
        Scripted::text("FINAL: It has 20 characters."),
    ])
    .unwrap();
    let url = model.base_url();
    let mut command = scratch.prepare(BELLJAR);
    command
        .arg("run")
        .args([
            "--model",
            "llamacpp/scripted",
            "--base-url",
            &url,
            "--env",
            bare(),
        ])
        .args(["--secret", "TOKEN", "How long is the token?"])
        .env("TOKEN", TOKEN)
        .env("BELLJAR_LOG", "trace")
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .stdin(std::process::Stdio::null());
    let ended = scratch.finish(command.spawn().unwrap());
    assert!(ended.stderr.contains("got [secret TOKEN] 20"), "{ended:#?}");
    assert!(
        !ended.stderr.contains(TOKEN) && !ended.stdout.contains(TOKEN),
        "{ended:#?}"
    );
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        let body = String::from_utf8_lossy(&request.body);
        assert!(!body.contains(TOKEN), "{body}");
    }
    assert!(!has(&scratch.path("runs")));
}
