//! Commands of a sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json as JsonResponse};
use belljar_sandbox::{Command, CommandProcess, TerminalSize};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::errors::not_supported;
use super::filesystem::HOME;
use super::process_stream::ProcessReader;
use super::rpc::{Empty, Framed, bad, timeout};
use crate::body::Json;
use crate::commands::{self, Presence, StartedCommand};
use crate::listener::Listener;
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::streams::Reader as _;

/// The longest path of a directory, as the kernel has it.
const MAX_DIRECTORY: usize = 4096;

#[derive(Deserialize)]
pub(super) struct StartAsked {
    process: ProcessConfig,
    pty: Option<Terminal>,
    tag: Option<String>,
    /// Left out by old clients, which write to it.
    stdin: Option<bool>,
}

/// What runs.
#[derive(Deserialize, Serialize)]
struct ProcessConfig {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    // Never returned: they may be secrets.
    #[serde(default, skip_serializing)]
    envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
struct Terminal {
    size: Option<Size>,
}

#[derive(Clone, Copy, Deserialize)]
struct Size {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl Terminal {
    fn size(self) -> TerminalSize {
        match self.size {
            Some(Size { cols, rows }) if cols > 0 && rows > 0 => TerminalSize {
                rows,
                columns: cols,
            },
            _ => TerminalSize::default(),
        }
    }
}

/// A process, by its id.
#[derive(Deserialize)]
pub(super) struct Selector {
    pid: Option<i32>,
}

impl Selector {
    pub(super) fn find(&self, entry: &SessionEntry) -> Result<Arc<CommandProcess>, Problem> {
        let pid = self.pid.ok_or_else(no_tags)?;
        commands::find(entry, pid)
    }

    /// The same for one that has not ended.
    pub(super) fn find_running(
        &self,
        entry: &SessionEntry,
    ) -> Result<Arc<CommandProcess>, Problem> {
        let process = self.find(entry)?;
        if process.end().is_some() {
            let detail = format!("process {} was not found: it has ended", process.pid());
            return Err(Problem::new(Code::CommandNotFound, detail));
        }
        Ok(process)
    }
}

fn no_tags() -> Problem {
    not_supported("`tag`: processes have no tags; select one by its `pid`")
}

#[derive(Deserialize)]
pub(super) struct ProcessAsked {
    pub(super) process: Selector,
}

#[derive(Deserialize)]
pub(super) struct SignalAsked {
    process: Selector,
    signal: String,
}

#[derive(Deserialize)]
pub(super) struct UpdateAsked {
    process: Selector,
    pty: Option<Terminal>,
}

#[derive(Serialize)]
pub(super) struct ProcessList {
    processes: Vec<ProcessView>,
}

#[derive(Serialize)]
struct ProcessView {
    config: ProcessConfig,
    pid: i32,
}

impl StartAsked {
    fn to_command(&self) -> Result<Command, Problem> {
        if self.tag.is_some() {
            return Err(no_tags());
        }
        let config = &self.process;
        let directory = config.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let directory = directory.unwrap_or(HOME);
        if directory.len() > MAX_DIRECTORY || directory.contains('\0') {
            return Err(bad("`cwd` is too long, or has a NUL character"));
        }
        let argv = std::iter::once(&config.cmd).chain(&config.args);
        let mut command = Command::new(argv);
        command.directory = Some(directory.into());
        command.variables.clone_from(&config.envs);
        command.input = self.stdin.unwrap_or(true);
        command.terminal = self.pty.map(Terminal::size);
        Ok(command)
    }
}

/// Starts a process, and streams its events. It keeps running if the client goes away, until the time that the client
/// gave is over.
pub(super) async fn start(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    headers: HeaderMap,
    Framed(asked): Framed<StartAsked>,
) -> Result<Response, Problem> {
    let mut command = asked.to_command()?;
    command.timeout = timeout(&headers)?;
    let listener = Listener::new(&service, &caller)?;
    let started = commands::start(&service, &entry, command, Presence::Background).await?;
    let StartedCommand { process, .. } = started;
    Ok(ProcessReader::new(entry, process, 0, listener, None).answer())
}

/// Streams the events of a process from now on.
pub(super) async fn connect(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    headers: HeaderMap,
    Framed(asked): Framed<ProcessAsked>,
) -> Result<Response, Problem> {
    let process = asked.process.find(&entry)?;
    let deadline = timeout(&headers)?.map(|timeout| Instant::now() + timeout);
    let listener = Listener::new(&service, &caller)?;
    let at = commands::written(&process);
    Ok(ProcessReader::new(entry, process, at, listener, deadline).answer())
}

/// Lists the running processes.
pub(super) async fn list(
    Extension(entry): Extension<Arc<SessionEntry>>,
) -> JsonResponse<ProcessList> {
    let running = entry.commands.running();
    let running = running.iter().filter(|process| process.end().is_none());
    let processes = running.map(|process| {
        let command = process.command();
        let mut argv = command.argv.iter().cloned();
        let directory = command.directory.as_deref();
        ProcessView {
            config: ProcessConfig {
                cmd: argv.next().unwrap_or_default(),
                args: argv.collect(),
                envs: BTreeMap::new(),
                cwd: directory.map(|path| path.to_string_lossy().into_owned()),
            },
            pid: process.pid(),
        }
    });
    let processes = processes.collect();
    JsonResponse(ProcessList { processes })
}

pub(super) async fn signal(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<SignalAsked>,
) -> Result<JsonResponse<Empty>, Problem> {
    let process = asked.process.find_running(&entry)?;
    let signal = match asked.signal.as_str() {
        "SIGNAL_SIGKILL" => 9,
        "SIGNAL_SIGTERM" => 15,
        _ => return Err(bad("`signal` must be `SIGNAL_SIGKILL` or `SIGNAL_SIGTERM`")),
    };
    process
        .signal(signal)
        .map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(Empty {}))
}

/// Changes the size of a terminal.
pub(super) async fn resize(
    Extension(entry): Extension<Arc<SessionEntry>>,
    Json(asked): Json<UpdateAsked>,
) -> Result<JsonResponse<Empty>, Problem> {
    let process = asked.process.find_running(&entry)?;
    let terminal = asked.pty.ok_or_else(|| bad("`pty` is required"))?;
    let resized = process.resize(terminal.size());
    resized.map_err(|error| entry.explain(error))?;
    Ok(JsonResponse(Empty {}))
}
