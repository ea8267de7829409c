//! The engine: where sessions come from.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use belljar_protocol::Walls;

use crate::backend::running::RunningBackend;
use crate::backend::spec::BackendSpec;
use crate::backend::supervisor::Supervisor;
use crate::capabilities::{Capabilities, Capability};
use crate::environment::Environment;
use crate::error::Error;
use crate::host_directory::HostDirectory;
use crate::limits::Limits;
use crate::lock::lock;
use crate::options::{Backend, Checkpoints, Rotation, SessionOptions};
use crate::session::Session;
use crate::session::packages::{PackageStore, Packages};
use crate::session::start::start;
use crate::session::tools::Toolset;
use crate::state::lifecycle::DetachedSession;
use crate::state::snapshot::{LoadReport, check_python, fill, open_snapshot};

/// Delay between taking a pooled session and starting the next one.
const REFILL_PAUSE: Duration = Duration::from_millis(20);

/// Options of an engine.
#[derive(Debug)]
pub struct EngineBuilder {
    environment: Environment,
    limits: Limits,
    checkpoints: Checkpoints,
    pool_size: usize,
    prepared_sandboxes: usize,
    backend: Backend,
    rotation: Rotation,
    packages: Packages,
    package_store: Option<PackageStore>,
    walls: Walls,
    directories: Vec<HostDirectory>,
}

impl EngineBuilder {
    /// Limits of sessions that are started without their own.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// When checkpoints are made of sessions that are started without their own options.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Size of the warm pool: sessions that are started before they are requested. None by default:
    /// each holds a few megabytes, and a session without the pool still starts in milliseconds.
    #[must_use]
    pub fn warm_pool(mut self, sessions: usize) -> Self {
        self.pool_size = sessions;
        self
    }

    /// How many prepared sandboxes the engine keeps: the namespaces, mounts and cgroups of a session, made when
    /// another has started, for the next one of the same tenant and limits. None by default: each holds a
    /// process and some kernel memory, which pays off where sessions start all the time.
    #[must_use]
    pub fn prepared_sandboxes(mut self, sandboxes: usize) -> Self {
        self.prepared_sandboxes = sandboxes;
        self
    }

    /// Where the interpreters of sessions come from: forks of a warmed template by default.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// When templates are replaced: by default only when they die.
    #[must_use]
    pub fn rotation(mut self, rotation: Rotation) -> Self {
        self.rotation = rotation;
        self
    }

    /// Which packages [`Session::install`] may install, for sessions without their own options;
    /// none by default. With any other policy, sessions see a directory of the data directory, in
    /// which layers of packages appear.
    #[must_use]
    pub fn packages(mut self, packages: Packages) -> Self {
        self.packages = packages;
        self
    }

    /// Where packages are stored and downloaded from, instead of the data directory and the index
    /// of `uv`.
    #[must_use]
    pub fn package_store(mut self, store: PackageStore) -> Self {
        self.package_store = Some(store);
        self
    }

    /// A directory of the host that sessions can see, in `/data` under its name: those that
    /// [request it](SessionOptions::mounts). What is written to it is no part of checkpoints and snapshots, and
    /// doesn't count towards the session's limits; forks can only read it.
    #[must_use]
    pub fn mount(mut self, directory: HostDirectory) -> Self {
        self.directories.push(directory);
        self
    }

    /// No walls at all: code runs as an ordinary process of the host's user, and can read and
    /// change whatever that user can. Limits on memory, CPUs and processes are not enforced. What a
    /// session leaves running ends only with the engine. Every outcome says so. For hosts that
    /// can't provide walls, and code that you would run yourself.
    #[must_use]
    pub fn without_walls(mut self) -> Self {
        self.walls = Walls::None;
        self
    }

    /// Each session has a kernel of its own: a sandbox of [gVisor](https://gvisor.dev), whose `runsc` of 2024 or later
    /// must be in `PATH`. For code of tenants who may know a bug of the host's kernel. A session starts in seconds, so
    /// keep a [warm pool](Self::warm_pool), and takes the memory of a whole interpreter and of that kernel.
    #[must_use]
    pub fn gvisor(mut self) -> Self {
        self.walls = Walls::Gvisor;
        self
    }

    /// Builds the engine. Nothing runs until the first session is requested, or [`Engine::warm`].
    pub fn build(self) -> Engine {
        let walls = match (self.environment.image(), self.walls) {
            // Refused when the first session is requested.
            (_, Walls::Gvisor) => Walls::Gvisor,
            (Some(_), _) => Walls::Container,
            (None, walls) => walls,
        };
        let spec = BackendSpec {
            environment: self.environment,
            backend: self.backend,
            rotation: self.rotation,
            prepared_sandboxes: self.prepared_sandboxes,
            packages: self.packages.clone(),
            package_store: self.package_store,
            walls,
            directories: self.directories,
        };
        Engine(Arc::new(Inner {
            limits: self.limits,
            checkpoints: self.checkpoints,
            pool_size: self.pool_size,
            packages: self.packages,
            supervisor: Arc::new(Supervisor::new(spec)),
            ready: Mutex::default(),
            filling: tokio::sync::Mutex::default(),
        }))
    }
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    checkpoints: Checkpoints,
    pool_size: usize,
    packages: Packages,
    supervisor: Arc<Supervisor>,
    ready: Mutex<VecDeque<Session>>,
    filling: tokio::sync::Mutex<()>,
}

/// Starts sessions of one environment. Cheap to clone; its processes end with the last clone and
/// the last session.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

impl Engine {
    /// A builder of an engine whose sessions start from this environment.
    pub fn builder(environment: Environment) -> EngineBuilder {
        EngineBuilder {
            environment,
            limits: Limits::default(),
            checkpoints: Checkpoints::default(),
            pool_size: 0,
            prepared_sandboxes: 0,
            backend: Backend::default(),
            rotation: Rotation::default(),
            packages: Packages::default(),
            package_store: None,
            walls: Walls::Full,
            directories: Vec::new(),
        }
    }

    /// Starts the template, which takes as long as importing its preload list, and fills the warm
    /// pool. Otherwise the first session does it.
    pub async fn warm(&self) -> Result<(), Error> {
        self.running().await?;
        self.fill_pool().await
    }

    /// Starts a session with the engine's options, from the warm pool if a pooled session is ready.
    pub async fn session(&self) -> Result<Session, Error> {
        let pooled = self.ready().pop_front();
        if self.0.pool_size > 0 {
            let engine = self.clone();
            tokio::spawn(async move {
                // Not at once: starting one would compete with the first cell of the session just
                // taken.
                tokio::time::sleep(REFILL_PAUSE).await;
                if let Err(error) = engine.fill_pool().await {
                    tracing::warn!(%error, "a pooled session could not be started");
                }
            });
        }
        match pooled {
            Some(session) if session.is_alive() => Ok(session),
            _ => self.session_with(self.options()).await,
        }
    }

    /// Starts a session with limits or other options of its own.
    pub async fn session_with(&self, options: impl Into<SessionOptions>) -> Result<Session, Error> {
        self.start_session(options.into(), true).await
    }

    /// Starts a new session from a snapshot; also returns which of its names were loaded. The file
    /// is checked first; only the new session opens its variables, behind its walls.
    pub async fn load(
        &self,
        snapshot: &Path,
        options: impl Into<SessionOptions>,
    ) -> Result<(Session, LoadReport), Error> {
        let reader = open_snapshot(snapshot.to_owned()).await?;
        check_python(&reader, self.environment())?;
        let session = self.session_with(options).await?;
        let awake = session.lifecycle().now()?.ok_or(Error::Hibernated)?;
        let report = fill(&awake, reader).await?;
        Ok((session, report))
    }

    /// A hibernated session that [`detach`](Session::detach) of another engine has left. Its first
    /// use wakes it, and reports what was lost. Waking is refused if the environment has another
    /// Python or other packages.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if its snapshot is not there.
    pub async fn attach(
        &self,
        detached: DetachedSession,
        options: impl Into<SessionOptions>,
    ) -> Result<Session, Error> {
        let options = self.with_capabilities(options.into());
        let tools = Arc::new(Toolset::new(&options.tools)?);
        let backend = self.running().await?;
        let supervisor = Arc::downgrade(&self.0.supervisor);
        let walls = self.walls();
        Session::attached(detached, options, tools, walls, backend, supervisor).await
    }

    fn with_capabilities(&self, mut options: SessionOptions) -> SessionOptions {
        if !self.makes_checkpoints() && options.checkpoints == Checkpoints::Auto {
            options.checkpoints = Checkpoints::Off;
        }
        options
    }

    /// Whether [`Checkpoints::Auto`] makes any. In gVisor a checkpoint costs a tenth of a second and some 60 MB: there
    /// they are made only on request.
    pub fn makes_checkpoints(&self) -> bool {
        self.capabilities().has(Capability::Checkpoints) && self.walls() != Walls::Gvisor
    }

    pub(crate) async fn start_session(
        &self,
        options: SessionOptions,
        filters: bool,
    ) -> Result<Session, Error> {
        let options = self.with_capabilities(options);
        let tools = Arc::new(Toolset::new(&options.tools)?);
        let walls = match self.walls() {
            Walls::Full if !filters => Walls::Unfiltered,
            walls => walls,
        };
        let mut backend = self.running().await?;
        let mut started = start(backend.clone(), &options, walls, Arc::clone(&tools)).await;
        if started.is_err() && backend.is_lost() {
            tracing::warn!("the walls went down while a session started; it gets new ones");
            backend = self.running().await?;
            started = start(backend, &options, walls, tools).await;
        }
        let supervisor = Arc::downgrade(&self.0.supervisor);
        Ok(Session::new(started?, options, supervisor))
    }

    /// Ends all sessions of this engine and everything else behind its walls, and waits until
    /// nothing is left. Dropping the engine and its sessions does the same.
    pub async fn shutdown(&self) {
        self.ready().clear();
        self.0.supervisor.stop().await;
    }

    /// The environment that sessions start from.
    pub fn environment(&self) -> &Environment {
        &self.0.supervisor.spec.environment
    }

    /// The directories of the host that its sessions can have.
    pub fn directories(&self) -> &[HostDirectory] {
        &self.0.supervisor.spec.directories
    }

    /// The isolation of its sessions.
    pub fn walls(&self) -> Walls {
        self.0.supervisor.spec.walls
    }

    /// What its sessions can do. What they can't do is refused with [`Error::Unsupported`].
    pub fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.walls())
    }

    /// The engine's default limits.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The options of sessions that are requested without any.
    pub(crate) fn options(&self) -> SessionOptions {
        SessionOptions {
            limits: self.0.limits.clone(),
            checkpoints: self.0.checkpoints,
            packages: self.0.packages.clone(),
            ..SessionOptions::default()
        }
    }

    pub(crate) async fn running(&self) -> Result<RunningBackend, Error> {
        self.0.supervisor.running().await
    }

    async fn fill_pool(&self) -> Result<(), Error> {
        // One task at a time: it continues until there are enough.
        let Ok(_filling) = self.0.filling.try_lock() else {
            return Ok(());
        };
        if self.0.pool_size > 0 {
            // Pooled sessions live long, and those that start earlier share less with the template. A
            // backend without one has nothing to wait for.
            let _ = self.wait_until_shared().await;
        }
        while self.ready().len() < self.0.pool_size {
            let session = self.session_with(self.options()).await?;
            session.rehearse().await?;
            self.ready().push_back(session);
        }
        Ok(())
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Session>> {
        lock(&self.0.ready)
    }
}
