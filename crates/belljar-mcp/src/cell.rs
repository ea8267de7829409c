//! Running a cell for a client: in order, with progress, until it ends or is cancelled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::{Event, Outcome, plain};
use belljar_sandbox::{Cell, Error};
use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::permits::Permits;
use crate::sessions::SessionEntry;

/// How often a client gets progress of its cell.
const PROGRESS_PAUSE: Duration = Duration::from_millis(500);

/// The most characters of output in one progress message.
const PROGRESS_CHARACTERS: usize = 200;

/// The longest token of progress: it is in each message, which a client may leave unread.
const MAX_TOKEN: usize = 256;

/// Whether a client with this token gets progress.
pub(crate) fn may_be_told(token: &ProgressToken) -> bool {
    match &token.0 {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.len() <= MAX_TOKEN,
    }
}

/// Why there is no outcome.
pub(crate) enum NoOutcome {
    /// The call was cancelled before its cell began.
    Cancelled,
    /// A fault of ours, or a session that has ended.
    Failed(Error),
}

/// Runs a cell. When it is to stop it is interrupted, which keeps the variables. The last line that it
/// wrote goes to `said`.
pub(crate) async fn run_cell(
    entry: Arc<SessionEntry>,
    cell: Cell,
    permits: &dyn Permits,
    stop: CancellationToken,
    said: watch::Sender<String>,
) -> Result<Outcome, NoOutcome> {
    let turn = entry.turn(&stop).await;
    let _turn = turn.ok_or(NoOutcome::Cancelled)?;
    let mut run = entry.session.run(cell);
    let mut stopping = false;
    loop {
        let event = tokio::select! {
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                entry.session.interrupt();
                continue;
            }
            event = run.next() => event,
        };
        if let Some(Ok(event)) = &event {
            permits.cell_told(event);
        }
        match event {
            Some(Ok(Event::Outcome(outcome))) => return Ok(*outcome),
            // It was not there yet to be interrupted.
            Some(Ok(Event::Started { .. })) if stopping => {
                entry.session.interrupt();
            }
            Some(Ok(Event::Output { text, .. })) => {
                if let Some(line) = last_line(&text) {
                    said.send_replace(line);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(NoOutcome::Failed(error)),
            None => {
                let why = "its cell ended without an outcome".into();
                return Err(NoOutcome::Failed(Error::Ended(why)));
            }
        }
    }
}

/// The last line with something in it, cut for a progress message.
pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let short: String = line.chars().take(PROGRESS_CHARACTERS).collect();
    Some(plain(&short).into_owned())
}

/// Sends progress of a cell to its client, until this is dropped: seconds, and the last line of
/// output.
pub(crate) async fn tell_progress(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    heard: watch::Receiver<String>,
) {
    let start = Instant::now();
    loop {
        tokio::time::sleep(PROGRESS_PAUSE).await;
        let message = heard.borrow().clone();
        let mut progress =
            ProgressNotificationParam::new(token.clone(), start.elapsed().as_secs_f64());
        if !message.is_empty() {
            progress = progress.with_message(message);
        }
        if peer.notify_progress(progress).await.is_err() {
            return;
        }
    }
}
