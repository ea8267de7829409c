//! What an editor shows of a run: its events, while they happen or from its journal, as updates of a
//! session.
//!
//! Updates wait here until they are taken. Parts of a text are joined, and output of a cell is one
//! update that replaces the one before: a client that reads slowly never makes this grow beyond the run
//! itself.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate,
    ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, UsageUpdate,
};
use belljar_agent::{
    ANSWER, Call, CallResult, Decision, Dialect, PLAN, PYTHON, Progress, READ_FILE, Reply,
    ReplyEvent, Run, RunEvent, Subject, Task, TaskStatus, ToolAnswer,
};
use belljar_journal::RunId;
use belljar_protocol::{Event, Language, PlainStream, plain};
use serde_json::json;

use crate::cell_view::{Image, OUTPUT, cell_content, images};
use crate::permission;
use crate::results::ending;
use crate::words::{call_id, code_title, fenced, message, tail, text, title};

/// The least time between two updates of a cell that prints.
const BETWEEN: Duration = Duration::from_millis(250);

/// The most tasks of a plan.
const TASKS: usize = 200;

/// What happens in a run, on its way to an editor.
pub(crate) struct Updates {
    run: RunId,
    artifacts: PathBuf,
    language: Language,
    /// Whether the text of a reply is for a reader: in other dialects it contains actions.
    text_is_plain: bool,
    waiting: Vec<SessionUpdate>,
    /// The text of the reply, as far as it was shown.
    said: String,
    /// Whether anything was said in the run.
    has_spoken: bool,
    /// The thoughts of the reply were shown as they came.
    thought: bool,
    cell: Option<RunningCell>,
    /// Calls of code that have an entry of their own: those that needed approval.
    asked: HashSet<String>,
}

/// A cell that runs.
struct RunningCell {
    id: String,
    code: String,
    stream: PlainStream,
    output: String,
    images: Vec<Image>,
    changed: bool,
    shown: Option<Instant>,
}

impl Updates {
    pub(crate) fn new(
        run: RunId,
        artifacts: PathBuf,
        dialect: Dialect,
        language: Language,
    ) -> Self {
        Self {
            run,
            artifacts,
            language,
            text_is_plain: dialect == Dialect::NativeTools,
            waiting: Vec::new(),
            said: String::new(),
            has_spoken: false,
            thought: false,
            cell: None,
            asked: HashSet::new(),
        }
    }

    /// Takes what waits. Output of a running cell is among it if it was not for a while.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<SessionUpdate> {
        let is_due = |cell: &RunningCell| {
            cell.changed && cell.shown.is_none_or(|shown| now - shown >= BETWEEN)
        };
        if let Some(cell) = self.cell.as_mut().filter(|cell| is_due(cell)) {
            cell.changed = false;
            cell.shown = Some(now);
            let content = cell_content(&cell.code, &cell.output, &[]);
            let fields = ToolCallUpdateFields::new().content(content);
            let update = ToolCallUpdate::new(cell.id.clone(), fields);
            self.waiting.push(SessionUpdate::ToolCallUpdate(update));
        }
        std::mem::take(&mut self.waiting)
    }

    /// Something happens.
    pub(crate) fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Starts => {}
            Progress::Event(event, run) => self.event(event, run, None),
            Progress::Reply(event) => self.reply(event),
            Progress::Cell(event) => self.cell(event),
        }
    }

    fn reply(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::Text { delta } if self.text_is_plain => self.say_more(delta),
            ReplyEvent::Thinking { delta } => {
                self.thought = true;
                self.think(delta);
            }
            ReplyEvent::Retrying { after_ms, why } => {
                self.said.clear();
                let texts = &self.language.texts().run;
                #[expect(clippy::cast_precision_loss, reason = "a time to show")]
                let line = texts.retrying(&plain(why), *after_ms as f64 / 1000.0);
                self.think(&format!("\n\n{line}\n\n"));
            }
            ReplyEvent::Text { .. }
            | ReplyEvent::ToolCall { .. }
            | ReplyEvent::ToolArguments { .. } => {}
        }
    }

    fn cell(&mut self, event: &Event) {
        let Some(cell) = &mut self.cell else { return };
        match event {
            Event::Output { text, .. } => {
                let text = cell.stream.push(text).into_owned();
                cell.push(&text);
            }
            Event::Display(display) => {
                if let Some(text) = display.text() {
                    cell.push(&format!("{}\n", plain(text)));
                }
            }
            Event::Cleared { .. } => cell.output.clear(),
            Event::Outcome(outcome) => cell.images = images(&outcome.displays),
            _ => {}
        }
    }

    /// An event of the journal. `images` are those of the call that it ends, if the cell was not seen.
    pub(crate) fn event(&mut self, event: &RunEvent, run: &Run, images: Option<Vec<Image>>) {
        match event {
            RunEvent::Asked { .. } => {
                self.said.clear();
                self.thought = false;
            }
            RunEvent::Replied { reply, .. } => self.replied(reply, run),
            RunEvent::CallStarted { step, call } => self.started(*step, *call, run),
            RunEvent::CallEnded { step, call, result } => {
                self.ended(*step, *call, result, run, images);
            }
            RunEvent::CallLost { step, call, .. } => {
                self.cell = None;
                self.status(&format!("{step}.{call}"), ToolCallStatus::Failed);
            }
            RunEvent::ApprovalAsked(approval) => {
                if let Subject::Call { tool, number, .. } = &approval.subject
                    && *number > 0
                {
                    let id = self.call_id(&approval.id);
                    let call = ToolCall::new(id.clone(), title(tool))
                        .content(vec![text(permission::shown(approval)).into()]);
                    self.waiting.push(SessionUpdate::ToolCall(call));
                    self.asked.insert(id);
                }
            }
            RunEvent::ApprovalDecided {
                approval,
                decision: Decision::Reject | Decision::Feedback { .. },
                ..
            } => {
                self.status(approval, ToolCallStatus::Failed);
            }
            RunEvent::ToolAnswered {
                step,
                call,
                number,
                answer,
            } => {
                let id = format!("{step}.{call}.{number}");
                if self.asked.remove(&self.call_id(&id)) {
                    let done = matches!(
                        answer,
                        ToolAnswer::Value { .. }
                            | ToolAnswer::Large { .. }
                            | ToolAnswer::Kept { .. }
                    );
                    let status = if done {
                        ToolCallStatus::Completed
                    } else {
                        ToolCallStatus::Failed
                    };
                    self.status(&id, status);
                }
            }
            RunEvent::Ended(end) => {
                let said = std::mem::take(&mut self.said);
                for block in ending(end, &self.artifacts, &said, self.language) {
                    if matches!(block, ContentBlock::Text(_)) {
                        self.break_text();
                    }
                    self.waiting.push(message(block));
                }
            }
            _ => {}
        }
    }

    fn replied(&mut self, reply: &Reply, run: &Run) {
        let Some(step) = run.steps().last() else {
            return;
        };
        if !self.thought && !reply.thinking.is_empty() {
            self.think(&reply.thinking);
        }
        if self.text_is_plain {
            // From a journal, or by a server that does not stream.
            if self.said.is_empty() && !reply.text.is_empty() {
                self.say_more(&reply.text);
            }
        } else if let Some(thought) = &step.thought {
            self.think(&format!("{thought}\n\n"));
        }
        for (call, place) in step.calls.iter().zip(0_u32..) {
            self.call(&format!("{}.{place}", step.number), call);
        }
        let used = reply.usage.input_tokens + reply.usage.output_tokens;
        if let Some(start) = run.start().filter(|_| used > 0) {
            let usage = UsageUpdate::new(used, start.context_window.into());
            self.waiting.push(SessionUpdate::UsageUpdate(usage));
        }
    }

    /// The entry of a call that is to be performed.
    fn call(&mut self, id: &str, call: &Call) {
        if call.tool == PLAN {
            return;
        }
        if call.tool == ANSWER {
            // It was not accepted.
            if let Some(refused) = call.result() {
                self.think(&format!("\n\n{}\n\n", plain(&refused.text)));
            }
            return;
        }
        let mut entry = ToolCall::new(self.call_id(id), call_title(call))
            .kind(kind(&call.tool))
            .raw_input(call.arguments.clone());
        let mut content = match call.code() {
            Some(code) => cell_content(code, "", &[]),
            None => Vec::new(),
        };
        // It was not performed, and this is why.
        if let Some(refused) = call.result() {
            entry = entry.status(ToolCallStatus::Failed);
            content.push(text(fenced("", &tail(&plain(&refused.text), OUTPUT))).into());
        }
        self.waiting
            .push(SessionUpdate::ToolCall(entry.content(content)));
    }

    fn started(&mut self, step: u32, place: u32, run: &Run) {
        let Some(call) = find(run, step, place).filter(|call| call.tool != PLAN) else {
            return;
        };
        let id = format!("{step}.{place}");
        self.status(&id, ToolCallStatus::InProgress);
        if call.tool == PYTHON {
            self.cell = Some(RunningCell {
                id: self.call_id(&id),
                code: call.code().unwrap_or_default().to_owned(),
                stream: PlainStream::default(),
                output: String::new(),
                images: Vec::new(),
                changed: false,
                shown: None,
            });
        }
    }

    fn ended(
        &mut self,
        step: u32,
        place: u32,
        result: &CallResult,
        run: &Run,
        images: Option<Vec<Image>>,
    ) {
        let call = find(run, step, place);
        if call.is_some_and(|call| call.tool == PLAN) {
            if !result.failed {
                self.plan(run);
            }
            return;
        }
        let running = self.cell.take();
        let images = images.or(running.map(|it| it.images));
        let output = match &result.cell {
            Some(ran) if !result.failed => &ran.output,
            _ => &result.text,
        };
        let code = call.and_then(Call::code).unwrap_or_default();
        let content = cell_content(code, &plain(output), &images.unwrap_or_default());
        let status = if result.failed {
            ToolCallStatus::Failed
        } else {
            ToolCallStatus::Completed
        };
        let mut fields = ToolCallUpdateFields::new().status(status).content(content);
        if let Some(ran) = &result.cell {
            fields = fields.raw_output(json!({
                "cell": ran.number,
                "failed": result.failed,
                "error": ran.error,
                "artifacts": ran.artifacts,
                "variables_lost": ran.lost,
                "took_ms": result.took_ms,
            }));
        }
        self.change(&format!("{step}.{place}"), fields);
    }

    fn plan(&mut self, run: &Run) {
        fn list(tasks: &[Task], level: usize, entries: &mut Vec<PlanEntry>) {
            for task in tasks {
                if entries.len() == TASKS {
                    return;
                }
                let (status, mark) = match task.status {
                    TaskStatus::Pending | TaskStatus::Retry => (PlanEntryStatus::Pending, ""),
                    TaskStatus::Processing => (PlanEntryStatus::InProgress, ""),
                    TaskStatus::Completed => (PlanEntryStatus::Completed, ""),
                    TaskStatus::Failed => (PlanEntryStatus::Completed, "failed: "),
                    TaskStatus::Skipped => (PlanEntryStatus::Completed, "skipped: "),
                };
                let indent = "  ".repeat(level);
                let name = format!("{indent}{mark}{}", title(&plain(&task.task_name)));
                entries.push(PlanEntry::new(name, PlanEntryPriority::Medium, status));
                list(&task.children, level + 1, entries);
            }
        }
        let Some(tree) = &run.plan().tree else { return };
        let mut entries = Vec::new();
        list(&tree.tree_nodes, 0, &mut entries);
        self.waiting.push(SessionUpdate::Plan(Plan::new(entries)));
    }

    /// The id of a call in its session, which has several runs.
    fn call_id(&self, id: &str) -> String {
        call_id(&self.run, id)
    }

    fn status(&mut self, id: &str, status: ToolCallStatus) {
        self.change(id, ToolCallUpdateFields::new().status(status));
    }

    fn change(&mut self, id: &str, fields: ToolCallUpdateFields) {
        let update = ToolCallUpdate::new(self.call_id(id), fields);
        self.waiting.push(SessionUpdate::ToolCallUpdate(update));
    }

    /// More of a reply's text.
    fn say_more(&mut self, delta: &str) {
        if self.said.is_empty() {
            self.break_text();
        }
        self.said.push_str(delta);
        self.say(delta);
    }

    /// An empty line between what was said and what comes.
    fn break_text(&mut self) {
        if std::mem::replace(&mut self.has_spoken, true) {
            self.say("\n\n");
        }
    }

    fn say(&mut self, delta: &str) {
        let more = match self.waiting.last_mut() {
            Some(SessionUpdate::AgentMessageChunk(chunk)) => join(chunk, delta),
            _ => false,
        };
        if !more {
            self.waiting.push(message(text(delta)));
        }
    }

    fn think(&mut self, delta: &str) {
        let more = match self.waiting.last_mut() {
            Some(SessionUpdate::AgentThoughtChunk(chunk)) => join(chunk, delta),
            _ => false,
        };
        if !more {
            let chunk = ContentChunk::new(text(delta));
            self.waiting.push(SessionUpdate::AgentThoughtChunk(chunk));
        }
    }
}

impl RunningCell {
    fn push(&mut self, text: &str) {
        self.output.push_str(text);
        if self.output.len() > 2 * OUTPUT {
            self.output = tail(&self.output, OUTPUT);
        }
        self.changed = true;
    }
}

/// Adds to a text that was not sent yet.
fn join(chunk: &mut ContentChunk, delta: &str) -> bool {
    match &mut chunk.content {
        ContentBlock::Text(content) => {
            content.text.push_str(delta);
            true
        }
        _ => false,
    }
}

fn find(run: &Run, step: u32, place: u32) -> Option<&Call> {
    let step = run.steps().iter().rev().find(|it| it.number == step)?;
    step.calls.get(usize::try_from(place).ok()?)
}

fn kind(tool: &str) -> ToolKind {
    match tool {
        PYTHON | belljar_agent::RUN_COMMAND => ToolKind::Execute,
        READ_FILE => ToolKind::Read,
        belljar_agent::COMPUTE => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

fn call_title(call: &Call) -> String {
    match call.code() {
        Some(code) => code_title(code),
        None => title(&call.tool),
    }
}

#[cfg(test)]
mod tests;
