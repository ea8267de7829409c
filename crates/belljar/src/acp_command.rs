//! `belljar acp`: the agent in an editor, on standard input and output.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use belljar_acp::{Model, Offer, serve};
use belljar_agent::{Agent, Policy, Provider, RunsDirectory};
use belljar_sandbox::{Engine, SessionOptions};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::mcp_servers::{mcp_tools, pins};
use crate::run_command::{evaluator, start_of};
use crate::settings::{Origin, Settings, SettingsArgs};
use crate::start::SessionArgs;
use crate::variable_args::VariableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
An editor that speaks the Agent Client Protocol starts this command. For Zed, in its settings:
  {\"agent_servers\": {\"Belljar\": {\"type\": \"custom\", \"command\": \"belljar\", \"args\": [\"acp\"]}}}

The model comes from `--model`, BELLJAR_MODEL or the settings file. Files that a prompt names are read below \
the editor's project directory only. Risky code needs approval in the editor, unless `--approve`, the \
settings file or the editor's mode says otherwise.

Runs stop when the editor closes standard input, and on SIGTERM or Ctrl-C; `belljar runs` shows them. Standard \
output carries only the protocol; BELLJAR_LOG sets the log level of standard error.

Exit code: 0, or 2 if no model is set or sessions cannot run here (see `belljar doctor`).")]
pub(crate) struct AcpArgs {
    /// Further model to choose from in the editor (repeatable)
    #[arg(long, value_name = "PROVIDER/MODEL")]
    offer_model: Vec<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(args: AcpArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let settings = Settings::load(&args.settings)?;
    settings.required_model()?;
    let options = args
        .variables
        .give(args.session.options_with_checkpoints()?)?;
    // Their servers live as long as the command.
    let (tools, _servers) = mcp_tools(&settings).await?;
    let engine = tokio::select! {
        engine = args.session.engine() => engine?,
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
    };
    let runs = RunsDirectory::open(&settings.runs_dir).await?;
    let mut models = vec![model(&settings, &runs, &engine, &options)?];
    for name in &args.offer_model {
        let settings = Settings::load(&args.settings.with_model(name))?;
        let model = model(&settings, &runs, &engine, &options)?;
        if models.iter().any(|other| other.name == model.name) {
            bail!("`{name}` was given twice\nhint: list each model once");
        }
        models.push(model);
    }
    let offer = Offer {
        models,
        runs,
        tools,
        pins: pins(&settings).join("editors"),
    };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(offer, std::io::stdin(), std::io::stdout(), stop).await?;
    engine.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// The model of these settings.
fn model(
    settings: &Settings,
    runs: &RunsDirectory,
    engine: &Engine,
    options: &SessionOptions,
) -> anyhow::Result<Model> {
    let (name, profile) = settings.required_model()?;
    let mut start = start_of(settings, &name, &profile);
    let policy = settings.rows.iter();
    let policy = policy.rev().find(|row| row.name == "approvals.policy");
    if policy.is_none_or(|row| row.origin == Origin::Default) {
        // There is no terminal, but a person.
        start.approvals.policy = Policy::Risky;
    }
    let provider = Provider::new(profile, &name.model)?;
    let agent = Agent::new(runs.clone(), engine.clone(), provider, Some(evaluator()?))
        .keep_sessions()
        .session_options(options.clone());
    Ok(Model {
        name: name.to_string(),
        agent,
        start,
    })
}
