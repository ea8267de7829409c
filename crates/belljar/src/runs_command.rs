//! `belljar runs`: what earlier runs did.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use belljar_agent::{
    Agent, Approval, Decision, Effect, ExitReason, Provider, ReportKey, Run, RunError, RunEvent,
    RunsDirectory, artifacts_directory, notebook, page, read_events, script, signer_of,
};
use belljar_journal::{Blobs, Journal, RunId};
use clap::{Args, Subcommand};

use crate::mcp_servers::mcp_tools;
use crate::run_command::{
    WAITS, evaluator, follow, print_line, profile, runs_directory, tell_waiting,
};
use crate::run_screen::RunScreen;
use crate::runs_find::{find, find_id, ids, open};
use crate::runs_reproduce::ReproduceArgs;
use crate::settings::Settings;
use crate::start::SessionArgs;
use crate::transfer::{FileArgs, unlimited};
use crate::variable_args::VariableArgs;
use crate::{runs_reproduce, runs_timing, settings, show, table, words};

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        /// Maximum number of runs
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// List runs that started before this one
        #[arg(long, value_name = "RUN")]
        before: Option<String>,
    },
    /// Show what a run did
    Show {
        /// Run id, or the beginning of it
        run: String,
        /// Show time, tokens and cost per step and tool instead
        #[arg(long)]
        timing: bool,
        /// Print journal events as JSON lines; with `--timing`, one object
        #[arg(long)]
        json: bool,
    },
    /// Resume an interrupted run
    Resume(Box<ResumeArgs>),
    /// Show pending approvals of a run, or decide them and resume
    Approve(Box<ApproveArgs>),
    /// Export a run to standard output as notebook, script or HTML
    #[command(group = clap::ArgGroup::new("format").required(true))]
    Export {
        /// Run id, or the beginning of it
        run: String,
        /// Jupyter notebook
        #[arg(long, group = "format")]
        ipynb: bool,
        /// Python script with the code of all cells
        #[arg(long, group = "format")]
        py: bool,
        /// HTML page, signed
        #[arg(long, group = "format")]
        html: bool,
    },
    /// Check the signature of an exported HTML page
    ///
    /// Fails if the page was changed after it was signed, or was signed with another key than `--key`.
    Verify {
        /// The page
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Public key that it must be signed with, as in the page and in `report_key` of `GET /v1/me`
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Replay a run offline and compare its requests
    Replay {
        /// Run id, or the beginning of it
        run: String,
    },
    /// Run the code of a run again and compare its values
    ///
    /// The code runs twice, each time in a new session with the files that the run started with.
    /// Calls of tools get their recorded answers. Exit code 1 if a value or a file is not identical.
    Reproduce(Box<ReproduceArgs>),
    /// Delete a run with its files and artifacts
    Delete {
        /// Run id, or the beginning of it
        run: String,
    },
}

impl RunsCommand {
    /// The run that it is about.
    fn run(&self) -> Option<&str> {
        match self {
            Self::List { before, .. } => before.as_deref(),
            Self::Verify { .. } => None,
            Self::Show { run, .. }
            | Self::Export { run, .. }
            | Self::Replay { run }
            | Self::Delete { run } => Some(run),
            Self::Resume(args) => Some(&args.run),
            Self::Reproduce(args) => Some(&args.run),
            Self::Approve(args) => Some(&args.resume.run),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Run id, or the beginning of it
    run: String,
    /// Base URL of the model's server [default: the provider's]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Print one JSON object instead of the answer
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("decision"))]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    resume: ResumeArgs,
    /// Approval id, such as 2.0, or `all`; required if several are pending
    #[arg(long, value_name = "APPROVAL")]
    only: Option<String>,
    /// Approve
    #[arg(long, group = "decision")]
    accept: bool,
    /// Approve, and don't ask again for the same tool or capabilities
    #[arg(long, group = "decision")]
    accept_rest: bool,
    /// Reject
    #[arg(long, group = "decision")]
    reject: bool,
    /// Reject, with this feedback for the model
    #[arg(long, value_name = "TEXT", group = "decision")]
    feedback: Option<String>,
    /// Run the code of this file instead
    #[arg(long, value_name = "PATH", group = "decision")]
    edit: Option<PathBuf>,
}

impl ApproveArgs {
    fn decision(&self) -> anyhow::Result<Option<Decision>> {
        if let Some(path) = &self.edit {
            let code = std::fs::read_to_string(path)
                .with_context(|| format!("--edit {}", path.display()))?;
            return Ok(Some(Decision::Edit { code }));
        }
        if let Some(text) = self.feedback.clone() {
            return Ok(Some(Decision::Feedback { text }));
        }
        let accept = self.accept || self.accept_rest;
        Ok(match (accept, self.reject) {
            (true, _) => Some(Decision::Accept {
                rest_of_run: self.accept_rest,
            }),
            (_, true) => Some(Decision::Reject),
            _ => None,
        })
    }
}

/// Shows pending approvals, or decides them.
async fn approve(
    args: ApproveArgs,
    directory: &Path,
    journal: &Journal,
) -> anyhow::Result<ExitCode> {
    let (id, events) = find(journal, &args.resume.run).await?;
    let run = Run::fold(&events)?;
    let waiting = run.undecided();
    let language = settings::load()?.language;
    if waiting.is_empty() {
        bail!(language.texts().run.no_approval(id.as_str()));
    }
    let Some(decision) = args.decision()? else {
        tell_waiting(&run, id.as_str(), language);
        return Ok(ExitCode::from(WAITS));
    };
    let meant: Vec<&Approval> = match args.only.as_deref() {
        None if waiting.len() > 1 => {
            let ids = waiting.iter().take(20).map(|a| a.id.as_str());
            let ids = ids.collect::<Vec<_>>().join(", ");
            bail!(language.texts().run.several_approvals(waiting.len(), &ids))
        }
        None | Some("all") => waiting.iter().collect(),
        Some(only) => waiting
            .iter()
            .filter(|approval| approval.id == only)
            .collect(),
    };
    if meant.is_empty() {
        let only = args.only.unwrap_or_default();
        bail!(language.texts().run.no_such_approval(&only, id.as_str()));
    }
    let decisions: Vec<(Approval, Decision)> = meant
        .into_iter()
        .map(|approval| (approval.clone(), decision.clone()))
        .collect();
    Box::pin(resume(&args.resume, directory, &id, &events, decisions)).await
}

/// Resumes a run.
async fn resume(
    args: &ResumeArgs,
    directory: &Path,
    id: &RunId,
    events: &[RunEvent],
    decisions: Vec<(Approval, Decision)>,
) -> anyhow::Result<ExitCode> {
    let settings = Settings::for_model(model_of(events)?, args.base_url.clone())?;
    let (model, profile) = settings.required_model()?;
    let provider = Provider::new(profile, &model.model)?;
    let (tools, _servers) = mcp_tools(&settings).await?;
    let engine = args.session.engine().await?;
    let agent = Agent::open(directory, engine.clone(), provider, Some(evaluator()?))
        .await?
        .session_options(
            args.variables
                .give(unlimited(args.session.options_with_checkpoints()?))?,
        )
        .tools(tools);
    let mut live = agent.resume(id).await?;
    for (approval, decision) in decisions {
        live.decide(&approval.id, &approval.hash, decision).await?;
    }
    let code = follow(live, args.json, settings.language, &FileArgs::default()).await;
    engine.shutdown().await;
    code
}

/// Checks the signature of a page. No runs are needed for it.
fn verify(file: &Path, expected: Option<&str>) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().run;
    let page = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let key = signer_of(&page)?;
    match expected {
        Some(expected) if expected != key => bail!(texts.signature_of_other_key(&key)),
        Some(_) => {}
        None => show::note(&texts.signature_key(&key)),
    }
    print_line(texts.signature_holds)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn run(command: RunsCommand) -> anyhow::Result<ExitCode> {
    if let RunsCommand::Verify { file, key } = &command {
        return verify(file, key.as_deref());
    }
    let directory = runs_directory()?;
    let runs = match command.run() {
        // Nothing is made where there is nothing to list.
        None if !RunsDirectory::exists(&directory) => {
            show::note(&words::texts().run.no_runs_yet(&directory.display()));
            return Ok(ExitCode::SUCCESS);
        }
        begins => open(&directory, begins.unwrap_or_default()).await?,
    };
    let journal = runs.journal();
    match command {
        RunsCommand::List { limit, before } => list(&runs, limit, before.as_deref()).await,
        RunsCommand::Show { run, timing, json } => {
            let (id, events) = find(journal, &run).await?;
            if timing {
                runs_timing::show(journal, &id, &events, json).await?;
            } else if json {
                let mut out = std::io::stdout().lock();
                for event in &events {
                    writeln!(out, "{}", serde_json::to_string(event)?)?;
                }
            } else {
                let language = settings::load()?.language;
                let (mut run, mut screen) = (Run::default(), RunScreen::new(language));
                for event in &events {
                    run.apply(event)?;
                    screen.replay(event, &run);
                }
                screen.end(&run, &artifacts_directory(&directory, &id))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        RunsCommand::Resume(args) => {
            let (id, events) = find(journal, &args.run).await?;
            Box::pin(resume(&args, &directory, &id, &events, Vec::new())).await
        }
        RunsCommand::Approve(args) => Box::pin(approve(*args, &directory, journal)).await,
        RunsCommand::Export { run, ipynb, py, .. } => {
            let (id, events) = find(journal, &run).await?;
            let blobs = &runs.blobs(&id);
            let key = || ReportKey::open(&directory.join("report-key"));
            let text = if ipynb {
                serde_json::to_string_pretty(&notebook(&events, blobs).await?)?
            } else if py {
                script(&events, blobs).await?
            } else {
                page(&runs, &id, &events, &key()?).await?
            };
            print_line(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        RunsCommand::Replay { run } => {
            let (id, events) = find(journal, &run).await?;
            replay(&events, &runs.blobs(&id)).await
        }
        RunsCommand::Reproduce(args) => {
            let id = find_id(journal, &args.run).await?;
            runs_reproduce::run(&args, &runs, &id).await
        }
        RunsCommand::Verify { .. } => unreachable!("it needs no runs"),
        RunsCommand::Delete { run } => delete(&runs, &find_id(journal, &run).await?).await,
    }
}

/// The model that a run began with.
fn model_of(events: &[RunEvent]) -> anyhow::Result<&str> {
    match events.first() {
        Some(RunEvent::Started(start)) => Ok(&start.model),
        _ => bail!(words::texts().run.no_first_event),
    }
}

async fn list(
    runs: &RunsDirectory,
    limit: usize,
    before: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().run;
    let journal = runs.journal();
    let before = match before {
        Some(begins) => Some(find_id(journal, begins).await?),
        None => None,
    };
    let mut rows = Vec::new();
    let page = journal.runs(before.as_ref(), limit).await?;
    for summary in &page {
        let id = &summary.first.run;
        let task = match summary.first.decode::<RunEvent>() {
            Ok(RunEvent::Started(start)) => start.task,
            _ => "?".into(),
        };
        let state = match summary.last.decode::<RunEvent>() {
            Ok(RunEvent::Ended(ending)) => match ending.reason {
                ExitReason::Answered => texts.state_answered,
                ExitReason::Unverified { .. } => texts.state_unverified,
                _ => texts.state_ended,
            },
            Ok(RunEvent::ApprovalAsked(_)) => texts.state_waits,
            _ if runs.is_driven(id) => texts.state_running,
            _ => texts.state_interrupted,
        };
        // Of a run that can't be read, such as one of a newer Belljar, the others are listed still.
        let events = read_events(journal, id).await.map(|(events, _)| events);
        let (mut steps, mut money) = (0, 0.0);
        for event in events.iter().flatten() {
            if let RunEvent::Replied { cost, .. } = event {
                steps += 1;
                money += cost.unwrap_or_default();
            }
        }
        let money = match money {
            0.0 => "-".to_owned(),
            money => format!("{money:.4}"),
        };
        rows.push([
            id.to_string(),
            table::time(summary.first.at.0 / 1_000_000),
            state.to_owned(),
            steps.to_string(),
            money,
            show::message(&task).replace('\n', " "),
        ]);
    }
    table::print(
        &[
            texts.head_run,
            texts.head_started,
            texts.head_state,
            texts.head_steps,
            texts.head_cost,
            texts.head_task,
        ],
        &[false, false, false, true, true, false],
        rows.into_iter(),
    )?;
    if let Some(last) = page.last().map(|summary| &summary.first.run)
        && !journal.runs(Some(last), 1).await?.is_empty()
    {
        show::note(&texts.more_runs(last.as_str()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes a run: its files, its events, and, unless another run is being driven, what it alone used.
async fn delete(runs: &RunsDirectory, id: &RunId) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().run;
    let held = match runs.delete_files(id).await {
        Err(RunError::Driven(_)) => bail!(texts.run_driven(id.as_str())),
        held => held?,
    };
    runs.journal().remove(id).await?;
    drop(held);
    let others = ids(runs.journal()).await?;
    if !others.iter().any(|other| runs.is_driven(other)) {
        runs.sweep().await?;
    }
    show::note(&texts.run_deleted(id.as_str()));
    Ok(ExitCode::SUCCESS)
}

/// Compares each request that the events lead to with the recorded one.
async fn replay(events: &[RunEvent], blobs: &Blobs) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().run;
    let (profile, model) = profile(model_of(events)?, None)?;
    if let Some(RunEvent::Started(start)) = events.first()
        && let (Some(recorded), current) = (&start.prompts, start.language.prompts_version())
        && *recorded != current
    {
        show::note(&texts.replay_prompts_differ(recorded, &current));
    }
    let mut run = Run::default();
    let mut same = 0;
    for event in events {
        if let RunEvent::Asked { step, body } = event {
            let asked = blobs.get(body).await?;
            let now = match run.effect() {
                Effect::AskModel { request, .. } => profile.body(&model, &request).to_string(),
                other => {
                    let now = match other {
                        Effect::Perform { .. } => texts.replay_call_tools,
                        Effect::RollBack { .. } => texts.replay_roll_back,
                        Effect::Finish(_) => texts.replay_end,
                        _ => texts.replay_other,
                    };
                    print_line(&texts.replay_would(*step, now))?;
                    return Ok(ExitCode::from(1));
                }
            };
            if asked != now.as_bytes() {
                let asked = String::from_utf8_lossy(&asked);
                let at = asked
                    .bytes()
                    .zip(now.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                let near = |text: &str| -> String {
                    let from = (0..=at.saturating_sub(40))
                        .rev()
                        .find(|i| text.is_char_boundary(*i));
                    text[from.unwrap_or(0)..].chars().take(120).collect()
                };
                let mut out = std::io::stdout().lock();
                writeln!(out, "{}", texts.replay_differs(*step, at))?;
                let [asked, now] = [&asked, now.as_str()].map(|text| show::message(&near(text)));
                writeln!(out, "{}", texts.replay_recorded(&asked))?;
                writeln!(out, "{}", texts.replay_now(&now))?;
                return Ok(ExitCode::from(1));
            }
            same += 1;
        }
        run.apply(event)?;
    }
    print_line(&texts.replay_identical(same))?;
    Ok(ExitCode::SUCCESS)
}
