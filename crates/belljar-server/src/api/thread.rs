//! Runs that continue each other as one conversation, and runs that are started again.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use axum::response::Response;
use belljar_agent::RunEvent;
use belljar_journal::{Error, Journal, RunId, RunSummary};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run_create::{accepted, check_task};
use super::run_list::{MAX_SCANNED, Scan, brief};
use super::run_views::RunBrief;
use super::steering::start_after;
use crate::body::{Json, Named};
use crate::problem::Problem;
use crate::runs::fault;
use crate::service::{Caller, Service};
use crate::tenants::RunLabel;

/// Maximum turns before a run, and after it.
const MAX_TURNS: usize = 50;

/// The conversation that a run is a turn of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Thread {
    /// The runs that it continues, oldest first. A deleted one ends the list.
    earlier: Vec<Turn>,
    /// The runs that continue its end, oldest first; of several, the newest.
    later: Vec<Turn>,
}

/// One run of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Turn {
    #[serde(flatten)]
    run: RunBrief,
    /// Its answer, if it has ended with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

/// Shows the conversation that a run is a turn of: the runs that it continues, and those that continue its end.
#[utoipa::path(
    get, path = "/v1/runs/{id}/thread", tag = "runs", operation_id = "show_thread",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The other turns.", body = Thread))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<Thread>, Problem> {
    let (run, directory) = service.runs.find(&caller.tenant, &id).await?;
    let journal = directory.journal();
    let labels = service.tenants.run_labels(&caller.tenant).await?;
    let mut earlier = Vec::new();
    let mut parent = match summary(journal, run.as_str()).await? {
        Some(summary) => turn(&summary, &labels, &service, &caller).await.run.parent,
        None => None,
    };
    while let Some(one) = parent.take()
        && earlier.len() < MAX_TURNS
        && let Some(summary) = summary(journal, &one.id).await?
    {
        let mut turn = turn(&summary, &labels, &service, &caller).await;
        parent = turn.run.parent.take();
        earlier.push(turn);
    }
    earlier.reverse();
    // Runs that continue others, newest first, down to this one.
    let mut continuing = Vec::new();
    let mut scan = Scan::new(journal, None);
    while let Some(summary) = scan.next().await?
        && summary.first.run != run
        && scan.seen <= MAX_SCANNED
    {
        if let Ok(RunEvent::Started(start)) = summary.first.decode::<RunEvent>()
            && let Some(parent) = start.parent
        {
            continuing.push((parent.run, parent.step, summary));
        }
    }
    let mut later: Vec<Turn> = Vec::new();
    let mut end = run.to_string();
    while later.len() < MAX_TURNS && continuing.iter().any(|(parent, ..)| *parent == end) {
        let recorded = service.runs.read(&caller.tenant, &end).await?;
        let last = recorded.run.steps().last().map_or(0, |step| step.number);
        drop(recorded);
        let mut followers = continuing.iter();
        let Some((_, _, next)) =
            followers.find(|(parent, step, _)| *parent == end && *step >= last)
        else {
            break;
        };
        end = next.first.run.to_string();
        later.push(turn(next, &labels, &service, &caller).await);
    }
    Ok(JsonResponse(Thread { earlier, later }))
}

async fn turn(
    summary: &RunSummary,
    labels: &HashMap<String, RunLabel>,
    service: &Service,
    caller: &Caller,
) -> Turn {
    let answer = match summary.last.decode::<RunEvent>() {
        Ok(RunEvent::Ended(ending)) => ending.answer,
        _ => None,
    };
    let run = brief(summary, labels, service, caller).await;
    Turn { run, answer }
}

/// The first and the last event of a run; none if there is no such run, or no longer.
async fn summary(journal: &Journal, id: &str) -> Result<Option<RunSummary>, Problem> {
    let Ok(run) = id.parse() else {
        return Ok(None);
    };
    match first_and_last(journal, &run).await {
        Err(Error::UnknownRun(_)) => Ok(None),
        found => found.map_err(|error| fault(error.into())),
    }
}

async fn first_and_last(journal: &Journal, run: &RunId) -> Result<Option<RunSummary>, Error> {
    let last = journal.last_seq(run).await?;
    let first = journal.read(run, 0, 1).await?.pop();
    let last = journal.read(run, last.saturating_sub(1), 1).await?.pop();
    Ok(first
        .zip(last)
        .map(|(first, last)| RunSummary { first, last }))
}

/// A run to start again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunAgain {
    /// Task for the model [default: the task of that run].
    #[schema(min_length = 1, max_length = 65_536)]
    task: Option<String>,
}

/// Starts a run again: a new run with the same files, model and budget, and the same or another task.
///
/// A run that continues another one continues it again, from the same step.
#[utoipa::path(
    post, path = "/v1/runs/{id}/again", tag = "runs", operation_id = "run_again",
    params(("id" = String, Path, description = "The run.")),
    request_body = RunAgain,
    responses((status = 202, description = "The started run.", body = super::run_views::RunView))
)]
pub(super) async fn again(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<RunAgain>,
) -> Result<Response, Problem> {
    let runs = &service.runs;
    let parent = {
        let recorded = runs.read(&caller.tenant, &id).await?;
        let parent = recorded.run.start().and_then(|start| start.parent.as_ref());
        parent.map(|parent| (parent.run.clone(), parent.step))
    };
    let parent = match parent {
        Some((run, step)) => Some((runs.find(&caller.tenant, &run).await?.0, step)),
        None => None,
    };
    // From whichever step: nothing of it is kept, so that it need not have ended.
    let (_, mut start) = start_after(&service, &caller, &id, Some(0)).await?;
    if let Some(task) = asked.task {
        check_task(&task)?;
        start.task = task;
    }
    let new = runs.new_id()?;
    let admitted = runs.admit(&caller.tenant, &mut start).await?.for_run(&new);
    // From here on nothing is swept: the files of a run that is still there stay.
    let (again, _) = runs.find(&caller.tenant, &id).await?;
    let copied = admitted.agent.copy_files(&again, &start.files).await;
    copied.map_err(fault)?;
    let parent = parent.as_ref().map(|(run, step)| (run, Some(*step)));
    runs.start(admitted, new.clone(), start, parent).await?;
    accepted(&service, &caller, &new).await
}
