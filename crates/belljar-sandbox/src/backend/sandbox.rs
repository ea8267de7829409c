//! The sandbox of a session: its init, its namespaces and mounts, and its cgroups, all that there is before
//! an interpreter enters it.
//!
//! A sandbox is more than a millisecond of work that depends on nothing but limits. So an engine can prepare
//! one whenever a session has started, for the next session of the same kind.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use belljar_walls::{CgroupLimits, Cgroups, Process, SessionCgroup, SetupError};
use scopeguard::{ScopeGuard, guard};
use tokio::sync::oneshot;

use super::cgroups::{cgroup_limits, group_of};
use super::warm::{PATIENCE, WarmBackend};
use crate::error::Error;
use crate::options::SessionOptions;
use crate::session::network::Network;

#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: u64,
    pub(crate) init: Process,
    /// Its mount namespace.
    pub(crate) mounts: OwnedFd,
    pub(crate) workspace: OwnedFd,
    /// Where init is asked how orphans end.
    pub(crate) watches: OwnedFd,
    /// What the interpreter enters: namespaces, Landlock rules; and the proxy's listener, if any.
    pub(crate) walls: Vec<OwnedFd>,
    pub(crate) cgroup: SessionCgroup,
    /// The wait status of the interpreter.
    pub(crate) exit: oneshot::Receiver<i32>,
}

/// What a sandbox depends on, where it can be made before its session is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxKind {
    tenant: Option<String>,
    cgroup: CgroupLimits,
    workspace_bytes: u64,
    temporary_bytes: u64,
    inodes: u64,
}

impl SandboxKind {
    /// None for a sandbox with directories of the host or a proxy.
    pub(crate) fn of(options: &SessionOptions) -> Option<Self> {
        let limits = &options.limits;
        (options.mounts.is_empty() && options.network == Network::None).then(|| Self {
            tenant: options.tenant.clone(),
            cgroup: cgroup_limits(limits),
            workspace_bytes: limits.workspace_bytes,
            temporary_bytes: limits.temporary_bytes,
            inodes: limits.inodes,
        })
    }
}

/// Sandboxes that nobody is in, the oldest first.
#[derive(Debug)]
pub(crate) struct PreparedSandboxes {
    most: usize,
    sandboxes: VecDeque<(SandboxKind, Sandbox)>,
}

impl PreparedSandboxes {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            sandboxes: VecDeque::new(),
        }
    }

    pub(crate) fn take(&mut self, kind: &SandboxKind) -> Option<Sandbox> {
        let index = self.sandboxes.iter().position(|(of, _)| of == kind)?;
        self.sandboxes.remove(index).map(|(_, sandbox)| sandbox)
    }

    fn wants(&self, kind: &SandboxKind) -> bool {
        self.most > 0 && self.sandboxes.iter().all(|(of, _)| of != kind)
    }

    /// Returns the sandbox that gives way to it.
    fn add(&mut self, kind: SandboxKind, sandbox: Sandbox) -> Option<Sandbox> {
        self.sandboxes.push_back((kind, sandbox));
        let too_many = self.sandboxes.len() > self.most;
        let first = too_many.then(|| self.sandboxes.pop_front());
        first.flatten().map(|(_, sandbox)| sandbox)
    }
}

impl WarmBackend {
    /// Makes a sandbox for a session with these options.
    pub(crate) async fn make_sandbox(
        &self,
        cgroups: &Cgroups,
        options: &SessionOptions,
    ) -> Result<Sandbox, Error> {
        let (id, offer, exit) = self.expect_session()?;
        // If a step fails, or the caller goes away, what was made is removed.
        let expected = guard((), |()| self.forget(id));
        self.ask_for_init(id, options).await?;

        // While the init makes its mounts:
        let group = options.tenant.as_deref().map(group_of);
        let limits = cgroup_limits(&options.limits);
        let cgroup = cgroups.session(&id.to_string(), group.as_deref(), limits)?;
        let cgroup = guard(cgroup, |cgroup| self.discard(&cgroup));

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
        let init = guard(Process::new(init), |init| drop(init.kill()));
        let walls: Vec<OwnedFd> = offer.collect();
        // After pid and user.
        let Some(Ok(mounts)) = walls.get(2).map(OwnedFd::try_clone) else {
            return Err(failed("its init sent too little"));
        };
        ScopeGuard::into_inner(expected);
        Ok(Sandbox {
            id,
            init: ScopeGuard::into_inner(init),
            mounts,
            workspace,
            watches,
            walls,
            cgroup: ScopeGuard::into_inner(cgroup),
            exit,
        })
    }

    /// Removes a sandbox that no session is in.
    pub(crate) fn remove_sandbox(&self, sandbox: &Sandbox) {
        let _ = sandbox.init.kill();
        self.discard(&sandbox.cgroup);
        self.forget(sandbox.id);
    }

    /// Begins to make a sandbox for the next session of this kind, unless there is one.
    pub(crate) fn expect_another(self: &Arc<Self>, kind: SandboxKind, options: &SessionOptions) {
        if !self.prepared_sandboxes().wants(&kind) {
            return;
        }
        // Without the session's secrets and the rest, which a sandbox has no use for.
        let options = SessionOptions {
            limits: options.limits.clone(),
            tenant: options.tenant.clone(),
            ..SessionOptions::default()
        };
        tokio::spawn(Arc::clone(self).prepare_sandbox(kind, options));
    }

    async fn prepare_sandbox(self: Arc<Self>, kind: SandboxKind, options: SessionOptions) {
        let Some(cgroups) = self.cgroups() else {
            return;
        };
        match self.make_sandbox(cgroups, &options).await {
            Ok(sandbox) => {
                let id = sandbox.id;
                let displaced = self.prepared_sandboxes().add(kind, sandbox);
                if let Some(sandbox) = displaced {
                    self.remove_sandbox(&sandbox);
                }
                tracing::debug!(id, "a sandbox is prepared");
            }
            Err(error) => tracing::debug!(%error, "a prepared sandbox could not be made"),
        }
    }
}

/// A process that a session needs is gone, or does not answer.
pub(super) fn failed(why: &'static str) -> Error {
    Error::Session(SetupError::Process(why))
}
