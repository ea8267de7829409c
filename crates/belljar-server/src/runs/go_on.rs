//! Runs when a service starts and stops: those that an earlier one was at go on, and all are left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_journal::RunId;

use super::{Runs, fault};
use crate::problem::Problem;
use crate::tenants::TenantName;

/// How long it takes until runs that there was no place for are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs of a page of the journal.
const PAGE: usize = 200;

impl Runs {
    /// Goes on with the runs that an earlier service was at; those that wait for a person wait on.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let runs = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = runs.leave.clone();
            tokio::select! {
                () = runs.resume_all() => {}
                () = stop.cancelled() => {}
                () = runs.abandon.cancelled() => {}
            }
        });
    }

    async fn resume_all(self: &Arc<Self>) {
        let mut open = Vec::new();
        let directories = std::fs::read_dir(&self.directory).into_iter().flatten();
        for directory in directories.flatten() {
            let name = directory.file_name();
            let Some(tenant) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match self.unfinished(&tenant).await {
                Ok(runs) => open.extend(runs.into_iter().map(|run| (tenant.clone(), run))),
                // One tenant's damage is no other's.
                Err(problem) => tracing::error!(%tenant, problem.detail, "runs can't be read"),
            }
        }
        while !open.is_empty() {
            let mut left = Vec::new();
            for (tenant, id) in open {
                match self.resume(&tenant, &id).await {
                    Ok(()) => tracing::info!(run = %id, "a run goes on"),
                    Err(problem) if problem.code.retry() => left.push((tenant, id)),
                    Err(problem) => {
                        tracing::error!(run = %id, problem.detail, "a run can't go on");
                    }
                }
            }
            open = left;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Runs of a tenant that have not ended and wait for nobody, the oldest first.
    async fn unfinished(&self, tenant: &TenantName) -> Result<Vec<RunId>, Problem> {
        let directory = self.make_directory(tenant).await?;
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = directory.journal().runs(before.as_ref(), PAGE).await;
            let page = page.map_err(|error| fault(error.into()))?;
            let Some(last) = page.last() else { break };
            before = Some(last.first.run.clone());
            for summary in page.iter().filter(|summary| summary.last.kind != "ended") {
                let id = summary.first.run.clone();
                let recorded = self.read(tenant, id.as_str()).await;
                // One that can't be read, such as one of a newer Belljar, hinders no other.
                if recorded.is_ok_and(|recorded| recorded.run.undecided().is_empty()) {
                    found.push(id);
                }
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Leaves all runs, each after the calls that it is at, or at this time.
    pub(crate) async fn leave(&self, deadline: Instant) {
        self.leave.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout_at(deadline.into(), self.tasks.wait()).await;
        self.abandon.cancel();
        self.tasks.wait().await;
    }

    /// Leaves all runs at once.
    pub(crate) fn abandon(&self) {
        self.abandon.cancel();
    }
}
