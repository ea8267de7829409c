//! Performs the calls of a step.

use std::ops::ControlFlow;
use std::time::Instant;

use tracing::Instrument as _;

use super::cell::CellEnd;
use super::{Listener, LiveRun, RunError, millis, trace};
use crate::dialect::PYTHON;
use crate::run::{Call, CallResult, RunEvent, cut_middle};
use crate::tool::{Tool, ToolContext, ToolOutput, find_tool};

impl LiveRun {
    /// Performs the calls of a step: cells one after the other, the rest at the same time.
    pub(super) async fn perform(
        &mut self,
        step: u32,
        calls: Vec<(u32, Call)>,
        listener: Listener<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let (python, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|(_, call)| call.tool == PYTHON);
        let (others, refused): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(_, call)| self.run.may_run(call));
        for (place, _) in refused {
            self.refuse_call(step, place, listener).await?;
        }
        if !others.is_empty() {
            let begun: Vec<RunEvent> = others
                .iter()
                .map(|(place, _)| RunEvent::CallStarted { step, call: *place })
                .collect();
            self.record(&begun, listener).await?;
            let mut tools = others.iter().filter_map(|(_, call)| find_tool(&call.tool));
            if tools.any(Tool::needs_session) {
                self.ensure_session(listener).await?;
            }
            let work = others.iter().map(async |(place, call)| {
                let span = trace::execute_tool(self, &call.tool, step, *place);
                let work = self.other(step, *place, call);
                let result = work.instrument(span.clone()).await;
                trace::call_ended(&span, &call.arguments, &result);
                (*place, result)
            });
            let mut results = futures_util::future::join_all(work).await;
            // The session after the last cell has the files that commands changed.
            let is_command = |place: u32| {
                let call = others.iter().find(|(other, _)| *other == place);
                call.is_some_and(|(_, call)| call.command().is_some())
            };
            let has_commands = others.iter().any(|(place, _)| is_command(*place));
            if has_commands {
                let (cell, manifest) = (self.run.last_cell(), self.run.manifest());
                let saved = self.session.save_before(cell, manifest).await;
                let commands = results.iter_mut().filter(|(place, _)| is_command(*place));
                commands.for_each(|(_, result)| result.session.clone_from(&saved));
            }
            for (place, result) in results {
                let result = Box::new(result);
                let event = RunEvent::CallEnded {
                    step,
                    call: place,
                    result,
                };
                self.record(&[event], listener).await?;
            }
            if has_commands && self.run.last_cell() > 0 {
                self.session.save_after(&self.run).await;
            }
        }
        for (place, call) in python {
            if self.control.is_stopped() {
                break;
            }
            if !self.run.may_run(&call) {
                if call.approved.is_none() {
                    // The policy was changed while an earlier cell of the step ran: approval comes
                    // first.
                    break;
                }
                self.refuse_call(step, place, listener).await?;
                continue;
            }
            self.ensure_session(listener).await?;
            let begun = RunEvent::CallStarted { step, call: place };
            self.record(&[begun], listener).await?;
            if self.perform_cell(step, place, listener).await?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What is about to be done differs from what was approved.
    async fn refuse_call(
        &mut self,
        step: u32,
        call: u32,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let result = Box::new(CallResult {
            text: "Not executed: the code differs from what was approved.".into(),
            failed: true,
            session: self.run.saved_session().cloned(),
            ..CallResult::default()
        });
        let refused = RunEvent::CallEnded { step, call, result };
        self.record(&[refused], listener).await
    }

    /// Runs the cell of a call that was begun. A break: it waits for a person, and nobody is there.
    pub(super) async fn perform_cell(
        &mut self,
        step: u32,
        place: u32,
        listener: Listener<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let calls = self.run.steps().last().map(|step| &step.calls);
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        let Some(call) = calls.and_then(|calls| calls.get(at)).cloned() else {
            return Ok(ControlFlow::Continue(()));
        };
        let span = trace::execute_tool(self, PYTHON, step, place);
        let running = self.run_cell((step, place), &call, listener);
        let mut result = match running.instrument(span.clone()).await? {
            CellEnd::Result(result) => result,
            CellEnd::Differs => {
                self.note_lost(step, place, true, listener).await?;
                return Ok(ControlFlow::Continue(()));
            }
            CellEnd::Left => return Ok(ControlFlow::Break(())),
        };
        trace::call_ended(&span, &call.arguments, &result);
        // Before the journal has the result: so there always is a snapshot of what it says.
        if let Some(cell) = &result.cell {
            result.session = self.session.save(cell.number, &cell.manifest).await;
        }
        let ended = RunEvent::CallEnded {
            step,
            call: place,
            result,
        };
        self.record(&[ended], listener).await?;
        self.session.remove_replaced(&self.run);
        Ok(ControlFlow::Continue(()))
    }

    pub(super) async fn note_lost(
        &mut self,
        step: u32,
        call: u32,
        differs: bool,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let lost = RunEvent::CallLost {
            step,
            call,
            differs,
        };
        self.record(&[lost], listener).await
    }

    /// Ensures a session, and journals a new one.
    pub(super) async fn ensure_session(&mut self, listener: Listener<'_>) -> Result<(), RunError> {
        match self.session.ensure(&self.run, &self.control).await? {
            Some(event) => self.record(&[event], listener).await,
            None => Ok(()),
        }
    }

    /// A call that needs no cell.
    async fn other(&self, step: u32, place: u32, call: &Call) -> CallResult {
        let started = Instant::now();
        let language = self.run.language();
        let session = self.session.live();
        let limit = self.agent.session.limits.wall_time;
        let left = self.run.budget().time_left(&self.run.spent());
        let context = ToolContext {
            state: &self.run.tools,
            language,
            session: session.as_deref(),
            evaluator: self.agent.evaluator.as_ref(),
            limit: left.map_or(limit, |left| left.min(limit)),
        };
        let result = match (find_tool(&call.tool), self.run.direct(call)) {
            (Some(tool), _) => tokio::select! {
                result = tool.perform(&call.arguments, context) => result,
                () = self.control.stopped() => Err("The run was stopped.".into()),
            },
            (None, Some(tool)) => self.call_directly(tool, step, place, call).await,
            (None, None) => Err(format!("There is no tool `{}`.", call.tool)),
        };
        let failed = result.is_err();
        let ToolOutput { mut text, value } = result.unwrap_or_else(ToolOutput::from);
        if let Some(start) = self.run.start() {
            cut_middle(&mut text, start.result_bytes(), language);
        }
        CallResult {
            text,
            failed,
            value,
            took_ms: millis(started),
            ..CallResult::default()
        }
    }
}
