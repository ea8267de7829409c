//! Deleting runs that have ended, and what they leave on disk.

use std::sync::Arc;
use std::time::Instant;

use belljar_agent::RunError;
use belljar_journal::RunId;
use tokio::sync::RwLock;

use super::reach::{LOOK, PATIENCE};
use super::{Runs, fault, last_event};
use crate::lock::lock;
use crate::problem::{Code, Problem};
use crate::tenants::{TenantName, Tenants};

impl Runs {
    /// Deletes an ended run. Runs that continue it stay unchanged.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        tenants: &Tenants,
        tenant: &TenantName,
        id: &str,
    ) -> Result<(), Problem> {
        let (id, directory) = self.find(tenant, id).await?;
        if !last_event(directory.journal(), &id).await?.is_end
            && !self.is_unreadable(tenant, &id).await
        {
            let detail = "cancel the run, and delete it when it has ended";
            return Err(Problem::new(Code::RunNotEnded, detail));
        }
        let until = Instant::now() + PATIENCE;
        // Files first: that makes space, where the rest needs some.
        let held = loop {
            match directory.delete_files(&id).await {
                // Its session is just being closed.
                Err(RunError::Driven(_)) if Instant::now() < until => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(RunError::Driven(_)) => return Err(Problem::new(Code::RunBusy, "retry")),
                held => break held.map_err(fault)?,
            }
        };
        let half_done = |problem: Problem| {
            problem.because("the files of the run are gone and its events are not; delete it again")
        };
        // Before its events: a request that comes again must not begin it anew.
        let forgotten = tenants.forget_run(tenant, id.as_str()).await;
        forgotten.map_err(|error| half_done(error.into()))?;
        let removed = directory.journal().remove(&id).await;
        removed.map_err(|error| half_done(fault(error.into())))?;
        drop(held);
        if self.membership.is_some() {
            self.remove_objects(directory, id);
            return Ok(());
        }
        lock(&self.unswept).insert(tenant.clone());
        self.sweep(tenant);
        Ok(())
    }

    /// Whether a run can't be read, and so can neither be resumed nor cancelled: it is from a newer
    /// version, or its events are damaged.
    async fn is_unreadable(&self, tenant: &TenantName, id: &RunId) -> bool {
        let read = self.read(tenant, id.as_str()).await;
        !self.is_driven(id) && read.is_err_and(|problem| problem.code == Code::Internal)
    }

    /// Removes the remains of a tenant's deleted runs if no run is running; else this happens after
    /// the last one.
    pub(super) fn sweep(self: &Arc<Self>, tenant: &TenantName) {
        if !lock(&self.unswept).contains(tenant) {
            return;
        }
        let (runs, tenant) = (Arc::clone(self), tenant.clone());
        self.tasks.spawn(async move {
            // Once more where another was deleted meanwhile, whose own try found this one at it.
            while lock(&runs.unswept).contains(&tenant) {
                let Ok(_alone) = runs.writing(&tenant).try_write_owned() else {
                    return;
                };
                lock(&runs.unswept).remove(&tenant);
                let swept = match runs.make_directory(&tenant).await {
                    Ok(directory) => directory.sweep().await.map_err(fault),
                    Err(problem) => Err(problem),
                };
                if let Err(problem) = swept {
                    tracing::error!(%tenant, problem.detail, "cannot remove the remains of deleted runs");
                    // The next run that ends or is deleted tries again.
                    lock(&runs.unswept).insert(tenant);
                    return;
                }
            }
        });
    }

    pub(super) fn writing(&self, tenant: &TenantName) -> Arc<RwLock<()>> {
        Arc::clone(lock(&self.writing).entry(tenant.clone()).or_default())
    }
}
