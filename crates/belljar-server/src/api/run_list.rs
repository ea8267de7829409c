//! The library of runs: `GET /v1/runs` with its filters, and `PATCH /v1/runs/{id}`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use belljar_agent::RunEvent;
use belljar_journal::{Error, Journal, RunId, RunSummary};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::run_views::{ParentView, RunBrief, RunPage, RunState, RunView};
use super::sessions::{PageAsked, cursor, no_cursor};
use crate::body::{Json, Named, Query};
use crate::label::is_text;
use crate::problem::{Code, Problem};
use crate::runs::fault;
use crate::service::{Caller, Service};
use crate::tenants::{RunLabel, RunLabelChange};

/// Maximum runs that a request looks at. Further ones are on the next page.
pub(super) const MAX_SCANNED: usize = 1000;

/// Runs that are read from the journal at once.
const CHUNK: usize = 200;

/// Maximum characters of a title and of a tag, and tags of a run.
const MAX_TITLE: usize = 200;
const MAX_TAG: usize = 50;
const MAX_TAGS: usize = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunsAsked {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Only runs with all of these words in title or task, in any case.
    text: Option<String>,
    /// Only runs in this state.
    #[param(inline)]
    state: Option<RunState>,
    /// Only runs with this tag.
    tag: Option<String>,
    /// Only runs that were created at this time or later, in seconds since 1970.
    created_after: Option<u64>,
    /// Only runs that were created before this time, in seconds since 1970.
    created_before: Option<u64>,
    /// Only runs that continue this one.
    parent: Option<String>,
}

/// Which runs of a list a client wants.
#[derive(Debug)]
struct Filter {
    /// In small letters.
    words: Vec<String>,
    state: Option<RunState>,
    tag: Option<String>,
    after: u64,
    before: u64,
    parent: Option<String>,
}

impl RunsAsked {
    fn filter(&self) -> Result<Filter, Problem> {
        let times = [self.created_after, self.created_before];
        if times
            .into_iter()
            .flatten()
            .any(|time| i64::try_from(time).is_err())
        {
            let detail = "`created_after` and `created_before` must be less than 2^63";
            return Err(Problem::new(Code::BadQuery, detail));
        }
        let text = self.text.as_deref().unwrap_or_default().to_lowercase();
        Ok(Filter {
            words: text.split_whitespace().map(str::to_owned).collect(),
            state: self.state,
            tag: self.tag.clone(),
            after: self.created_after.unwrap_or(0),
            before: self.created_before.unwrap_or(u64::MAX),
            parent: self.parent.clone(),
        })
    }
}

impl Filter {
    /// Whether a run is wanted, as far as its beginning and its label say.
    fn accepts(&self, run: &RunBrief) -> bool {
        let has_words = self.words.is_empty() || {
            let title = run.label.title.as_deref().unwrap_or_default();
            let text = format!("{title}\n{}", run.task).to_lowercase();
            self.words.iter().all(|word| text.contains(word))
        };
        let has_tag = |tag: &String| run.label.tags.contains(tag);
        let continues = |id: &String| run.parent.as_ref().is_some_and(|parent| parent.id == *id);
        has_words
            && run.created_at < self.before
            && self.tag.as_ref().is_none_or(has_tag)
            && self.parent.as_ref().is_none_or(continues)
    }
}

/// Lists runs, newest first.
///
/// A page of a search may have fewer runs than requested, or none, and still have a `next_cursor`: each request looks
/// at a limited number of runs.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", operation_id = "list_runs", params(RunsAsked),
    responses((status = 200, description = "A page of runs.", body = RunPage))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<RunsAsked>,
) -> Result<JsonResponse<RunPage>, Problem> {
    let filter = asked.filter()?;
    let page = PageAsked::new(asked.limit, asked.cursor);
    let limit = page.limit()?;
    let before = page.cursor()?.map(|bytes| {
        let id = String::from_utf8(bytes).ok();
        id.and_then(|id| id.parse().ok()).ok_or_else(no_cursor)
    });
    let before: Option<RunId> = before.transpose()?;
    let Some(directory) = service.runs.directory(&caller.tenant).await? else {
        return match before {
            Some(_) => Err(no_cursor()),
            None => Ok(JsonResponse(RunPage::default())),
        };
    };
    let labels = service.tenants.run_labels(&caller.tenant).await?;
    let mut runs = Vec::new();
    let mut scan = Scan::new(directory.journal(), before);
    let mut next = None;
    while let Some(summary) = scan.next().await? {
        if runs.len() == limit || scan.seen > MAX_SCANNED {
            next = scan.passed;
            break;
        }
        let mut run = beginning(&summary, &labels);
        // The rest is older still.
        if run.created_at < filter.after {
            break;
        }
        scan.passed = Some(summary.first.run.clone());
        if !filter.accepts(&run) {
            continue;
        }
        run.state = state(&summary, &service, &caller).await;
        if filter.state.is_none_or(|state| state == run.state) {
            runs.push(run);
        }
    }
    Ok(JsonResponse(RunPage {
        runs,
        next_cursor: next.map(|run| cursor(run.as_str().as_bytes())),
    }))
}

/// Runs of a journal, newest first, a chunk at a time.
pub(super) struct Scan<'a> {
    journal: &'a Journal,
    before: Option<RunId>,
    chunk: std::vec::IntoIter<RunSummary>,
    /// How many there were so far.
    pub(super) seen: usize,
    /// The last one that a page is done with.
    passed: Option<RunId>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(journal: &'a Journal, before: Option<RunId>) -> Self {
        Self {
            journal,
            before,
            chunk: Vec::new().into_iter(),
            seen: 0,
            passed: None,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<RunSummary>, Problem> {
        if self.chunk.len() == 0 {
            let chunk = self.journal.runs(self.before.as_ref(), CHUNK).await;
            let chunk = chunk.map_err(|error| match error {
                Error::UnknownRun(_) => no_cursor(),
                error => fault(error.into()),
            })?;
            self.before = chunk.last().map(|last| last.first.run.clone());
            self.chunk = chunk.into_iter();
        }
        let next = self.chunk.next();
        self.seen += usize::from(next.is_some());
        Ok(next)
    }
}

/// A run in a list.
pub(super) async fn brief(
    summary: &RunSummary,
    labels: &HashMap<String, RunLabel>,
    service: &Service,
    caller: &Caller,
) -> RunBrief {
    let state = state(summary, service, caller).await;
    RunBrief {
        state,
        ..beginning(summary, labels)
    }
}

/// A run, as far as its beginning and its label say; its state is still to be found out.
fn beginning(summary: &RunSummary, labels: &HashMap<String, RunLabel>) -> RunBrief {
    let id = summary.first.run.as_str();
    let start = match summary.first.decode::<RunEvent>() {
        Ok(RunEvent::Started(start)) => Some(start),
        // One of a newer Belljar is listed still.
        _ => None,
    };
    let (task, model, parent) = start
        .map(|start| (start.task, start.model, start.parent))
        .unwrap_or_default();
    RunBrief {
        id: id.to_owned(),
        created_at: (summary.first.at.0 / 1_000_000).try_into().unwrap_or(0),
        state: RunState::Interrupted,
        task,
        label: labels.get(id).cloned().unwrap_or_default().into(),
        model,
        parent: parent.map(ParentView::from),
    }
}

async fn state(summary: &RunSummary, service: &Service, caller: &Caller) -> RunState {
    if let Ok(RunEvent::Ended(ending)) = summary.last.decode::<RunEvent>() {
        return RunState::from_reason(&ending.reason);
    }
    // Few: running and waiting ones.
    let id = summary.first.run.as_str();
    match service.runs.read(&caller.tenant, id).await {
        Ok(recorded) => RunState::from_recorded(&recorded),
        Err(_) => RunState::Interrupted,
    }
}

/// Changes of the title or the tags of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateRun {
    /// Title, shown instead of the task; an empty one is removed.
    #[schema(max_length = 200)]
    title: Option<String>,
    /// New tags instead of the current ones.
    #[schema(max_items = 20)]
    tags: Option<Vec<String>>,
}

/// Changes title or tags of a run. Omitted ones stay unchanged.
#[utoipa::path(
    patch, path = "/v1/runs/{id}", tag = "runs", operation_id = "update_run",
    params(("id" = String, Path, description = "The run.")),
    request_body = UpdateRun,
    responses((status = 200, description = "The run.", body = RunView))
)]
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(asked): Json<UpdateRun>,
) -> Result<JsonResponse<RunView>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let change = change(asked)?;
    let changed = service
        .tenants
        .relabel_run(&caller.tenant, run.as_str(), change);
    changed.await?;
    Ok(JsonResponse(RunView::read(&service, &caller, &id).await?))
}

fn change(asked: UpdateRun) -> Result<RunLabelChange, Problem> {
    let bad = |detail: String| Err(Problem::new(Code::BadBody, detail));
    let title = asked.title.map(|title| title.trim().to_owned());
    if title
        .as_ref()
        .is_some_and(|title| !is_text(title, MAX_TITLE))
    {
        return bad(format!(
            "`title` must have at most {MAX_TITLE} characters, and no control characters"
        ));
    }
    let mut tags = asked.tags;
    if let Some(tags) = &mut tags {
        for tag in tags.iter_mut() {
            *tag = tag.trim().to_owned();
        }
        let is_tag = |tag: &String| !tag.is_empty() && is_text(tag, MAX_TAG);
        if tags.len() > MAX_TAGS || !tags.iter().all(is_tag) {
            return bad(format!(
                "`tags` must have at most {MAX_TAGS} tags, each of 1 to {MAX_TAG} characters, without control characters"
            ));
        }
        tags.sort_unstable();
        tags.dedup();
    }
    Ok(RunLabelChange { title, tags })
}
