//! The requests of one connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_agent::Approvals;
use belljar_sandbox::Error;
use belljar_sandbox::protocol::{Fate, visible};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CustomRequest, CustomResult, ErrorCode, GetTaskParams, GetTaskResult, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::cell::{NoOutcome, run_cell};
use crate::files;
use crate::question::Questions;
use crate::report::{cell_result, refusal, result};
use crate::runs::{Begun, LONGEST, Runs, drive, run_result};
use crate::sessions::{SessionEntry, Sessions};
use crate::tasks::Tasks;
use crate::tools::{
    self, ASK_AGENT, AskAgent, CloseSession, CreateSession, ForkReport, ForkSession, INSTRUCTIONS,
    Named, RUN_PYTHON, RunPython, SessionReport,
};
use crate::work::{Called, Waiting, Work, follow};

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
    tools: Vec<Tool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// The result of a call, or its error, in words for the model.
type ToolResponse = Result<CallToolResult, String>;

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
    async fn session(&self, id: Option<&str>) -> Result<Arc<SessionEntry>, String> {
        if let Some(id) = id {
            return self.sessions.find(id);
        }
        let mut default = self.default.lock().await;
        if let Some(id) = &*default
            && let Ok(entry) = self.sessions.find(id)
        {
            return Ok(entry);
        }
        let entry = self.sessions.create().await?;
        *default = Some(entry.id.clone());
        Ok(entry)
    }

    /// Starts a cell, once a person has approved it if needed.
    async fn run_python(&self, args: RunPython) -> Result<Work, String> {
        let permit = self.call_permit()?;
        let cell_permit = self.sessions.permits().cell(args.code.len())?;
        let entry = self.session(args.session_id.as_deref()).await?;
        let limit = entry.session.limits().wall_time;
        let stop = self.over.child_token();
        let (said, heard) = watch::channel(String::new());
        let (asks, questions) = Questions::new(Arc::clone(&self.approvals));
        let sessions = self.sessions();
        let stopped = stop.clone();
        let running = tokio::spawn(async move {
            let _held_until_the_end = (permit, cell_permit);
            let approved = tokio::select! {
                approved = asks.ask_for_code(&args.code) => approved,
                () = stopped.cancelled() => Err(cancelled()),
            };
            if let Err(why) = approved {
                return refusal(why);
            }
            let (code, counts) = (args.code.clone(), sessions.permits());
            let cell = run_cell(Arc::clone(&entry), code, counts, stopped, said);
            match cell.await {
                Ok(outcome) => {
                    if outcome.state == Fate::Lost {
                        sessions.forget(&entry);
                    }
                    cell_result(&entry.id, &args.code, outcome)
                }
                Err(NoOutcome::Cancelled) => refusal("The call was cancelled before it began."),
                Err(NoOutcome::Failed(error)) => refusal(sessions.explain(&entry, error)),
            }
        });
        Ok(Work {
            running,
            questions,
            heard,
            stop,
            limit,
        })
    }

    /// Starts a run of the agent.
    async fn ask_agent(&self, args: AskAgent, runs: &Arc<Runs>) -> Result<Work, String> {
        let permit = self.call_permit()?;
        let entry = match &args.session_id {
            Some(id) => Some(self.sessions.find(id)?),
            None => self.default_session().await,
        };
        let approvals = self.approvals.lock();
        let approvals = approvals.unwrap_or_else(PoisonError::into_inner).clone();
        // Its session counts as one more session.
        let permits = self.sessions.permits();
        let begun = runs.begin(&args, entry.as_deref(), approvals, permits);
        let Begun { live, permits } = begun.await?;
        let stop = self.over.child_token();
        let (said, heard) = watch::channel(String::new());
        let (asks, questions) = Questions::new(Arc::clone(&self.approvals));
        let (id, directory) = (live.id().clone(), live.artifacts());
        let (stopped, runs, sessions) = (stop.clone(), Arc::clone(runs), self.sessions());
        let running = tokio::spawn(async move {
            let _held_until_the_end = (permit, permits);
            match drive(live, sessions, asks, stopped, said).await {
                Ok(run) => run_result(&runs, &run, id.as_str(), &directory, entry.as_deref())
                    .await
                    .unwrap_or_else(|| refusal(format!("The run {id} did not come to its end."))),
                Err(error) => refusal(runs.explain(&format!("The run {id} failed"), &error)),
            }
        });
        Ok(Work {
            running,
            questions,
            heard,
            stop,
            limit: LONGEST,
        })
    }

    /// Long calls: cells and runs.
    async fn work(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, String> {
        let called = Called::new(&request);
        let work = match (&request.request_state, &self.runs) {
            (Some(id), _) => self.waiting.take(id, &called, request.input_responses)?,
            (None, Some(runs)) if request.name == ASK_AGENT => {
                let args = parse(&request.name, request.arguments)?;
                Box::pin(self.ask_agent(args, runs)).await?
            }
            (None, _) => {
                let args = parse(&request.name, request.arguments)?;
                self.run_python(args).await?
            }
        };
        follow(work, called, context, &self.tasks, &self.waiting).await
    }

    fn call_permit(&self) -> Result<OwnedSemaphorePermit, String> {
        let permit = Arc::clone(&self.calls).try_acquire_owned();
        permit.map_err(|_| too_many_calls())
    }

    async fn create_session(&self) -> ToolResponse {
        let entry = self.sessions.create().await?;
        let text = format!("session_id: {}", entry.id);
        Ok(session_result(&entry, text))
    }

    fn close_session(&self, args: &CloseSession) -> ToolResponse {
        let entry = self.sessions.find(&args.session_id)?;
        self.sessions.forget(&entry);
        // A cell that runs holds the session until it ends.
        entry.session.interrupt();
        Ok(session_result(&entry, "The session is closed.".into()))
    }

    async fn fork_session(&self, args: &ForkSession, stop: &CancellationToken) -> ToolResponse {
        if !(1..=MOST_FORKS).contains(&args.count) {
            return Err(format!("count must be from 1 to {MOST_FORKS}."));
        }
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or_else(cancelled)?;
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

    async fn checkpoint(&self, args: &Named, stop: &CancellationToken) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or_else(cancelled)?;
        let made = entry.session.checkpoint(check_name(&args.name)?).await;
        match made {
            Ok(()) => {
                let text = format!("The checkpoint `{}` is made.", visible(&args.name));
                Ok(session_result(&entry, text))
            }
            Err(Error::TooManyCheckpoints { limit }) => Err(format!(
                "The session has {limit} checkpoints already: use one of their names again ({}).",
                names(&entry).await
            )),
            Err(error) => Err(self.sessions.explain(&entry, error)),
        }
    }

    async fn restore(&self, args: &Named, stop: &CancellationToken) -> ToolResponse {
        let entry = self.session(args.session_id.as_deref()).await?;
        let _turn = entry.turn(stop).await.ok_or_else(cancelled)?;
        match entry.session.restore(check_name(&args.name)?).await {
            Ok(()) => {
                let name = visible(&args.name);
                let text = format!(
                    "The variables are as they were at the checkpoint `{name}`. Files are as they \
                     were before."
                );
                Ok(session_result(&entry, text))
            }
            Err(Error::NoCheckpoint(_)) => Err(format!(
                "The session has no checkpoint of this name; those it has: {}.",
                names(&entry).await
            )),
            Err(error) => Err(self.sessions.explain(&entry, error)),
        }
    }

    /// A call of any other tool.
    async fn call(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
        stop: &CancellationToken,
    ) -> ToolResponse {
        let Ok(_call) = self.calls.try_acquire() else {
            return Err(too_many_calls());
        };
        match name {
            "create_session" => {
                let CreateSession {} = parse(name, arguments)?;
                self.create_session().await
            }
            "close_session" => self.close_session(&parse(name, arguments)?),
            "fork_session" => self.fork_session(&parse(name, arguments)?, stop).await,
            "checkpoint" => self.checkpoint(&parse(name, arguments)?, stop).await,
            "restore" => self.restore(&parse(name, arguments)?, stop).await,
            "list_files" => {
                let args: tools::ListFiles = parse(name, arguments)?;
                let entry = self.session(args.session_id.as_deref()).await?;
                let answer = files::list(&entry, args).await;
                answer.map_err(|error| self.sessions.explain(&entry, error))
            }
            "read_file" => {
                let args: tools::ReadFile = parse(name, arguments)?;
                let entry = self.session(args.session_id.as_deref()).await?;
                let answer = files::read(&entry, args).await;
                answer.map_err(|error| self.sessions.explain(&entry, error))
            }
            _ => {
                let args: tools::WriteFile = parse(name, arguments)?;
                let entry = self.session(args.session_id.as_deref()).await?;
                let answer = files::write(&entry, args).await;
                answer.map_err(|error| self.sessions.explain(&entry, error))
            }
        }
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
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(name) = self
            .tools
            .iter()
            .map(|tool| &tool.name)
            .find(|name| **name == request.name)
        else {
            let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.name).collect();
            return Err(ErrorData::invalid_params(
                format!("there is no such tool; there are {}", names.join(", ")),
                None,
            ));
        };
        let answer = if name == RUN_PYTHON || name == ASK_AGENT {
            self.work(request, &context).await
        } else {
            let answer = self.call(name, request.arguments, &context.ct).await;
            answer.map(CallToolResponse::from)
        };
        // Mistakes that the model can correct are returned to the model: many clients hide protocol
        // errors.
        Ok(answer.unwrap_or_else(|why| refusal(why).into()))
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

fn parse<T: DeserializeOwned>(tool: &str, arguments: Option<JsonObject>) -> Result<T, String> {
    let parsed = serde_json::from_value(Value::Object(arguments.unwrap_or_default()));
    parsed.map_err(|error| format!("Wrong arguments for {tool}: {error}."))
}

fn check_name(name: &str) -> Result<&str, String> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err("name must have from 1 to 100 characters.".into());
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

fn cancelled() -> String {
    "The call was cancelled.".into()
}

fn too_many_calls() -> String {
    format!("More than {MOST_CALLS} calls at once are refused: wait for some of them.")
}
