//! Approvals of a run, and calls by the code of its cells.

mod cell_call;
mod words;

use belljar_journal::BlobRef;

use super::approval::{
    Approval, Decision, DecisionError, Subject, hash_of_call, hash_of_code, hash_of_command,
};
use super::branches::{BRANCH, Branches};
use super::event::{RunEvent, ToolAnswer};
use super::machine::{Call, CallState, Run, Step};
use super::risk::Earlier;
use crate::dialect::PYTHON;
use crate::tool::GrantedTool;

pub use cell_call::{CellCall, CellCallState};

impl Run {
    /// The pending approvals.
    pub fn undecided(&self) -> &[Approval] {
        &self.undecided
    }

    /// The calls that the running cell has made: number 1 first.
    pub fn cell_calls(&self) -> &[CellCall] {
        &self.cell_calls
    }

    /// What a marker represents.
    pub(crate) fn kept(&self) -> &std::collections::BTreeMap<String, BlobRef> {
        &self.kept
    }

    /// A tool that code may call.
    pub(crate) fn granted(&self, name: &str) -> Option<&GrantedTool> {
        let granted = &self.start()?.granted;
        granted.iter().find(|tool| tool.stub.name == name)
    }

    /// The alternatives that code may try.
    pub(crate) fn branches(&self) -> Option<&Branches> {
        self.start()?.branches.as_ref()
    }

    /// Whether code needs approval for this tool.
    pub(crate) fn asks_for_call(&self, tool: &GrantedTool) -> bool {
        // Branches have no effect of their own, and the cell was looked at.
        let is_branch = tool.stub.name == BRANCH && self.branches().is_some();
        !is_branch && self.approvals.ask_for_call(tool)
    }

    /// The tool that the model calls by itself, if it is one of the host's.
    pub(crate) fn direct(&self, call: &Call) -> Option<&GrantedTool> {
        let granted = &self.start()?.granted;
        let mut direct = granted.iter();
        direct.find(|tool| tool.direct_name().as_deref() == Some(&call.tool))
    }

    /// The approval that a call needs before it is performed, and its hash if so.
    fn needed(&self, step: u32, place: u32, call: &Call, earlier: &Earlier) -> Option<Approval> {
        if let Some(tool) = self.direct(call) {
            let arguments = call.arguments.as_object().cloned().unwrap_or_default();
            let asks = self.approvals.ask_for_call(tool);
            return asks.then(|| Approval::of_call((step, place, 0), &tool.stub.name, arguments));
        }
        if let Some(command) = call.command() {
            let approvals = &self.approvals;
            return approvals.ask_for_command_of(step, place, command);
        }
        let code = call.code().filter(|_| call.tool == PYTHON)?;
        self.approvals.ask_for_code_of(step, place, code, earlier)
    }

    /// The hash that an approval of a call has to have.
    fn hash_of(&self, call: &Call) -> String {
        match (self.direct(call), call.arguments.as_object()) {
            (Some(tool), Some(arguments)) => hash_of_call(&tool.stub.name, arguments),
            _ => match call.command() {
                Some(command) => hash_of_command(&command),
                None => hash_of_code(call.code().unwrap_or_default()),
            },
        }
    }

    /// Whether a call may be performed as it is.
    pub(crate) fn may_run(&self, call: &Call) -> bool {
        match &call.approved {
            Some(approved) => *approved == self.hash_of(call),
            None => self.needed(0, 0, call, &self.earlier()).is_none(),
        }
    }

    /// Whether a call of the last step may run because a person has approved it, for this once.
    pub(crate) fn is_for_one_use(&self, step: u32, call: u32) -> bool {
        let last = self.steps.last().filter(|last| last.number == step);
        let at = usize::try_from(call).unwrap_or(usize::MAX);
        let call = last.and_then(|last| last.calls.get(at));
        call.is_some_and(|call| {
            call.approved.is_some() && self.needed(0, 0, call, &self.earlier()).is_some()
        })
    }

    /// Checks whether a decision is valid.
    pub fn check_decision(
        &self,
        approval: &str,
        hash: &str,
        decision: &Decision,
    ) -> Result<&Approval, DecisionError> {
        let asked = self.undecided.iter().find(|asked| asked.id == approval);
        let asked = asked.ok_or(DecisionError::NotWaiting)?;
        if asked.hash != hash {
            return Err(DecisionError::Changed);
        }
        match (&asked.subject, decision) {
            (Subject::Call { .. } | Subject::Command { .. }, Decision::Edit { .. }) => {
                Err(DecisionError::NotCode)
            }
            _ => Ok(asked),
        }
    }

    /// The approvals that a step still needs.
    pub(super) fn unasked(&self, step: &Step) -> Vec<Approval> {
        let asked =
            |approval: &Approval| self.undecided.iter().any(|other| other.id == approval.id);
        let waits = |call: &Call| call.state == CallState::Waiting;
        let mut needed = Vec::new();
        let mut earlier = self.earlier();
        for (place, call) in (0..).zip(&step.calls).filter(|(_, call)| waits(call)) {
            if call.approved.is_none() {
                let approval = self.needed(step.number, place, call, &earlier);
                needed.extend(approval.filter(|approval| !asked(approval)));
            }
            // It will have run, in whole or in part, when the next one does.
            if let Some(code) = call.code().filter(|_| call.tool == PYTHON)
                && !self.approvals.never_asks_for_code()
            {
                earlier.learn(code, true);
            }
        }
        needed
    }

    /// What the cells that have run say about the names which the next one uses.
    fn earlier(&self) -> Earlier {
        self.earlier.with_manifest(&self.manifest)
    }

    /// Applies an event of approvals and of calls of cells.
    pub(super) fn bridge_event(&mut self, event: &RunEvent) -> Result<(), &'static str> {
        match event {
            RunEvent::ApprovalAsked(approval) => self.asked_approval(approval),
            RunEvent::ApprovalDecided {
                approval,
                hash,
                decision,
            } => {
                self.check_decision(approval, hash, decision)
                    .map_err(|_| "for what does not wait for it")?;
                let waits = self
                    .undecided
                    .iter()
                    .position(|asked| asked.id == *approval);
                let asked = self.undecided.remove(waits.unwrap_or_default());
                self.decided(&asked, decision);
                Ok(())
            }
            RunEvent::ToolCalled {
                step,
                call,
                number,
                tool,
                arguments,
            } => {
                self.running(*step, *call)?;
                self.spent.cell_calls += 1;
                if *number == self.next_call() {
                    self.cell_calls.push(CellCall {
                        tool: tool.clone(),
                        arguments: arguments.clone(),
                        state: CellCallState::Begun,
                    });
                    return Ok(());
                }
                let made = self.cell_call(*number)?;
                if made.state != CellCallState::Approved
                    || made.tool != *tool
                    || made.arguments != *arguments
                {
                    return Err("for a call that was not approved");
                }
                made.state = CellCallState::Begun;
                Ok(())
            }
            RunEvent::Branched {
                step, call, number, ..
            } => {
                self.running(*step, *call)?;
                match self.cell_call(*number)? {
                    made if made.tool == BRANCH && made.state == CellCallState::Begun => Ok(()),
                    _ => Err("for a call that tries no alternatives"),
                }
            }
            RunEvent::ToolAnswered {
                step,
                call,
                number,
                answer,
            } => {
                self.running(*step, *call)?;
                let made = self.cell_call(*number)?;
                if matches!(made.state, CellCallState::Answered(_)) {
                    return Err("for a call that has its answer");
                }
                made.state = CellCallState::Answered(answer.clone());
                if let ToolAnswer::Kept { marker, data } = answer {
                    self.kept.insert(marker.clone(), data.clone());
                }
                // No code waits for it any more.
                self.undecided
                    .retain(|asked| asked.call_number() != Some(*number));
                Ok(())
            }
            _ => Err("here"),
        }
    }

    /// The number of the next call of the running cell.
    pub(crate) fn next_call(&self) -> u32 {
        u32::try_from(self.cell_calls.len()).map_or(u32::MAX, |calls| calls + 1)
    }

    /// The cell has ended, and so have its calls.
    pub(super) fn forget_calls(&mut self) {
        self.cell_calls.clear();
        self.undecided.retain(|asked| asked.call_number().is_none());
    }

    /// The message for the model about an interrupted cell.
    pub(super) fn lost_words(&self, differs: bool) -> String {
        words::lost_call(&self.cell_calls, differs, self.language())
    }

    fn running(&mut self, step: u32, call: u32) -> Result<(), &'static str> {
        match self.call(step, call) {
            Some(call) if call.state == CallState::Started => Ok(()),
            _ => Err("for a cell that does not run"),
        }
    }

    fn cell_call(&mut self, number: u32) -> Result<&mut CellCall, &'static str> {
        let at = usize::try_from(number).unwrap_or(usize::MAX).checked_sub(1);
        let made = at.and_then(|at| self.cell_calls.get_mut(at));
        made.ok_or("for a call that was not made")
    }

    fn asked_approval(&mut self, approval: &Approval) -> Result<(), &'static str> {
        if !approval.holds() || self.undecided.iter().any(|asked| asked.id == approval.id) {
            return Err("with another hash, or twice");
        }
        match &approval.subject {
            Subject::Cell { code, .. } => {
                let call = self.call(approval.step, approval.call);
                let waits = call.filter(|call| {
                    call.state == CallState::Waiting && call.code() == Some(code.as_str())
                });
                waits.ok_or("for a cell that does not wait")?;
            }
            Subject::Command { .. } | Subject::Call { number: 0, .. } => {
                let call = self.call(approval.step, approval.call).cloned();
                let call = call.filter(|call| call.state == CallState::Waiting);
                let call = call.ok_or("for a call that does not wait")?;
                let is_known = self.direct(&call).is_some() || call.command().is_some();
                if !is_known || self.hash_of(&call) != approval.hash {
                    return Err("for another call");
                }
            }
            Subject::Call {
                number,
                tool,
                arguments,
            } => {
                self.running(approval.step, approval.call)?;
                if *number != self.next_call() {
                    return Err("for a call out of order");
                }
                self.cell_calls.push(CellCall {
                    tool: tool.clone(),
                    arguments: arguments.clone(),
                    state: CellCallState::Asked,
                });
            }
        }
        self.undecided.push(approval.clone());
        Ok(())
    }

    fn decided(&mut self, asked: &Approval, decision: &Decision) {
        if *decision == (Decision::Accept { rest_of_run: true }) {
            self.approvals.allow(&asked.subject);
        }
        let texts = self.language().prompts();
        if let Some(number) = asked.call_number() {
            let Ok(made) = self.cell_call(number) else {
                return;
            };
            made.state = match decision {
                Decision::Accept { .. } => CellCallState::Approved,
                Decision::Edit { .. } | Decision::Reject => refused(texts.call_rejected.to_owned()),
                Decision::Feedback { text } => refused(texts.call_feedback(text)),
            };
            return;
        }
        let is_call = !matches!(asked.subject, Subject::Cell { .. });
        let Some(call) = self.call(asked.step, asked.call) else {
            return;
        };
        match decision {
            Decision::Feedback { text } if is_call => {
                call.state = CallState::refused(texts.call_feedback(text));
            }
            Decision::Reject if is_call => {
                call.state = CallState::refused(texts.call_rejected.to_owned());
            }
            Decision::Accept { .. } => call.approved = Some(asked.hash.clone()),
            Decision::Edit { code } => {
                call.arguments["code"] = code.clone().into();
                call.approved = Some(hash_of_code(code));
                self.add_note(&texts.cell_edited(code));
            }
            Decision::Feedback { text } => {
                call.state = CallState::refused(texts.cell_feedback(text));
                self.hold_back_after(asked);
            }
            Decision::Reject => {
                call.state = CallState::refused(texts.cell_rejected.to_owned());
                self.hold_back_after(asked);
            }
        }
    }

    /// Cells that come after one that was not approved may rest on it.
    fn hold_back_after(&mut self, asked: &Approval) {
        let texts = self.language().prompts();
        let place = usize::try_from(asked.call).unwrap_or(usize::MAX);
        if let Some(step) = self.steps.last_mut() {
            let later = step.calls.iter_mut().skip(place + 1);
            for call in later.filter(|call| call.state == CallState::Waiting) {
                call.state = CallState::refused(texts.cell_held_back.to_owned());
            }
        }
        self.undecided.retain(|other| other.step != asked.step);
    }
}

fn refused(message: String) -> CellCallState {
    CellCallState::Answered(ToolAnswer::Refused { message })
}
