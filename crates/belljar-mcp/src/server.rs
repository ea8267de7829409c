//! The requests of one connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_agent::Approvals;
use belljar_sandbox::protocol::{Fate, visible};
use belljar_sandbox::{Cell, Error};
use futures_util::future::BoxFuture;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CustomRequest, CustomResult, ErrorCode, GetTaskParams, GetTaskResult, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::arguments::{
    AskAgent, BackgroundCommand, CloseSession, CreateSession, ForkReport, ForkSession, ListFiles,
    Named, ReadFile, RunCommand, RunPython, SessionReport, WriteFile,
};
use crate::cell::{NoOutcome, run_cell};
use crate::error::CallError;
use crate::question::Questions;
use crate::report::{cell_result, refusal, result};
use crate::runs::{Begun, LONGEST, Runs, drive, run_result};
use crate::sessions::{SessionEntry, Sessions};
use crate::tasks::Tasks;
use crate::tools::{self, INSTRUCTIONS, Perform, ServerTool, ToolResponse};
use crate::work::{Called, Waiting, Work, follow};
use crate::{commands, files};

/// The most calls that one connection may have at once; each holds its arguments in memory.
const MOST_CALLS: usize = 64;

/// The most forks of one call.
const MOST_FORKS: u32 = 8;

/// The longest name of a checkpoint, in bytes.
const MAX_NAME: usize = 400;

/// Grace period for runs when the connection ends.
const LAST_STEPS: Duration = Duration::from_secs(3);

/// Answers the calls of one connection.
pub struct Server {
    sessions: Arc<Sessions>,
    /// Id of the session for calls that name none. Made at the first of them.
    default: tokio::sync::Mutex<Option<String>>,
    calls: Arc<Semaphore>,
    tasks: Tasks,
    waiting: Waiting,
    /// With what was accepted for the rest of the connection.
    approvals: Arc<Mutex<Approvals>>,
    runs: Option<Arc<Runs>>,
    /// Stops all work.
    over: CancellationToken,
    tools: Vec<ServerTool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A connection to these sessions, whose code runs without approval.
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Self {
            sessions,
            default: tokio::sync::Mutex::default(),
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
            tasks: Tasks::default(),
            waiting: Waiting::default(),
            approvals: Arc::default(),
            runs: None,
            over: CancellationToken::new(),
            tools: tools::list(),
        }
    }

    /// The approval policy; approvals go through the client.
    #[must_use]
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Arc::new(Mutex::new(approvals));
        self
    }

    /// Offers an agent, too.
    #[must_use]
    pub fn runs(mut self, runs: Runs) -> Self {
        self.runs = Some(Arc::new(runs));
        self.tools.push(tools::ask_agent());
        self
    }

    /// Whether no call is active, no task is kept and no decision is pending: another server in
    /// place of this one would answer the same, except for its sessions.
    pub fn is_idle(&self) -> bool {
        let calls = MOST_CALLS - self.calls.available_permits();
        calls == 0 && self.tasks.are_none() && self.waiting.are_none()
    }

    pub(crate) fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.sessions)
    }

    /// Ends all calls, and waits a moment for runs to end.
    pub(crate) fn ender(&self) -> impl Future<Output = ()> + use<> {
        let (over, runs) = (self.over.clone(), self.runs.clone());
        async move {
            over.cancel();
            if let Some(runs) = runs {
                let _ = timeout(LAST_STEPS, runs.idle()).await;
            }
        }
    }

    /// The default session, if there is one.
    async fn default_session(&self) -> Option<Arc<SessionEntry>> {
        let default = self.default.lock().await;
        self.sessions.find(default.as_deref()?).ok()
    }

    /// The session with this id, or the default one.
    async fn session(&self, id: Option<&str>) -> Result<Arc<SessionEntry>, CallError> {
        if let Some(id) = id {
            return self.sessions.find(id);
        }
        let mut default = self.default.lock().await;
        if let Some(id) = &*default
            && let Ok(entry) = self.sessions.find(id)
        {
            return Ok(entry);
        }
        let entry = self.sessions.create(None, None).await?;
        *default = Some(entry.id.clone());
        Ok(entry)
    }

    /// Starts a cell, once a person has approved it if needed.
    pub(crate) async fn run_python(&self, args: RunPython) -> Result<Work, CallError> {
        let permit = self.call_permit()?;
        let cell_permit = self.sessions.permits().cell(args.code.len())?;
        let entry = self.session(args.session_id.as_deref()).await?;
        let limit = entry.session.limits().wall_time;
        let wall_time = at_most(limit, args.timeout_seconds);
        let sessions = self.sessions();
        Ok(self.start(limit, move |asks, stop, said| async move {
            let _held_until_the_end = (permit, cell_permit);
            if let Err(why) = unless_stopped(&stop, asks.ask_for_code(&args.code)).await {
                return refusal(why.to_string());
            }
            let cell = Cell {
                installs: true,
                wall_time: Some(wall_time),
                ..Cell::from(args.code.as_str())
            };
            let counts = sessions.permits();
            match run_cell(Arc::clone(&entry), cell, counts, stop, said).await {
                Ok(outcome) => {
                    if outcome.state == Fate::Lost {
                        sessions.forget(&entry);
                    }
                    cell_result(&entry.id, &args.code, outcome)
                }
                Err(NoOutcome::Cancelled) => refusal("The call was cancelled before it began."),
                Err(NoOutcome::Failed(error)) => {
                    refusal(sessions.explain(&entry, error).to_string())
                }
            }
        }))
    }

    /// Starts a command, once a person has approved it if needed.
    pub(crate) async fn run_command(&self, args: RunCommand) -> Result<Work, CallError> {
        let permit = self.call_permit()?;
        let command_permit = self.sessions.permits().cell(args.size())?;
        let entry = self.session(args.session_id.as_deref()).await?;
        let limit = entry.session.limits().wall_time;
        let wall_time = at_most(limit, args.timeout_seconds);
        let sessions = self.sessions();
        Ok(self.start(limit, move |asks, stop, said| async move {
            let _held_until_the_end = permit;
            let command = args.shell_command();
            if let Err(why) = unless_stopped(&stop, asks.ask_for_command(&command)).await {
                return refusal(why.to_string());
            }
            let bounds = (wall_time, command_permit);
            let ran = commands::run(&sessions, &entry, args, bounds, stop, said).await;
            ran.unwrap_or_else(|error| refusal(sessions.explain(&entry, error).to_string()))
        }))
    }

    pub(crate) async fn background_command(
        &self,
        args: BackgroundCommand,
        stop: &CancellationToken,
    ) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let answer = commands::background(&entry, args, stop).await;
        answer.map_err(|error| self.sessions.explain(&entry, error))
    }

    /// Starts a run of the agent.
    pub(crate) async fn ask_agent(&self, args: AskAgent) -> Result<Work, CallError> {
        // Without an agent, the tool is not offered.
        let Some(runs) = &self.runs else {
            return Err(CallError::NoAgent);
        };
        let (environment, isolation) = (args.environment.as_deref(), args.isolation.as_deref());
        let isolation = self.sessions.engine(environment, isolation)?.walls();
        let permit = self.call_permit()?;
        let entry = match &args.session_id {
            Some(id) => Some(self.sessions.find(id)?),
            None => self.default_session().await,
        };
        let approvals = self.approvals.lock();
        let approvals = approvals.unwrap_or_else(PoisonError::into_inner).clone();
        // Its session counts as one more session.
        let permits = self.sessions.permits();
        let begun = runs.begin(&args, isolation, entry.as_deref(), approvals, permits);
        let Begun { live, permits } = begun.await?;
        let (id, artifacts) = (live.id().clone(), live.artifact_files());
        let (runs, sessions) = (Arc::clone(runs), self.sessions());
        Ok(self.start(LONGEST, move |asks, stop, said| async move {
            let _held_until_the_end = (permit, permits);
            match drive(live, sessions, asks, stop, said).await {
                Ok(run) => run_result(&runs, &run, id.as_str(), &artifacts, entry.as_deref())
                    .await
                    .unwrap_or_else(|| refusal(format!("The run {id} did not come to its end."))),
                Err(error) => {
                    let error = runs.explain(&format!("The run {id} failed"), &error);
                    refusal(error.to_string())
                }
            }
        }))
    }

    /// Starts work, which gets where it asks a person, what stops it, and where its progress goes.
    fn start<F: Future<Output = CallToolResult> + Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(Questions, CancellationToken, watch::Sender<String>) -> F,
    ) -> Work {
        let stop = self.over.child_token();
        let (said, heard) = watch::channel(String::new());
        let (asks, questions) = Questions::new(Arc::clone(&self.approvals));
        Work {
            running: tokio::spawn(work(asks, stop.clone(), said)),
            questions,
            heard,
            stop,
            limit,
        }
    }

    /// Long calls: cells and runs.
    async fn work(
        &self,
        begin: impl for<'a> Fn(&'a Self, Option<JsonObject>) -> BoxFuture<'a, Result<Work, CallError>>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, CallError> {
        let called = Called::new(&request);
        let work = match &request.request_state {
            Some(id) => self.waiting.take(id, &called, request.input_responses)?,
            None => begin(self, request.arguments).await?,
        };
        follow(work, called, context, &self.tasks, &self.waiting).await
    }

    fn call_permit(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let permit = Arc::clone(&self.calls).try_acquire_owned();
        permit.map_err(|_| too_many_calls())
    }

    pub(crate) async fn create_session(&self, args: CreateSession) -> ToolResponse {
        let (environment, isolation) = (args.environment.as_deref(), args.isolation.as_deref());
        let entry = self.sessions.create(environment, isolation).await?;
        let text = format!("session_id: {}", entry.id);
        Ok(session_result(&entry, text))
    }

    pub(crate) fn close_session(&self, args: &CloseSession) -> ToolResponse {
        let entry = self.sessions.find_any(&args.session_id)?;
        self.sessions.forget(&entry);
        // What runs in a call holds the session until it ends.
        entry.session.interrupt();
        for command in entry.session.commands() {
            let _ = command.kill();
        }
        Ok(session_result(&entry, "The session is closed.".into()))
    }

    pub(crate) async fn fork_session(
        &self,
        args: ForkSession,
        stop: &CancellationToken,
    ) -> ToolResponse {
        if !(1..=MOST_FORKS).contains(&args.count) {
            let why = format!("count must be from 1 to {MOST_FORKS}.");
            return Err(CallError::argument(why));
        }
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or(CallError::Cancelled)?;
        let forks = self.sessions.fork(&entry, args.count).await?;
        let ids = forks.iter().map(|fork| fork.id.clone());
        let report = ForkReport {
            session_ids: ids.collect(),
        };
        let text = format!(
            "session_ids of the copies: {}",
            report.session_ids.join(", ")
        );
        Ok(result(vec![ContentBlock::text(text)], &report))
    }

    pub(crate) async fn checkpoint(&self, args: Named, stop: &CancellationToken) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or(CallError::Cancelled)?;
        let made = entry.session.checkpoint(check_name(&args.name)?).await;
        match made {
            Ok(()) => {
                let text = format!("The checkpoint `{}` is made.", visible(&args.name));
                Ok(session_result(&entry, text))
            }
            Err(Error::TooManyCheckpoints { limit }) => {
                let names = names(&entry).await;
                Err(CallError::TooManyCheckpoints { limit, names })
            }
            Err(error) => Err(self.sessions.explain(&entry, error)),
        }
    }

    pub(crate) async fn restore(&self, args: Named, stop: &CancellationToken) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or(CallError::Cancelled)?;
        match entry.session.restore(check_name(&args.name)?).await {
            Ok(()) => {
                let name = visible(&args.name);
                let text = format!(
                    "The variables are as they were at the checkpoint `{name}`. Files are as they \
                     were before."
                );
                Ok(session_result(&entry, text))
            }
            Err(Error::NoCheckpoint(_)) => Err(CallError::NoCheckpoint(names(&entry).await)),
            Err(error) => Err(self.sessions.explain(&entry, error)),
        }
    }

    pub(crate) async fn list_files(&self, args: ListFiles) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let answer = files::list(&entry, args).await;
        answer.map_err(|error| self.sessions.explain(&entry, error))
    }

    pub(crate) async fn read_file(&self, args: ReadFile) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let answer = files::read(&entry, args).await;
        answer.map_err(|error| self.sessions.explain(&entry, error))
    }

    pub(crate) async fn write_file(&self, args: WriteFile) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let answer = files::write(&entry, args).await;
        answer.map_err(|error| self.sessions.explain(&entry, error))
    }

    fn definitions(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(|tool| &tool.definition)
    }
}

impl Drop for Server {
    /// Tasks continue in the background, but can no longer be polled.
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks();
        ServerConfig::new(capabilities.build())
            .with_server_info(
                Implementation::new("belljar", env!("CARGO_PKG_VERSION")).with_title("Belljar"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.definitions().cloned().collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut tools = self.tools.iter();
        let Some(tool) = tools.find(|tool| tool.definition.name == request.name) else {
            let names: Vec<&str> = self.definitions().map(|tool| &*tool.name).collect();
            return Err(ErrorData::invalid_params(
                format!("there is no such tool; there are {}", names.join(", ")),
                None,
            ));
        };
        let answer = match &tool.perform {
            Perform::Work(begin) => self.work(begin, request, &context).await,
            Perform::Call(call) => match self.calls.try_acquire() {
                Ok(_permit) => {
                    let answer = call(self, request.arguments, &context.ct).await;
                    answer.map(CallToolResponse::from)
                }
                Err(_) => Err(too_many_calls()),
            },
        };
        // Mistakes that the model can correct are returned to the model: many clients hide protocol
        // errors.
        Ok(answer.unwrap_or_else(|error| refusal(error.to_string()).into()))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel(&request.task_id)
    }

    /// Comes here if no request of the protocol fits: unknown methods, and known ones whose parameters
    /// have the wrong types.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            "initialize" | "tools/call" | "tools/list" | "tasks/get" | "tasks/update"
            | "tasks/cancel" => {
                ErrorData::invalid_params("the parameters have the wrong types", None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no such method", None),
        })
    }
}

fn check_name(name: &str) -> Result<&str, CallError> {
    if name.is_empty() || name.len() > MAX_NAME {
        let why = "name must have from 1 to 100 characters.";
        return Err(CallError::argument(why));
    }
    Ok(name)
}

fn session_result(entry: &SessionEntry, text: String) -> CallToolResult {
    let report = SessionReport {
        session_id: entry.id.clone(),
    };
    result(vec![ContentBlock::text(text)], &report)
}

/// The names of a session's checkpoints, in words.
async fn names(entry: &SessionEntry) -> String {
    let checkpoints = entry.session.checkpoints().await.unwrap_or_default();
    let names: Vec<String> = checkpoints
        .into_iter()
        .filter_map(|checkpoint| Some(format!("`{}`", visible(&checkpoint.name?))))
        .collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// A time limit that a call may only lower.
fn at_most(limit: Duration, seconds: Option<u32>) -> Duration {
    seconds.map_or(limit, |seconds| {
        limit.min(Duration::from_secs(u64::from(seconds.max(1))))
    })
}

/// The decision on what is to run, unless its call is cancelled first.
async fn unless_stopped(
    stop: &CancellationToken,
    decision: impl Future<Output = Result<(), CallError>>,
) -> Result<(), CallError> {
    tokio::select! {
        decision = decision => decision,
        () = stop.cancelled() => Err(CallError::Cancelled),
    }
}

fn too_many_calls() -> CallError {
    CallError::Limit(format!(
        "More than {MOST_CALLS} calls at once are refused: wait for some of them."
    ))
}
