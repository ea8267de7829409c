//! Starting one session: its init, its cgroups, its pipes, and the fork that goes behind the walls.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use belljar_walls::{Cgroups, Process, SessionCgroup, SetupError};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::cgroups::{cgroup_limits, group_of};
use super::pipes::Pipes;
use super::process::process_limits;
use super::template::{ForkWalls, Template};
use super::warm::{PATIENCE, WarmBackend};
use crate::capabilities::Capability;
use crate::error::Error;
use crate::limits::Limits;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::network::Network;

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
    pub(crate) workspace: OwnedFd,
    /// None where there are no walls.
    pub(crate) cgroup: Option<SessionCgroup>,
    /// Where the session asks for the network, if it may.
    pub(crate) listener: Option<OwnedFd>,
    /// Where init is asked how orphans end. None where there are no walls.
    pub(crate) watches: Option<OwnedFd>,
    pub(crate) exit: oneshot::Receiver<i32>,
}

impl WarmBackend {
    /// Starts a session; retries once if the template died under it.
    pub(crate) async fn start_session(
        self: &Arc<Self>,
        options: &SessionOptions,
        filters: bool,
    ) -> Result<Started, Error> {
        if options.network != Network::None {
            self.capabilities().require(Capability::AllowLists)?;
        }
        if !options.mounts.is_empty() {
            self.capabilities().require(Capability::Directories)?;
        }
        if options.checkpoints != Checkpoints::Off {
            self.capabilities().require(Capability::Checkpoints)?;
        }
        for _ in 0..2 {
            let template = if self.is_fresh() {
                self.fresh_template().await?
            } else {
                self.template(&options.tenant).await?
            };
            let started = match self.cgroups() {
                Some(cgroups) => {
                    self.start_behind_walls(&template, cgroups, options, filters)
                        .await
                }
                None => self.start_without_walls(&template, options).await,
            };
            if self.is_fresh() {
                template.retire();
            }
            match started {
                Err(Error::Session(why)) if template.is_dead() => {
                    tracing::debug!(%why, "the template died while a session started");
                }
                result => return result,
            }
        }
        Err(failed("the template died twice"))
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
        if let Some(wait) = cgroups.expect_join() {
            tokio::task::spawn_blocking(wait);
        }
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let joins = cgroup.joins().map_err(Error::io("a session's cgroups"))?;

        let mut offer = match tokio::time::timeout(PATIENCE, offer).await {
            Ok(Ok(Ok(offer))) => offer.into_iter(),
            Ok(Ok(Err(error))) => return Err(Error::Session(error)),
            Ok(Err(_)) => return Err(failed("the spawner died")),
            Err(_) => return Err(failed("its init did not answer")),
        };
        let (Some(init), Some(workspace), Some(watches)) =
            (offer.next(), offer.next(), offer.next())
        else {
            return Err(failed("its init sent too little"));
        };
        starting.watches = Some(watches);
        let mut walls: Vec<OwnedFd> = offer.collect();
        // After pid and user.
        let mounts = walls.get(2).map(OwnedFd::try_clone);
        let Some(Ok(mounts)) = mounts else {
            return Err(failed("its init sent too little"));
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
        Ok(starting.finish(pipes, interpreter, workspace, exit))
    }

    /// `--walls=none`: an ordinary process in a directory of the host.
    async fn start_without_walls(
        &self,
        template: &Template,
        options: &SessionOptions,
    ) -> Result<Started, Error> {
        let (id, _, exit) = self.expect_session()?;
        let starting = Starting::new(self, id);
        let path = self.directory().workspace(id);
        let workspace = fs::create_dir_all(&path)
            .and_then(|()| File::open(&path))
            .map_err(Error::io("a session's directory"))?;
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let descriptors: Vec<_> = pipes.theirs.iter().map(AsFd::as_fd).collect();
        let walls = ForkWalls::None { workspace: &path };
        let interpreter = self
            .fork(template, id, &options.limits, walls, &descriptors)
            .await?;
        Ok(starting.finish(pipes, interpreter, workspace.into(), exit))
    }

    async fn fork(
        &self,
        template: &Template,
        id: u64,
        limits: &Limits,
        walls: ForkWalls<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Process, Error> {
        let limits = process_limits(limits, template.report.data_bytes);
        let fork = template.fork(id, limits, walls, descriptors);
        let (pid, interpreter) = match tokio::time::timeout(PATIENCE, fork).await {
            Ok(Ok(forked)) => forked,
            Ok(Err(error)) => return Err(Error::Session(error)),
            Err(_) => return Err(failed("the template did not answer")),
        };
        self.set_interpreter(id, pid);
        Ok(Process::new(interpreter))
    }
}

/// A process that a session needs is gone, or does not answer.
fn failed(why: &'static str) -> Error {
    Error::Session(SetupError::Process(why))
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
        workspace: OwnedFd,
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
