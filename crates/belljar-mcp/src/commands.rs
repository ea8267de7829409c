//! Commands of a session for a client: run to their end, or left in the background.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use belljar_agent::{ShellCommand, command_state, command_text};
use belljar_sandbox::protocol::{Output, plain, shown_line, signal_name};
use belljar_sandbox::{
    Command, CommandCapture, CommandEnd, CommandProcess, Error, OutputPart, Session,
};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::arguments::{BackgroundCommand, RunCommand};
use crate::cell::last_line;
use crate::files::relative;
use crate::permits::Permit;
use crate::report::{OutputReport, refusal, result};
use crate::sessions::{SessionEntry, Sessions};

/// How often the use of a running command is counted.
const COUNTED_EVERY: Duration = Duration::from_secs(10);

/// How long a call may wait for the end of a command in the background.
const LONGEST_WAIT: u32 = 30;

/// The most characters of a command line in a list.
const LISTED: usize = 200;

/// How a command ended, or that it runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandReport {
    /// The session that it runs in.
    session_id: String,
    /// Its process id, for `background_command`.
    pid: i32,
    /// Whether it runs, or how it ended.
    state: String,
    running: bool,
    /// Its exit code, unless it runs or a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// Whether it reached its time limit.
    timed_out: bool,
    stdout: OutputReport,
    stderr: OutputReport,
    /// Where later output begins: the number of bytes before it, of both streams.
    next: u64,
}

/// A command in the background, or the list of all commands.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BackgroundReport {
    /// The command with the given `pid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<CommandReport>,
    /// Without a `pid`: the commands that run, and the last ones that have ended.
    commands: Vec<ListedCommand>,
}

/// A command of the list.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedCommand {
    pid: i32,
    /// How it was started.
    command: String,
    /// Whether it runs, or how it ended.
    state: String,
}

impl RunCommand {
    /// What a person decides on.
    pub(crate) fn shell_command(&self) -> ShellCommand {
        ShellCommand {
            command: self.command.clone(),
            directory: self.directory.clone(),
            input: self.input.clone(),
        }
    }

    /// Bytes that it holds while it runs.
    pub(crate) fn size(&self) -> usize {
        self.command.len() + self.input.as_ref().map_or(0, String::len)
    }

    fn command(&self, session: &Session, limit: Duration) -> Command {
        let asked = self.timeout_seconds.map(u64::from).map(Duration::from_secs);
        let directory = self.directory.as_deref();
        Command {
            directory: directory.map(|path| PathBuf::from(relative(session, path))),
            input: self.input.is_some(),
            timeout: if self.background { asked } else { Some(limit) },
            // Whoever calls waits for all of it; nobody may ever read what is in the background.
            paced: !self.background,
            ..Command::shell(self.command.as_str())
        }
    }
}

/// Runs a command to its end, or starts it in the background. When it is to stop, it is killed. The last line that it
/// wrote goes to `said`.
pub(crate) async fn run(
    sessions: &Arc<Sessions>,
    entry: &Arc<SessionEntry>,
    args: RunCommand,
    (limit, permit): (Duration, Permit),
    stop: CancellationToken,
    said: watch::Sender<String>,
) -> Result<CallToolResult, Error> {
    let command = args.command(&entry.session, limit);
    let process = entry.session.spawn(command).await?;
    if let Some(input) = args.input {
        let process = Arc::clone(&process);
        tokio::spawn(async move {
            // It need not read all of it.
            let _ = process.write(input.as_bytes()).await;
            let _ = process.close_input().await;
        });
    }
    // Weakly: a session that is closed ends, and its commands with it.
    let counted = count(
        Arc::downgrade(sessions),
        Arc::downgrade(entry),
        Arc::clone(&process),
    );
    tokio::spawn(async move {
        let _held_until_the_end = permit;
        counted.await;
    });
    if args.background {
        let text = format!(
            "The command runs in the background with pid {}. Use background_command to read its output, to wait for \
             its end, or to kill it.",
            process.pid()
        );
        let report = report(
            entry,
            &process,
            [OutputReport::default(), OutputReport::default()],
            0,
        );
        return Ok(result(vec![ContentBlock::text(text)], &report));
    }
    let most = entry.session.limits().output_kept_bytes;
    let captured = process.capture(most, |chunk| {
        if let Some(line) = last_line(&String::from_utf8_lossy(&chunk.bytes)) {
            said.send_replace(line);
        }
    });
    let streams = tokio::select! {
        streams = captured => streams,
        () = stop.cancelled() => {
            process.kill()?;
            process.wait().await;
            return Ok(refusal("The command was killed: its call was cancelled."));
        }
    };
    let at = streams.iter().map(|output| output.bytes).sum();
    let report = report(entry, &process, streams.map(shown), at);
    let mut result = result(vec![ContentBlock::text(text(&report))], &report);
    result.is_error = Some(report.exit_code != Some(0));
    Ok(result)
}

/// Reads, waits for, kills or lists commands in the background.
pub(crate) async fn background(
    entry: &SessionEntry,
    args: BackgroundCommand,
    stop: &CancellationToken,
) -> Result<CallToolResult, Error> {
    let Some(pid) = args.pid else {
        return Ok(list(entry));
    };
    let Some(process) = entry.session.command(pid) else {
        return Ok(refusal(format!(
            "There is no command with pid {pid} in this session. Leave pid out to list its commands."
        )));
    };
    if args.kill {
        process.kill()?;
    }
    // A kill takes effect at once, and its result should show that.
    let seconds = args.wait_seconds.clamp(u32::from(args.kill), LONGEST_WAIT);
    let wait = tokio::time::timeout(Duration::from_secs(seconds.into()), process.wait());
    tokio::select! {
        _ = wait => {}
        () = stop.cancelled() => return Ok(refusal("The call was cancelled.")),
    }
    let most = entry.session.limits().output_kept_bytes;
    let total = process.output(u64::MAX, 0).next;
    let from = args.from.unwrap_or(total.saturating_sub(most as u64));
    let OutputPart {
        chunks,
        lost_bytes,
        next,
    } = process.output(from, most);
    let mut capture = CommandCapture::new(most);
    for chunk in &chunks {
        capture.push(chunk);
    }
    let report = report(entry, &process, capture.finish().map(shown), next);
    let mut text = text(&report);
    if from > 0 && args.from.is_none() {
        let _ = write!(text, "\n[{from} bytes of output before this are not shown]");
    }
    if lost_bytes > 0 {
        let _ = write!(
            text,
            "\n[{lost_bytes} bytes of output before this are no longer kept]"
        );
    }
    if report.running || next < total {
        let _ = write!(text, "\n[later output: from={next}]");
    }
    let report = BackgroundReport {
        command: Some(report),
        commands: Vec::new(),
    };
    Ok(result(vec![ContentBlock::text(text)], &report))
}

fn list(entry: &SessionEntry) -> CallToolResult {
    let commands: Vec<ListedCommand> = entry
        .session
        .commands()
        .iter()
        .map(|process| ListedCommand {
            pid: process.pid(),
            command: line(process),
            state: state(process.end().as_ref()),
        })
        .collect();
    let mut lines: Vec<String> = commands
        .iter()
        .map(|one| format!("pid {}: {} ({})", one.pid, one.command, one.state))
        .collect();
    if lines.is_empty() {
        lines.push("There are no commands.".into());
    }
    let report = BackgroundReport {
        command: None,
        commands,
    };
    result(vec![ContentBlock::text(lines.join("\n"))], &report)
}

/// The line for the shell that a command was started with.
fn line(process: &CommandProcess) -> String {
    let line = process.command().argv.last().map_or("", String::as_str);
    let short: String = line.chars().take(LISTED).collect();
    let more = if short.len() < line.len() { "…" } else { "" };
    format!("{}{more}", shown_line(&short))
}

fn report(
    entry: &SessionEntry,
    process: &CommandProcess,
    [stdout, stderr]: [OutputReport; 2],
    next: u64,
) -> CommandReport {
    let end = process.end();
    CommandReport {
        session_id: entry.id.clone(),
        pid: process.pid(),
        state: state(end.as_ref()),
        running: end.is_none(),
        exit_code: end.as_ref().and_then(|end| end.exit_code),
        signal: end.as_ref().and_then(|end| end.signal).map(signal_name),
        timed_out: end.is_some_and(|end| end.timed_out),
        stdout,
        stderr,
        next,
    }
}

/// Whether it runs, or how it ended.
fn state(end: Option<&CommandEnd>) -> String {
    end.map_or_else(|| "running".into(), command_state)
}

/// Without commands to a terminal.
fn shown(output: Output) -> OutputReport {
    let text = plain(&output.text).into_owned();
    OutputReport::from(Output { text, ..output })
}

fn text(report: &CommandReport) -> String {
    command_text(&report.state, &report.stdout.text, &report.stderr.text)
}

/// Counts what a command uses, until it has ended. CPU time is that of its session: what runs beside it is in it, too.
async fn count(sessions: Weak<Sessions>, entry: Weak<SessionEntry>, process: Arc<CommandProcess>) {
    let (mut cpu, mut output) = (cpu_time(&entry).await, 0);
    loop {
        let ended = tokio::time::timeout(COUNTED_EVERY, process.wait()).await;
        let (cpu_now, output_now) = (cpu_time(&entry).await, process.output(u64::MAX, 0).next);
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        let permits = sessions.permits();
        permits.command_told(cpu_now.saturating_sub(cpu), output_now - output);
        if ended.is_ok() {
            return;
        }
        (cpu, output) = (cpu_now, output_now);
    }
}

async fn cpu_time(entry: &Weak<SessionEntry>) -> Duration {
    let entry = Weak::clone(entry);
    let ask = move || entry.upgrade()?.session.in_use()?.cpu_time;
    let asked = tokio::task::spawn_blocking(ask).await;
    asked.ok().flatten().unwrap_or_default()
}
