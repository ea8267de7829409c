//! Runs of an agent for a client: a task in, an answer with evidence and files out.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{
    Agent, ArtifactFiles, Ending, Evidence, ExitReason, LiveRun, Progress, Run, RunError, RunEvent,
    Start, Surface, TaskFile, tools_on,
};
use belljar_sandbox::protocol::{Language, Walls, plain, visible};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::arguments::AskAgent;
use crate::error::CallError;
use crate::files;
use crate::permits::{Permit, Permits};
use crate::question::Questions;
use crate::report::{MAX_IMAGE_BYTES, MAX_TEXT, cut, result};
use crate::sessions::{SessionEntry, Sessions};

/// The most concurrent runs of a connection, and in all: the client may be a model that asks for
/// ever.
const AT_ONCE: u32 = 4;
const IN_ALL: u32 = 100;

/// The longest that the model and the code of a run may take together.
pub(crate) const LONGEST: Duration = Duration::from_hours(1);

/// The longest task, in bytes.
const MAX_TASK: usize = 64 << 10;

/// The most files that a run is given, and that it returns.
const MOST_FILES: usize = 32;

/// The most bytes of returned files.
const MAX_FILE_BYTES: u64 = 64 << 20;

const NOT_BEGUN: &str = "The run could not begin";

/// The agent of a connection, and the options of its runs.
#[derive(Debug)]
pub struct Runs {
    agent: Agent,
    start: Start,
    permits: Arc<Semaphore>,
    left: AtomicU32,
    for_tenants: bool,
}

/// A run that starts, and its permits: of the connection, and of the client.
pub(crate) struct Begun {
    pub(crate) live: LiveRun,
    pub(crate) permits: (OwnedSemaphorePermit, Permit),
}

impl Runs {
    /// Runs of this agent that start like this, with the requested task and files. Its budget is
    /// the maximum.
    pub fn new(agent: Agent, mut start: Start) -> Self {
        let seconds = start.budget.seconds.unwrap_or(u64::MAX);
        start.budget.seconds = Some(seconds.min(LONGEST.as_secs()));
        let tools = tools_on(Surface::Mcp).map(|tool| tool.name().to_owned());
        start.tools = tools.collect();
        Self {
            agent,
            start,
            permits: Arc::new(Semaphore::new(AT_ONCE as usize)),
            left: AtomicU32::new(IN_ALL),
            for_tenants: false,
        }
    }

    /// For clients that are not the operator: messages of the host or the model server go to the
    /// log only.
    #[must_use]
    pub fn for_tenants(mut self) -> Self {
        self.for_tenants = true;
        self
    }

    /// The error of a run, as the client may see it.
    pub(crate) fn explain(&self, what: &str, error: &RunError) -> CallError {
        if self.for_tenants {
            tracing::error!(%error, "{what}");
            return CallError::Run(format!(
                "{what}: this is a fault of the service; see its log."
            ));
        }
        CallError::Run(format!("{what}: {error}"))
    }

    /// The end of a run, as the client may see it.
    fn ending(&self, run: &Run) -> Option<Ending> {
        let mut ending = run.ending()?.clone();
        if self.for_tenants
            && let ExitReason::ModelFailed { error } = &mut ending.reason
        {
            tracing::error!(%error, "the request to the model failed");
            "the request to the model failed".clone_into(error);
        }
        Some(ending)
    }

    /// Waits until no run is active.
    pub(crate) async fn idle(&self) {
        let _ = self.permits.acquire_many(AT_ONCE).await;
    }

    /// Starts a run, if it is allowed. `entry` has its files.
    pub(crate) async fn begin(
        &self,
        args: &AskAgent,
        isolation: Walls,
        entry: Option<&SessionEntry>,
        approvals: belljar_agent::Approvals,
        permits: &dyn Permits,
    ) -> Result<Begun, CallError> {
        if args.task.trim().is_empty() {
            return Err(CallError::argument(
                "task is empty: say what is to be done.",
            ));
        }
        if args.task.len() > MAX_TASK {
            return Err(CallError::argument(format!(
                "task may have {MAX_TASK} bytes: put what is longer into a file, and name it in \
                 session_files."
            )));
        }
        if args.max_steps == Some(0) {
            return Err(CallError::argument("max_steps must be 1 or more."));
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| {
            CallError::Limit(format!(
                "{AT_ONCE} runs are active already, the maximum: wait for one of them."
            ))
        })?;
        let mut start = Start {
            task: args.task.clone(),
            approvals,
            environment: args.environment.clone(),
            isolation: Some(isolation),
            ..self.start.clone()
        };
        let most = start.budget.steps;
        start.budget.steps = args.max_steps.unwrap_or(most).min(most);
        let permits = (permit, permits.run(&mut start).await?);
        let id = Agent::new_run_id();
        let agent = self.agent.for_run(&id);
        start.files = self.files(&agent, &args.session_files, entry).await?;
        let left = |left: u32| left.checked_sub(1);
        let begins = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        begins.map_err(|_| {
            CallError::Limit(format!(
                "This connection has had its {IN_ALL} runs: do the rest with run_python."
            ))
        })?;
        let live = agent
            .start_as(id, start)
            .await
            .map_err(|error| self.explain(NOT_BEGUN, &error))?;
        Ok(Begun { live, permits })
    }

    async fn files(
        &self,
        agent: &Agent,
        paths: &[String],
        entry: Option<&SessionEntry>,
    ) -> Result<Vec<TaskFile>, CallError> {
        if paths.len() > MOST_FILES {
            return Err(CallError::argument(format!(
                "session_files may name {MOST_FILES} files."
            )));
        }
        let mut given: Vec<TaskFile> = Vec::new();
        for path in paths {
            let shown = visible(path);
            let none = || CallError::argument("session_files needs a session: there is none yet.");
            let entry = entry.ok_or_else(none)?;
            let read = files::contents(entry, path).await;
            let (name, contents) = read.map_err(|error| CallError::File {
                path: shown.clone().into_owned(),
                error,
            })?;
            if given.iter().any(|file| file.name == name) {
                return Err(CallError::argument(format!(
                    "session_files names {shown} twice."
                )));
            }
            given.push(
                agent
                    .file(&name, contents)
                    .await
                    .map_err(|error| self.explain(NOT_BEGUN, &error))?,
            );
        }
        Ok(given)
    }
}

/// Drives a run to its end. A stopped run ends with the best answer so far. Progress goes to
/// `said`, approvals to `questions`.
pub(crate) async fn drive(
    live: LiveRun,
    sessions: Arc<Sessions>,
    questions: Questions,
    stop: CancellationToken,
    said: watch::Sender<String>,
) -> Result<Run, RunError> {
    let control = live.control();
    let (asked, mut approvals) = mpsc::unbounded_channel();
    let counted = control.clone();
    let mut listener = move |progress: Progress<'_>| {
        sessions.permits().run_told(&progress, &counted);
        let Progress::Event(event, run) = progress else {
            return;
        };
        said.send_replace(match event {
            RunEvent::Asked { step, .. } => format!("step {step}: the model is asked"),
            RunEvent::CallStarted { step, call } => {
                let calls = run.steps().last().map(|step| &step.calls);
                let call = calls.and_then(|calls| calls.get(usize::try_from(*call).ok()?));
                let tool = call.map_or_else(|| "a call".into(), |call| visible(&call.tool));
                format!("step {step}: {tool} runs")
            }
            RunEvent::ApprovalAsked(approval) => {
                let _ = asked.send((**approval).clone());
                format!("step {}: a person must decide", approval.step)
            }
            _ => return,
        });
    };
    let mut driving = Box::pin(live.drive(&mut listener));
    let mut desk = std::pin::pin!(async {
        while let Some(approval) = approvals.recv().await {
            let decision = questions.ask(&approval).await;
            let decided = control.decide(&approval.id, &approval.hash, decision);
            if let Err(error) = decided.await {
                tracing::warn!(%error, "a decision was refused");
            }
        }
    });
    let (mut stopping, mut asks) = (false, true);
    loop {
        tokio::select! {
            run = &mut driving => return run,
            () = &mut desk, if asks => asks = false,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                control.stop();
            }
        }
    }
}

/// What a run came to, as data.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunReport {
    /// The run's id, for `belljar runs show`.
    run: String,
    /// Why it ended: `answered`; `unverified`, with the doubts; else it has no answer.
    reason: ExitReason,
    /// The answer.
    answer: Option<String>,
    /// The last output, if there is no answer. It is not an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_output: Option<String>,
    /// Where the values of the answer were seen: their origin, not that they are right.
    evidence: Vec<Evidence>,
    /// The session that `files` are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Files that the run made, as they are named in the session.
    files: Vec<RunFile>,
    /// How many images are in the content.
    images: usize,
    /// What was left out, and why.
    notes: Vec<String>,
    /// Turns of the model.
    steps: u32,
    /// Tokens of all requests and replies.
    tokens: u64,
}

/// A file that a run made.
#[derive(Debug, Serialize, JsonSchema)]
struct RunFile {
    path: String,
    /// Bytes.
    size: u64,
}

/// The result of a call that made this run. Its files go into the session, if there is one.
pub(crate) async fn run_result(
    runs: &Runs,
    run: &Run,
    id: &str,
    artifacts: &ArtifactFiles,
    entry: Option<&SessionEntry>,
) -> Option<CallToolResult> {
    let ending = &runs.ending(run)?;
    let spent = run.spent();
    let mut report = RunReport {
        run: id.to_owned(),
        reason: ending.reason.clone(),
        answer: ending.answer.clone().map(|answer| cut(answer, MAX_TEXT)),
        last_output: ending.last_output.clone().map(|text| cut(text, MAX_TEXT)),
        evidence: ending.evidence.clone(),
        session_id: entry.map(|entry| entry.id.clone()),
        files: Vec::new(),
        images: 0,
        notes: Vec::new(),
        steps: spent.steps,
        tokens: spent.tokens(),
    };
    let not_kept = ending.not_kept.iter();
    let not_kept =
        not_kept.map(|lost| format!("{} was not kept: {}", visible(&lost.path), lost.why));
    report.notes.extend(not_kept);
    let images = give_files(runs, artifacts, ending, entry, &mut report).await;
    report.images = images.len();
    let language = run.start().map(|start| start.language).unwrap_or_default();
    let mut content = vec![ContentBlock::text(words(&report, language))];
    content.extend(images);
    let mut result = result(content, &report);
    result.is_error = Some(ending.answer.is_none());
    Some(result)
}

/// Puts files of a run into the session, in a directory of their own: none is overwritten. The images
/// among them.
async fn give_files(
    runs: &Runs,
    artifacts: &ArtifactFiles,
    ending: &Ending,
    entry: Option<&SessionEntry>,
    report: &mut RunReport,
) -> Vec<ContentBlock> {
    let mut images = Vec::new();
    let (mut bytes, mut image_bytes) = (0, 0);
    for artifact in &ending.artifacts {
        let name = visible(&artifact.path);
        bytes += artifact.size;
        if report.files.len() >= MOST_FILES || bytes > MAX_FILE_BYTES {
            let left = format!("{name} was left out: too many files, or too large");
            report.notes.push(left);
            continue;
        }
        // The run has left there what its session could name, and nothing else.
        let contents = match read_artifact(artifacts, ending, &artifact.path).await {
            Ok(contents) => contents,
            Err(error) => {
                let error = runs.explain(&format!("{name} can't be read"), &error);
                report.notes.push(error.to_string());
                continue;
            }
        };
        if let Some(mime) = files::image_type(&contents)
            && image_bytes + contents.len() <= MAX_IMAGE_BYTES
        {
            image_bytes += contents.len();
            images.push(ContentBlock::image(BASE64.encode(&contents), mime));
        }
        let Some(entry) = entry else {
            let left = format!("{name} is with the run only: there is no session to put it into");
            report.notes.push(left);
            continue;
        };
        let path = format!("runs/{}/{}", report.run, artifact.path);
        match files::put(entry, &path, &contents).await {
            Ok(()) => report.files.push(RunFile {
                path,
                size: contents.len() as u64,
            }),
            Err(error) => report
                .notes
                .push(format!("{name} can't be put into the session: {error}")),
        }
    }
    report.notes.truncate(MOST_FILES);
    images
}

async fn read_artifact(
    artifacts: &ArtifactFiles,
    ending: &Ending,
    path: &str,
) -> Result<Vec<u8>, RunError> {
    let mut file = artifacts.open(ending, path).await?;
    let mut contents = Vec::new();
    let read = file.read_to_end(&mut contents);
    read.map_err(|source| RunError::File {
        path: path.into(),
        source,
    })?;
    Ok(contents)
}

fn words(report: &RunReport, language: Language) -> String {
    let texts = &language.texts().run;
    let mut lines = Vec::new();
    match (&report.answer, &report.last_output) {
        (Some(answer), _) => {
            // Before the answer, so that no reader stops too early.
            let doubts = report.reason.doubts().iter();
            let doubts = doubts.map(|doubt| texts.unverified(&plain(&doubt.text(language))));
            lines.extend(doubts);
            lines.push(plain(answer).into_owned());
        }
        (None, output) => {
            let why = match &report.reason {
                ExitReason::ModelFailed { error } => plain(error).into_owned(),
                reason => reason.text(language),
            };
            lines.push(texts.not_answered(&why));
            if let Some(output) = output {
                lines.push(format!("{}:", texts.heading_last_output));
                lines.push(plain(output).into_owned());
            }
        }
    }
    if !report.evidence.is_empty() {
        lines.push(String::new());
    }
    let evidence = report.evidence.iter();
    lines.extend(evidence.map(|found| format!("- {}", plain(&found.text(language)))));
    if let Some(session) = &report.session_id
        && !report.files.is_empty()
    {
        lines.push(format!("\nFiles, in the session {session}:"));
        let file = |file: &RunFile| format!("- {} ({} B)", visible(&file.path), file.size);
        lines.extend(report.files.iter().map(file));
    }
    lines.extend(report.notes.iter().map(|note| format!("[{note}]")));
    lines.push(format!("\nrun: {} ({} steps)", report.run, report.steps));
    cut(lines.join("\n"), MAX_TEXT)
}
