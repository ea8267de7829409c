//! Restoring: how a checkpoint becomes the session.

use std::time::{Duration, Instant};

use belljar_protocol::{GuestFrame, WokenCheckpoint};

use crate::session::guest::{DEATH_TIME, Guest};
use crate::session::handle::SessionHandle;

/// How long a checkpoint may take to wake; it takes milliseconds.
const WAKE_TIME: Duration = Duration::from_secs(10);

/// How long the processes of a dead session may take to go.
const CLEAR_TIME: Duration = Duration::from_secs(10);

/// Makes a checkpoint the session: the newest one, or the one with this id. Everything else in the
/// session is killed first. `None` if no checkpoint wakes; the session must then be ended.
pub(crate) async fn restore(
    handle: &SessionHandle,
    guest: &mut Guest,
    which: Option<u64>,
) -> Option<WokenCheckpoint> {
    let meter = &handle.meter;
    if guest.checkpoint_set.list().next().is_none() || handle.init_is_gone() {
        return None;
    }
    let _ = handle.interpreter().kill();
    guest.wait_status(DEATH_TIME).await;
    let kept = guest.checkpoint_set.processes();
    let deadline = Instant::now() + CLEAR_TIME;
    let mut clear = meter.kill_all_but(&kept);
    while !clear && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
        clear = meter.kill_all_but(&kept);
    }
    meter.allow_forks();
    if !clear {
        return None;
    }
    while let Some(checkpoint) = guest.checkpoint_set.take(which) {
        // What the one before said last, and had no time to end.
        guest.start_anew();
        if checkpoint.process.wake().is_err() {
            continue;
        }
        match tokio::time::timeout(WAKE_TIME, guest.frame()).await {
            Ok(Ok((GuestFrame::Woke(woken), _))) if woken.cell == checkpoint.cell => {
                guest.checkpoint_set.stand_before(&checkpoint.process);
                handle.set_interpreter(checkpoint.process);
                guest.set_exit(checkpoint.exit);
                guest
                    .checkpoint_set
                    .set_restored(woken.cell, checkpoint.name);
                return Some(woken);
            }
            _ => {
                let _ = checkpoint.process.kill();
            }
        }
    }
    None
}

/// What a restored checkpoint lacks of the process that it replaces.
pub(crate) fn lacking(checkpoint: WokenCheckpoint) -> Vec<String> {
    let mut words = Vec::new();
    if checkpoint.threads > 0 {
        words.push(format!("{} earlier threads are gone", checkpoint.threads));
    }
    if checkpoint.processes > 0 {
        words.push(format!(
            "{} earlier child processes are gone",
            checkpoint.processes
        ));
    }
    words
}
