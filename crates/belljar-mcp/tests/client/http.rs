//! Servers over HTTP, on this machine.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use belljar_agent::Given;
use belljar_mcp::ClientError;
use serde_json::{Value, json};

use crate::{Home, call, peak, python, script};

struct Server {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    url: String,
}

impl Server {
    fn start(mode: &str) -> Self {
        let mut command = Command::new(python());
        command.arg(script()).args(["--http", mode]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        output.read_line(&mut port).unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        Self {
            child,
            output: Some(output),
            url,
        }
    }

    fn spec(&self) -> Value {
        json!({"url": self.url, "timeout": 30})
    }

    /// Ends it, and gives what it printed.
    fn end(mut self) -> String {
        self.child.kill().unwrap();
        let output = self.output.take().unwrap();
        output.lines().map_while(Result::ok).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_tool_is_called() {
    let server = Server::start("good");
    let connection = Home::new().connect(server.spec()).await.unwrap();
    assert_eq!(connection.revision(), "2025-11-25");
    let given = call(&connection, json!({"text": "hello"})).await;
    assert_eq!(given, Ok(Given::Value(json!("hello"))));
    drop(server);
    let why = call(&connection, json!({})).await.unwrap_err().0;
    assert!(why.contains("refused") || why.contains("closed"), "{why}");
}

#[tokio::test]
async fn keys_go_where_they_belong() {
    let server = Server::start("key");
    let home = Home::new();
    let file = home.0.path().join("key");
    std::fs::write(&file, "sk-of-file\n").unwrap();
    let mut spec = server.spec();
    spec["headers"] = json!({
        "Authorization": format!("Bearer file:{}", file.display()),
        "X-Key": "variable:CARGO_PKG_NAME",
    });
    let connection = home.connect(spec).await.unwrap();
    let given = call(&connection, json!({})).await;
    // The server repeats what it got. The two stand in the place of exactly these keys, and of nothing
    // else (L11).
    assert_eq!(given, Ok(Given::Value(json!("Bearer [key] [key]"))));
    assert!(!format!("{connection:?}").contains("sk-of-file"));
}

/// A redirect would carry the keys elsewhere.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Server::start("redirect");
    let why = Home::new().refused(server.spec()).await;
    assert!(why.contains("307"), "{why}");
    assert_eq!(server.end(), "");
}

#[tokio::test]
async fn what_is_no_server_is_told() {
    for (mode, part) in [("unauthorized", "HTTP 401"), ("page", "content type")] {
        let server = Server::start(mode);
        let error = Home::new().connect(server.spec()).await.unwrap_err();
        assert!(matches!(error, ClientError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let server = Server::start("good");
    let spec = server.spec();
    drop(server);
    let why = Home::new().refused(spec).await;
    assert!(why.contains("refused"), "{why}");
}

#[tokio::test]
async fn waits_a_server_that_never_answers_is_not_waited_for() {
    let server = Server::start("silent");
    let start = Instant::now();
    let error = Home::new().connect(server.spec()).await.unwrap_err();
    assert!(matches!(error, ClientError::Silent { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(25));
}

#[tokio::test]
async fn a_call_without_an_answer_ends() {
    let server = Server::start("hangs");
    let mut spec = server.spec();
    spec["timeout"] = json!(1);
    let connection = Home::new().connect(spec).await.unwrap();
    let why = call(&connection, json!({})).await.unwrap_err().0;
    assert_eq!(why, "no answer within 1 s");
}

/// L10: an answer of a gigabyte.
#[tokio::test]
async fn a_huge_answer_takes_no_memory() {
    for mode in ["huge-json", "huge-events"] {
        let server = Server::start(mode);
        let connection = Home::new().connect(server.spec()).await.unwrap();
        let before = peak();
        let why = call(&connection, json!({})).await.unwrap_err().0;
        assert_eq!(why, "the server's answer has more than 16 MiB", "{mode}");
        assert!(peak() - before < 100, "{} MB more", peak() - before);
    }
}

#[tokio::test]
async fn an_answer_of_too_many_values_is_not_read() {
    let server = Server::start("values");
    let connection = Home::new().connect(server.spec()).await.unwrap();
    let before = peak();
    let why = call(&connection, json!({})).await.unwrap_err().0;
    assert_eq!(why, "the server's answer has too many values");
    assert!(peak() - before < 100, "{} MB more", peak() - before);
}
