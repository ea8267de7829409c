//! `belljar run`: a task in, an answer with evidence out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use belljar_agent::{
    Agent, Branches, Control, Evaluator, ExitReason, FILE_BYTES, LiveRun, ModelName, Profile,
    Progress, Provider, Run, RunEvent, Start,
};
use belljar_sandbox::protocol::Language;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::approve::{Person, eprint_text, text};
use crate::mcp_servers::mcp_tools;
use crate::run_screen::{RunScreen, StatusLine};
use crate::settings::{Settings, SettingsArgs};
use crate::show;
use crate::start::SessionArgs;
use crate::words::pick;

#[derive(Debug, Args)]
#[command(after_help = "\
The answer goes to standard output; thoughts, code and output are streamed to standard error. \
Ctrl-C interrupts the running cell; a second Ctrl-C ends the run with the best answer so far.

Exit codes: 0 answered; 1 not answered, with the reason; 2 cannot start; 3 waits for approval \
(`belljar runs approve`); 130 ended by Ctrl-C.

Models are named PROVIDER/MODEL; the providers are openai, anthropic, qwen, ollama, llamacpp and vllm. \
The key is read from the provider's variable, such as OPENAI_API_KEY. `belljar config` shows all \
settings and the settings file.

Examples:
  belljar run --model openai/gpt-5-mini 'How many primes are there below 30000?'
  belljar run --model ollama/qwen2.5-coder --file sales.csv 'Which product sold most?'
  belljar run --model llamacpp/local --base-url http://127.0.0.1:8080/v1 --json '…'
  belljar run --model qwen/qwen3-coder-plus --file log.txt --branches 4 --check 'len(rows) > 0' 'Parse the log.'")]
pub(crate) struct RunArgs {
    /// Task for the model
    task: String,
    /// File for the run, under its own name (repeatable)
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Tool for the model besides python (repeatable)
    #[arg(long, value_name = "NAME", value_parser = [belljar_agent::COMPUTE, belljar_agent::PLAN, belljar_agent::READ_FILE])]
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
        budget: settings.budget.clone(),
        context_window: profile.context_window,
        max_tokens: settings.max_tokens,
        temperature: settings.temperature,
        review: settings.review,
        tools: Vec::new(),
        packages: Vec::new(),
        granted: Vec::new(),
        approvals: settings.approvals.clone(),
        branches: None,
        parent: None,
    }
}

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    let language = settings.language;
    let (model, profile) = settings.required_model()?;
    if args.task.trim().is_empty() {
        bail!("{}", pick(language, ["the task is empty", "任务为空"]));
    }
    let mut start = Start {
        task: args.task.clone(),
        tools: args.tool.clone(),
        branches: branches(&args, language)?,
        ..start_of(&settings, &model, &profile)
    };
    let provider = Provider::new(profile, &model.model)?;
    let files = read_files(&args.file, language)?;
    // Their servers live as long as the run.
    let (tools, _servers) = mcp_tools(&settings).await?;
    let engine = args.session.engine().await?;
    let evaluator = Some(evaluator()?);
    let agent = Agent::open(&settings.runs_dir, engine.clone(), provider, evaluator)
        .await?
        .session_options(args.session.options_with_checkpoints()?)
        .tools(tools);
    for (name, contents) in files {
        start.files.push(agent.file(&name, contents).await?);
    }
    let live = agent.start(start).await?;
    let code = follow(live, args.json, language).await;
    engine.shutdown().await;
    code
}

fn branches(args: &RunArgs, language: Language) -> anyhow::Result<Option<Branches>> {
    let (Some(most), Some(check)) = (args.branches, &args.check) else {
        return Ok(None);
    };
    let branches = Branches::new(most, check);
    branches.map(Some).map_err(|error| match language {
        Language::English => anyhow!("`--check`: {error}\nhint: for example `len(rows) == 3`"),
        Language::Chinese => {
            anyhow!("`--check`：必须是一个 Python 表达式\n提示：例如 `len(rows) == 3`")
        }
    })
}

/// The files that a run gets, each under a name of its own.
fn read_files(paths: &[PathBuf], language: Language) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for path in paths {
        let shown = path.display();
        let at = |what: [&str; 2]| format!("--file {shown}: {}", pick(language, what));
        let unreadable = |error: std::io::Error| match language {
            Language::English => anyhow!(
                "--file {shown}: {error}\nhint: check the path, which is relative to the current directory, and \
                 its permissions"
            ),
            Language::Chinese => {
                anyhow!("--file {shown}：{error}\n提示：请检查路径（相对于当前目录）和读取权限")
            }
        };
        let found = std::fs::metadata(path).map_err(unreadable)?;
        if found.is_dir() {
            bail!(at([
                "is a directory\nhint: give its files, each with `--file`, or an archive of it",
                "这是一个目录\n提示：请用 `--file` 逐个给出其中的文件，或给出压缩包",
            ]));
        }
        if !found.is_file() || found.len() > FILE_BYTES {
            bail!(at([
                "a run takes only regular files of at most 256 MiB",
                "只能给出不超过 256 MiB 的普通文件",
            ]));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name
            .with_context(|| at(["the file name is not valid UTF-8", "文件名不是有效的 UTF-8"]))?;
        if files.iter().any(|(other, _)| other == name) {
            bail!(at([
                "another file has the same name\nhint: rename one of them",
                "已有同名文件\n提示：请重命名其中一个",
            ]));
        }
        let contents = std::fs::read(path).map_err(unreadable)?;
        files.push((name.to_owned(), contents));
    }
    Ok(files)
}

/// Drives a run, and shows it.
pub(crate) async fn follow(
    live: LiveRun,
    json: bool,
    language: Language,
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
    let code = match run.ending().map(|ending| &ending.reason) {
        Some(ExitReason::Answered) => 0,
        Some(ExitReason::Stopped) => 130,
        Some(_) => 1,
        None => {
            tell_waiting(&run, id.as_str(), language);
            WAITS
        }
    };
    Ok(ExitCode::from(code))
}

/// The exit code of a run that waits for a person.
pub(crate) const WAITS: u8 = 3;

/// Says what a run waits for, and how to decide it.
pub(crate) fn tell_waiting(run: &Run, id: &str, language: Language) {
    for approval in run.undecided() {
        eprint_text(&text(approval, language));
    }
    show::note(&match language {
        Language::English => format!(
            "[the run waits for approval: resume it with `belljar runs approve {id} --accept`, `--reject`, \
             `--feedback TEXT` or `--edit FILE`]"
        ),
        Language::Chinese => format!(
            "[任务等待批准：用 `belljar runs approve {id} --accept`、`--reject`、`--feedback TEXT` 或 `--edit FILE` 恢复运行]"
        ),
    });
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
                status.note(pick(language, ["[ending the run]", "[正在结束任务]"]));
                control.stop();
            } else {
                status.note(pick(
                    language,
                    [
                        "[cell interrupted; press Ctrl-C again to end the run]",
                        "[单元已中断；再按一次 Ctrl-C 结束任务]",
                    ],
                ));
            }
        }
    }))
}
