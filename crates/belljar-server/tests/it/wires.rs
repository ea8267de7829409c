//! One address for all nodes of a cluster: each wire by way of a node that does not have the session.

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::commands::Terminal;
use crate::e2b::{control, sandbox};
use crate::jupyter_client::{Wire, ask as jupyter, kernel};
use crate::mcp_client::Mcp;
use crate::nodes::{BOTH, Cluster, node_id};
use crate::openai::{ask as openai, container, content, file_id, form, paths, respond, upload};
use crate::port_client::{ECHO, got, port};
use crate::postgres;
use crate::runs::{answer, code};
use crate::support::{Ask as _, Client};

const UNANSWERED: &str = "x-belljar-unanswered";

/// The sandboxes of a list, a page at a time, each from another node.
async fn sandboxes(clients: [&Client; 2], order: &str) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), String::new());
    for client in clients.into_iter().cycle() {
        let page = format!("/v2/sandboxes?limit=1&order={order}{token}");
        let page = control(client, "GET", &page).with(200).await;
        assert_eq!(page.headers().get(UNANSWERED), None);
        let next = page.headers().get("x-next-token").cloned();
        let page: Vec<Value> = page.json().await.unwrap();
        assert_eq!(page.len(), 1);
        all.push(page[0]["sandboxID"].as_str().unwrap().to_owned());
        match next {
            Some(next) => token = format!("&nextToken={}", next.to_str().unwrap()),
            None => return all,
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_sandbox_is_used_by_way_of_another_node() {
    let cluster = Cluster::new(postgres::database(), []).with(|options| options.e2b = true);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let mine = sandbox(&here).await;
    let there = mine.at(&other);
    there.ask("GET", "/health").with(204).await;
    // Streams, files, calls.
    assert_eq!(there.lines("x = 6 * 7\nx").await[1]["text"], "42");
    assert_eq!(mine.lines("x").await[1]["text"], "42");
    let file = "/files?path=/home/user/a.txt";
    let multipart = "multipart/form-data; boundary=b";
    let sent = there.ask("POST", file).header("content-type", multipart);
    sent.body(form("a.txt", "sent")).with(200).await;
    let got = there.ask("GET", file).with(200).await;
    assert_eq!(got.text().await.unwrap(), "sent");
    let stat = there.ask("POST", "/filesystem.Filesystem/Stat");
    let stat = stat.json(&json!({"path": "/home/user/a.txt"}));
    assert_eq!(stat.json_with(200).await["entry"]["name"], "a.txt");
    // A token of nobody is refused by the node that is asked; the sandbox need not exist.
    let wrong = there.bare("GET", "/health").header("x-access-token", "0");
    wrong.with(401).await;
    let signed = other.without_key(Method::GET, "/e2b/files?path=a&signature=v1_x");
    let refused = signed.json_with(401).await;
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("E2b-Sandbox-Id"), "{why}");

    let path = format!("/sandboxes/{}", mine.id);
    control(&stranger, "GET", &path).with(404).await;
    let shown = control(&other, "GET", &path).json_with(200).await;
    assert_eq!(shown["envdAccessToken"], mine.token);
    let timeout = control(&other, "POST", &format!("{path}/timeout"));
    timeout.json(&json!({"timeout": 900})).with(204).await;
    let connected = control(&other, "POST", &format!("/v2{path}/connect"));
    let connected = connected
        .json(&json!({"timeout": 900}))
        .json_with(200)
        .await;
    assert_eq!(connected["envdAccessToken"], mine.token);

    let (second, third) = (sandbox(&other).await, sandbox(&here).await);
    let mut all = sandboxes([&here, &other], "asc").await;
    assert_eq!(sandboxes([&other, &here], "asc").await, all);
    let mut newest_first = sandboxes([&here, &other], "desc").await;
    newest_first.reverse();
    assert_eq!(newest_first, all);
    all.sort();
    let mut made = [&mine.id, &second.id, &third.id].map(String::clone);
    made.sort();
    assert_eq!(all, made);

    control(&other, "DELETE", &path).with(204).await;
    for client in [&here, &other] {
        control(client, "GET", &path).with(404).await;
        let gone = mine.at(client).ask("GET", "/health").json_with(502).await;
        assert!(
            gone["message"].as_str().unwrap().contains("not found"),
            "{gone}"
        );
    }
    let node = node_id(&one);
    third.lines("x = 5").await;
    let silent = cluster.silence(&one).await;
    let listed = control(&other, "GET", "/v2/sandboxes").with(200).await;
    assert_eq!(listed.headers()[UNANSWERED], node.as_str());
    let listed: Value = listed.json().await.unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    drop(silent);
    let lost = third.at(&other).ask("GET", "/health").json_with(503).await;
    assert!(lost["message"].as_str().unwrap().contains(&node), "{lost}");
    let path = format!("/sandboxes/{}", third.id);
    control(&other, "GET", &path).with(503).await;
    // The other node continues the sessions of a node that stops.
    one.ends().await;
    assert_eq!(third.at(&other).lines("x + 1").await[1]["text"], "6");
    let listed = control(&other, "GET", "/v2/sandboxes").with(200).await;
    assert_eq!(listed.headers().get(UNANSWERED), None);
    let listed: Value = listed.json().await.unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    two.ends().await;
}

#[tokio::test]
async fn a_kernel_is_used_by_way_of_another_node() {
    let cluster = Cluster::new(postgres::database(), []).with(|options| options.jupyter = true);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let id = kernel(&here).await;
    assert!(id.starts_with(&node_id(&one)), "{id}");
    let path = format!("/api/kernels/{id}");
    let shown = jupyter(&other, "GET", &path).json_with(200).await;
    assert_eq!(shown["id"], id.as_str());
    jupyter(&stranger, "GET", &path).with(404).await;
    // Each way to bring a key, and each form of messages.
    let mut wire = Wire::open(&two, &other, &id).await;
    assert_eq!(wire.run("x = 6 * 7\nx").await.value(), "42");
    let mut v1 = Wire::open_v1(&two, &other, &id, "v1").await;
    assert_eq!(v1.run("x + 1").await.value(), "43");
    let by_path = format!("/token/{}{path}/channels", other.key.text);
    let mut by_path = Wire::connect(&two, &by_path, &[]).await.unwrap();
    assert_eq!(by_path.run("x + 2").await.value(), "44");
    let second = kernel(&other).await;
    let mut lists = Vec::new();
    for client in [&here, &other] {
        let listed = jupyter(client, "GET", "/api/kernels").json_with(200).await;
        let ids = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].to_string());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        lists.push(ids);
        let status = jupyter(client, "GET", "/api/status").json_with(200).await;
        assert_eq!(
            (&status["kernels"], &status["connections"]),
            (&json!(2), &json!(3))
        );
    }
    let mut both = [&id, &second].map(|id| json!(id).to_string());
    both.sort();
    assert_eq!(lists, [both.clone(), both]);
    jupyter(&other, "POST", &format!("{path}/interrupt"))
        .with(204)
        .await;
    drop((wire, v1, by_path));

    // Notebooks: a kernel of another node is taken there, and a path has one kernel.
    let asked = json!({"path": "a.ipynb", "type": "notebook", "kernel": {"id": id}});
    let made = jupyter(&other, "POST", "/api/sessions").json(&asked);
    let made = made.json_with(201).await;
    assert_eq!(made["kernel"]["id"], id.as_str());
    let same = json!({"path": "a.ipynb", "kernel": {"name": "python3"}});
    for client in [&here, &other] {
        let again = jupyter(client, "POST", "/api/sessions").json(&same);
        let again = again.json_with(201).await;
        assert_eq!(
            (&again["id"], &again["kernel"]["id"]),
            (&made["id"], &made["kernel"]["id"])
        );
        let listed = jupyter(client, "GET", "/api/sessions").json_with(200).await;
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    }
    let notebook = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    let renamed = jupyter(&other, "PATCH", &notebook).json(&json!({"path": "b.ipynb"}));
    assert_eq!(renamed.json_with(200).await["path"], "b.ipynb");
    let moved = json!({"kernel": {"id": second}});
    for client in [&here, &other] {
        let refused = jupyter(client, "PATCH", &notebook).json(&moved);
        let refused = refused.json_with(400).await;
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .contains("another node"),
            "{refused}"
        );
    }
    jupyter(&other, "DELETE", &notebook).with(204).await;
    jupyter(&here, "GET", &path).with(404).await;

    let lost = kernel(&here).await;
    let mut wire = Wire::open(&one, &here, &lost).await;
    assert_eq!(wire.run("x = 5\nx").await.value(), "5");
    let node = node_id(&one);
    let silent = cluster.silence(&one).await;
    let listed = jupyter(&other, "GET", "/api/kernels").with(200).await;
    assert_eq!(listed.headers()[UNANSWERED], node.as_str());
    drop(silent);
    let path = format!("/api/kernels/{lost}");
    let refused = jupyter(&other, "GET", &path).json_with(503).await;
    assert_eq!(refused["reason"], "node_lost");
    drop(wire);
    one.ends().await;
    let shown = jupyter(&other, "GET", &path).json_with(200).await;
    assert_eq!(shown["id"], lost.as_str());
    let mut wire = Wire::open(&two, &other, &lost).await;
    assert_eq!(wire.run("x + 1").await.value(), "6");
    drop(wire);
    two.ends().await;
}

#[tokio::test]
async fn containers_and_responses_are_used_by_way_of_another_node() {
    let script = [
        code(
            "open('sum.txt', 'w').write(str(6 * int(open('/mnt/data/n.txt').read())))\nprint(6 * 7)",
        ),
        answer("It is 42, see sum.txt."),
        code("import time\nprint('begun')\ntime.sleep(600)"),
    ];
    let cluster = Cluster::new(postgres::database(), script);
    let cluster = cluster.with(|options| options.openai = true);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let id = container(&here).await;
    let path = format!("/containers/{id}");
    openai(&stranger, "GET", &path).with(404).await;
    openai(&other, "GET", &path).with(200).await;
    upload(&other, &id, form("n.txt", "7")).with(200).await;
    assert_eq!(paths(&here, &id).await, ["/mnt/data/n.txt"]);
    assert_eq!(content(&other, &id, &file_id("n.txt")).await, "7");
    // The run has the files of the container, and the container those of the run.
    let tools = json!([{"type": "code_interpreter", "container": id}]);
    let response = respond(&other, &json!({"tools": tools}))
        .json_with(200)
        .await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(content(&other, &id, &file_id("sum.txt")).await, "42");

    let second = container(&other).await;
    let ids = async |client: &Client, query: &str| {
        let listed = openai(client, "GET", &format!("/containers?order=asc{query}"));
        let listed = listed.json_with(200).await;
        let all = listed["data"].as_array().unwrap().iter();
        let ids = all.map(|one| one["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), listed["has_more"] == true)
    };
    let (all, _) = ids(&other, "").await;
    assert_eq!(ids(&here, "").await, (all.clone(), false));
    let mut made = [id.clone(), second];
    made.sort();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(sorted, made);
    for client in [&here, &other] {
        assert_eq!(ids(client, "&limit=1").await, (vec![all[0].clone()], true));
        let rest = format!("&limit=1&after={}", all[0]);
        assert_eq!(ids(client, &rest).await, (vec![all[1].clone()], false));
    }

    // The node that drives a run cancels it.
    let response = respond(&here, &json!({"background": true}))
        .json_with(200)
        .await;
    let cancel = format!("/responses/{}/cancel", response["id"].as_str().unwrap());
    openai(&stranger, "POST", &cancel).with(404).await;
    let cancelled = openai(&other, "POST", &cancel).json_with(200).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");

    openai(&other, "DELETE", &path).with(200).await;
    openai(&here, "GET", &path).with(404).await;
    let lost = container(&here).await;
    upload(&here, &lost, form("n.txt", "7")).with(200).await;
    let node = node_id(&one);
    let silent = cluster.silence(&one).await;
    let listed = openai(&other, "GET", "/containers").with(200).await;
    assert_eq!(listed.headers()[UNANSWERED], node.as_str());
    drop(silent);
    let path = format!("/containers/{lost}");
    let refused = openai(&other, "GET", &path).json_with(503).await;
    assert_eq!(refused["error"]["code"], "node_lost");
    one.ends().await;
    assert_eq!(content(&other, &lost, &file_id("n.txt")).await, "7");
    two.ends().await;
}

#[tokio::test]
async fn a_connection_of_mcp_is_used_by_way_of_another_node() {
    let cluster = Cluster::new(postgres::database(), []);
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let opened = Mcp::open(&here).await;
    let by_way_of = |client: &Client| Mcp {
        client: client.clone(),
        connection: opened.connection.clone(),
    };
    let there = by_way_of(&other);
    assert_eq!(there.prints("x = 20\nprint(x + 1)").await, "21\n");
    assert_eq!(opened.prints("print(x)").await, "20\n");
    let listing = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"});
    by_way_of(&stranger).send(&listing).with(404).await;
    let id = opened.connection.clone().unwrap();
    let stream = other.get("/mcp").header("accept", "text/event-stream");
    let stream = stream.header("mcp-session-id", &id).with(200).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    drop(stream);
    let close = other.delete("/mcp").header("mcp-session-id", &id);
    close.with(204).await;
    opened.send(&listing).with(404).await;
    // That of a lost node is gone, and its client opens another one.
    let lost = Mcp::open(&here).await;
    one.ends().await;
    let lost = Mcp {
        client: other.clone(),
        connection: lost.connection,
    };
    lost.send(&listing).with(404).await;
    assert_eq!(Mcp::open(&other).await.prints("print(1)").await, "1\n");
    two.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_and_terminals_are_reached_by_way_of_another_node() {
    let cluster = Cluster::new(postgres::database(), []);
    let cluster = cluster.with(|options| options.ports_domain = Some("localhost".to_owned()));
    let (one, two, here, other) = cluster.two().await;
    let stranger = two.client_with("b", &BOTH).await;
    let session = here.session().await;
    here.printed(&session, ECHO).await;
    // Made by one node, or by way of the other.
    let direct = port(&one, &here, &session, 8000).await.at(&two);
    let port = port(&two, &other, &session, 8000).await;
    for port in [&direct, &port] {
        let sent = port.ask(Method::PUT, "/a?b=1").body("abc");
        let seen = sent.json_with(200).await;
        assert_eq!(
            (&seen["path"], &seen["bytes"]),
            (&json!("/a?b=1"), &json!(3))
        );
        assert_eq!(got(&seen, "x-belljar-node"), Vec::<&str>::new());
        assert_eq!(got(&seen, "x-belljar-port-token"), Vec::<&str>::new());
        assert_eq!(got(&seen, "host"), [&port.host]);
    }
    let by_key = port.get("/").bearer_auth(&other.key.text);
    let answer = by_key.with(200).await;
    assert_eq!(answer.headers().get("content-security-policy"), None);
    let others_key = port.get("/").bearer_auth(&stranger.key.text);
    others_key.problem(404, "session_not_found").await;
    let forged = port.get("/").header("x-belljar-port-token", "1.k.0");
    forged.problem(401, "unauthorized").await;
    // A browser: the link, its cookie, and a WebSocket.
    let cookie = direct.cookie().await;
    let page = port.get("/page").header("cookie", &cookie);
    let page = page.header("sec-fetch-site", "none").json_with(200).await;
    assert_eq!(page["path"], "/page");
    let headers = [("x-belljar-port-token", port.token.as_str())];
    let (mut socket, _) = port.socket(&headers).await.unwrap();
    socket.send(Message::text("over both")).await.unwrap();
    let heard = socket.next().await.unwrap().unwrap();
    assert_eq!(heard, Message::text("OVER BOTH"));
    drop(socket);

    let shell = json!({"argv": ["/bin/sh"], "terminal": {"rows": 30, "columns": 100}});
    let shell = other.background(&session, shell).await;
    let mut terminal = Terminal::open(&two, &other, &shell).await;
    terminal.press("stty size\n").await;
    terminal.until("30 100\r\n").await;
    drop(terminal);

    drop(cluster.silence(&one).await);
    let lost = port.get("/").bearer_auth(&other.key.text);
    lost.problem(503, "node_lost").await;
    // The other node continues the session, without the program on its port.
    one.ends().await;
    let closed = port.get("/").bearer_auth(&other.key.text);
    closed.problem(502, "port_closed").await;
    two.ends().await;
}
