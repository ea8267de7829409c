//! `/mcp`: connections, streams, tasks and decisions of others.

use std::time::{Duration, Instant};

use belljar_agent::{Approvals, Policy};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Case, Severity};
use crate::mcp_client::{Mcp, answer, initialize, send};
use crate::support::{Ask as _, Client, options, taken, until_free};

/// A person is asked before any code runs.
fn always() -> Approvals {
    Approvals {
        policy: Policy::Always,
        ..Approvals::default()
    }
}

/// What is asked about a connection by somebody who knows its id.
async fn asked_about(client: &Client, connection: &str) -> Vec<(u16, String)> {
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}});
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let mut said = Vec::new();
    for request in [
        send(client, &list),
        send(client, &cancel),
        client.get("/mcp").header("accept", "text/event-stream"),
        client.delete("/mcp"),
    ] {
        let request = request.header("mcp-session-id", connection);
        let response = request.send().await.unwrap();
        said.push((response.status().as_u16(), response.text().await.unwrap()));
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn n44_the_id_of_anothers_connection_is_of_no_use() {
    let case = Case::begin(
        "N44",
        Severity::Lateral,
        "MCP: the id of another tenant's connection, or of another key's of the tenant, in POST, GET and DELETE",
        "the same as for an id that there never was: 404, and DELETE does nothing; the connection and its variables stay",
    )
    .await;
    let mcp = Mcp::open(&case.peer).await;
    mcp.prints("x = 6 * 7").await;
    let connection = mcp.connection.clone().unwrap();
    let never = "00000000-0000-4000-8000-000000000000";
    let second_key = case.world.client("peer").await;
    for client in [case.hostile().await, second_key] {
        let of_peer = asked_about(&client, &connection).await;
        let statuses: Vec<u16> = of_peer.iter().map(|(status, _)| *status).collect();
        // There is nothing to end: that is no fault.
        assert_eq!(statuses, [404, 404, 404, 204], "{of_peer:?}");
        assert_eq!(of_peer, asked_about(&client, never).await);
        // Numbers near it, and what is no id at all.
        for guess in [
            "",
            " ",
            "*",
            "../x",
            &connection.to_uppercase(),
            &"a".repeat(5000),
        ] {
            for (status, text) in asked_about(&client, guess).await {
                assert!(
                    status == 204 || (400..500).contains(&status),
                    "{guess:.40}: {status} {text}"
                );
                case.search("an answer", &text);
            }
        }
    }
    assert_eq!(mcp.prints("print(x)").await, "42\n");
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n45_pages_of_other_sites_and_other_names_are_refused() {
    let case = Case::begin(
        "N45",
        Severity::Lateral,
        "MCP by a page of another site, or by a name that was bound to the address (DNS rebinding)",
        "403 and 421 before the message is read",
    )
    .await;
    let hostile = case.hostile().await;
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://",
        "http://localhost@evil.example",
    ] {
        let request = send(&hostile, &initialize()).header("origin", origin);
        request.problem(403, "wrong_origin").await;
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "[::1",
        "",
    ] {
        let key = &hostile.key.text;
        let body = initialize().to_string();
        let text = case
            .world
            .raw(
                format!(
                    "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
                     accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                )
                .as_bytes(),
            )
            .await;
        let status = text.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "421"].contains(&status), "{host}: {text}");
    }
    assert_eq!(taken(&case.world, "connections").await, 0);
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n46_connections_are_bounded() {
    let case = Case::begin_with(
        options(|options| options.tenant_sessions = 5),
        "N46",
        Severity::PeerDos,
        "MCP: 40 times `initialize` at once, and no word after it",
        "as many connections as the tenant may have sessions, 429 for the rest; DELETE gives them back",
    )
    .await;
    let hostile = case.hostile().await;
    let tasks: Vec<_> = (0..40)
        .map(|_| tokio::spawn(send(&hostile, &initialize()).send()))
        .collect();
    let mut opened = Vec::new();
    for task in tasks {
        let response = task.await.unwrap().unwrap();
        match response.status().as_u16() {
            200 => {
                let id = response.headers()["mcp-session-id"].to_str().unwrap();
                opened.push(id.to_owned());
            }
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(opened.len(), 5);
    case.check_peer().await;
    for id in &opened {
        let request = hostile.delete("/mcp").header("mcp-session-id", id);
        request.with(204).await;
    }
    until_free(&case.world, "connections").await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n47_streams_that_nobody_reads_are_bounded() {
    let case = Case::begin_with(
        options(|options| options.tenant_streams = 3),
        "N47",
        Severity::PeerDos,
        "MCP: GET streams and calls with progress, opened and never read",
        "429 past the tenant's streams; the connection works on; all is free once hung up",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let connection = mcp.connection.clone().unwrap();
    let get = || {
        let get = hostile.get("/mcp").header("accept", "text/event-stream");
        get.header("mcp-session-id", &connection)
    };
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(get().with(200).await);
    }
    get().problem(429, "too_many_streams").await;
    let code = "import time\nfor i in range(8): print('x' * 10000, flush=True); time.sleep(0.05)";
    for id in 10..14 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": code}, "_meta": {"progressToken": id}
        }});
        unread.push(mcp.send(&call).with(200).await);
    }
    case.check_peer().await;
    assert!(!mcp.tools().await.is_empty());
    drop(unread);
    until_free(&case.world, "cells").await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n48_a_body_that_never_ends_is_given_up() {
    let case = Case::begin(
        "N48",
        Severity::PeerDos,
        "MCP: 50 messages whose bodies stop half-way, and connections that stay open",
        "408 within the time for a body, and their places are free",
    )
    .await;
    let hostile = case.hostile().await;
    let half = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n{{\"jsonrpc\": \"2.0\", ",
        case.world.address, hostile.key.text
    );
    let began = Instant::now();
    let all = (0..50).map(|_| case.world.raw(half.as_bytes()));
    let all = futures_util::future::join_all(all);
    let (answers, ()) = tokio::join!(all, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        case.check_peer().await;
    });
    for text in answers {
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    until_free(&case.world, "requests").await;
    case.end().await;
}

/// A connection whose client can ask a person, and a call that waits for one.
async fn waiting_call(mcp: &Mcp) -> (tokio::task::JoinHandle<Value>, Value) {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": "print('it ran')"}
    }});
    let mut response = mcp.send(&call).with(200).await;
    let mut text = String::new();
    let question = loop {
        let chunk = response.chunk().await.unwrap().expect("a question");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let messages = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = messages.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(found) = messages.find(|message| message["method"] == "elicitation/create") {
            break found;
        }
    };
    let rest = tokio::spawn(async move { answer(response).await });
    (rest, question)
}

#[tokio::test(flavor = "multi_thread")]
async fn n49_a_decision_of_somebody_else_counts_for_nothing() {
    let case = Case::begin_with(
        options(|options| options.runs.approvals = always()),
        "N49",
        Severity::Integrity,
        "MCP: another tenant, another key of the tenant and another connection of the key accept a question that waits",
        "the question waits on, and the code runs only once its own client accepts",
    )
    .await;
    let asks = json!({"elicitation": {}});
    let owner = case.world.client("owner").await;
    let mcp = Mcp::open_with(&owner, asks.clone()).await;
    let (rest, question) = waiting_call(&mcp).await;
    let forged = json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "action": "accept", "content": {"decision": "accept"}
    }});
    let connection = mcp.connection.clone().unwrap();
    for forger in [case.hostile().await, case.world.client("owner").await] {
        // Under the id of the connection, and on one of its own.
        let request = send(&forger, &forged).header("mcp-session-id", &connection);
        request.with(404).await;
        let own = Mcp::open_with(&forger, asks.clone()).await;
        own.send(&forged).send().await.unwrap();
    }
    let sibling = Mcp::open_with(&owner, asks).await;
    sibling.send(&forged).send().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!rest.is_finished(), "somebody else decided");
    let accepted = json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "action": "accept", "content": {"decision": "accept"}
    }});
    mcp.send(&accepted).with(202).await;
    let result = rest.await.unwrap();
    assert_eq!(
        result["result"]["structuredContent"]["stdout"]["text"], "it ran\n",
        "{result:#}"
    );
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n50_a_decision_can_not_be_sent_twice_or_for_another_call() {
    let case = Case::begin_with(
        options(|options| options.runs.approvals = always()),
        "N50",
        Severity::Integrity,
        "MCP without connections: the id of a question with other arguments, by another tenant, made up, and twice",
        "nothing runs; the id is good once, for the call that was asked about",
    )
    .await;
    let owner = case.world.client("owner").await;
    let call = async |client: &Client, code: &str, state: Option<&str>| {
        let mut params = json!({"name": "run_python", "arguments": {"code": code}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": crate::mcp_client::STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        }});
        if let Some(state) = state {
            params["requestState"] = json!(state);
            params["inputResponses"] =
                json!({"approval": {"action": "accept", "content": {"decision": "accept"}}});
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = Mcp::stateless(client).send(&message).send().await.unwrap();
        answer(response).await["result"].clone()
    };
    let asked = call(&owner, "print('first')", None).await;
    let state = asked["requestState"].as_str();
    let state = state.unwrap_or_else(|| panic!("{asked:#}")).to_owned();
    let hostile = case.hostile().await;
    for (client, code, state) in [
        (&hostile, "print('first')", state.as_str()),
        (&owner, "print('first')", "q-0000000000000000"),
        (&owner, "print('another')", state.as_str()),
        // It was good for one use, also where that was a wrong one.
        (&owner, "print('first')", state.as_str()),
    ] {
        let refused = call(client, code, Some(state)).await;
        let text = refused.to_string();
        assert!(
            refused["isError"] == true && !text.contains("stdout"),
            "{refused:#}"
        );
    }
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n51_cancelled_calls_give_their_places_back() {
    let case = Case::begin_with(
        options(|options| options.tenant_cells = 4),
        "N51",
        Severity::PeerDos,
        "MCP: calls that loop for ever, cancelled by the client, by hanging up, and by the id of another connection's call",
        "each ends, or continues if the id is another's; the permits for cells are free",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let other = Mcp::open(&hostile).await;
    let call = |id: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": "while True: pass"}
        }})
    };
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let running = mcp.send(&call(1)).with(200).await;
    while taken(&case.world, "cells").await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for id in 0..50 {
        other.send(&cancel(id)).with(202).await;
    }
    assert_eq!(
        taken(&case.world, "cells").await,
        1,
        "it was cancelled by another connection"
    );
    for _ in 0..50 {
        mcp.send(&cancel(1)).with(202).await;
    }
    until_free(&case.world, "cells").await;
    drop(running);
    // The session goes on.
    assert_eq!(mcp.prints("print(1)").await, "1\n");
    let request = hostile.delete("/mcp");
    let request = request.header("mcp-session-id", mcp.connection.clone().unwrap());
    let looping = mcp.send(&call(2)).with(200).await;
    while taken(&case.world, "cells").await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    request.with(204).await;
    until_free(&case.world, "cells").await;
    drop(looping);
    assert_eq!(
        hostile
            .request(Method::PUT, "/mcp")
            .send()
            .await
            .unwrap()
            .status(),
        405
    );
    case.end().await;
}
