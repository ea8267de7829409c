//! Creating a run.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{Budget, PLAN, Policy, Start, Surface, Tool, tools_on};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Language;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use tokio::io::AsyncReadExt as _;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::files::{check, with_files};
use super::isolation::asked_schema;
use super::run_views::{RunView, language_schema};
use super::session_create::within;
use crate::body::JsonRequest;
use crate::demo;
use crate::forward::elsewhere;
use crate::idempotency::{Slot, mismatch};
use crate::options::{OfferedModel, RunsOptions};
use crate::pass_on::pass_on;
use crate::problem::{Code, Problem};
use crate::runs::fault;
use crate::service::{Caller, Service};
use crate::tenants::Scope;

/// Maximum bytes of a task, and maximum files of a run.
pub(super) const MAX_TASK: usize = 64 << 10;
pub(super) const MAX_FILES: usize = 100;

/// Maximum bytes of the files of a run: they are in memory until they are on disk.
pub(super) const MAX_FILE_BYTES: u64 = 32 << 20;

/// A run to start. Omitted fields have the service's defaults.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateRun {
    /// Task for the model.
    #[schema(min_length = 1, max_length = 65_536)]
    task: String,
    /// Files for the workspace.
    #[serde(default)]
    #[schema(max_items = 100)]
    files: Vec<FileGiven>,
    /// One of the models that the service offers.
    model: Option<String>,
    /// One of the environments that the service offers.
    environment: Option<String>,
    /// One of the isolation tiers that the service offers [default: its first, or the tenant's minimum].
    #[schema(schema_with = asked_schema)]
    isolation: Option<String>,
    /// Language of prompts and messages.
    #[schema(schema_with = language_schema)]
    language: Option<Language>,
    /// Budget, at most the service's maximum.
    #[serde(default)]
    budget: BudgetAsked,
    /// Which code and tool calls need approval.
    approvals: Option<PolicyAsked>,
    /// Tools of the host for the model, besides Python.
    #[serde(default)]
    tools: Vec<ToolAsked>,
}

/// A tool of the host, by its name for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToolAsked(&'static str);

/// Names of tools in the API.
static TOOL_NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| tools_on(Surface::Http).map(Tool::api_name).collect());

impl<'de> Deserialize<'de> for ToolAsked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let given = String::deserialize(from)?;
        let tool = tools_on(Surface::Http).find(|tool| tool.api_name() == given);
        tool.map(|tool| Self(tool.name()))
            .ok_or_else(|| D::Error::unknown_variant(&given, &TOOL_NAMES))
    }
}

impl PartialSchema for ToolAsked {
    fn schema() -> RefOr<Schema> {
        let names = Object::builder().schema_type(Type::String);
        let names = names.description(Some("A tool of the host."));
        names.enum_values(Some(TOOL_NAMES.iter().copied())).into()
    }
}

impl ToSchema for ToolAsked {}

/// A file for a run: its contents, or a file of a session of the same tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FileGiven {
    /// Name in the workspace of the run, without directories.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// Contents, as base64.
    contents: Option<String>,
    /// Session with the file; the key also needs the scope `sessions`.
    session_id: Option<String>,
    /// Path in the workspace of that session.
    path: Option<String>,
}

/// Requested budget of a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetAsked {
    /// Steps, each a turn of the model.
    #[schema(minimum = 1)]
    pub(super) steps: Option<u32>,
    /// Tokens of all requests and replies.
    #[schema(minimum = 1)]
    pub(super) tokens: Option<u64>,
    /// Money, in the currency of the service's prices.
    #[schema(minimum = 0)]
    pub(super) money: Option<f64>,
    /// Time of model and tools together, in seconds.
    #[schema(minimum = 1)]
    pub(super) seconds: Option<u64>,
    /// Tool calls.
    #[schema(minimum = 1)]
    pub(super) calls: Option<u32>,
}

/// Which code and tool calls need approval.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PolicyAsked {
    /// None.
    Never,
    /// Risky ones.
    Risky,
    /// All.
    Always,
}

/// Starts a run, which continues without its client.
#[utoipa::path(
    post, path = "/v1/runs", tag = "runs", operation_id = "create_run",
    request_body = CreateRun,
    responses((status = 202, description = "The started run.", body = RunView))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    slot: Option<Extension<Arc<Slot>>>,
    JsonRequest(mut asked, request): JsonRequest<CreateRun>,
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
    let sessions = asked.files.iter();
    for id in sessions.filter_map(|file| file.session_id.as_deref()) {
        // The files are there, and the run is driven there.
        let node = Box::pin(elsewhere(&service, &request.parts.headers, id)).await?;
        if let Some(node) = node {
            return Box::pin(pass_on(&service, None, &node, request.into_request())).await;
        }
    }
    drop(request);
    let (environment, isolation) = (asked.environment.as_deref(), asked.isolation.as_deref());
    let engine = service.engine(&caller.tenant, environment, isolation)?;
    let model = runs.model(asked.model.as_deref())?;
    check_task(&asked.task)?;
    let mut budget = runs.options().budget.clone();
    asked.budget.take(&mut budget)?;
    let mut policy = asked.approvals.map(Policy::from);
    if service.demo.is_some() {
        // What its examples show.
        policy = policy.or_else(|| demo::policy_of(&asked.task));
        asked.tools.push(ToolAsked(PLAN));
    }
    if let Some(policy) = policy {
        check_policy(policy, &service)?;
    }
    let tools = tools_on(Surface::Http).map(Tool::name);
    let tools = tools.filter(|name| asked.tools.contains(&ToolAsked(name)));
    let mut start = new_start(runs.options(), model, asked.task, budget)?;
    start.environment = asked.environment;
    start.isolation = Some(engine.walls());
    start.language = asked.language.unwrap_or(start.language);
    start.tools = tools.map(str::to_owned).collect();
    start.approvals.policy = policy.unwrap_or(start.approvals.policy);
    let admitted = runs.admit(&caller.tenant, &mut start).await?;
    let mut transfer = None;
    if asked.files.iter().any(|file| file.session_id.is_some()) {
        transfer = Some(service.admission.transfer(&caller.tenant)?);
    }
    let files = files(&service, &caller, asked.files).await?;
    let id = match (earlier, key) {
        // The service died before it could begin.
        (Some(id), _) => id,
        (None, None) => runs.new_id()?,
        (None, Some(key)) => {
            let (id, tenant) = (runs.new_id()?, &caller.tenant);
            let kept = &service.tenants;
            let kept = kept.keep_run_of_key(tenant, &key.key, &key.fingerprint, id.as_str());
            if !kept.await? {
                let detail = "another node executes the same request; retry";
                return Err(Problem::new(Code::RunBusy, detail));
            }
            id
        }
    };
    // Its files come after the key: an id that is forgotten with its key has no younger ones.
    let admitted = admitted.for_run(&id);
    for (name, contents) in files {
        let file = admitted.agent.file(&name, contents).await;
        start.files.push(file.map_err(fault)?);
    }
    drop(transfer);
    let begun = runs.start(admitted, id.clone(), start, None).await;
    if let Err(problem) = begun {
        // The node that first had the key may have been slow, and has begun the run meanwhile.
        let is_there = key.is_some() && runs.find(&caller.tenant, id.as_str()).await.is_ok();
        if !is_there {
            return Err(problem);
        }
    }
    accepted(&service, &caller, &id).await
}

/// The start of a run with the defaults of the service.
pub(super) fn new_start(
    options: &RunsOptions,
    model: &OfferedModel,
    task: String,
    budget: Budget,
) -> Result<Start, Problem> {
    let profile = model.provider.profile();
    if budget.money.is_some() && profile.prices.is_none() {
        let detail = "the money budget needs prices, and the prices of the model are unknown";
        return Err(Problem::new(Code::BadBody, detail));
    }
    Ok(Start {
        task,
        files: Vec::new(),
        model: model.name.clone(),
        dialect: model.dialect,
        language: options.language,
        prompts: None,
        budget,
        context_window: profile.context_window,
        max_tokens: model.max_tokens,
        temperature: model.temperature,
        review: model.review,
        tools: Vec::new(),
        packages: Vec::new(),
        versions: Vec::new(),
        granted: Vec::new(),
        branches: None,
        parent: None,
        environment: None,
        isolation: None,
        client: None,
        approvals: options.approvals.clone(),
    })
}

/// The run that an earlier attempt of this request started, or was about to start.
async fn begun(service: &Service, caller: &Caller, key: &Slot) -> Result<Option<RunId>, Problem> {
    let found = service.tenants.run_of_key(&caller.tenant, &key.key).await?;
    let Some((id, hash)) = found else {
        return Ok(None);
    };
    if hash != key.fingerprint {
        return Err(mismatch());
    }
    if id.is_empty() {
        let detail = "the run that this request started was deleted";
        return Err(Problem::new(Code::AnswerGone, detail));
    }
    let id = id.parse();
    id.map(Some)
        .map_err(|error| Problem::internal("invalid run id", error))
}

/// The response to the client that started a run.
pub(super) async fn accepted(
    service: &Service,
    caller: &Caller,
    id: &RunId,
) -> Result<Response, Problem> {
    let view = JsonResponse(RunView::read(service, caller, id.as_str()).await?);
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
    let detail = format!("`task` must have 1 to {MAX_TASK} bytes, and not only whitespace");
    Err(Problem::new(Code::BadBody, detail))
}

/// A tenant's approval policy may be stricter than the operator's, never weaker.
pub(super) fn check_policy(policy: Policy, service: &Service) -> Result<(), Problem> {
    let least = service.runs.options().approvals.policy;
    if policy >= least {
        return Ok(());
    }
    let detail = "the policy must be at least as strict as the service's";
    Err(Problem::new(Code::PolicyTooWeak, detail))
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
    /// Lowers a budget to the requested one.
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
                return Err(Problem::new(
                    Code::BadBody,
                    "`budget.money` must be at least 0",
                ));
            }
            if let Some(most) = budget.money.filter(|most| money > *most) {
                let detail = format!("`budget.money` must be at most {most}");
                return Err(Problem::new(Code::LimitTooHigh, detail));
            }
            budget.money = Some(money);
        }
        Ok(())
    }
}

/// Whether this is the name of a file, without directories.
pub(super) fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
}

/// The files for a run, each with its own name.
async fn files(
    service: &Service,
    caller: &Caller,
    given: Vec<FileGiven>,
) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let bad = |detail: String| Err(Problem::new(Code::BadBody, detail));
    if given.len() > MAX_FILES {
        return bad(format!("a run may have at most {MAX_FILES} files"));
    }
    let too_large = || {
        let detail = format!("the files of a run may have at most {MAX_FILE_BYTES} bytes");
        Problem::new(Code::FileTooLarge, detail)
    };
    let (mut files, mut names, mut left) = (Vec::new(), HashSet::new(), MAX_FILE_BYTES);
    for file in given {
        let name = file.name;
        if !is_file_name(&name) {
            let detail = "each `name` of `files` must be a file name, without directories";
            return Err(Problem::new(Code::BadPath, detail));
        }
        if !names.insert(name.clone()) {
            return bad(format!("`files` has `{}` twice", name.escape_debug()));
        }
        let contents = match (file.contents, file.session_id, file.path) {
            (Some(contents), None, None) => match BASE64.decode(contents) {
                Ok(contents) => contents,
                Err(_) => return bad("`contents` of a file must be base64".into()),
            },
            (None, Some(session), Some(path)) => {
                if !caller.scopes.contains(&Scope::Sessions) {
                    let detail = "the key lacks scope `sessions`";
                    return Err(Problem::new(Code::ScopeMissing, detail));
                }
                let entry = service.sessions.find(&caller.tenant, &session)?;
                check(&path)?;
                let file = with_files(&entry, move |session| session.open(&path)).await?;
                let mut contents = Vec::new();
                // It may grow meanwhile.
                let mut file = tokio::fs::File::from_std(file).take(left + 1);
                let read = file.read_to_end(&mut contents).await;
                read.map_err(|error| Problem::io("cannot read a file of a workspace", error))?;
                contents
            }
            _ => return bad("a file needs either `contents`, or `session_id` and `path`".into()),
        };
        left = left
            .checked_sub(contents.len() as u64)
            .ok_or_else(too_large)?;
        files.push((name, contents));
    }
    Ok(files)
}
