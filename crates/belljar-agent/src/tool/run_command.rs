//! `run_command`: a shell command in the run's session, beside its variables.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use belljar_protocol::{Language, plain, signal_name};
use belljar_sandbox::{Command, CommandEnd, CommandProcess};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Surface, Tool, ToolContext, ToolOutput, purpose};
use crate::ToolSpec;
use crate::run::{RUN_COMMAND, ShellCommand};

/// The arguments of a call.
#[derive(Debug, Deserialize)]
struct RunCommand {
    #[serde(alias = "cmd")]
    command: String,
    #[serde(default)]
    timeout_seconds: Option<u32>,
}

/// The tool.
#[derive(Debug)]
pub(super) struct RunCommandTool;

impl Tool for RunCommandTool {
    fn name(&self) -> &'static str {
        RUN_COMMAND
    }

    fn surfaces(&self) -> &'static [Surface] {
        &[Surface::Cli, Surface::Http]
    }

    fn needs_session(&self) -> bool {
        true
    }

    fn command(&self, arguments: &Value) -> Option<ShellCommand> {
        let call = RunCommand::deserialize(arguments).ok()?;
        Some(ShellCommand {
            command: call.command,
            ..ShellCommand::default()
        })
    }

    fn spec(&self, language: Language) -> ToolSpec {
        let texts = &language.texts().tools;
        ToolSpec {
            name: RUN_COMMAND.into(),
            description: texts.run_command.into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool_call_purpose": purpose(language),
                    "command": { "type": "string", "description": texts.run_command_line },
                    "timeout_seconds": { "type": "integer", "minimum": 1, "description": texts.run_command_timeout },
                },
                "required": ["command"],
            }),
        }
    }

    fn perform<'a>(
        &'a self,
        arguments: &'a Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        async move {
            let call = RunCommand::deserialize(arguments).map_err(|why| format!("Error: {why}"))?;
            let session = context.session.ok_or("Error: there is no session")?;
            let asked = call.timeout_seconds.map(u64::from).map(Duration::from_secs);
            let command = Command {
                timeout: Some(asked.map_or(context.limit, |asked| asked.min(context.limit))),
                paced: true,
                ..Command::shell(call.command)
            };
            let started = session.spawn(command).await;
            let process = EndsWithCall(started.map_err(|error| format!("Error: {error}"))?);
            let most = session.limits().output_kept_bytes;
            let [stdout, stderr] = process.0.capture(most, |_| {}).await;
            let end = process.0.wait().await;
            let text = command_text(
                &command_state(&end),
                &plain(&stdout.text),
                &plain(&stderr.text),
            );
            if end.exit_code == Some(0) {
                Ok(text.into())
            } else {
                Err(text)
            }
        }
        .boxed()
    }
}

/// A command that nobody waits for any more is killed: its run was stopped.
struct EndsWithCall(Arc<CommandProcess>);

impl Drop for EndsWithCall {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// How a command ended, for a model.
pub fn command_state(end: &CommandEnd) -> String {
    match end {
        CommandEnd {
            lost: Some(why), ..
        } => format!("its end is unknown: {why}"),
        CommandEnd {
            timed_out: true, ..
        } => "stopped at its time limit".into(),
        CommandEnd {
            signal: Some(signal),
            ..
        } => format!("ended by {}", signal_name(*signal)),
        end => format!("exit code {}", end.exit_code.unwrap_or_default()),
    }
}

/// State and output of a command, for a model.
pub fn command_text(state: &str, stdout: &str, stderr: &str) -> String {
    let mut text = format!("[{state}]");
    for (name, output) in [("stdout", stdout), ("stderr", stderr)] {
        if !output.is_empty() {
            let _ = write!(text, "\n{name}:\n{}", output.trim_end_matches('\n'));
        }
    }
    if stdout.is_empty() && stderr.is_empty() {
        text.push_str("\n(no output)");
    }
    text
}
