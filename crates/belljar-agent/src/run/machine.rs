//! A run as a pure state machine: events in, effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use belljar_journal::BlobRef;
use belljar_protocol::{Artifact, Language, NameInfo};
use belljar_sandbox::ToolSignature;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval::{Approval, Approvals, Policy, ShellCommand};
use super::bridge::CellCall;
use super::budget::{Budget, BudgetPart, ExitReason, Spent};
use super::call_history::CallHistory;
use super::event::{CallResult, Ending, Parent, RunEvent, Start};
use super::evidence::Source;
use super::risk::Earlier;
use super::{gate, words};
use crate::dialect::{Action, PYTHON, RawToolCall, ReplyParts};
use crate::tool::{Computations, Plan, ToolState, find_tool};
use crate::{Finish, Mending, ModelRequest, Reply};

/// Replies in a row that could not be understood, before the run ends.
const MOST_MISUNDERSTOOD: u32 = 4;

/// A request is not sent if the budget leaves fewer tokens than this for its reply.
const LEAST_REPLY: u64 = 16;

/// The most text of outputs that is kept to look for values of the answer.
const KEPT_OUTPUT: usize = 64 << 10;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a request to the model.
    AskModel {
        /// The step of the reply.
        step: u32,
        /// The request.
        request: Box<ModelRequest>,
    },
    /// Perform tool calls, concurrently if possible.
    Perform {
        /// The step that they belong to.
        step: u32,
        /// Each with its index in the step.
        calls: Vec<(u32, Call)>,
    },
    /// Request an approval.
    Ask {
        /// The approval.
        approvals: Vec<Approval>,
    },
    /// Wait for a person.
    Await,
    /// A cell that called tools was begun by a host that died. Run it again with the recorded
    /// answers.
    RunAgain {
        /// The step.
        step: u32,
        /// Its index.
        call: u32,
    },
    /// A call was begun by a host that died: note that; it is not begun again.
    NoteLost {
        /// The step.
        step: u32,
        /// Its index.
        call: u32,
    },
    /// Restore the session to its state before a step.
    RollBack {
        /// The step.
        step: u32,
        /// The last cell before it; 0 for none. `None` if its session is gone.
        cell: Option<u32>,
    },
    /// End the run.
    Finish(Box<Ending>),
    /// It has ended.
    Nothing,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The provider's id for it.
    pub call_id: Option<String>,
    /// The hash of the code that a person has approved.
    pub(crate) approved: Option<String>,
    pub(crate) state: CallState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum CallState {
    Waiting,
    Started,
    Ended(Box<CallResult>),
}

impl CallState {
    /// A call that was not performed, and the message for the model instead.
    pub(crate) fn refused(text: String) -> Self {
        Self::Ended(Box::new(CallResult {
            text,
            failed: true,
            ..CallResult::default()
        }))
    }
}

impl Call {
    /// The code to run, for tools that run some.
    pub fn code(&self) -> Option<&str> {
        self.arguments.get("code").and_then(Value::as_str)
    }

    /// The command to run, for tools that run one.
    pub(crate) fn command(&self) -> Option<ShellCommand> {
        find_tool(&self.tool)?.command(&self.arguments)
    }

    /// Its result, once it has ended.
    pub fn result(&self) -> Option<&CallResult> {
        match &self.state {
            CallState::Ended(result) => Some(result),
            CallState::Waiting | CallState::Started => None,
        }
    }
}

/// One turn of the model, and what it caused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Counted from 1.
    pub number: u32,
    /// The text of the reply.
    pub reply: Reply,
    /// Its reasoning, if any.
    pub thought: Option<String>,
    /// Its actions.
    pub actions: Vec<Action>,
    /// What had to be mended to understand it.
    pub mended: Vec<Mending>,
    /// The resulting calls.
    pub calls: Vec<Call>,
    /// The host's note about it for the model.
    pub note: Option<String>,
    /// Whether it could be understood.
    pub understood: bool,
}

/// Why a model is asked again for its answer, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AskedAgain {
    /// Doubts about the answer as a whole.
    Doubts,
    /// A second derivation.
    Review,
}

/// The journal has an event that contradicts the events before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal is inconsistent: `{kind}` cannot come {when}")]
pub struct Misfit {
    kind: &'static str,
    when: &'static str,
}

/// A run. It is made of its events and of nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub(crate) start: Option<Start>,
    pub(crate) steps: Vec<Step>,
    /// How many of the steps are in the conversation only as a summary.
    pub(crate) collapsed: usize,
    pub(crate) manifest: Vec<NameInfo>,
    /// Tokens that the server counts for each that we estimate: at least 1.
    pub(crate) token_ratio: f64,
    asked_estimate: u64,
    asked: u32,
    /// The current budget.
    pub(super) budget: Budget,
    pub(super) spent: Spent,
    #[serde(flatten)]
    pub(crate) tools: ToolState,
    pub(super) call_history: CallHistory,
    pub(super) outputs: Vec<Source>,
    pub(super) artifacts: BTreeMap<String, Artifact>,
    misunderstood: u32,
    /// Replies that needed mending, and those that could not be mended.
    first_parse: (u32, u32),
    pub(super) sent_back: Vec<String>,
    pub(super) going_back_to: Option<u32>,
    /// The position of the note about the rollback: before this many steps.
    pub(crate) taken_back: Option<(usize, String)>,
    last_cell: u32,
    /// Where its session is saved as it is now, in a cluster.
    saved: Option<BlobRef>,
    /// How many cells its first session had run when it got it.
    cells_before: u32,
    pub(super) approvals: Approvals,
    /// What earlier cells show about the names of the session.
    pub(super) earlier: Earlier,
    /// The policy as it was set, whatever a person has allowed since for the rest of the run.
    policy: Policy,
    /// The pending approvals.
    pub(super) undecided: Vec<Approval>,
    /// The calls of the running cell.
    pub(super) cell_calls: Vec<CellCall>,
    /// The values of markers.
    pub(super) kept: BTreeMap<String, BlobRef>,
    /// The step in which the current session started.
    session_since: u32,
    pub(super) last_call_failed: bool,
    /// The last code that was refused unrun.
    held_back: Option<String>,
    /// Why the model was asked again for its answer.
    pub(super) asked_again: Vec<AskedAgain>,
    failed: Option<String>,
    stopped: bool,
    ended: Option<Ending>,
}

impl Run {
    /// Folds events into a run.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a RunEvent>) -> Result<Self, Misfit> {
        let mut run = Self::default();
        for event in events {
            run.apply(event)?;
        }
        Ok(run)
    }

    /// Its start, once it has started.
    pub fn start(&self) -> Option<&Start> {
        self.start.as_ref()
    }

    /// The language of prompts and messages.
    pub(crate) fn language(&self) -> Language {
        self.start
            .as_ref()
            .map(|start| start.language)
            .unwrap_or_default()
    }

    /// The current budget: that of its start, and later raises.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The current approval policy.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The approval policy as it was set last. What a person allowed for the rest of the run is in
    /// [`approvals`](Self::approvals) alone, and ends with it.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What it has used.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Its steps, without those that were rolled back.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Its plan.
    pub fn plan(&self) -> &Plan {
        &self.tools.plan
    }

    /// How often a reply had to be mended, and how often that failed.
    pub fn first_parse_failures(&self) -> (u32, u32) {
        self.first_parse
    }

    /// Its end, once it has ended.
    pub fn ending(&self) -> Option<&Ending> {
        self.ended.as_ref()
    }

    /// The last result of a computation.
    pub fn computations(&self) -> &Computations {
        &self.tools.computations
    }

    /// The last manifest of its session.
    pub fn manifest(&self) -> &[NameInfo] {
        &self.manifest
    }

    /// The step in which its current session started.
    pub(crate) fn session_since(&self) -> u32 {
        self.session_since
    }

    /// The number of the last cell in its current session; 0 for none.
    pub fn last_cell(&self) -> u32 {
        self.last_cell
    }

    /// The run whose session this one would continue: only as long as it has started none itself.
    pub(crate) fn untouched_parent(&self) -> Option<&Parent> {
        let parent = self.start.as_ref()?.parent.as_deref();
        parent.filter(|_| self.last_cell == 0 && self.session_since == 0)
    }

    /// The number of the last cell in the session that a follow-up continues; 0 for none.
    pub(crate) fn kept_cell(&self) -> u32 {
        self.untouched_parent()
            .map_or(self.last_cell, |parent| parent.kept_cells)
    }

    /// Where the session that it or a follow-up continues is saved, in a cluster.
    pub(crate) fn saved_session(&self) -> Option<&BlobRef> {
        match self.untouched_parent() {
            Some(parent) => parent.session.as_ref(),
            None => self.saved.as_ref(),
        }
    }

    /// How many calls have started and have no end yet.
    pub fn started_calls(&self) -> usize {
        let calls = self.steps.last().into_iter().flat_map(|step| &step.calls);
        calls
            .filter(|call| call.state == CallState::Started)
            .count()
    }

    /// What to do next. The same until an event is applied.
    pub fn effect(&self) -> Effect {
        let Some(start) = &self.start else {
            return Effect::Nothing;
        };
        if self.ended.is_some() {
            return Effect::Nothing;
        }
        if self.stopped {
            return self.finish(ExitReason::Stopped);
        }
        if let Some(error) = &self.failed {
            let error = error.clone();
            return self.finish(ExitReason::ModelFailed { error });
        }
        if let Some(step) = self.going_back_to {
            if self.spent.repeats >= self.budget.repeats {
                return self.finish(ExitReason::Repetition);
            }
            let cell = self.cell_before(step);
            return Effect::RollBack { step, cell };
        }
        if let Some(step) = self.steps.last() {
            for (call, place) in step.calls.iter().zip(0..) {
                if call.state == CallState::Started {
                    let (step, call) = (step.number, place);
                    return if self.cell_calls.is_empty() {
                        Effect::NoteLost { step, call }
                    } else {
                        Effect::RunAgain { step, call }
                    };
                }
            }
            let approvals = self.unasked(step);
            if !approvals.is_empty() {
                return Effect::Ask { approvals };
            }
            if !self.undecided.is_empty() {
                return Effect::Await;
            }
            let calls: Vec<(u32, Call)> = (0..)
                .zip(&step.calls)
                .filter(|(_, call)| call.state == CallState::Waiting)
                .map(|(place, call)| (place, call.clone()))
                .collect();
            if !calls.is_empty() {
                if self.budget.time_left(&self.spent) == Some(Duration::ZERO) {
                    let part = BudgetPart::Seconds;
                    return self.finish(ExitReason::Budget { part });
                }
                return Effect::Perform {
                    step: step.number,
                    calls,
                };
            }
            if let Some(answer) = self.accepted() {
                return self.finish_with(answer);
            }
        }
        if self.misunderstood >= MOST_MISUNDERSTOOD {
            return self.finish(ExitReason::NotUnderstood);
        }
        if let Some(part) = self.budget.exceeded_by(&self.spent) {
            return self.finish(ExitReason::Budget { part });
        }
        let request = Box::new(self.request(start));
        let left = self.reply_budget(&request);
        if left.is_some_and(|tokens| tokens < LEAST_REPLY) {
            let part = BudgetPart::Tokens;
            return self.finish(ExitReason::Budget { part });
        }
        Effect::AskModel {
            step: self.asked + 1,
            request,
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &RunEvent) -> Result<(), Misfit> {
        let kind = event.kind();
        let misfit = |when| Misfit { kind, when };
        if self.ended.is_some() {
            return Err(misfit("after the end"));
        }
        let begins = matches!(event, RunEvent::Started(_));
        if begins != self.start.is_none() {
            return Err(misfit(if begins { "twice" } else { "before the start" }));
        }
        match event {
            RunEvent::Started(start) => {
                self.start = Some((**start).clone());
                self.approvals = start.approvals.clone();
                self.policy = start.approvals.policy;
                self.budget = start.budget.clone();
                if let Some(parent) = &start.parent {
                    self.manifest.clone_from(&parent.manifest);
                }
                self.token_ratio = 1.0;
            }
            RunEvent::Asked { step, .. } => {
                if *step != self.asked + 1 && *step != self.asked {
                    return Err(misfit("at another step"));
                }
                self.asked = *step;
                if let Some(start) = &self.start {
                    self.asked_estimate = crate::estimate_request_tokens(&self.request(start));
                }
            }
            RunEvent::Replied {
                step,
                reply,
                took_ms,
                cost,
            } => {
                if *step != self.asked || self.steps.last().is_some_and(|s| s.number >= *step) {
                    return Err(misfit("without a question"));
                }
                self.spent.model_ms += took_ms;
                self.spent.money += cost.unwrap_or(0.0);
                self.replied(*step, reply);
            }
            RunEvent::ModelFailed { error, .. } => self.failed = Some(error.clone()),
            RunEvent::CallStarted { step, call } => {
                self.call(*step, *call)
                    .ok_or_else(|| misfit("for a call that is not there"))?
                    .state = CallState::Started;
                self.cell_calls.clear();
            }
            RunEvent::CallEnded { step, call, result } => {
                let ended = self
                    .call(*step, *call)
                    .filter(|call| call.result().is_none());
                let ended = ended.ok_or_else(|| misfit("for a call that does not wait"))?;
                ended.state = CallState::Ended(result.clone());
                let ended = ended.clone();
                if result.cell.is_some() || ended.command().is_some() || result.session.is_some() {
                    self.saved.clone_from(&result.session);
                }
                if let Some(code) = ended.code().filter(|_| ended.tool == PYTHON) {
                    self.earlier.learn(code, result.failed);
                }
                self.forget_calls();
                self.call_ended(*step, &ended, result);
                self.compact();
            }
            RunEvent::CallLost {
                step,
                call,
                differs,
            } => {
                let words = self.lost_words(*differs);
                let lost = self
                    .call(*step, *call)
                    .filter(|call| call.state == CallState::Started);
                let lost = lost.ok_or_else(|| misfit("for a call that was not begun"))?;
                lost.state = CallState::refused(words);
                let code = lost
                    .code()
                    .filter(|_| lost.tool == PYTHON)
                    .map(str::to_owned);
                if let Some(code) = code {
                    self.earlier.learn(&code, true);
                }
                self.forget_calls();
                self.spent.calls += 1;
            }
            RunEvent::BudgetRaised { raise } => self.budget.raise(raise),
            // What waits for a person waits on.
            RunEvent::PolicySet { policy } => {
                self.approvals.policy = *policy;
                self.policy = *policy;
            }
            RunEvent::ApprovalAsked(_)
            | RunEvent::ApprovalDecided { .. }
            | RunEvent::ToolCalled { .. }
            | RunEvent::Branched { .. }
            | RunEvent::ToolAnswered { .. } => self.bridge_event(event).map_err(misfit)?,
            RunEvent::SessionStarted {
                note,
                cells,
                manifest,
                session,
            } => {
                self.manifest.clone_from(manifest);
                self.saved.clone_from(session);
                if self.last_cell == 0 {
                    // Of the run that this one continues.
                    self.cells_before = *cells;
                }
                self.last_cell = *cells;
                if *cells == 0 {
                    self.session_since = self.steps.last().map_or(0, |step| step.number);
                }
                if let Some(note) = note {
                    self.add_note(note);
                }
            }
            RunEvent::RolledBack {
                step,
                restored,
                manifest,
                session,
            } => {
                self.saved.clone_from(session);
                // Whether it was wanted is not asked: who made this journal may have judged otherwise.
                if *step > self.asked {
                    return Err(misfit("to a step that was not begun"));
                }
                if *restored && self.cell_before(*step) == Some(0) {
                    self.last_cell = 0;
                }
                self.take_back(*step, *restored, manifest);
            }
            RunEvent::Stopped => {
                self.stopped = true;
                self.undecided.clear();
            }
            RunEvent::Ended(ending) => self.ended = Some((**ending).clone()),
        }
        Ok(())
    }

    /// The last cell before a step, in the current session: 0 if the step was the first one with a
    /// cell, `None` if the cell ran in an earlier session.
    fn cell_before(&self, step: u32) -> Option<u32> {
        let before = self.steps.iter().filter(|other| other.number < step);
        let cells = before.flat_map(|step| {
            let results = step.calls.iter().filter_map(Call::result);
            results.filter_map(|result| Some((step.number, result.cell.as_ref()?)))
        });
        match cells.last() {
            None => Some(self.cells_before),
            Some((_, cell)) if cell.lost => Some(0),
            Some((ran_in, cell)) => (ran_in >= self.session_since).then_some(cell.number),
        }
    }

    pub(super) fn call(&mut self, step: u32, call: u32) -> Option<&mut Call> {
        let last = self.steps.last_mut().filter(|last| last.number == step)?;
        last.calls.get_mut(usize::try_from(call).ok()?)
    }

    fn replied(&mut self, number: u32, reply: &Reply) {
        let Some(start) = &self.start else { return };
        self.spent.steps += 1;
        self.spent.input_tokens += reply.usage.input_tokens;
        self.spent.output_tokens += reply.usage.output_tokens;
        if !reply.usage.estimated && self.asked_estimate > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a ratio of token counts")]
            let ratio = reply.usage.input_tokens as f64 / self.asked_estimate as f64;
            self.token_ratio = self.token_ratio.max(ratio.clamp(1.0, 3.0));
        }
        let tool_calls: Vec<RawToolCall> = reply
            .tool_calls
            .iter()
            .map(|call| RawToolCall {
                id: Some(call.id.clone()).filter(|id| !id.is_empty()),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            })
            .collect();
        let parts = ReplyParts {
            text: &reply.text,
            tool_calls: &tool_calls,
            truncated: reply.finish == Finish::Length,
        };
        let mut step = Step {
            number,
            reply: reply.clone(),
            thought: None,
            actions: Vec::new(),
            mended: Vec::new(),
            calls: Vec::new(),
            note: None,
            understood: true,
        };
        match start
            .dialect
            .parse(&parts, &self.offered(start).tool_specs())
        {
            Ok(parsed) => {
                self.misunderstood = 0;
                self.first_parse.0 += u32::from(!parsed.mended.is_empty());
                step.thought = parsed.thought;
                step.mended = parsed.mended;
                step.calls = parsed
                    .actions
                    .iter()
                    .filter_map(|a| call_of(a, start))
                    .collect();
                step.actions = parsed.actions;
            }
            Err(unparsed) => {
                self.misunderstood += 1;
                self.first_parse.1 += 1;
                step.understood = false;
                step.note = Some(unparsed.repair_request(start.language));
            }
        }
        self.look_before(&mut step);
        self.steps.push(step);
        self.judge_answer();
        self.compact();
    }

    /// Refuses code that uses undefined names, or calls tools in a way that can't succeed; the same
    /// code again is run.
    fn look_before(&mut self, step: &mut Step) {
        let language = self.language();
        let granted = self.start.as_ref().map_or(&[][..], |start| &start.granted);
        let tools = granted
            .iter()
            .filter_map(|tool| ToolSignature::new(&tool.stub).ok());
        let tools: Vec<ToolSignature> = tools.collect();
        let names = self.manifest.iter().map(|name| name.name.clone());
        let mut known: BTreeSet<String> = names.collect();
        for call in &mut step.calls {
            let Some(code) = call.code().filter(|_| call.tool == PYTHON) else {
                continue;
            };
            let wrong = gate::wrong_calls(code, &tools, &known);
            let missing = gate::undefined(code, &mut known);
            let words = match (missing.is_empty(), wrong.is_empty()) {
                (true, true) => continue,
                (false, _) => words::not_run(&missing, language),
                (true, false) => gate::words_wrong_calls(&wrong, language),
            };
            if self.held_back.as_deref() != Some(code) {
                self.held_back = Some(code.to_owned());
                call.state = CallState::refused(words);
            }
        }
    }

    fn call_ended(&mut self, number: u32, call: &Call, result: &CallResult) {
        self.spent.calls += 1;
        self.spent.tool_ms += result.took_ms;
        self.last_call_failed = result.failed;
        if let Some(cell) = &result.cell {
            self.last_cell = cell.number;
            self.manifest.clone_from(&cell.manifest);
            for artifact in &cell.artifacts {
                self.artifacts
                    .insert(artifact.path.clone(), artifact.clone());
            }
        }
        let language = self.language();
        let note = find_tool(&call.tool)
            .and_then(|tool| tool.remember(&mut self.tools, &call.arguments, result, language));
        if let Some(note) = note {
            self.add_note(&note);
        }
        let output = result
            .cell
            .as_ref()
            .map_or(&result.text, |cell| &cell.output);
        let number_of_cell = result.cell.as_ref().map(|cell| cell.number);
        let output = &output[..output.floor_char_boundary(KEPT_OUTPUT)];
        if !(result.failed && result.cell.is_none()) {
            let code = call.code().filter(|_| call.tool == PYTHON);
            self.outputs.push(Source {
                step: number,
                cell: number_of_cell,
                text: output.to_owned(),
                code: code.unwrap_or_default().to_owned(),
                failed: result.failed,
            });
        }
        let size = |outputs: &[Source]| -> usize {
            let sizes = outputs.iter().map(|one| one.text.len() + one.code.len());
            sizes.sum()
        };
        while self.outputs.len() > 1 && size(&self.outputs) > 16 * KEPT_OUTPUT {
            self.outputs.remove(0);
        }
        self.notice_repetition(number, call, result);
    }

    /// Adds to the message for the model after the last step.
    pub(super) fn add_note(&mut self, note: &str) {
        let Some(step) = self.steps.last_mut() else {
            return;
        };
        match &mut step.note {
            Some(before) => {
                before.push('\n');
                before.push_str(note);
            }
            None => step.note = Some(note.to_owned()),
        }
    }
}

fn call_of(action: &Action, start: &Start) -> Option<Call> {
    match action {
        Action::Tool {
            name,
            arguments,
            call_id,
        } => Some(Call {
            tool: name.clone(),
            arguments: arguments.clone(),
            call_id: call_id.clone(),
            approved: None,
            state: CallState::Waiting,
        }),
        // It is a call with a result only if it is sent back.
        Action::Answer { .. } => None,
        Action::Refused {
            name,
            problem,
            call_id,
        } => Some(Call {
            tool: name.clone(),
            arguments: Value::Null,
            call_id: call_id.clone(),
            approved: None,
            state: CallState::refused(problem.repair_request(start.language)),
        }),
    }
}
