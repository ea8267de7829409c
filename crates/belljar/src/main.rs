//! The `belljar` command.

mod bench_command;
mod doctor_command;
mod env_command;
mod exec_command;
mod python_input;
mod repl_actions;
mod repl_command;
mod repl_editor;
mod show;
mod show_image;
mod start;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run Python in live, isolated, already-warm sessions.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a piece of Python and show what happened
    Exec(exec_command::ExecArgs),
    /// Type cells into a live session
    Repl(repl_command::ReplArgs),
    /// Make, list and remove environments: the Python and packages that sessions start from
    #[command(subcommand)]
    Env(env_command::EnvCommand),
    /// Say what this host has and lacks, and what to do about it
    Doctor(doctor_command::DoctorArgs),
    /// Measure sessions and cells beside their references
    Bench(bench_command::BenchArgs),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("BELLJAR_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error")),
        )
        .with_writer(std::io::stderr)
        .init();
    // A session costs about ten descriptors; the usual soft limit of 1024 would be a hundred.
    let _ = belljar_walls::raise_open_files();
    let result = match Cli::parse().command {
        Command::Exec(args) => start::block_on(exec_command::run(args)),
        Command::Repl(args) => start::block_on(repl_command::run(args)),
        Command::Env(command) => start::store()
            .and_then(|store| env_command::run(command, &store))
            .map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => start::block_on(doctor_command::run(args)),
        Command::Bench(args) => start::block_on(bench_command::run(args)),
    };
    result.unwrap_or_else(|error| {
        show::error(&error);
        ExitCode::from(2)
    })
}
