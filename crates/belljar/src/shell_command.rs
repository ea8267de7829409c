//! `belljar shell`: a terminal in a new session, or one command with pipes.

use std::io::{self, IsTerminal, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use belljar_sandbox::{Command, CommandProcess, Session, TerminalSize};
use clap::Args;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::command_output::{exit_code, show_output};
use crate::start::{SessionArgs, install};
use crate::transfer::{FileArgs, put_all, unlimited};
use crate::variable_args::VariableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  belljar shell
  belljar shell --put project --memory 4G
  belljar shell 'ls -l | sort -k5 -n'
  belljar shell --put app.py --out results python app.py --fast
  tar c data | belljar shell tar xv

Without a command, the shell is bash, or sh where there is no bash. The command and everything that it starts run in \
/workspace of a new session, which ends with it. If standard input and output are terminals, it gets a terminal; \
otherwise it gets pipes.

A program with a terminal controls yours, as over ssh. Run a program that you don't trust without one: \
`belljar shell COMMAND < /dev/null`.

Exit code: that of the command; 124 at the time limit, 128 + n after signal n; 2 if belljar itself failed.")]
pub(crate) struct ShellArgs {
    /// Line for the shell; with more arguments, a program and its arguments [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// Becomes the best shell that the session has.
const INTERACTIVE: &str =
    "SHELL=$(command -v bash || command -v sh); export SHELL; exec \"$SHELL\"";

/// The variables of an interactive shell: a prompt that bash and sh understand, and no file with the history, since the
/// home directory is the workspace.
const VARIABLES: [(&str, &str); 2] = [("PS1", "belljar:$PWD$ "), ("HISTFILE", "")];

/// Leaves what a killed program may have left on: another screen, mouse reports, bracketed paste, a hidden
/// cursor, colours.
const RESET: &str =
    "\x1b[?47l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m\r\n";

pub(crate) async fn run(args: ShellArgs) -> anyhow::Result<ExitCode> {
    // Whatever the user may have got wrong comes first: starting takes a second.
    let inputs = args.files.inputs()?;
    let packages = args.session.named_packages()?;
    let options = unlimited(args.variables.give(args.session.options()?)?);
    // Commands import nothing that the template has.
    let engine = args.session.engine_for("").await?;
    let session = engine.session_with(options).await?;
    put_all(&session, &inputs)?;
    install(&session, packages).await?;
    let stamps = args.files.stamps(&session)?;
    let code = run_command(&session, args.command()).await?;
    if let Some(stamps) = stamps {
        args.files.save_files(&session, stamps.changed(&session)?)?;
    }
    drop(session);
    engine.shutdown().await;
    Ok(ExitCode::from(code))
}

impl ShellArgs {
    fn command(&self) -> Command {
        let mut command = match self.command.as_slice() {
            [] => Command::shell(INTERACTIVE),
            [line] => Command::shell(line),
            argv => Command::new(argv),
        };
        if self.command.is_empty() {
            let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
            command.variables.extend(variables);
        }
        command.input = true;
        command.paced = true;
        command.timeout = self.session.timeout();
        command
    }
}

/// Signals to this process while its command runs.
struct Signals {
    resize: Signal,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            resize: signal(SignalKind::window_change())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }
}

/// Runs a command to its end, connected to our own input and output; its exit code.
async fn run_command(session: &Session, mut command: Command) -> anyhow::Result<u8> {
    let signals = Signals::new().context("watching for signals")?;
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let terminal = has_terminal.then(RawTerminal::new).transpose();
    let terminal = terminal.context("cannot prepare the terminal")?;
    if terminal.is_some() {
        command.terminal = Some(size());
        // The session has the terminal descriptions of this machine.
        for name in ["TERM", "COLORTERM"] {
            if let Ok(value) = std::env::var(name) {
                command.variables.insert(name.into(), value);
            }
        }
    }
    let process = session.spawn(command).await?;
    pass_input(Arc::clone(&process));
    let ended = follow(&process, signals).await;
    let by_itself = process.end().is_some_and(|end| end.exit_code.is_some());
    if terminal.is_some() && !by_itself {
        reset_screen();
    }
    ended
}

/// Shows output until the command has ended, or a signal ends it.
async fn follow(process: &Arc<CommandProcess>, mut signals: Signals) -> anyhow::Result<u8> {
    let mut showing = std::pin::pin!(show_output(Arc::clone(process)));
    let mut interrupted = false;
    loop {
        tokio::select! {
            shown = &mut showing => {
                shown?;
                return exit_code(&process.wait().await);
            }
            _ = signals.resize.recv() => {
                // Only a command with a terminal has a size.
                let _ = process.resize(size());
            }
            // With a terminal, Ctrl-C is a key like others.
            _ = signals.interrupt.recv() => {
                if interrupted {
                    process.kill()?;
                } else {
                    process.signal(SignalKind::interrupt().as_raw_value())?;
                }
                interrupted = true;
            }
            _ = signals.terminate.recv() => return Ok(ended_by(SignalKind::terminate())),
            _ = signals.hang_up.recv() => return Ok(ended_by(SignalKind::hangup())),
            // Only from elsewhere: at a terminal, Ctrl-\ is a key like others.
            _ = signals.quit.recv() => return Ok(ended_by(SignalKind::quit())),
        }
    }
}

fn ended_by(signal: SignalKind) -> u8 {
    u8::try_from(128 + signal.as_raw_value()).unwrap_or(1)
}

/// Passes our standard input on. A thread of its own reads it, which nothing waits for: it may be blocked at the end.
fn pass_input(process: Arc<CommandProcess>) {
    let (sender, mut parts) = mpsc::channel::<Vec<u8>>(1);
    std::thread::spawn(move || {
        let mut part = vec![0; 32 << 10];
        loop {
            match io::stdin().lock().read(&mut part) {
                Ok(read @ 1..) if sender.blocking_send(part[..read].to_vec()).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    });
    tokio::spawn(async move {
        while let Some(part) = parts.recv().await {
            if process.write(&part).await.is_err() {
                // It reads no more, as `head` does.
                return;
            }
        }
        let _ = process.close_input().await;
    });
}

fn size() -> TerminalSize {
    match rustix::termios::tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => TerminalSize {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        _ => TerminalSize::default(),
    }
}

/// The terminal of standard input in raw mode, until this is dropped or something panics.
struct RawTerminal;

impl RawTerminal {
    fn new() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = disable_raw_mode();
            before(panic);
        }));
        enable_raw_mode()?;
        Ok(Self)
    }
}

/// For a program that was ended: it could not do so itself.
fn reset_screen() {
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(RESET.as_bytes())
        .and_then(|()| stdout.flush());
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    /// Panics at a terminal, without unwinding what would restore it.
    #[test]
    #[ignore = "the test below starts it, at a terminal"]
    fn panics_at_a_terminal() {
        std::mem::forget(RawTerminal::new().unwrap());
        let is_raw = !tcgetattr(io::stdin())
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO);
        panic!("is raw: {is_raw}");
    }

    #[test]
    fn a_panic_restores_the_terminal() {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let modes = || format!("{:?}", tcgetattr(&terminal).unwrap());
        let before = modes();
        let peer = ioctl_tiocgptpeer(&terminal, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shell_command::tests::panics_at_a_terminal"])
            .args(["--ignored", "--nocapture"])
            .stdin(peer)
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.contains("is raw: true"), "{printed}");
        assert_eq!(modes(), before);
    }
}
