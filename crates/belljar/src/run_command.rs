//! `belljar run`: a task in, an answer with evidence out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use belljar_agent::{
    Agent, Branches, Control, Evaluator, ExitReason, LiveRun, ModelName, Profile, Progress,
    Provider, Run, RunEvent, Start, Surface, TaskFile, Tool, tools_on,
};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Language;
use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::signal::unix::{SignalKind, signal};

use crate::approve::{Person, eprint_text, text};
use crate::mcp_servers::mcp_tools;
use crate::run_screen::{RunScreen, StatusLine};
use crate::settings::{Settings, SettingsArgs};
use crate::start::SessionArgs;
use crate::transfer::{FileArgs, Input, unlimited};
use crate::variable_args::VariableArgs;
use crate::{runs_find, show};

#[derive(Debug, Args)]
#[command(after_help = "\
The answer goes to standard output; thoughts, code and output are streamed to standard error. \
Ctrl-C interrupts the running cell; a second Ctrl-C ends the run and shows its last output.

Exit codes: 0 answered; 1 not answered, with the reason; 2 cannot start; 3 waits for approval \
(`belljar runs approve`); 4 answered, but unverified, with the doubts; 130 ended by Ctrl-C.

Models are named PROVIDER/MODEL; the providers are openai, anthropic, qwen, ollama, llamacpp and vllm. \
The key is read from the provider's variable, such as OPENAI_API_KEY. `belljar config` shows all \
settings and the settings file.

Examples:
  belljar run --model openai/gpt-5-mini 'How many primes are there below 30000?'
  belljar run --model ollama/qwen2.5-coder --put sales.csv 'Which product sold most?'
  belljar run --continue 0656 --out plots 'Now plot the sales of each month.'
  belljar run --model llamacpp/local --base-url http://127.0.0.1:8080/v1 --json '…'
  belljar run --model qwen/qwen3-coder-plus --put log.txt --branches 4 --check 'len(rows) > 0' 'Parse the log.'")]
pub(crate) struct RunArgs {
    /// Task for the model
    task: String,
    /// Continue an ended run, by its id or the beginning of it
    #[arg(long = "continue", value_name = "RUN")]
    parent: Option<String>,
    #[command(flatten)]
    files: FileArgs,
    /// The earlier name of `--put`
    #[arg(long, value_name = "PATH", hide = true)]
    file: Vec<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Tool for the model besides python (repeatable)
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(tools_on(Surface::Cli).map(Tool::name)))]
    tool: Vec<String>,
    /// Maximum values (2 to 8) that `tools.branch([…])` tries, each in a fork
    #[arg(long, value_name = "N", requires = "check", value_parser = clap::value_parser!(u32).range(2..=8))]
    branches: Option<u32>,
    /// Python condition for accepting a value, such as `len(rows) == total`
    #[arg(long, value_name = "EXPRESSION", requires = "branches")]
    check: Option<String>,
    /// Print one JSON object instead of the answer
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// The profile of a model's provider, and the model's name there.
pub(crate) fn profile(model: &str, base_url: Option<&str>) -> anyhow::Result<(Profile, String)> {
    let name = ModelName::parse(model)?;
    let mut profile = Profile::built_in(&name.provider)
        .with_context(|| format!("no such provider: `{}`", name.provider))?;
    if let Some(url) = base_url {
        url.clone_into(&mut profile.base_url);
    }
    Ok((profile, name.model))
}

/// The program that evaluates expressions: this one.
pub(crate) fn evaluator() -> anyhow::Result<Evaluator> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(Evaluator::new(program, vec!["compute".into()]))
}

/// Where runs are kept.
pub(crate) fn runs_directory() -> anyhow::Result<PathBuf> {
    Ok(crate::settings::load()?.runs_dir)
}

/// How runs start with these settings.
pub(crate) fn start_of(settings: &Settings, model: &ModelName, profile: &Profile) -> Start {
    Start {
        task: String::new(),
        files: Vec::new(),
        model: model.to_string(),
        dialect: settings.dialect,
        language: settings.language,
        prompts: None,
        budget: settings.budget.clone(),
        context_window: profile.context_window,
        max_tokens: settings.max_tokens,
        temperature: settings.temperature,
        review: settings.review,
        tools: Vec::new(),
        packages: Vec::new(),
        versions: Vec::new(),
        granted: Vec::new(),
        approvals: settings.approvals.clone(),
        branches: None,
        parent: None,
        environment: None,
        isolation: None,
        client: None,
    }
}

pub(crate) async fn run(mut args: RunArgs) -> anyhow::Result<ExitCode> {
    args.files.put.append(&mut args.file);
    let mut settings = Settings::load(&args.settings)?;
    let language = settings.language;
    let parent = match &args.parent {
        Some(parent) => Some(find_parent(&settings, parent).await?),
        None => None,
    };
    if let (Some((_, before)), None) = (&parent, &settings.model) {
        args.settings.model = Some(before.model.clone());
        settings = Settings::load(&args.settings)?;
    }
    let (model, profile) = settings.required_model()?;
    if args.task.trim().is_empty() {
        bail!(language.texts().run.task_empty);
    }
    let mut start = Start {
        task: args.task.clone(),
        tools: args.tool.clone(),
        branches: branches(&args, language)?,
        ..start_of(&settings, &model, &profile)
    };
    let provider = Provider::new(profile, &model.model)?;
    let inputs = args.files.inputs()?;
    // Their servers live as long as the run.
    let (tools, _servers) = mcp_tools(&settings).await?;
    let engine = args.session.engine().await?;
    let evaluator = Some(evaluator()?);
    let agent = Agent::open(&settings.runs_dir, engine.clone(), provider, evaluator)
        .await?
        .session_options(
            args.variables
                .give(unlimited(args.session.options_with_checkpoints()?))?,
        )
        .tools(tools);
    for Input { name, path } in &inputs {
        start.files.push(agent.file_at(name, path).await?);
    }
    let live = match parent {
        None => agent.start(start).await?,
        Some((parent, before)) => {
            // Its files, unless there is a new one of the same name.
            let is_new = |old: &&TaskFile| start.files.iter().all(|new| new.name != old.name);
            let old: Vec<TaskFile> = before.files.iter().filter(is_new).cloned().collect();
            start.files.extend(old);
            agent.start_after(&parent, start).await?
        }
    };
    let code = follow(live, args.json, language, &args.files).await;
    engine.shutdown().await;
    code
}

fn branches(args: &RunArgs, language: Language) -> anyhow::Result<Option<Branches>> {
    let (Some(most), Some(check)) = (args.branches, &args.check) else {
        return Ok(None);
    };
    let branches = Branches::new(most, check);
    branches
        .map(Some)
        .map_err(|error| anyhow!(language.texts().run.check(&error)))
}

/// The run to continue, and how it started.
async fn find_parent(settings: &Settings, begins: &str) -> anyhow::Result<(RunId, Start)> {
    let directory = runs_find::open(&settings.runs_dir, begins).await?;
    let (id, events) = runs_find::find(directory.journal(), begins).await?;
    let run = Run::fold(&events)?;
    match run.start() {
        Some(start) => Ok((id, start.clone())),
        None => bail!(settings.language.texts().run.no_first_event),
    }
}

/// Drives a run, and shows it.
pub(crate) async fn follow(
    live: LiveRun,
    json: bool,
    language: Language,
    files: &FileArgs,
) -> anyhow::Result<ExitCode> {
    let (id, artifacts) = (live.id().clone(), live.artifacts());
    let mut screen = RunScreen::new(language);
    let watching = watch_interrupts(live.control(), screen.status_line(), language)?;
    let person = Person::at_terminal(live.control(), screen.status_line(), language);
    let live = match &person {
        Some(person) => {
            for approval in live.run().undecided() {
                person.ask(approval);
            }
            live
        }
        None => live.unattended(),
    };
    let mut listener = |progress: Progress<'_>| {
        screen.show(&progress);
        if let (Progress::Event(RunEvent::ApprovalAsked(approval), _), Some(person)) =
            (progress, &person)
        {
            person.ask(approval);
        }
    };
    let run = Box::pin(live.drive(&mut listener)).await;
    watching.abort();
    let run = run?;
    if json {
        drop(screen);
        print_line(&summary(&run, id.as_str(), &artifacts).to_string())?;
    } else {
        screen.end(&run, &artifacts)?;
    }
    let made = run
        .ending()
        .into_iter()
        .flat_map(|ending| &ending.artifacts);
    files.save_artifacts(&artifacts, made.map(|artifact| artifact.path.clone()))?;
    let code = match run.ending().map(|ending| &ending.reason) {
        Some(ExitReason::Answered) => 0,
        Some(ExitReason::Unverified { .. }) => UNVERIFIED,
        Some(ExitReason::Stopped) => 130,
        Some(_) => 1,
        None => {
            tell_waiting(&run, id.as_str(), language);
            WAITS
        }
    };
    Ok(ExitCode::from(code))
}

/// The exit code of a run whose answer is unverified.
const UNVERIFIED: u8 = 4;

/// The exit code of a run that waits for a person.
pub(crate) const WAITS: u8 = 3;

/// Says what a run waits for, and how to decide it.
pub(crate) fn tell_waiting(run: &Run, id: &str, language: Language) {
    for approval in run.undecided() {
        eprint_text(&text(approval, language));
    }
    show::note(&language.texts().run.waits(id));
}

pub(crate) fn print_line(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

fn summary(run: &Run, id: &str, artifacts: &std::path::Path) -> serde_json::Value {
    let spent = run.spent();
    let (mended, failed) = run.first_parse_failures();
    let ending = run.ending();
    serde_json::json!({
        "run": id,
        "answer": ending.and_then(|ending| ending.answer.as_ref()),
        "last_output": ending.and_then(|ending| ending.last_output.as_ref()),
        "reason": ending.map(|ending| &ending.reason),
        "evidence": ending.map(|ending| &ending.evidence),
        "artifacts": ending.map(|ending| &ending.artifacts),
        "artifacts_directory": artifacts,
        "not_kept": ending.map(|ending| &ending.not_kept),
        "waits_for": run.undecided(),
        "spent": spent,
        "replies_mended": mended,
        "replies_not_understood": failed,
    })
}

/// Ctrl-C interrupts the cell; a second one within two seconds, or one when no cell runs, ends the
/// run.
fn watch_interrupts(
    control: Control,
    status: StatusLine,
    language: Language,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut interrupts = signal(SignalKind::interrupt()).context("watching for Ctrl-C")?;
    Ok(tokio::spawn(async move {
        let mut last: Option<std::time::Instant> = None;
        while interrupts.recv().await.is_some() {
            let again = last.is_some_and(|last| last.elapsed().as_secs() < 2);
            last = Some(std::time::Instant::now());
            if again || !control.interrupt() {
                status.note(language.texts().run.ending);
                control.stop();
            } else {
                status.note(language.texts().run.interrupted);
            }
        }
    }))
}
