//! How runs begin, within what their tenants may use.

use std::path::Path;
use std::sync::Arc;

use belljar_agent::{Agent, Start};
use belljar_journal::RunId;
use belljar_sandbox::DiskAllowance;
use belljar_sandbox::protocol::Walls;
use tokio::sync::OwnedRwLockReadGuard;

use super::{Runs, fault};
use crate::accounts::exceeded;
use crate::admission::Permit;
use crate::problem::Problem;
use crate::tenants::{Quota, TenantName};

/// What a run holds while it is driven.
#[derive(Debug)]
pub(super) struct RunPermits {
    pub(super) run: Permit,
    _session: Permit,
    /// That it may write.
    _writes: OwnedRwLockReadGuard<()>,
}

/// That a new run of a tenant may begin: there is no other way to [`Runs::start`] one.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) agent: Agent,
    permits: RunPermits,
}

impl Admitted {
    /// For the run with this id, before its files are stored.
    pub(crate) fn for_run(mut self, id: &RunId) -> Self {
        self.agent = self.agent.for_run(id);
        self
    }
}

impl Runs {
    /// Disk use of a tenant: runs, hibernated sessions, uploads and downloads.
    pub(crate) async fn disk_bytes(&self, tenant: &TenantName) -> Result<u64, Problem> {
        let path = self.directory.join(tenant.as_str());
        let size = tokio::task::spawn_blocking(move || size(&path)).await;
        let size =
            size.map_err(|error| Problem::internal("cannot read the size of runs", error))?;
        let mut stored = 0;
        if let Some(objects) = &self.objects {
            let objects = self.objects_of(objects, tenant);
            let listed = objects.list(|_, bytes| stored += bytes).await;
            listed.map_err(|error| fault(error.into()))?;
        }
        Ok(self.admission.set_runs_bytes(tenant, size + stored))
    }

    /// Disk account of a tenant's uploads, downloads and hibernated sessions.
    pub(crate) async fn disk(&self, tenant: &TenantName) -> Result<Arc<DiskAllowance>, Problem> {
        if !self.admission.is_disk_measured(tenant) {
            self.disk_bytes(tenant).await?;
        }
        Ok(self.admission.disk(tenant))
    }

    /// Refuses a run of a tenant that has as much on disk as it may.
    async fn check_disk(&self, tenant: &TenantName) -> Result<(), Problem> {
        if let Some(limit) = self.admission.disk_quota(tenant) {
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
        let isolation = self.isolation(start, self.admission.isolation.get(tenant))?;
        // It stays there, whatever the default is when it is resumed.
        start.isolation = Some(isolation);
        let permits = self.permits(tenant, isolation).await?;
        self.check_disk(tenant).await?;
        let priced = model.provider.profile().prices.is_some();
        self.admission.cut(tenant, &mut start.budget, priced);
        let directory = self.make_directory(tenant).await?;
        let agent = self.agent(tenant, &directory, model);
        Ok(Admitted { agent, permits })
    }

    /// The isolation of a run's session, of what is offered.
    pub(super) fn isolation(&self, start: &Start, least: Option<Walls>) -> Result<Walls, Problem> {
        let isolation = start.isolation.map(Walls::as_str);
        let environment = start.environment.as_deref();
        Ok(self.engines.choose(environment, isolation, least)?.walls())
    }

    /// Permits for a run and for its session.
    pub(super) async fn permits(
        &self,
        tenant: &TenantName,
        isolation: Walls,
    ) -> Result<RunPermits, Problem> {
        let run = self.admission.run(tenant)?;
        let memory = self.session.limits.memory_bytes;
        let session = self.admission.sessions(tenant, 1, memory, isolation)?;
        let session = session.into_iter().next();
        let session =
            session.ok_or_else(|| Problem::internal("no session permit", "there is none"))?;
        Ok(RunPermits {
            run,
            _session: session,
            _writes: self.writing(tenant).read_owned().await,
        })
    }

    /// Starts a run, which may continue another one after one of its steps. Its tenant is on disk before.
    pub(crate) async fn start(
        self: &Arc<Self>,
        Admitted { agent, permits }: Admitted,
        id: RunId,
        start: Start,
        parent: Option<(&RunId, Option<u32>)>,
    ) -> Result<(), Problem> {
        let live = match parent {
            None => Box::pin(agent.start_as(id, start)).await,
            Some((parent, step)) => Box::pin(agent.start_from(id, start, parent, step)).await,
        };
        let live = live.map_err(fault)?;
        self.drive(live, permits);
        Ok(())
    }
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
