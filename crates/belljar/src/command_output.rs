//! Streams the output of a command to the terminal.

use std::io;
use std::sync::Arc;

use belljar_sandbox::protocol::signal_name;
use belljar_sandbox::{CommandEnd, CommandProcess, OutputChunk};
use tokio::sync::{mpsc, oneshot};

use crate::{show, words};

/// The most bytes that are taken over at once.
const PART: usize = 64 << 10;

/// Writes what a [paced](belljar_sandbox::Command::paced) command writes, until it has ended.
///
/// A thread of its own writes it: a pipe that nobody reads may block that as long as it likes, and signals still
/// arrive.
pub(crate) async fn show_output(process: Arc<CommandProcess>) -> io::Result<()> {
    let (sender, mut chunks) = mpsc::channel::<OutputChunk>(1);
    let (done, written) = oneshot::channel();
    std::thread::spawn(move || {
        let mut screen = show::Screen::default();
        let mut write = || {
            while let Some(chunk) = chunks.blocking_recv() {
                screen.chunk(&chunk)?;
            }
            Ok(())
        };
        let result = write().and_then(|()| screen.end());
        drop(chunks);
        let _ = done.send(result);
    });
    let mut at = 0;
    'output: loop {
        let part = process.next_output(at, PART).await;
        if part.lost_bytes > 0 {
            let lost = words::texts().session.output_lost(part.lost_bytes);
            return Err(io::Error::other(lost));
        }
        if part.chunks.is_empty() {
            break;
        }
        for chunk in part.chunks {
            if sender.send(chunk).await.is_err() {
                break 'output;
            }
        }
        at = part.next;
    }
    drop(sender);
    written.await.unwrap_or(Ok(()))
}

/// The exit code for how a command ended; an error if nobody knows.
pub(crate) fn exit_code(end: &CommandEnd) -> anyhow::Result<u8> {
    let code = match end {
        CommandEnd {
            lost: Some(why), ..
        } => anyhow::bail!(words::texts().session.command_lost(why)),
        CommandEnd {
            timed_out: true, ..
        } => 124,
        CommandEnd {
            signal: Some(signal),
            ..
        } => 128 + signal,
        end => end.exit_code.unwrap_or(1),
    };
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Says how a command of the repl ended, if not with success.
pub(crate) fn show_end(end: &CommandEnd) {
    let texts = &words::texts().session;
    match end {
        CommandEnd {
            lost: Some(why), ..
        } => show::error(&anyhow::anyhow!(texts.command_lost(why))),
        CommandEnd {
            signal: Some(signal),
            ..
        } => show::note(&texts.command_signal(&signal_name(*signal))),
        CommandEnd {
            exit_code: Some(code @ 1..),
            ..
        } => show::note(&texts.command_exit_code(i64::from(*code))),
        _ => {}
    }
}
