//! Deleting runs that have ended, and what they leave on disk.

use std::sync::Arc;
use std::time::Instant;

use belljar_agent::RunError;
use tokio::sync::RwLock;

use super::reach::{LOOK, PATIENCE};
use super::{Runs, fault, last_event};
use crate::problem::{Code, Problem};
use crate::sessions::lock;
use crate::tenants::{TenantName, Tenants};

impl Runs {
    /// Deletes a run that has ended. Those that went on from it stay as they are.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        tenants: &Tenants,
        tenant: &TenantName,
        id: &str,
    ) -> Result<(), Problem> {
        let (id, directory) = self.find(tenant, id).await?;
        if !last_event(directory.journal(), &id).await?.is_end {
            let detail = "cancel it, and delete it when it has ended";
            return Err(Problem::new(Code::RunNotEnded, detail));
        }
        // First: a request that comes again must not begin it anew.
        let forgotten = tenants.forget_run(tenant, id.as_str()).await;
        forgotten.map_err(|error| Problem::internal("a key of a run", error))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match directory.delete(&id).await {
                // Its session is just being closed.
                Err(RunError::Driven(_)) if Instant::now() < until => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(RunError::Driven(_)) => return Err(Problem::new(Code::RunBusy, "try again")),
                deleted => break deleted.map_err(fault)?,
            }
        }
        lock(&self.unswept).insert(tenant.clone());
        self.sweep(tenant);
        Ok(())
    }

    /// Removes what the deleted runs of a tenant have left, if none of its runs goes on; else it is done when the last
    /// of them is let go.
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
                    tracing::error!(%tenant, problem.detail, "what deleted runs left is there still");
                }
            }
        });
    }

    pub(super) fn writing(&self, tenant: &TenantName) -> Arc<RwLock<()>> {
        Arc::clone(lock(&self.writing).entry(tenant.clone()).or_default())
    }
}
