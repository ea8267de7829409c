//! `belljar completions`, the manual pages and the reference page: all made from the command line itself.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::{cli_reference, options_reference};

/// What `belljar completions` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  belljar completions bash > ~/.local/share/bash-completion/completions/belljar
  belljar completions zsh > ~/.zfunc/_belljar     with ~/.zfunc in fpath
  belljar completions fish > ~/.config/fish/completions/belljar.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

/// What the hidden `belljar manual` takes.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Output directory
    #[arg(required_unless_present_any = ["reference", "options"])]
    directory: Option<PathBuf>,
    /// Print docs/cli-reference.md instead
    #[arg(long, conflicts_with = "directory")]
    reference: bool,
    /// Print docs/options.md instead
    #[arg(long, conflicts_with_all = ["directory", "reference"])]
    options: bool,
}

pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Not to standard output at once: it panics where nobody reads that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "belljar", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write_manual(args: &ManualArgs, command: Command) -> anyhow::Result<ExitCode> {
    let Some(directory) = args.directory.as_deref() else {
        let page = if args.options {
            options_reference::page()
        } else {
            cli_reference::page(command)
        };
        std::io::stdout().write_all(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .with_context(|| format!("cannot write the manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
