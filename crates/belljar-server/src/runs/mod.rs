//! The runs of all tenants: those that are being driven, and where all of them are kept.
//!
//! Each tenant has a directory with a journal of its own. What is known of a run is read from there; in memory is
//! only what it takes to reach a running one. A run can be released at any moment, as if the host died, and be
//! resumed.

mod begin;
mod cluster;
mod counts;
mod delete;
mod drive;
mod go_on;
mod live;
mod reach;
mod reproduce;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use belljar_agent::{Agent, ExitReason, Run, RunError, RunEvent, RunsDirectory, read_events};
use belljar_journal::{Blobs, Journal, Membership, Objects, RunId};
use belljar_sandbox::protocol::SetBy;
use belljar_sandbox::{Checkpoints, EngineSet, Network, SessionOptions};
use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::lock::lock;
use crate::node::random_hex;
use crate::options::{OfferedModel, RunsOptions, ServerOptions};
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;
pub use cluster::CLAIM;
use counts::ClusterCounts;
pub(crate) use counts::InCluster;
use drive::Driven;
pub(crate) use drive::{Hearing, count};
pub use go_on::AGAIN;

/// Runs of a tenant that are held whole in memory at once, to be looked at. Who wants more waits.
const READ_AT_ONCE: usize = 4;

/// When to come again to a node that can't act for its runs, in seconds.
const FENCED_RETRY: u32 = 5;

/// What a client sees of a failed request to the model. The server's message is for the log.
const NOT_ASKED: &str = "the request to the model failed; the log of the service has the cause";

#[derive(Debug)]
pub(crate) struct Runs {
    directory: PathBuf,
    node: String,
    engines: EngineSet,
    session: SessionOptions,
    options: RunsOptions,
    objects: Option<Objects>,
    /// There in a cluster.
    membership: Option<Membership>,
    counts: ClusterCounts,
    admission: Arc<Admission>,
    known: tokio::sync::Mutex<HashMap<TenantName, RunsDirectory>>,
    readers: Mutex<HashMap<TenantName, Arc<Semaphore>>>,
    driven: Mutex<HashMap<RunId, Arc<Driven>>>,
    /// Shared by the runs of a tenant that may write. Who has it alone may remove what no event names.
    writing: Mutex<HashMap<TenantName, Arc<RwLock<()>>>>,
    /// Runs that a disk fault interrupted, and whether they are cancelled.
    interrupted: Mutex<HashMap<RunId, bool>>,
    /// Whose deleted runs have left something.
    unswept: Mutex<HashSet<TenantName>>,
    tasks: TaskTracker,
    /// Cancelled when the current life of this node in a cluster is over.
    life: Mutex<CancellationToken>,
    leave: CancellationToken,
    /// Cancelled when an operator wants this node empty.
    drained: CancellationToken,
    abandon: CancellationToken,
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
    /// Whether something drove it before it was read. One that ends meanwhile was not interrupted.
    pub(crate) was_driven: bool,
    _permit: OwnedSemaphorePermit,
}

impl Runs {
    pub(crate) fn new(
        directory: PathBuf,
        node: String,
        engines: EngineSet,
        options: &ServerOptions,
        admission: &Arc<Admission>,
        membership: Option<Membership>,
    ) -> Arc<Self> {
        Arc::new(Self {
            directory,
            node,
            engines,
            session: SessionOptions {
                // Going back when it goes in circles needs a copy of each cell.
                checkpoints: Checkpoints::Every,
                network: Network::None,
                ..options.session.clone()
            },
            options: options.runs.clone(),
            objects: options.objects.clone(),
            membership,
            counts: ClusterCounts::default(),
            admission: Arc::clone(admission),
            known: tokio::sync::Mutex::default(),
            readers: Mutex::default(),
            driven: Mutex::default(),
            writing: Mutex::default(),
            interrupted: Mutex::default(),
            unswept: Mutex::default(),
            tasks: TaskTracker::new(),
            life: Mutex::default(),
            leave: CancellationToken::new(),
            drained: CancellationToken::new(),
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
        if self.membership.is_none() && !self.directory.join(tenant.as_str()).is_dir() {
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
        let objects = self.objects.as_ref();
        let objects = objects.map(|objects| self.objects_of(objects, tenant));
        let opened = match (&self.membership, objects) {
            (Some(membership), Some(objects)) => {
                let membership = membership.clone();
                RunsDirectory::in_cluster(&path, membership, tenant.as_str(), objects).await
            }
            (_, objects) => RunsDirectory::open_with(&path, objects).await,
        };
        let opened = opened.map_err(fault)?;
        known.insert(tenant.clone(), opened.clone());
        Ok(opened)
    }

    /// What the runs of a tenant have in the object store: in a cluster, each has its own.
    fn objects_of(&self, objects: &Objects, tenant: &TenantName) -> Objects {
        let objects = match &self.membership {
            Some(_) => objects_of_runs(objects),
            None => objects.below("blobs"),
        };
        objects.below(tenant.as_str())
    }

    /// A run of this tenant. That of another is as one that is not there.
    pub(crate) async fn find(
        &self,
        tenant: &TenantName,
        id: &str,
    ) -> Result<(RunId, RunsDirectory), Problem> {
        let not_found = || {
            let id: String = id.chars().take(100).collect();
            let detail = format!("no run has the id `{}`", id.escape_debug());
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
        let permit = readers.acquire_owned().await;
        let permit = permit.map_err(|error| Problem::internal("a place to read", error))?;
        let was_driven = self.is_driven(&id) || self.elsewhere(&id).await?.is_some();
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
            was_driven,
            _permit: permit,
        })
    }

    pub(crate) fn is_driven(&self, id: &RunId) -> bool {
        lock(&self.driven).contains_key(id)
    }

    /// Live output of a running run between its events.
    pub(crate) fn parts(&self, id: &RunId, is_new: bool) -> Option<Hearing> {
        self.driven(id).map(|driven| driven.listen(is_new))
    }

    /// Whether no more events of a run are to be expected of this service.
    pub(crate) fn has_left(&self, id: &RunId) -> bool {
        self.leave.is_cancelled() && !self.is_driven(id)
    }

    fn driven(&self, id: &RunId) -> Option<Arc<Driven>> {
        lock(&self.driven).get(id).cloned()
    }

    pub(crate) fn agent(
        &self,
        tenant: &TenantName,
        directory: &RunsDirectory,
        model: &OfferedModel,
    ) -> Agent {
        let (directory, provider) = (directory.clone(), model.provider.clone());
        let agent = Agent::new(directory, self.engines.clone(), provider, None);
        agent.keep_sessions().session_options(SessionOptions {
            // Tenants never share a template.
            tenant: Some(tenant.as_str().to_owned()),
            disk: Some(self.admission.disk(tenant)),
            set_by: SetBy::Service,
            ..self.session.clone()
        })
    }

    /// The model of this name; the first without one.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<&OfferedModel, Problem> {
        let models = &self.options.models;
        let Some(first) = models.first() else {
            let detail = "the operator configures models with `--model` or in the settings";
            return Err(Problem::new(Code::NoModel, detail));
        };
        let Some(name) = name else {
            return Ok(first);
        };
        let found = models.iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            let detail = format!("it offers {}", names.join(", "));
            Problem::new(Code::ModelNotOffered, detail)
        })
    }

    /// An id for a run.
    pub(crate) fn new_id(&self) -> Result<RunId, Problem> {
        let random =
            random_hex(16).map_err(|error| Problem::internal("cannot read random bytes", error))?;
        let id = format!("{}-{random}", self.node).parse();
        id.map_err(|error| Problem::internal("invalid run id", error))
    }
}

/// Objects of the runs of a cluster: `TENANT/RUN/…`.
pub(crate) fn objects_of_runs(objects: &Objects) -> Objects {
    objects.below("runs")
}

/// Another node drives a run.
pub(crate) fn other_node(name: &str) -> Problem {
    Problem::new(Code::OtherNode, format!("it is on node `{name}`"))
}

impl Recorded {
    /// Its large values.
    pub(crate) fn blobs(&self) -> Blobs {
        self.directory.blobs(&self.id)
    }
}

/// The last event of a run.
#[derive(Debug)]
pub(crate) struct LastEvent {
    /// Its number; 0 for a run that there is not, or no longer.
    pub(crate) number: u64,
    /// Whether it is the end of the run.
    pub(crate) is_end: bool,
}

pub(crate) async fn last_event(journal: &Journal, id: &RunId) -> Result<LastEvent, Problem> {
    let fault = |error: belljar_journal::Error| fault(error.into());
    let number = journal.last_seq(id).await.map_err(fault)?;
    let last = journal.read(id, number.saturating_sub(1), 1).await;
    let last = last.map_err(fault)?;
    Ok(LastEvent {
        number,
        is_end: last.first().is_some_and(|event| event.kind == "ended"),
    })
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
        RunError::NotOffered(error) => error.into(),
        RunError::ParentCode(_) | RunError::NeedsApproval { .. } => {
            Problem::new(Code::RunNotReproducible, error.to_string())
        }
        RunError::Elsewhere { node, .. } => other_node(&node.name),
        error if error.is_of_owner() => {
            tracing::warn!(%error, "a run cannot be written");
            let detail = "it does not reach the database of the cluster, or another node has its runs; retry";
            Problem::new(Code::NodeFenced, detail).after(FENCED_RETRY)
        }
        RunError::NoStep(_) => Problem::new(Code::StepNotFound, error.to_string()),
        error => {
            let fault = error.storage_fault();
            Problem::storage("a run", error, fault)
        }
    }
}
