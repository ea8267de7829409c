//! `belljar repl`: cells typed into a live session.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use belljar_sandbox::protocol::texts::SessionTexts;
use belljar_sandbox::protocol::{Cause, Event, Fate, Outcome};
use belljar_sandbox::{
    Cell, Command as ShellCommand, CommandEnd, Engine, Error, SecretGrant, Session, SessionOptions,
    requires,
};
use clap::Args;
use tokio::signal::unix::{Signal as Interrupts, SignalKind, signal};

use crate::question::{Asking, pass};
use crate::repl_actions::{self, Command, Next};
use crate::repl_editor::{Editor, Live, Typed};
use crate::repl_terminal::HeldTerminal;
use crate::start::{SessionArgs, install_required, spinner};
use crate::transfer::{FileArgs, put_all, unlimited};
use crate::variable_args::VariableArgs;
use crate::{command_output, python_input, show, words};

#[derive(Debug, Args)]
#[command(after_help = "\
At the prompt: Tab completes, Ctrl-C interrupts a cell and keeps the variables, Ctrl-D quits. An empty line \
ends a block. Lines typed while a cell runs are kept and run next, also after Ctrl-C. A line that starts with ! is a \
shell command in the session, without input. Lines that start with / are commands: /vars and /files list variables and files, /put and \
/get copy files, /fork switches to a fork of the session and /back returns, /save and /load write and read \
a snapshot, /reset starts a new session, /help lists all commands.

If standard input is not a terminal, its lines run as if typed, without prompts; the exit code is 1 if \
the last cell failed. `belljar exec --file FILE` runs a file as one cell.

Examples:
  belljar repl
  belljar repl --env math --memory 8G --timeout 600
  belljar repl --put sales.csv --out results
  printf 'x = 6\\nx * 7\\n' | belljar repl")]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(args: ReplArgs) -> anyhow::Result<ExitCode> {
    // First of all, for what is typed while the engine starts.
    let terminal = can_edit().then(HeldTerminal::new).transpose();
    let terminal = terminal.context("cannot prepare the terminal")?;
    // A person at a prompt doesn't notice the milliseconds of a checkpoint, but would miss the variables.
    let options = args
        .variables
        .give(args.session.options_with_checkpoints()?)?;
    let options = unlimited(options);
    let inputs = args.files.inputs()?;
    let environment = args.session.environment().await?;
    let engine = args.session.warm(environment).await?;
    let live = Live::default();
    let session = engine.session_with(options.clone()).await?;
    put_all(&session, &inputs)?;
    live.set(Arc::new(session));
    let mut repl = Repl {
        options,
        interrupts: signal(SignalKind::interrupt()).context("watching for Ctrl-C")?,
        engine: engine.clone(),
        live,
        next_cell: 1,
        changed: BTreeSet::new(),
        has_editor: false,
        parents: Vec::new(),
        files: args.files,
        texts: &words::texts().session,
    };
    let result = match &terminal {
        Some(_) => repl.typed().await,
        None => repl.piped().await,
    };
    let saved = repl.save();
    drop(repl);
    engine.shutdown().await;
    saved.and(result)
}

/// Whether the terminal can be asked for more than lines.
fn can_edit() -> bool {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    terminal && std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

/// The conversation.
struct Repl {
    engine: Engine,
    options: SessionOptions,
    live: Live,
    interrupts: Interrupts,
    /// The number that the next cell will have.
    next_cell: u32,
    /// Paths of the files that cells and commands of this session created or changed.
    changed: BTreeSet<String>,
    /// Whether a person sees prompts, so that values have a mark.
    has_editor: bool,
    files: FileArgs,
    /// The sessions to go back to with the numbers of their next cells, the nearest last.
    parents: Vec<(Arc<Session>, u32)>,
    texts: &'static SessionTexts,
}

impl Repl {
    /// With a person at a terminal.
    async fn typed(&mut self) -> anyhow::Result<ExitCode> {
        self.greet();
        self.has_editor = true;
        let mut editor = Editor::new(&self.live);
        loop {
            let number = self.next_cell;
            let typed;
            // The editor blocks on the terminal, and its completion on the session.
            (editor, typed) = tokio::task::spawn_blocking(move || {
                let typed = editor.read(number);
                (editor, typed)
            })
            .await
            .context("the line editor failed")?;
            match typed.context("reading the terminal")? {
                Typed::Text(text) => {
                    if self.take(&text).await?.is_leaving() {
                        break;
                    }
                }
                Typed::Nothing => {}
                Typed::End => break,
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// With lines from a pipe, a file, or a terminal that knows lines only.
    async fn piped(&mut self) -> anyhow::Result<ExitCode> {
        let prompts = std::io::stdin().is_terminal();
        if prompts {
            self.greet();
        }
        let mut lines = read_lines();
        let mut text = String::new();
        let mut failed = false;
        loop {
            if prompts {
                let mut stderr = anstream::stderr().lock();
                let prompt = if text.is_empty() {
                    format!("In [{}]: ", self.next_cell)
                } else {
                    "...: ".into()
                };
                let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
            }
            let line = tokio::select! {
                line = lines.recv() => line.transpose().context("reading standard input")?,
                _ = self.interrupts.recv() => {
                    if prompts {
                        text.clear();
                        show::note("");
                        continue;
                    }
                    return Ok(ExitCode::from(130));
                }
            };
            let ended = line.is_none();
            if let Some(line) = line {
                text.push_str(&line);
                if !python_input::is_complete(&text) {
                    text.push('\n');
                    continue;
                }
            }
            let next = self.take(&std::mem::take(&mut text)).await?;
            match next {
                Next::Leave => break,
                Next::Ran { success } => failed = !success,
                Next::Go => {}
            }
            if ended {
                break;
            }
        }
        Ok(ExitCode::from(u8::from(failed)))
    }

    /// Copies the files of the session that are there at the end.
    fn save(&self) -> anyhow::Result<()> {
        let Some(session) = self.live.get() else {
            return Ok(());
        };
        let is_there = |path: &&String| session.open(path).is_ok();
        let changed = self.changed.iter().filter(is_there).cloned();
        self.files.save_files(&session, changed)
    }

    fn greet(&self) {
        let environment = self.engine.environment();
        let (major, minor, micro) = environment.version();
        let python = format!("{major}.{minor}.{micro}");
        let version = env!("CARGO_PKG_VERSION");
        let welcome = self.texts.welcome(version, &python, environment.name());
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(stderr, "{welcome}\n{}", self.texts.keys);
    }

    /// Does what was typed.
    async fn take(&mut self, text: &str) -> anyhow::Result<Next> {
        if text.trim().is_empty() {
            return Ok(Next::Go);
        }
        // `!pip install` is a cell: its packages are installed by policy.
        if let Some(line) = shell_line(text)
            && requires(text).is_ok_and(|required| required.is_empty())
        {
            return self.run_shell_line(line).await;
        }
        if !text.starts_with('/') {
            return self.run_cell(text).await;
        }
        match Command::parse(text, self.texts) {
            Ok(Command::Quit) => return Ok(Next::Leave),
            Ok(Command::Reset) => {
                self.start_session().await?;
                show::note(self.texts.new_session);
            }
            Ok(Command::Load { path }) => {
                if let Err(error) = self.load(&repl_actions::home(&path)).await {
                    show::error(&error.into());
                }
            }
            Ok(Command::Back) => {
                if self.go_back() {
                    show::note(self.texts.back);
                } else {
                    show::error(&anyhow!(self.texts.cannot_go_back));
                }
            }
            Ok(command) => {
                let session = self.live.get().context("no session is live")?;
                let done = match command {
                    Command::Fork => self.fork(&session).await,
                    command => repl_actions::act(&session, &command, self.texts).await,
                };
                if let Err(error) = done {
                    show::error(&error);
                    if error.downcast_ref::<Error>().is_some_and(has_ended) {
                        drop(session);
                        self.replace_session().await?;
                    }
                }
            }
            Err(error) => show::error(&error),
        }
        Ok(Next::Go)
    }

    async fn run_cell(&mut self, code: &str) -> anyhow::Result<Next> {
        match self.follow_cell(code).await {
            Ok(outcome) => {
                show::left_out(&outcome);
                show::ending(&outcome);
                if matches!(outcome.cause, Cause::Exit { .. }) && outcome.state == Fate::Kept {
                    // exit() and quit() mean here what they mean in Python's own prompt.
                    return Ok(Next::Leave);
                }
                self.next_cell = outcome.cell.saturating_add(1);
                let artifacts = outcome.artifacts.iter();
                self.changed
                    .extend(artifacts.map(|artifact| artifact.path.clone()));
                if outcome.state == Fate::Lost {
                    self.replace_session().await?;
                }
                Ok(Next::Ran {
                    success: outcome.is_success(),
                })
            }
            Err(error) => {
                let ended = has_ended(&error);
                show::error(&error.into());
                if ended || self.live.get().is_none() {
                    self.replace_session().await?;
                }
                Ok(Next::Ran { success: false })
            }
        }
    }

    /// Runs a command in the session, and shows its output.
    async fn run_shell_line(&mut self, line: &str) -> anyhow::Result<Next> {
        match self.follow_command(line).await {
            Ok(end) => {
                command_output::show_end(&end);
                Ok(Next::Ran {
                    success: end.exit_code == Some(0),
                })
            }
            Err(error) => {
                let ended = error.downcast_ref::<Error>().is_some_and(has_ended);
                show::error(&error);
                if ended {
                    self.replace_session().await?;
                }
                Ok(Next::Ran { success: false })
            }
        }
    }

    /// Ctrl-C interrupts the command; the second one kills it.
    async fn follow_command(&mut self, line: &str) -> anyhow::Result<CommandEnd> {
        self.forget_interrupts().await;
        let session = self.live.get().context("no session is live")?;
        let stamps = self.files.stamps(&session)?;
        let process = session
            .spawn(ShellCommand {
                paced: true,
                ..ShellCommand::shell(line)
            })
            .await?;
        let mut showing = std::pin::pin!(command_output::show_output(Arc::clone(&process)));
        let mut pressed = false;
        loop {
            tokio::select! {
                shown = &mut showing => {
                    shown?;
                    break;
                }
                _ = self.interrupts.recv() => {
                    if pressed {
                        process.kill()?;
                    } else {
                        process.signal(SignalKind::interrupt().as_raw_value())?;
                    }
                    pressed = true;
                }
            }
        }
        if let Some(stamps) = stamps {
            self.changed.extend(stamps.changed(&session)?);
        }
        Ok(process.wait().await)
    }

    /// Forgets Ctrl-C that was pressed before something that is to run.
    async fn forget_interrupts(&mut self) {
        while let Ok(Some(())) = tokio::time::timeout(Duration::ZERO, self.interrupts.recv()).await
        {
        }
    }

    /// Runs a cell and shows what it says. Ctrl-C interrupts it; when it does not heed that, the
    /// third one ends its session.
    async fn follow_cell(&mut self, code: &str) -> Result<Outcome, Error> {
        self.forget_interrupts().await;
        let Some(session) = self.live.get() else {
            return Err(Error::Ended("it was lost".into()));
        };
        install_required(&session, code).await?;
        let mut asking = Asking::default();
        let mut run = session.run(Cell {
            input: self.has_editor,
            ..Cell::from(code)
        });
        let mut session = Some(session);
        let mut pressed = 0;
        let mut screen = show::Screen::default();
        if self.has_editor {
            screen = screen.mark_values(format!("Out[{}]: ", self.next_cell));
        }
        loop {
            let event = tokio::select! {
                event = run.next() => match event {
                    Some(event) => event?,
                    None => return Err(Error::Ended("its cell ended without an outcome".into())),
                },
                typed = asking.typed() => {
                    if let Some(live) = &session
                        && let Err(error) = pass(live, typed).await
                    {
                        show::error(&error);
                    }
                    continue;
                }
                _ = self.interrupts.recv() => {
                    pressed += 1;
                    match (pressed, &session) {
                        (1, Some(live)) => {
                            live.interrupt();
                        }
                        (2, Some(live)) => {
                            live.interrupt();
                            show::note(self.texts.still_running);
                        }
                        _ => {
                            self.live.clear();
                            if let Some(last) = session.take().and_then(Arc::into_inner) {
                                // The cell sees it end, and tells that as its outcome.
                                tokio::spawn(last.close());
                            }
                        }
                    }
                    continue;
                }
            };
            // Nobody to tell when the terminal is gone; the loop ends at its next read.
            let _ = screen.event(&event);
            if let Err(error) = asking.event(&event) {
                show::error(&error.into());
            }
            if let Event::Outcome(outcome) = event {
                let _ = screen.end();
                return Ok(*outcome);
            }
        }
    }

    /// Switches to a fork. Its cell numbers continue those of its parent.
    async fn fork(&mut self, session: &Arc<Session>) -> anyhow::Result<()> {
        let forks = session.fork_with(1, SecretGrant::All).await?;
        let fork = forks.into_iter().next().context("no fork was made")?;
        self.parents.push((Arc::clone(session), self.next_cell));
        self.live.set(Arc::new(fork));
        show::note(self.texts.in_fork);
        Ok(())
    }

    /// Drops the session that is live for the one that it came from; false if there is none.
    fn go_back(&mut self) -> bool {
        let Some((parent, next_cell)) = self.parents.pop() else {
            return false;
        };
        self.live.set(parent);
        self.next_cell = next_cell;
        true
    }

    async fn replace_session(&mut self) -> anyhow::Result<()> {
        if self.go_back() {
            show::note(self.texts.lost_back);
            return Ok(());
        }
        self.start_session().await?;
        show::note(self.texts.lost_new);
        Ok(())
    }

    /// The old session stays until the new one is there: a snapshot may be of no use.
    async fn load(&mut self, path: &Path) -> Result<(), Error> {
        let starting = spinner(self.texts.loading);
        let loaded = self.engine.load(path, self.options.clone()).await;
        starting.finish_and_clear();
        let (session, report) = loaded?;
        show::loaded(&report);
        let back = report.names.iter().filter(|name| name.why.is_none());
        show::note(&self.texts.loaded(back.count(), report.files));
        self.live.set(Arc::new(session));
        self.next_cell = report.cells.saturating_add(1);
        Ok(())
    }

    async fn start_session(&mut self) -> anyhow::Result<()> {
        // The old one goes first, so that there is never memory for two.
        self.live.clear();
        let starting = spinner(self.texts.starting_session);
        let session = self.engine.session_with(self.options.clone()).await;
        starting.finish_and_clear();
        self.live.set(Arc::new(session?));
        self.next_cell = 1;
        self.changed.clear();
        Ok(())
    }
}

/// The command of a line that starts with `!`. A cell of several lines may have such lines, too, but is a cell.
fn shell_line(text: &str) -> Option<&str> {
    let line = text.trim_end().strip_prefix('!')?;
    (!line.contains('\n')).then_some(line)
}

fn has_ended(error: &Error) -> bool {
    matches!(error, Error::Ended(_) | Error::Unresponsive)
}

/// The lines of standard input, read by a thread of their own: a runtime can't wait for one that
/// is blocked in a read when the command is to end.
fn read_lines() -> tokio::sync::mpsc::Receiver<std::io::Result<String>> {
    let (sender, lines) = tokio::sync::mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}
