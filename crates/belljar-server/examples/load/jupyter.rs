//! The same load on a Jupyter Kernel Gateway, as far as it can hold.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::latencies::Latencies;
use crate::processes;
use crate::scenarios::{BETWEEN, LOAD_PANDAS, SMALL};

/// How long a cell may take.
const PATIENCE: Duration = Duration::from_mins(1);

struct Gateway {
    child: Child,
    address: String,
    client: Client,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It ends its kernels when it is told to.
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Gateway {
    async fn start(program: &str) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new(program)
            .args([
                "--KernelGatewayApp.ip=127.0.0.1",
                "--JupyterWebsocketPersonality.list_kernels=True",
            ])
            .arg(format!("--KernelGatewayApp.port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let gateway = Self {
            child,
            address: format!("127.0.0.1:{port}"),
            client: Client::builder().no_proxy().build().unwrap(),
        };
        let url = format!("http://{}/api", gateway.address);
        while gateway.client.get(&url).send().await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
        gateway
    }

    async fn kernel(&self) -> Option<Kernel> {
        let url = format!("http://{}/api/kernels", self.address);
        let made = self.client.post(url).json(&json!({})).send().await.ok()?;
        let made: Value = made.json().await.ok()?;
        let url = format!(
            "ws://{}/api/kernels/{}/channels",
            self.address,
            made["id"].as_str()?
        );
        let (socket, _) = connect_async(url).await.ok()?;
        Some(Kernel { socket, cells: 0 })
    }
}

struct Kernel {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    cells: u64,
}

impl Kernel {
    /// Whether the cell was run, and without an error.
    async fn run(&mut self, code: &str) -> bool {
        self.cells += 1;
        let id = format!("cell-{}", self.cells);
        let message = json!({
            "header": {"msg_id": id, "msg_type": "execute_request", "username": "", "session": "load",
                "version": "5.3", "date": ""},
            "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": [],
            "content": {"code": code, "silent": false, "store_history": true, "user_expressions": {},
                "allow_stdin": false, "stop_on_error": true},
        });
        let done = async {
            self.socket
                .send(Message::text(message.to_string()))
                .await
                .ok()?;
            while let Some(Ok(message)) = self.socket.next().await {
                let Message::Text(text) = message else {
                    continue;
                };
                let said: Value = serde_json::from_str(&text).ok()?;
                if said["header"]["msg_type"] == "execute_reply"
                    && said["parent_header"]["msg_id"] == *id
                {
                    return (said["content"]["status"] == "ok").then_some(());
                }
            }
            None
        };
        matches!(timeout(PATIENCE, done).await, Ok(Some(())))
    }
}

/// Kernels with a cell every ten seconds each.
pub(crate) async fn hold(program: &str, kernels: u64, seconds: u64) {
    let gateway = Gateway::start(program).await;
    let began = Instant::now();
    let mut live = Vec::new();
    for chunk in (0..kernels).collect::<Vec<_>>().chunks(4) {
        let made = join_all(chunk.iter().map(async |_| {
            let mut kernel = gateway.kernel().await?;
            kernel.run(LOAD_PANDAS).await.then_some(kernel)
        }));
        live.extend(made.await.into_iter().flatten());
    }
    println!(
        "{} of {kernels} kernels are live after {:.0} s; {:?}; {:?}",
        live.len(),
        began.elapsed().as_secs_f64(),
        processes::size(gateway.child.id()),
        belljar_sandbox::HostMemory::now(),
    );
    let start = tokio::time::Instant::now() + Duration::from_secs(2);
    let count = u32::try_from(live.len().max(1)).unwrap();
    let held = join_all(live.iter_mut().zip(0_u32..).map(async |(kernel, n)| {
        let (mut latencies, mut errors) = (Latencies::default(), 0_usize);
        for round in 0..u32::try_from(seconds / BETWEEN.as_secs()).unwrap() {
            let due = start + BETWEEN * round + BETWEEN * n / count;
            sleep_until(due).await;
            if kernel.run(SMALL).await {
                latencies.add(due.elapsed());
            } else {
                errors += 1;
            }
        }
        (latencies, errors)
    }));
    let (mut all, mut errors) = (Latencies::default(), 0);
    for (latencies, failed) in held.await {
        all.extend(latencies);
        errors += failed;
    }
    all.line("a cell over the gateway, from when it was due");
    println!("errors: {errors}");
}
