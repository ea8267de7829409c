//! The core of a kernel with a real session, without a transport.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use belljar_jupyter::{
    EngineHost, Kernel, KernelOptions, Key, Message, Outgoing, Request, Requests, Route,
};
use belljar_sandbox::{Checkpoints, Engine, Environment, SessionOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A client of a kernel.
struct Client {
    shell: mpsc::Sender<Request>,
    control: mpsc::Sender<Request>,
    stdin: mpsc::Sender<Request>,
    messages: mpsc::Receiver<Outgoing>,
    sent: u32,
}

impl Client {
    fn request(&mut self, kind: &str, content: &Value) -> Request {
        self.sent += 1;
        let header = json!({"msg_id": self.sent.to_string(), "msg_type": kind});
        let parts = [header, json!({}), json!({}), content.clone()];
        let [header, parent, metadata, content] =
            parts.map(|part| part.as_object().unwrap().clone());
        let message = Message {
            header,
            parent,
            metadata,
            content,
            buffers: Vec::new(),
        };
        // As a client sends it.
        let key = Key::new(b"k");
        let (envelope, message) = Message::parse(message.encode(&[], &key), &key).unwrap();
        let from = Route {
            connection: 7,
            envelope,
            ..Route::default()
        };
        Request {
            from,
            message,
            held: None,
        }
    }

    async fn send(&mut self, kind: &str, content: Value) {
        let request = self.request(kind, &content);
        self.shell.send(request).await.unwrap();
    }

    /// The messages up to the state `idle`: their types, and their contents.
    async fn seen(&mut self) -> Vec<(String, Value)> {
        let mut seen = Vec::new();
        loop {
            let waited = tokio::time::timeout(Duration::from_mins(1), self.messages.recv());
            let message = match waited.await.unwrap().unwrap() {
                Outgoing::Publish(message) => message,
                Outgoing::Shell(route, message) | Outgoing::Control(route, message) => {
                    assert_eq!(route.connection, 7);
                    message
                }
                Outgoing::Stdin(_, message) => {
                    let content = json!({"value": "typed"});
                    let answer = self.request("input_reply", &content);
                    self.stdin.send(answer).await.unwrap();
                    message
                }
            };
            let content = Value::Object(message.content.clone());
            let is_idle = content["execution_state"] == "idle";
            seen.push((message.kind().to_owned(), content));
            if is_idle {
                return seen;
            }
        }
    }

    async fn run(&mut self, code: &str) -> Vec<(String, Value)> {
        self.send("execute_request", json!({"code": code})).await;
        self.seen().await
    }
}

fn kinds(seen: &[(String, Value)]) -> Vec<&str> {
    seen.iter().map(|(kind, _)| kind.as_str()).collect()
}

fn content<'a>(seen: &'a [(String, Value)], kind: &str) -> &'a Value {
    let found = seen.iter().find(|(one, _)| one == kind);
    &found.unwrap_or_else(|| panic!("no {kind}: {seen:?}")).1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_answers_survives_and_ends() {
    let environment = Environment::from_python("/usr/bin/python3".as_ref()).unwrap();
    let engine = Engine::builder(environment).build();
    let (shell, shell_requests) = mpsc::channel(16);
    let (control, control_requests) = mpsc::channel(16);
    let (stdin, stdin_requests) = mpsc::channel(16);
    let (outgoing, messages) = mpsc::channel(16);
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..SessionOptions::default()
    };
    let host = EngineHost::new(engine, options, Some("import os".into()));
    let kernel = Kernel::new(host, KernelOptions::default(), outgoing);
    let running = tokio::spawn(async move {
        let requests = Requests {
            shell: shell_requests,
            control: control_requests,
            stdin: stdin_requests,
        };
        kernel.run(requests).await
    });
    let mut client = Client {
        shell,
        control,
        stdin,
        messages,
        sent: 0,
    };

    client.send("kernel_info_request", json!({})).await;
    let seen = client.seen().await;
    assert_eq!(
        kinds(&seen),
        ["status", "status", "kernel_info_reply", "status"]
    );
    assert_eq!(
        content(&seen, "kernel_info_reply")["protocol_version"],
        "5.4"
    );

    let seen = client.run("x = os.getpid() and 41\nprint(x)\nx + 1").await;
    let expected = [
        "status",
        "execute_input",
        "stream",
        "execute_result",
        "execute_reply",
        "status",
    ];
    assert_eq!(kinds(&seen), expected);
    assert_eq!(content(&seen, "execute_result")["data"]["text/plain"], "42");

    let seen = client.run("print(input('? '))").await;
    assert_eq!(content(&seen, "stream")["text"], "typed\n");

    // A crash: an error, then our words, and the kernel lives.
    let seen = client.run("os.kill(os.getpid(), 11)").await;
    let error = content(&seen, "error");
    assert_eq!(
        (&error["ename"], &error["evalue"]),
        (&json!("Crashed"), &json!("SIGSEGV"))
    );
    let said = content(&seen, "stream")["text"].as_str().unwrap();
    assert!(said.starts_with("[belljar] "), "{said}");
    let seen = client.run("x").await;
    assert_eq!(content(&seen, "execute_result")["data"]["text/plain"], "41");

    // Wrong contents and unknown requests harm nobody.
    client.send("execute_request", json!({"code": 7})).await;
    let seen = client.seen().await;
    assert_eq!(content(&seen, "execute_reply")["status"], "error");
    client.send("debug_request", json!({})).await;
    assert_eq!(kinds(&client.seen().await), ["status", "status"]);

    let request = client.request("shutdown_request", &json!({"restart": false}));
    client.control.send(request).await.unwrap();
    running.await.unwrap().unwrap();
}
