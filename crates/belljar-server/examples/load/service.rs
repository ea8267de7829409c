//! A service of our own, its tenants, and requests to it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::memory::{Cgroup, OPTIONS};
use crate::processes;

const TENANTS: usize = 10;

pub(crate) struct Service {
    child: Child,
    binary: String,
    arguments: Vec<String>,
    model: String,
    /// Removed once the service is gone.
    _directory: tempfile::TempDir,
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
    /// A service with its own directory, on a port that stays the same when it is started again.
    pub(crate) fn start(
        binary: &str,
        environment: &str,
        model: &str,
        cgroup: Option<&Cgroup>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("service");
        let keys = (0..TENANTS).map(|n| {
            let made = Command::new(binary)
                .args(["keys", "create", "--scope", "sessions", "--scope", "runs"])
                .arg(format!("--tenant=tenant-{n}"))
                .arg("--data")
                .arg(&data)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        });
        let keys: Vec<String> = keys.collect();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let usual = [
            "--max-sessions",
            "2000",
            "--tenant-sessions",
            "200",
            "--memory",
            "512",
        ];
        let arguments = ["serve", "--listen", &address]
            .into_iter()
            .chain(cgroup.map_or(usual, |_| OPTIONS))
            .chain(["--data", data.to_str().unwrap()])
            .chain(["--model", "llamacpp/scripted", "--env", environment])
            .map(str::to_owned);
        let arguments: Vec<String> = arguments.collect();
        Self {
            child: launch(binary, &arguments, model, cgroup),
            model: model.to_owned(),
            binary: binary.to_owned(),
            arguments,
            _directory: directory,
            requests: Requests::to(format!("http://{address}"), keys),
        }
    }

    /// Kills it; whether nothing of it is left soon after.
    pub(crate) fn kill(&mut self) -> bool {
        let descendants = processes::descendants(self.child.id());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = descendants.iter().filter(|process| process.is_alive());
            if left.count() == 0 {
                return true;
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn start_again(&mut self) {
        self.child = launch(&self.binary, &self.arguments, &self.model, None);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process that was started still answers.
    pub(crate) fn is_alive(&self) -> bool {
        let name = std::fs::read_to_string(format!("/proc/{}/stat", self.id()));
        name.is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// The same service, for tasks of their own.
    pub(crate) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    pub(crate) fn size(&self) -> processes::Size {
        processes::size(self.child.id())
    }

    pub(crate) fn stop(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let ended = self.child.wait();
        println!("the service ended: {ended:?}");
    }
}

impl Drop for Service {
    /// Also where an expectation fails.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it, and waits until it listens.
fn launch(binary: &str, arguments: &[String], model: &str, cgroup: Option<&Cgroup>) -> Child {
    // The shell joins the cgroup, and becomes the service.
    let script = match cgroup {
        Some(cgroup) => format!("echo $$ > {} && exec \"$@\"", cgroup.processes().display()),
        None => "exec \"$@\"".to_owned(),
    };
    let mut child = Command::new("sh")
        .args(["-c", &script, "sh", binary])
        .args(arguments)
        .env("BELLJAR_LOG", "error")
        .env("BELLJAR_BASE_URL", model)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = lines
        .by_ref()
        .map_while(Result::ok)
        .inspect(|line| println!("the service says: {line}"));
    assert!(
        said.any(|line| line.contains("listening")),
        "the service did not start"
    );
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            println!("the service says: {line}");
        }
    });
    child
}

impl Requests {
    pub(crate) fn to(url: String, keys: Vec<String>) -> Self {
        let client = Client::builder().no_proxy().build().unwrap();
        Self { url, keys, client }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A key for each tenant in turn.
    pub(crate) fn key(&self, n: u64) -> &str {
        &self.keys[usize::try_from(n).unwrap() % TENANTS]
    }

    pub(crate) fn request(&self, method: Method, key: &str, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request.bearer_auth(key)
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: &Value) -> Said {
        Self::send(self.request(Method::POST, key, path).json(body)).await
    }

    pub(crate) async fn send(request: RequestBuilder) -> Said {
        let response = match request.send().await {
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
