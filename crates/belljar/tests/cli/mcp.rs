//! `belljar mcp` as a client sees it that writes lines by hand: what is wrong is answered, what ends
//! leaves nothing. With the official client: `.ci/mcp-client`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{BELLJAR, Scratch, bare};

pub(crate) struct Client {
    pub(crate) scratch: Scratch,
    child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Client {
    /// A server that has said what it is.
    fn open() -> Self {
        let mut client = Self::start();
        client.initialize(&json!({}));
        client
    }

    fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(Scratch::new(), arguments)
    }

    pub(crate) fn start_in(scratch: Scratch, arguments: &[&str]) -> Self {
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
            .env_remove("BELLJAR_MODEL")
            .args(["mcp", "--env", bare()])
            .args(arguments);
        Self::start_by(scratch, command)
    }

    pub(crate) fn start_by(scratch: Scratch, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            input: child.stdin.take(),
            output: child.stdout.take().map(BufReader::new),
            child,
            scratch,
        }
    }

    /// A client of the revision with a handshake, which can do this.
    pub(crate) fn initialize(&mut self, capabilities: &Value) {
        self.send(
            &json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "0"},
            }}),
        );
        let answer = self.answer();
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "belljar");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.line(message.to_string().as_bytes());
    }

    pub(crate) fn answer(&mut self) -> Value {
        let mut line = String::new();
        let output = self.output.as_mut().unwrap();
        output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// What a line is answered with: the code of the error, and the id.
    pub(crate) fn refused(&mut self, line: &[u8]) -> (Value, Value) {
        self.line(line);
        let answer = self.answer();
        (answer["error"]["code"].clone(), answer["id"].clone())
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": tool, "arguments": arguments,
            }}),
        );
        self.answer()["result"].clone()
    }

    pub(crate) fn run(&mut self, code: &str) -> String {
        let result = self.call("run_python", &json!({"code": code}));
        let stdout = &result["structuredContent"]["stdout"]["text"];
        stdout.as_str().unwrap_or_else(|| panic!("{result}")).into()
    }

    /// Megabytes that the server holds now, or held at most.
    fn memory(&self, of: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(of)).unwrap();
        let kilobytes = line.split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() / 1024
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status();
        assert!(status.unwrap().success());
    }

    /// It ends by itself, with success, in time, and leaves nothing.
    pub(crate) fn ends(&mut self) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0));
        self.scratch.nothing_is_left();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whatever a client writes is answered where it can be, and the next message is read.
#[test]
fn what_is_no_message_is_answered_and_passed_over() {
    let mut client = Client::start();
    // Before anything is agreed on.
    client.line(b"");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    assert_eq!(client.refused(b"hello?"), (json!(-32700), Value::Null));
    let early = br#"{"jsonrpc": "2.0", "id": 4, "method": "tools/list"}"#;
    assert_eq!(client.refused(early), (json!(-32602), json!(4)));
    client.initialize(&json!({}));

    assert_eq!(
        client.refused(b"{\"jsonrpc\": \"2.0\""),
        (json!(-32700), Value::Null)
    );
    assert_eq!(
        client.refused(b"\xff\xfe\x00"),
        (json!(-32700), Value::Null)
    );
    assert_eq!(client.refused(b"[]").0, json!(-32600));
    assert_eq!(client.refused(b"null").0, json!(-32600));
    let deep = [b"[".repeat(1_000_000), b"]".repeat(1_000_000)].concat();
    assert_eq!(client.refused(&deep).0, json!(-32700));
    let old = br#"{"jsonrpc": "1.0", "id": 5, "method": "ping"}"#;
    assert_eq!(client.refused(old), (json!(-32600), json!(5)));
    let unknown = br#"{"jsonrpc": "2.0", "id": 6, "method": "shutdown/everything"}"#;
    assert_eq!(client.refused(unknown), (json!(-32601), json!(6)));
    for params in [
        "7",
        "[]",
        "{\"name\": 7}",
        "{\"name\": \"run_python\", \"arguments\": [1]}",
    ] {
        let line =
            format!(r#"{{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {params}}}"#);
        let (code, id) = client.refused(line.as_bytes());
        assert!(code == -32602 || code == -32600, "{params}: {code}");
        assert_eq!(id, 8, "{params}");
    }
    // Of these nothing is to be heard.
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 3}));
    client.send(&json!({"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "no"}}));
    assert_eq!(client.run("print(6 * 7)"), "42\n");
    drop(client.input.take());
    client.ends();
}

/// Input without end, and answers that nobody reads, cost no more memory than the bounds say.
#[test]
fn hostile_amounts_are_bounded() {
    let mut client = Client::open();
    let long = vec![b'x'; 200 << 20];
    assert_eq!(client.refused(&long), (json!(-32600), Value::Null));
    let peak = client.memory("VmHWM");
    assert!(peak < 200, "{peak} MB for a line of 200 MB");
    // Many small values in one message.
    let many = format!(
        r#"{{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {{"name": "run_python", "arguments": {{"code": [{}0]}}}}}}"#,
        "0,".repeat(7 << 20)
    );
    client.line(many.as_bytes());
    let answer = client.answer();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let peak = client.memory("VmHWM");
    assert!(peak < 2500, "{peak} MB for a message of 14 MB");

    // A client that writes and does not read is not read either, sooner or later.
    let mut input = client.input.take().unwrap();
    let before = client.memory("VmRSS");
    let writer = std::thread::spawn(move || {
        let ping = b"{\"jsonrpc\": \"2.0\", \"id\": 3, \"method\": \"tools/list\"}\n".repeat(1000);
        for _ in 0..20 {
            // At last nobody is there to read it.
            let _ = input.write_all(&ping);
        }
    });
    std::thread::sleep(Duration::from_secs(3));
    let grown = client.memory("VmRSS").saturating_sub(before);
    assert!(!writer.is_finished(), "all of it was read");
    assert!(grown < 100, "{grown} MB for answers that nobody reads");
    // That nobody reads any more is an end, too.
    drop(client.output.take());
    client.ends();
}

/// A cell that runs when the client goes, or when the server is to end, does not hold it.
#[test]
fn the_end_of_input_and_signals_end_everything() {
    let endless = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "run_python",
        "arguments": {"code": "while True:\n    try:\n        while True: pass\n    except BaseException: pass"},
    }});
    for end in ["input", "TERM", "INT"] {
        let mut client = Client::open();
        client.run("x = 1");
        client.send(&endless);
        std::thread::sleep(Duration::from_millis(300));
        match end {
            "input" => drop(client.input.take()),
            name => client.signal(name),
        }
        client.ends();
    }
}

/// What was asked before the end of the input is still answered.
#[test]
fn the_last_calls_are_answered() {
    let mut client = Client::open();
    client.run("x = 1");
    client.send(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": "print(x + 1)"},
        }}),
    );
    drop(client.input.take());
    let answer = client.answer();
    assert_eq!(
        answer["result"]["structuredContent"]["stdout"]["text"],
        "2\n"
    );
    client.ends();
}

/// The keeper ends the sessions of a server that was killed.
#[test]
fn a_killed_server_leaves_no_session() {
    let mut client = Client::open();
    client.run("x = 1");
    client.signal("KILL");
    client.child.wait().unwrap();
    client.scratch.nothing_is_left();
}

/// An id of another server's session is worth nothing.
#[test]
fn a_session_of_another_client_is_unknown() {
    let (mut one, mut other) = (Client::open(), Client::open());
    let made = one.call("create_session", &json!({}));
    let id = made["structuredContent"]["session_id"].clone();
    for (tool, source) in [
        ("run_python", Some("code")),
        ("run_command", Some("command")),
        ("background_command", None),
        ("close_session", None),
        ("list_files", None),
        ("fork_session", None),
    ] {
        let mut arguments = json!({"session_id": id});
        if let Some(source) = source {
            arguments[source] = json!("1");
        }
        let result = other.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("There is no session with this id"), "{text}");
    }
    let result = one.call("run_python", &json!({"session_id": id, "code": "1"}));
    assert_eq!(result["isError"], false, "{result}");
}

/// What code writes goes to the client as data, and the protocol's stream has nothing else.
#[test]
fn code_can_not_write_to_the_protocol() {
    let mut client = Client::open();
    let code = r#"import os, sys
line = '{"jsonrpc": "2.0", "id": 1, "result": {"forged": true}}\n'
for descriptor in range(64):
    try:
        os.write(descriptor, line.encode())
    except OSError:
        pass
print(line, file=sys.__stdout__)"#;
    let result = client.call("run_python", &json!({"code": code}));
    assert!(result.get("forged").is_none(), "{result}");
    assert!(
        result["structuredContent"]["session_id"].is_string(),
        "{result}"
    );
}
