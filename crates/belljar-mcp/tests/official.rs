//! Belljar as a client of servers of the official library. Run by `.ci/mcp-client`, which installs it
//! and says in `BELLJAR_MCP_PYTHON` which interpreters have it: one with each major version.

#![allow(clippy::unwrap_used, reason = "a test that can't continue fails")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use belljar_agent::{Given, Invocation, ToolEffects};
use belljar_mcp::{Accept, Connection, ServerSpec, connect};
use serde_json::{Value, json};

const SCRIPT: &str = "tests/official_server.py";

/// A server over HTTP, which ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(python: &str, transport: &str) -> (Server, Value) {
    let mut command = Command::new(python);
    command.args([SCRIPT, transport]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut port = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let server = Server(child);
    output.read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    (server, json!({"url": url, "trusted": true}))
}

async fn call(connection: &Connection, tool: &str, arguments: Value) -> Result<Given, String> {
    let name = format!("official.{tool}");
    let tools = connection.tools();
    let found = tools.iter().find(|tool| tool.granted.stub.name == name);
    let Value::Object(arguments) = arguments else {
        panic!("no arguments")
    };
    let key = "run.1.1".into();
    let invocation = Invocation { arguments, key };
    let given = found.unwrap().perform(invocation).await;
    given.map_err(|error| error.0)
}

async fn uses(spec: Value, revision: &str) {
    let spec: ServerSpec = serde_json::from_value(spec).unwrap();
    let home = tempfile::tempdir().unwrap();
    let connection = connect("official", &spec, home.path(), Accept::AsBefore);
    let connection = connection.await.unwrap();
    assert_eq!(connection.revision(), revision);
    let offered: Vec<_> = connection.offered().collect();
    assert_eq!(offered.len(), 6);
    assert!(
        offered.iter().all(|tool| tool.withheld.is_none()),
        "{offered:?}"
    );
    let add = offered.iter().find(|tool| tool.name == "add").unwrap();
    let signature = "tools.official_add(a: int, b: int = 2) -> dict";
    assert_eq!(add.signature.as_deref(), Some(signature));
    assert_eq!(add.description, "Adds two numbers.");
    assert_eq!(add.effects, ToolEffects::None);

    let given = call(&connection, "add", json!({"a": 40})).await;
    assert_eq!(given, Ok(Given::Value(json!({"result": 42}))));
    let given = call(&connection, "greet", json!({"name": "Ada"})).await;
    assert_eq!(given, Ok(Given::Value(json!("Hello, Ada!"))));
    let picture = Given::Kept {
        mime: "image/png".into(),
        data: b"\x89PNG...".to_vec(),
    };
    assert_eq!(call(&connection, "picture", json!({})).await, Ok(picture));
    let Ok(Given::Value(several)) = call(&connection, "several", json!({})).await else {
        panic!("no value")
    };
    assert_eq!(several[0], "a text");
    assert_eq!(several[1]["mime_type"], "image/png");
    let why = call(&connection, "fail", json!({"why": "no \u{1b}[31mpaper"})).await;
    let why = why.unwrap_err();
    assert!(why.contains("no paper"), "{why}");
    let why = call(&connection, "add", json!({"a": "x"}))
        .await
        .unwrap_err();
    assert!(why.contains("int"), "{why}");

    let many = (0..40).map(|number| {
        let connection = &connection;
        async move { call(connection, "add", json!({"a": number, "b": 0})).await }
    });
    let many = futures_util::future::join_all(many).await;
    for (number, given) in many.into_iter().enumerate() {
        assert_eq!(given, Ok(Given::Value(json!({"result": number}))));
    }

    let hasty = ServerSpec {
        timeout: Some(1),
        ..spec
    };
    let connection = connect("official", &hasty, home.path(), Accept::AsBefore);
    let connection = connection.await.unwrap();
    let why = call(&connection, "wait", json!({"seconds": 3})).await;
    assert_eq!(why, Err("no answer within 1 s".into()));
}

#[tokio::test]
#[ignore = "needs the official library: .ci/mcp-client runs it"]
async fn servers_of_the_official_library_are_used() {
    let pythons = std::env::var("BELLJAR_MCP_PYTHON");
    let pythons = pythons.expect("BELLJAR_MCP_PYTHON is not set: run .ci/mcp-client");
    let (second, first) = pythons.split_once(':').expect("two interpreters");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT);
    for (python, revision) in [(second, "2026-07-28"), (first, "2025-11-25")] {
        let command = [python, script.to_str().unwrap(), "stdio"];
        uses(json!({"command": command, "trusted": true}), revision).await;
        for transport in ["http", "json"] {
            let (_server, spec) = start(python, transport);
            uses(spec, revision).await;
        }
    }
}
