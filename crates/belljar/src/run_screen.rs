//! A run as a person sees it: on a terminal what the model writes while it writes it, and everywhere
//! its thoughts and code as they were understood, output as it comes, the plan, the end.
//!
//! All of it is text of a model or of a guest, and goes out without commands to a terminal.

use std::fmt::{Display, Write as _};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belljar_agent::{
    Branch, Call, Decision, ExitReason, PLAN, PYTHON, Progress, ReplyEvent, Run, RunEvent, Spent,
    Task, TaskStatus, ToolAnswer,
};
use belljar_sandbox::protocol::texts::RunTexts;
use belljar_sandbox::protocol::{Event, Language, Outcome, PlainStream, Status, Stream};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;

use crate::{highlight, show, show_image};

/// What is shown of a reply while it comes: lines, and characters of one.
const TAIL_LINES: usize = 6;
const TAIL_COLUMNS: usize = 100;
/// The most calls of a cell that are shown.
const MOST_CALLS: usize = 10;
/// The most lines of what a model thought to itself.
const THINKING_LINES: usize = 12;

/// The status line at the bottom of a terminal. Clones are the same line.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusLine(Arc<Mutex<Line>>);

#[derive(Debug, Default)]
struct Line {
    bar: Option<ProgressBar>,
    /// Whether a person is being asked: nothing is drawn then.
    held: bool,
}

impl StatusLine {
    fn set(&self, bar: Option<ProgressBar>) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.filter(|bar| {
            // One that is not drawn must not tick.
            let drawn = !line.held;
            if !drawn {
                bar.finish_and_clear();
            }
            drawn
        });
        if let Some(old) = std::mem::replace(&mut line.bar, bar) {
            old.finish_and_clear();
        }
    }

    fn message(&self, text: String) {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &line.bar {
            bar.set_message(text);
        }
    }

    /// Keeps the line away while a person is asked.
    pub(crate) fn hold(&self, held: bool) {
        self.set(None);
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.held = held;
    }

    /// Writes a remark in place of the line.
    pub(crate) fn note(&self, text: &str) {
        self.set(None);
        show::note(text);
    }
}

/// What has been shown of a run.
#[derive(Debug)]
pub(crate) struct RunScreen {
    language: Language,
    /// Whether anything may move: on a terminal with colours.
    moves: bool,
    status: StatusLine,
    started: Instant,
    /// What is waited for, and what was used so far.
    doing: String,
    /// What came of the reply that is on its way.
    reply: String,
    cell: PlainStream,
    /// Whether the last line of a cell's output is not ended.
    unended: bool,
    /// Calls that the code of the cell has made.
    called: usize,
}

/// Output of cells, with redrawn lines where the screen can move.
fn cell_stream(moves: bool) -> PlainStream {
    if moves {
        PlainStream::redrawing()
    } else {
        PlainStream::default()
    }
}

impl RunScreen {
    pub(crate) fn new(language: Language) -> Self {
        let colour = anstream::AutoStream::choice(&std::io::stderr());
        let moves = std::io::stderr().is_terminal() && colour != anstream::ColorChoice::Never;
        Self {
            language,
            moves,
            status: StatusLine::default(),
            started: Instant::now(),
            doing: String::new(),
            reply: String::new(),
            cell: cell_stream(moves),
            unended: false,
            called: 0,
        }
    }

    /// The line at the bottom, for remarks from elsewhere.
    pub(crate) fn status_line(&self) -> StatusLine {
        self.status.clone()
    }

    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Starts => {}
            Progress::Event(event, run) => {
                self.event(event, run);
                self.after(event, run);
            }
            Progress::Reply(event) => self.reply_event(event),
            Progress::Cell(event) => self.cell_event(event),
        }
    }

    fn texts(&self) -> &'static RunTexts {
        &self.language.texts().run
    }

    /// One line or more, after what a cell has written.
    fn line(&mut self, text: impl Display) {
        self.status.set(None);
        let newline = if std::mem::take(&mut self.unended) {
            "\n"
        } else {
            ""
        };
        let _ = writeln!(anstream::stderr().lock(), "{newline}{text}");
    }

    fn note(&mut self, text: &str) {
        self.line(show::message(text).dimmed());
    }

    /// Sets the status, with its elapsed time.
    fn working(&mut self, what: &str, run: &Run) {
        self.doing = format!("{what}{}", self.totals(&run.spent()));
        self.draw_status();
    }

    fn draw_status(&mut self) {
        if !self.moves {
            return;
        }
        self.status.set(None);
        if std::mem::take(&mut self.unended) {
            // It would be drawn over what the cell has written.
            let _ = writeln!(std::io::stderr());
        }
        let bar = ProgressBar::new_spinner()
            .with_elapsed(self.started.elapsed())
            .with_prefix(self.doing.clone());
        let style = ProgressStyle::with_template("{msg}{spinner} {prefix} · {elapsed}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        self.status.set(Some(bar));
    }

    /// Updates the status line.
    fn after(&mut self, event: &RunEvent, run: &Run) {
        match event {
            RunEvent::Asked { .. } => {
                self.reply.clear();
                self.working(self.texts().model_writing, run);
            }
            RunEvent::CallStarted { .. } => self.working(self.texts().running, run),
            _ => {}
        }
    }

    fn reply_event(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::Text { delta }
            | ReplyEvent::Thinking { delta }
            | ReplyEvent::ToolArguments { delta, .. } => {
                if self.moves {
                    self.reply.push_str(delta);
                    self.status.message(tail(&self.reply));
                }
            }
            ReplyEvent::ToolCall { .. } => {}
            ReplyEvent::Retrying { after_ms, why } => {
                self.reply.clear();
                let after = seconds(*after_ms);
                // What to do is said once, at the end.
                let why = why.lines().next().unwrap_or_default();
                let text = self.texts().retrying(why, after);
                self.note(&text);
                self.draw_status();
            }
        }
    }

    /// Standard output is for the answer, so what cells write goes to standard error.
    fn cell_event(&mut self, event: &Event) {
        match event {
            Event::Output { text, .. } => {
                let text = self.cell.push(text).into_owned();
                self.output(&text);
            }
            Event::Display(display) => {
                if let Some(text) = display.text() {
                    self.line(show::message(text));
                }
                for part in &display.parts {
                    if part.mime.starts_with("image/") {
                        self.status.set(None);
                        show_image::show(part, Stream::Stderr);
                    }
                }
            }
            Event::Denied(denial) => self.note(&self.language.texts().session.network(denial)),
            Event::Truncated { .. } => {
                self.note(self.texts().output_truncated);
            }
            Event::Outcome(outcome) => self.outcome(outcome),
            Event::Started { .. }
            | Event::Called { .. }
            | Event::CallDenied { .. }
            | Event::Cleared { .. }
            | Event::InputRequested { .. }
            | Event::InputClosed { .. }
            | Event::CallCancelled { .. } => {}
        }
    }

    fn output(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.status.set(None);
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes());
        self.unended = !text.ends_with('\n');
    }

    fn outcome(&mut self, outcome: &Outcome) {
        let rest = self.cell.finish();
        self.output(&rest);
        self.cell = cell_stream(self.moves);
        if let Some(exception) = &outcome.exception {
            self.line(show::message(exception.traceback.trim_end()).red());
        }
        // An exception says it all, unless an option would help.
        if outcome.status != Status::Success
            && (outcome.exception.is_none() || outcome.remedy.is_some())
            && let Some(next) = outcome.next_step(self.language)
        {
            self.line(show::message(&next).yellow());
        }
    }

    /// Shows an event of a finished run, including the output of its cells.
    pub(crate) fn replay(&mut self, event: &RunEvent, run: &Run) {
        self.event(event, run);
        if let RunEvent::CallEnded { result, .. } = event
            && let Some(cell) = &result.cell
        {
            let text = if result.failed {
                &result.text
            } else {
                &cell.output
            };
            if !text.trim_end().is_empty() {
                self.line(show::message(text.trim_end()));
            }
            for image in &cell.images {
                self.note(&self.texts().image(&image.media_type, image.bytes));
            }
        }
    }

    fn event(&mut self, event: &RunEvent, run: &Run) {
        match event {
            RunEvent::Replied {
                step,
                took_ms,
                reply,
                cost,
            } => {
                let tokens = reply.usage.input_tokens + reply.usage.output_tokens;
                let took = seconds(*took_ms);
                let mut head = self.texts().step(*step, took, tokens);
                head.push_str(&self.cost(cost.unwrap_or_default()));
                self.line(head.dimmed());
                self.thinking(&reply.thinking);
                let Some(last) = run.steps().last() else {
                    return;
                };
                if let Some(thought) = &last.thought {
                    self.line(show::message(thought).dimmed().italic());
                }
                for call in &last.calls {
                    self.call(call);
                }
                if let Some(note) = &last.note {
                    self.line(show::message(note).yellow());
                }
            }
            RunEvent::CallEnded { step, call, result } if result.cell.is_none() => {
                let steps = run.steps().iter().rev();
                let step = steps.clone().find(|other| other.number == *step);
                let calls = step.map(|step| &step.calls[..]).unwrap_or_default();
                let tool = usize::try_from(*call).ok().and_then(|at| calls.get(at));
                if tool.is_some_and(|call| call.tool == PLAN) && !result.failed {
                    self.plan(run);
                } else {
                    self.line(show::message(result.text.trim_end()));
                }
            }
            RunEvent::CallStarted { .. } => self.called = 0,
            RunEvent::ToolCalled {
                tool, arguments, ..
            } => self.tool_called(tool, arguments),
            RunEvent::ToolAnswered {
                answer: ToolAnswer::Failed { message } | ToolAnswer::Refused { message },
                ..
            } if self.called <= MOST_CALLS => self.line(show::message(message).yellow()),
            // Where none was accepted, the answer says all of it.
            RunEvent::Branched { branches, .. }
                if self.called <= MOST_CALLS && branches.iter().any(|branch| branch.accepted) =>
            {
                self.branched(branches);
            }
            RunEvent::ApprovalDecided { decision, .. } => self.decided(decision),
            RunEvent::RolledBack { .. } => {
                self.line(self.texts().rolled_back.yellow());
            }
            RunEvent::SessionStarted {
                note: Some(note), ..
            } => self.note(&format!("[{note}]")),
            _ => {}
        }
    }

    /// The first calls of a cell are shown, of the others that there are more.
    fn tool_called(&mut self, tool: &str, arguments: &serde_json::Map<String, serde_json::Value>) {
        self.called += 1;
        if self.called <= MOST_CALLS {
            let arguments = serde_json::to_string(arguments).unwrap_or_default();
            let mut arguments = show::message(&arguments);
            if let Some((cut, _)) = arguments.char_indices().nth(TAIL_COLUMNS) {
                arguments.truncate(cut);
                arguments.push('…');
            }
            self.line(format!("{} {arguments}", format!("→ {tool}").cyan()));
        } else if self.called == MOST_CALLS + 1 {
            self.note(self.texts().more_calls);
        }
    }

    /// What came of the alternatives, one below the other.
    fn branched(&mut self, branches: &[Branch]) {
        for branch in branches {
            let why = branch.why.as_deref();
            let why = why.unwrap_or(self.texts().accepted);
            let text = show::message(&format!("{} — {why}", branch.alternative));
            let text = text.replace('\n', " ");
            if branch.accepted {
                self.line(format!("  {} {text}", "✓".green()));
            } else {
                self.line(format!("  {} {text}", "✗".yellow()));
            }
        }
    }

    fn decided(&mut self, decision: &Decision) {
        let texts = self.texts();
        match decision {
            Decision::Accept { rest_of_run: false } => self.note(texts.approved),
            Decision::Accept { rest_of_run: true } => self.note(texts.approved_rest),
            Decision::Edit { code } => {
                self.note(texts.edited);
                self.code(code);
            }
            Decision::Feedback { text } => self.note(&texts.not_approved_because(text)),
            Decision::Reject => self.note(texts.not_approved),
        }
    }

    fn code(&mut self, code: &str) {
        let code = highlight::python(&show::message(code.trim_end()));
        for text in code.split('\n') {
            self.line(format!("{} {text}", "│".cyan()));
        }
    }

    /// What a model thought to itself, as far as anyone would read it.
    fn thinking(&mut self, text: &str) {
        let text = show::message(text.trim());
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().take(THINKING_LINES) {
            self.line(line.dimmed().italic());
        }
        if let Some(more) = lines.len().checked_sub(THINKING_LINES + 1) {
            self.note(&self.texts().more_thought(more + 1));
        }
    }

    fn call(&mut self, call: &Call) {
        match call.code() {
            Some(code) if call.tool == PYTHON => self.code(code),
            // The plan is shown as it then is.
            _ if call.tool == PLAN => {}
            _ => self.line(format!(
                "{} {}",
                show::message(&call.tool).cyan(),
                show::message(&call.arguments.to_string())
            )),
        }
        // It was not performed, and this is why.
        if let Some(refused) = call.result() {
            self.line(show::message(refused.text.trim_end()).yellow());
        }
    }

    fn plan(&mut self, run: &Run) {
        fn list(tasks: &[Task], level: usize, out: &mut String) {
            for task in tasks {
                let mark = match task.status {
                    TaskStatus::Pending => ' ',
                    TaskStatus::Processing => '>',
                    TaskStatus::Completed => 'x',
                    TaskStatus::Failed => '!',
                    TaskStatus::Retry => '~',
                    TaskStatus::Skipped => '-',
                };
                let name = show::message(&task.task_name).replace('\n', " ");
                let _ = write!(out, "\n{}[{mark}] {name}", "  ".repeat(level));
                list(&task.children, level + 1, out);
            }
        }
        let Some(tree) = &run.plan().tree else { return };
        let goal = show::message(&tree.core_goal).replace('\n', " ");
        let mut text = self.texts().plan(&goal);
        list(&tree.tree_nodes, 1, &mut text);
        self.line(text.cyan());
    }

    fn cost(&self, money: f64) -> String {
        if money > 0.0 {
            self.texts().cost(money)
        } else {
            String::new()
        }
    }

    fn totals(&self, spent: &Spent) -> String {
        let text = self.texts().totals(spent.steps, spent.tokens());
        text + &self.cost(spent.money)
    }

    /// What a run came to: its answer on standard output, the rest beside it.
    pub(crate) fn end(mut self, run: &Run, artifacts: &Path) -> anyhow::Result<()> {
        let Some(ending) = run.ending() else {
            return Ok(());
        };
        if let Some(answer) = &ending.answer {
            match ending.reason {
                ExitReason::Unverified { .. } => self.line(self.texts().answer_unverified.yellow()),
                _ => self.line(self.texts().answer.dimmed()),
            }
            crate::run_command::print_line(&show::message(answer))?;
        } else if let Some(output) = &ending.last_output {
            // Not to standard output: a program that reads it would take it for the answer.
            self.line(self.texts().last_output.yellow());
            self.line(show::message(output));
        }
        for value in &ending.evidence {
            let text = format!("   {}", show::message(&value.text(self.language)));
            if value.is_strong() {
                self.line(text.dimmed());
            } else {
                self.line(text.yellow());
            }
        }
        if !ending.artifacts.is_empty() {
            let names: Vec<&str> = ending.artifacts.iter().map(|a| a.path.as_str()).collect();
            let names = show::message(&names.join(", "));
            self.line(self.texts().files(&names, &artifacts.display()));
        }
        for lost in &ending.not_kept {
            let (path, why) = (show::message(&lost.path), show::message(&lost.why));
            let text = self.texts().not_kept(&path, &why);
            self.line(text.yellow());
        }
        if ending.not_kept_more > 0 {
            let text = self.texts().more_not_kept(ending.not_kept_more);
            self.line(text.yellow());
        }
        let spent = run.spent();
        let time = seconds(spent.model_ms + spent.tool_ms);
        let totals = self.totals(&spent);
        let totals = totals.trim_start_matches(" · ");
        self.line(self.texts().total_time(totals, time).dimmed());
        let language = self.language;
        match &ending.reason {
            ExitReason::Answered => {}
            ExitReason::Unverified { doubts } => {
                for doubt in doubts {
                    let text = show::message(&doubt.text(language));
                    self.line(self.texts().unverified(&text).yellow());
                }
            }
            reason => {
                let why = match reason {
                    ExitReason::ModelFailed { error } => show::message(error),
                    reason => reason.text(language),
                };
                self.line(self.texts().not_answered(&why).yellow());
            }
        }
        Ok(())
    }
}

impl Drop for RunScreen {
    fn drop(&mut self) {
        self.status.set(None);
    }
}

/// The last lines of a reply that is on its way, each ended.
fn tail(reply: &str) -> String {
    // Enough for the lines, however long the reply gets.
    let from = reply.len().saturating_sub(TAIL_LINES * TAIL_COLUMNS * 4);
    let text = &reply[reply.ceil_char_boundary(from)..];
    // In arguments of a call line breaks stand like this.
    let text = show::message(&text.replace("\\n", "\n"));
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        // The end of a long line is what is new.
        let start = line.char_indices().rev().nth(TAIL_COLUMNS - 1);
        let line = &line[start.map_or(0, |(start, _)| start)..];
        let _ = writeln!(out, "{}", line.dimmed());
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "a time to show")]
pub(crate) fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
