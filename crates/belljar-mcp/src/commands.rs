//! Commands of a session for a client: run to their end, or left in the background.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use belljar_agent::ShellCommand;
use belljar_sandbox::protocol::{plain, shown_line, signal_name};
use belljar_sandbox::{
    Command, CommandEnd, CommandProcess, Error, OutputPart, OutputStream, Session,
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

/// The most bytes of output that are taken over at once.
const PART: usize = 64 << 10;

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
    let mut streams = [Kept::new(most), Kept::new(most)];
    let (mut at, mut stopping) = (0, false);
    loop {
        let part = tokio::select! {
            part = process.next_output(at, PART) => part,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                process.kill()?;
                continue;
            }
        };
        if part.chunks.is_empty() && process.end().is_some() {
            break;
        }
        for chunk in &part.chunks {
            streams[usize::from(chunk.stream == OutputStream::Stderr)].push(&chunk.bytes);
            if let Some(line) = last_line(&String::from_utf8_lossy(&chunk.bytes)) {
                said.send_replace(line);
            }
        }
        at = part.next;
    }
    if stopping {
        return Ok(refusal("The command was killed: its call was cancelled."));
    }
    let report = report(entry, &process, streams.map(Kept::finish), at);
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
    let mut streams = [Kept::new(most), Kept::new(most)];
    for chunk in &chunks {
        streams[usize::from(chunk.stream == OutputStream::Stderr)].push(&chunk.bytes);
    }
    let report = report(entry, &process, streams.map(Kept::finish), next);
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
    match end {
        None => "running".into(),
        Some(CommandEnd {
            lost: Some(why), ..
        }) => format!("its end is unknown: {why}"),
        Some(CommandEnd {
            timed_out: true, ..
        }) => "stopped at its time limit".into(),
        Some(CommandEnd {
            signal: Some(signal),
            ..
        }) => format!("ended by {}", signal_name(*signal)),
        Some(end) => format!("exit code {}", end.exit_code.unwrap_or_default()),
    }
}

fn text(report: &CommandReport) -> String {
    let mut text = format!("[{}]", report.state);
    for (name, output) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        if !output.text.is_empty() {
            let _ = write!(text, "\n{name}:\n{}", output.text.trim_end_matches('\n'));
        }
    }
    if report.stdout.bytes + report.stderr.bytes == 0 {
        text.push_str("\n(no output)");
    }
    text
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

/// Head and tail of a stream.
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    most: usize,
    total: u64,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: Vec::new(),
            most,
            total: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let fits = bytes
            .len()
            .min((self.most / 2).saturating_sub(self.head.len()));
        let (head, tail) = bytes.split_at(fits);
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(tail);
        // Not at each push: that would move all of it each time.
        if self.tail.len() > 2 * self.most {
            self.tail.drain(..self.tail.len() - self.most / 2);
        }
    }

    fn finish(mut self) -> OutputReport {
        let over = self.tail.len().saturating_sub(self.most - self.most / 2);
        self.tail.drain(..over);
        let omitted = self.total - (self.head.len() + self.tail.len()) as u64;
        let text = if omitted == 0 {
            self.head.append(&mut self.tail);
            plain(&String::from_utf8_lossy(&self.head)).into_owned()
        } else {
            format!(
                "{}\n[… {omitted} bytes are left out here …]\n{}",
                plain(&String::from_utf8_lossy(&self.head)),
                plain(&String::from_utf8_lossy(&self.tail))
            )
        };
        OutputReport {
            text,
            bytes: self.total,
            omitted_bytes: omitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    #[test]
    fn a_long_stream_keeps_head_and_tail_with_true_counts() {
        for piece in [1, 7, 1000] {
            let bytes: Vec<u8> = (0..1000)
                .map(|n| b'a' + u8::try_from(n / 100).unwrap())
                .collect();
            let mut kept = Kept::new(100);
            bytes.chunks(piece).for_each(|piece| kept.push(piece));
            let report = kept.finish();
            assert_eq!((report.bytes, report.omitted_bytes), (1000, 900));
            let (a, j) = ("a".repeat(50), "j".repeat(50));
            assert_eq!(
                report.text,
                format!("{a}\n[… 900 bytes are left out here …]\n{j}")
            );
        }
        let mut whole = Kept::new(100);
        whole.push(&[b'x'; 100]);
        let report = whole.finish();
        assert_eq!((report.text, report.omitted_bytes), ("x".repeat(100), 0));
    }
}
