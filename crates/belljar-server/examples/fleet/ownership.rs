//! Lives of nodes, and runs that they drive and claim.

use belljar_journal::leases::{Lease, Watch, beat_interval};
use belljar_server::simulation::{CLAIM_INTERVAL, MOST_CLAIMED, REPORT_INTERVAL};

use crate::clock::{SECOND, Time};
use crate::costs;
use crate::fleet::{Event, Fleet, Life, Run, micros};

impl Fleet {
    /// A node says what it has, and looks for sessions that moved.
    pub(crate) fn report(&mut self, node: usize) {
        if !self.nodes[node].is_alive {
            return;
        }
        let load = self.load(node);
        let at = &mut self.nodes[node];
        let cell = &mut self.cells[at.cell];
        at.report = Some(load);
        let interval = costs::CELL_INTERVAL as f64 / SECOND as f64;
        let cells_run = |sessions: usize| sessions as f64 / interval;
        at.cpu.set_background(cells_run(at.sessions), costs::CELL);
        // Each request looks for its key at most, and one that comes to another node for its session.
        let elsewhere = 1.0 - 1.0 / cell.nodes.len() as f64;
        let looks = cells_run(cell.sessions) * (1.0 + elsewhere);
        cell.database.set_background(looks, costs::LOOK);
        if !cell.is_database_gone {
            cell.database.submit(self.now, costs::LOOK);
        }
        self.timeline
            .add(self.now + micros(REPORT_INTERVAL), Event::Report(node));
    }

    pub(crate) fn beat(&mut self, node: usize) {
        let at = &self.nodes[node];
        if !at.is_alive {
            return;
        }
        let cell = &mut self.cells[at.cell];
        if cell.is_database_gone {
            let next = self.now + micros(beat_interval(self.lease));
            return self.timeline.add(next, Event::Beat(node));
        }
        let work = costs::BEAT + costs::ROW * cell.nodes.len() as Time;
        let done = cell.database.submit(self.now, work);
        self.figures.beats.push(done - self.now);
        let asked = self.now;
        self.timeline.add(done, Event::Beaten { node, asked });
    }

    pub(crate) fn beaten(&mut self, node: usize, asked: Time) {
        let (sent, answered) = (self.moment(asked), self.moment(self.now));
        let at = &mut self.nodes[node];
        if !at.is_alive {
            return;
        }
        let (number, cell) = (at.cell, &mut self.cells[at.cell]);
        let mine = &mut cell.lives[at.life];
        if mine.is_dead {
            return at.lease.end();
        }
        mine.beat += 1;
        mine.load = at.report;
        at.lease.renew(sent);
        let (mine, rows) = (at.life, cell.lives.iter().enumerate());
        let others = rows
            .filter(|(life, row)| *life != mine && !row.is_dead)
            .map(|(life, row)| (life as i64, row.beat));
        let silent = at.watch.see(sent, answered, others);
        for (life, beat) in silent {
            self.declare_dead(number, life as usize, beat);
        }
        let next = (asked + micros(beat_interval(self.lease))).max(self.now);
        self.timeline.add(next, Event::Beat(node));
    }

    /// Whoever comes second changes nothing. From now on its runs can be claimed.
    fn declare_dead(&mut self, cell: usize, life: usize, beat: i64) {
        let cell = &mut self.cells[cell];
        cell.database.submit(self.now, costs::APPEND);
        let row = &mut cell.lives[life];
        if row.is_dead || row.beat != beat {
            return;
        }
        row.is_dead = true;
        for (number, run) in self.runs.iter_mut().enumerate() {
            if run.driven.take_if(|(node, _)| *node == row.node).is_some() {
                cell.claimable.push_back(number);
            }
        }
    }

    pub(crate) fn claim(&mut self, node: usize) {
        let (now, memory) = (self.moment(self.now), self.memory(node));
        let at = &mut self.nodes[node];
        if !at.is_alive {
            return;
        }
        let cell = &mut self.cells[at.cell];
        let mut done = self.now;
        if !cell.is_database_gone {
            if at.lease.is_over() {
                // It joins again.
                self.figures.lives_ended += 1;
                done = cell.database.submit(self.now, costs::APPEND);
                at.life = cell.lives.len();
                cell.lives.push(Life::new(node));
                (at.lease, at.watch) = (Lease::new(self.lease, now), Watch::new(self.lease));
                self.timeline.add(done, Event::Beat(node));
            }
            let most = at.admission.free_runs(now, memory).min(MOST_CLAIMED);
            if at.lease.holds(now) {
                // Without room, it looks for those that it has dropped: none here.
                let count = most.min(cell.claimable.len());
                let claimed: Vec<usize> = cell.claimable.drain(..count).collect();
                let work = if claimed.is_empty() {
                    costs::EMPTY_CLAIM
                } else {
                    costs::APPEND
                };
                done = cell.database.submit(self.now, work);
                for run in claimed {
                    self.take_over(run, node, done);
                }
            }
        }
        let next = done + micros(CLAIM_INTERVAL);
        self.timeline.add(next, Event::Claim(node));
    }

    /// Drives a claimed run, or gives it back for want of a permit.
    fn take_over(&mut self, run: usize, node: usize, at: Time) {
        let (now, memory) = (self.moment(self.now), self.memory(node));
        let tenant = &self.names[self.runs[run].tenant];
        let permits = self.nodes[node].admission.run(tenant, now, memory);
        let Ok(permits) = permits else {
            self.figures.runs_given_back += 1;
            let cell = &mut self.cells[self.nodes[node].cell];
            cell.claimable.push_back(run);
            cell.database.submit(self.now, costs::APPEND);
            return;
        };
        let taken = at.saturating_sub(self.plan.fault_at);
        self.figures.takeovers.push(taken);
        let run_of = &mut self.runs[run];
        run_of.epoch += 1;
        run_of.driven = Some((node, permits));
        self.append_later(run, at);
    }

    /// A run that is there from the begin.
    pub(crate) fn begin_run(&mut self, tenant: usize, node: usize) {
        let (now, memory) = (self.moment(self.now), self.memory(node));
        let admission = &self.nodes[node].admission;
        let Ok(permits) = admission.run(&self.names[tenant], now, memory) else {
            return;
        };
        self.runs.push(Run {
            tenant,
            epoch: 0,
            driven: Some((node, permits)),
        });
        self.append_later(self.runs.len() - 1, self.now);
    }

    fn append_later(&mut self, run: usize, after: Time) {
        let at = after + self.chance_of(costs::EVENT_INTERVAL as f64);
        let epoch = self.runs[run].epoch;
        self.timeline.add(at, Event::Append { run, epoch });
    }

    /// The owner of a run writes an event.
    pub(crate) fn append(&mut self, run: usize, epoch: u64) {
        let now = self.moment(self.now);
        let owner = self.runs[run].driven.as_ref().map(|(node, _)| *node);
        let Some(node) = owner.filter(|_| self.runs[run].epoch == epoch) else {
            return;
        };
        let at = &self.nodes[node];
        if !at.is_alive {
            return;
        }
        let cell = &mut self.cells[at.cell];
        if cell.is_database_gone || !at.lease.holds(now) {
            // The run ends for this time, and the next claim of the node has it again.
            let again = self.now + micros(CLAIM_INTERVAL);
            return self.timeline.add(again, Event::Append { run, epoch });
        }
        let done = cell.database.submit(self.now, costs::APPEND);
        self.figures.appends.push(done - self.now);
        self.append_later(run, done);
    }
}
