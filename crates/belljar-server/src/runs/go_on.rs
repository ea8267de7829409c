//! Runs when a service starts and stops: interrupted ones are resumed, and all are released.

use std::collections::hash_map::Entry;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_journal::RunId;

use super::{Runs, fault};
use crate::lock::lock;
use crate::problem::Problem;
use crate::tenants::TenantName;

/// How long it takes until runs that there was no permit for are tried again.
pub const AGAIN: Duration = Duration::from_secs(1);

/// How many bytes a disk must take before an interrupted run is resumed.
const PROBE: usize = 256 << 10;

/// Runs of a page of the journal.
const PAGE: usize = 200;

impl Runs {
    /// Resumes the runs of an earlier service; waiting runs keep waiting.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let runs = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = runs.leave.clone();
            let work = async {
                match &runs.membership {
                    Some(membership) => {
                        tokio::join!(runs.claim_all(membership), runs.remove_orphans(membership));
                    }
                    None => runs.resume_all().await,
                }
            };
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
                () = runs.abandon.cancelled() => {}
            }
        });
    }

    /// Resumes a run that a disk fault interrupted, as soon as the disk can be written. A cancelled
    /// run is cancelled then.
    pub(super) fn go_on_later(self: &Arc<Self>, tenant: &TenantName, id: &RunId, stop: bool) {
        if !self.note_interrupted(id, stop) {
            return;
        }
        let (runs, tenant, id) = (Arc::clone(self), tenant.clone(), id.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = runs.go_on_when_written(&tenant, &id) => {}
                () = runs.leave.cancelled() => {}
                () = runs.abandon.cancelled() => {}
            }
        });
    }

    /// Notes a run to resume; false if it is noted already.
    fn note_interrupted(&self, id: &RunId, stop: bool) -> bool {
        match lock(&self.interrupted).entry(id.clone()) {
            Entry::Occupied(mut noted) => {
                *noted.get_mut() |= stop;
                false
            }
            Entry::Vacant(free) => {
                free.insert(stop);
                true
            }
        }
    }

    async fn go_on_when_written(self: &Arc<Self>, tenant: &TenantName, id: &RunId) {
        loop {
            tokio::time::sleep(AGAIN).await;
            if !self.can_write(tenant).await {
                continue;
            }
            // Before it is taken up: it may be interrupted again at once.
            let stop = lock(&self.interrupted).remove(id).unwrap_or_default();
            let taken = if stop {
                self.cancel(tenant, id).await
            } else {
                self.resume(tenant, id).await
            };
            match taken {
                Ok(()) => return tracing::info!(run = %id, "run resumed"),
                Err(problem) if problem.code.retry() => {
                    if !self.note_interrupted(id, stop) {
                        return;
                    }
                }
                Err(problem) => {
                    return tracing::error!(run = %id, problem.detail, "cannot resume a run");
                }
            }
        }
    }

    /// Whether the disk takes what a run writes, which is found out without a session.
    async fn can_write(&self, tenant: &TenantName) -> bool {
        let directory = self.directory.join(tenant.as_str());
        let tried = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::tempfile_in(directory)?;
            file.write_all(&vec![0; PROBE])?;
            file.sync_all()
        });
        tried.await.is_ok_and(|tried| tried.is_ok())
    }

    async fn resume_all(self: &Arc<Self>) {
        let directories = std::fs::read_dir(&self.directory).into_iter().flatten();
        let names = directories.flatten().map(|directory| directory.file_name());
        let mut tenants: Vec<TenantName> = names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        let mut open = Vec::new();
        while !tenants.is_empty() || !open.is_empty() {
            for tenant in std::mem::take(&mut tenants) {
                match self.unfinished(&tenant).await {
                    Ok(runs) => open.extend(runs.into_iter().map(|run| (tenant.clone(), run))),
                    Err(problem) if problem.code.retry() => tenants.push(tenant),
                    // One tenant's damage is no other's.
                    Err(problem) => tracing::error!(%tenant, problem.detail, "cannot read runs"),
                }
            }
            for (tenant, id) in std::mem::take(&mut open) {
                match self.resume(&tenant, &id).await {
                    Ok(()) => tracing::info!(run = %id, "run resumed"),
                    Err(problem) if problem.code.retry() => open.push((tenant, id)),
                    Err(problem) => {
                        tracing::error!(run = %id, problem.detail, "cannot resume a run");
                    }
                }
            }
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
                match self.read(tenant, id.as_str()).await {
                    Ok(recorded) if recorded.run.undecided().is_empty() => found.push(id),
                    Err(problem) if problem.code.retry() => return Err(problem),
                    // One that can't be read, such as one of a newer Belljar, hinders no other.
                    Ok(_) | Err(_) => {}
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
