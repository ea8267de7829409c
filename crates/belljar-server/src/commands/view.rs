//! Commands as clients see them: a view, and events.

use std::time::UNIX_EPOCH;

use belljar_sandbox::protocol::signal_name;
use belljar_sandbox::{CommandEnd, CommandProcess, OutputStream};
use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;

/// Bytes of arguments that a view shows. A list has many commands, and each may have half a megabyte.
const SHOWN: usize = 4096;

/// A running or ended command.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct CommandView {
    /// Process id in the session.
    pub(crate) pid: i32,
    /// Program and arguments; after 4 KiB, they are cut with `…`.
    argv: Vec<String>,
    state: CommandState,
    /// Exit code, unless a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// Name of the signal that ended it, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// Whether its timeout ended it.
    timed_out: bool,
    /// Why its end is unknown, if it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_because: Option<String>,
    /// Start time, in seconds since 1970.
    started_at: u64,
    /// Standard output. Not in lists, and not with a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<CommandOutput>,
    /// Standard error. Not in lists, and not with a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<CommandOutput>,
    /// Output of its terminal. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    terminal: Option<CommandOutput>,
}

/// State of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandState {
    /// Running.
    Running,
    /// Ended, with an exit code or a signal.
    Ended,
    /// Ended with its session, or with the service: its end is unknown.
    Lost,
}

/// The newest output of a command.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct CommandOutput {
    /// The output. Bytes that are not UTF-8 are replaced.
    text: String,
    /// Number of bytes before it that are not kept.
    omitted_bytes: u64,
}

/// Where a command wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Terminal,
}

/// One fact about a running command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CommandEvent {
    /// The command has started. Only in the response to the request that started it.
    Started {
        /// Process id in the session.
        pid: i32,
    },
    /// Output.
    Output {
        /// Where it was written.
        stream: CommandStream,
        /// The output. Bytes that are not UTF-8 are replaced.
        text: String,
        /// Position after it, in bytes: `from` of a later request.
        next: u64,
    },
    /// Output that is no longer kept.
    Lost {
        /// Number of bytes.
        bytes: u64,
        /// Position after them.
        next: u64,
    },
    /// The end of the command, always the last event.
    End {
        /// How it ended: `ended` or `lost`.
        state: CommandState,
        /// Exit code, unless a signal ended it.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Name of the signal that ended it, such as `SIGKILL`.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// Whether its timeout ended it.
        timed_out: bool,
        /// Why its end is unknown, if it is lost.
        #[serde(skip_serializing_if = "Option::is_none")]
        lost_because: Option<String>,
    },
}

/// What a view has of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownOutput {
    /// What is kept.
    Kept,
    /// Only the number of bytes.
    Counted,
    /// Nothing.
    Absent,
}

impl From<OutputStream> for CommandStream {
    fn from(stream: OutputStream) -> Self {
        match stream {
            OutputStream::Stdout => Self::Stdout,
            OutputStream::Stderr => Self::Stderr,
            OutputStream::Terminal => Self::Terminal,
        }
    }
}

impl CommandView {
    pub(crate) fn new(
        process: &CommandProcess,
        end: Option<&CommandEnd>,
        shown: ShownOutput,
    ) -> Self {
        let started = process.started().duration_since(UNIX_EPOCH);
        let has_terminal = process.command().terminal.is_some();
        let output = |stream: OutputStream, wanted: bool| {
            let wanted = wanted && shown != ShownOutput::Absent;
            wanted.then(|| CommandOutput::new(process, stream, shown))
        };
        Self {
            pid: process.pid(),
            argv: shown_arguments(&process.command().argv),
            state: end.map_or(CommandState::Running, state),
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal).map(signal_name),
            timed_out: end.is_some_and(|end| end.timed_out),
            lost_because: end.and_then(|end| end.lost.clone()),
            started_at: started.map_or(0, |since| since.as_secs()),
            stdout: output(OutputStream::Stdout, !has_terminal),
            stderr: output(OutputStream::Stderr, !has_terminal),
            terminal: output(OutputStream::Terminal, has_terminal),
        }
    }
}

impl CommandOutput {
    fn new(process: &CommandProcess, stream: OutputStream, shown: ShownOutput) -> Self {
        let (kept, lost) = process.kept_output(stream);
        if shown == ShownOutput::Counted {
            return Self {
                text: String::new(),
                omitted_bytes: lost + kept.len() as u64,
            };
        }
        Self {
            text: String::from_utf8_lossy(&kept).into_owned(),
            omitted_bytes: lost,
        }
    }
}

impl CommandEvent {
    pub(crate) fn from_end(end: CommandEnd) -> Self {
        Self::End {
            state: state(&end),
            exit_code: end.exit_code,
            signal: end.signal.map(signal_name),
            timed_out: end.timed_out,
            lost_because: end.lost,
        }
    }

    /// As a stream names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Output { .. } => "output",
            Self::Lost { .. } => "lost",
            Self::End { .. } => "end",
        }
    }
}

fn state(end: &CommandEnd) -> CommandState {
    match end.lost {
        None => CommandState::Ended,
        Some(_) => CommandState::Lost,
    }
}

fn shown_arguments(argv: &[String]) -> Vec<String> {
    let mut left = SHOWN;
    let mut shown = Vec::new();
    for argument in argv {
        if left == 0 || argument.len() > left {
            let cut = argument.floor_char_boundary(left);
            shown.push(format!("{}…", &argument[..cut]));
            break;
        }
        // Empty ones are many, too.
        left = left.saturating_sub(argument.len() + 1);
        shown.push(argument.clone());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_cut_between_letters() {
        let whole = ["sh".to_owned(), "-c".to_owned(), "true".to_owned()];
        assert_eq!(shown_arguments(&whole), whole);
        let long = ["a".to_owned(), "ä".repeat(SHOWN), "b".to_owned()];
        let shown = shown_arguments(&long);
        assert_eq!(shown.len(), 2);
        assert_eq!(
            shown[1].chars().filter(|letter| *letter == 'ä').count(),
            2047
        );
        assert!(shown[1].ends_with('…'));
        let empty = vec![String::new(); 100_000];
        assert_eq!(shown_arguments(&empty).len(), SHOWN + 1);
        assert_eq!(shown_arguments(&empty)[SHOWN], "…");
    }
}
