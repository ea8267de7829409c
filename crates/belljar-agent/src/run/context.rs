//! The conversation of a run's next request to the model. It never outgrows the model's window:
//! older steps become a summary first, then long texts are cut.

use std::borrow::Cow;

use belljar_protocol::{Language, bytes_left_out};

use super::event::Start;
use super::machine::{Call, Run, Step};
use super::words;
use crate::dialect::{ANSWER, Action, Dialect, PYTHON};
use crate::tool::find_tool;
use crate::{
    Message, ModelRequest, Part, ToolCall, ToolSpec, estimate_request_tokens, estimate_tokens,
};

/// How full the window may be after steps were summed up: the next ones find room, and the request
/// begins the same way for a while, which servers keep in their caches.
const FILLED_AGAIN: f64 = 0.6;

/// Failed steps in a row before the model is asked to try another way.
const MANY_FAILURES: usize = 3;

/// The most text of a reply that was not understood.
const REPLY_QUOTED: usize = 1500;

impl Start {
    /// The tools in the prompt.
    pub fn tool_specs(&self) -> Vec<ToolSpec> {
        crate::tool::specs(&self.tools, &self.granted, self.language)
    }

    /// Tokens that a reply may have.
    fn reply_tokens(&self) -> u32 {
        self.max_tokens.min(self.context_window / 2)
    }

    /// Tokens that a conversation may have.
    fn room(&self) -> u64 {
        u64::from(self.context_window - self.reply_tokens())
            .saturating_sub(64)
            .max(256)
    }

    /// The most bytes of text that the result of one call may have: a third of the room, if a token
    /// has three bytes.
    pub fn result_bytes(&self) -> usize {
        usize::try_from(self.room())
            .unwrap_or(usize::MAX)
            .clamp(1200, 24 << 10)
    }
}

impl Run {
    /// The request for the next step.
    pub(crate) fn request(&self, start: &Start) -> ModelRequest {
        let mut request = self.uncut(start, self.collapsed);
        self.cut_to_fit(start, &mut request);
        let left = self.reply_budget(&request);
        let left = left.and_then(|tokens| u32::try_from(tokens).ok());
        if let (Some(most), Some(left)) = (&mut request.max_tokens, left) {
            *most = left.min(*most);
        }
        request
    }

    /// Tokens that the budget leaves for the reply, if it limits them.
    pub(super) fn reply_budget(&self, request: &ModelRequest) -> Option<u64> {
        let left = self.budget.tokens_left(&self.spent)?;
        Some(left.saturating_sub(self.tokens(estimate_request_tokens(request))))
    }

    /// What it started with, without tools that were taken away since (EXP-5).
    pub(super) fn offered<'a>(&self, start: &'a Start) -> Cow<'a, Start> {
        let withdrawn =
            |name: &String| find_tool(name).is_some_and(|tool| tool.is_withdrawn(&self.tools));
        if !start.tools.iter().any(withdrawn) {
            return Cow::Borrowed(start);
        }
        let mut start = start.clone();
        start.tools.retain(|name| !withdrawn(name));
        Cow::Owned(start)
    }

    fn uncut(&self, start: &Start, collapsed: usize) -> ModelRequest {
        let start = &*self.offered(start);
        ModelRequest {
            messages: self.messages(start, collapsed),
            tools: match start.dialect {
                Dialect::NativeTools => start.tool_specs(),
                Dialect::JsonAction | Dialect::Tags | Dialect::FencedCode => Vec::new(),
            },
            response_schema: start.dialect.response_schema(&start.tool_specs()),
            stop: match start.dialect {
                // Small models continue with an output of their own making.
                Dialect::FencedCode | Dialect::Tags => {
                    let next = Some(self.last_cell() + 1);
                    let output = words::observation(PYTHON, next, start.language);
                    vec![output.trim_end().to_owned()]
                }
                Dialect::NativeTools | Dialect::JsonAction => Vec::new(),
            },
            max_tokens: Some(start.reply_tokens()),
            temperature: start.temperature,
        }
    }

    /// Sums up the oldest steps if the conversation has become too long.
    pub(crate) fn compact(&mut self) {
        let Some(start) = self.start.clone() else {
            return;
        };
        let room = start.room();
        let size = |run: &Self, collapsed: usize| {
            run.tokens(estimate_request_tokens(&run.uncut(&start, collapsed)))
        };
        if size(self, self.collapsed) <= room {
            return;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of tokens"
        )]
        let goal = (room as f64 * FILLED_AGAIN) as u64;
        let most = self.steps.len().saturating_sub(1);
        while self.collapsed < most && size(self, self.collapsed) > goal {
            self.collapsed += 1;
        }
    }

    /// Tokens as the server counts them, as far as it has reported.
    fn tokens(&self, estimate: u64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of tokens"
        )]
        let tokens = (estimate as f64 * self.token_ratio.max(1.0)).ceil() as u64;
        tokens
    }

    fn messages(&self, start: &Start, collapsed: usize) -> Vec<Message> {
        let mut talk = Talk {
            messages: vec![Message::System {
                text: words::system(start),
            }],
        };
        talk.example(start);
        talk.user(words::task(start));
        let (old, live) = self.steps.split_at(collapsed.min(self.steps.len()));
        if !old.is_empty() {
            let plan = self
                .tools
                .plan
                .tree
                .as_ref()
                .map(|tree| tree.checklist(start.language));
            talk.user(words::memory(old, plan, &self.manifest, start.language));
        }
        for (index, step) in live.iter().enumerate() {
            self.tell_taken_back(collapsed + index, &mut talk);
            talk.step(start, step);
        }
        self.tell_taken_back(collapsed + live.len(), &mut talk);
        let failures = self.failures_in_a_row();
        if failures >= MANY_FAILURES {
            let planned = self.tools.plan.tree.is_some();
            talk.user(words::keeps_failing(failures, planned, start.language));
        }
        if let Some(reminder) = self.budget.reminder(&self.spent(), start.language) {
            talk.user(reminder);
        }
        talk.messages
    }

    /// Steps up to the last one of which nothing came but failures.
    fn failures_in_a_row(&self) -> usize {
        let tried = self.steps.iter().rev().filter_map(|step| {
            let results = step.calls.iter().filter(|call| call.tool != ANSWER);
            results
                .filter_map(Call::result)
                .map(|result| result.failed)
                .reduce(|all, failed| all && failed)
        });
        tried.take_while(|failed| *failed).count()
    }

    fn tell_taken_back(&self, before: usize, talk: &mut Talk) {
        if let Some((at, words)) = &self.taken_back
            && *at == before
        {
            talk.user(words.clone());
        }
    }

    /// Cuts the longest texts until the request fits, whatever is in it.
    fn cut_to_fit(&self, start: &Start, request: &mut ModelRequest) {
        let room = start.room();
        for _ in 0..64 {
            let size = self.tokens(estimate_request_tokens(request));
            if size <= room {
                return;
            }
            let over = size - room;
            let mut texts: Vec<&mut String> = request
                .messages
                .iter_mut()
                .skip(1)
                .flat_map(texts_of)
                .collect();
            texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
            let Some(longest) = texts.into_iter().next() else {
                return;
            };
            if longest.len() < 200 {
                return;
            }
            let tokens = self.tokens(estimate_tokens(longest)).max(1);
            // At least a quarter of it, so that this ends.
            let keep = tokens.saturating_sub(over).min(tokens / 4 * 3);
            let bytes = longest.len() as u64 * keep / tokens;
            cut_middle(
                longest,
                usize::try_from(bytes).unwrap_or(200).max(150),
                start.language,
            );
        }
    }
}

/// The texts of a message that may be cut.
fn texts_of(message: &mut Message) -> Vec<&mut String> {
    match message {
        Message::System { text } | Message::Assistant { text, .. } => vec![text],
        Message::User { parts } | Message::ToolResult { parts, .. } => parts
            .iter_mut()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text),
                Part::Image { .. } => None,
            })
            .collect(),
    }
}

/// Leaves the beginning and the end of a text.
pub(crate) fn cut_middle(text: &mut String, most: usize, language: Language) {
    if text.len() <= most {
        return;
    }
    let head = text.floor_char_boundary(most * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - (most - most * 2 / 3));
    let bytes = bytes_left_out(&text[head..tail]);
    let mark = language.prompts().bytes_left_out(bytes);
    text.replace_range(head..tail, &mark);
}

/// A conversation that is being put together. Messages of one side that follow each other are one:
/// the templates of some models want the sides to take turns.
struct Talk {
    messages: Vec<Message>,
}

impl Talk {
    fn user(&mut self, words: String) {
        if let Some(Message::User { parts }) = self.messages.last_mut()
            && let Some(Part::Text { text }) = parts.last_mut()
        {
            text.push_str("\n\n");
            text.push_str(&words);
            return;
        }
        self.messages.push(Message::user(words));
    }

    /// A task that was done as tasks should be. Small models follow an example better than words.
    fn example(&mut self, start: &Start) {
        if start.dialect == Dialect::NativeTools {
            return;
        }
        let [task, thought, code, output] = words::example(start.language);
        let said = |thought, action| Message::Assistant {
            text: start.dialect.render(thought, &[action]).text,
            tool_calls: Vec::new(),
            sealed_thinking: Vec::new(),
        };
        self.user(task.into());
        self.messages
            .push(said(Some(thought), Action::python(code)));
        self.user(words::observation(PYTHON, Some(1), start.language) + output);
        self.messages.push(said(None, Action::answer(output)));
    }

    fn step(&mut self, start: &Start, step: &Step) {
        let native = start.dialect == Dialect::NativeTools;
        let (text, tool_calls) = said(start, step);
        self.messages.push(Message::Assistant {
            text,
            tool_calls,
            sealed_thinking: step.reply.sealed_thinking.clone(),
        });
        for (place, call) in step.calls.iter().enumerate() {
            let Some(result) = call.result() else {
                continue;
            };
            if native {
                self.messages.push(Message::ToolResult {
                    call_id: id_of(step, place, call),
                    name: call.tool.clone(),
                    parts: vec![Part::Text {
                        text: result.text.clone(),
                    }],
                    is_error: result.failed,
                });
            } else {
                let cell = result.cell.as_ref().map(|cell| cell.number);
                let head = words::observation(&call.tool, cell, start.language);
                self.user(head + &result.text);
            }
        }
        if let Some(note) = &step.note {
            self.user(note.clone());
        }
    }
}

/// A reply as the conversation has it: in the canonical form of what was understood, so that the
/// model reads its dialect as it should be.
fn said(start: &Start, step: &Step) -> (String, Vec<ToolCall>) {
    if start.dialect == Dialect::NativeTools && step.understood {
        return said_by_calls(step);
    }
    if step.understood {
        let rendered = start.dialect.render(step.thought.as_deref(), &step.actions);
        return (rendered.text, Vec::new());
    }
    let mut text = step.reply.text.clone();
    cut_middle(&mut text, REPLY_QUOTED, start.language);
    if text.trim().is_empty() {
        text = "…".into();
    }
    (text, Vec::new())
}

/// A reply with its tool calls. Each call that is shown has its one result.
fn said_by_calls(step: &Step) -> (String, Vec<ToolCall>) {
    let ended = step.calls.iter().enumerate();
    let ended = ended.filter(|(_, call)| call.result().is_some());
    let calls: Vec<ToolCall> = ended
        .map(|(place, call)| {
            let id = id_of(step, place, call);
            // As it came, so that the server finds it in its cache.
            let came = step.reply.tool_calls.iter().find(|came| came.id == id);
            came.cloned().unwrap_or_else(|| ToolCall {
                id,
                name: call.tool.clone(),
                arguments: call.arguments.to_string(),
            })
        })
        .collect();
    let answer = step.actions.iter().find_map(|action| match action {
        Action::Answer { text, .. } => Some(text.as_str()),
        Action::Tool { .. } | Action::Refused { .. } => None,
    });
    // Calls that stood in the text are shown as calls, and no longer in the text.
    let text = if step.reply.tool_calls.is_empty() && !calls.is_empty() {
        step.thought.as_deref().unwrap_or_default()
    } else if calls.is_empty() && step.reply.text.trim().is_empty() {
        answer.unwrap_or("…")
    } else {
        &step.reply.text
    };
    (text.to_owned(), calls)
}

/// The id of a call in the conversation: the provider's; none for the older `function_call`, whose
/// result goes without one too; one of ours for a call that stood in the text.
fn id_of(step: &Step, place: usize, call: &Call) -> String {
    match &call.call_id {
        Some(id) => id.clone(),
        None if step.reply.tool_calls.is_empty() => format!("call_{}_{place}", step.number),
        None => String::new(),
    }
}
