//! The nodes of a campaign, what they share, and what is done to them.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};

use super::random::Random;
use super::{Fault, Plan, clients, database_proxy};
use crate::clock::{Clock, Set};
use crate::postgres::{self, Server};
use crate::run::code;
use crate::support::{Scratch, bare, eventually};
use crate::weed;
use crate::weed::proxy::Network as Wire;

const NODES: usize = 3;
/// Nodes that have a fault at the same time.
const FAULTY: usize = 2;
/// Cells of a run.
const CELLS: usize = 5;
/// Longer than the lease of a node.
const STOP: Duration = Duration::from_secs(7);

fn now() -> i64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    i64::try_from(now).unwrap()
}

/// Counts up, cell by cell.
fn model(thinks: Duration) -> ScriptedModel {
    ScriptedModel::react(move |request| {
        let request = request.json();
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let cells = messages.iter().filter(|message| {
            let text = message["content"].as_str().unwrap_or_default();
            message["role"] == "assistant" && text.contains("globals().get('n'")
        });
        let step = cells.count() + 1;
        let reply = if step > CELLS {
            Scripted::text("FINAL: It is done.")
        } else {
            code(&format!(
                "step = {step}\nn = globals().get('n', 0) + 1\nprint('n', n)"
            ))
        };
        reply.slow_first_byte(thinks)
    })
    .unwrap()
}

/// Nodes, what they share, and the ways between them.
pub(super) struct Cluster {
    pub(super) members: Vec<Arc<Member>>,
    server: Option<Server>,
    store: Arc<weed::proxy::Proxy>,
    /// Of the proxies.
    _runtime: tokio::runtime::Runtime,
    _model: ScriptedModel,
}

/// A node: its process, its ways, its clock and its disk.
pub(super) struct Member {
    number: usize,
    scratch: Scratch,
    listens: SocketAddr,
    /// Its way to the database.
    database: database_proxy::Proxy,
    /// The way of the others to it.
    peers: weed::proxy::Proxy,
    arguments: Vec<String>,
    model: String,
    /// One of them has a clock that jumps.
    clock: Option<Clock>,
    /// Its data directory is a file system of its own.
    has_disk: bool,
    process: Mutex<Process>,
    exits: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Process {
    program: &'static str,
    child: Option<Child>,
    /// It was ended on purpose, and is to stay so.
    is_down: bool,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    fn start(&self) {
        self.start_in(&mut lock(&self.process));
    }

    fn start_in(&self, process: &mut Process) {
        let mut command = self.scratch.prepare(process.program);
        let log = |name: &str| {
            let path = self.scratch.path(name);
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .unwrap()
        };
        command
            .env("AWS_ACCESS_KEY_ID", weed::KEY.0)
            .env("AWS_SECRET_ACCESS_KEY", weed::KEY.1)
            .env("BELLJAR_BASE_URL", &self.model)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log("stdout"))
            .stderr(log("stderr"));
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command, Set::Wall);
        }
        process.child = Some(command.spawn().unwrap());
        process.is_down = false;
    }

    /// A node listens before it serves.
    fn until_it_serves(&self) {
        self.until("the node serves", || {
            clients::ask(self.listens, "", "GET", "/v1/me", &[], "").is_ok()
        });
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            let is_late = begin.elapsed() > Duration::from_mins(1);
            assert!(!is_late, "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Empties the node while it drives a run, stops it in order, and starts it as this program.
    fn upgrade(&self, program: &'static str, server: &Server) {
        let database = &server.address("cluster");
        let address = format!("http://127.0.0.1:{}", self.peers.port);
        // After its first cell.
        let runs = format!(
            "SELECT count(*) FROM belljar.runs r JOIN belljar.lives l USING (life) \
             WHERE l.address = '{address}' AND r.state = 'driven' AND r.last_seq >= 6"
        );
        self.until("the node has a run", || server.sql("cluster", &runs) != "0");
        let mut drain = self.scratch.prepare(lock(&self.process).program);
        drain.args([
            "cluster",
            "drain",
            &address,
            "--wait",
            "--database",
            database,
        ]);
        let drained = drain.output().unwrap();
        assert!(drained.status.success(), "{drained:?}");
        let mut process = lock(&self.process);
        let mut child = process.child.take().unwrap();
        postgres::signal("-TERM", &child.id().to_string());
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        process.program = program;
        self.start_in(&mut process);
        drop(process);
        self.until_it_serves();
    }

    fn kill(&self) {
        let mut process = lock(&self.process);
        process.is_down = true;
        if let Some(mut child) = process.child.take() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&self, signal: &str) {
        if let Some(child) = &lock(&self.process).child {
            postgres::signal(signal, &child.id().to_string());
        }
    }

    /// Starts it again if it has ended by itself, as a supervisor does.
    pub(super) fn supervise(&self) {
        let mut process = lock(&self.process);
        let ended = process
            .child
            .as_mut()
            .and_then(|child| child.try_wait().unwrap());
        if let Some(status) = ended.filter(|_| !process.is_down) {
            lock(&self.exits).push(format!("{}: {status}", self.number));
            self.start_in(&mut process);
        }
    }

    pub(super) fn listens(&self) -> SocketAddr {
        self.listens
    }

    /// How it ended when nobody had ended it.
    pub(super) fn exits(&self) -> Vec<String> {
        lock(&self.exits).clone()
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.scratch.path("stderr")).unwrap_or_default()
    }

    /// How often it lost its lease, or a run to it.
    pub(super) fn lost_leases(&self) -> usize {
        let of_lease = [
            "the lease of this node has expired",
            "joined the cluster again",
        ];
        let said = self.stderr();
        let lines = said.lines();
        lines
            .filter(|line| of_lease.iter().any(|text| line.contains(text)))
            .count()
    }

    /// The last lines of what it said.
    pub(super) fn said(&self) -> String {
        let said = self.stderr();
        let skipped = said.lines().count().saturating_sub(30);
        said.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    fn fail(&self, name: &str, time: Duration, offset: &str) {
        use database_proxy::Network;
        match name {
            "kill" => {
                self.kill();
                std::thread::sleep(time);
                self.start();
            }
            "stop" => {
                self.signal("-STOP");
                std::thread::sleep(STOP + time);
                self.signal("-CONT");
            }
            "database away" => {
                self.database.set(Network::Stalls);
                std::thread::sleep(time);
                self.database.reset();
            }
            "database slow" => {
                self.database.set(Network::Slow(Duration::from_millis(100)));
                std::thread::sleep(time);
                self.database.set(Network::Works);
            }
            "answers lost" => {
                self.database.set(Network::LosesAnswers);
                std::thread::sleep(time / 3);
                self.database.reset();
            }
            "requests lost" => {
                self.database.set(Network::LosesRequests);
                std::thread::sleep(time / 3);
                self.database.reset();
            }
            "out of reach" => {
                self.peers.set(Wire::Stalls);
                std::thread::sleep(time);
                self.peers.set(Wire::Works);
            }
            "unreachable" => {
                self.peers.set(Wire::Gone);
                std::thread::sleep(time);
                self.peers.set(Wire::Works);
            }
            "clock" => {
                self.clock.as_ref().unwrap().set(offset);
                std::thread::sleep(time);
            }
            "disk full" => {
                let full = self.scratch.path("service").join("filler");
                // To the last byte; then there is an error.
                let mut zeros = File::open("/dev/zero").unwrap();
                let mut file = File::create(&full).unwrap();
                let _ = std::io::copy(&mut zeros, &mut file);
                std::thread::sleep(time);
                let _ = fs::remove_file(&full);
            }
            other => panic!("{other}"),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if self.has_disk {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(self.scratch.path("service"))
                .status();
        }
    }
}

impl Cluster {
    pub(super) fn start(plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (server, model) = (Server::start(""), model(plan.thinks));
        server.sql("postgres", "CREATE DATABASE cluster");
        let store = Arc::new(runtime.block_on(weed::proxy::Proxy::start(weed::port())));
        let objects = weed::address(&weed::prefix(), store.port);
        let mut members = Vec::new();
        for number in 0..NODES {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let listens = free.local_addr().unwrap();
            drop(free);
            let database = runtime.block_on(database_proxy::Proxy::start(&server.socket()));
            let peers = runtime.block_on(weed::proxy::Proxy::start(listens.port()));
            let scratch = Scratch::new();
            fs::create_dir(scratch.path("service")).unwrap();
            if plan.has_disks {
                let mount = ["-t", "tmpfs", "-o", "size=64m,mode=700", "belljar"];
                let mut command = Command::new("mount");
                command.args(mount).arg(scratch.path("service"));
                assert!(command.status().unwrap().success());
            }
            let mut arguments: Vec<String> = ["serve", "--env", bare(), "--data", "service"]
                .map(str::to_owned)
                .into();
            for (option, value) in [
                ("--model", "llamacpp/scripted".to_owned()),
                ("--listen", listens.to_string()),
                ("--node-address", format!("127.0.0.1:{}", peers.port)),
                ("--database", database.address("cluster")),
                ("--objects", objects.clone()),
            ] {
                arguments.extend([option.to_owned(), value]);
            }
            let clock = (number == NODES - 1).then(|| Clock::new(scratch.path("clock")));
            let member = Arc::new(Member {
                number,
                scratch,
                listens,
                database,
                peers,
                arguments,
                model: model.base_url(),
                clock,
                has_disk: plan.has_disks,
                process: Mutex::new(Process {
                    program: plan.program,
                    ..Process::default()
                }),
                exits: Mutex::default(),
            });
            member.start();
            member.until_it_serves();
            members.push(member);
        }
        Self {
            members,
            server: Some(server),
            store,
            _runtime: runtime,
            _model: model,
        }
    }

    /// The key that one of the nodes has printed.
    pub(super) fn key(&self) -> String {
        let outputs = || {
            let nodes = self.members.iter();
            let outputs = nodes.map(|member| member.scratch.read("stdout"));
            outputs.collect::<Vec<_>>().concat()
        };
        let said = eventually(outputs, |said| said.ends_with('\n'));
        said.trim_end().to_owned()
    }

    /// Each node becomes this program, one after the other.
    pub(super) fn upgrade(&self, program: &'static str, pause: Duration) {
        for member in &self.members {
            member.upgrade(program, self.server.as_ref().unwrap());
            std::thread::sleep(pause);
        }
    }

    /// The versions of its tables: those of the journal, and those of the tenants.
    pub(super) fn schemas(&self) -> [String; 2] {
        ["schema_version", "tenants_version"].map(|table| {
            let version = format!("SELECT version FROM belljar.{table}");
            self.server.as_ref().unwrap().sql("cluster", &version)
        })
    }

    /// A replica takes the place of the database, which is killed. It has all that was acknowledged.
    fn fail_over(&mut self) {
        let primary = self.server.take().unwrap();
        let replica = primary.replica();
        let wait_for = "ALTER SYSTEM SET synchronous_standby_names = '*'";
        primary.sql("postgres", wait_for);
        primary.sql("postgres", "SELECT pg_reload_conf()");
        let begin = Instant::now();
        let is_even = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while primary.sql("postgres", is_even) != "1" {
            assert!(begin.elapsed() < Duration::from_mins(1), "no replica");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(500));
        primary.stop("-KILL");
        replica.sql("postgres", "SELECT pg_promote()");
        for member in &self.members {
            member.database.lead_to(replica.socket());
            member.database.reset();
        }
        self.server = Some(replica);
    }

    fn break_database(&mut self, name: &str) {
        let server = self.server.as_ref().unwrap();
        match name {
            "failover" => self.fail_over(),
            "backend kill" => server.kill_backend(),
            _ => {
                server.stop(if name == "database kill" {
                    "-KILL"
                } else {
                    "-INT"
                });
                server.start_again();
            }
        }
    }

    /// Injects the faults, and waits until the last one is over.
    pub(super) fn inject(&mut self, plan: Plan) -> Vec<Fault> {
        let mut random = Random::new(plan.seed);
        let mut faults = Vec::new();
        let mut running = Running::new();
        for _ in 0..plan.faults {
            std::thread::sleep(Duration::from_millis(random.below(1500)));
            let of = random.below(100);
            faults.extend(take_finished(&mut running));
            let time = Duration::from_millis(500 + random.below(6000));
            if of < 12 {
                let kinds = [
                    "database restart",
                    "database kill",
                    "backend kill",
                    "failover",
                ];
                let name = *random.pick(&kinds);
                faults.push(timed(name, None, || self.break_database(name)));
                continue;
            }
            // One of the store at a time.
            if of < 24 && running.iter().all(|(node, _)| node.is_some()) {
                let kinds = [
                    ("store slow", Wire::Slow(Duration::from_millis(200))),
                    ("store fails", Wire::Fails),
                    ("store gone", Wire::Gone),
                    ("store silent", Wire::Stalls),
                ];
                let (name, wire) = *random.pick(&kinds);
                let store = self.store.clone();
                let fault = std::thread::spawn(move || {
                    timed(name, None, || {
                        store.set(wire);
                        std::thread::sleep(time);
                        store.set(Wire::Works);
                    })
                });
                running.push((None, fault));
                continue;
            }
            while running.iter().filter(|(node, _)| node.is_some()).count() >= FAULTY {
                std::thread::sleep(Duration::from_millis(50));
                faults.extend(take_finished(&mut running));
            }
            let free = self.members.iter();
            let free: Vec<Arc<Member>> = free
                .filter(|member| running.iter().all(|(node, _)| *node != Some(member.number)))
                .cloned()
                .collect();
            let member = random.pick(&free).clone();
            let mut kinds = vec![
                "kill",
                "kill",
                "stop",
                "stop",
                "database away",
                "database slow",
                "answers lost",
                "requests lost",
                "out of reach",
                "unreachable",
            ];
            if member.clock.is_some() {
                kinds.extend(["clock"; 4]);
            }
            if plan.has_disks {
                kinds.push("disk full");
            }
            let name = *random.pick(&kinds);
            let offset = *random.pick(&["+0", "+2h", "-2h", "+3d", "-40s"]);
            let number = member.number;
            let fault = std::thread::spawn(move || {
                timed(name, Some(number), || member.fail(name, time, offset))
            });
            running.push((Some(number), fault));
        }
        faults.extend(finish(running));
        faults
    }
}

/// A fault that has lasted as long as this work.
fn timed(name: &'static str, node: Option<usize>, work: impl FnOnce()) -> Fault {
    let begin = now();
    work();
    let end = now();
    Fault {
        name,
        node,
        begin,
        end,
    }
}

type Running = Vec<(Option<usize>, JoinHandle<Fault>)>;

fn take_finished(running: &mut Running) -> Vec<Fault> {
    finish(
        running
            .extract_if(.., |(_, fault)| fault.is_finished())
            .collect(),
    )
}

fn finish(running: Running) -> Vec<Fault> {
    running
        .into_iter()
        .map(|(_, fault)| fault.join().unwrap())
        .collect()
}
