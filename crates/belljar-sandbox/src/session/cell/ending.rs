//! From the end of a cell to its outcome: from the guest's report, or from the remains of the
//! guest.

use std::time::Duration;

use belljar_protocol::{
    Cause, CellEnd, CellReport, Changes, Durations, ExceptionInfo, Fate, Outcome, Remedy,
    RemedyOption, Status, Traffic, Walls, WokenCheckpoint, signal_name,
};

use crate::error::Error;
use crate::session::guest::DEATH_TIME;
use crate::session::packages::suggestion;
use crate::state::restore::{lacking, restore};

use super::{CellDriver, Stop};

/// How long a process whose channel is closed may take to die by itself.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The most files, names and notes taken from one report; the guest's own limits are not higher.
pub const MAX_LISTED: usize = 1000;

/// What the C library and the kernel say in a session without network.
const NO_NETWORK: [&str; 3] = [
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
];

/// How the session's processes ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Death {
    /// The interpreter's raw wait status, if it could be learnt.
    pub(super) wait_status: Option<i32>,
    /// Whether it died before we ended it.
    by_itself: bool,
    /// Whether init was gone before we ended it.
    init_died: bool,
    /// The checkpoint that became the session, if one did.
    restored: Option<WokenCheckpoint>,
}

impl CellDriver<'_> {
    /// Kills the rest of the session, and reads its last output.
    pub(super) async fn reap(&mut self) -> Death {
        // A process that is dying by itself gets the time to report how.
        let mut wait_status = self.guest.wait_status(LAST_WORDS).await;
        let by_itself = wait_status.is_some();
        let init_died = wait_status.is_some_and(|status| exit_or_signal(status) == Err(9))
            && self.handle.init_is_dying();
        if !by_itself {
            // Before its init, which may be the one that reports how it ended.
            let _ = self.handle.interpreter().kill();
            wait_status = self.guest.wait_status(DEATH_TIME).await;
        }
        if !self.guest.checkpoint_set.is_empty() && !init_died {
            let restored = restore(self.handle, self.guest, self.before).await;
            self.read_rest();
            if restored.is_some() {
                return Death {
                    wait_status,
                    by_itself,
                    init_died,
                    restored,
                };
            }
        }
        self.handle.kill();
        if wait_status.is_none() {
            wait_status = self.guest.wait_status(DEATH_TIME).await;
        }
        // All writers are dead, so the pipes come to their end by themselves.
        self.read_rest();
        let why = match self.stop {
            Some(Stop::WallTime | Stop::CpuTime) => "it was ended at its time limit",
            Some(Stop::Output) => "it was ended at its output limit",
            None => "its process died",
        };
        self.handle.end(why);
        Death {
            wait_status,
            by_itself,
            init_died,
            restored: None,
        }
    }

    /// Restores the state before an all-or-nothing cell whose guest lives, unless it succeeded.
    pub(super) async fn undo(&mut self, report: &CellReport) -> Death {
        self.guest.checkpoint_set.state = self.cell;
        let (status, _) = self.verdict(report);
        let mut death = Death::default();
        if self.before.is_some() && status != Status::Success {
            death.restored = restore(self.handle, self.guest, self.before).await;
            if death.restored.is_none() {
                self.handle.kill();
                self.handle.end("it could not be restored");
            }
        }
        death
    }

    fn verdict(&self, report: &CellReport) -> (Status, Cause) {
        let exit_code = report.exit_code.unwrap_or(0);
        match (self.stop, report.end) {
            (Some(stop), _) => self.stopped(stop),
            (None, CellEnd::Ok) => (Status::Success, Cause::Completed),
            (None, CellEnd::Exception) => (Status::Failure, Cause::Exception),
            (None, CellEnd::Syntax) => (Status::Failure, Cause::Syntax),
            (None, CellEnd::Interrupted) => (Status::Failure, Cause::Interrupted),
            (None, CellEnd::Exit) if exit_code == 0 => (Status::Success, Cause::Exit { code: 0 }),
            (None, CellEnd::Exit) => (Status::Failure, Cause::Exit { code: exit_code }),
        }
    }

    /// Network activity of the session since the last cell ended, if it may reach any.
    fn traffic(&mut self) -> Option<Traffic> {
        let now = self.handle.proxy()?.traffic();
        let before = std::mem::replace(&mut self.guest.traffic, now);
        Some(now.since(before))
    }

    /// Whether a cell failed because its session may not reach a host, and which. Nothing of what the
    /// guest says is passed on.
    fn network_remedy(&self, exception: &ExceptionInfo) -> Option<(RemedyOption, Option<String>)> {
        let host = self.unlisted.clone();
        let is_offline = self.handle.proxy().is_none()
            && self.handle.walls == Walls::Full
            && NO_NETWORK
                .iter()
                .any(|words| exception.value.contains(words));
        (host.is_some() || is_offline).then_some((RemedyOption::Network, host))
    }

    /// The outcome of a cell whose guest lives.
    pub(super) fn reported(
        mut self,
        mut report: CellReport,
        death: &Death,
        mut durations: Durations,
        peak: Option<u64>,
    ) -> Outcome {
        durations.run_us = report.run_us;
        let (status, cause) = self.verdict(&report);
        let mut state = Fate::Kept;
        if self.before.is_some() && status != Status::Success {
            state = self.fate(death);
            report.changes = Changes::default();
        }
        let notes = &mut self.notes;
        cap(&mut report.artifacts, "files", notes);
        cap(&mut report.changes.added, "new names", notes);
        cap(&mut report.changes.changed, "changed names", notes);
        cap(&mut report.changes.removed, "removed names", notes);
        cap(&mut report.notes, "notes of the session", notes);
        self.notes.extend(report.notes);
        let exception = report.exception.as_ref();
        let policy = &self.handle.packages;
        let package = exception.and_then(|exception| suggestion(exception, policy));
        let (package, denied) = match package {
            Some(package) if policy.allows(&package) => (Some(package), None),
            denied => (None, denied),
        };
        let remedy = match denied {
            Some(package) => Some((RemedyOption::Packages, Some(package))),
            None => exception.and_then(|exception| self.network_remedy(exception)),
        };
        let remedy = remedy.map(|(option, value)| Remedy {
            option,
            set_by: self.handle.set_by,
            value,
        });
        Outcome {
            exit_code: report.exit_code.unwrap_or(0),
            package,
            remedy,
            exception: report.exception,
            artifacts: report.artifacts,
            changes: report.changes,
            ..self.outcome(status, cause, state, durations, peak)
        }
    }

    /// What every outcome has; a live guest adds an exception, files and names.
    fn outcome(
        mut self,
        status: Status,
        cause: Cause,
        state: Fate,
        durations: Durations,
        peak: Option<u64>,
    ) -> Outcome {
        let network = self.traffic();
        let (mut stdout, mut stderr, mut transcript) = self.capture.finish();
        // What was put together of several pieces may be a secret now.
        for text in [&mut stdout.text, &mut stderr.text, &mut transcript] {
            self.handle.variables.scrubber().text(text);
        }
        Outcome {
            cell: self.cell,
            walls: self.handle.walls,
            network,
            status,
            cause,
            state,
            exit_code: 0,
            exception: None,
            package: None,
            remedy: None,
            installed: Vec::new(),
            stdout,
            stderr,
            transcript,
            displays: self.displays.finish(),
            artifacts: Vec::new(),
            changes: Changes::default(),
            notes: self.notes,
            durations,
            peak_memory_bytes: peak,
        }
    }

    fn stopped(&self, stop: Stop) -> (Status, Cause) {
        let limits = &self.handle.limits;
        match stop {
            Stop::WallTime => (
                Status::Timeout,
                Cause::WallTime {
                    limit_ms: millis(self.wall_time),
                },
            ),
            Stop::CpuTime => (
                Status::Timeout,
                Cause::CpuTime {
                    limit_ms: millis(limits.cpu_time.unwrap_or_default()),
                },
            ),
            Stop::Output => (
                Status::Failure,
                Cause::OutputLimit {
                    limit_bytes: limits.output_bytes,
                },
            ),
        }
    }

    /// The outcome of a cell whose process is gone.
    pub(super) fn died(
        self,
        death: Death,
        by_memory: bool,
        durations: Durations,
        peak: Option<u64>,
    ) -> Result<Outcome, Error> {
        if let Some(stop) = self.stop {
            let (status, cause) = self.stopped(stop);
            return Ok(self.ended(status, cause, &death, durations, peak));
        }
        let Some(wait_status) = death.wait_status else {
            return Err(Error::Ended(
                "the exit status of its process is unknown".into(),
            ));
        };
        let memory = Cause::Memory {
            limit_bytes: self.handle.limits.memory_bytes,
        };
        let cause = match exit_or_signal(wait_status) {
            // In gVisor a process whose memory the host's kernel took ends with a code.
            Ok(1..) if by_memory && self.handle.walls == Walls::Gvisor => memory,
            Ok(code) => Cause::Exit { code },
            Err(9) if by_memory => memory,
            // Code in the session can't harm its init: this is a fault on our side.
            Err(9) if death.init_died => {
                return Err(Error::Ended("its init was killed from outside".into()));
            }
            // None of the program has run.
            Err(9) if !self.guest.ready => {
                return Err(Error::Ended("it was killed while it started".into()));
            }
            // It closed its channel and lived on, as a program that replaced itself does.
            Err(9) if !death.by_itself => Cause::Protocol {
                detail: "the channel was closed, as by os.execv or os.close".into(),
            },
            Err(number) => Cause::Signal {
                number,
                name: signal_name(number),
            },
        };
        Ok(self.ended(Status::Crashed, cause, &death, durations, peak))
    }

    /// What became of the variables of a dead process.
    fn fate(&mut self, death: &Death) -> Fate {
        match death.restored {
            None => Fate::Lost,
            Some(checkpoint) => {
                self.notes.extend(lacking(checkpoint));
                Fate::Restored {
                    cell: checkpoint.cell,
                }
            }
        }
    }

    pub(super) fn ended(
        mut self,
        status: Status,
        cause: Cause,
        death: &Death,
        durations: Durations,
        peak: Option<u64>,
    ) -> Outcome {
        let state = self.fate(death);
        let exit_code = death.wait_status.map_or(-9, |status| {
            exit_or_signal(status).unwrap_or_else(|signal| -i64::from(signal))
        });
        Outcome {
            exit_code,
            ..self.outcome(status, cause, state, durations, peak)
        }
    }
}

/// A raw wait status as exit code, or else as signal.
fn exit_or_signal(status: i32) -> Result<i64, i32> {
    match status & 0x7f {
        0 => Ok(i64::from(status >> 8 & 0xff)),
        signal => Err(signal),
    }
}

/// Keeps of a list what a report may hold, and notes what it does not.
fn cap<T>(list: &mut Vec<T>, what: &str, notes: &mut Vec<String>) {
    if list.len() > MAX_LISTED {
        notes.push(format!("{} more {what}", list.len() - MAX_LISTED));
        list.truncate(MAX_LISTED);
        list.shrink_to_fit();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
