//! `belljar exec`: one cell, or a file, or what comes on standard input.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use belljar_sandbox::protocol::{Cause, Event, Fate, Outcome, Status, Stream, visible};
use belljar_sandbox::{Cell, Session};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::question::{Asking, can_ask, pass};
use crate::start::{SessionArgs, install_required};
use crate::transfer::{FileArgs, put_all, unlimited};
use crate::variable_args::VariableArgs;
use crate::{show, words};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  belljar exec 'import pandas as pd; pd.DataFrame({\"a\": [1, 2]}).sum()'
  belljar exec --file analysis.py --put sales.csv --out results
  belljar exec --seed '{\"n\": 3}' 'print(n + 1)'
  belljar exec --snapshot-out a.snapshot 'x = 6' && belljar exec --snapshot-in a.snapshot 'x * 7'
  belljar exec --packages any --file report.py    # whose first line is `# requires: humanize`
  echo 'print(6 * 7)' | belljar exec -

The code runs in /workspace of a new session, which ends with the command. The value of the last \
expression is printed. Ctrl-C interrupts the code; a second Ctrl-C ends the session.

Exit code: that of the Python program: 0, 1 after an exception, n after sys.exit(n), 124 at the \
time limit, 130 after Ctrl-C, 137 at the memory limit, 128 + n after signal n; 2 if belljar itself \
failed. With `--json`, the outcome has it as `exit_code`.")]
pub(crate) struct ExecArgs {
    /// Code, run as one cell; `-` reads standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    code: Option<String>,
    /// Read the code from a file
    #[arg(long, short, value_name = "PATH")]
    file: Option<PathBuf>,
    #[command(flatten)]
    files: FileArgs,
    /// Set variables first, one per name of a JSON object
    #[arg(long, value_name = "JSON")]
    seed: Option<String>,
    /// Start from a snapshot: variables, files and sources
    #[arg(long, value_name = "PATH")]
    snapshot_in: Option<PathBuf>,
    /// Write a snapshot of variables and files afterwards, even on failure
    #[arg(long, value_name = "PATH")]
    snapshot_out: Option<PathBuf>,
    /// Print JSON lines: each event, then the outcome
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(args: ExecArgs) -> anyhow::Result<ExitCode> {
    // Whatever the user may have got wrong comes first: starting takes a second.
    let code = read_code(&args)?;
    let inputs = args.files.inputs()?;
    let values = match &args.seed {
        Some(seed) => serde_json::from_str(seed)
            .context("`--seed` takes a JSON object, such as '{\"n\": 3}'")?,
        None => serde_json::Map::new(),
    };
    let mut options = unlimited(args.variables.give(args.session.options()?)?);
    let limits = &mut options.limits;
    if !args.json {
        // A command's output is for whoever it is piped to: all of it.
        limits.output_kept_bytes = 16 << 20;
        limits.output_file_bytes = limits.output_bytes;
    }
    let engine = args.session.engine_for(&code).await?;
    let session = match &args.snapshot_in {
        Some(path) => {
            let (session, report) = engine.load(path, options).await?;
            show::loaded(&report);
            session
        }
        None => engine.session_with(options).await?,
    };
    put_all(&session, &inputs)?;
    session.seed(&values).await?;
    install_required(&session, &code)
        .await
        .context("cannot install the packages of `# requires:` (see `--packages`)")?;
    let outcome = run_cell(&session, &code, args.json).await?;
    if let Some(outcome) = &outcome {
        if !args.json {
            show::ending(outcome);
        }
        if let Some(path) = &args.snapshot_out {
            let snapshot = session.snapshot(path).await;
            let report =
                snapshot.with_context(|| format!("`--snapshot-out {}`", path.display()))?;
            show::saved(&report);
        }
        args.files.save(&session, outcome)?;
    }
    drop(session);
    engine.shutdown().await;
    Ok(ExitCode::from(outcome.as_ref().map_or(130, exit_code)))
}

fn read_code(args: &ExecArgs) -> anyhow::Result<String> {
    match (&args.file, args.code.as_deref()) {
        (Some(path), _) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read `{}`", path.display())),
        (None, Some("-")) => {
            let mut code = String::new();
            std::io::stdin()
                .read_to_string(&mut code)
                .context("reading standard input")?;
            Ok(code)
        }
        // A new session has no name that this could be an attribute of.
        (None, Some(code))
            if Path::new(code).extension().is_some_and(|end| end == "py")
                && !code.contains(|c: char| c.is_whitespace() || c == '(') =>
        {
            bail!(words::texts().session.code_is_path(&visible(code)))
        }
        (None, Some(code)) => Ok(code.to_owned()),
        (None, None) => bail!(words::texts().session.no_code),
    }
}

/// Runs the cell. A first Ctrl-C interrupts it; a second one gives it up.
async fn run_cell(session: &Session, code: &str, json: bool) -> anyhow::Result<Option<Outcome>> {
    let mut interrupts = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut interrupted = false;
    let mut shown = [0, 0];
    let mut screen = show::Screen::default();
    let mut asking = Asking::default();
    let mut run = session.run(Cell {
        input: !json && can_ask(),
        ..Cell::from(code)
    });
    loop {
        let mut event = tokio::select! {
            event = run.next() => event.context("the cell ended without an outcome")??,
            typed = asking.typed() => {
                pass(session, typed).await?;
                continue;
            }
            _ = interrupts.recv() => {
                if interrupted {
                    show::note(words::texts().session.ignores_interrupt);
                    return Ok(None);
                }
                interrupted = true;
                session.interrupt();
                continue;
            }
        };
        if json {
            if let Event::Outcome(outcome) = &mut event {
                // The cell ran as a program: it has the exit code of the command.
                outcome.exit_code = exit_code(outcome).into();
            }
            writeln!(std::io::stdout(), "{}", json_line(&event)?)?;
        } else {
            screen.event(&event)?;
        }
        asking.event(&event)?;
        match event {
            Event::Output { stream, text } => {
                shown[usize::from(stream == Stream::Stderr)] += text.len();
            }
            Event::Outcome(outcome) => {
                if !json {
                    let live = session.limits().live_bytes();
                    screen.rest(&outcome.stdout, Stream::Stdout, live, shown[0])?;
                    screen.rest(&outcome.stderr, Stream::Stderr, live, shown[1])?;
                    screen.end()?;
                }
                return Ok(Some(*outcome));
            }
            _ => {}
        }
    }
}

/// An event as one line of JSON. JSON itself escapes only the controls below U+0020, but a terminal
/// obeys those from U+007F to U+009F too; they can only stand in strings.
fn json_line(event: &Event) -> serde_json::Result<String> {
    let mut line = serde_json::to_string(event)?;
    while let Some(control) = line.chars().find(|c| c.is_control()) {
        line = line.replace(control, &format!("\\u{:04x}", u32::from(control)));
    }
    Ok(line)
}

fn exit_code(outcome: &Outcome) -> u8 {
    match (&outcome.cause, outcome.status) {
        (_, Status::Success) => 0,
        (_, Status::Timeout) => 124,
        (Cause::Exit { code }, _) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
        (Cause::Signal { number, .. }, _) => u8::try_from(128 + number).unwrap_or(1),
        (Cause::Interrupted, _) => 130,
        _ if outcome.state == Fate::Lost => 137,
        _ => 1,
    }
}
