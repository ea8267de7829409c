//! Belljar as a client of MCP servers, with servers on the other side that mean no good. With the
//! official library's servers: `.ci/mcp-client`.

#![allow(clippy::unwrap_used, reason = "a test that can't continue fails")]

mod http;
mod lines;
mod pins;
mod session;

use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_agent::{Given, HostTool, Invocation};
use belljar_mcp::{Accept, ClientError, Connection, ServerSpec, connect};
use belljar_sandbox::protocol::ToolError;
use serde_json::{Value, json};
use tempfile::TempDir;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/server.py")
}

/// The interpreter itself: what stands for it in `PATH` may be a script that sets variables.
fn python() -> String {
    let mut command = Command::new("python3");
    command.args(["-c", "import sys; print(sys.executable, end='')"]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// A server on standard input and output.
fn stdio(arguments: &[&str]) -> Value {
    let (python, script) = (python(), script());
    let mut command = vec![&*python, script.to_str().unwrap()];
    command.extend(arguments);
    json!({"command": command})
}

/// Where tools are accepted for the first time.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn connect(&self, spec: Value) -> Result<Connection, ClientError> {
        self.connect_to("server", spec, Accept::AsBefore).await
    }

    async fn connect_to(
        &self,
        name: &str,
        spec: Value,
        accept: Accept,
    ) -> Result<Connection, ClientError> {
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        connect(name, &spec, &self.0.path().join("mcp"), accept).await
    }

    async fn refused(&self, spec: Value) -> String {
        self.connect(spec).await.unwrap_err().to_string()
    }
}

fn tool(connection: &Connection, name: &str) -> HostTool {
    let tools = connection.tools();
    let found = tools.iter().find(|tool| tool.granted.stub.name == name);
    found.unwrap_or_else(|| panic!("{tools:?}")).clone()
}

async fn call(connection: &Connection, arguments: Value) -> Result<Given, ToolError> {
    let Value::Object(arguments) = arguments else {
        panic!("no arguments")
    };
    let key = "run.1.1".into();
    let invocation = Invocation { arguments, key };
    tool(connection, "server.call").perform(invocation).await
}

/// The most memory that this process ever held, in megabytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}
