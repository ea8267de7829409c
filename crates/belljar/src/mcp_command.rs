//! `belljar mcp`: sessions for another program's model, on standard input and output.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belljar_agent::{Agent, Provider};
use belljar_mcp::{Runs, Server, Sessions, serve};
use belljar_sandbox::{Checkpoints, EngineSet, SessionOptions};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::run_command::start_of;
use crate::settings::{Settings, SettingsArgs};
use crate::start::SessionArgs;
use crate::variable_args::VariableArgs;
use crate::{show, words};

#[derive(Debug, Args)]
#[command(after_help = "\
An MCP client starts this command. Add it to the client's configuration:
  {\"mcpServers\": {\"belljar\": {\"command\": \"belljar\", \"args\": [\"mcp\"]}}}

Tools: run_python, create_session, close_session, list_files, read_file, write_file, fork_session, \
checkpoint and restore. If a model is set (`--model`, BELLJAR_MODEL or the settings file), also ask_agent, \
which gives a task to an agent. Code of its runs has the rights of these sessions, and no tools.

With `--approve`, or a policy in the settings file, the client asks for approval by elicitation before code \
runs. If the client does not support elicitation, such code is refused.

All sessions end when the client closes standard input, and on SIGTERM or Ctrl-C. Standard output carries \
only the protocol; BELLJAR_LOG sets the log level of standard error.

Exit code: 0, or 2 if sessions cannot run here (see `belljar doctor`).")]
pub(crate) struct McpArgs {
    /// Maximum concurrent sessions
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    sessions: u16,
    /// Idle minutes before a session hibernates; it wakes without its checkpoints
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    idle: u64,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(args: McpArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let settings = Settings::load(&args.settings)?;
    let mut options = args.variables.give(args.session.options()?)?;
    // A session survives crashes. Without walls, the engine makes no checkpoints.
    options.checkpoints = Checkpoints::Auto;
    options.hibernate_after = Some(Duration::from_secs(60 * args.idle));
    let engines = tokio::select! {
        engines = args.session.engines() => engines?,
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
    };
    let of_runs = args
        .variables
        .give(args.session.options_with_checkpoints()?)?;
    let runs = runs(&settings, of_runs, &engines).await;
    let sessions = Sessions::new(engines, options, args.sessions.into());
    let mut server = Server::new(Arc::new(sessions)).approvals(settings.approvals);
    match runs {
        Ok(Some(runs)) => server = server.runs(runs),
        Ok(None) => {}
        // Sessions are of use without it, and clients hide why a server does not start.
        Err(error) => show::note(&words::texts().session.no_agent(&format!("{error:#}"))),
    }
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Box::pin(serve(server, std::io::stdin(), std::io::stdout(), stop)).await?;
    Ok(ExitCode::SUCCESS)
}

/// The agent that can be asked, if a model is set. Its code has the rights of the sessions here.
async fn runs(
    settings: &Settings,
    options: SessionOptions,
    engines: &EngineSet,
) -> anyhow::Result<Option<Runs>> {
    if settings.model.is_none() {
        return Ok(None);
    }
    let (model, profile) = settings.required_model()?;
    let start = start_of(settings, &model, &profile);
    let provider = Provider::new(profile, &model.model)?;
    let agent = Agent::open(&settings.runs_dir, engines.clone(), provider, None).await?;
    Ok(Some(Runs::new(agent.session_options(options), start)))
}
