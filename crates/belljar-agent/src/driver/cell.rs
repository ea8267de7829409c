//! Drives one cell of a run: its output, its calls, and decisions meanwhile.

use std::time::{Duration, Instant};

use belljar_protocol::Event;
use belljar_sandbox::{Cell, CellRun, Error, Requirement, Session, requires};
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::{sleep, sleep_until};

use super::bridge::Bridge;
use super::{Listener, LiveRun, Progress, RunError, millis, trace};
use crate::run::{Call, CallResult};

/// How long a cell may take to react to the stop of its run.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long a cell that runs again may be silent while it makes calls that it did not make before.
const DIFFERS_AFTER: Duration = Duration::from_secs(5);

/// How long a cell that waits for a person may be silent, before an unattended host ends.
const LEAVES_AFTER: Duration = Duration::from_secs(1);

/// The most events of a cell that are taken at once.
const AT_ONCE: usize = 1000;

/// How a cell ended, as the run sees it.
pub(super) enum CellEnd {
    /// With a result.
    Result(Box<CallResult>),
    /// It ran again, and made other calls than the first time.
    Differs,
    /// It waits for a person, and nobody is there.
    Left,
}

impl LiveRun {
    /// Runs the code of a call of `python`.
    pub(super) async fn run_cell(
        &mut self,
        (step, place): (u32, u32),
        call: &Call,
        listener: Listener<'_>,
    ) -> Result<CellEnd, RunError> {
        let started = Instant::now();
        let Some(session) = self.session.live() else {
            return Err(Error::Ended("it was not started".into()).into());
        };
        let code = call.code().unwrap_or_default();
        if let Err(text) = install(&session, call).await {
            return Ok(failed(text, started));
        }
        let mut bridge = Bridge::new(session.clone(), step, place, &self.run);
        let limit = self.agent.session.limits.wall_time;
        let left = self.run.budget().time_left(&self.run.spent());
        let mut events = session.run(Cell {
            answers: true,
            wall_time: left.map(|left| left.saturating_sub(started.elapsed()).min(limit)),
            ..Cell::from(code)
        });
        let control = self.control.clone();
        let given_up = async {
            control.stopped().await;
            sleep(STOP_GRACE).await;
        };
        tokio::pin!(given_up);
        let mut waited = Duration::ZERO;
        let outcome = loop {
            let since = Instant::now();
            let waits = bridge.only_waits(&self.run);
            let leaves = tokio::time::Instant::now() + LEAVES_AFTER;
            let differs = tokio::time::Instant::now() + DIFFERS_AFTER;
            tokio::select! {
                event = events.next() => {
                    match self.take_events(&mut bridge, event, &mut events, listener).await? {
                        CellProgress::On => {}
                        CellProgress::Outcome(outcome) => break outcome,
                        CellProgress::Failed(text) => return Ok(failed(text, started)),
                    }
                }
                given = bridge.performed() => self.take_given(&mut bridge, given, listener).await?,
                Some(decision) = self.decisions.recv() => {
                    self.take_decision(Some(&mut bridge), decision, listener).await?;
                }
                () = &mut given_up => {
                    self.session.forget();
                    return Ok(failed(self.run.language().prompts().cell_given_up.into(), started));
                }
                () = sleep_until(leaves), if self.unattended && waits => {
                    self.session.forget();
                    return Ok(CellEnd::Left);
                }
                () = sleep_until(differs), if bridge.holds_calls() => {
                    self.session.forget();
                    return Ok(CellEnd::Differs);
                }
            }
            if waits {
                waited += since.elapsed();
            }
        };
        trace::outcome(&outcome);
        if bridge.holds_calls() || bridge.has_unclaimed() {
            // It came to its end by another way.
            self.session.forget();
            return Ok(CellEnd::Differs);
        }
        let mut result = self
            .session
            .take_outcome(&session, &outcome, &self.run)
            .await?;
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        result.took_ms = millis(started).saturating_sub(waited);
        Ok(CellEnd::Result(Box::new(result)))
    }

    /// Takes an event, and those that have come with it.
    async fn take_events(
        &mut self,
        bridge: &mut Bridge,
        first: Option<Result<Event, Error>>,
        cell: &mut CellRun,
        listener: Listener<'_>,
    ) -> Result<CellProgress, RunError> {
        let (mut made, mut gone) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        let mut progress = CellProgress::On;
        for _ in 0..AT_ONCE {
            let Some(event) = next.take() else { break };
            let event = match event {
                None => {
                    self.session.forget();
                    return Err(Error::Ended("its cell had no outcome".into()).into());
                }
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    match &error {
                        Error::CellTooLarge { .. } => {}
                        Error::Ended(_) | Error::Unresponsive => self.session.forget(),
                        _ => return Err(error.into()),
                    }
                    return Ok(CellProgress::Failed(error.to_string()));
                }
            };
            listener(Progress::Cell(&event));
            match event {
                Event::Called {
                    call,
                    tool,
                    arguments,
                } => made.push((call, tool, arguments)),
                Event::CallCancelled { call } => {
                    // It may have been made just now: then nothing has begun.
                    match made.iter().position(|(other, ..)| *other == call) {
                        Some(at) => drop(made.remove(at)),
                        None => gone.push(call),
                    }
                }
                Event::Outcome(outcome) => {
                    progress = CellProgress::Outcome(outcome);
                    break;
                }
                _ => {}
            }
            next = cell.next().now_or_never();
        }
        if !made.is_empty() {
            self.take_calls(bridge, made, listener).await?;
        }
        if !gone.is_empty() {
            self.cancel_calls(bridge, &gone, listener).await?;
        }
        Ok(progress)
    }
}

/// Installs the packages that a cell requires, if the session may have them.
pub(crate) async fn install(session: &Session, call: &Call) -> Result<(), String> {
    let mut required = requires(call.code().unwrap_or_default()).map_err(|e| e.to_string())?;
    let named = call.arguments.get("libraries").and_then(Value::as_array);
    for name in named.into_iter().flatten().filter_map(Value::as_str) {
        let requirement: Requirement = name.parse().map_err(|e| format!("{name}: {e}"))?;
        required.push(requirement);
    }
    if required.is_empty() {
        return Ok(());
    }
    let installed = session.install(&required).await;
    installed.map(drop).map_err(|error| error.to_string())
}

/// What an event of a cell means for its run.
enum CellProgress {
    On,
    Outcome(Box<belljar_protocol::Outcome>),
    Failed(String),
}

fn failed(text: String, started: Instant) -> CellEnd {
    CellEnd::Result(Box::new(CallResult {
        text,
        failed: true,
        took_ms: millis(started),
        ..CallResult::default()
    }))
}
