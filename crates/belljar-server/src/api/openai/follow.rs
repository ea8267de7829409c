//! Following a run to its end for the client that waits for it.

use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{Ending, ExitReason, RunEvent, RunsDirectory};
use belljar_journal::{Blobs, RunId};
use belljar_sandbox::protocol::Language;

use crate::problem::Problem;
use crate::run_stream::next_event;
use crate::runs::{fault, for_clients};
use crate::service::{Caller, Service};
use crate::tenants::TenantName;

/// How often it is looked at whether this service has left the run.
const LOOK: Duration = Duration::from_secs(1);

/// Somebody who reads the events of a run as they come.
pub(super) struct Follower {
    service: Arc<Service>,
    directory: RunsDirectory,
    id: RunId,
    after: u64,
    is_over: bool,
}

impl Follower {
    pub(super) async fn new(
        service: &Arc<Service>,
        caller: &Caller,
        id: &str,
    ) -> Result<Self, Problem> {
        let (id, directory) = service.runs.find(&caller.tenant, id).await?;
        Ok(Self {
            service: Arc::clone(service),
            directory,
            id,
            after: 0,
            is_over: false,
        })
    }

    /// Large values of the run.
    pub(super) fn blobs(&self) -> Blobs {
        self.directory.blobs(&self.id)
    }

    /// The next event; none after the last one. What is dropped half done is begun again.
    pub(super) async fn next(&mut self) -> Result<Option<RunEvent>, Problem> {
        while !self.is_over {
            tokio::select! {
                entry = next_event(self.directory.journal(), &self.id, self.after) => {
                    let entry = entry.map_err(|error| fault(error.into()))?;
                    self.after = entry.seq;
                    let event = entry.decode::<RunEvent>();
                    let mut event = event.map_err(|error| Problem::internal("an event of a run", error))?;
                    for_clients(&mut event);
                    self.is_over = matches!(event, RunEvent::Ended(_));
                    return Ok(Some(event));
                }
                () = tokio::time::sleep(LOOK) => {
                    if self.service.runs.has_left(&self.id) {
                        return Err(Problem::draining());
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Cancels a run if its client leaves before its end.
pub(super) struct Attended {
    run: Option<(Arc<Service>, TenantName, RunId)>,
}

impl Attended {
    pub(super) fn new(service: &Arc<Service>, caller: &Caller, id: &RunId) -> Self {
        let run = (Arc::clone(service), caller.tenant.clone(), id.clone());
        Self { run: Some(run) }
    }

    /// It has ended.
    pub(super) fn ended(&mut self) {
        self.run = None;
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Some((service, tenant, id)) = self.run.take() else {
            return;
        };
        // None when the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            if let Err(problem) = service.runs.cancel(&tenant, &id).await {
                tracing::debug!(run = %id, problem.detail, "run of a client that left not cancelled");
            }
        });
    }
}

/// How a run ended, for a client.
pub(super) enum Finished {
    /// With this answer. What is doubtful about it is a part of it.
    Answered(String),
    /// Its budget was used up; the answer so far, or why there is none.
    Cut(String),
    /// A person or a client ended it.
    Cancelled(String),
    /// Without an answer, and why.
    Failed(String),
}

impl Finished {
    pub(super) fn new(ending: &Ending, language: Language) -> Self {
        let reason = ending.reason.text(language);
        match &ending.reason {
            ExitReason::Answered => Self::Answered(ending.answer.clone().unwrap_or_default()),
            ExitReason::Unverified { doubts } => {
                let doubts: Vec<String> = doubts.iter().map(|doubt| doubt.text(language)).collect();
                let answer = ending.answer.as_deref().unwrap_or_default();
                Self::Answered(format!("{answer}\n\n[{reason}: {}]", doubts.join("; ")))
            }
            ExitReason::Budget { .. } => Self::Cut(match &ending.answer {
                Some(answer) => format!("{answer}\n\n[{reason}]"),
                None => format!("[{reason}]"),
            }),
            ExitReason::Stopped => Self::Cancelled(reason),
            ExitReason::ModelFailed { .. } | ExitReason::NotUnderstood | ExitReason::Repetition => {
                Self::Failed(reason)
            }
        }
    }
}
