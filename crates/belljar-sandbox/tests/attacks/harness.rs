//! One case of the attack suite: what it starts with, what it can do, and its end.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_sandbox::protocol::{Cause, Event, Fate, Outcome, Status};
use belljar_sandbox::{
    Cell, Checkpoints, Engine, EngineBuilder, Error, Limits, SecretGrant, Session, SessionOptions,
};

use crate::control::{self, ControlResult};
use crate::oracle::{self, Baseline, Kernel, Latencies};
use crate::record::Record;
pub(crate) use crate::record::Severity;
use crate::support::{
    Stopwatch, bare_environment, bare_python, eventually, good, is_possible, plain_builder,
    printed, processes_below, seconds, timed, without_checkpoints,
};

/// The environment variable that holds a canary.
pub(crate) const CANARY_VARIABLE: &str = "BELLJAR_ATTACK_CANARY";

/// How long small cells of the sibling may take under attack, if not twice as long as before it:
/// the percentiles, and a floor below which a difference is the scheduler's and not the attack's.
/// An attack takes a second, so the 99th percentile of some fifty cells is the one worst of them,
/// which on two cores may be anybody's doing; the 90th is what shows a sibling that starves.
const SIBLING_BOUNDS: [(usize, Duration); 2] = [
    (90, Duration::from_millis(100)),
    (99, Duration::from_millis(500)),
];

/// Where a session works.
const WORKSPACE: &str = "/workspace";

/// What the attacks are run in, as `.ci/attacks-on` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// Sessions that were just started.
    New,
    /// Forks of sessions that have ended.
    Forks,
    /// Sessions that were restored from a checkpoint.
    Restored,
}

impl On {
    fn chosen() -> Self {
        match std::env::var("BELLJAR_ATTACK_ON").as_deref() {
            Err(std::env::VarError::NotPresent) => Self::New,
            Ok("forks") => Self::Forks,
            Ok("restored") => Self::Restored,
            other => panic!("BELLJAR_ATTACK_ON is forks, restored, or not set: {other:?}"),
        }
    }
}

/// Whether the attacks are run in forks.
pub(crate) fn is_on_forks() -> bool {
    On::chosen() == On::Forks
}

/// What a session sees as its parent's id: a new one's is outside of its pid namespace, and that of
/// a fork or a woken copy is init.
pub(crate) fn parent_id() -> u32 {
    u32::from(On::chosen() != On::New)
}

/// The lines of a posture. A fork differs in one of them: its cgroup is beside the one that its cgroup namespace
/// starts at.
pub(crate) fn posture(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && is_possible(line));
    let lines = lines.map(|line| match line.strip_prefix("cgroup /../") {
        Some(_) if is_on_forks() => "cgroup",
        _ => line,
    });
    lines.map(str::to_owned).collect()
}

/// What an attack is after. All of them are planted in each case, and none may ever be seen.
pub(crate) struct Canaries {
    /// In this process's environment, before the engine started: see [`CANARY_VARIABLE`].
    environment: String,
    /// In a file of the host, at this path.
    pub(crate) file: PathBuf,
    file_text: String,
    /// In the memory of this process.
    memory: String,
    /// In the sibling: the variable `kept`, and the file `kept.txt`.
    sibling: String,
    _directory: tempfile::TempDir,
}

impl Canaries {
    fn plant(environment: String) -> Self {
        let directory = tempfile::Builder::new()
            .prefix(&format!("belljar-{}-canary", std::process::id()))
            .tempdir()
            .unwrap();
        let (file, file_text) = (directory.path().join("secret.txt"), canary());
        std::fs::write(&file, &file_text).unwrap();
        Self {
            environment,
            file,
            file_text,
            memory: canary(),
            sibling: canary(),
            _directory: directory,
        }
    }

    /// The places whose canary stands in the text. Their numbers are looked for, so that leaving
    /// out the prefix hides nothing.
    fn found_in(&self, text: &str) -> Vec<&'static str> {
        [
            ("the host's environment", &self.environment),
            ("a host file", &self.file_text),
            ("the host's memory", &self.memory),
            ("the sibling", &self.sibling),
        ]
        .into_iter()
        .filter(|(_, canary)| text.contains(canary.trim_start_matches("CANARY-")))
        .map(|(place, _)| place)
        .collect()
    }
}

/// `CANARY-` and 16 hexadecimal digits.
fn canary() -> String {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    format!("CANARY-{:016x}", u64::from_ne_bytes(bytes))
}

/// The canary in this process's environment. Where there is none, the test is started again with one; what
/// was made before would be left, so a case that makes something of its own calls this first.
pub(crate) fn environment_canary() -> String {
    std::env::var(CANARY_VARIABLE).unwrap_or_else(|_| {
        // A variable can't be set safely in a process with threads.
        let error = Command::new(std::env::current_exe().unwrap())
            .args(std::env::args_os().skip(1))
            .env(CANARY_VARIABLE, canary())
            .exec();
        panic!("starting the test again: {error}");
    })
}

/// Runs a case on a runtime whose threads for blocking work end soon: the oracle counts threads.
pub(crate) fn block_on(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(Duration::from_millis(100))
        .build()
        .unwrap()
        .block_on(case);
}

/// One case. It must end with [`Case::end`], which asks the oracle.
pub(crate) struct Case {
    record: Record,
    /// What an attack is after.
    pub(crate) canaries: Canaries,
    baseline: Baseline,
    engine: Engine,
    /// Another tenant, who must not notice.
    sibling: Option<Arc<Session>>,
    sibling_latencies: Latencies,
    /// Everything below this process when the attack began.
    processes: BTreeSet<u32>,
    victims: Mutex<Vec<(u64, Kernel)>>,
    leaks: Mutex<Vec<String>>,
    controlled: AtomicBool,
    ended: bool,
}

impl Case {
    /// Starts a case on the bare environment. `attack` and `expectation` stand in the table of
    /// results: a few words, or a piece of code.
    pub(crate) async fn begin(
        id: &'static str,
        severity: Severity,
        attack: &'static str,
        expectation: &'static str,
    ) -> Self {
        let builder = plain_builder(bare_environment());
        Self::begin_on(builder, id, severity, attack, expectation).await
    }

    /// Starts a case on another engine: with the packages of `support::data_environment`, or with
    /// limits. Without a warm pool: the oracle would take a new one for something left.
    pub(crate) async fn begin_on(
        builder: EngineBuilder,
        id: &'static str,
        severity: Severity,
        attack: &'static str,
        expectation: &'static str,
    ) -> Self {
        let environment = environment_canary();
        // The runtime's thread for blocking work belongs to the baseline.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        let canaries = Canaries::plant(environment);
        let baseline = Baseline::note();
        let engine = builder.checkpoints(Checkpoints::Off).build();
        let sibling = engine.session().await.unwrap();
        let mut sibling_latencies = Latencies::default();
        let keep = format!(
            "kept = '{0}'\nopen('kept.txt', 'w').write('{0}')",
            canaries.sibling
        );
        good(&sibling, &keep).await;
        for _ in 0..30 {
            sibling_latencies.add_cell(&sibling).await;
        }
        Self {
            record: Record {
                id,
                severity,
                attack,
                expectation,
            },
            canaries,
            baseline,
            engine,
            sibling: Some(Arc::new(sibling)),
            sibling_latencies,
            processes: processes_below(std::process::id()).into_iter().collect(),
            victims: Mutex::default(),
            leaks: Mutex::default(),
            controlled: AtomicBool::new(false),
            ended: false,
        }
    }

    fn sibling(&self) -> Arc<Session> {
        Arc::clone(self.sibling.as_ref().unwrap())
    }

    /// The engine of all of the case's sessions.
    #[allow(dead_code, reason = "for cases about templates and the warm pool")]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A session for the attack.
    pub(crate) async fn session(&self) -> Session {
        self.session_with(self.engine.limits().clone()).await
    }

    /// A session for the attack with limits of its own. One cell has run in it.
    pub(crate) async fn session_with(&self, limits: Limits) -> Session {
        self.session_of(without_checkpoints(limits)).await
    }

    /// A session for the attack with options of its own.
    pub(crate) async fn session_of(&self, mut options: SessionOptions) -> Session {
        options.limits.wall_time = patience(options.limits.wall_time);
        let mut session = self.engine.session_with(options).await.unwrap();
        // Whatever the time that the attack has.
        let ready = session.run(timed("pass", seconds(60.0))).await.unwrap();
        assert!(ready.is_success(), "{ready:#?}");
        match On::chosen() {
            On::New => {}
            // The fork lives on in its parent's namespaces.
            On::Forks => {
                let forks = session.fork_with(1, SecretGrant::All).await;
                let fork = forks.unwrap().remove(0);
                session.close().await.unwrap();
                session = fork;
            }
            On::Restored => {
                session.checkpoint("before").await.unwrap();
                session.restore("before").await.unwrap();
                let members = Kernel::from_session(&session).members();
                assert_eq!(members.len(), 2, "the session, and the copy that is kept");
                // What dies in the attack is to be lost.
                session.forget("before").await.unwrap();
                let lives = |pid: &&u32| std::fs::exists(format!("/proc/{pid}")).unwrap();
                let is_gone = || members.iter().filter(lives).count() == 1;
                eventually("the end of the copy", is_gone).await;
            }
        }
        let kernel = Kernel::from_session(&session);
        self.victims.lock().unwrap().push((session.id(), kernel));
        session
    }

    /// Host ids of the processes in a victim's cgroups, now.
    pub(crate) fn members(&self, session: &Session) -> BTreeSet<u32> {
        let victims = self.victims.lock().unwrap();
        let victim = victims.iter().find(|(id, _)| *id == session.id());
        victim.expect("a session of this case").1.members()
    }

    /// Runs a cell. It ends in time, in an outcome that makes sense, or in an error that the
    /// attack may cause (its session has ended, its cell is too large): never in a fault of ours.
    /// Everything that it says is searched for canaries. Its calls of tools are answered at once.
    pub(crate) async fn run(
        &self,
        session: &Session,
        cell: impl Into<Cell>,
    ) -> Result<Outcome, Error> {
        let mut cell = cell.into();
        // A fork has its workspace elsewhere, and is to hold as much.
        let directory = session.directory().display().to_string();
        cell.code = cell.code.replace(WORKSPACE, &directory);
        cell.wall_time = cell.wall_time.map(patience);
        let limits = session.limits();
        let patience =
            cell.wall_time.unwrap_or(limits.wall_time) + limits.grace + Duration::from_secs(10);
        let mut run = session.run(cell);
        let serve = async {
            loop {
                match run
                    .next()
                    .await
                    .expect("a cell's stream ends in an outcome")
                {
                    Ok(Event::Outcome(outcome)) => break Ok(*outcome),
                    Ok(event) => {
                        self.search("an event", &serde_json::to_string(&event).unwrap());
                        if let Event::Called { call, .. } = event {
                            let _ = session.answer(call, Ok(serde_json::json!(1).into())).await;
                        }
                    }
                    Err(error) => break Err(error),
                }
            }
        };
        let result = tokio::time::timeout(patience, serve).await;
        let mut result = result.expect("oracle: the cell did not end in time");
        match &mut result {
            Ok(outcome) => {
                outcome.stdout.text = outcome.stdout.text.replace(&directory, WORKSPACE);
                let text = serde_json::to_string(outcome).unwrap();
                self.search("an outcome", &text);
                check_outcome(outcome);
            }
            Err(error @ (Error::Ended(_) | Error::CellTooLarge { .. })) => {
                self.search("an error", &error.to_string());
            }
            Err(error) => panic!("oracle: a fault of ours: {error}"),
        }
        result
    }

    /// Runs a cell that may end in any way, but as an outcome.
    pub(crate) async fn outcome(&self, session: &Session, cell: impl Into<Cell>) -> Outcome {
        self.run(session, cell).await.unwrap()
    }

    /// Runs a cell that must not succeed.
    pub(crate) async fn fails(&self, session: &Session, cell: impl Into<Cell>) -> Outcome {
        let outcome = self.outcome(session, cell).await;
        assert!(!outcome.is_success(), "a false success: {outcome:#?}");
        outcome
    }

    /// Runs a cell that must succeed, and returns what it printed.
    pub(crate) async fn printed(&self, session: &Session, cell: impl Into<Cell>) -> String {
        let outcome = self.outcome(session, cell).await;
        assert!(outcome.is_success(), "{outcome:#?}");
        outcome.stdout.text
    }

    /// Searches a text for canaries: what the case got by another way than a cell (a file, a
    /// manifest). A find fails the case at its end.
    pub(crate) fn search(&self, what: &str, text: &str) {
        for place in self.canaries.found_in(text) {
            let leak = format!("the canary of {place} stands in {what}");
            self.leaks.lock().unwrap().push(leak);
        }
    }

    /// The positive control: the same code by the same Python without our walls, as root of a user
    /// namespace and in other throw-away namespaces, with everything read-only but its working
    /// directory and /dev/shm. The case then asserts that the attack works there.
    pub(crate) async fn control(&self, code: &str) -> ControlResult {
        self.control_by(code, false).await
    }

    /// The control for what only the true root can do: `None` where this process is not root.
    #[allow(dead_code, reason = "for cases of the kernel's surface")]
    pub(crate) async fn control_as_root(&self, code: &str) -> Option<ControlResult> {
        if !belljar_walls::has_admin_capability() {
            return None;
        }
        Some(self.control_by(code, true).await)
    }

    async fn control_by(&self, code: &str, as_root: bool) -> ControlResult {
        self.controlled.store(true, Ordering::Relaxed);
        let environment = self.engine.environment();
        let python = match environment.image() {
            Some(_) => bare_python().python().to_owned(),
            None => environment.python().to_owned(),
        };
        let code = code.to_owned();
        let (sender, result) = tokio::sync::oneshot::channel();
        // A thread of its own: those of the runtime stay, and the oracle counts threads.
        std::thread::spawn(move || sender.send(control::run(&python, &code, as_root)));
        result.await.expect("the control ran")
    }

    /// Runs small cells in the sibling from now until [`SiblingWatch::finish`]. Time is measured,
    /// so the case has to be a `heavy_` one, which runs alone.
    pub(crate) fn watch_sibling(&self) -> SiblingWatch {
        let (sibling, stop) = (self.sibling(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut latencies = Latencies::default();
            while !stopped.load(Ordering::Relaxed) {
                latencies.add_cell(&sibling).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            latencies
        });
        SiblingWatch {
            task,
            stop,
            before: self.sibling_latencies.clone(),
        }
    }

    /// The sibling answers, and has what it had.
    pub(crate) async fn check_sibling(&self) {
        let sibling = self.sibling();
        oracle::check_answers(&sibling).await;
        let text = printed(&sibling, "print(kept, open('kept.txt').read(), end='')").await;
        let canary = &self.canaries.sibling;
        assert_eq!(
            text,
            format!("{canary} {canary}"),
            "oracle: the sibling changed"
        );
    }

    /// Asks the oracle, with the attack's effects still there and after they are gone, and writes
    /// the record. Takes the sessions that are still open; those dropped before are looked for too.
    pub(crate) async fn end(mut self, sessions: impl IntoIterator<Item = Session>) {
        self.ended = true;
        self.check_sibling().await;
        for session in sessions {
            session.close().await.unwrap();
        }
        let victims = std::mem::take(&mut *self.victims.lock().unwrap());
        for (_, kernel) in victims {
            kernel.check_gone().await;
        }
        oracle::check_processes(&self.processes).await;
        self.check_sibling().await;
        let next = self.engine.session().await.unwrap();
        assert_eq!(self.printed(&next, "print(6 * 7)").await, "42\n");
        drop(next);
        for directory in crate::support::traces(std::process::id()).directories {
            for (path, text) in oracle::texts_beneath(&directory) {
                self.search(&path.display().to_string(), &text);
            }
        }
        drop(self.sibling.take());
        self.engine.shutdown().await;
        self.baseline.check().await;
        let leaks = self.leaks.lock().unwrap().join("\n");
        assert!(leaks.is_empty(), "oracle: {leaks}");
        let control = if self.controlled.load(Ordering::Relaxed) {
            "works without walls"
        } else {
            "not asked"
        };
        self.record
            .write(control, belljar_walls::has_admin_capability());
    }
}

/// A time limit on this machine. From ten seconds on, it is patience with an attack that is to end by itself, and slow
/// machines need more. What is less is what the attack is about.
fn patience(limit: Duration) -> Duration {
    if limit >= seconds(10.0) {
        limit * Stopwatch::slowness()
    } else {
        limit
    }
}

/// An outcome that contradicts itself is a lie, whoever told it.
fn check_outcome(outcome: &Outcome) {
    let success = match outcome.cause {
        Cause::Completed => true,
        Cause::Exit { code } => code == 0 && outcome.state != Fate::Lost,
        _ => false,
    };
    assert_eq!(outcome.is_success(), success, "oracle: {outcome:#?}");
    let crashed = outcome.status == Status::Crashed;
    assert!(
        !crashed || outcome.state == Fate::Lost,
        "oracle: a crash that kept the variables: {outcome:#?}"
    );
}

/// Small cells that run in the sibling during an attack.
pub(crate) struct SiblingWatch {
    task: tokio::task::JoinHandle<Latencies>,
    stop: Arc<AtomicBool>,
    before: Latencies,
}

impl SiblingWatch {
    /// Ends the watch: the sibling was answered in time all along.
    pub(crate) async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let latencies = self.task.await.unwrap();
        for (percent, floor) in SIBLING_BOUNDS {
            let (took, before) = (
                latencies.percentile(percent),
                self.before.percentile(percent),
            );
            assert!(
                took <= floor.max(before * 2),
                "oracle: {percent} of 100 cells of the sibling took up to {took:?} ({} cells); {before:?} before the attack",
                latencies.count()
            );
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        assert!(
            self.ended || std::thread::panicking(),
            "{} did not ask the oracle: call end",
            self.record.id
        );
    }
}
