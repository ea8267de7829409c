//! `belljar run`: a task in, an answer with evidence out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use belljar_agent::{
    Agent, Budget, Control, Dialect, Evaluator, ExitReason, LiveRun, ModelName, Profile, Provider,
    Run, Start,
};
use belljar_sandbox::protocol::Language;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::run_screen::RunScreen;
use crate::show;
use crate::start::SessionArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
The answer goes to standard output; thoughts, code and output go to standard error while they come. \
Ctrl-C interrupts the cell that runs, twice ends the run with the best answer that there is.

Models are named PROVIDER/MODEL; the providers are openai, anthropic, qwen, ollama, llamacpp and vllm. \
The key is read from the provider's usual variable, such as OPENAI_API_KEY.

Examples:
  belljar run --model openai/gpt-5-mini 'How many primes are there below 30000?'
  belljar run --model ollama/qwen2.5-coder --file sales.csv 'Which product sold most?'
  belljar run --model llamacpp/local --base-url http://127.0.0.1:8080/v1 --json '…'")]
pub(crate) struct RunArgs {
    /// What is to be done
    task: String,
    /// A file that the run gets, under its name (may be given several times)
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    /// The language of prompts and messages to the model
    #[arg(long, value_enum, default_value = "en")]
    language: LanguageChoice,
    /// Ask the model to check its first answer against the task: a step more, for small models
    #[arg(long)]
    review: bool,
    /// Tools that the model gets beside python (may be given several times)
    #[arg(long, value_name = "NAME", value_parser = [belljar_agent::COMPUTE, belljar_agent::PLAN, belljar_agent::READ_FILE])]
    tool: Vec<String>,
    /// Write one JSON object to standard output instead of the answer
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Which model, and how it is talked to.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model, as PROVIDER/MODEL
    #[arg(long, value_name = "PROVIDER/MODEL", env = "BELLJAR_MODEL")]
    model: String,
    /// Where the model's server is, if not where the provider's usually is
    #[arg(long, value_name = "URL", env = "BELLJAR_BASE_URL")]
    base_url: Option<String>,
    /// How the model writes actions, if not as its provider's models usually do
    #[arg(long, value_enum)]
    dialect: Option<DialectChoice>,
    /// How freely the model draws
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// Tokens that a conversation and its reply may have together
    #[arg(long, value_name = "TOKENS")]
    context_window: Option<u32>,
    /// The most tokens of one reply
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,
}

/// What a run may use.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Turns of the model
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: u32,
    /// Tokens of all requests and replies together
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Money, in the currency of the provider's prices
    #[arg(long, value_name = "AMOUNT")]
    money: Option<f64>,
    /// Seconds of model and tools together
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LanguageChoice {
    En,
    Zh,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectChoice {
    /// Tool calls of the provider's own format
    Native,
    /// One JSON object in each reply
    Json,
    /// XML-like tags
    Tags,
    /// Markdown blocks of code
    Fenced,
}

impl From<DialectChoice> for Dialect {
    fn from(choice: DialectChoice) -> Self {
        match choice {
            DialectChoice::Native => Self::NativeTools,
            DialectChoice::Json => Self::JsonAction,
            DialectChoice::Tags => Self::Tags,
            DialectChoice::Fenced => Self::FencedCode,
        }
    }
}

/// How a model is talked to, and its name at the provider.
pub(crate) fn profile(model: &str, base_url: Option<&str>) -> anyhow::Result<(Profile, String)> {
    let name = ModelName::parse(model)?;
    let mut profile = Profile::built_in(&name.provider)
        .with_context(|| format!("there is no provider `{}`", name.provider))?;
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
    match std::env::var_os("BELLJAR_RUNS_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => Ok(directory.into()),
        None => Ok(crate::start::store()?.directory().with_file_name("runs")),
    }
}

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let (mut profile, model) = profile(&args.model.model, args.model.base_url.as_deref())?;
    if let Some(window) = args.model.context_window {
        profile.context_window = window;
    }
    let dialect = match args.model.dialect {
        Some(choice) => choice.into(),
        None => match profile.dialect.as_str() {
            "native" => Dialect::NativeTools,
            "json" => Dialect::JsonAction,
            "tags" => Dialect::Tags,
            _ => Dialect::FencedCode,
        },
    };
    let mut start = Start {
        task: args.task.clone(),
        files: Vec::new(),
        model: args.model.model.clone(),
        dialect,
        language: match args.language {
            LanguageChoice::En => Language::English,
            LanguageChoice::Zh => Language::Chinese,
        },
        budget: Budget {
            steps: args.budget.steps,
            tokens: args.budget.tokens,
            money: args.budget.money,
            seconds: args.budget.seconds,
            ..Budget::default()
        },
        context_window: profile.context_window,
        max_tokens: args.model.max_tokens.or(profile.max_tokens).unwrap_or(2048),
        temperature: args.model.temperature,
        review: args.review,
        tools: args.tool.clone(),
        packages: Vec::new(),
    };
    let provider = Provider::new(profile, &model)?;
    let mut files = Vec::new();
    for path in &args.file {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no name", path.display()))?;
        let contents = std::fs::read(path).with_context(|| path.display().to_string())?;
        files.push((name.to_owned(), contents));
    }
    let engine = args.session.engine().await?;
    let agent = Agent::open(
        &runs_directory()?,
        engine.clone(),
        provider,
        Some(evaluator()?),
    )
    .await?
    .session_options(args.session.options_with_copies()?);
    for (name, contents) in files {
        start.files.push(agent.file(&name, contents).await?);
    }
    let live = agent.start(start).await?;
    let code = follow(live, args.json).await;
    engine.shutdown().await;
    code
}

/// Drives a run, and shows it.
pub(crate) async fn follow(live: LiveRun, json: bool) -> anyhow::Result<ExitCode> {
    let (id, artifacts) = (live.id().clone(), live.artifacts());
    let watching = watch_interrupts(live.control())?;
    let mut screen = RunScreen::new();
    let run = live.drive(&mut |progress| screen.show(&progress)).await;
    watching.abort();
    let run = run?;
    if json {
        print_line(&summary(&run, id.as_str(), &artifacts).to_string())?;
    } else {
        show_end(&run, &artifacts)?;
    }
    let answered = run
        .ending()
        .is_some_and(|ending| ending.reason == ExitReason::Answered);
    Ok(ExitCode::from(u8::from(!answered)))
}

/// What a run came to: its answer on standard output, the rest beside it.
pub(crate) fn show_end(run: &Run, artifacts: &std::path::Path) -> anyhow::Result<()> {
    RunScreen::end(run, artifacts);
    match run.ending().and_then(|ending| ending.answer.as_deref()) {
        Some(answer) => print_line(&show::message(answer)),
        None => Ok(()),
    }
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
        "reason": ending.map(|ending| &ending.reason),
        "evidence": ending.map(|ending| &ending.evidence),
        "artifacts": ending.map(|ending| &ending.artifacts),
        "artifacts_directory": artifacts,
        "spent": spent,
        "replies_mended": mended,
        "replies_not_understood": failed,
    })
}

/// Ctrl-C interrupts the cell; a second one within two seconds, or one when no cell runs, ends the
/// run.
fn watch_interrupts(control: Control) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut interrupts = signal(SignalKind::interrupt()).context("watching for Ctrl-C")?;
    Ok(tokio::spawn(async move {
        let mut last: Option<std::time::Instant> = None;
        while interrupts.recv().await.is_some() {
            let again = last.is_some_and(|last| last.elapsed().as_secs() < 2);
            last = Some(std::time::Instant::now());
            if again || !control.interrupt() {
                show::note("[ending the run]");
                control.stop();
            } else {
                show::note("[the cell was interrupted; Ctrl-C once more ends the run]");
            }
        }
    }))
}
