//! A service that is stopped and started again, as an upgrade does: what becomes of its sessions.

use std::io::BufReader;
use std::process::{Child, ChildStderr};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve::{ask_with, listens_on, stop};
use crate::support::{BELLJAR, Scratch, bare, eventually};

struct Running {
    child: Child,
    // It would wait for a reader.
    _stderr: BufReader<ChildStderr>,
    address: String,
    key: String,
}

/// Starts the service on an address, or on any.
fn start(scratch: &Scratch, key: &str, address: &str) -> Running {
    let mut child = scratch
        .prepare(BELLJAR)
        .args(["serve", "--env", bare(), "--data", "service"])
        .args(["--listen", address])
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    Running {
        address: listens_on(&mut stderr),
        child,
        _stderr: stderr,
        key: key.to_owned(),
    }
}

impl Running {
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = ask_with(&self.address, &self.key, method, path, &body);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn session(&self, code: &str) -> String {
        let (status, made) = self.ask("POST", "/v1/sessions", &Value::Null);
        assert_eq!(status, 201, "{made:#}");
        let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
        self.run(&path, code);
        path
    }

    fn run(&self, session: &str, code: &str) -> Value {
        let (status, outcome) =
            self.ask("POST", &format!("{session}/cells"), &json!({"code": code}));
        assert_eq!(
            (status, &outcome["status"]),
            (200, &json!("success")),
            "{outcome:#}"
        );
        outcome
    }

    fn state(&self, session: &str) -> Value {
        let (status, view) = self.ask("GET", session, &Value::Null);
        assert_eq!(status, 200, "{view:#}");
        view
    }
}

fn key(scratch: &Scratch) -> String {
    let made = scratch.belljar(&["keys", "create", "--data", "service", "--scope", "sessions"]);
    made.exits_with(0).stdout.trim().to_owned()
}

/// SIGTERM, and a start on the same address: the session is there with its variables, and the first outcome reports
/// what is not.
#[test]
fn a_session_survives_an_upgrade() {
    let scratch = Scratch::new();
    let key = key(&scratch);
    let service = start(&scratch, &key, "127.0.0.1:0");
    let session = service.session("x = 6\ngone = (n for n in [1])\nopen('f', 'w').write('7')");
    let address = service.address.clone();
    stop(&scratch, service.child, Signal::TERM)
        .exits_with(0)
        .prints("");
    let service = start(&scratch, &key, &address);
    assert_eq!(service.state(&session)["state"], "hibernated");
    let outcome = service.run(&session, "print(x * int(open('f').read()))");
    assert_eq!(
        (&outcome["stdout"]["text"], &outcome["cell"]),
        (&json!("42\n"), &json!(2))
    );
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("the variable `gone` is gone"), "{notes}");
    stop(&scratch, service.child, Signal::INT)
        .exits_with(0)
        .prints("");
}

/// Killed in the middle: what was saved is whole, what was not is reported, and nothing is half there.
#[test]
fn a_service_that_is_killed_while_it_saves_reports_what_is_lost() {
    let scratch = Scratch::new();
    let key = key(&scratch);
    let service = start(&scratch, &key, "127.0.0.1:0");
    let whole = service.session("x = 6");
    let slow = "import time\nclass Slow:\n    def __reduce__(self):\n        time.sleep(4)\n        \
                return int, ()\nslow = Slow()";
    let lost = service.session(slow);
    let pid = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    eventually(
        || service.state(&whole),
        |view| view["state"] == "hibernated",
    );
    assert_eq!(service.state(&lost)["state"], "awake");
    let ended = stop(&scratch, service.child, Signal::KILL);
    assert_eq!(ended.status.code(), None);

    let service = start(&scratch, &key, "127.0.0.1:0");
    let shown = service.state(&lost);
    assert_eq!(shown["state"], "ended");
    assert_eq!(
        shown["lost_because"],
        "the service was stopped before it was saved"
    );
    let (status, problem) = service.ask("GET", &format!("{lost}/manifest"), &Value::Null);
    assert_eq!((status, &problem["code"]), (409, &json!("session_ended")));
    assert_eq!(service.state(&whole)["state"], "hibernated");
    let files = scratch.path("service/sessions").read_dir().unwrap().count();
    assert_eq!(files, 1);
    assert_eq!(service.run(&whole, "print(x)")["stdout"]["text"], "6\n");
    stop(&scratch, service.child, Signal::TERM)
        .exits_with(0)
        .prints("");
}
