//! Frozen copies of a session: which there are, and how one of them becomes the session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use belljar_protocol::{GuestFrame, KeptCopy, WokenCopy};
use belljar_walls::{Process, SessionCgroup};
use tokio::sync::oneshot;

use crate::family::Orphans;
use crate::guest::{DEATH_TIME, Guest};
use crate::shared::Shared;

/// The most copies that are kept; older ones are given up.
const MOST: usize = 4;

/// How long a copy may take to wake; it takes milliseconds.
const WAKE_TIME: Duration = Duration::from_secs(3);

/// How long the processes of a dead session may take to go.
const CLEAR_TIME: Duration = Duration::from_secs(2);

/// A copy that sleeps.
#[derive(Debug)]
struct FrozenCopy {
    /// The cell after which it was made.
    cell: u32,
    /// Its id on the host.
    outside: i32,
    process: Process,
    /// How it ends, once it does.
    exit: oneshot::Receiver<i32>,
}

/// The copies of one session, the newest last.
#[derive(Debug)]
pub(crate) struct Copies {
    /// None where there are no walls, and no copies.
    orphans: Option<Orphans>,
    frozen: VecDeque<FrozenCopy>,
    /// The last cell that the guest told of a copy of.
    newest: u32,
}

impl Copies {
    pub(crate) fn new(orphans: Option<Orphans>) -> Self {
        Self {
            orphans,
            frozen: VecDeque::new(),
            newest: 0,
        }
    }

    /// The cells after which the copies were made.
    pub(crate) fn cells(&self) -> Vec<u32> {
        self.frozen.iter().map(|copy| copy.cell).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// Takes up a copy that the guest tells of, at most one for each cell up to the `last` one.
    ///
    /// # Errors
    /// Where it is none that the guest may tell of: looking for it costs the host time.
    pub(crate) fn take_up(
        &mut self,
        cgroup: Option<&SessionCgroup>,
        told: KeptCopy,
        last: u32,
    ) -> Result<(), String> {
        let Some(orphans) = &self.orphans else {
            return Err("a copy, and none are kept".into());
        };
        if told.cell <= self.newest || told.cell > last {
            return Err("a copy that nobody asked for".into());
        }
        self.newest = told.cell;
        // It is a process of this session, whatever else it is.
        let Some((outside, process)) = cgroup.and_then(|cgroup| cgroup.member(told.pid)) else {
            return Ok(());
        };
        let Some(exit) = orphans.watch(told.pid) else {
            return Ok(());
        };
        self.frozen.retain(|copy| copy.outside != outside);
        self.frozen.push_back(FrozenCopy {
            cell: told.cell,
            outside,
            process,
            exit,
        });
        while self.frozen.len() > MOST {
            if let Some(oldest) = self.frozen.pop_front() {
                let _ = oldest.process.kill();
            }
        }
        Ok(())
    }

    /// The newest copy, or the one of a cell; those that are newer are given up.
    fn take(&mut self, cell: Option<u32>) -> Option<FrozenCopy> {
        while let Some(copy) = self.frozen.pop_back() {
            if cell.is_none_or(|cell| cell == copy.cell) {
                return Some(copy);
            }
            let _ = copy.process.kill();
        }
        None
    }
}

/// Makes a copy the session: the newest one, or that of a cell. Everything else in the session is
/// ended first. `None` if there is no copy that wakes; the session is then to be ended.
pub(crate) async fn restore(
    shared: &Shared,
    guest: &mut Guest,
    cell: Option<u32>,
) -> Option<WokenCopy> {
    let cgroup = shared.cgroup.as_ref()?;
    if guest.copies.is_empty() || shared.init_is_gone() {
        return None;
    }
    let _ = shared.interpreter().kill();
    guest.wait_status(DEATH_TIME).await;
    let kept: Vec<i32> = guest
        .copies
        .frozen
        .iter()
        .map(|copy| copy.outside)
        .collect();
    let deadline = Instant::now() + CLEAR_TIME;
    let mut clear = cgroup.kill_all_but(&kept);
    while !clear && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(1)).await;
        clear = cgroup.kill_all_but(&kept);
    }
    cgroup.allow_forks();
    if !clear {
        return None;
    }
    while let Some(copy) = guest.copies.take(cell) {
        // What the one before said last, and had no time to end.
        guest.start_anew();
        if copy.process.wake().is_err() {
            continue;
        }
        match tokio::time::timeout(WAKE_TIME, guest.frame()).await {
            Ok(Ok((GuestFrame::Woke(woken), _))) if woken.cell == copy.cell => {
                shared.set_interpreter(copy.process);
                guest.set_exit(copy.exit);
                // It will tell of the copy that takes its place.
                guest.copies.newest = woken.cell.saturating_sub(1);
                return Some(woken);
            }
            _ => {
                let _ = copy.process.kill();
            }
        }
    }
    None
}
