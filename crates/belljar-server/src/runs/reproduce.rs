//! Running the code of an ended run again, within what its tenant may use.

use std::sync::Arc;

use belljar_agent::{Replayed, Reproduction, RunEvent, RunsDirectory, reproduce};
use belljar_journal::{Entry, RunId};
use belljar_sandbox::protocol::{SetBy, Walls};
use belljar_sandbox::{Engine, SessionOptions};
use tokio::sync::watch;

use super::begin::RunPermits;
use super::{Runs, fault, last_event};
use crate::problem::{Code, Problem};
use crate::tenants::{Quota, TenantName};

/// A run that may be run again: there is no other way to do it.
pub(crate) struct AdmittedReproduction {
    runs: Arc<Runs>,
    id: RunId,
    directory: RunsDirectory,
    engine: Engine,
    permits: RunPermits,
}

impl Runs {
    /// Lets the code of an ended run be run again. It counts as a run and a session.
    pub(crate) async fn admit_reproduction(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &str,
    ) -> Result<AdmittedReproduction, Problem> {
        let (id, directory) = self.find(tenant, id).await?;
        if !last_event(directory.journal(), &id).await?.is_end {
            let detail = "it can be reproduced when it has ended";
            return Err(Problem::new(Code::RunNotEnded, detail));
        }
        let first = directory.journal().read(&id, 0, 1).await;
        let first = first.map_err(|error| fault(error.into()))?;
        let (environment, isolation) = match first.first().map(Entry::decode::<RunEvent>) {
            Some(Ok(RunEvent::Started(start))) => (start.environment, start.isolation),
            _ => (None, None),
        };
        let (environment, isolation) = (environment.as_deref(), isolation.map(Walls::as_str));
        let least = self.admission.isolation.get(tenant);
        let engine = self.engines.choose(environment, isolation, least)?.clone();
        self.admission.check(tenant, &Quota::OF_CELLS)?;
        let walls = engine.walls();
        Ok(AdmittedReproduction {
            runs: Arc::clone(self),
            id,
            directory,
            engine,
            permits: self.permits(tenant, walls).await?,
        })
    }
}

impl AdmittedReproduction {
    /// Does it. `progress` gets how many parts are done, and of how many.
    pub(crate) async fn run(
        self,
        progress: watch::Sender<(usize, usize)>,
    ) -> Result<Reproduction, Problem> {
        let tenant = self.permits.run.tenant();
        let admission = &self.runs.admission;
        let options = SessionOptions {
            tenant: Some(tenant.as_str().to_owned()),
            disk: Some(admission.disk(tenant)),
            set_by: SetBy::Service,
            ..self.runs.session.clone()
        };
        let used_up = watch::Sender::new(None);
        let mut replayed = |now: Replayed<'_>| {
            if let Some(outcome) = now.outcome {
                admission.spend_cell_and_egress(tenant, outcome);
            }
            if let Err(problem) = admission.check(tenant, &Quota::OF_CELLS) {
                used_up.send_replace(Some(problem));
            }
            progress.send_replace((now.done, now.all));
        };
        let mut ends = used_up.subscribe();
        let work = reproduce(
            &self.directory,
            &self.id,
            &self.engine,
            &options,
            &mut replayed,
        );
        tokio::select! {
            reproduction = work => reproduction.map_err(fault),
            problem = ends.wait_for(Option::is_some) => {
                let problem = problem.ok().and_then(|problem| problem.clone());
                Err(problem.unwrap_or_else(Problem::draining))
            }
            () = self.runs.leave.cancelled() => Err(Problem::draining()),
        }
    }
}
