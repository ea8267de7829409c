//! `belljar kernel`: sessions as Jupyter kernels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use belljar_jupyter::{ConnectionFile, EngineHost, HostError, KernelOptions, ServeError, serve};
use belljar_sandbox::{Error, HostDirectory};
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::start::SessionArgs;
use crate::variable_args::VariableArgs;
use crate::{show, words};

/// The time limit of a cell: a person or a program watches it, and can interrupt it.
const DAY: Duration = Duration::from_hours(24);
/// Bytes of a stream that a notebook gets; more is cut in the middle.
const OUTPUT_BYTES: usize = 4 << 20;
/// The name of the notebook's directory in sessions.
const NOTEBOOK: &str = "notebook";
/// Variables that a kernel needs as they were when it was installed.
const KEPT_VARIABLES: [&str; 2] = ["BELLJAR_CONFIG", "BELLJAR_DATA_DIR"];
const LOGO: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path d="M14 52V30a18 18 0 0 1 36 0v22" fill="none" stroke="#2f6f6a" stroke-width="5"/><path d="M8 54h48" stroke="#2f6f6a" stroke-width="6" stroke-linecap="round"/><circle cx="32" cy="8" r="4" fill="#2f6f6a"/><circle cx="32" cy="38" r="7" fill="#e0a030"/></svg>
"##;

#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    /// Write a kernel specification that Jupyter finds
    #[command(after_help = "\
Examples:
  belljar kernel install                                     for this user
  belljar kernel install --prefix .venv                      for one virtual environment
  belljar kernel install --name science -- --env science --packages any
  belljar kernel install --name belljar-rw -- --files rw     code can write beside the notebook

Options after `--` are those of `belljar kernel run`. A missing environment `default` is built now.")]
    Install(InstallArgs),
    /// Run a kernel; Jupyter starts this command
    #[command(
        after_help = "\
Jupyter writes the connection file, and starts the kernel in the notebook's directory. With `--files ro`, code finds \
the files of this directory under their names, and can't change them; new files are in the session's memory. With \
`--files rw`, code works in the directory itself. A directory that contains your home directory is not shown.

Exit code: 0 after a client or SIGTERM ended it; 2 if it could not start. Errors are on standard error, which Jupyter \
logs.",
        mut_arg("timeout", |timeout| timeout.help("Cell time limit in seconds [default: 86400]")),
    )]
    Run(Box<RunArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Install for this user (the default)
    #[arg(long, conflicts_with = "prefix")]
    user: bool,
    /// Install below this directory, such as a virtual environment
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Name of the kernel, for `--kernel` and notebooks
    #[arg(long, value_name = "NAME", default_value = "belljar", value_parser = kernel_name)]
    name: String,
    /// Name in menus [default: Belljar, with its environment]
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Options of `belljar kernel run`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Connection file, written by Jupyter
    #[arg(long, short = 'f', value_name = "PATH")]
    connection_file: PathBuf,
    /// The notebook's directory: `ro` (read-only), `rw` (writable) or `none`
    #[arg(
        long,
        value_name = "MODE",
        default_value = "ro",
        hide_possible_values = true
    )]
    files: FilesChoice,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// What code sees of the notebook's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FilesChoice {
    Ro,
    Rw,
    None,
}

/// The options of `kernel run`, as `kernel install` reads them.
#[derive(Debug, Parser)]
#[command(name = "belljar kernel run")]
struct RunOptions {
    #[command(flatten)]
    run: RunArgs,
}

pub(crate) async fn run(command: KernelCommand) -> anyhow::Result<ExitCode> {
    match command {
        KernelCommand::Install(args) => install(&args).await,
        KernelCommand::Run(args) => run_kernel(*args).await,
    }
}

async fn install(args: &InstallArgs) -> anyhow::Result<ExitCode> {
    let file = ["belljar kernel run", "-f", "{connection_file}"].map(str::to_owned);
    let options = file.iter().chain(&args.options);
    // What is wrong with an option is better known now than in Jupyter's log.
    let RunOptions { run } =
        RunOptions::try_parse_from(options).unwrap_or_else(|error| error.exit());
    let environment = run.session.environment().await?;
    let directory = match &args.prefix {
        Some(prefix) => std::path::absolute(prefix)?.join("share/jupyter"),
        None => user_directory().context("there is no home directory\nhint: use `--prefix`")?,
    };
    let directory = directory.join("kernels").join(&args.name);
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = vec![program.display().to_string(), "kernel".into(), "run".into()];
    command.extend(args.options.iter().cloned());
    command.extend(file[1..].iter().cloned());
    let display_name = args
        .display_name
        .clone()
        .unwrap_or_else(|| match environment.name() {
            "default" => "Belljar".to_owned(),
            name => format!("Belljar ({name})"),
        });
    let variables: BTreeMap<&str, String> = KEPT_VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok()?)))
        .collect();
    let specification = json!({
        "argv": command,
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "message",
        "env": variables,
        "metadata": {"debugger": false},
    });
    std::fs::create_dir_all(&directory)
        .and_then(|()| {
            std::fs::write(
                directory.join("kernel.json"),
                format!("{specification:#}\n"),
            )
        })
        .and_then(|()| std::fs::write(directory.join("logo-svg.svg"), LOGO))
        .with_context(|| format!("cannot write the kernel in `{}`", directory.display()))?;
    show::note(
        &words::texts()
            .kernel
            .installed(&args.name, &directory.display()),
    );
    Ok(ExitCode::SUCCESS)
}

/// Where Jupyter looks for kernels of this user.
fn user_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = set("JUPYTER_DATA_DIR") {
        return Some(directory.into());
    }
    let data = match set("XDG_DATA_HOME") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::home_dir()?.join(".local/share"),
    };
    Some(data.join("jupyter"))
}

fn kernel_name(text: &str) -> Result<String, String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_known) {
        return Err("expected letters, digits, `-`, `_` and `.`".into());
    }
    Ok(text.to_ascii_lowercase())
}

async fn run_kernel(mut args: RunArgs) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let interrupts = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let connection = ConnectionFile::read(&args.connection_file)?;
    let directory = std::env::current_dir().context("finding the notebook's directory")?;
    let texts = &words::texts().kernel;
    let (setup, notice) = show_directory(&mut args, &directory)?;
    let mut options = args
        .variables
        .give(args.session.options_with_checkpoints()?)?;
    options.limits.wall_time = args.session.timeout().unwrap_or(DAY);
    options.limits.output_kept_bytes = OUTPUT_BYTES;
    // Clients wait for the sockets, so the first session starts when they are there. Its template imports nothing ahead:
    // it has one session, whose cells import what they use.
    let environment = args.session.environment().await?.preload_only(|_| false);
    let engine = args.session.cold(environment)?;
    let host = EngineHost::new(engine.clone(), options, setup);
    let options = KernelOptions {
        notice,
        files: (args.files != FilesChoice::Rw).then(|| texts.files_of_session.to_owned()),
        language: words::language(),
    };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            () = end_of_parent() => {}
        }
    };
    let served = serve(&connection, host, options, interrupts, stop).await;
    engine.shutdown().await;
    match served {
        Err(ServeError::Session(HostError::Session(error @ Error::Directory(_)))) => Err(error)
            .context("the notebook's directory cannot be shown; `--files none` starts without it"),
        served => Ok(served.map(|()| ExitCode::SUCCESS)?),
    }
}

/// Shows the notebook's directory to the session. Returns the code that takes a new session there, or why it is not
/// shown.
fn show_directory(
    args: &mut RunArgs,
    directory: &Path,
) -> anyhow::Result<(Option<String>, Option<String>)> {
    if args.files == FilesChoice::None {
        return Ok((None, None));
    }
    if !args.session.has_walls() {
        // The code can read and write it anyway.
        let setup = change_directory(&directory.display().to_string());
        return Ok((Some(setup), None));
    }
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    if home.is_none_or(|home| home.starts_with(directory)) {
        let texts = &words::texts().kernel;
        return Ok((None, Some(texts.files_hidden(&directory.display()))));
    }
    let shown = HostDirectory::new(NOTEBOOK, directory)?;
    let place = format!("/data/{NOTEBOOK}");
    if args.files == FilesChoice::Rw {
        args.session.add_mount(shown.writable());
        return Ok((Some(change_directory(&place)), None));
    }
    args.session.add_mount(shown);
    // Links let code read the files under their names, and create others. Binds no names.
    let setup = format!(
        "[os.symlink(file.path, file.name) for os in [__import__('os')] \
         for file in __import__('itertools').islice(os.scandir('{place}'), 10000) \
         if not file.name.startswith('.')] and None"
    );
    Ok((Some(setup), None))
}

fn change_directory(path: &str) -> String {
    // JSON's text is Python's.
    format!("__import__('os').chdir({})", json!(path))
}

/// Waits for the end of the program that started the kernel, if it is Jupyter.
async fn end_of_parent() {
    if std::env::var_os("JPY_PARENT_PID").is_none() {
        return std::future::pending().await;
    }
    let parent = rustix::process::getppid();
    while rustix::process::getppid() == parent {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_are_those_of_jupyter() {
        assert_eq!(kernel_name("Belljar-3.14"), Ok("belljar-3.14".into()));
        for name in ["", "a b", "../x", ".x", "a/b"] {
            assert!(kernel_name(name).is_err(), "{name}");
        }
    }
}
