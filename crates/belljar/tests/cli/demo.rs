//! `belljar serve --demo`, without a key, a model or a network.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{BELLJAR, Scratch};

fn ask(address: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer[9..12].parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn json_of(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let (status, text) = ask(address, method, path, body);
    assert!(status < 300, "{method} {path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Waits until a run is so.
fn until(address: &str, id: &str, states: &[&str]) -> Value {
    let patience = Instant::now() + Duration::from_mins(3);
    loop {
        let run = json_of(address, "GET", &format!("/v1/runs/{id}"), &Value::Null);
        if states.contains(&run["state"].as_str().unwrap()) {
            return run;
        }
        assert!(Instant::now() < patience, "{run:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start(address: &str, body: &Value) -> String {
    let run = json_of(address, "POST", "/v1/runs", body);
    run["id"].as_str().unwrap().to_owned()
}

/// Every example goes to its end, in a real session, with an answer that rests on what its code printed.
#[test]
fn every_example_of_the_demonstration_comes_to_its_answer() {
    let scratch = Scratch::new();
    let mut command = scratch.prepare(BELLJAR);
    let mut child = command
        .args(["serve", "--demo", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("[open http://").unwrap();
    let address = address.strip_suffix(']').unwrap();
    let get = |path: &str| json_of(address, "GET", path, &Value::Null);

    let me = get("/v1/me");
    assert_eq!((&me["tenant"], &me["demo"]), (&json!("demo"), &json!(true)));
    assert_eq!(me["models"], json!(["demo/scripted"]));
    let (status, page) = ask(address, "GET", "/", &Value::Null);
    assert!(status == 200 && page.contains("Belljar"), "{page}");

    let examples = get("/v1/demo/examples");
    let ids = examples
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone());
    assert_eq!(
        ids.collect::<Value>(),
        json!(["sales", "repair", "approval", "crash"])
    );
    for (example, language) in examples
        .as_array()
        .unwrap()
        .iter()
        .zip(["en", "zh", "en", "zh"])
    {
        let name = example["id"].as_str().unwrap();
        let task = &example["task"][language];
        let id = start(address, &json!({"task": task, "files": example["files"]}));
        let mut over = vec!["answered", "ended"];
        over.extend((name == "approval").then_some("waits"));
        let mut run = until(address, &id, &over);
        if name == "approval" {
            let waits = &run["waits_for"][0];
            let code = waits["subject"]["code"].as_str().unwrap();
            let code = code.replace("'no'", "'yes'");
            let path = format!("/v1/runs/{id}/approvals/{}", waits["id"].as_str().unwrap());
            let decision = json!({"kind": "edit", "code": code});
            let body = json!({"hash": waits["hash"], "decision": decision});
            json_of(address, "POST", &path, &body);
            run = until(address, &id, &["answered", "ended"]);
        }
        assert_eq!(run["state"], "answered", "{run:#}");
        let answer = run["answer"].as_str().unwrap();
        assert!(!answer.contains('—') && !answer.contains('{'), "{answer}");
        assert!(!run["evidence"].as_array().unwrap().is_empty(), "{run:#}");
        let (_, events) = ask(
            address,
            "GET",
            &format!("/v1/runs/{id}/events"),
            &Value::Null,
        );
        let (expected, seen) = match name {
            "sales" => {
                let path = format!("/v1/runs/{id}/artifacts/revenue.png");
                let (status, picture) = ask(address, "GET", &path, &Value::Null);
                assert!(status == 200 && picture.contains("PNG"));
                ("South", "image/png")
            }
            "repair" => ("1006", "ValueError"),
            // What was run is what the person made of it.
            "approval" => ("kept 2, removed 3", "approval_decided"),
            _ => ("2262", "SIGABRT"),
        };
        assert!(answer.contains(expected), "{answer}");
        assert!(events.contains(seen), "{name}: {events}");
    }

    let id = start(address, &json!({"task": "Write a poem."}));
    let run = until(address, &id, &["answered", "ended"]);
    let answer = run["answer"].as_str().unwrap();
    assert!(
        answer.contains("demo without a language model") && answer.contains("Python 3."),
        "{answer}"
    );
    // A page of another site finds it as shut as any.
    let body = "POST /v1/sessions HTTP/1.1\r\nOrigin: http://evil.example\r\n";
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{body}Host: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut refused = String::new();
    stream.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");

    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    scratch.finish(child).exits_with(0).prints("");
}

#[test]
fn a_demonstration_is_for_this_machine_alone() {
    let scratch = Scratch::new();
    scratch
        .belljar(&["serve", "--demo", "--listen", "0.0.0.0:0"])
        .exits_with(2)
        .says("loopback only");
    scratch
        .belljar(&["serve", "--demo", "--host", "belljar.example"])
        .exits_with(2)
        .says("cannot be used with");
    scratch
        .belljar(&["serve", "--demo", "--admin", "127.0.0.1:0"])
        .exits_with(2)
        .says("a demo has no admin address");
}

#[test]
fn admins_are_reached_by_tls_or_on_loopback() {
    let scratch = Scratch::new();
    scratch
        .belljar(&["serve", "--admin", "0.0.0.0:0"])
        .exits_with(2)
        .says("has no TLS")
        .says("--insecure-admin");
}
