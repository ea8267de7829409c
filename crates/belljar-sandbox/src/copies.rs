//! Frozen copies of a session: which there are, and how one of them becomes the session.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use belljar_protocol::{GuestFrame, KeptCopy, WokenCopy};
use belljar_walls::{Process, SessionCgroup};
use tokio::sync::oneshot;

use crate::allowance;
use crate::checkpoints::CheckpointRef;
use crate::family::Orphans;
use crate::guest::{DEATH_TIME, Guest};
use crate::host_memory;
use crate::options::Checkpoints;
use crate::shared::{Shared, is_gone};

/// The most copies without a name that are kept; older ones are given up.
const MOST: usize = 4;

/// How much sooner than its copies the kernel ends a session's process for want of memory, in
/// thousandths of the session's limit: they are to be there when it is gone. Not more, since all
/// processes of the host are compared so when the host itself has no memory left.
const SOONER: i32 = 500;

/// How long a copy may take to wake; it takes milliseconds.
const WAKE_TIME: Duration = Duration::from_secs(10);

/// How long the processes of a dead session may take to go.
const CLEAR_TIME: Duration = Duration::from_secs(10);

/// A copy that sleeps.
#[derive(Debug)]
pub(crate) struct FrozenCopy {
    id: u64,
    /// The cell after which it was made; 0 before the first one.
    pub(crate) cell: u32,
    /// What the caller calls it: it is kept until the caller gives it up.
    pub(crate) name: Option<String>,
    /// Its id on the host.
    outside: i32,
    pub(crate) process: Process,
    /// How it ends, once it does.
    exit: oneshot::Receiver<i32>,
}

/// A copy that the guest was asked for and has not told of yet.
#[derive(Debug)]
struct Asked {
    id: u64,
    cell: u32,
    name: Option<String>,
}

/// The copies of one session, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// None where there are no walls, and no copies.
    orphans: Option<Orphans>,
    frozen: VecDeque<FrozenCopy>,
    /// Whether the guest makes copies that nobody asked for.
    unasked: bool,
    /// Whether the guest may make one more, out of what all sessions of the host may.
    allowed: bool,
    asked: VecDeque<Asked>,
    ids: u64,
    /// The last cell that the guest told of a copy of, without being asked.
    pub(crate) newest: u32,
    /// The cell after which the session's state is what it is.
    pub(crate) state: u32,
    /// The cell after which something else last changed the state.
    changed: Option<u32>,
    /// A copy that is not given up for want of room: a cell may have to go back to it.
    pub(crate) pinned: Option<u64>,
    /// The memory score of the session's process before it was raised, and of its copies.
    score: Option<i32>,
}

impl Copies {
    pub(crate) fn new(orphans: Option<Orphans>, checkpoints: Checkpoints) -> Self {
        Self {
            orphans,
            unasked: checkpoints != Checkpoints::Off,
            ..Self::default()
        }
    }

    /// In a fork: the state is that of the session it was made from.
    pub(crate) fn go_on_from(&mut self, parent: &Self) {
        self.state = parent.state;
        self.score = parent.score;
    }

    /// This process is the session: where memory runs out, it goes before its copies.
    pub(crate) fn stand_before(&mut self, interpreter: &Process) {
        if self.score.is_none() {
            self.score = interpreter.memory_score();
        }
        if let Some(score) = self.score {
            // Where the host may not: then the largest process goes first.
            let _ = interpreter.set_memory_score((score + SOONER).min(1000));
        }
    }

    /// Gives up the two oldest copies that have no name, if the session has used more than half of its
    /// memory: the next cell may need as much as the copies hold. Where the host itself is short of memory,
    /// all but the newest: many sessions with four copies each would take what new ones need.
    fn make_room(&mut self, cgroup: Option<&SessionCgroup>) {
        if host_memory::is_short() {
            self.give_up_older();
        } else if self.frozen.len() > 1 && cgroup.is_some_and(SessionCgroup::is_half_full) {
            // Two, since one was just made; what they held is free a moment later.
            self.give_up_oldest();
            self.give_up_oldest();
        }
    }

    /// Whether the guest may make a copy after the next cell, which nobody asks for. One that it did not make
    /// after the last cell is still its own.
    pub(crate) fn allow(&mut self) -> bool {
        let since = if self.frozen.is_empty() {
            u32::MAX
        } else {
            self.state.saturating_sub(self.newest)
        };
        self.allowed = self.allowed || allowance::take(since);
        self.allowed
    }

    /// Whether copies can be made at all.
    pub(crate) fn are_possible(&self) -> bool {
        self.orphans.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// The copies that live.
    pub(crate) fn list(&mut self) -> impl Iterator<Item = &FrozenCopy> {
        self.frozen.retain(|copy| !is_gone(&copy.process));
        self.frozen.iter()
    }

    /// The newest copy of a cell, or the one of that name.
    pub(crate) fn find(&mut self, which: &CheckpointRef) -> Option<u64> {
        self.list()
            .filter(|copy| match which {
                CheckpointRef::Cell(cell) => copy.cell == *cell,
                CheckpointRef::Name(name) => copy.name.as_ref() == Some(name),
            })
            .last()
            .map(|copy| copy.id)
    }

    /// Whether the guest has yet to tell of a copy that it was asked for.
    pub(crate) fn is_expecting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether a copy is kept.
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.frozen.iter().any(|copy| copy.id == id)
    }

    /// The state is changed by something other than a cell.
    pub(crate) fn note_change(&mut self) {
        self.changed = Some(self.state);
    }

    /// The newest copy, if the state is the same as then.
    pub(crate) fn current(&mut self) -> Option<u64> {
        let state = self.state;
        let unchanged = self.changed != Some(state);
        let newest = self.list().last()?;
        (newest.cell == state && unchanged).then_some(newest.id)
    }

    /// Expects a copy of the present state that the guest is asked for; its id.
    pub(crate) fn expect(&mut self, name: Option<String>) -> u64 {
        self.ids += 1;
        self.asked.push_back(Asked {
            id: self.ids,
            cell: self.state,
            name,
        });
        self.ids
    }

    /// Takes up a copy that the guest tells of: one for each that it was asked for, and else at
    /// most one for each cell up to the `last` one.
    ///
    /// # Errors
    /// Where it is none that the guest may tell of: looking for it costs the host time.
    pub(crate) fn take_up(
        &mut self,
        cgroup: Option<&SessionCgroup>,
        told: KeptCopy,
        last: u32,
    ) -> Result<(), String> {
        let nobody_asked = || "an unsolicited checkpoint".to_owned();
        let Asked { id, cell, name } = if told.asked {
            let asked = self.asked.pop_front().ok_or_else(nobody_asked)?;
            if told.cell != asked.cell {
                return Err(nobody_asked());
            }
            asked
        } else {
            if !self.unasked || told.cell <= self.newest || told.cell > last {
                return Err(nobody_asked());
            }
            self.allowed = false;
            self.newest = told.cell;
            self.ids += 1;
            Asked {
                id: self.ids,
                cell: told.cell,
                name: None,
            }
        };
        // It is a process of this session, whatever else it is.
        let Some((outside, process)) = cgroup.and_then(|cgroup| cgroup.member(told.pid)) else {
            return Ok(());
        };
        let orphans = self.orphans.as_ref();
        let Some(exit) = orphans.and_then(|orphans| orphans.watch(told.pid)) else {
            return Ok(());
        };
        self.frozen.retain(|copy| copy.outside != outside);
        // It takes the place of the one that has its name, or is of the same cell.
        self.give_up(|copy| copy.name == name && (name.is_some() || copy.cell == cell));
        if let Some(score) = self.score {
            let _ = process.set_memory_score(score);
        }
        self.frozen.push_back(FrozenCopy {
            id,
            cell,
            name,
            outside,
            process,
            exit,
        });
        if self
            .frozen
            .iter()
            .filter(|copy| copy.name.is_none())
            .count()
            > MOST
        {
            self.give_up_oldest();
        }
        self.make_room(cgroup);
        Ok(())
    }

    /// Ends copies; whether there were any.
    pub(crate) fn give_up(&mut self, which: impl Fn(&FrozenCopy) -> bool) -> bool {
        let before = self.frozen.len();
        self.frozen.retain(|copy| {
            let over = which(copy);
            if over {
                let _ = copy.process.kill();
            }
            !over
        });
        self.frozen.len() < before
    }

    /// Ends all copies that have no name, but the newest of all; whether there were any.
    pub(crate) fn give_up_older(&mut self) -> bool {
        let newest = self.frozen.back().map(|copy| copy.id);
        let pinned = self.pinned;
        self.give_up(|copy| {
            copy.name.is_none() && Some(copy.id) != newest && Some(copy.id) != pinned
        })
    }

    /// Ends the oldest copy that has no name, if it is not the newest of all.
    fn give_up_oldest(&mut self) {
        let mut older = self.frozen.iter().rev().skip(1).rev();
        let oldest = older.find(|copy| copy.name.is_none() && Some(copy.id) != self.pinned);
        if let Some(id) = oldest.map(|copy| copy.id) {
            self.give_up(|copy| copy.id == id);
        }
    }

    /// The newest copy, or this one; those that are newer and have no name are given up.
    fn take(&mut self, which: Option<u64>) -> Option<FrozenCopy> {
        let at = match which {
            None => self.frozen.len().checked_sub(1)?,
            Some(id) => self.frozen.iter().position(|copy| copy.id == id)?,
        };
        let mut newer = self.frozen.split_off(at);
        let taken = newer.pop_front();
        for copy in newer {
            if copy.name.is_some() {
                self.frozen.push_back(copy);
            } else {
                let _ = copy.process.kill();
            }
        }
        taken
    }
}

/// Makes a copy the session: the newest one, or the one with this id. Everything else in the session is
/// ended first. `None` if there is no copy that wakes; the session is then to be ended.
pub(crate) async fn restore(
    shared: &Shared,
    guest: &mut Guest,
    which: Option<u64>,
) -> Option<WokenCopy> {
    let cgroup = shared.cgroup.as_ref()?;
    if guest.copies.list().next().is_none() || shared.init_is_gone() {
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
    while let Some(copy) = guest.copies.take(which) {
        // What the one before said last, and had no time to end.
        guest.start_anew();
        if copy.process.wake().is_err() {
            continue;
        }
        match tokio::time::timeout(WAKE_TIME, guest.frame()).await {
            Ok(Ok((GuestFrame::Woke(woken), _))) if woken.cell == copy.cell => {
                guest.copies.stand_before(&copy.process);
                shared.set_interpreter(copy.process);
                guest.set_exit(copy.exit);
                // It will tell of the copy that takes its place.
                guest.copies.state = woken.cell;
                guest.copies.asked.clear();
                guest.copies.expect(copy.name);
                return Some(woken);
            }
            _ => {
                let _ = copy.process.kill();
            }
        }
    }
    None
}
