//! A service of our own, its tenants, and requests to it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Once;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

const TENANTS: usize = 10;

pub(crate) struct Service {
    child: Child,
    directory: tempfile::TempDir,
    requests: Requests,
}

/// Requests to a service. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Requests {
    url: String,
    keys: Vec<String>,
    client: Client,
}

impl std::ops::Deref for Service {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

/// What came of a request.
pub(crate) enum Said {
    Done(Value),
    /// Refused with this status.
    No(StatusCode),
    /// It got no answer.
    Failed(String),
}

impl Service {
    pub(crate) fn start(binary: &str) -> Self {
        static TLS: Once = Once::new();
        TLS.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("service");
        let keys = (0..TENANTS).map(|n| {
            let made = Command::new(binary)
                .args(["keys", "create", "--scope", "sessions", "--tenant"])
                .arg(format!("tenant-{n}"))
                .arg("--data")
                .arg(&data)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        });
        let keys: Vec<String> = keys.collect();
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--max-sessions", "2000"])
            .args(["--tenant-sessions", "200", "--memory", "512"])
            .arg("--data")
            .arg(&data)
            .env("BELLJAR_LOG", "error")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, url) = line.split_once("listening on ")?;
                Some(url.trim_end_matches(']').to_owned())
            })
            .unwrap();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                println!("the service says: {line}");
            }
        });
        let client = Client::builder().no_proxy().build().unwrap();
        Self {
            child,
            directory,
            requests: Requests { url, keys, client },
        }
    }

    /// The same service, for tasks of their own.
    pub(crate) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Memory of the service's own process, in MiB, its open files, and all processes there are.
    pub(crate) fn size(&self) -> (u64, usize, usize) {
        let process = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        let count = |path: &str| std::fs::read_dir(path).map_or(0, Iterator::count);
        let is_process = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse::<u32>().ok()
        };
        let processes =
            std::fs::read_dir("/proc").map_or(0, |all| all.filter_map(is_process).count());
        (
            memory.unwrap_or(0) / 1024,
            count(&format!("{process}/fd")),
            processes,
        )
    }

    pub(crate) fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let ended = self.child.wait();
        println!("the service ended: {ended:?}");
        drop(self.directory);
    }
}

impl Requests {
    /// A key for each tenant in turn.
    pub(crate) fn key(&self, n: u64) -> &str {
        &self.keys[usize::try_from(n).unwrap() % TENANTS]
    }

    async fn post(&self, key: &str, path: &str, body: &Value) -> Said {
        let request = self.client.post(format!("{}{path}", self.url));
        let sent = request.bearer_auth(key).json(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => return Said::Failed(error.to_string()),
        };
        let status = response.status();
        match response.json().await {
            Ok(value) if status.is_success() => Said::Done(value),
            Ok(_) => Said::No(status),
            Err(error) => Said::Failed(error.to_string()),
        }
    }

    /// A session's path, once it is there; refusals are heeded.
    pub(crate) async fn session(&self, key: &str) -> String {
        loop {
            match self.post(key, "/v1/sessions", &json!({})).await {
                Said::Done(made) => {
                    return format!("/v1/sessions/{}", made["id"].as_str().unwrap());
                }
                Said::No(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
                Said::Failed(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn cell(&self, key: &str, session: &str, code: &str) -> Said {
        let path = format!("{session}/cells");
        self.post(key, &path, &json!({ "code": code })).await
    }
}
