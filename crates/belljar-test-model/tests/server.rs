//! The scripted server, spoken to by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::TcpStream;

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

/// Sends a request and returns status line and headers, and the body without its framing.
fn ask(model: &ScriptedModel, line: &str, body: &str) -> (String, String) {
    let address = model.base_url();
    let address = address
        .trim_start_matches("http://")
        .trim_end_matches("/v1");
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "{line} HTTP/1.1\r\nAuthorization: Bearer abc\r\nX-Trace: 7\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut whole = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&more[..size]);
        rest = &more[size + 2..];
    }
    (head.to_owned(), whole)
}

#[test]
fn answers_in_order_and_records_to_the_byte() {
    let model = ScriptedModel::start([
        Scripted::text("one"),
        Scripted::rate_limited("9"),
        Scripted::call("f", json!({"x": 1})),
    ])
    .unwrap();
    let body = "{\"model\":  \"m\"}";
    let (head, whole) = ask(&model, "POST /v1/chat/completions", body);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], "one");
    let (head, _) = ask(&model, "POST /v1/messages", body);
    assert!(
        head.starts_with("HTTP/1.1 429 ") && head.contains("\r\nretry-after: 9"),
        "{head}"
    );
    let (_, events) = ask(&model, "POST /v1/messages", "{\"stream\":true}");
    assert!(
        events.starts_with("event: message_start\ndata: {") && events.ends_with("\n\n"),
        "{events}"
    );
    let (head, _) = ask(&model, "POST /v1/messages", "{}");
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    let (_, models) = ask(&model, "GET /v1/models", "");
    assert!(models.contains("scripted-model"));

    let requests = model.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("POST", "/v1/chat/completions")
    );
    assert_eq!(requests[0].body, body.as_bytes());
    assert_eq!(requests[0].header("x-trace"), Some("7"));
    assert!(requests[0].carried("authorization", "Bearer abc"));
    assert!(!requests[0].carried("authorization", "Bearer ab"));
    assert!(!format!("{requests:?}").contains("abc"));
}

#[test]
fn a_script_may_react_and_may_fail_an_assertion() {
    let model = ScriptedModel::react(|request| {
        let json = request.json();
        Scripted::text(json["say"].as_str().unwrap())
    })
    .unwrap();
    let (_, whole) = ask(&model, "POST /v1/chat/completions", "{\"say\":\"this\"}");
    assert!(whole.contains("\"this\""));
    let (head, whole) = ask(&model, "POST /v1/chat/completions", "{}");
    assert!(
        head.starts_with("HTTP/1.1 400 ") && whole.contains("panicked"),
        "{head}"
    );
    let (_, whole) = ask(&model, "POST /v1/chat/completions", "{\"say\":\"more\"}");
    assert!(whole.contains("\"more\""));
}

#[test]
fn a_dropped_server_is_gone_even_in_the_middle_of_an_answer() {
    let model = ScriptedModel::start([Scripted::endless()]).unwrap();
    let address = model.base_url().replace("http://", "").replace("/v1", "");
    let mut stream = TcpStream::connect(&address).unwrap();
    let body = "{\"stream\":true}";
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(model);
    assert!(TcpStream::connect(&address).is_err());
    let _ = stream.read_to_end(&mut Vec::new()); // ends, with a reset or without
}
