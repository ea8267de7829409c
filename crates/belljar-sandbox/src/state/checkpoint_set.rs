//! Checkpoints of a session: their list, and how one of them becomes the session.

use std::collections::VecDeque;

use belljar_protocol::KeptCheckpoint;
use tokio::sync::oneshot;

use crate::allowance;
use crate::backend::host_memory;
use crate::backend::meter::Meter;
use crate::backend::process::SessionProcess;
use crate::backend::watched::Watched;
use crate::options::Checkpoints;
use crate::session::guest_error::ProtocolError;
use crate::state::checkpoint::CheckpointRef;

/// The most checkpoints without a name; older ones are removed.
const MOST: usize = 4;

/// How much sooner than its checkpoints the OOM killer ends a session's process, in thousandths of
/// the session's limit: they must survive it. Not more, since all processes of the host are
/// compared by this score when the host itself is out of memory.
const SOONER: i32 = 500;

/// A suspended checkpoint.
#[derive(Debug)]
pub(crate) struct FrozenCheckpoint {
    id: u64,
    /// The cell after which it was made; 0 before the first one.
    pub(crate) cell: u32,
    /// The caller's name for it: it is kept until the caller removes it.
    pub(crate) name: Option<String>,
    /// Its id on the host.
    outside: i32,
    pub(crate) process: SessionProcess,
    /// Its exit status, once it has ended.
    pub(super) exit: oneshot::Receiver<i32>,
}

/// A checkpoint that was requested and not reported yet.
#[derive(Debug)]
struct Asked {
    id: u64,
    cell: u32,
    name: Option<String>,
}

/// The checkpoints of one session, the newest last.
#[derive(Debug, Default)]
pub(crate) struct CheckpointSet {
    /// How their ends are learnt. None without walls: then there are no checkpoints.
    watched: Option<Watched>,
    frozen: VecDeque<FrozenCheckpoint>,
    /// Whether the guest makes checkpoints without a request.
    unasked: bool,
    /// Whether the guest may make one more, out of the allowance of all sessions of the host.
    allowed: bool,
    asked: VecDeque<Asked>,
    ids: u64,
    /// The last cell for which the guest reported a checkpoint without a request.
    pub(crate) newest: u32,
    /// The cell after which the session's state is what it is.
    pub(crate) state: u32,
    /// The cell after which something else last changed the state.
    changed: Option<u32>,
    /// A checkpoint that is not removed to make room: a cell may have to be restored to it.
    pub(crate) pinned: Option<u64>,
    /// The OOM score of the session's process before it was raised, and of its checkpoints.
    score: Option<i32>,
}

impl CheckpointSet {
    pub(crate) fn new(watched: Option<Watched>, checkpoints: Checkpoints) -> Self {
        Self {
            watched,
            unasked: checkpoints != Checkpoints::Off,
            ..Self::default()
        }
    }

    /// In a fork: the state is that of the session it was made from.
    pub(crate) fn go_on_from(&mut self, parent: &Self) {
        self.state = parent.state;
        self.score = parent.score;
    }

    /// This process is the session: if memory runs out, it is killed before its checkpoints.
    pub(crate) fn stand_before(&mut self, interpreter: &SessionProcess) {
        if self.score.is_none() {
            self.score = interpreter.memory_score();
        }
        if let Some(score) = self.score {
            // The host may lack the permission: then the largest process is killed first.
            let _ = interpreter.set_memory_score((score + SOONER).min(1000));
        }
    }

    /// Removes the two oldest checkpoints without a name, if the session has used more than half of
    /// its memory: the next cell may need as much as the checkpoints hold. If the host itself is
    /// short of memory, removes all but the newest: many sessions with four checkpoints each would
    /// take what new ones need.
    fn make_room(&mut self, meter: &Meter) {
        if host_memory::is_short() {
            self.give_up_older();
        } else if self.frozen.len() > 1 && meter.is_half_full() {
            // Two, since one was just made; their memory is free a moment later.
            self.give_up_oldest();
            self.give_up_oldest();
        }
    }

    /// Whether the guest may make a checkpoint after the next cell without a request. A permission
    /// that it did not use after the last cell is still valid.
    pub(crate) fn allow(&mut self) -> bool {
        let since = if self.frozen.is_empty() {
            u32::MAX
        } else {
            self.state.saturating_sub(self.newest)
        };
        self.allowed = self.allowed || allowance::take(since);
        self.allowed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// The live checkpoints.
    pub(crate) fn list(&mut self) -> impl Iterator<Item = &FrozenCheckpoint> {
        self.frozen
            .retain(|checkpoint| !checkpoint.process.is_gone());
        self.frozen.iter()
    }

    /// The newest checkpoint of a cell, or the one with that name.
    pub(crate) fn find(&mut self, which: &CheckpointRef) -> Option<u64> {
        self.list()
            .filter(|checkpoint| match which {
                CheckpointRef::Cell(cell) => checkpoint.cell == *cell,
                CheckpointRef::Name(name) => checkpoint.name.as_ref() == Some(name),
            })
            .last()
            .map(|checkpoint| checkpoint.id)
    }

    /// Whether a requested checkpoint is not reported yet.
    pub(crate) fn is_expecting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether there is a checkpoint.
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.frozen.iter().any(|checkpoint| checkpoint.id == id)
    }

    /// The state is changed by something other than a cell.
    pub(crate) fn note_change(&mut self) {
        self.changed = Some(self.state);
    }

    /// The newest checkpoint, if the state is the same as then.
    pub(crate) fn current(&mut self) -> Option<u64> {
        let state = self.state;
        let unchanged = self.changed != Some(state);
        let newest = self.list().last()?;
        (newest.cell == state && unchanged).then_some(newest.id)
    }

    /// Expects a requested checkpoint of the current state; returns its id.
    pub(crate) fn expect(&mut self, name: Option<String>) -> u64 {
        self.ids += 1;
        self.asked.push_back(Asked {
            id: self.ids,
            cell: self.state,
            name,
        });
        self.ids
    }

    /// Receives a checkpoint that the guest reports: one for each request, and otherwise at most
    /// one for each cell up to the `last` one.
    ///
    /// # Errors
    /// If the guest may not report it: looking for its process costs the host time.
    pub(crate) fn take_up(
        &mut self,
        meter: &Meter,
        told: KeptCheckpoint,
        last: u32,
    ) -> Result<(), ProtocolError> {
        let Asked { id, cell, name } = if told.asked {
            let asked = self.asked.pop_front();
            let asked = asked.filter(|asked| asked.cell == told.cell);
            asked.ok_or(ProtocolError::UnsolicitedCheckpoint)?
        } else {
            if !self.unasked || told.cell <= self.newest || told.cell > last {
                return Err(ProtocolError::UnsolicitedCheckpoint);
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
        let Some((outside, process)) = meter.member(told.pid) else {
            return Ok(());
        };
        let watched = self.watched.as_ref();
        let Some(exit) = watched.and_then(|watched| watched.watch(told.pid)) else {
            return Ok(());
        };
        self.frozen
            .retain(|checkpoint| checkpoint.outside != outside);
        // It replaces the one with the same name, or of the same cell.
        self.give_up(|checkpoint| {
            checkpoint.name == name && (name.is_some() || checkpoint.cell == cell)
        });
        if let Some(score) = self.score {
            let _ = process.set_memory_score(score);
        }
        self.frozen.push_back(FrozenCheckpoint {
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
            .filter(|checkpoint| checkpoint.name.is_none())
            .count()
            > MOST
        {
            self.give_up_oldest();
        }
        self.make_room(meter);
        Ok(())
    }

    /// Ends checkpoints; returns whether there were any.
    pub(crate) fn give_up(&mut self, which: impl Fn(&FrozenCheckpoint) -> bool) -> bool {
        let before = self.frozen.len();
        self.frozen.retain(|checkpoint| {
            let over = which(checkpoint);
            if over {
                let _ = checkpoint.process.kill();
            }
            !over
        });
        self.frozen.len() < before
    }

    /// Ends all checkpoints without a name, except the newest of all; returns whether there were
    /// any.
    pub(crate) fn give_up_older(&mut self) -> bool {
        let newest = self.frozen.back().map(|checkpoint| checkpoint.id);
        let pinned = self.pinned;
        self.give_up(|checkpoint| {
            checkpoint.name.is_none()
                && Some(checkpoint.id) != newest
                && Some(checkpoint.id) != pinned
        })
    }

    /// Ends the oldest checkpoint without a name, if it is not the newest of all.
    fn give_up_oldest(&mut self) {
        let mut older = self.frozen.iter().rev().skip(1).rev();
        let oldest = older
            .find(|checkpoint| checkpoint.name.is_none() && Some(checkpoint.id) != self.pinned);
        if let Some(id) = oldest.map(|checkpoint| checkpoint.id) {
            self.give_up(|checkpoint| checkpoint.id == id);
        }
    }

    /// The ids on the host of all checkpoints.
    pub(super) fn processes(&self) -> Vec<i32> {
        let frozen = self.frozen.iter();
        frozen.map(|checkpoint| checkpoint.outside).collect()
    }

    /// A checkpoint of this cell has become the session. It will report the one that replaces it.
    pub(super) fn set_restored(&mut self, cell: u32, name: Option<String>) {
        self.state = cell;
        self.asked.clear();
        self.expect(name);
    }

    /// The newest checkpoint, or this one; newer ones without a name are removed.
    pub(super) fn take(&mut self, which: Option<u64>) -> Option<FrozenCheckpoint> {
        let at = match which {
            None => self.frozen.len().checked_sub(1)?,
            Some(id) => self
                .frozen
                .iter()
                .position(|checkpoint| checkpoint.id == id)?,
        };
        let mut newer = self.frozen.split_off(at);
        let taken = newer.pop_front();
        for checkpoint in newer {
            if checkpoint.name.is_some() {
                self.frozen.push_back(checkpoint);
            } else {
                let _ = checkpoint.process.kill();
            }
        }
        taken
    }
}
