//! The `belljar` command.

mod acp_command;
mod approve;
mod bench_command;
mod bench_many;
mod bench_packages;
mod bench_programs;
mod bench_snapshot;
mod bench_tiers;
mod cli_reference;
mod cluster_command;
mod command_output;
mod completions_command;
mod config_command;
mod container_args;
mod doctor_command;
mod env_command;
mod error_texts;
mod exec_command;
mod highlight;
mod kernel_command;
mod keys_command;
mod log;
mod mcp_command;
mod mcp_servers;
mod mcp_servers_command;
mod options_reference;
mod options_table;
mod python_input;
mod question;
mod reference;
mod repl_actions;
mod repl_command;
mod repl_editor;
mod repl_terminal;
mod run_command;
mod run_screen;
mod runs_command;
mod runs_find;
mod runs_reproduce;
mod runs_timing;
mod serve_command;
mod settings;
mod settings_approvals;
mod settings_file;
mod settings_list;
mod settings_origin;
mod shell_command;
mod show;
mod show_image;
mod start;
mod start_values;
mod table;
mod telemetry;
mod tenants_command;
mod transfer;
mod variable_args;
mod words;

use std::process::ExitCode;

use belljar_sandbox::protocol::Language;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::log::LogFormat;
use crate::telemetry::Telemetry;

/// Run Python in live, isolated, already-warm sessions
///
/// A session is a live Python interpreter, isolated by the kernel. It has no network and no files of
/// this machine except its programs and one Python, read-only. Memory, CPU, processes and time are
/// limited.
#[derive(Debug, Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "\
First steps:
  belljar doctor                 check whether sessions can run on this machine
  belljar exec 'print(6 * 7)'    run Python code; the first time builds the environment `default`
  belljar repl                   type cells into a live session
  belljar shell                  open a terminal in a session

Environment variables:
  BELLJAR_CONFIG    settings file [default: belljar/config.toml in the user's configuration directory]
  BELLJAR_DATA_DIR  directory of environments [default: belljar in the user's data directory]
  BELLJAR_RUNS_DIR  directory of runs [default: runs, next to the environments]
  BELLJAR_MODEL     model of `belljar run`, as PROVIDER/MODEL
  BELLJAR_BASE_URL  base URL of the model's server
  BELLJAR_UV        path of uv, which builds environments [default: uv in PATH]
  BELLJAR_LOG       log level: error, warn, info, debug, trace [default: error]
  BELLJAR_LOG_FORMAT  log format: text, or json for one JSON object per line [default: text]
  OTEL_EXPORTER_OTLP_ENDPOINT  OTLP endpoint for traces and metrics [default: none]
  TMPDIR            directory for temporary files [default: /tmp]"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Language of prompts and messages [default: the system's]
    #[arg(long, global = true, value_name = "LANGUAGE", value_parser = clap::builder::PossibleValuesParser::new(Language::CODES))]
    language: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Give a task to a model and get an answer with evidence
    Run(Box<run_command::RunArgs>),
    /// List, show, resume, approve, export, verify, replay and delete runs
    #[command(subcommand)]
    Runs(runs_command::RunsCommand),
    /// Show effective settings and their sources, or write a settings file
    Config(Box<config_command::ConfigArgs>),
    /// Run Python code in a new session
    Exec(exec_command::ExecArgs),
    /// Type cells into a live session that keeps variables and files
    Repl(repl_command::ReplArgs),
    /// Open a terminal in a new session, or run a command there
    #[command(
        mut_arg("timeout", |timeout| timeout.help("Time limit of the command in seconds [default: none]")),
        mut_arg("packages", |packages| packages
            .help("Packages to install first: `NAME,…`. Only wheels, only for this session")
            .hide_default_value(true)),
    )]
    Shell(shell_command::ShellArgs),
    /// Install Belljar as a Jupyter kernel, or run one
    #[command(subcommand)]
    Kernel(kernel_command::KernelCommand),
    /// Run the agent in an editor over ACP, on stdio
    #[command(mut_arg("approve", |approve| {
        approve.help("Which code and tool calls need approval [default: risky]")
    }))]
    Acp(acp_command::AcpArgs),
    /// Serve sessions to another program's model over MCP, on stdio
    Mcp(mcp_command::McpArgs),
    /// List configured MCP servers and their tools, or accept tools
    McpServers(mcp_servers_command::McpServersArgs),
    /// Serve sessions and runs to programs and teams over HTTP
    Serve(Box<serve_command::ServeArgs>),
    /// List, create and revoke API keys of the service
    #[command(subcommand)]
    Keys(keys_command::KeysCommand),
    /// List tenants, set their quotas, show the audit log
    #[command(subcommand)]
    Tenants(tenants_command::TenantsCommand),
    /// Show and drain the nodes of a cluster, import a single node
    #[command(subcommand)]
    Cluster(cluster_command::ClusterCommand),
    /// Create, extend, list, show and remove environments (Python and packages of sessions)
    #[command(
        subcommand,
        after_help = "\
Examples:
  belljar env create                               the environment `default`
  belljar env create math sympy --preload sympy
  belljar exec --env math 'import sympy; sympy.factorint(2026)'"
    )]
    Env(env_command::EnvCommand),
    /// Check whether sessions can run on this machine, with remedies
    Doctor(doctor_command::DoctorArgs),
    /// Benchmark sessions and cells against their references
    Bench(bench_command::BenchArgs),
    /// Print a shell completion script
    Completions(completions_command::CompletionsArgs),
    /// Write the manual pages or docs/cli-reference.md, for packaging
    #[command(hide = true)]
    Manual(completions_command::ManualArgs),
    /// Evaluate one expression for `compute_with_python` (child process)
    #[command(hide = true)]
    Compute,
}

fn main() -> ExitCode {
    let format = match LogFormat::of_environment() {
        Ok(format) => format,
        Err(error) => {
            show::error(&error);
            return ExitCode::from(2);
        }
    };
    let Cli { command, language } = Cli::parse();
    if let Some(code) = language {
        words::ask(&code);
    }
    // The others perform nothing that others watch.
    let performs = matches!(
        command,
        Command::Run(_) | Command::Runs(_) | Command::Acp(_) | Command::Mcp(_) | Command::Serve(_)
    );
    let telemetry = match performs.then(Telemetry::of_environment).transpose() {
        Ok(telemetry) => telemetry.unwrap_or_default(),
        Err(error) => {
            show::error(&error);
            return ExitCode::from(2);
        }
    };
    format.start(&telemetry);
    // A session costs about ten descriptors; the usual soft limit of 1024 would be a hundred.
    let _ = belljar_walls::raise_open_files();
    belljar_walls::limit_heaps();
    let result = match command {
        Command::Run(args) => start::block_on(run_command::run(*args)),
        Command::Runs(command) => start::block_on(runs_command::run(command)),
        Command::Config(args) => config_command::run(&args, &Cli::command()),
        Command::Exec(args) => start::block_on(exec_command::run(args)),
        Command::Repl(args) => start::block_on(repl_command::run(args)),
        Command::Shell(args) => start::block_on(shell_command::run(args)),
        Command::Kernel(command) => start::block_on(kernel_command::run(command)),
        Command::Acp(args) => start::block_on(acp_command::run(args)),
        Command::Mcp(args) => start::block_on(mcp_command::run(args)),
        Command::McpServers(args) => start::block_on(mcp_servers_command::run(args)),
        Command::Serve(args) => start::block_on(serve_command::run(*args)),
        Command::Keys(command) => start::block_on(keys_command::run(command)),
        Command::Tenants(command) => start::block_on(tenants_command::run(command)),
        Command::Cluster(command) => start::block_on(cluster_command::run(command)),
        Command::Env(command) => start::store()
            .and_then(|store| env_command::run(command, &store))
            .map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => start::block_on(doctor_command::run(args)),
        Command::Bench(args) => start::block_on(bench_command::run(args)),
        Command::Completions(args) => completions_command::run(&args, Cli::command()),
        Command::Manual(args) => completions_command::write_manual(&args, Cli::command()),
        Command::Compute => belljar_agent::serve_computation()
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    telemetry.end();
    result.unwrap_or_else(|error| {
        let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(broken_pipe) {
            // Whoever read our output has enough of it, as `head` does: not an error.
            return ExitCode::from(141);
        }
        match format {
            LogFormat::Text => show::error(&error),
            LogFormat::Json => tracing::error!(error = format!("{error:#}"), "the command failed"),
        }
        ExitCode::from(2)
    })
}
