//! A session: runs that continue each other, and what a person has chosen for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_agent::{Control, HostTool, Policy, Steering, TaskFile};
use belljar_journal::RunId;
use tokio_util::sync::CancellationToken;

use crate::directory::Directory;

/// A session of a client.
pub(crate) struct Conversation {
    /// The id of its first run.
    id: RunId,
    pub(crate) directory: Directory,
    /// Tools of the client's servers.
    pub(crate) tools: Vec<HostTool>,
    /// They live as long as the session.
    _servers: Vec<belljar_mcp::Connection>,
    state: Mutex<State>,
}

/// What changes about a session.
#[derive(Clone)]
pub(crate) struct State {
    /// The place of the model among those that are offered.
    pub(crate) model: usize,
    pub(crate) policy: Policy,
    /// The last run, and the files that it started with.
    pub(crate) last: Option<(RunId, Vec<TaskFile>)>,
    /// Texts of the session's directory that runs were given, by name.
    pub(crate) given: BTreeMap<String, String>,
    /// Stops the prompt that is being answered.
    stop: Option<CancellationToken>,
    control: Option<Control>,
}

impl Conversation {
    pub(crate) fn new(
        id: RunId,
        directory: Directory,
        (tools, servers): (Vec<HostTool>, Vec<belljar_mcp::Connection>),
        policy: Policy,
    ) -> Self {
        Self {
            id,
            directory,
            tools,
            _servers: servers,
            state: Mutex::new(State {
                model: 0,
                policy,
                last: None,
                given: BTreeMap::new(),
                stop: None,
                control: None,
            }),
        }
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.state().stop.is_some()
    }

    /// Begins to answer a prompt; none if one is being answered.
    pub(crate) fn begin(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.stop.is_some() {
            return None;
        }
        let stop = CancellationToken::new();
        state.stop = Some(stop.clone());
        Some(stop)
    }

    /// The prompt has its answer.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.stop = None;
        state.control = None;
    }

    /// A run has started for the prompt.
    pub(crate) fn started(&self, run: RunId, files: Vec<TaskFile>, control: Control) {
        let mut state = self.state();
        state.last = Some((run, files));
        state.control = Some(control);
    }

    /// Stops the prompt that is being answered, if there is one.
    pub(crate) fn cancel(&self) {
        if let Some(stop) = &self.state().stop {
            stop.cancel();
        }
    }

    /// Changes the approval policy, also of the run that is active.
    pub(crate) async fn set_policy(&self, policy: Policy) {
        let control = {
            let mut state = self.state();
            state.policy = policy;
            state.control.clone()
        };
        if let Some(control) = control
            && let Err(error) = control.steer(Steering::Policy(policy)).await
        {
            // It has just ended: the next run has the policy.
            tracing::debug!(%error, "the policy of a run was not changed");
        }
    }
}
