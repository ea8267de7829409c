//! `/mcp`: messages that no honest client sends.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Case, Severity};
use crate::mcp_client::{Mcp, answer, send};
use crate::support::{Ask as _, Client, taken, until_free};

/// Sends bytes as a message: status and answer.
async fn post(
    client: &Client,
    connection: Option<&str>,
    body: impl Into<reqwest::Body>,
) -> (u16, String) {
    let request = client
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    let request = match connection {
        Some(id) => request.header("mcp-session-id", id),
        None => request,
    };
    let response = request.body(body).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Refused as a whole, or answered with an error of the protocol.
fn is_refused(status: u16, text: &str) -> bool {
    (400..500).contains(&status) || (status == 200 && text.contains("\"error\""))
}

#[tokio::test(flavor = "multi_thread")]
async fn n52_huge_messages_are_refused() {
    let case = Case::begin(
        "N52",
        Severity::HostDos,
        "MCP: a message of 9 MiB, and 8 MiB of small values, which take the memory of 128 MiB and more",
        "413 and 400 before anything is made of them; a long program runs",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let connection = mcp.connection.as_deref();
    let announced = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        case.world.address,
        hostile.key.text,
        9 << 20
    );
    let text = case.world.raw(announced.as_bytes()).await;
    assert!(
        text.starts_with("HTTP/1.1 413 ") && text.contains("body_too_large"),
        "{text}"
    );
    for value in ["0,", "[],", "{},", "\"\","] {
        let values = value.repeat((8 << 20) / value.len() - 100);
        let message = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"run_python\",\"arguments\":{{\"x\":[{values}0]}}}}}}"
        );
        let (status, text) = post(&hostile, connection, message).await;
        assert_eq!((status, text.contains("bad_body")), (400, true), "{text}");
    }
    let long = format!("x = '''{}'''\nprint(len(x))", "[,{".repeat(1_000_000));
    assert_eq!(mcp.prints(&long).await, "3000000\n");
    until_free(&case.world, "transfers").await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n53_batches_do_nothing() {
    let case = Case::begin(
        "N53",
        Severity::PeerDos,
        "MCP: 10,000 calls as one batch, and batches within batches",
        "refused as a whole; no session is started",
    )
    .await;
    let hostile = case.hostile().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "create_session", "arguments": {}
    }});
    for batch in [
        json!(vec![call.clone(); 10_000]),
        json!([[call.clone()], [[call.clone()]]]),
        json!([call, {"jsonrpc": "2.0", "method": "notifications/initialized"}]),
        json!([]),
    ] {
        let (status, text) = post(&hostile, None, batch.to_string()).await;
        assert!(is_refused(status, &text), "{status} {text:.300}");
    }
    assert_eq!(taken(&case.world, "sessions").await, 1, "the peer's alone");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n54_what_is_no_json_rpc_is_refused() {
    let case = Case::begin(
        "N54",
        Severity::HostDos,
        "MCP: 30 messages that are wrong in their form, with a connection and without",
        "4xx or an error of the protocol; never a fault, and the connection works on",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let wrong = [
        "",
        " ",
        "null",
        "true",
        "1e999",
        "\"tools/call\"",
        "{}",
        "[null]",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"tools/list\"}",
        "{\"id\":1,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"no_such_tool\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"run_python\",\"arguments\":[]}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\u0000\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{\"code\":1,\"message\":\"x\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"method\":\"ping\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
    ];
    for connection in [mcp.connection.as_deref(), None] {
        for body in wrong {
            let (status, text) = post(&hostile, connection, body).await;
            assert!(is_refused(status, &text), "{body}: {status} {text:.300}");
        }
        let not_text = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}".to_vec();
        let (status, text) = post(&hostile, connection, not_text).await;
        assert!(is_refused(status, &text), "{status} {text:.300}");
    }
    // What answers nothing that was asked has no effect.
    for message in [
        json!({"jsonrpc": "2.0", "id": 99, "result": {"action": "accept"}}),
        json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    ] {
        let status = mcp.send(&message).send().await.unwrap().status().as_u16();
        assert!(status == 202 || (400..500).contains(&status), "{status}");
    }
    assert_eq!(mcp.prints("print(1)").await, "1\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n55_deep_nesting_is_refused() {
    let case = Case::begin(
        "N55",
        Severity::HostDos,
        "MCP: arguments, metadata and ids that nest 100 to 4,000,000 deep",
        "refused from some depth on; no stack overflows",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    for depth in [100, 1000, 90_000, 4_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let depth = if open.len() > 1 { depth / 6 } else { depth / 2 };
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for message in [
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"run_python\",\"arguments\":{{\"code\":{nested}}}}}}}"
                ),
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{\"_meta\":{{\"progressToken\":{nested}}}}}}}"
                ),
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{nested},\"method\":\"tools/list\"}}"),
            ] {
                let (status, text) = post(&hostile, mcp.connection.as_deref(), message).await;
                assert!(status < 500, "{depth}: {status} {text:.300}");
                assert!(
                    depth < 200 || is_refused(status, &text),
                    "{depth}: {status} {text:.300}"
                );
            }
        }
    }
    assert_eq!(mcp.prints("print(1)").await, "1\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n56_an_id_in_use_is_refused() {
    let case = Case::begin(
        "N56",
        Severity::HostDos,
        "MCP: 300 calls with the id of one that runs, and 600 requests whose clients hang up",
        "400 for each of the calls, and each id gets its own answer; nothing is left of those that hung up",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let call = |id: Value, code: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": code}
        }})
    };
    let first = mcp.send(&call(
        json!(1),
        "import time; time.sleep(2); print('first')",
    ));
    let first = first.with(200).await;
    for _ in 0..300 {
        mcp.send(&call(json!(1), "print('second')"))
            .problem(400, "bad_body")
            .await;
    }
    // Text and number are two ids.
    let text = answer(
        mcp.send(&call(json!("1"), "print('text')"))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (
            &text["id"],
            &text["result"]["structuredContent"]["stdout"]["text"]
        ),
        (&json!("1"), &json!("text\n"))
    );
    let first = answer(first).await;
    assert_eq!(
        (
            &first["id"],
            &first["result"]["structuredContent"]["stdout"]["text"]
        ),
        (&json!(1), &json!("first\n"))
    );
    // Once it was answered the id is free.
    let again = answer(
        mcp.send(&call(json!(1), "print('again')"))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        again["result"]["structuredContent"]["stdout"]["text"],
        "again\n"
    );
    for id in 0..600 {
        let ping = json!({"jsonrpc": "2.0", "id": 1000 + id, "method": "ping"});
        // The head is read, and the answer is not.
        drop(mcp.send(&ping).with(200).await);
    }
    until_free(&case.world, "requests").await;
    assert_eq!(mcp.prints("print(2)").await, "2\n");
    let fresh = Mcp::open(&hostile).await;
    assert_eq!(fresh.prints("print(1)").await, "1\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n57_a_long_token_is_not_repeated() {
    let case = Case::begin(
        "N57",
        Severity::HostDos,
        "MCP: a progress token of 1 MiB, which each word of progress would repeat",
        "the call is answered, without progress; a short token gets some",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let call = async |token: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": "import time; time.sleep(1.8); print('done')"},
            "_meta": {"progressToken": token}
        }});
        mcp.send(&message).with(200).await.text().await.unwrap()
    };
    let long = call(json!("t".repeat(1 << 20))).await;
    assert!(
        long.contains("done") && !long.contains("notifications/progress"),
        "{long:.300}"
    );
    assert!(long.len() < 64 << 10, "{}", long.len());
    let short = call(json!("t")).await;
    assert!(
        short.contains("done") && short.contains("notifications/progress"),
        "{short:.300}"
    );
    for wrong in [
        json!(null),
        json!({"a": 1}),
        json!([1]),
        json!(true),
        json!(1.5),
        json!(u64::MAX),
    ] {
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": {"progressToken": wrong}}});
        let status = mcp.send(&list).send().await.unwrap().status().as_u16();
        assert!(status < 500, "{wrong}: {status}");
    }
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n58_ids_of_any_type_come_back_or_are_refused() {
    let case = Case::begin(
        "N58",
        Severity::Integrity,
        "MCP: ids that are null, fractions, objects, booleans, out of range, empty and 1 MiB long",
        "the answer has the same id, or the message is refused; none is taken for another",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    for id in [
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1.5),
        json!(1e300),
        json!(null),
        json!(true),
        json!([]),
        json!({"a": 1}),
        json!(""),
        json!("1"),
        json!("\u{202e}\u{0}\n"),
        json!("i".repeat(1 << 20)),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}});
        let response = mcp.send(&message).send().await.unwrap();
        let status = response.status().as_u16();
        if status == 200 {
            let said = answer(response).await;
            assert!(
                said["id"] == id || said["error"].is_object(),
                "{id:.40}: {said:.300}"
            );
        } else {
            assert!(
                status == 202 || (400..500).contains(&status),
                "{id:.40}: {status}"
            );
        }
    }
    assert_eq!(mcp.prints("print(1)").await, "1\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n59_headers_do_not_contradict_the_message() {
    let case = Case::begin(
        "N59",
        Severity::Integrity,
        "MCP: `Mcp-Method` and `Mcp-Name` of a harmless call over a message that runs code; versions that there are not",
        "refused; no session is started",
    )
    .await;
    let hostile = case.hostile().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": crate::mcp_client::STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": "1"}, "_meta": meta
    }});
    for (version, method, name) in [
        (crate::mcp_client::STATELESS, "tools/list", "run_python"),
        (crate::mcp_client::STATELESS, "tools/call", "list_files"),
        ("1999-01-01", "tools/call", "run_python"),
        ("../../etc", "tools/call", "run_python"),
    ] {
        let request = send(&hostile, &message)
            .header("mcp-protocol-version", version)
            .header("mcp-method", method)
            .header("mcp-name", name);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert!(
            is_refused(status, &text),
            "{version} {method} {name}: {status} {text:.300}"
        );
    }
    assert_eq!(taken(&case.world, "sessions").await, 1, "the peer's alone");
    case.end().await;
}
