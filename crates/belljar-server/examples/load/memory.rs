//! A service with 1 GiB of memory under every flood of bytes at once, and what another tenant sees of it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::fairness::{Seen, compare, look};
use crate::service::{Requests, Service};

/// What the service, its templates and its sessions have together.
const ROOM: u64 = 1 << 30;

/// Tenants that flood; the first tenant is looked at.
const HOSTILE: u64 = 3;

/// How long a client that does not read stays.
const UNREAD: Duration = Duration::from_secs(5);

/// Pictures of 6 MiB.
const DISPLAYS: &str = "class Picture:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(6 << 20)\nfor _ in range(3): display(Picture())";
const OUTPUT: &str = "for _ in range(80): print('x' * 65536)";
const FILES: &str = "import os\nos.makedirs('many', exist_ok=True)\nfor n in range(2000): open('many/' + 'n' * 200 + str(n), 'w').close()\nopen('large', 'wb').write(bytes(8 << 20))";

/// The cgroup that a service is started in, by the files of version 1 or 2.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    pub(crate) fn make() -> Self {
        let tops = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let limits = ["memory.limit_in_bytes", "memory.max"];
        for (top, limit) in tops.into_iter().zip(limits) {
            let _ = fs::write(
                format!("{top}/cgroup.subtree_control"),
                "+memory +pids +cpu",
            );
            let directory = PathBuf::from(top).join(format!("belljar-load-{}", std::process::id()));
            if fs::create_dir(&directory).is_ok() {
                if fs::write(directory.join(limit), ROOM.to_string()).is_ok() {
                    return Self(directory);
                }
                let _ = fs::remove_dir(&directory);
            }
        }
        panic!("no cgroup with a limit of memory can be made: run it as root");
    }

    pub(crate) fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    fn number(&self, names: [&str; 2], field: Option<&str>) -> u64 {
        let text = names
            .iter()
            .find_map(|name| fs::read_to_string(self.0.join(name)).ok());
        let text = text.unwrap_or_default();
        let text = match field {
            None => text.trim(),
            Some(field) => {
                let mut fields = text.lines().filter_map(|line| line.split_once(' '));
                fields
                    .find(|(name, _)| *name == field)
                    .map_or("0", |(_, value)| value)
            }
        };
        text.trim().parse().unwrap_or_default()
    }

    fn peak_mib(&self) -> u64 {
        self.number(["memory.max_usage_in_bytes", "memory.peak"], None) >> 20
    }

    /// Processes of the service's own cgroup that were killed for memory.
    fn kills(&self) -> u64 {
        self.number(["memory.oom_control", "memory.events"], Some("oom_kill"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What is below ends with the service, which takes a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Options of a service with so little memory: its sessions may take half of it.
pub(crate) const OPTIONS: [&str; 6] = [
    "--memory",
    "64",
    "--max-sessions",
    "8",
    "--tenant-sessions",
    "2",
];

/// Measures for a fifth of the time alone, and for the rest beside the flood. Whether all held.
pub(crate) async fn memory(service: &Service, cgroup: &Cgroup, seconds: u64) -> bool {
    let key = service.key(0);
    let mine = service.session(key).await;
    let (mut alone, mut flooded) = (Seen::default(), Seen::default());
    let time = Duration::from_secs(seconds);
    look(service, key, &mine, time / 5, &mut alone).await;
    let (before, before_kills) = (service.size(), cgroup.kills());
    let mut flood = Flood::begin(service);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut most = 0;
    let until = Instant::now() + time * 4 / 5;
    while Instant::now() < until {
        look(service, key, &mine, Duration::from_secs(2), &mut flooded).await;
        most = most.max(service.size().memory_mib);
    }
    flood.end();
    let alive = service.is_alive();
    let kills = cgroup.kills() - before_kills;
    println!("the service: {before:?} before, at most {most} MiB during the flood");
    println!(
        "its cgroup of {} MiB: at most {} MiB, {kills} processes of it killed",
        ROOM >> 20,
        cgroup.peak_mib()
    );
    println!("the same process answers: {alive}");
    let cells = compare("cells", &mut alone.cells, &mut flooded.cells);
    let starts = compare("sessions", &mut alone.starts, &mut flooded.starts);
    let held = alive && kills == 0 && cells <= 2.0 && starts <= 2.0;
    println!("{}", if held { "held" } else { "NOT HELD" });
    held
}

/// A process of its own, as that of `fairness`.
struct Flood(Child);

impl Flood {
    fn begin(service: &Requests) -> Self {
        let keys = (1..=HOSTILE).map(|n| service.key(n));
        let flood = Command::new("nice")
            .args(["-n", "19"])
            .arg(std::env::current_exe().unwrap())
            .args([service.url(), "memory-flood"])
            .args(keys)
            .spawn();
        Self(flood.unwrap())
    }

    /// Lets it print what it did.
    fn end(&mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How one kind of flood went.
#[derive(Default)]
struct Went {
    done: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Went {
    fn count(&self, status: Option<u16>) {
        let count = match status {
            Some(200..400) => &self.done,
            Some(_) => &self.refused,
            None => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends it, and reads the answer.
    async fn send(&self, request: RequestBuilder) -> Option<Vec<u8>> {
        let response = request.timeout(Duration::from_mins(1)).send().await.ok();
        self.count(response.as_ref().map(|response| response.status().as_u16()));
        let response = response.filter(|response| response.status().is_success())?;
        response.bytes().await.ok().map(Into::into)
    }
}

/// One who floods.
#[derive(Clone)]
struct Hostile {
    service: Requests,
    key: String,
    session: String,
}

const KINDS: [&str; 15] = [
    "large puts",
    "outputs",
    "displays",
    "idempotent answers",
    "unread outcomes",
    "unread files",
    "unread streams",
    "half heads",
    "half bodies",
    "snapshots down",
    "snapshots up",
    "archives",
    "listings",
    "MCP messages",
    "runs",
];

/// The flood itself, until it is told to end; then a table of it.
pub(crate) async fn flood(service: &Requests, keys: &[String]) {
    let went: Arc<[Went; KINDS.len()]> = Arc::default();
    let mut tasks = JoinSet::new();
    for key in keys {
        // One session computes, in the other are files.
        let (busy, files) = (service.session(key).await, service.session(key).await);
        service.cell(key, &files, FILES).await;
        for kind in 0..KINDS.len() {
            let went = Arc::clone(&went);
            let session = if (1..=4).contains(&kind) {
                &busy
            } else {
                &files
            };
            let hostile = Hostile {
                service: service.clone(),
                key: key.clone(),
                session: session.clone(),
            };
            tasks.spawn(async move {
                loop {
                    hostile.once(kind, &went[kind]).await;
                    // Refusals are heeded a little.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
    }
    let mut stop =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    stop.recv().await;
    tasks.abort_all();
    println!("| flood | done | refused | no answer |\n|---|---|---|---|");
    for (kind, went) in KINDS.iter().zip(went.iter()) {
        let [done, refused, failed] =
            [&went.done, &went.refused, &went.failed].map(|count| count.load(Ordering::Relaxed));
        println!("| {kind} | {done} | {refused} | {failed} |");
    }
}

impl Hostile {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.service.request(method, &self.key, path)
    }

    fn of_session(&self, method: Method, rest: &str) -> RequestBuilder {
        self.request(method, &format!("{}{rest}", self.session))
    }

    fn cell(&self, code: &str) -> RequestBuilder {
        let request = self.of_session(Method::POST, "/cells");
        request.json(&json!({ "code": code }))
    }

    async fn once(&self, kind: usize, went: &Went) {
        match KINDS[kind] {
            "large puts" => {
                let put = self
                    .of_session(Method::PUT, "/files/put")
                    .body(vec![0; 20 << 20]);
                went.send(put).await;
            }
            "outputs" => drop(went.send(self.cell(OUTPUT)).await),
            "displays" => drop(went.send(self.cell(DISPLAYS)).await),
            "idempotent answers" => {
                let name = format!("{:?}", Instant::now());
                went.send(self.cell(DISPLAYS).header("idempotency-key", name))
                    .await;
            }
            "unread outcomes" => {
                let body = json!({ "code": DISPLAYS }).to_string();
                let path = format!("{}/cells", self.session);
                self.unread(went, "POST", &path, body.len(), body.as_bytes(), 8)
                    .await;
            }
            "unread files" => {
                let path = format!("{}/files/large", self.session);
                self.unread(went, "GET", &path, 0, b"", 16).await;
            }
            "unread streams" => {
                let path = format!("{}/cells/1/events", self.session);
                self.unread(went, "GET", &path, 0, b"", 64).await;
            }
            "half heads" => {
                self.raw(went, b"GET / HTTP/1.1\r\nhost: x\r\nx-".to_vec(), 200)
                    .await;
            }
            "half bodies" => {
                let part = vec![b' '; 7 << 20];
                self.unread(went, "POST", "/v1/sessions", 8 << 20, &part, 8)
                    .await;
            }
            "snapshots down" => drop(went.send(self.of_session(Method::GET, "/snapshot")).await),
            "snapshots up" => {
                let snapshot = self.of_session(Method::GET, "/snapshot").send().await;
                let Ok(snapshot) = snapshot else { return };
                let Ok(bytes) = snapshot.bytes().await else {
                    return;
                };
                let load = self.request(Method::POST, "/v1/sessions/from-snapshot");
                let load = load.header("content-type", "application/vnd.belljar.snapshot");
                let made = went.send(load.body(bytes)).await;
                let made = made.and_then(|made| serde_json::from_slice::<Value>(&made).ok());
                let id = made.and_then(|made| {
                    let id = made["id"]
                        .as_str()
                        .or_else(|| made["session"]["id"].as_str());
                    id.map(str::to_owned)
                });
                if let Some(id) = id {
                    let path = format!("/v1/sessions/{id}");
                    let _ = self.request(Method::DELETE, &path).send().await;
                }
            }
            "archives" => drop(went.send(self.of_session(Method::GET, "/archive")).await),
            "listings" => {
                let path = format!("{}/files", self.session);
                self.unread(went, "GET", &path, 0, b"", 16).await;
            }
            "MCP messages" => self.mcp(went).await,
            _ => {
                let run = json!({ "task": "How far can you count? flood" });
                let run = self.request(Method::POST, "/v1/runs").json(&run);
                let made = went.send(run).await;
                let made = made.and_then(|made| serde_json::from_slice::<Value>(&made).ok());
                if let Some(id) = made.as_ref().and_then(|made| made["id"].as_str()) {
                    let path = format!("/v1/runs/{id}/events");
                    self.unread(went, "GET", &path, 0, b"", 4).await;
                    let _ = self
                        .request(Method::DELETE, &format!("/v1/runs/{id}"))
                        .send()
                        .await;
                }
            }
        }
    }

    async fn mcp(&self, went: &Went) {
        let post = |message: &Value| {
            let request = self.request(Method::POST, "/mcp").json(message);
            request.header("accept", "application/json, text/event-stream")
        };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}
        }});
        let Ok(opened) = post(&hello).send().await else {
            return;
        };
        let Some(id) = opened.headers().get("mcp-session-id").cloned() else {
            return went.count(Some(opened.status().as_u16()));
        };
        for n in 1..10 {
            let code = format!("x = '{}'", "y".repeat(3 << 20));
            let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {
                "name": "run_python", "arguments": {"code": code}
            }});
            went.send(post(&call).header("mcp-session-id", &id)).await;
        }
        let _ = self
            .request(Method::DELETE, "/mcp")
            .header("mcp-session-id", &id)
            .send()
            .await;
    }

    /// Sends a request on so many connections, whose answers are not read.
    async fn unread(
        &self,
        went: &Went,
        method: &str,
        path: &str,
        length: usize,
        body: &[u8],
        count: usize,
    ) {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
            self.address(), self.key
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.raw(went, bytes, count).await;
    }

    async fn raw(&self, went: &Went, bytes: Vec<u8>, count: usize) {
        let mut open = Vec::new();
        for _ in 0..count {
            let socket = TcpSocket::new_v4().unwrap();
            let _ = socket.set_recv_buffer_size(4096);
            let Ok(mut stream) = socket.connect(self.address().parse().unwrap()).await else {
                went.count(None);
                continue;
            };
            // It may be refused in the midst of it.
            let sent = tokio::time::timeout(UNREAD, stream.write_all(&bytes)).await;
            went.count(matches!(sent, Ok(Ok(()))).then_some(200));
            open.push(stream);
        }
        tokio::time::sleep(UNREAD).await;
    }

    fn address(&self) -> &str {
        self.service.url().trim_start_matches("http://")
    }
}
