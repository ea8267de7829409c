//! The runs of all tenants: those that are being driven, and where all of them are kept.
//!
//! Each tenant has a directory with a journal of its own. What is known of a run is read from there; in memory
//! is only what it takes to reach one that goes on. A run can be let go at any moment, as a host that dies lets
//! go of it, and be taken up again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use belljar_agent::{
    Agent, Control, Decision, DecisionError, ExitReason, LiveRun, Progress, ReplyEvent, Run,
    RunError, RunEvent, RunsDirectory, Start, Steering, read_events,
};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Event;
use belljar_sandbox::{Checkpoints, Engine, Network, SessionOptions};
use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::TraceContextExt as _;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::accounts::exceeded;
use crate::bounds::{Bounds, Place};
use crate::node::random_hex;
use crate::options::{OfferedModel, RunsOptions, ServerOptions};
use crate::problem::{Code, Problem};
use crate::sessions::lock;
use crate::tenants::{Quota, TenantName};

/// Parts of replies and of output that a reader may be behind; what is older it does not get.
const PARTS: usize = 256;

/// How often a run that is just being taken up or left is looked at again, and for how long.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it takes until runs that there was no place for are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs of a tenant that are held whole in memory at once, to be looked at. Who wants more waits.
const READ_AT_ONCE: usize = 4;

/// Runs of a page of the journal.
const PAGE: usize = 200;

/// What a client is told of a model that could not be asked. What its server said is for the log.
const NOT_ASKED: &str = "the model could not be asked; the log of the service tells more";

#[derive(Debug)]
pub(crate) struct Runs {
    directory: PathBuf,
    node: String,
    engine: Engine,
    session: SessionOptions,
    options: RunsOptions,
    bounds: Arc<Bounds>,
    known: tokio::sync::Mutex<HashMap<TenantName, RunsDirectory>>,
    readers: Mutex<HashMap<TenantName, Arc<Semaphore>>>,
    driven: Mutex<HashMap<RunId, Arc<Driven>>>,
    tasks: TaskTracker,
    leave: CancellationToken,
    abandon: CancellationToken,
}

/// A run that is being driven.
#[derive(Debug)]
struct Driven {
    id: RunId,
    tenant: TenantName,
    bounds: Arc<Bounds>,
    control: Control,
    parts: broadcast::Sender<Bytes>,
    doing: watch::Sender<Doing>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    /// Calls that are being performed.
    calls: usize,
    /// Whether it waits for a person.
    waits: bool,
}

/// A run as its journal has it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) id: RunId,
    pub(crate) directory: RunsDirectory,
    pub(crate) events: Vec<RunEvent>,
    pub(crate) run: Run,
    /// The number of the last event.
    pub(crate) last: u64,
    _place: OwnedSemaphorePermit,
}

/// What a run holds while it is driven.
type Places = [Place; 2];

/// That a new run of a tenant may begin: there is no other way to [`Runs::start`] one.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) agent: Agent,
    places: Places,
}

impl Runs {
    pub(crate) fn new(
        directory: PathBuf,
        node: String,
        engine: Engine,
        options: &ServerOptions,
        bounds: &Arc<Bounds>,
    ) -> Arc<Self> {
        Arc::new(Self {
            directory,
            node,
            engine,
            session: SessionOptions {
                // Going back when it goes in circles needs a copy of each cell.
                checkpoints: Checkpoints::Every,
                network: Network::None,
                ..options.session.clone()
            },
            options: options.runs.clone(),
            bounds: Arc::clone(bounds),
            known: tokio::sync::Mutex::default(),
            readers: Mutex::default(),
            driven: Mutex::default(),
            tasks: TaskTracker::new(),
            leave: CancellationToken::new(),
            abandon: CancellationToken::new(),
        })
    }

    pub(crate) fn options(&self) -> &RunsOptions {
        &self.options
    }

    /// Where the runs of a tenant are, if it has had any.
    pub(crate) async fn directory(
        &self,
        tenant: &TenantName,
    ) -> Result<Option<RunsDirectory>, Problem> {
        if !self.directory.join(tenant.as_str()).is_dir() {
            return Ok(None);
        }
        self.make_directory(tenant).await.map(Some)
    }

    pub(crate) async fn make_directory(
        &self,
        tenant: &TenantName,
    ) -> Result<RunsDirectory, Problem> {
        let mut known = self.known.lock().await;
        if let Some(directory) = known.get(tenant) {
            return Ok(directory.clone());
        }
        let path = self.directory.join(tenant.as_str());
        let opened = RunsDirectory::open(&path).await.map_err(fault)?;
        known.insert(tenant.clone(), opened.clone());
        Ok(opened)
    }

    /// A run of this tenant. That of another is as one that is not there.
    pub(crate) async fn find(
        &self,
        tenant: &TenantName,
        id: &str,
    ) -> Result<(RunId, RunsDirectory), Problem> {
        let not_found = || {
            let id: String = id.chars().take(100).collect();
            let detail = format!("there is no run `{}`", id.escape_debug());
            Problem::new(Code::RunNotFound, detail)
        };
        let run: RunId = id.parse().map_err(|_| not_found())?;
        let directory = self.directory(tenant).await?.ok_or_else(not_found)?;
        let last = directory.journal().last_seq(&run).await;
        if last.map_err(|error| fault(error.into()))? == 0 {
            return Err(not_found());
        }
        Ok((run, directory))
    }

    /// A run of this tenant, as far as it has come. Whoever holds one does not ask for another.
    pub(crate) async fn read(&self, tenant: &TenantName, id: &str) -> Result<Recorded, Problem> {
        let (id, directory) = self.find(tenant, id).await?;
        let readers = {
            let mut readers = lock(&self.readers);
            let new = || Arc::new(Semaphore::new(READ_AT_ONCE));
            Arc::clone(readers.entry(tenant.clone()).or_insert_with(new))
        };
        let place = readers.acquire_owned().await;
        let place = place.map_err(|error| Problem::internal("a place to read", error))?;
        let read = read_events(directory.journal(), &id).await;
        let (mut events, last) = read.map_err(fault)?;
        events.iter_mut().for_each(for_clients);
        let run = Run::fold(&events).map_err(|error| fault(error.into()))?;
        Ok(Recorded {
            id,
            directory,
            events,
            run,
            last,
            _place: place,
        })
    }

    pub(crate) fn is_driven(&self, id: &RunId) -> bool {
        lock(&self.driven).contains_key(id)
    }

    /// What a run that goes on says between its events.
    pub(crate) fn parts(&self, id: &RunId) -> Option<broadcast::Receiver<Bytes>> {
        self.driven(id).map(|driven| driven.parts.subscribe())
    }

    /// Whether no more events of a run are to be expected of this service.
    pub(crate) fn has_left(&self, id: &RunId) -> bool {
        self.leave.is_cancelled() && !self.is_driven(id)
    }

    fn driven(&self, id: &RunId) -> Option<Arc<Driven>> {
        lock(&self.driven).get(id).cloned()
    }

    /// What the runs of a tenant have on disk.
    pub(crate) async fn disk_bytes(&self, tenant: &TenantName) -> Result<u64, Problem> {
        let path = self.directory.join(tenant.as_str());
        let size = tokio::task::spawn_blocking(move || size(&path)).await;
        size.map_err(|error| Problem::internal("the size of runs", error))
    }

    /// Refuses a run of a tenant that has as much on disk as it may.
    async fn check_disk(&self, tenant: &TenantName) -> Result<(), Problem> {
        if let Some(limit) = self.bounds.disk_quota(tenant) {
            let used = self.disk_bytes(tenant).await?;
            if used >= limit {
                return Err(exceeded(Quota::DiskBytes, used, limit));
            }
        }
        Ok(())
    }

    /// Lets a new run begin, with a budget of no more than its tenant has left.
    pub(crate) async fn admit(
        &self,
        tenant: &TenantName,
        start: &mut Start,
    ) -> Result<Admitted, Problem> {
        let model = self.model(Some(&start.model))?;
        let places = self.places(tenant)?;
        self.check_disk(tenant).await?;
        let priced = model.provider.profile().prices.is_some();
        self.bounds.cut(tenant, &mut start.budget, priced);
        let directory = self.make_directory(tenant).await?;
        let agent = self.agent(tenant, &directory, model);
        Ok(Admitted { agent, places })
    }

    /// Places for a run and for its session.
    fn places(&self, tenant: &TenantName) -> Result<Places, Problem> {
        let run = self.bounds.run(tenant)?;
        let memory = self.session.limits.memory_bytes;
        let session = self.bounds.sessions(tenant, 1, memory)?.pop();
        let session = session.ok_or_else(|| Problem::internal("a place", "there is none"))?;
        Ok([run, session])
    }

    pub(crate) fn agent(
        &self,
        tenant: &TenantName,
        directory: &RunsDirectory,
        model: &OfferedModel,
    ) -> Agent {
        let engine = self.engine.clone();
        let agent = Agent::new(directory.clone(), engine, model.provider.clone(), None);
        agent.keep_sessions().session_options(SessionOptions {
            // Tenants never share a template.
            tenant: Some(tenant.as_str().to_owned()),
            ..self.session.clone()
        })
    }

    /// The model of this name; the first without one.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<&OfferedModel, Problem> {
        let models = &self.options.models;
        let Some(first) = models.first() else {
            let detail = "its operator names models by --model, or in the settings";
            return Err(Problem::new(Code::NoModel, detail));
        };
        let Some(name) = name else {
            return Ok(first);
        };
        let found = models.iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            let detail = format!("it has {}", names.join(", "));
            Problem::new(Code::ModelNotOffered, detail)
        })
    }

    /// An id for a run.
    pub(crate) fn new_id(&self) -> Result<RunId, Problem> {
        let random = random_hex(16).map_err(|error| Problem::internal("random bytes", error))?;
        let id = format!("{}-{random}", self.node).parse();
        id.map_err(|error| Problem::internal("the name of a run", error))
    }

    /// Begins a run, which may go on from another one, after one of its steps. Whose it is is on disk before.
    pub(crate) async fn start(
        self: &Arc<Self>,
        Admitted { agent, places }: Admitted,
        id: RunId,
        start: Start,
        parent: Option<(&RunId, Option<u32>)>,
    ) -> Result<(), Problem> {
        let live = match parent {
            None => agent.start_as(id, start).await,
            Some((parent, step)) => agent.start_from(id, start, parent, step).await,
        };
        let live = live.map_err(fault)?;
        self.drive(live, places);
        Ok(())
    }

    /// Goes on with a run that nobody drives.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
    ) -> Result<(), Problem> {
        match self.reach(tenant, id).await? {
            Reached::Driven(_) => {}
            Reached::Taken(live, places) => self.drive(*live, places),
        }
        Ok(())
    }

    /// Ends a run with the best answer that it has.
    pub(crate) async fn cancel(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
    ) -> Result<(), Problem> {
        match self.reach(tenant, id).await? {
            Reached::Driven(driven) => driven.control.stop(),
            Reached::Taken(live, places) => {
                live.control().stop();
                self.drive(*live, places);
            }
        }
        Ok(())
    }

    /// Interrupts the cell of a run that goes on; whether there was one.
    pub(crate) fn interrupt(&self, id: &RunId) -> bool {
        self.driven(id)
            .is_some_and(|driven| driven.control.interrupt())
    }

    /// Takes a person's decision.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &str,
        (approval, hash): (&str, &str),
        decision: Decision,
    ) -> Result<(), Problem> {
        let id = {
            let recorded = self.read(tenant, id).await?;
            // What nobody waits for does not wait for the run either.
            let checked = recorded.run.check_decision(approval, hash, &decision);
            checked.map_err(refused)?;
            recorded.id
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match self.reach(tenant, &id).await? {
                Reached::Taken(mut live, places) => {
                    let decided = live.decide(approval, hash, decision).await;
                    decided.map_err(|error| match error {
                        RunError::Decision(error) => refused(error),
                        error => fault(error),
                    })?;
                    self.drive(*live, places);
                    return Ok(());
                }
                Reached::Driven(driven) => {
                    let decided = driven.control.decide(approval, hash, decision.clone());
                    match decided.await {
                        // It was let go at this moment: it can be taken up.
                        Err(DecisionError::Over) if Instant::now() < until => {
                            tokio::time::sleep(LOOK).await;
                        }
                        decided => return decided.map_err(refused),
                    }
                }
            }
        }
    }

    /// Changes something for the rest of a run.
    pub(crate) async fn steer(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
        steering: Steering,
    ) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.reach(tenant, id).await? {
                Reached::Taken(mut live, places) => {
                    live.steer(steering).await.map_err(fault)?;
                    self.drive(*live, places);
                    return Ok(());
                }
                Reached::Driven(driven) => match driven.control.steer(steering.clone()).await {
                    // It was let go at this moment, or has just ended.
                    Err(DecisionError::Over) if Instant::now() < until => {
                        tokio::time::sleep(LOOK).await;
                    }
                    steered => return steered.map_err(refused),
                },
            }
        }
    }

    /// A run that has not ended: whoever drives it, or the run itself.
    async fn reach(self: &Arc<Self>, tenant: &TenantName, id: &RunId) -> Result<Reached, Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(driven) = self.driven(id) {
                // It is driven until its session has closed, which is after its end.
                if self.has_ended(tenant, id).await? {
                    return Err(ended());
                }
                return Ok(Reached::Driven(driven));
            }
            let agent = {
                let recorded = self.read(tenant, id.as_str()).await?;
                if recorded.run.ending().is_some() {
                    return Err(ended());
                }
                let model = recorded.run.start().map(|start| start.model.as_str());
                self.agent(tenant, &recorded.directory, self.model(model)?)
            };
            let places = self.places(tenant)?;
            match agent.resume(id).await {
                Ok(live) => return Ok(Reached::Taken(Box::new(live), places)),
                // Somebody else has just taken it up, or is about to let go of it.
                Err(RunError::Driven(_)) if Instant::now() < until => {
                    drop(places);
                    tokio::time::sleep(LOOK).await;
                }
                Err(RunError::Driven(_)) => {
                    return Err(Problem::new(Code::RunBusy, "try again"));
                }
                Err(error) => return Err(fault(error)),
            }
        }
    }

    async fn has_ended(&self, tenant: &TenantName, id: &RunId) -> Result<bool, Problem> {
        let journal = self.make_directory(tenant).await?.journal().clone();
        let last = async {
            let last = journal.last_seq(id).await?;
            journal.read(id, last.saturating_sub(1), 1).await
        };
        let last = last.await.map_err(|error| fault(error.into()))?;
        Ok(last.last().is_some_and(|event| event.kind == "ended"))
    }

    /// Drives a run to its end, until it is left, or until nobody has decided for too long.
    fn drive(self: &Arc<Self>, live: LiveRun, places: Places) {
        let driven = Arc::new(Driven {
            id: live.id().clone(),
            tenant: places[0].tenant().clone(),
            bounds: Arc::clone(&self.bounds),
            control: live.control(),
            parts: broadcast::Sender::new(PARTS),
            doing: watch::Sender::new(Doing {
                calls: 0,
                waits: !live.run().undecided().is_empty(),
            }),
        });
        lock(&self.driven).insert(driven.id.clone(), Arc::clone(&driven));
        let runs = Arc::clone(self);
        // A part of the trace of whoever started it or goes on with it, whose request ends sooner.
        let request = tracing::Span::current().context();
        let request = request.span().span_context().clone();
        let request = Context::new().with_remote_span_context(request);
        let work = async move {
            let mut listener = |progress: Progress<'_>| driven.hear(&progress);
            let ended = tokio::select! {
                ended = Box::pin(live.drive(&mut listener)) => ended.map(drop),
                () = runs.lets_go_of(&driven) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::error!(run = %driven.id, %error, "a run can't go on");
            }
            // Who hears of its end finds its places free.
            drop(places);
            let mut all = lock(&runs.driven);
            if all
                .get(&driven.id)
                .is_some_and(|now| Arc::ptr_eq(now, &driven))
            {
                all.remove(&driven.id);
            }
        };
        self.tasks.spawn(work.with_context(request));
    }

    async fn lets_go_of(&self, driven: &Driven) {
        let mut doing = driven.doing.subscribe();
        let quiet = async {
            self.leave.cancelled().await;
            // The sender is a part of what drives it.
            let _ = driven
                .doing
                .subscribe()
                .wait_for(|doing| doing.calls == 0)
                .await;
        };
        let waited = async {
            loop {
                let waits = doing.borrow_and_update().waits;
                let patience = if waits {
                    self.options.patience
                } else {
                    Duration::MAX
                };
                if tokio::time::timeout(patience, doing.changed())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        };
        tokio::select! {
            () = quiet => {}
            () = waited => {}
            () = self.abandon.cancelled() => {}
        }
    }

    /// Goes on with the runs that an earlier service was at; those that wait for a person wait on.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let runs = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = runs.leave.clone();
            tokio::select! {
                () = runs.resume_all() => {}
                () = stop.cancelled() => {}
                () = runs.abandon.cancelled() => {}
            }
        });
    }

    async fn resume_all(self: &Arc<Self>) {
        let mut open = Vec::new();
        let directories = std::fs::read_dir(&self.directory).into_iter().flatten();
        for directory in directories.flatten() {
            let name = directory.file_name();
            let Some(tenant) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match self.unfinished(&tenant).await {
                Ok(runs) => open.extend(runs.into_iter().map(|run| (tenant.clone(), run))),
                // One tenant's damage is no other's.
                Err(problem) => tracing::error!(%tenant, problem.detail, "runs can't be read"),
            }
        }
        while !open.is_empty() {
            let mut left = Vec::new();
            for (tenant, id) in open {
                match self.resume(&tenant, &id).await {
                    Ok(()) => tracing::info!(run = %id, "a run goes on"),
                    Err(problem) if problem.code.retry() => left.push((tenant, id)),
                    Err(problem) => {
                        tracing::error!(run = %id, problem.detail, "a run can't go on");
                    }
                }
            }
            open = left;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Runs of a tenant that have not ended and wait for nobody, the oldest first.
    async fn unfinished(&self, tenant: &TenantName) -> Result<Vec<RunId>, Problem> {
        let directory = self.make_directory(tenant).await?;
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = directory.journal().runs(before.as_ref(), PAGE).await;
            let page = page.map_err(|error| fault(error.into()))?;
            let Some(last) = page.last() else { break };
            before = Some(last.first.run.clone());
            for summary in page.iter().filter(|summary| summary.last.kind != "ended") {
                let id = summary.first.run.clone();
                let recorded = self.read(tenant, id.as_str()).await;
                // One that can't be read, such as one of a newer Belljar, hinders no other.
                if recorded.is_ok_and(|recorded| recorded.run.undecided().is_empty()) {
                    found.push(id);
                }
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Leaves all runs, each after the calls that it is at, or at this time.
    pub(crate) async fn leave(&self, deadline: Instant) {
        self.leave.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout_at(deadline.into(), self.tasks.wait()).await;
        self.abandon.cancel();
        self.tasks.wait().await;
    }

    /// Leaves all runs at once.
    pub(crate) fn abandon(&self) {
        self.abandon.cancel();
    }
}

enum Reached {
    Driven(Arc<Driven>),
    Taken(Box<LiveRun>, Places),
}

impl Driven {
    fn hear(&self, progress: &Progress<'_>) {
        count(&self.bounds, &self.tenant, progress, &self.control);
        match progress {
            Progress::Event(event, run) => {
                if let RunEvent::ModelFailed { error, .. } = event {
                    tracing::error!(run = %self.id, error, "a model could not be asked");
                }
                self.doing.send_modify(|doing| {
                    match event {
                        RunEvent::CallStarted { .. } => doing.calls += 1,
                        RunEvent::CallEnded { .. } | RunEvent::CallLost { .. } => {
                            doing.calls = doing.calls.saturating_sub(1);
                        }
                        _ => {}
                    }
                    doing.waits = !run.undecided().is_empty();
                });
            }
            Progress::Reply(ReplyEvent::Retrying { after_ms, .. }) => {
                let why = NOT_ASKED.to_owned();
                let after_ms = *after_ms;
                self.tell("reply", &ReplyEvent::Retrying { after_ms, why });
            }
            Progress::Reply(part) => self.tell("reply", part),
            // It has paths of the host in it; `call_ended` tells what came of the cell.
            Progress::Cell(Event::Outcome(_)) => {}
            Progress::Cell(event) => self.tell("cell", event),
        }
    }

    /// Tells those who listen now. It has no number: nobody can ask for it again.
    fn tell(&self, kind: &str, part: &impl Serialize) {
        if self.parts.receiver_count() == 0 {
            return;
        }
        match serde_json::to_string(part) {
            Ok(json) => {
                let rendered = format!("event: {kind}\ndata: {json}\n\n");
                let _ = self.parts.send(rendered.into());
            }
            Err(error) => tracing::error!(%error, "a part of a run can't be written"),
        }
    }
}

/// Counts what a run uses, and ends it with the best answer that it has where that was all there was.
pub(crate) fn count(
    bounds: &Bounds,
    tenant: &TenantName,
    progress: &Progress<'_>,
    control: &Control,
) {
    let event = match progress {
        Progress::Event(event, _) => event,
        Progress::Cell(Event::Outcome(outcome)) => return bounds.spend_cell(tenant, outcome),
        _ => return,
    };
    let (mut tokens, mut money) = (0, 0);
    if let RunEvent::Replied { reply, cost, .. } = event {
        tokens = reply.usage.input_tokens + reply.usage.output_tokens;
        money = micros(cost.unwrap_or_default());
    }
    let used = [
        (Quota::Events, 1),
        (Quota::Tokens, tokens),
        (Quota::MoneyMicros, money),
    ];
    bounds.spend(tenant, &used);
    // Where a run's own budget is cut to what was left of tokens and money, it ends by that and says so.
    let looked_at: &[Quota] = match event {
        RunEvent::Asked { .. } => &Quota::OF_RUNS,
        _ => &Quota::OF_CELLS,
    };
    if bounds.check(tenant, looked_at).is_err() {
        control.stop();
    }
}

/// Money in millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is cut to what there is"
)]
fn micros(money: f64) -> u64 {
    (money * 1e6).round() as u64
}

/// What the files of a directory have in bytes, and those below it.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Takes out what is for the operator alone: where the model's server is, and what it said of a key.
pub(crate) fn for_clients(event: &mut RunEvent) {
    match event {
        RunEvent::ModelFailed { error, .. } => NOT_ASKED.clone_into(error),
        RunEvent::Ended(ending) => {
            if let ExitReason::ModelFailed { error } = &mut ending.reason {
                NOT_ASKED.clone_into(error);
            }
        }
        _ => {}
    }
}

pub(crate) fn fault(error: RunError) -> Problem {
    match error {
        RunError::Session(error) => error.into(),
        RunError::NoStep(_) => Problem::new(Code::StepNotFound, error.to_string()),
        error => Problem::internal("a run", error),
    }
}

fn ended() -> Problem {
    Problem::new(Code::RunEnded, "start a new one")
}

fn refused(error: DecisionError) -> Problem {
    let code = match error {
        DecisionError::NotWaiting => Code::ApprovalNotFound,
        DecisionError::Changed => Code::ApprovalChanged,
        DecisionError::NotCode => Code::ApprovalNotCode,
        _ => Code::RunBusy,
    };
    Problem::new(code, error.to_string())
}
