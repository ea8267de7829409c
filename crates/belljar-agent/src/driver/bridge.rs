//! Calls by the code of a running cell: each is in the journal before it is performed, and its
//! answer before the code has it.
//!
//! An interrupted cell is run again. Its recorded calls get their recorded answers, and are not
//! performed again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use belljar_journal::Blobs;
use belljar_protocol::{CallId, Language, ToolError, ToolResult, marker};
use belljar_sandbox::Session;
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{Instrument as _, Span};

use super::branches::try_branches;
use super::control::{ControlAction, ControlRequest};
use super::{FILE_BYTES, Listener, LiveRun, RunError, trace};
use crate::run::{
    Approval, BRANCH, Branch, Call, CellCallState, DecisionError, Run, RunEvent, ToolAnswer,
};
use crate::tool::{Given, GrantedTool, Invocation, ToolEffects, ToolOutput};

/// The most calls that are performed at once, or whose answers are not in the journal yet: what a host that dies makes
/// another one repeat.
const MOST_AT_ONCE: usize = 64;

/// Larger values are stored beside the journal.
const LARGE: usize = 16 << 10;

/// A call as the code makes it.
struct Made {
    guest: CallId,
    tool: String,
    arguments: Map<String, Value>,
}

/// A call that was performed.
pub(super) struct Performed {
    number: u32,
    given: Result<Given, ToolError>,
    /// The alternatives that were tried for it.
    branches: Vec<Branch>,
    /// Held until its answer is in the journal.
    permit: Option<OwnedSemaphorePermit>,
}

/// The calls of one run of a cell.
pub(super) struct Bridge {
    session: Arc<Session>,
    step: u32,
    call: u32,
    /// By number, who waits for it in the session.
    guests: BTreeMap<u32, CallId>,
    /// Recorded calls that the code has not made again yet.
    unclaimed: BTreeSet<u32>,
    /// Calls that were not recorded before, while there are recorded ones.
    held: VecDeque<Made>,
    performing: JoinSet<Performed>,
    aborts: BTreeMap<u32, AbortHandle>,
    permits: Arc<Semaphore>,
}

impl Bridge {
    pub(super) fn new(session: Arc<Session>, step: u32, call: u32, run: &Run) -> Self {
        Self {
            session,
            step,
            call,
            guests: BTreeMap::new(),
            unclaimed: (1..run.next_call()).collect(),
            held: VecDeque::new(),
            performing: JoinSet::new(),
            aborts: BTreeMap::new(),
            permits: Arc::new(Semaphore::new(MOST_AT_ONCE)),
        }
    }

    /// Whether the code called what it did not call the first time, and nothing of what it did.
    pub(super) fn holds_calls(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the code has not called all that it called the first time.
    pub(super) fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    /// Whether the code only waits for a person.
    pub(super) fn only_waits(&self, run: &Run) -> bool {
        self.performing.is_empty() && !run.undecided().is_empty()
    }

    /// The next call that was performed; never if none is.
    pub(super) async fn performed(&mut self) -> Performed {
        while let Some(done) = self.performing.join_next().await {
            // Else it was aborted.
            if let Ok(done) = done {
                return done;
            }
        }
        std::future::pending().await
    }

    /// What else has been performed by now.
    fn also_performed(&mut self) -> Vec<Performed> {
        std::iter::from_fn(|| self.performing.try_join_next())
            .filter_map(Result::ok)
            .collect()
    }

    fn perform(
        &mut self,
        number: u32,
        span: Span,
        work: impl Future<Output = (Result<Given, ToolError>, Vec<Branch>)> + Send + 'static,
    ) {
        let permits = Arc::clone(&self.permits);
        let abort = self.performing.spawn(async move {
            let permit = permits.acquire_owned().await.ok();
            let work = AssertUnwindSafe(work).catch_unwind();
            let done = work.instrument(span.clone()).await;
            let broke = |_| (Err(ToolError("the tool broke down".into())), Vec::new());
            let (given, branches) = done.unwrap_or_else(broke);
            trace::cell_call_ended(&span, &given);
            Performed {
                number,
                given,
                branches,
                permit,
            }
        });
        self.aborts.insert(number, abort);
    }

    /// The recorded call that the code makes again.
    fn claim(&mut self, made: &Made, run: &Run) -> Option<u32> {
        let is_it = |number: &u32| {
            let recorded = recorded(run, *number);
            recorded.is_some_and(|call| call.0 == made.tool && *call.1 == made.arguments)
        };
        // By number; threads may have been faster or slower this time.
        let same = self.unclaimed.get(&made.guest.number).filter(|n| is_it(n));
        let number = same.or_else(|| self.unclaimed.iter().find(|n| is_it(n)));
        let number = *number?;
        self.unclaimed.remove(&number);
        self.guests.insert(number, made.guest);
        Some(number)
    }
}

fn recorded(run: &Run, number: u32) -> Option<(&str, &Map<String, Value>, &CellCallState)> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    let call = run.cell_calls().get(at)?;
    Some((&call.tool, &call.arguments, &call.state))
}

impl LiveRun {
    /// Receives calls of the code.
    pub(super) async fn take_calls(
        &mut self,
        bridge: &mut Bridge,
        made: Vec<(CallId, String, Map<String, Value>)>,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let mut new = Vec::new();
        for (guest, tool, arguments) in made {
            let made = Made {
                guest,
                tool,
                arguments,
            };
            match bridge.claim(&made, &self.run) {
                Some(number) => self.go_on_with(bridge, number, listener).await?,
                None if bridge.unclaimed.is_empty() => new.push(made),
                None => bridge.held.push_back(made),
            }
        }
        if bridge.unclaimed.is_empty() {
            new.extend(bridge.held.drain(..));
        }
        self.begin_calls(bridge, new, listener).await
    }

    /// Starts calls that were not recorded.
    async fn begin_calls(
        &mut self,
        bridge: &mut Bridge,
        made: Vec<Made>,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let (step, call) = (bridge.step, bridge.call);
        let language = self.run.language();
        let budget = self.run.budget().cell_calls;
        let mut left = budget.saturating_sub(self.run.spent().cell_calls);
        let (mut events, mut begun) = (Vec::new(), Vec::new());
        let mut number = self.run.next_call();
        for made in made {
            let Some(granted) = self.run.granted(&made.tool) else {
                self.refuse(bridge, made.guest, "this tool is not there any more".into())
                    .await;
                continue;
            };
            if left == 0 {
                let words = language.prompts().calls_used_up(budget);
                self.refuse(bridge, made.guest, words).await;
                continue;
            }
            left -= 1;
            bridge.guests.insert(number, made.guest);
            if self.run.asks_for_call(granted) {
                let place = (step, call, number);
                let approval = Approval::of_call(place, &made.tool, made.arguments);
                events.push(RunEvent::ApprovalAsked(Box::new(approval)));
            } else {
                begun.push(number);
                events.push(RunEvent::ToolCalled {
                    step,
                    call,
                    number,
                    tool: made.tool,
                    arguments: made.arguments,
                });
            }
            number += 1;
        }
        if !events.is_empty() {
            self.record(&events, listener).await?;
        }
        for number in begun {
            self.perform_call(bridge, number);
        }
        Ok(())
    }

    async fn refuse(&self, bridge: &Bridge, guest: CallId, words: String) {
        let answer = bridge.session.answer(guest, Err(ToolError(words)));
        // An error: the code no longer waits for it.
        let _ = answer.await;
    }

    fn perform_call(&mut self, bridge: &mut Bridge, number: u32) {
        let Some((tool, arguments, _)) = recorded(&self.run, number) else {
            return;
        };
        let arguments = arguments.clone();
        let span = trace::execute_tool(self, tool, bridge.step, bridge.call);
        trace::cell_called(&span, &arguments);
        if let Some(branches) = self.run.branches().filter(|_| tool == BRANCH) {
            let session = Arc::clone(&bridge.session);
            let language = self.run.language();
            let tries = try_branches(session, branches.clone(), arguments, language);
            bridge.perform(number, span, tries);
            return;
        }
        let Some(tool) = self.agent.tool(tool).cloned() else {
            return;
        };
        let key = self.key(bridge.step, bridge.call, number);
        let call = Invocation { arguments, key };
        let given = async move { (tool.perform(call).await, Vec::new()) };
        bridge.perform(number, span, given);
    }

    /// Continues a recorded call of a host that died.
    async fn go_on_with(
        &mut self,
        bridge: &mut Bridge,
        number: u32,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let Some((tool, _, state)) = recorded(&self.run, number) else {
            return Ok(());
        };
        match state {
            CellCallState::Asked => Ok(()),
            CellCallState::Approved => self.begin_approved(bridge, number, listener).await,
            CellCallState::Answered(answer) => {
                let answer = answer.clone();
                self.tell_code(bridge, number, &answer).await
            }
            CellCallState::Begun => {
                let granted = self.run.granted(tool);
                if granted.is_some_and(|tool| tool.effects != ToolEffects::EachCall) {
                    self.perform_call(bridge, number);
                    return Ok(());
                }
                let answers = vec![(number, ToolAnswer::Lost)];
                self.answer_calls(bridge, Vec::new(), answers, listener)
                    .await
            }
        }
    }

    async fn begin_approved(
        &mut self,
        bridge: &mut Bridge,
        number: u32,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let Some((tool, arguments, CellCallState::Approved)) = recorded(&self.run, number) else {
            return Ok(());
        };
        let event = RunEvent::ToolCalled {
            step: bridge.step,
            call: bridge.call,
            number,
            tool: tool.to_owned(),
            arguments: arguments.clone(),
        };
        self.record(&[event], listener).await?;
        self.perform_call(bridge, number);
        Ok(())
    }

    /// Receives results of tools.
    pub(super) async fn take_given(
        &mut self,
        bridge: &mut Bridge,
        first: Performed,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let mut kept = self.run.kept().len();
        let (step, call) = (bridge.step, bridge.call);
        let (mut branched, mut answers) = (Vec::new(), Vec::new());
        let mut permits = Vec::new();
        let mut performed = vec![first];
        performed.extend(bridge.also_performed());
        for Performed {
            number,
            given,
            branches,
            permit,
        } in performed
        {
            permits.extend(permit);
            // An aborted call has its answer already.
            if bridge.aborts.remove(&number).is_none() {
                continue;
            }
            if !branches.is_empty() {
                branched.push(RunEvent::Branched {
                    step,
                    call,
                    number,
                    branches,
                });
            }
            let answer = match given {
                Ok(Given::Value(value)) => keep_value(&self.agent.blobs, value).await?,
                Ok(Given::Kept { mime, data }) => {
                    if data.len() as u64 > FILE_BYTES {
                        answers.push((number, too_large()));
                        continue;
                    }
                    kept += 1;
                    let tool = recorded(&self.run, number).map_or("", |(tool, ..)| tool);
                    ToolAnswer::Kept {
                        marker: marker(tool, kept),
                        data: self.agent.blobs.put(data, &mime).await?,
                    }
                }
                Err(ToolError(message)) => ToolAnswer::Failed { message },
            };
            answers.push((number, answer));
        }
        let answered = self.answer_calls(bridge, branched, answers, listener).await;
        drop(permits);
        answered
    }

    /// The code no longer waits for these.
    pub(super) async fn cancel_calls(
        &mut self,
        bridge: &mut Bridge,
        gone: &[CallId],
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let mut answers = Vec::new();
        for guest in gone {
            let number = bridge.guests.iter().find(|(_, other)| *other == guest);
            let Some(number) = number.map(|(number, _)| *number) else {
                bridge.held.retain(|made| made.guest != *guest);
                continue;
            };
            if let Some(abort) = bridge.aborts.remove(&number) {
                abort.abort();
            }
            bridge.guests.remove(&number);
            let state = recorded(&self.run, number).map(|(_, _, state)| state);
            if !matches!(state, Some(CellCallState::Answered(_))) {
                answers.push((number, ToolAnswer::Cancelled));
            }
        }
        self.answer_calls(bridge, Vec::new(), answers, listener)
            .await
    }

    /// Journals answers after what led to them, and passes them to the code.
    async fn answer_calls(
        &mut self,
        bridge: &mut Bridge,
        mut events: Vec<RunEvent>,
        answers: Vec<(u32, ToolAnswer)>,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let (step, call) = (bridge.step, bridge.call);
        let answered = answers
            .iter()
            .map(|(number, answer)| RunEvent::ToolAnswered {
                step,
                call,
                number: *number,
                answer: answer.clone(),
            });
        events.extend(answered);
        if !events.is_empty() {
            self.record(&events, listener).await?;
        }
        for (number, answer) in &answers {
            self.tell_code(bridge, *number, answer).await?;
        }
        Ok(())
    }

    async fn tell_code(
        &self,
        bridge: &mut Bridge,
        number: u32,
        answer: &ToolAnswer,
    ) -> Result<(), RunError> {
        let Some(guest) = bridge.guests.remove(&number) else {
            return Ok(());
        };
        let result = result_of(answer, &self.agent.blobs, self.run.language()).await?;
        // An error: the code no longer waits for it.
        let _ = bridge.session.answer(guest, result).await;
        Ok(())
    }

    /// A unique id of a call among all runs; number 0 is that of the model itself.
    fn key(&self, step: u32, call: u32, number: u32) -> String {
        format!("{}/{step}/{call}/{number}", self.id)
    }

    /// Performs a call of the model itself; returns the text for it.
    pub(super) async fn call_directly(
        &self,
        granted: &GrantedTool,
        step: u32,
        place: u32,
        call: &Call,
    ) -> Result<ToolOutput, String> {
        let Some(tool) = self.agent.tool(&granted.stub.name) else {
            return Err("This tool is not there any more.".into());
        };
        let given = tool.perform(Invocation {
            arguments: call.arguments.as_object().cloned().unwrap_or_default(),
            key: self.key(step, place, 0),
        });
        match given.await {
            Ok(Given::Value(Value::String(text))) => Ok(text.into()),
            Ok(Given::Value(value)) => Ok(value.to_string().into()),
            // A marker needs a name in the journal, which a call of code has.
            Ok(Given::Kept { mime, data }) => Err(format!(
                "The result is {} bytes of {mime}: call `tools.{}` from code, where a mark stands for it.",
                data.len(),
                call.tool
            )),
            Err(ToolError(message)) => Err(message),
        }
    }

    /// Applies a person's decision, during a cell or between cells.
    pub(super) async fn take_decision(
        &mut self,
        bridge: Option<&mut Bridge>,
        request: ControlRequest,
        listener: Listener<'_>,
    ) -> Result<(), RunError> {
        let ControlRequest { action, accepted } = request;
        let recorded = match action {
            ControlAction::Decision {
                approval,
                hash,
                decision,
            } => {
                self.record_decision(approval, hash, decision, listener)
                    .await
            }
            ControlAction::Steering(steering) => {
                let event = RunEvent::from(steering);
                self.record(&[event], listener).await.map(|()| None)
            }
        };
        let number = match recorded {
            Ok(number) => number,
            Err(RunError::Decision(refused)) => {
                let _ = accepted.send(Err(refused));
                return Ok(());
            }
            Err(error) => {
                let _ = accepted.send(Err(DecisionError::Over));
                return Err(error);
            }
        };
        let _ = accepted.send(Ok(()));
        let (Some(bridge), Some(number)) = (bridge, number) else {
            return Ok(());
        };
        // In a cell that runs again the code may not have come to it yet.
        if bridge.guests.contains_key(&number) {
            self.go_on_with(bridge, number, listener).await?;
        }
        Ok(())
    }
}

/// An answer as the code gets it.
pub(crate) async fn result_of(
    answer: &ToolAnswer,
    blobs: &Blobs,
    language: Language,
) -> Result<Result<ToolResult, ToolError>, RunError> {
    Ok(match answer {
        ToolAnswer::Value { value } => Ok(ToolResult::Value(value.clone())),
        ToolAnswer::Large { json } => {
            let value = serde_json::from_slice(&blobs.get(json).await?);
            let unread = |source| RunError::Event { seq: 0, source };
            Ok(ToolResult::Value(value.map_err(unread)?))
        }
        ToolAnswer::Kept { marker, .. } => Ok(ToolResult::Kept {
            marker: marker.clone(),
        }),
        ToolAnswer::Failed { message } | ToolAnswer::Refused { message } => {
            Err(ToolError(message.clone()))
        }
        ToolAnswer::Cancelled | ToolAnswer::Lost => {
            Err(ToolError(language.prompts().call_lost.into()))
        }
    })
}

async fn keep_value(blobs: &Blobs, value: Value) -> Result<ToolAnswer, RunError> {
    // Plain values can always be written as JSON.
    let json = serde_json::to_vec(&value).unwrap_or_default();
    if json.len() <= LARGE {
        return Ok(ToolAnswer::Value { value });
    }
    if json.len() as u64 > FILE_BYTES {
        return Ok(too_large());
    }
    let json = blobs.put(json, "application/json").await?;
    Ok(ToolAnswer::Large { json })
}

fn too_large() -> ToolAnswer {
    ToolAnswer::Failed {
        message: format!("the result is larger than {} MiB", FILE_BYTES >> 20),
    }
}
