//! Starting the run of a request.

use std::sync::Arc;

use belljar_agent::Policy;
use belljar_journal::RunId;

use super::conversation::{GivenFile, check_files};
use super::models;
use crate::api::run_create::{check_task, new_start};
use crate::api::steering::start_after;
use crate::problem::{Code, Problem};
use crate::runs::fault;
use crate::service::{Caller, Service};

/// A run to start.
pub(super) struct NewRun {
    pub(super) model: String,
    pub(super) task: String,
    pub(super) files: Vec<GivenFile>,
    pub(super) temperature: Option<f64>,
    /// Maximum tokens of each reply of the model.
    pub(super) max_tokens: Option<u64>,
    /// The run that it continues.
    pub(super) previous: Option<String>,
}

impl NewRun {
    pub(super) async fn start(
        self,
        service: &Arc<Service>,
        caller: &Caller,
    ) -> Result<RunId, Problem> {
        let runs = &service.runs;
        let model = models::find(service, &self.model)?;
        check_task(&self.task)?;
        check_files(&self.files)?;
        let options = runs.options();
        let mut start = new_start(options, model, self.task, options.budget.clone())?;
        let mut parent = None;
        if let Some(previous) = self.previous {
            let (id, before) = start_after(service, caller, &previous, None).await?;
            start.files = before.files;
            start.language = before.language;
            start.tools = before.tools;
            start.budget = before.budget;
            start.approvals = before.approvals;
            parent = Some(id);
        }
        if start.approvals.policy > Policy::Never {
            let detail = "its code needs a person's approval, for which this API has no form; use `/v1/runs`";
            return Err(Problem::new(Code::PolicyTooWeak, detail));
        }
        start.temperature = self.temperature.or(start.temperature);
        if let Some(most) = self.max_tokens {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            start.max_tokens = start.max_tokens.min(most);
        }
        let id = runs.new_id()?;
        let admitted = runs.admit(&caller.tenant, &mut start).await?.for_run(&id);
        if let Some(parent) = &parent {
            let copied = admitted.agent.copy_files(parent, &start.files).await;
            copied.map_err(fault)?;
        }
        for (name, contents) in self.files {
            let file = admitted.agent.file(&name, contents).await.map_err(fault)?;
            start.files.retain(|known| known.name != name);
            start.files.push(file);
        }
        let parent = parent.as_ref().map(|parent| (parent, None));
        runs.start(admitted, id.clone(), start, parent).await?;
        Ok(id)
    }
}
