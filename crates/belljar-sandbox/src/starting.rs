//! Starting one session: its init, its cgroups, its pipes, and the fork that goes behind the walls.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};

use belljar_protocol::{GuestFrame, HostFrame, Walls};
use belljar_walls::{Beneath, CgroupLimits, Cgroups, MOST_FORKS, Process, SessionCgroup};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::channel;
use tokio::sync::oneshot;

use crate::buffers::Share;
use crate::checkpoint_set::CheckpointSet;
use crate::error::Error;
use crate::guest::Guest;
use crate::handle::SessionHandle;
use crate::lifecycle::AwakeSession;
use crate::limits::Limits;
use crate::namespace_group::NamespaceGroup;
use crate::network::{Network, Proxy};
use crate::options::{Backend, Checkpoints, SessionOptions};
use crate::pipes::Pipes;
use crate::template::{ForkLimits, ForkWalls, Template};
use crate::tools::Toolset;
use crate::warm_backend::{PATIENCE, WarmBackend};

/// Denials that wait to be reported; more are counted.
const MAX_DENIALS: usize = 64;

/// A session that was just started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) id: u64,
    pub(crate) control: UnixStream,
    pub(crate) interrupts: OwnedFd,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    /// Its init and its mount namespace. None where there are no walls.
    pub(crate) init: Option<(Process, OwnedFd)>,
    pub(crate) interpreter: Process,
    pub(crate) workspace: Beneath,
    /// None where there are no walls.
    pub(crate) cgroup: Option<SessionCgroup>,
    /// Where the session asks for the network, if it may.
    pub(crate) listener: Option<OwnedFd>,
    /// Where init is asked how orphans end. None where there are no walls.
    pub(crate) watches: Option<OwnedFd>,
    pub(crate) exit: oneshot::Receiver<i32>,
}

impl AwakeSession {
    /// Starts a session.
    pub(crate) async fn start(
        warm: Arc<WarmBackend>,
        options: &SessionOptions,
        walls: Walls,
        tools: Arc<Toolset>,
    ) -> Result<Self, Error> {
        let Started {
            id,
            control,
            interrupts,
            stdout,
            stderr,
            init,
            interpreter,
            workspace,
            cgroup,
            listener,
            watches,
            exit,
        } = warm
            .start_session(options, walls != Walls::Unfiltered)
            .await?;
        let (reports, denials) = channel(MAX_DENIALS);
        let proxy = match (listener, &options.network) {
            (Some(listener), Network::Allow(list)) => {
                let proxy = Proxy::start(listener.into(), list.clone(), reports);
                Some(proxy.map_err(Error::io("the session's proxy"))?)
            }
            _ => None,
        };
        let namespace_group = match init.zip(watches) {
            Some(((init, mounts), watches)) => {
                let namespace_group = NamespaceGroup::new(id, init, mounts, watches, proxy);
                Some(Arc::new(
                    namespace_group.map_err(Error::io("the session's orphans"))?,
                ))
            }
            None => None,
        };
        let orphans = namespace_group
            .as_ref()
            .map(|namespace_group| namespace_group.orphans.clone());
        let checkpoints = options.checkpoints;
        let mut checkpoint_set = CheckpointSet::new(orphans, checkpoints);
        if checkpoints != Checkpoints::Off {
            checkpoint_set.stand_before(&interpreter);
        }
        let awake = Self::new(
            SessionHandle {
                id,
                limits: options.limits.clone(),
                walls,
                checkpoints,
                packages: options.packages.clone(),
                output_directory: warm.output_directory(id),
                workspace,
                writer: Mutex::default(),
                namespace_group,
                interpreter: Mutex::new(Arc::new(interpreter)),
                interrupts,
                cgroup,
                running: AtomicU32::new(0),
                ended: Mutex::default(),
                hibernated: RwLock::default(),
                tools,
                calls: Mutex::default(),
                waiting: Mutex::default(),
                slot: None,
                warm,
            },
            Guest::new(
                control,
                stdout,
                stderr,
                denials,
                exit,
                checkpoint_set,
                Share::new(options.tenant.as_deref()),
            ),
        );
        awake.grant().await?;
        Ok(awake)
    }

    /// Offers its tools to the session's code.
    async fn grant(&self) -> Result<(), Error> {
        let tools = self.handle.tools.stubs();
        if tools.is_empty() {
            return Ok(());
        }
        let calls = self.handle.limits.calls;
        let mut guest = self.guest.lock().await;
        let cgroup = self.handle.cgroup.as_ref();
        match guest.ask(&HostFrame::Grant { tools, calls }, cgroup).await {
            Ok(GuestFrame::Granted) => Ok(()),
            Ok(_) => Err(Error::Session("it did not accept its tools".into())),
            Err(error) => Err(error),
        }
    }
}

/// The CPU cgroup shared by the sessions of a tenant and its template. A tenant's name may be
/// anything; two tenants with the same number share it.
pub(crate) fn group_of(tenant: &str) -> String {
    let mut hasher = DefaultHasher::new();
    tenant.hash(&mut hasher);
    format!("tenant-{:016x}", hasher.finish())
}

impl WarmBackend {
    /// Starts a session; retries once if the template died under it.
    pub(crate) async fn start_session(
        self: &Arc<Self>,
        options: &SessionOptions,
        filters: bool,
    ) -> Result<Started, Error> {
        for _ in 0..2 {
            let template = match self.backend() {
                Backend::Warm => self.template(&options.tenant).await?,
                Backend::Fresh => self.fresh_template().await?,
            };
            let started = match self.cgroups() {
                Some(cgroups) => {
                    self.start_behind_walls(&template, cgroups, options, filters)
                        .await
                }
                None => self.start_without_walls(&template, options).await,
            };
            if self.backend() == Backend::Fresh {
                template.retire();
            }
            match started {
                Err(Error::Session(why)) if template.is_dead() => {
                    tracing::debug!(why, "the template died while a session started");
                }
                result => return result,
            }
        }
        Err(Error::Session("the template died twice".into()))
    }

    async fn start_behind_walls(
        &self,
        template: &Template,
        cgroups: &Cgroups,
        options: &SessionOptions,
        filters: bool,
    ) -> Result<Started, Error> {
        let limits = &options.limits;
        let (id, offer, exit) = self.expect_session()?;
        let mut starting = Starting::new(self, id);
        self.ask_for_init(id, options).await?;

        // While the init makes its mounts:
        let group = options.tenant.as_deref().map(group_of);
        let name = id.to_string();
        let cgroup = cgroups.session(&name, group.as_deref(), cgroup_limits(limits))?;
        let cgroup = starting.cgroup.insert(cgroup);
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let joins = cgroup.joins().map_err(Error::io("a session's cgroups"))?;

        let mut offer = match tokio::time::timeout(PATIENCE, offer).await {
            Ok(Ok(Ok(offer))) => offer.into_iter(),
            Ok(Ok(Err(error))) => return Err(Error::Session(error)),
            Ok(Err(_)) => return Err(Error::Session("the spawner died".into())),
            Err(_) => return Err(Error::Session("its init did not answer".into())),
        };
        let (Some(init), Some(workspace), Some(watches)) =
            (offer.next(), offer.next(), offer.next())
        else {
            return Err(Error::Session("its init sent too little".into()));
        };
        starting.watches = Some(watches);
        let mut walls: Vec<OwnedFd> = offer.collect();
        // After pid and user.
        let mounts = walls.get(2).map(OwnedFd::try_clone);
        let Some(Ok(mounts)) = mounts else {
            return Err(Error::Session("its init sent too little".into()));
        };
        starting.init = Some((Process::new(init), mounts));
        if let Network::Allow(_) = options.network {
            starting.listener = walls.pop();
        }
        let mut descriptors: Vec<_> = walls.iter().map(AsFd::as_fd).collect();
        descriptors.extend(pipes.theirs.iter().map(AsFd::as_fd));
        descriptors.extend(joins.iter().map(AsFd::as_fd));
        let walls = ForkWalls::Behind {
            filters,
            proxy: starting.listener.is_some(),
            checkpoints: options.checkpoints,
        };
        let interpreter = self.fork(template, id, limits, walls, &descriptors).await?;
        Ok(starting.finish(pipes, interpreter, Beneath::new(workspace), exit))
    }

    /// `--walls=none`: an ordinary process in a directory of the host.
    async fn start_without_walls(
        &self,
        template: &Template,
        options: &SessionOptions,
    ) -> Result<Started, Error> {
        if options.network != Network::None || options.checkpoints != Checkpoints::Off {
            let why = "without walls there are neither allow-lists of hosts nor checkpoints";
            return Err(Error::Session(why.into()));
        }
        let (id, _, exit) = self.expect_session()?;
        let starting = Starting::new(self, id);
        let path = self.directory().workspace(id);
        let workspace = fs::create_dir_all(&path)
            .and_then(|()| File::open(&path))
            .map_err(Error::io("a session's directory"))?;
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let descriptors = pipes.theirs.each_ref().map(AsFd::as_fd);
        let walls = ForkWalls::None { workspace: &path };
        let interpreter = self
            .fork(template, id, &options.limits, walls, &descriptors)
            .await?;
        Ok(starting.finish(pipes, interpreter, Beneath::new(workspace.into()), exit))
    }

    async fn fork(
        &self,
        template: &Template,
        id: u64,
        limits: &Limits,
        walls: ForkWalls<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Process, Error> {
        let limits = ForkLimits {
            core: 1,
            signals: 1024,
            open_files: limits.open_files,
            file_size: limits.file_bytes,
            // A little less than the session's memory, so that one process which asks for too
            // much gets a MemoryError and lives, instead of being killed by the kernel.
            data: template.report.data_bytes + limits.memory_bytes - limits.reserve_bytes(),
            // The kernel counts those of the session's forks too; the cgroup has the exact limit.
            processes: limits.processes * u64::from(1 + MOST_FORKS),
        };
        let fork = template.fork(id, limits, walls, descriptors);
        let (pid, interpreter) = match tokio::time::timeout(PATIENCE, fork).await {
            Ok(Ok(forked)) => forked,
            Ok(Err(error)) => return Err(Error::Session(error)),
            Err(_) => return Err(Error::Session("the template did not answer".into())),
        };
        self.set_interpreter(id, pid);
        Ok(Process::new(interpreter))
    }
}

pub(crate) fn cgroup_limits(limits: &Limits) -> CgroupLimits {
    CgroupLimits {
        memory_bytes: limits.memory_bytes,
        processes: limits.processes,
        milli_cpus: limits.milli_cpus,
    }
}

/// A session that is being started. If a step fails, or the caller goes away, its resources are
/// released.
struct Starting<'a> {
    warm: &'a WarmBackend,
    id: u64,
    cgroup: Option<SessionCgroup>,
    init: Option<(Process, OwnedFd)>,
    listener: Option<OwnedFd>,
    watches: Option<OwnedFd>,
}

impl<'a> Starting<'a> {
    fn new(warm: &'a WarmBackend, id: u64) -> Self {
        Self {
            warm,
            id,
            cgroup: None,
            init: None,
            listener: None,
            watches: None,
        }
    }

    /// From here on the session owns its resources.
    fn finish(
        mut self,
        pipes: Pipes,
        interpreter: Process,
        workspace: Beneath,
        exit: oneshot::Receiver<i32>,
    ) -> Started {
        let started = Started {
            id: self.id,
            control: pipes.control,
            interrupts: pipes.interrupts,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            init: self.init.take(),
            interpreter,
            workspace,
            cgroup: self.cgroup.take(),
            listener: self.listener.take(),
            watches: self.watches.take(),
            exit,
        };
        std::mem::forget(self);
        started
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some((init, _)) = &self.init {
            let _ = init.kill();
        }
        if let Some(cgroup) = &self.cgroup {
            self.warm.discard(cgroup);
        }
        self.warm.forget(self.id);
    }
}
