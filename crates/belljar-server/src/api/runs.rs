//! `/v1/runs`.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as Answer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{
    Approval, Approvals, Budget, Evidence, ExitReason, PLAN, Parent, Policy, READ_FILE, RunEvent,
    Spent, Start, notebook, page, script,
};
use belljar_journal::{RunId, RunSummary};
use belljar_sandbox::protocol::{Artifact, Language};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use utoipa::openapi::schema::{Array, ArrayBuilder};
use utoipa::openapi::{Ref, Type};
use utoipa::{IntoParams, ToSchema};

use super::cells::last_event;
use super::files::{attachment, check, to_save, with_files};
use super::sessions::{Interrupted, Nothing, PageAsked, cursor, no_cursor, within};
use crate::body::{Json, Named, Query};
use crate::demo;
use crate::idempotency::{Slot, mismatch};
use crate::problem::{Code, Problem};
use crate::run_stream;
use crate::runs::{Recorded, fault};
use crate::service::{Caller, Service};
use crate::tenants::Scope;

/// The most bytes of a task, and the most files of a run.
const MAX_TASK: usize = 64 << 10;
const MAX_FILES: usize = 100;

/// The most bytes of the files of a run: they are held in memory until they are on disk.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// A run to start. What is left out is as the service has it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateRun {
    /// What is to be done.
    #[schema(min_length = 1, max_length = 65_536)]
    task: String,
    /// Files of its workspace.
    #[serde(default)]
    #[schema(max_items = 100)]
    files: Vec<FileGiven>,
    /// One of the service's models.
    model: Option<String>,
    /// The language of prompts and messages.
    #[schema(schema_with = language_schema)]
    language: Option<Language>,
    /// What it may use, at most as much as the service gives.
    #[serde(default)]
    budget: BudgetAsked,
    /// When a person is asked before code runs.
    approvals: Option<PolicyAsked>,
    /// Tools of the host that the model is offered, besides Python.
    #[serde(default)]
    #[schema(max_items = 2)]
    tools: Vec<ToolAsked>,
}

/// A tool of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ToolAsked {
    /// A tree of tasks that the model keeps.
    Plan,
    /// Files of the workspace, as text.
    ReadFile,
}

/// A file that a run gets: with its contents, or from a session of the same tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FileGiven {
    /// Its name in the workspace of the run, without directories.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Its contents, as base64.
    contents: Option<String>,
    /// The session that has it; its key needs the scope `sessions` too.
    session_id: Option<String>,
    /// Its path in the workspace of that session.
    path: Option<String>,
}

/// What a client lets a run use.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetAsked {
    /// Turns of the model.
    #[schema(minimum = 1)]
    pub(super) steps: Option<u32>,
    /// Tokens of all requests and replies together.
    #[schema(minimum = 1)]
    pub(super) tokens: Option<u64>,
    /// Money, in the currency of the service's prices.
    #[schema(minimum = 0)]
    pub(super) money: Option<f64>,
    /// Seconds that the model and the tools take together.
    #[schema(minimum = 1)]
    pub(super) seconds: Option<u64>,
    /// Calls of tools.
    #[schema(minimum = 1)]
    pub(super) calls: Option<u32>,
}

/// When a person is asked.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PolicyAsked {
    /// Never.
    Never,
    /// Where it can do harm.
    Risky,
    /// Before each cell.
    Always,
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunView {
    #[serde(flatten)]
    brief: RunBrief,
    #[schema(schema_with = language_schema)]
    language: Language,
    /// What it may use.
    #[schema(schema_with = budget_schema)]
    budget: Budget,
    /// When a person is asked.
    #[schema(schema_with = policy_schema)]
    approvals: Policy,
    /// What it has used.
    #[schema(schema_with = spent_schema)]
    spent: Spent,
    /// How many events it has.
    events: u64,
    /// What a person is to decide, all of it, each with the hash of its exact bytes.
    #[schema(schema_with = approvals_schema)]
    waits_for: Vec<Approval>,
    /// Why it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = reason_schema)]
    reason: Option<ExitReason>,
    /// The answer, or the best there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Where the values of the answer were seen.
    #[schema(schema_with = evidence_schema)]
    evidence: Vec<Evidence>,
    /// Files that it made and that can be downloaded.
    #[schema(schema_with = artifacts_schema)]
    artifacts: Vec<Artifact>,
}

/// The run that another one goes on from.
#[derive(Debug, Serialize, ToSchema)]
struct ParentView {
    id: String,
    /// The last of its steps that counts.
    step: u32,
}

impl From<Box<Parent>> for ParentView {
    fn from(parent: Box<Parent>) -> Self {
        Self {
            id: parent.run,
            step: parent.step,
        }
    }
}

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
struct RunBrief {
    id: String,
    /// Seconds since 1970.
    created_at: u64,
    state: RunState,
    task: String,
    model: String,
    /// The run that it goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ParentView>,
}

/// How a run is.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RunState {
    /// It goes on.
    Running,
    /// It waits for a person.
    Waits,
    /// It has an answer.
    Answered,
    /// It has ended without one that counts; `reason` says why.
    Ended,
    /// Nobody is at it: the service was started again and will go on with it, or it could not go on.
    Interrupted,
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunPage {
    runs: Vec<RunBrief>,
    /// Where the next page begins; not there on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn language_schema() -> Ref {
    Ref::from_schema_name("Language")
}

pub(super) fn budget_schema() -> Ref {
    Ref::from_schema_name("Budget")
}

fn policy_schema() -> Ref {
    Ref::from_schema_name("Policy")
}

fn spent_schema() -> Ref {
    Ref::from_schema_name("Spent")
}

fn reason_schema() -> Ref {
    Ref::from_schema_name("ExitReason")
}

fn approvals_schema() -> Array {
    list_of("Approval")
}

fn evidence_schema() -> Array {
    list_of("Evidence")
}

fn artifacts_schema() -> Array {
    list_of("Artifact")
}

fn list_of(name: &str) -> Array {
    ArrayBuilder::new()
        .schema_type(Type::Array)
        .items(Ref::from_schema_name(name))
        .build()
}

impl RunState {
    fn of(recorded: &Recorded, service: &Service) -> Self {
        match recorded.run.ending() {
            Some(ending) if ending.reason == ExitReason::Answered => Self::Answered,
            Some(_) => Self::Ended,
            None if !recorded.run.undecided().is_empty() => Self::Waits,
            None if service.runs.is_driven(&recorded.id) => Self::Running,
            None => Self::Interrupted,
        }
    }
}

impl RunView {
    pub(super) async fn of(recorded: Recorded, service: &Service) -> Result<Self, Problem> {
        let journal = recorded.directory.journal();
        let first = journal.read(&recorded.id, 0, 1).await;
        let first = first.map_err(|error| fault(error.into()))?;
        let created = first.first().map_or(0, |entry| entry.at.0 / 1_000_000);
        let state = RunState::of(&recorded, service);
        let (run, last) = (&recorded.run, recorded.last);
        let start = run.start().cloned();
        let start = start.ok_or_else(|| Problem::internal("a run", "it has no beginning"))?;
        let ending = run.ending().cloned();
        let (mut reason, mut answer) = (None, None);
        let (mut evidence, mut artifacts) = (Vec::new(), Vec::new());
        if let Some(ending) = ending {
            (reason, answer) = (Some(ending.reason), ending.answer);
            (evidence, artifacts) = (ending.evidence, ending.artifacts);
        }
        Ok(Self {
            brief: RunBrief {
                id: recorded.id.to_string(),
                created_at: created.try_into().unwrap_or(0),
                state,
                task: start.task,
                model: start.model,
                parent: start.parent.map(ParentView::from),
            },
            language: start.language,
            budget: run.budget().clone(),
            approvals: run.approvals().policy,
            spent: run.spent(),
            events: last,
            waits_for: run.undecided().to_vec(),
            reason,
            answer,
            evidence,
            artifacts,
        })
    }
}

/// Lists runs, the newest first.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", operation_id = "list_runs", params(PageAsked),
    responses((status = 200, description = "A page of runs.", body = RunPage))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<PageAsked>,
) -> Result<Answer<RunPage>, Problem> {
    let limit = asked.limit()?;
    let before = asked.cursor()?.map(|bytes| {
        let id = String::from_utf8(bytes).ok();
        id.and_then(|id| id.parse().ok()).ok_or_else(no_cursor)
    });
    let before = before.transpose()?;
    let mut page = RunPage {
        runs: Vec::new(),
        next_cursor: None,
    };
    let Some(directory) = service.runs.directory(&caller.tenant).await? else {
        return match before {
            Some(_) => Err(no_cursor()),
            None => Ok(Answer(page)),
        };
    };
    let journal = directory.journal();
    let unknown = |error| match error {
        belljar_journal::Error::UnknownRun(_) => no_cursor(),
        error => fault(error.into()),
    };
    let found = journal
        .runs(before.as_ref(), limit)
        .await
        .map_err(unknown)?;
    for summary in &found {
        page.runs.push(brief(summary, &service, &caller).await?);
    }
    if let Some(last) = found.last() {
        let last = &last.first.run;
        let more = journal.runs(Some(last), 1).await.map_err(unknown)?;
        page.next_cursor = (!more.is_empty()).then(|| cursor(last.as_str().as_bytes()));
    }
    Ok(Answer(page))
}

async fn brief(
    summary: &RunSummary,
    service: &Service,
    caller: &Caller,
) -> Result<RunBrief, Problem> {
    let id = &summary.first.run;
    let start = match summary.first.decode::<RunEvent>() {
        Ok(RunEvent::Started(start)) => Some(start),
        // One of a newer Belljar is listed still.
        _ => None,
    };
    let (task, model, parent) = start
        .map(|start| (start.task, start.model, start.parent))
        .unwrap_or_default();
    let state = match summary.last.decode::<RunEvent>() {
        Ok(RunEvent::Ended(ending)) if ending.reason == ExitReason::Answered => RunState::Answered,
        Ok(RunEvent::Ended(_)) => RunState::Ended,
        // Few: those that go on, or wait.
        _ => match service.runs.read(&caller.tenant, id.as_str()).await {
            Ok(recorded) => RunState::of(&recorded, service),
            Err(_) => RunState::Interrupted,
        },
    };
    Ok(RunBrief {
        id: id.to_string(),
        created_at: (summary.first.at.0 / 1_000_000).try_into().unwrap_or(0),
        state,
        task,
        model,
        parent: parent.map(ParentView::from),
    })
}

/// Starts a run. It goes on by itself, whoever listens.
#[utoipa::path(
    post, path = "/v1/runs", tag = "runs", operation_id = "create_run",
    request_body = CreateRun,
    responses((status = 202, description = "The run, which has begun.", body = RunView))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    slot: Option<Extension<Arc<Slot>>>,
    Json(mut asked): Json<CreateRun>,
) -> Result<Response, Problem> {
    let runs = &service.runs;
    let key = slot.as_ref().map(|Extension(slot)| slot.as_ref());
    let earlier = match key {
        Some(key) => begun(&service, &caller, key).await?,
        None => None,
    };
    if let Some(id) = &earlier
        && runs.find(&caller.tenant, id.as_str()).await.is_ok()
    {
        let mut response = accepted(&service, &caller, id).await?;
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert("idempotency-replayed", yes);
        return Ok(response);
    }
    let model = runs.model(asked.model.as_deref())?;
    check_task(&asked.task)?;
    let mut budget = runs.options().budget.clone();
    asked.budget.take(&mut budget)?;
    let profile = model.provider.profile();
    if budget.money.is_some() && profile.prices.is_none() {
        let detail = "money is limited, but what the model costs is not known";
        return Err(Problem::new(Code::BadBody, detail));
    }
    let priced = profile.prices.is_some();
    service.bounds.cut(&caller.tenant, &mut budget, priced);
    let usual = &runs.options().approvals;
    let mut policy = asked.approvals.map(Policy::from);
    if service.demo.is_some() {
        // What its examples show.
        policy = policy.or_else(|| demo::policy_of(&asked.task));
        asked.tools.push(ToolAsked::Plan);
    }
    if let Some(policy) = policy {
        check_policy(policy, &service)?;
    }
    asked.tools.sort_unstable();
    asked.tools.dedup();
    let mut start = Start {
        task: asked.task,
        files: Vec::new(),
        model: model.name.clone(),
        dialect: model.dialect,
        language: asked.language.unwrap_or(runs.options().language),
        budget,
        context_window: profile.context_window,
        max_tokens: model.max_tokens,
        temperature: model.temperature,
        review: model.review,
        tools: asked.tools.into_iter().map(ToolAsked::name).collect(),
        packages: Vec::new(),
        granted: Vec::new(),
        branches: None,
        parent: None,
        approvals: match policy {
            None => usual.clone(),
            Some(policy) => Approvals {
                policy,
                ..usual.clone()
            },
        },
    };
    let places = runs.places(&caller.tenant)?;
    runs.check_disk(&caller.tenant).await?;
    let mut transfer = None;
    if asked.files.iter().any(|file| file.session_id.is_some()) {
        transfer = Some(service.bounds.transfer(&caller.tenant)?);
    }
    let files = files(&service, &caller, asked.files).await?;
    let directory = runs.make_directory(&caller.tenant).await?;
    let agent = runs.agent(&caller.tenant, &directory, model);
    for (name, contents) in files {
        start
            .files
            .push(agent.file(&name, contents).await.map_err(fault)?);
    }
    drop(transfer);
    let id = match (earlier, key) {
        // The service died before it could begin.
        (Some(id), _) => id,
        (None, None) => runs.new_id()?,
        (None, Some(key)) => {
            let (id, tenant) = (runs.new_id()?, &caller.tenant);
            let kept = &service.tenants;
            let kept = kept.keep_run_of_key(tenant, &key.key, &key.fingerprint, id.as_str());
            kept.await
                .map_err(|error| Problem::internal("a key of a run", error))?;
            id
        }
    };
    runs.start(&agent, id.clone(), start, None, places).await?;
    accepted(&service, &caller, &id).await
}

/// The run that this request began when it came before, or was about to begin.
async fn begun(service: &Service, caller: &Caller, key: &Slot) -> Result<Option<RunId>, Problem> {
    let found = service.tenants.run_of_key(&caller.tenant, &key.key).await;
    let found = found.map_err(|error| Problem::internal("a key of a run", error))?;
    let Some((id, hash)) = found else {
        return Ok(None);
    };
    if hash != key.fingerprint {
        return Err(mismatch());
    }
    let id = id.parse();
    id.map(Some)
        .map_err(|error| Problem::internal("the name of a run", error))
}

/// The answer to who has started a run.
pub(super) async fn accepted(
    service: &Service,
    caller: &Caller,
    id: &RunId,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, id.as_str()).await?;
    let view = Answer(RunView::of(recorded, service).await?);
    let mut response = (StatusCode::ACCEPTED, view).into_response();
    if let Ok(location) = HeaderValue::try_from(format!("/v1/runs/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

pub(super) fn check_task(task: &str) -> Result<(), Problem> {
    if !task.trim().is_empty() && task.len() <= MAX_TASK {
        return Ok(());
    }
    let detail = format!("`task` has 1 to {MAX_TASK} bytes, and not only blanks");
    Err(Problem::new(Code::BadBody, detail))
}

/// A tenant may have a person asked more often than the operator wants, and never less.
pub(super) fn check_policy(policy: Policy, service: &Service) -> Result<(), Problem> {
    let least = service.runs.options().approvals.policy;
    if policy >= least {
        return Ok(());
    }
    let detail = "the service asks a person more often than this";
    Err(Problem::new(Code::PolicyTooWeak, detail))
}

impl ToolAsked {
    fn name(self) -> String {
        let name = match self {
            Self::Plan => PLAN,
            Self::ReadFile => READ_FILE,
        };
        name.to_owned()
    }
}

impl From<PolicyAsked> for Policy {
    fn from(asked: PolicyAsked) -> Self {
        match asked {
            PolicyAsked::Never => Self::Never,
            PolicyAsked::Risky => Self::Risky,
            PolicyAsked::Always => Self::Always,
        }
    }
}

impl BudgetAsked {
    /// Lowers a budget to what is asked for.
    pub(super) fn take(&self, budget: &mut Budget) -> Result<(), Problem> {
        let small = |name: &str, asked: Option<u32>, limit: &mut u32| {
            let mut most = u64::from(*limit);
            within(name, asked.map(u64::from), 1, &mut most)?;
            *limit = asked.unwrap_or(*limit);
            Ok::<_, Problem>(())
        };
        small("budget.steps", self.steps, &mut budget.steps)?;
        small("budget.calls", self.calls, &mut budget.calls)?;
        for (name, asked, limit) in [
            ("budget.tokens", self.tokens, &mut budget.tokens),
            ("budget.seconds", self.seconds, &mut budget.seconds),
        ] {
            let mut most = limit.unwrap_or(u64::MAX);
            within(name, asked, 1, &mut most)?;
            *limit = asked.or(*limit);
        }
        if let Some(money) = self.money {
            if !money.is_finite() || money < 0.0 {
                return Err(Problem::new(Code::BadBody, "`budget.money` is 0 at least"));
            }
            if let Some(most) = budget.money.filter(|most| money > *most) {
                let detail = format!("`budget.money` may be {most} at most");
                return Err(Problem::new(Code::LimitTooHigh, detail));
            }
            budget.money = Some(money);
        }
        Ok(())
    }
}

/// The files that a run gets, each under a name of its own.
async fn files(
    service: &Service,
    caller: &Caller,
    given: Vec<FileGiven>,
) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let bad = |detail: String| Err(Problem::new(Code::BadBody, detail));
    if given.len() > MAX_FILES {
        return bad(format!("a run has {MAX_FILES} files at most"));
    }
    let too_large = || {
        let detail = format!("the files of a run have {MAX_FILE_BYTES} bytes at most");
        Problem::new(Code::FileTooLarge, detail)
    };
    let (mut files, mut names, mut left) = (Vec::new(), HashSet::new(), MAX_FILE_BYTES);
    for file in given {
        let name = file.name;
        let plain = !name.is_empty()
            && name.len() <= 255
            && name != "."
            && name != ".."
            && !name.contains(['/', '\\'])
            && !name.chars().any(char::is_control);
        if !plain {
            let detail = "a `name` of `files` is that of a file, without directories";
            return Err(Problem::new(Code::BadPath, detail));
        }
        if !names.insert(name.clone()) {
            return bad(format!("`files` has `{}` twice", name.escape_debug()));
        }
        let contents = match (file.contents, file.session_id, file.path) {
            (Some(contents), None, None) => match BASE64.decode(contents) {
                Ok(contents) => contents,
                Err(_) => return bad("`contents` of a file is base64".into()),
            },
            (None, Some(session), Some(path)) => {
                if !caller.scopes.contains(&Scope::Sessions) {
                    let detail = "the key has not the scope `sessions`";
                    return Err(Problem::new(Code::ScopeMissing, detail));
                }
                let held = service.sessions.find(&caller.tenant, &session)?;
                check(&path)?;
                let file = with_files(&held, move |session| session.open(&path)).await?;
                let mut contents = Vec::new();
                // It may grow meanwhile.
                let mut file = tokio::fs::File::from_std(file).take(left + 1);
                let read = file.read_to_end(&mut contents).await;
                read.map_err(|error| Problem::internal("a file of a workspace", error))?;
                contents
            }
            _ => return bad("a file has `contents`, or `session_id` and `path`".into()),
        };
        left = left
            .checked_sub(contents.len() as u64)
            .ok_or_else(too_large)?;
        files.push((name, contents));
    }
    Ok(files)
}

/// Shows a run: how it is, what it waits for, what came of it.
#[utoipa::path(
    get, path = "/v1/runs/{id}", tag = "runs", operation_id = "show_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "The run.", body = RunView))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Answer<RunView>, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    Ok(Answer(RunView::of(recorded, &service).await?))
}

/// Streams the events of a run from its journal, from the first or from where a client left off, to its end.
/// Between them come `reply` and `cell`, without `id`: what the model and the code say while they do.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", tag = "runs", operation_id = "stream_run",
    params(
        ("id" = String, Path, description = "The run."),
        ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last event that the client has."),
    ),
    responses((status = 200, description = "The events after that, with their numbers as `id`.", body = ref("#/components/schemas/RunEvent"), content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = service.runs.find(&caller.tenant, &id).await?;
    run_stream::stream(run, last_event(&headers)?, &service, &caller).await
}

/// Ends a run with the best answer that it has.
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 202, description = "The run, which is about to end.", body = RunView))
)]
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<(StatusCode, Answer<RunView>), Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    service.runs.cancel(&caller.tenant, &run).await?;
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let view = RunView::of(recorded, &service).await?;
    Ok((StatusCode::ACCEPTED, Answer(view)))
}

/// Interrupts the cell that runs, as Ctrl-C would. The model is told, and goes on.
#[utoipa::path(
    post, path = "/v1/runs/{id}/interrupt", tag = "runs", operation_id = "interrupt_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 200, description = "Whether a cell ran.", body = Interrupted))
)]
pub(super) async fn interrupt(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Answer<Interrupted>, Problem> {
    let (run, _) = service.runs.find(&caller.tenant, &id).await?;
    let interrupted = service.runs.interrupt(&run);
    Ok(Answer(Interrupted { interrupted }))
}

/// Goes on with a run that nobody is at. One that goes on, or waits for a person, is left as it is.
#[utoipa::path(
    post, path = "/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path, description = "The run.")),
    responses((status = 202, description = "The run.", body = RunView))
)]
pub(super) async fn resume(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(Nothing {}): Json<Nothing>,
) -> Result<(StatusCode, Answer<RunView>), Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let (run, waits) = (recorded.id.clone(), !recorded.run.undecided().is_empty());
    drop(recorded);
    if !waits {
        service.runs.resume(&caller.tenant, &run).await?;
    }
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    let view = RunView::of(recorded, &service).await?;
    Ok((StatusCode::ACCEPTED, Answer(view)))
}

/// Downloads a file that a run made, once it has ended.
#[utoipa::path(
    get, path = "/v1/runs/{id}/artifacts/{*path}", tag = "runs", operation_id = "get_artifact",
    params(
        ("id" = String, Path, description = "The run."),
        ("path" = String, Path, description = "The `path` of one of its artifacts."),
    ),
    responses((status = 200, description = "The file.", content_type = "application/octet-stream"))
)]
pub(super) async fn artifact(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, path)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    check(&path)?;
    let dots = path.split('/').any(|part| ["", ".", ".."].contains(&part));
    if dots || path.contains('\0') || path.len() > 4096 {
        let detail = "it is not that of a file inside the workspace";
        return Err(Problem::new(Code::BadPath, detail));
    }
    let shown: String = path.chars().take(100).collect();
    let not_found = || {
        let detail = format!("the run has left no file `{}`", shown.escape_debug());
        Problem::new(Code::FileNotFound, detail)
    };
    // What is not named by the run is not looked for.
    let made = recorded.run.ending().map(|ending| &ending.artifacts);
    if !made.is_some_and(|made| made.iter().any(|artifact| artifact.path == path)) {
        return Err(not_found());
    }
    let transfer = service.bounds.transfer(&caller.tenant)?;
    let file = recorded.directory.artifacts(&recorded.id).join(&path);
    let opened = tokio::fs::File::open(file).await.map_err(|error| {
        tracing::warn!(%error, "a file of a run can't be opened");
        not_found()
    })?;
    let size = opened.metadata().await.map(|metadata| metadata.len());
    let size = size.map_err(|error| Problem::internal("a file of a run", error))?;
    let name = path.rsplit('/').next().unwrap_or(&path);
    let kind = "application/octet-stream";
    Ok(attachment(
        opened.into_std().await,
        size,
        name,
        kind,
        transfer,
    ))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportAsked {
    /// A notebook, a script or a page; a notebook by default.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// What a run can be made.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// A Jupyter notebook.
    #[default]
    Ipynb,
    /// The code of its cells as one Python file.
    Py,
    /// A page to read.
    Html,
}

/// Downloads a run as a notebook, a script or a page, as far as it has come.
#[utoipa::path(
    get, path = "/v1/runs/{id}/export", tag = "runs", operation_id = "export_run",
    params(("id" = String, Path, description = "The run."), ExportAsked),
    responses((status = 200, description = "The file.", content(
        (String = "application/x-ipynb+json"), (String = "text/x-python"), (String = "text/html"),
    )))
)]
pub(super) async fn export(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<ExportAsked>,
) -> Result<Response, Problem> {
    let recorded = service.runs.read(&caller.tenant, &id).await?;
    // It is made in memory.
    let _transfer = service.bounds.transfer(&caller.tenant)?;
    let (events, blobs) = (&recorded.events, recorded.directory.blobs());
    let (text, ending, kind) = match asked.format {
        Format::Ipynb => {
            let text = notebook(events, blobs).await.map(|value| value.to_string());
            (text, "ipynb", "application/x-ipynb+json")
        }
        Format::Py => (script(events, blobs).await, "py", "text/x-python"),
        Format::Html => (
            page(events, blobs).await,
            "html",
            "text/html; charset=utf-8",
        ),
    };
    let name = format!("{id}.{ending}");
    Ok(to_save(Body::from(text.map_err(fault)?), &name, kind))
}
