//! Nodes of a cluster, each a process, and what they share.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::Signal;
use serde_json::Value;

use crate::postgres;
use crate::serve::{ask_with, body, start, stop, text_of};
use crate::support::{BELLJAR, Scratch, bare};
use crate::weed;

/// What all nodes of a test share.
pub(crate) struct Cluster {
    pub(crate) database: String,
    pub(crate) objects: String,
    pub(crate) model: ScriptedModel,
    /// Of each node, besides those that it needs.
    pub(crate) options: Vec<String>,
}

pub(crate) struct RunningNode {
    pub(crate) child: KilledChild,
    scratch: Scratch,
    _stderr: BufReader<ChildStderr>,
    pub(crate) address: String,
}

/// A process that does not outlive its test, also where this panics.
pub(crate) struct KilledChild(Option<Child>);

impl KilledChild {
    fn get(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.get().kill().unwrap();
    }

    pub(crate) fn wait(&mut self) {
        self.get().wait().unwrap();
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    pub(crate) fn new(script: impl IntoIterator<Item = Scripted>) -> Self {
        Self::on(postgres::database(), script)
    }

    pub(crate) fn on(database: String, script: impl IntoIterator<Item = Scripted>) -> Self {
        Self {
            database,
            objects: weed::address(&weed::prefix(), weed::port()),
            model: ScriptedModel::start(script).unwrap(),
            options: Vec::new(),
        }
    }

    pub(crate) fn command(&self, scratch: &Scratch) -> Command {
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("AWS_ACCESS_KEY_ID", weed::KEY.0)
            .env("AWS_SECRET_ACCESS_KEY", weed::KEY.1)
            .env("BELLJAR_BASE_URL", self.model.base_url())
            .args(["serve", "--env", bare(), "--data", "service"])
            .args(["--model", "llamacpp/scripted"])
            .args(&self.options);
        command
    }

    /// Starts a node, which listens where no other does.
    pub(crate) fn node(&self) -> RunningNode {
        self.node_in(Scratch::new())
    }

    /// Starts a node with what an earlier start of it has left.
    pub(crate) fn node_in(&self, scratch: Scratch) -> RunningNode {
        self.node_with(scratch, |_| {})
    }

    /// Starts a node whose command is changed.
    pub(crate) fn node_with(
        &self,
        scratch: Scratch,
        change: impl FnOnce(&mut Command),
    ) -> RunningNode {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = self.command(&scratch);
        command.args(["--listen", &address, "--database", &self.database]);
        command.args(["--objects", &self.objects]);
        change(&mut command);
        let (child, stderr, address) = start(command);
        RunningNode {
            child: KilledChild(Some(child)),
            scratch,
            _stderr: stderr,
            address,
        }
    }
}

impl RunningNode {
    /// Stops it in order.
    pub(crate) fn stop(mut self) -> Scratch {
        let child = self.child.0.take().unwrap();
        stop(&self.scratch, child, Signal::TERM).exits_with(0);
        self.scratch
    }

    /// Ends it as a crash does.
    pub(crate) fn crash(mut self) -> Scratch {
        self.child.kill();
        self.child.wait();
        self.scratch
    }

    /// The key that the first node of a cluster prints.
    pub(crate) fn key(&mut self) -> String {
        let mut key = String::new();
        let stdout = self.child.get().stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut key).unwrap();
        assert!(key.starts_with("bj_"), "{key}");
        key.trim().to_owned()
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> String {
        ask_with(&self.address, key, "GET", path, "")
    }

    pub(crate) fn start_run(&self, key: &str) -> String {
        let task = r#"{"task": "What is six times seven?"}"#;
        let made = ask_with(&self.address, key, "POST", "/v1/runs", task);
        assert!(made.starts_with("HTTP/1.1 202 "), "{made}");
        format!("/v1/runs/{}", text_of(body(&made), "id"))
    }

    /// The whole stream of a run, read in a thread until it ends.
    pub(crate) fn stream(&self, key: &str, run: &str) -> JoinHandle<Vec<(u64, Value)>> {
        let (address, key, path) = (
            self.address.clone(),
            key.to_owned(),
            format!("{run}/events"),
        );
        std::thread::spawn(move || events(&ask_with(&address, &key, "GET", &path, "")))
    }

    /// Waits until a run has an event that is so.
    pub(crate) fn until(&self, key: &str, run: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
        let begin = Instant::now();
        loop {
            let shown = self.get(key, run);
            let view: Value = serde_json::from_str(body(&shown)).unwrap();
            if is_so(&view) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_mins(1), "{what}: {view:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The numbered events of a stream.
pub(crate) fn events(stream: &str) -> Vec<(u64, Value)> {
    // The chunks of the transfer are cut anywhere between events.
    let lines = stream.lines();
    let (mut all, mut id) = (Vec::new(), None);
    for line in lines {
        if let Some(number) = line.strip_prefix("id: ") {
            id = Some(number.parse().unwrap());
        } else if let Some(data) = line.strip_prefix("data: ")
            && let Some(id) = id.take()
        {
            all.push((id, serde_json::from_str(data).unwrap()));
        }
    }
    all
}
