//! A campaign: nodes drive runs on one database, and faults come in an order that a seed repeats.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_journal::{AppendError, Journal, NewEvent, Node, NodeOptions, RunId, Timestamp};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::checker::{self, Report};
use crate::history::{Body, History, Task};
use crate::postgres::{Server, signal};
use crate::proxy::{Network, Proxy};
use crate::random::Random;

const NODES: usize = 4;
/// Nodes that have a fault at the same time.
const FAULTY: usize = 2;
/// Runs that are driven at the same time.
const ACTIVE: usize = 16;
const TENANTS: u64 = 3;
/// How long all runs have to end once the faults have stopped.
const END: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) faults: u64,
    pub(crate) seed: u64,
    pub(crate) lease: Duration,
    /// The deliberate mistake.
    pub(crate) is_unfenced: bool,
    /// No other fault than a process that is stopped for longer than the lease.
    pub(crate) only_stops: bool,
}

impl Plan {
    pub(crate) fn new(faults: u64, seed: u64) -> Self {
        Self {
            faults,
            seed,
            lease: Duration::from_secs(1),
            is_unfenced: false,
            only_stops: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// None: the database.
    pub(crate) node: Option<usize>,
    pub(crate) begin: Timestamp,
    pub(crate) end: Timestamp,
}

/// What a reader was shown of each run: sequence numbers, and what the events have.
pub(crate) type Seen = BTreeMap<RunId, Arc<Mutex<Vec<(u64, String)>>>>;

pub(crate) async fn run(plan: Plan) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let server = tokio::task::spawn_blocking(|| Server::start(""))
        .await
        .unwrap();
    server.sql("postgres", "CREATE DATABASE cluster");
    let direct = server.address("cluster");
    let journal = Journal::connect(&direct).await.unwrap();

    let (mut nodes, mut readers) = (Vec::new(), vec![journal.clone()]);
    for number in 0..NODES {
        let proxy = Proxy::start(&server.socket()).await;
        readers.push(Journal::connect(&proxy.address("cluster")).await.unwrap());
        let history = directory.path().join(format!("history-{number}"));
        nodes.push(Member::start(number, proxy, history, &plan));
    }
    let nodes = Arc::new(nodes);
    let (stop, stopped) = watch::channel(false);
    let load = tokio::spawn(load(direct, plan.clone(), readers, stopped));

    // A moment without faults, so that there is something to lose.
    tokio::time::sleep(plan.lease).await;
    let (faults, server) = inject(&plan, &nodes, server).await;
    stop.send_replace(true);
    let (seen, never_ended) = load.await.unwrap();
    for node in nodes.iter() {
        node.kill();
    }
    let histories: Vec<_> = nodes
        .iter()
        .map(|node| History::read(&node.history))
        .collect();
    let report = checker::check(&plan, &journal, &seen, &never_ended, &histories, &faults).await;
    drop(server);
    report
}

/// A node: its process, its network, its history.
struct Member {
    number: usize,
    proxy: Proxy,
    history: PathBuf,
    plan: Plan,
    process: Mutex<Child>,
}

impl Member {
    fn start(number: usize, proxy: Proxy, history: PathBuf, plan: &Plan) -> Self {
        let process = Mutex::new(spawn(number, &proxy, &history, plan));
        let plan = plan.clone();
        Self {
            number,
            proxy,
            history,
            plan,
            process,
        }
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn start_again(&self) {
        let process = spawn(self.number, &self.proxy, &self.history, &self.plan);
        *self.process.lock().unwrap() = process;
    }

    fn signal(&self, name: &str) {
        signal(name, &self.process.lock().unwrap().id().to_string());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(number: usize, proxy: &Proxy, history: &PathBuf, plan: &Plan) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "node::process", "--ignored", "--nocapture"])
        .env("NODE_DATABASE", proxy.address("cluster"))
        .env("NODE_NAME", format!("node-{number}"))
        .env("NODE_HISTORY", history)
        .env("NODE_LEASE", plan.lease.as_millis().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    if plan.is_unfenced {
        command.env("BELLJAR_JOURNAL_FAILPOINT", "unfenced");
    }
    command.spawn().unwrap()
}

/// Submits runs, and reads each to its end, until it is stopped. Returns what was read, and the runs that never ended.
async fn load(
    database: String,
    plan: Plan,
    readers: Vec<Journal>,
    stopped: watch::Receiver<bool>,
) -> (Seen, Vec<RunId>) {
    let mut random = Random::new(plan.seed ^ 0xABCD);
    let readers = Arc::new(readers);
    let (mut seen, mut following) = (Seen::new(), JoinSet::new());
    let mut node = None;
    let mut ended = Vec::new();
    for number in 0_u64.. {
        while following.len() >= ACTIVE && !*stopped.borrow() {
            let wait = tokio::time::timeout(Duration::from_millis(200), following.join_next());
            if let Ok(Some(run)) = wait.await {
                ended.push(run.unwrap());
            }
        }
        if *stopped.borrow() {
            break;
        }
        let run: RunId = format!("run-{number}").parse().unwrap();
        let tenant = format!("tenant-{}", random.below(TENANTS));
        let steps = 20 + random.below(100);
        submit(&database, &plan, &mut node, &run, &tenant, steps).await;
        let entries = Arc::new(Mutex::new(Vec::new()));
        seen.insert(run.clone(), entries.clone());
        let random = Random::new(random.next());
        following.spawn(follow(readers.clone(), run, entries, random));
    }
    let all = async {
        while let Some(run) = following.join_next().await {
            ended.push(run.unwrap());
        }
    };
    let _ = tokio::time::timeout(END, all).await;
    let never = seen
        .keys()
        .filter(|run| !ended.contains(run))
        .cloned()
        .collect();
    (seen, never)
}

/// Until it is there.
async fn submit(
    database: &str,
    plan: &Plan,
    node: &mut Option<Node>,
    run: &RunId,
    tenant: &str,
    steps: u64,
) {
    let event = NewEvent::new("task", 1, Timestamp::now(), &Task { steps }).unwrap();
    loop {
        if node.as_ref().is_none_or(Node::is_over) {
            let mut options = NodeOptions::new("load", "nowhere");
            options.lease = plan.lease;
            *node = Node::join(database, options).await.ok();
        }
        let Some(node) = node else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        match node.submit(run, tenant, std::slice::from_ref(&event)).await {
            Ok(_) | Err(AppendError::Conflict { .. }) => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Reads a run to its end: now from one node, now from another, each time after the last event that it has.
async fn follow(
    readers: Arc<Vec<Journal>>,
    run: RunId,
    seen: Arc<Mutex<Vec<(u64, String)>>>,
    mut random: Random,
) -> RunId {
    loop {
        let after = seen.lock().unwrap().last().map_or(0, |(seq, _)| *seq);
        let mut tail = random.pick(&readers).tail(&run, after);
        while let Ok(Some(Ok(entry))) =
            tokio::time::timeout(Duration::from_secs(2), tail.next()).await
        {
            let is_end = entry.kind == "end";
            let body = entry.body.get().to_owned();
            seen.lock().unwrap().push((entry.seq, body));
            if is_end {
                return run;
            }
            if random.below(50) == 0 {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Injects the faults, and waits until the last one is over.
async fn inject(plan: &Plan, nodes: &Arc<Vec<Member>>, server: Server) -> (Vec<Fault>, Server) {
    let mut random = Random::new(plan.seed);
    let mut free: Vec<usize> = (0..NODES).collect();
    let (mut faults, mut running) = (Vec::new(), JoinSet::<Fault>::new());
    let mut server = Some(server);
    let lease = u64::try_from(plan.lease.as_millis()).unwrap();
    for _ in 0..plan.faults {
        tokio::time::sleep(Duration::from_millis(random.below(lease / 4))).await;
        if !plan.only_stops && random.below(100) < 12 {
            let name = *random.pick(&["database restart", "database kill", "backend kill"]);
            let begin = Timestamp::now();
            let taken = server.take().unwrap();
            let fault = tokio::task::spawn_blocking(move || break_database(taken, name));
            server = Some(fault.await.unwrap());
            let end = Timestamp::now();
            faults.push(Fault {
                name,
                node: None,
                begin,
                end,
            });
            continue;
        }
        while NODES - free.len() >= FAULTY {
            let fault = running.join_next().await.unwrap().unwrap();
            free.extend(fault.node);
            faults.push(fault);
        }
        free.sort_unstable();
        let index = usize::try_from(random.below(free.len() as u64)).unwrap();
        let node = free.remove(index);
        let kinds = [
            "kill",
            "stop",
            "stall",
            "stall and lose",
            "lose answers",
            "lose requests",
        ];
        let name = if plan.only_stops {
            "stop"
        } else {
            *random.pick(&kinds)
        };
        let time = if name == "stop" {
            lease * 3 / 2 + random.below(lease)
        } else {
            lease / 5 + random.below(lease * 2)
        };
        let nodes = nodes.clone();
        running.spawn(async move {
            let begin = Timestamp::now();
            break_node(&nodes[node], name, Duration::from_millis(time)).await;
            let end = Timestamp::now();
            Fault {
                name,
                node: Some(node),
                begin,
                end,
            }
        });
    }
    faults.extend(running.join_all().await);
    (faults, server.unwrap())
}

fn break_database(server: Server, name: &str) -> Server {
    if name == "backend kill" {
        server.kill_backend();
    } else {
        server.stop(if name == "database kill" {
            "-KILL"
        } else {
            "-INT"
        });
        server.start_again();
    }
    server
}

async fn break_node(node: &Member, name: &str, time: Duration) {
    match name {
        "kill" => {
            node.kill();
            tokio::time::sleep(time).await;
            node.start_again();
        }
        "stop" => {
            node.signal("-STOP");
            tokio::time::sleep(time).await;
            node.signal("-CONT");
        }
        "stall" => {
            node.proxy.set(Network::Stalls);
            tokio::time::sleep(time).await;
            node.proxy.set(Network::Works);
        }
        "stall and lose" => {
            node.proxy.set(Network::Stalls);
            tokio::time::sleep(time).await;
            node.proxy.reset();
        }
        "lose answers" => {
            node.proxy.set(Network::LosesAnswers);
            tokio::time::sleep(time / 3).await;
            node.proxy.reset();
        }
        _ => {
            node.proxy.set(Network::LosesRequests);
            tokio::time::sleep(time / 3).await;
            node.proxy.reset();
        }
    }
}

/// The body of an event that a node has written.
pub(crate) fn body(text: &str) -> Option<Body> {
    serde_json::from_str(text).ok()
}
