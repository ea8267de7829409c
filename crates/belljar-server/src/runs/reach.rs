//! Reaching a run that has not ended: through whoever drives it, or by taking it up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_agent::{Agent, Control, Decision, DecisionError, LiveRun, RunError, Steering};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Walls;

use super::begin::RunPermits;
use super::drive::Driven;
use super::{Recorded, Runs, fault, last_event};
use crate::problem::{Code, Problem};
use crate::tenants::TenantName;

/// How often a run that is just being taken up or left is looked at again, and for how long.
pub(super) const LOOK: Duration = Duration::from_millis(20);
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

enum Reached {
    Driven(Arc<Driven>),
    Taken(Box<LiveRun>, RunPermits),
}

/// What a run that is taken up is driven with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    /// The model that it began with.
    Its,
    /// Whichever there is: it will not be asked.
    Any,
}

/// What a person wants of a run.
#[derive(Clone, Copy)]
enum ControlRequest<'a> {
    /// For the approval with this id and hash.
    Decision(&'a str, &'a str, &'a Decision),
    Steering(&'a Steering),
}

impl ControlRequest<'_> {
    async fn of_driven(self, control: &Control) -> Result<(), DecisionError> {
        match self {
            Self::Decision(approval, hash, decision) => {
                control.decide(approval, hash, decision.clone()).await
            }
            Self::Steering(steering) => control.steer(steering.clone()).await,
        }
    }

    async fn of_taken(self, live: &mut LiveRun) -> Result<(), RunError> {
        match self {
            Self::Decision(approval, hash, decision) => {
                live.decide(approval, hash, decision.clone()).await
            }
            Self::Steering(steering) => live.steer(steering.clone()).await,
        }
    }
}

impl Runs {
    /// Resumes a run that nobody drives.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
    ) -> Result<(), Problem> {
        match self.reach(tenant, id).await? {
            Reached::Driven(_) => {}
            Reached::Taken(live, permits) => self.drive(*live, permits),
        }
        Ok(())
    }

    /// Ends a run with the best answer that it has.
    pub(crate) async fn cancel(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
    ) -> Result<(), Problem> {
        match self.reach_by(tenant, id, Model::Any).await? {
            Reached::Driven(driven) => driven.control.stop(),
            Reached::Taken(mut live, permits) => {
                live.stop().await.map_err(fault)?;
                self.drive(*live, permits);
            }
        }
        Ok(())
    }

    /// Interrupts the cell of a running run; whether there was one.
    pub(crate) async fn interrupt(&self, id: &RunId) -> Result<bool, Problem> {
        match self.driven(id) {
            Some(driven) => Ok(driven.control.interrupt()),
            None => self.check_not_elsewhere(id).await.map(|()| false),
        }
    }

    /// Takes a person's decision.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &str,
        (approval, hash): (&str, &str),
        decision: Decision,
    ) -> Result<(), Problem> {
        let id = {
            let recorded = self.read(tenant, id).await?;
            // What nobody waits for does not wait for the run either.
            let checked = recorded.run.check_decision(approval, hash, &decision);
            checked.map_err(refused)?;
            recorded.id
        };
        let decision = ControlRequest::Decision(approval, hash, &decision);
        self.have(tenant, &id, decision).await
    }

    /// Changes something for the rest of a run.
    pub(crate) async fn steer(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
        steering: Steering,
    ) -> Result<(), Problem> {
        self.have(tenant, id, ControlRequest::Steering(&steering))
            .await
    }

    /// Applies a request to a run, whoever drives it; resumes the run if nobody does.
    async fn have(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
        request: ControlRequest<'_>,
    ) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.reach(tenant, id).await? {
                Reached::Taken(mut live, permits) => {
                    let taken = request.of_taken(&mut live).await;
                    taken.map_err(|error| match error {
                        RunError::Decision(error) => refused(error),
                        error => fault(error),
                    })?;
                    self.drive(*live, permits);
                    return Ok(());
                }
                Reached::Driven(driven) => match request.of_driven(&driven.control).await {
                    // It was let go at this moment, or has just ended.
                    Err(DecisionError::Over) if Instant::now() < until => {
                        tokio::time::sleep(LOOK).await;
                    }
                    taken => return taken.map_err(refused),
                },
            }
        }
    }

    /// A run that has not ended: whoever drives it, or the run itself.
    async fn reach(self: &Arc<Self>, tenant: &TenantName, id: &RunId) -> Result<Reached, Problem> {
        self.reach_by(tenant, id, Model::Its).await
    }

    async fn reach_by(
        self: &Arc<Self>,
        tenant: &TenantName,
        id: &RunId,
        with: Model,
    ) -> Result<Reached, Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(driven) = self.driven(id) {
                // It is driven until its session has closed, which is after its end.
                let directory = self.make_directory(tenant).await?;
                if last_event(directory.journal(), id).await?.is_end {
                    return Err(ended());
                }
                return Ok(Reached::Driven(driven));
            }
            let (agent, isolation) = {
                let recorded = self.read(tenant, id.as_str()).await?;
                if recorded.run.ending().is_some() {
                    return Err(ended());
                }
                self.agent_of(tenant, &recorded, with)?
            };
            let permits = self.permits(tenant, isolation).await?;
            match agent.resume(id).await {
                Ok(live) => return Ok(Reached::Taken(Box::new(live), permits)),
                // Somebody else has just taken it up, or is about to let go of it.
                Err(RunError::Driven(_)) if Instant::now() < until => {
                    drop(permits);
                    tokio::time::sleep(LOOK).await;
                }
                Err(RunError::Driven(_)) => {
                    return Err(Problem::new(Code::RunBusy, "retry"));
                }
                Err(error) => return Err(fault(error)),
            }
        }
    }

    /// The agent that can drive a run, and the isolation of its session.
    pub(super) fn agent_of(
        &self,
        tenant: &TenantName,
        recorded: &Recorded,
        with: Model,
    ) -> Result<(Agent, Walls), Problem> {
        let start = recorded.run.start().ok_or_else(no_start)?;
        let agent = match self.model(Some(&start.model)) {
            Ok(model) => self.agent(tenant, &recorded.directory, model),
            Err(_) if with == Model::Any => {
                self.agent(tenant, &recorded.directory, &crate::demo::model())
            }
            Err(problem) => return Err(problem),
        };
        let isolation = match with {
            // As the agent will choose. It is refused if it is too weak by now.
            Model::Its => self.isolation(start, None)?,
            // None is too weak for no code.
            Model::Any => Walls::Gvisor,
        };
        Ok((agent, isolation))
    }
}

fn no_start() -> Problem {
    Problem::internal("a run", "it has no first event")
}

fn ended() -> Problem {
    Problem::new(Code::RunEnded, "start a new run")
}

fn refused(error: DecisionError) -> Problem {
    let code = match error {
        DecisionError::NotWaiting => Code::ApprovalNotFound,
        DecisionError::Changed => Code::ApprovalChanged,
        DecisionError::NotCode => Code::ApprovalNotCode,
        _ => Code::RunBusy,
    };
    Problem::new(code, error.to_string())
}
