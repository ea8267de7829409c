//! Starting one session: its init, its cgroups, its pipes, and the fork that goes behind the walls.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use belljar_walls::{Cgroups, Process, SessionCgroup};
use scopeguard::{ScopeGuard, guard};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::pipes::Pipes;
use super::sandbox::{Sandbox, SandboxKind, failed};
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
                self.plain_template().await?
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
        self: &Arc<Self>,
        template: &Template,
        cgroups: &Cgroups,
        options: &SessionOptions,
        filters: bool,
    ) -> Result<Started, Error> {
        let kind = SandboxKind::of(options).filter(|_| !self.is_fresh());
        let mut prepared = kind
            .as_ref()
            .and_then(|kind| self.prepared_sandboxes().take(kind));
        loop {
            let is_prepared = prepared.is_some();
            let sandbox = match prepared.take() {
                Some(sandbox) => sandbox,
                None => self.make_sandbox(cgroups, options).await?,
            };
            let entered = self.enter_sandbox(sandbox, template, cgroups, options, filters);
            match entered.await {
                // Something may have happened to it since it was made.
                Err(Error::Session(why)) if is_prepared && !template.is_dead() => {
                    tracing::debug!(%why, "a prepared sandbox could not be entered");
                }
                Err(error) => return Err(error),
                Ok(started) => {
                    if let Some(kind) = kind {
                        self.expect_another(kind, options);
                    }
                    return Ok(started);
                }
            }
        }
    }

    async fn enter_sandbox(
        &self,
        sandbox: Sandbox,
        template: &Template,
        cgroups: &Cgroups,
        options: &SessionOptions,
        filters: bool,
    ) -> Result<Started, Error> {
        let mut sandbox = guard(sandbox, |sandbox| self.remove_sandbox(&sandbox));
        if let Some(wait) = cgroups.expect_join() {
            tokio::task::spawn_blocking(wait);
        }
        let pipes = Pipes::new().map_err(Error::io("a session's pipes"))?;
        let joins = sandbox.cgroup.joins();
        let joins = joins.map_err(Error::io("a session's cgroups"))?;
        let listener = match options.network {
            Network::Allow(_) => sandbox.walls.pop(),
            Network::None => None,
        };
        let mut descriptors: Vec<_> = sandbox.walls.iter().map(AsFd::as_fd).collect();
        descriptors.extend(pipes.theirs.iter().map(AsFd::as_fd));
        descriptors.extend(joins.iter().map(AsFd::as_fd));
        let walls = ForkWalls::Behind {
            filters,
            proxy: listener.is_some(),
            checkpoints: options.checkpoints,
        };
        let limits = &options.limits;
        let interpreter = self
            .fork(template, sandbox.id, limits, walls, &descriptors)
            .await?;
        let sandbox = ScopeGuard::into_inner(sandbox);
        Ok(Started {
            id: sandbox.id,
            control: pipes.control,
            interrupts: pipes.interrupts,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            init: Some((sandbox.init, sandbox.mounts)),
            interpreter,
            workspace: sandbox.workspace,
            cgroup: Some(sandbox.cgroup),
            listener,
            watches: Some(sandbox.watches),
            exit: sandbox.exit,
        })
    }

    /// `--walls=none`: an ordinary process in a directory of the host.
    async fn start_without_walls(
        &self,
        template: &Template,
        options: &SessionOptions,
    ) -> Result<Started, Error> {
        let (id, _, exit) = self.expect_session()?;
        let expected = guard((), |()| self.forget(id));
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
        ScopeGuard::into_inner(expected);
        Ok(Started {
            id,
            control: pipes.control,
            interrupts: pipes.interrupts,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            init: None,
            interpreter,
            workspace: workspace.into(),
            cgroup: None,
            listener: None,
            watches: None,
            exit,
        })
    }

    async fn fork(
        &self,
        template: &Template,
        id: u64,
        limits: &Limits,
        walls: ForkWalls<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Process, Error> {
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
