//! `/v1/sessions/{id}/commands`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::protocol::signal_number;
use belljar_sandbox::{Command, CommandProcess, TerminalSize};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::cells::last_event;
use crate::body::{Json, Named, Query};
use crate::commands::{
    self, CommandPosition, CommandReader, CommandView, Presence, ShownOutput, StartedCommand,
    written,
};
use crate::listener::Listener;
use crate::problem::{Code, Problem};
use crate::requests::wants_stream;
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::work::ClientGone;

/// The timeout of a foreground command that names none.
const FOREGROUND_TIMEOUT: Duration = Duration::from_mins(10);

/// The longest path of a directory, as the kernel has it.
const MAX_DIRECTORY: usize = 4096;

// Without `Debug`: variables may be secrets.
/// A command to run: `command` or `argv`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    /// Line for the shell, `/bin/sh`. Not together with `argv`.
    command: Option<String>,
    /// Program and arguments. Not together with `command`.
    argv: Option<Vec<String>>,
    /// Directory to start in, relative to the workspace [default: the workspace].
    directory: Option<String>,
    /// Environment variables of this command. Never logged, and never returned.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Text for standard input, which is closed after it. Not together with `terminal`.
    input: Option<String>,
    /// Size of its terminal. A command with a terminal runs in the background.
    terminal: Option<TerminalSizeAsked>,
    /// Time limit, in milliseconds [default: 10 minutes in the foreground, none in the background].
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// Whether to return at once, and let the command run without a client.
    #[serde(default)]
    background: bool,
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminalSizeAsked {
    #[schema(minimum = 1, maximum = 65_535)]
    pub(super) rows: u16,
    #[schema(minimum = 1, maximum = 65_535)]
    pub(super) columns: u16,
}

/// Input for a command: `text` or `base64`, and whether it is the last.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandInput {
    /// Input as text.
    text: Option<String>,
    /// Input as bytes in Base64.
    base64: Option<String>,
    /// Whether to close standard input after it. A terminal gets Ctrl-D.
    #[serde(default)]
    close: bool,
}

/// A signal for a command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandSignal {
    /// Name of the signal, such as `SIGINT`.
    signal: String,
}

/// The commands of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CommandList {
    /// Running ones and the last ended ones, oldest first, without output.
    commands: Vec<CommandView>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FromAsked {
    /// Position in the output, in bytes [default: 0].
    from: Option<u64>,
}

impl TerminalSizeAsked {
    pub(super) fn check(self) -> Result<TerminalSize, Problem> {
        let Self { rows, columns } = self;
        if rows == 0 || columns == 0 {
            let detail = "`rows` and `columns` must be at least 1";
            return Err(Problem::new(Code::BadBody, detail));
        }
        Ok(TerminalSize { rows, columns })
    }
}

impl RunCommand {
    fn presence(&self) -> Presence {
        if self.background || self.terminal.is_some() {
            Presence::Background
        } else {
            Presence::Foreground
        }
    }

    fn to_command(&self) -> Result<Command, Problem> {
        let refuse = |detail: &str| Problem::new(Code::BadBody, detail);
        let mut command = match (&self.command, &self.argv) {
            (Some(line), None) => Command::shell(line),
            (None, Some(argv)) => Command::new(argv),
            _ => return Err(refuse("give either `command` or `argv`")),
        };
        if self.timeout_ms == Some(0) {
            return Err(refuse("`timeout_ms` must be at least 1"));
        }
        if self.input.is_some() && self.terminal.is_some() {
            return Err(refuse("give either `input` or `terminal`"));
        }
        let directory = self.directory.as_deref();
        if directory.is_some_and(|path| path.len() > MAX_DIRECTORY || path.contains('\0')) {
            let detail = format!(
                "`directory` must have at most {MAX_DIRECTORY} bytes, and no NUL character"
            );
            return Err(refuse(&detail));
        }
        let presence = self.presence();
        command.directory = directory.map(Into::into);
        command.variables.clone_from(&self.variables);
        command.terminal = self.terminal.map(TerminalSizeAsked::check).transpose()?;
        command.timeout = match (self.timeout_ms, presence) {
            (Some(timeout), _) => Some(Duration::from_millis(timeout)),
            (None, Presence::Foreground) => Some(FOREGROUND_TIMEOUT),
            (None, Presence::Background) => None,
        };
        // One in the background may get input later.
        command.input = self.input.is_some() || presence == Presence::Background;
        Ok(command)
    }
}

/// Lists the commands of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands", tag = "commands", operation_id = "list_commands",
    params(("id" = String, Path, description = "The session.")),
    responses((status = 200, description = "The commands.", body = CommandList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<JsonResponse<CommandList>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let commands = commands::list(&service, &entry)?;
    Ok(JsonResponse(CommandList { commands }))
}

/// Runs a command in a session, also while a cell runs.
///
/// In the foreground, waits for its end; with `Accept: text/event-stream`, streams its events. It is killed
/// if the client disconnects. In the background, returns at once.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/commands", tag = "commands", operation_id = "run_command",
    params(("id" = String, Path, description = "The session.")),
    request_body = RunCommand,
    responses(
        (status = 200, description = "The ended command, or its events.", content(
            (CommandView = "application/json"),
            (ref("#/components/schemas/CommandEvent") = "text/event-stream"),
        )),
        (status = 201, description = "The running command.", body = CommandView),
    )
)]
pub(super) async fn run(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    headers: HeaderMap,
    Extension(client): Extension<ClientGone>,
    Json(asked): Json<RunCommand>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let presence = asked.presence();
    let streams = presence == Presence::Foreground && wants_stream(&headers);
    let listener = streams
        .then(|| Listener::new(&service, &caller))
        .transpose()?;
    let command = asked.to_command()?;
    let started = commands::start(&service, &entry, command, presence).await?;
    let StartedCommand {
        process,
        mut followed,
    } = started;
    if let Some(input) = asked.input {
        tokio::spawn(write_all(Arc::clone(&process), input.into_bytes()));
    }
    if presence == Presence::Background {
        return Ok(created(&service, &entry, &process));
    }
    if let Some(listener) = listener {
        return CommandReader::answer_starter(&process, listener);
    }
    let is_gone = tokio::select! {
        _ = &mut followed => false,
        () = client.wait() => true,
    };
    if is_gone {
        process.kill().map_err(|error| entry.explain(error))?;
        let _ = followed.await;
    }
    Ok(ended(&service, &caller, &process).await)
}

/// Writes the whole input of a command, and closes it.
async fn write_all(process: Arc<CommandProcess>, input: Vec<u8>) {
    // An error: the program reads no more of it, as `head` does.
    let write = async {
        if process.write(&input).await.is_ok() {
            let _ = process.close_input().await;
        }
    };
    tokio::select! {
        () = write => {}
        _ = process.wait() => {}
    }
}

fn created(service: &Service, entry: &SessionEntry, process: &CommandProcess) -> Response {
    let view = commands::view(service, process, ShownOutput::Kept);
    let location = format!("/v1/sessions/{}/commands/{}", entry.id, process.pid());
    let mut response = (StatusCode::CREATED, JsonResponse(view)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// An ended command with its output. If the service holds the maximum of bytes for the tenant, the output is only
/// counted: a refusal would make the client run the command again.
async fn ended(service: &Service, caller: &Caller, process: &CommandProcess) -> Response {
    let answer = |shown| JsonResponse(commands::view(service, process, shown)).into_response();
    let charged = &service.admission.charged;
    let whole = charged.answer(&caller.tenant, answer(ShownOutput::Kept));
    let whole = whole.await;
    whole.unwrap_or_else(|_| answer(ShownOutput::Counted))
}

/// Shows a command, with its newest output.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands/{pid}", tag = "commands", operation_id = "show_command",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
    ),
    responses((status = 200, description = "The command.", body = CommandView))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
) -> Result<JsonResponse<CommandView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    commands::show(&service, &entry, number(&pid)?).map(JsonResponse)
}

/// Streams the events of a command, from a position in its output to its end.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/commands/{pid}/events", tag = "commands", operation_id = "stream_command",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
        FromAsked,
        ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last received event, instead of `from`."),
    ),
    responses((status = 200, description = "The later events; `id` is the position after each.",
        body = ref("#/components/schemas/CommandEvent"), content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
    Query(asked): Query<FromAsked>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (_, process) = find(&service, &caller, &id, &pid)?;
    let from = match last_event(&headers)? {
        0 => asked.from.unwrap_or(0),
        last => last,
    };
    let written = written(&process);
    // The id of the end is one more.
    if from > written + 1 {
        let detail = format!("position {from} is after the end of the output, {written}");
        return Err(Problem::new(Code::BadQuery, detail));
    }
    let listener = Listener::new(&service, &caller)?;
    let position = CommandPosition::new(process, from);
    Ok(CommandReader::answer_from(position, listener))
}

/// Writes to the standard input or the terminal of a command. Waits while the program does not read.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/commands/{pid}/input", tag = "commands", operation_id = "write_input",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
    ),
    request_body = CommandInput,
    responses((status = 204, description = "Written."))
)]
pub(super) async fn input(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
    Extension(client): Extension<ClientGone>,
    Json(asked): Json<CommandInput>,
) -> Result<StatusCode, Problem> {
    let (entry, process) = find(&service, &caller, &id, &pid)?;
    let bytes = match (asked.text, asked.base64) {
        (text, None) => text.unwrap_or_default().into_bytes(),
        (None, Some(base64)) => BASE64
            .decode(base64)
            .map_err(|_| Problem::new(Code::BadBody, "`base64` is not valid Base64"))?,
        (Some(_), Some(_)) => {
            return Err(Problem::new(
                Code::BadBody,
                "give either `text` or `base64`",
            ));
        }
    };
    let write = async {
        if !bytes.is_empty() {
            process.write(&bytes).await?;
        }
        if asked.close {
            process.close_input().await?;
        }
        Ok(())
    };
    let written = tokio::select! {
        written = write => written,
        () = client.wait() => {
            // For a request that comes again with its `Idempotency-Key`.
            let detail = "the client disconnected before all of its input was written";
            return Err(Problem::new(Code::CommandRefused, detail));
        }
    };
    written.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a signal to a command and its children. No effect on an ended one.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/commands/{pid}/signal", tag = "commands", operation_id = "signal_command",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
    ),
    request_body = CommandSignal,
    responses((status = 204, description = "Sent."))
)]
pub(super) async fn signal(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
    Json(asked): Json<CommandSignal>,
) -> Result<StatusCode, Problem> {
    let (entry, process) = find(&service, &caller, &id, &pid)?;
    let signal = signal_number(&asked.signal).ok_or_else(|| {
        let detail = "`signal` must be the name of a signal, such as `SIGINT`";
        Problem::new(Code::BadBody, detail)
    })?;
    let sent = process.signal(signal);
    sent.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the size of a command's terminal.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/commands/{pid}/resize", tag = "commands", operation_id = "resize_terminal",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
    ),
    request_body = TerminalSizeAsked,
    responses((status = 204, description = "Changed."))
)]
pub(super) async fn resize(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
    Json(asked): Json<TerminalSizeAsked>,
) -> Result<StatusCode, Problem> {
    let (entry, process) = find(&service, &caller, &id, &pid)?;
    let resized = process.resize(asked.check()?);
    resized.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Kills a command and its children. No effect on an ended one, which stays listed.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/commands/{pid}", tag = "commands", operation_id = "kill_command",
    params(
        ("id" = String, Path, description = "The session."),
        ("pid" = i32, Path, description = "Process id of the command."),
    ),
    responses((status = 204, description = "Killed."))
)]
pub(super) async fn kill(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, pid)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (entry, process) = find(&service, &caller, &id, &pid)?;
    process.kill().map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A command of a session of the caller.
pub(super) fn find(
    service: &Service,
    caller: &Caller,
    id: &str,
    pid: &str,
) -> Result<(Arc<SessionEntry>, Arc<CommandProcess>), Problem> {
    let entry = service.sessions.find(&caller.tenant, id)?;
    let process = commands::find(&entry, number(pid)?)?;
    Ok((entry, process))
}

/// A non-numeric process id is "not found".
fn number(text: &str) -> Result<i32, Problem> {
    text.parse()
        .map_err(|_| Problem::new(Code::CommandNotFound, "a process id is a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(asked: serde_json::Value) -> Option<Duration> {
        let asked: RunCommand = serde_json::from_value(asked).unwrap();
        asked.to_command().unwrap().timeout
    }

    #[test]
    fn a_command_has_the_time_limit_of_the_page() {
        let minutes = FOREGROUND_TIMEOUT.as_secs() / 60;
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
        let page = read("commands.md");
        let limit = format!(
            "The default is {minutes} minutes in the foreground, and none in the background"
        );
        assert!(page.contains(&limit), "docs/commands.md lacks: {limit}");
        let schema = read("openapi.json");
        let limit =
            format!("[default: {minutes} minutes in the foreground, none in the background]");
        assert!(schema.contains(&limit), "docs/openapi.json lacks: {limit}");

        let line = || serde_json::json!({"command": "true"});
        assert_eq!(timeout(line()), Some(FOREGROUND_TIMEOUT));
        let with = |name: &str, value: serde_json::Value| {
            let mut asked = line();
            asked[name] = value;
            timeout(asked)
        };
        assert_eq!(with("background", true.into()), None);
        assert_eq!(
            with("terminal", serde_json::json!({"rows": 24, "columns": 80})),
            None
        );
        let own = with("timeout_ms", 5.into());
        assert_eq!(own, Some(Duration::from_millis(5)));
    }
}
