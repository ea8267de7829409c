//! `belljar completions`, and the manual pages of packages: both made from the command line itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

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
    directory: PathBuf,
}

pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Not to standard output at once: it panics where nobody reads that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "belljar", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write_manual(args: &ManualArgs, command: Command) -> anyhow::Result<ExitCode> {
    let directory: &Path = &args.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .with_context(|| format!("cannot write the manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
