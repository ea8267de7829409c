//! Everything behind the walls that sessions share: keeper, spawner, template, cgroups.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use belljar_protocol::Walls;
use belljar_walls::{
    Beneath, Cgroups, Channel, CommandServerRequest, DirectoryMount, FileWriter, ForkSlotRequest,
    InitRequest, Keeper, KeeperPlan, Process, Report, Request, RootSpec, SessionCgroup, SessionIds,
    SetupError, WallsSpec, open_directory, remove_tree, session_ids,
};
use tokio::sync::oneshot;

use crate::backend::cgroups::group_of;
use crate::backend::channel::AsyncChannel;
use crate::backend::cleanup::start_cleanup_thread;
use crate::backend::directory::EngineDirectory;
use crate::backend::pulse::{Beat, Pulse, SPAWNER_TICKS};
use crate::backend::rootfs::{BOOT, DRIVER, prepare_directory, template_environment};
use crate::backend::sandbox::PreparedSandboxes;
use crate::backend::spec::BackendSpec;
use crate::backend::template::{ColdTemplate, Template};
use crate::backend::templates::Templates;
use crate::backend::waits::{Exit, Offer, Waits};
use crate::capabilities::Capabilities;
use crate::environment::Environment;
use crate::error::Error;
use crate::host_directory::{DirectoryError, HostDirectory, MAX_MOUNTS};
use crate::lock::lock;
use crate::options::{Backend, SessionOptions};
use crate::session::network::Network;
use crate::session::packages::{LAYERS, PackageStore};

/// How long a process behind the walls may take to answer; it takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The warm half of an engine. It lives as long as the engine or one of its sessions.
#[derive(Debug)]
pub(crate) struct WarmBackend {
    environment: Environment,
    /// What templates preload: the environment's list, without modules that could not be imported.
    preload: Mutex<Vec<String>>,
    spawner: Arc<AsyncChannel>,
    waits: Mutex<Waits>,
    templates: Templates,
    prepared_sandboxes: Mutex<PreparedSandboxes>,
    backend: Backend,
    walls: Walls,
    /// None where there are no walls.
    cgroups: Option<Cgroups>,
    /// None where sessions may have no packages.
    package_store: Option<Arc<PackageStore>>,
    /// None where all sessions run as the host's own user.
    ids: Option<SessionIds>,
    /// Directories of the host that sessions can have.
    directories: Vec<HostDirectory>,
    next_id: AtomicU64,
    /// Cgroups of dead sessions, removed by a thread of their own since the kernel may need time.
    cleanup: Mutex<Option<mpsc::Sender<Vec<PathBuf>>>>,
    // Dropped last: the keeper ends all processes and removes what is left.
    keeper: Mutex<Option<Keeper>>,
    keeper_log: File,
    directory: EngineDirectory,
}

impl WarmBackend {
    /// Raises the walls and warms a template behind them.
    pub(crate) async fn start(spec: BackendSpec) -> Result<Arc<Self>, Error> {
        let package_store = spec.open_package_store()?;
        let BackendSpec {
            environment,
            backend,
            rotation,
            prepared_sandboxes,
            walls,
            directories,
            ..
        } = spec;
        let has_walls = walls != Walls::None;
        let mut directory = EngineDirectory::plan().map_err(Error::io("the engine's directory"))?;
        let plan = KeeperPlan {
            directory: directory.path().to_owned(),
            cgroup_trees: if has_walls {
                Cgroups::plan(directory.name())?
            } else {
                Vec::new()
            },
        };
        let keeper_log = tempfile::tempfile().map_err(Error::io("the keeper's log"))?;
        let log = keeper_log
            .try_clone()
            .map_err(Error::io("the keeper's log"))?;
        // From here on the keeper removes whatever is made, however this ends.
        let (mut keeper, channel) = Keeper::start(&plan, log.into())?;
        directory
            .create()
            .map_err(Error::io("the engine's directory"))?;
        let cgroups = has_walls
            .then(|| Cgroups::create(directory.name()))
            .transpose()?;
        let root = prepare_directory(&directory, cgroups.as_ref());
        let mut root = root.map_err(Error::io("the engine's directory"))?;
        if let Some(store) = &package_store {
            root.mounts.push(store.mount()?);
        }
        let ids = session_ids();
        if ids.is_none() {
            root.directories = directories
                .iter()
                .map(|directory| directory.path().to_owned())
                .collect();
        }
        keeper.raise(&WallsSpec {
            root: RootSpec {
                read_only: environment.read_only_paths().to_vec(),
                ..root
            },
            root_directory: directory.path().join("root"),
            ids,
            none: !has_walls,
        })?;
        let spawner = AsyncChannel::new(channel).map_err(Error::io("the spawner's channel"))?;
        let spawner = Arc::new(spawner);
        let (up, is_up) = oneshot::channel();
        let warm = Arc::new(Self {
            preload: Mutex::new(environment.preload().to_vec()),
            environment,
            spawner: Arc::clone(&spawner),
            waits: Mutex::new(Waits {
                up: Some(up),
                ..Waits::default()
            }),
            templates: Templates::new(rotation),
            prepared_sandboxes: Mutex::new(PreparedSandboxes::new(prepared_sandboxes)),
            backend,
            walls,
            cgroups,
            package_store: package_store.map(Arc::new),
            ids,
            directories,
            next_id: AtomicU64::new(1),
            cleanup: Mutex::new(Some(start_cleanup_thread())),
            keeper: Mutex::new(Some(keeper)),
            keeper_log,
            directory,
        });
        tokio::spawn(listen(spawner, Arc::downgrade(&warm)));
        if let Err(error) = warm.wait_until_up(is_up).await {
            // Before the caller is notified, whoever else holds this for a moment.
            let left = Arc::clone(&warm);
            let _ = tokio::task::spawn_blocking(move || left.stop()).await;
            return Err(error);
        }
        Ok(warm)
    }

    async fn wait_until_up(
        self: &Arc<Self>,
        is_up: oneshot::Receiver<Result<(), SetupError>>,
    ) -> Result<(), Error> {
        match tokio::time::timeout(PATIENCE, is_up).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(Error::Walls(error)),
            Ok(Err(_)) => return Err(Error::Walls(SetupError::Reported(self.keeper_log()))),
            Err(_) => {
                let silent = SetupError::Process("the keeper did not answer");
                return Err(Error::Walls(silent));
            }
        }
        if self.is_fresh() {
            return Ok(());
        }
        self.template(&None).await.map(drop)
    }

    pub(crate) fn prepared_sandboxes(&self) -> MutexGuard<'_, PreparedSandboxes> {
        lock(&self.prepared_sandboxes)
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Whether each session has an interpreter of its own.
    pub(crate) fn is_fresh(&self) -> bool {
        self.backend == Backend::Fresh
    }

    /// What it can do.
    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.walls)
    }

    /// None where there are no walls.
    pub(crate) fn cgroups(&self) -> Option<&Cgroups> {
        self.cgroups.as_ref()
    }

    pub(crate) fn directory(&self) -> &EngineDirectory {
        &self.directory
    }

    pub(crate) fn is_down(&self) -> bool {
        self.waits().down
    }

    /// Whether the walls went down without a shutdown.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_down() && lock(&self.keeper).is_some()
    }

    pub(crate) fn package_store(&self) -> Option<&Arc<PackageStore>> {
        self.package_store.as_ref()
    }

    /// Where its sessions see the layers of packages.
    pub(crate) fn layers_in_sessions(&self) -> PathBuf {
        match &self.package_store {
            Some(store) if self.cgroups.is_none() => store.layers(),
            _ => PathBuf::from(LAYERS),
        }
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Ends everything and waits until nothing is left.
    pub(crate) fn stop(&self) {
        self.waits().down = true;
        drop(lock(&self.cleanup).take());
        if let Some(keeper) = lock(&self.keeper).take() {
            drop(keeper);
            // The keeper has done it, unless it was killed before it could.
            for tree in self.cgroups.iter().flat_map(Cgroups::trees) {
                if let Err(error) = remove_tree(&tree) {
                    tracing::warn!(%error, "the engine's cgroup could not be removed");
                }
            }
        }
    }

    /// Starts a template and warms it. A tenant's template runs on the tenant's share of the CPUs.
    pub(crate) async fn start_template(
        &self,
        tenant: Option<&str>,
        share: bool,
    ) -> Result<Template, Error> {
        let join = match (&self.cgroups, tenant) {
            (Some(cgroups), Some(tenant)) => Some(cgroups.template(&group_of(tenant))?),
            _ => None,
        };
        loop {
            let preload = lock(&self.preload).clone();
            let ColdTemplate { why, failed } = match self
                .try_start_template(join.as_ref(), &preload, share)
                .await
            {
                Ok(template) => return Ok(template),
                Err(cold) => cold,
            };
            let wanted = |module: &String| !failed.contains(module);
            if !self.environment.preload_is_usual() || preload.iter().all(wanted) {
                return Err(Error::Template {
                    environment: self.environment.name().to_owned(),
                    why,
                });
            }
            // Anew: a module that is half imported would fail in every session in stranger ways.
            tracing::warn!(%why, "a module that is usually preloaded cannot be imported; sessions start without it");
            lock(&self.preload).retain(wanted);
        }
    }

    async fn try_start_template(
        &self,
        join: Option<&OwnedFd>,
        preload: &[String],
        share: bool,
    ) -> Result<Template, ColdTemplate> {
        let (ours, theirs) = Channel::pair().map_err(|error| error.to_string())?;
        let log = tempfile::tempfile().map_err(|error| error.to_string())?;
        let (sender, started) = oneshot::channel();
        {
            let mut waits = self.waits();
            if waits.down {
                return Err("the walls are down".into());
            }
            waits.templates.push_back(sender);
        }
        let python = self.environment.python().display().to_string();
        let driver = match self.cgroups {
            Some(_) => DRIVER.to_owned(),
            None => self.directory.driver().display().to_string(),
        };
        let request = Request::Template {
            argv: [&python, "-I", "-X", "utf8", "-c", BOOT, &driver]
                .map(str::to_owned)
                .to_vec(),
            environment: template_environment(),
        };
        let mut carried = vec![theirs.as_fd(), log.as_fd()];
        carried.extend(join.map(AsFd::as_fd));
        self.spawner
            .send(&request, &carried)
            .await
            .map_err(|error| error.to_string())?;
        drop(theirs);
        let process = tokio::time::timeout(PATIENCE, started)
            .await
            .map_err(|_| "the spawner did not answer".to_owned())?
            .map_err(|_| "the spawner died".to_owned())?;
        let channel = AsyncChannel::new(ours).map_err(|error| error.to_string())?;
        let fonts = self.environment.fonts();
        Template::warm(Process::new(process), channel, preload, fonts, share)
            .await
            .map_err(|cold| ColdTemplate {
                why: format!("{}\n{}", cold.why, last_lines(&log))
                    .trim_end()
                    .to_owned(),
                ..cold
            })
    }

    /// Removes a dead session's cgroups in the background.
    pub(crate) fn discard(&self, cgroup: &SessionCgroup) {
        let left = cgroup.leave();
        if let Some(cleanup) = &*lock(&self.cleanup) {
            let _ = cleanup.send(left);
        }
    }

    pub(crate) fn next_session_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a new session, and the receivers of what it reports: its init's offer, and the
    /// wait status of its interpreter.
    pub(crate) fn expect_session(&self) -> Result<(u64, Offer, oneshot::Receiver<i32>), Error> {
        let id = self.next_session_id();
        let (init, offer) = oneshot::channel();
        let (sender, exit) = oneshot::channel();
        let mut waits = self.waits();
        if waits.down {
            return Err(Error::Session(SetupError::Process("the walls are down")));
        }
        waits.inits.insert(id, init);
        waits.exits.insert(id, Exit { pid: None, sender });
        Ok((id, offer, exit))
    }

    /// Sets which process a session's interpreter is.
    pub(crate) fn set_interpreter(&self, id: u64, pid: i32) {
        if let Some(exit) = self.waits().exits.get_mut(&id) {
            exit.pid = Some(pid);
        }
    }

    /// Requests a session's init.
    pub(crate) async fn ask_for_init(
        &self,
        id: u64,
        options: &SessionOptions,
    ) -> Result<(), Error> {
        let limits = &options.limits;
        let owner = self.owner(id);
        let (directories, opened) = self.open_directories(owner, &options.mounts).await?;
        let request = Request::Init(InitRequest {
            id,
            owner,
            workspace_bytes: limits.workspace_bytes,
            temporary_bytes: limits.temporary_bytes,
            inodes: limits.inodes,
            proxy: options.network != Network::None,
            directories,
        });
        let opened: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
        self.spawner
            .send(&request, &opened)
            .await
            .map_err(Error::io("requesting an init"))
    }

    /// The directories of the host for a session with this owner; on a privileged host each is opened for it.
    async fn open_directories(
        &self,
        owner: u32,
        names: &[String],
    ) -> Result<(Vec<DirectoryMount>, Vec<OwnedFd>), Error> {
        let (mut mounts, mut opened) = (Vec::new(), Vec::new());
        for name in names {
            let found = self
                .directories
                .iter()
                .position(|known| known.name() == name);
            let number = found.ok_or_else(|| DirectoryError::Unknown(name.clone()))?;
            let directory = &self.directories[number];
            if mounts
                .iter()
                .any(|mount: &DirectoryMount| mount.number == number)
            {
                continue;
            }
            if mounts.len() == MAX_MOUNTS {
                return Err(DirectoryError::TooMany.into());
            }
            let writable = directory.is_writable();
            mounts.push(DirectoryMount {
                number,
                name: name.clone(),
                writable,
            });
            if let Some(ids) = self.ids {
                let path = directory.path().to_owned();
                let open = move || open_directory(&path, ids.first + owner, writable);
                let tree = tokio::task::spawn_blocking(open).await;
                let tree =
                    tree.unwrap_or_else(|error| Err(SetupError::Reported(error.to_string())));
                let why = |why| DirectoryError::NotMounted {
                    name: name.clone(),
                    why: Box::new(why),
                };
                opened.push(tree.map_err(why)?);
            }
        }
        Ok((mounts, opened))
    }

    /// Requests a fork slot in the mounts of a session.
    pub(crate) async fn ask_for_slot(
        &self,
        mounts: &OwnedFd,
        request: ForkSlotRequest,
    ) -> Result<(), Error> {
        self.spawner
            .send(&Request::ForkSlot(request), &[mounts.as_fd()])
            .await
            .map_err(Error::io("requesting a fork slot"))
    }

    /// Starts a process that writes files into a workspace, charged to this cgroup. It can copy from
    /// the source.
    pub(crate) fn start_writer(
        &self,
        workspace: &Beneath,
        cgroup: Option<&SessionCgroup>,
        source: Option<&File>,
    ) -> std::io::Result<FileWriter> {
        let (ours, theirs) = UnixStream::pair()?;
        let join = cgroup.map(SessionCgroup::writer_join).transpose()?;
        let mut carried = vec![theirs.as_fd(), workspace.as_fd()];
        carried.extend(source.map(AsFd::as_fd));
        carried.extend(join.as_ref().map(AsFd::as_fd));
        let source = source.is_some();
        let request = Request::Writer { source };
        self.spawner.send_blocking(&request, &carried)?;
        drop(theirs);
        FileWriter::new(ours)
    }

    /// Requests a session's command server.
    pub(crate) async fn start_command_server(
        &self,
        request: CommandServerRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> std::io::Result<()> {
        let request = Request::CommandServer(request);
        self.spawner.send(&request, descriptors).await
    }

    /// Releases a fork slot, or the workspace in it.
    pub(crate) fn release_slot(&self, mounts: &OwnedFd, path: PathBuf) -> std::io::Result<()> {
        self.spawner
            .send_now(&Request::ReleaseSlot { path }, &[mounts.as_fd()])
    }

    /// The owner of a session's files and processes, as an id of the spawner's user namespace.
    pub(crate) fn owner(&self, id: u64) -> u32 {
        // The first is that of the spawner and the template.
        self.ids.map_or(0, |ids| {
            1 + u32::try_from(id % u64::from(ids.count - 1)).unwrap_or(0)
        })
    }

    /// Forgets a session that is gone.
    pub(crate) fn forget(&self, id: u64) {
        let mut waits = self.waits();
        waits.inits.remove(&id);
        waits.exits.remove(&id);
        drop(waits);
        let _ = fs::remove_dir_all(self.directory.output(id));
        if self.cgroups.is_none() {
            let _ = fs::remove_dir_all(self.directory.workspace(id));
        }
    }

    /// Reports how the interpreter of a session ended.
    pub(crate) fn report_exit(&self, is_it: impl Fn(u64, Option<i32>) -> bool, status: i32) {
        self.waits().report_exit(is_it, status);
    }

    fn keeper_log(&self) -> String {
        let mut text = vec![0; 4096];
        let read = self.keeper_log.read_at(&mut text, 0).unwrap_or(0);
        String::from_utf8_lossy(&text[..read]).trim().to_owned()
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        lock(&self.waits)
    }
}

impl Drop for WarmBackend {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Handles messages from behind the walls, without keeping the walls up by itself.
async fn listen(spawner: Arc<AsyncChannel>, warm: std::sync::Weak<WarmBackend>) {
    let (mut pulse, mut ticks) = (Pulse::new(SPAWNER_TICKS), Pulse::ticks());
    loop {
        tokio::select! {
            received = spawner.receive::<Report>() => {
                let Ok(Some((report, descriptors))) = received else { break };
                let Some(warm) = warm.upgrade() else { return };
                pulse.heard();
                warm.waits().receive(report, descriptors);
            }
            _ = ticks.tick() => {
                let Some(warm) = warm.upgrade() else { return };
                let mut waits = warm.waits();
                if waits.up.is_some() || waits.down {
                    continue;
                }
                match pulse.tick(waits.are_open()) {
                    Beat::Nothing => {}
                    // Where its channel is full, it has enough to answer.
                    Beat::Ask => drop(spawner.send_now(&Request::Ping, &[])),
                    Beat::Late => {
                        tracing::error!("the spawner does not answer; new sessions get new walls");
                        waits.give_up();
                    }
                }
            }
        }
    }
    if let Some(warm) = warm.upgrade() {
        *warm.waits() = Waits {
            down: true,
            ..Waits::default()
        };
    }
}

/// The last lines that a template wrote to its standard error.
fn last_lines(log: &File) -> String {
    const MOST: u64 = 16 << 10;
    let length = log.metadata().map_or(0, |meta| meta.len());
    let mut text = vec![0; usize::try_from(length.min(MOST)).unwrap_or(0)];
    let _ = log.read_exact_at(&mut text, length.saturating_sub(MOST));
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
