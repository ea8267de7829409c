//! What clients and their sessions make the service hold, in a cgroup that has room for its bounds and not for more.
//! docs/operations.md has the table of these bounds.

use std::time::Duration;

use belljar_server::{Scope, ServerOptions};
use belljar_test_model::{Scripted, ScriptedModel};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::approvals::{offering, path, until};
use crate::harness::{Case, Severity};
use crate::mcp_client::Mcp;
use crate::small::Small;
use crate::support::{Ask as _, Client, options, soon};

/// Enough for the service, some sessions and all bounds; each case would need more without one of them.
const ROOM: u64 = 640 << 20;

/// Shows so many pictures of 6 MiB.
fn shows(count: usize) -> String {
    format!(
        "class Picture:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(6 << 20)\nfor _ in range({count}): display(Picture())"
    )
}

async fn begin(id: &'static str, attack: &'static str, expectation: &'static str) -> (Case, Small) {
    begin_with(options(|_| {}), id, attack, expectation).await
}

async fn begin_with(
    mut options: ServerOptions,
    id: &'static str,
    attack: &'static str,
    expectation: &'static str,
) -> (Case, Small) {
    let small = Small::enter(ROOM);
    options.session.limits.memory_bytes = 96 << 20;
    options.session.limits.wall_time = Duration::from_mins(1);
    options.creates_per_second = 100;
    let case = Case::begin_with(options, id, Severity::HostDos, attack, expectation).await;
    (case, small)
}

/// The case has held; its cgroup was used.
async fn end(case: Case, small: Small) {
    let peak = small.peak();
    assert!(
        (1..=ROOM).contains(&peak),
        "the service was not in it: {peak}"
    );
    case.end().await;
    drop(small);
}

/// A connection that takes little of what is sent to it, and on which these bytes were sent.
async fn unread(case: &Case, head: &str, body: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(case.world.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // It may be refused before it is sent.
    let _ = stream.write_all(body).await;
    stream
}

fn head(case: &Case, client: &Client, method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
        case.world.address, client.key.text
    )
}

async fn sessions(client: &Client, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(client.session().await);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn n42a_outcomes_that_nobody_reads() {
    let (case, small) = begin(
        "N42a",
        "16 cells with a picture of 6 MiB each, whose clients don't read the outcomes; a service with 640 MiB",
        "held up to the tenant's bytes; later outcomes have no displays and say so",
    )
    .await;
    let hostile = case.hostile().await;
    let sessions = sessions(&hostile, 4).await;
    let cell = json!({"code": shows(1)}).to_string();
    let mut open = Vec::new();
    for n in 0..16 {
        let path = format!("{}/cells", sessions[n % 4]);
        let head = head(&case, &hostile, "POST", &path, cell.len());
        open.push(unread(&case, &head, cell.as_bytes()).await);
    }
    // Once the cells before it have run, however long they take.
    soon(async || {
        let outcome = hostile.run(&sessions[0], &shows(1)).await;
        assert_eq!(outcome["status"], "success", "{outcome:#}");
        outcome["notes"].to_string().contains("displays")
    })
    .await;
    case.check_peer().await;
    let shown = case.peer.run(&case.peer_session, &shows(1)).await;
    assert_eq!(shown["displays"].as_array().map(Vec::len), Some(1));
    drop(open);
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_n42b_displays_of_many_cells_at_once() {
    let (case, small) = begin(
        "N42b",
        "six cells at once that hold three pictures of 6 MiB each; a service with 640 MiB",
        "as many displays as the host has memory for; the others are left out, which the outcome says",
    )
    .await;
    let hostile = case.hostile().await;
    let sessions = sessions(&hostile, 6).await;
    let code = format!("{}\nimport time; time.sleep(2)", shows(3));
    let mut lost = 0;
    let all = sessions.iter().map(|session| hostile.run(session, &code));
    for outcome in join_all(all).await {
        assert_eq!(outcome["status"], "success", "{outcome:.400}");
        let shown = outcome["displays"].as_array().map_or(0, Vec::len);
        lost += 3 - shown;
        let told = outcome["notes"].to_string().contains("displays");
        assert_eq!(shown < 3, told, "{}", outcome["notes"]);
    }
    assert!(lost > 0, "nothing was left out");
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_n42c_frames_that_do_not_end() {
    let (case, small) = begin(
        "N42c",
        "twelve sessions that send 30 of the 32 MiB of a frame to the host, and no more; a service with 640 MiB",
        "the host reads no further than its memory for frames goes; cells end by their time",
    )
    .await;
    let hostile = case.hostile().await;
    let sessions = sessions(&hostile, 12).await;
    let code = "import os, struct, time\nos.write(3, struct.pack('<II', 10, 32 << 20))\npiece = bytes(1 << 16)\nfor _ in range(30 * 16):\n    left = piece\n    while left: left = left[os.write(3, left):]\ntime.sleep(60)";
    let path = |session: &str| format!("{session}/cells");
    let all = sessions.iter().map(|session| {
        let body = json!({"code": code, "wall_time_ms": 6000});
        hostile.post(&path(session), body).json_with(200)
    });
    let (outcomes, ()) = tokio::join!(join_all(all), async {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            case.check_peer().await;
        }
    });
    for outcome in outcomes {
        assert_eq!(outcome["status"], "timeout", "{outcome:#}");
    }
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n43a_bodies_that_stop() {
    let (case, small) = begin(
        "N43a",
        "four tenants with sixteen bodies of JSON each, of which 7 of 8 MiB are sent; a service with 640 MiB",
        "held up to the bytes of each tenant and of all, 429 past them; another tenant's cell runs",
    )
    .await;
    let mut open = Vec::new();
    let piece = vec![b' '; 7 << 20];
    for tenant in ["one", "two", "three", "four"] {
        let hostile = case.world.client(tenant).await;
        let head = head(&case, &hostile, "POST", "/v1/sessions", 8 << 20);
        let all = (0..16).map(|_| unread(&case, &head, &piece));
        open.extend(join_all(all).await);
    }
    case.check_peer().await;
    drop(open);
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n43b_listings_with_long_paths() {
    let (case, small) = begin(
        "N43b",
        "5,000 files with paths of 3,800 bytes, listed 24 times at once and not read; a service with 640 MiB",
        "a listing ends at its bytes and says so; 429 past the tenant's bytes",
    )
    .await;
    let hostile = case.hostile().await;
    let session = hostile.session().await;
    let code = "import os\nfor _ in range(15):\n    os.mkdir('d' * 250); os.chdir('d' * 250)\nfor n in range(5000): open(f'{n}', 'w').close()\nprint(1)";
    assert_eq!(hostile.printed(&session, code).await, "1\n");
    let path = format!("{session}/files");
    let head = head(&case, &hostile, "GET", &path, 0);
    let all = (0..24).map(|_| unread(&case, &head, b""));
    let open = join_all(all).await;
    case.check_peer().await;
    drop(open);
    let mut listed: Value = Value::Null;
    for _ in 0..50 {
        let response = hostile.get(&path).send().await.unwrap();
        if response.status() == 200 {
            listed = response.json().await.unwrap();
            break;
        }
        assert_eq!(response.status(), 429);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(listed["truncated"], true, "{listed:.200}");
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_n52a_calls_with_long_code() {
    let (case, small) = begin(
        "N52a",
        "MCP: 60 calls with 3 MiB of code each that wait for a session; a service with 640 MiB",
        "as many as the tenant's bytes hold; 429 or a refusal in words for the others",
    )
    .await;
    let hostile = case.hostile().await;
    let mcp = Mcp::open(&hostile).await;
    let slow = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_python", "arguments": {"code": "import time; time.sleep(20)"}
    }});
    let slow = mcp.send(&slow).with(200).await;
    let code = format!("x = '{}'", "y".repeat(3 << 20));
    // All at once, so that the first ones still wait when the last one comes.
    let calls = (2..62).map(|id| {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": &code}
        }});
        mcp.send(&call).send()
    });
    let calls = futures_util::future::join_all(calls).await;
    let refused = calls.iter().flatten();
    let refused = refused.filter(|call| call.status() == 429).count();
    assert!(refused > 0, "all were taken");
    case.check_peer().await;
    drop((slow, calls));
    end(case, small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n43c_snapshots_with_long_headers() {
    let (case, small) = begin(
        "N43c",
        "eight sessions at once from a snapshot whose header has 12 MiB of sources; a service with 640 MiB",
        "headers are read as far as their memory goes and the others wait; all sessions start",
    )
    .await;
    let hostile = case.hostile().await;
    let session = hostile.session().await;
    for n in 0..3 {
        let code = format!("x{n} = {n}  # {}", "y".repeat(4_000_000));
        let outcome = hostile.run(&session, &code).await;
        assert_eq!(outcome["status"], "success", "{outcome:.400}");
    }
    let snapshot = hostile.get(&format!("{session}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    hostile.delete(&session).with(204).await;
    let all = (0..8).map(|_| {
        let load = hostile.request(reqwest::Method::POST, "/v1/sessions/from-snapshot");
        let load = load.header("content-type", "application/vnd.belljar.snapshot");
        load.body(snapshot.clone()).json_with(201)
    });
    let (loaded, ()) = tokio::join!(join_all(all), case.check_peer());
    for loaded in loaded {
        assert_eq!(loaded["cells"], 3, "{loaded:.400}");
        let path = format!("/v1/sessions/{}", loaded["id"].as_str().unwrap());
        assert_eq!(hostile.printed(&path, "print(x2)").await, "2\n");
    }
    end(case, small).await;
}

/// Four cells with a picture each, then an answer.
fn pictures() -> ScriptedModel {
    let cell = |n| format!("```python\n{}\nprint('shown', {n})\n```", shows(1));
    let cells = (0..4).map(|n| Scripted::text(cell(n)));
    let answer = Scripted::text("FINAL: all are shown.");
    ScriptedModel::start(cells.chain([answer])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn n43d_runs_that_nobody_reads() {
    let model = pictures();
    let (case, small) = begin_with(
        offering(&model),
        "N43d",
        "a run with four pictures of 6 MiB: its events, its steps and its page, asked for eight times each and not read; a service with 640 MiB",
        "so many are read at once as their memory goes, the others wait or get 429; another tenant's cell runs",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Sessions, Scope::Runs]).await;
    let asked = json!({"task": "Show.", "approvals": "never"});
    let run = path(&hostile.post("/v1/runs", asked).json_with(202).await);
    until(&hostile, &run, "answered").await;
    let mut open = Vec::new();
    for part in ["events", "steps", "export?format=html"] {
        let head = head(&case, &hostile, "GET", &format!("{run}/{part}"), 0);
        open.extend(join_all((0..8).map(|_| unread(&case, &head, b""))).await);
    }
    for _ in 0..5 {
        case.check_peer().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(open);
    end(case, small).await;
}
