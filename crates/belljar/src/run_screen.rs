//! A run as a person sees it: thoughts and code as they are understood, output as it comes.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

use belljar_agent::{ExitReason, PYTHON, Progress, ReplyEvent, Run, RunEvent, Seen};
use belljar_sandbox::protocol::{Event, Stream};
use owo_colors::OwoColorize;

use crate::show;

/// What has been shown of a run.
#[derive(Debug, Default)]
pub(crate) struct RunScreen {
    cell: show::Screen,
}

impl RunScreen {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Event(event, run) => self.event(event, run),
            Progress::Reply(ReplyEvent::Retrying { after_ms, why }) => {
                show::note(&format!("[{why}; next try in {:.1} s]", seconds(*after_ms)));
            }
            Progress::Reply(_) => {}
            Progress::Cell(event) => self.cell_event(event),
        }
    }

    /// Standard output is for the answer, so what cells write goes to standard error.
    fn cell_event(&mut self, event: &Event) {
        let _ = match event {
            Event::Output { text, .. } => self.cell.event(&Event::Output {
                stream: Stream::Stderr,
                text: text.clone(),
            }),
            Event::Display(display) => {
                if let Some(text) = display.text() {
                    line(show::message(text));
                }
                if display
                    .parts
                    .iter()
                    .any(|part| part.mime.starts_with("image/"))
                {
                    show::note("[an image was shown]");
                }
                Ok(())
            }
            Event::Denied(_) => self.cell.event(event),
            Event::Started { .. }
            | Event::Called { .. }
            | Event::CallDenied { .. }
            | Event::CallCancelled { .. }
            | Event::Truncated { .. }
            | Event::Outcome(_) => Ok(()),
        };
    }

    /// Shows an event of a run that is over: the output of its cells, too, which is not told live.
    pub(crate) fn replay(&mut self, event: &RunEvent, run: &Run) {
        self.event(event, run);
        if let RunEvent::CallEnded { result, .. } = event
            && let Some(cell) = result.cell.as_ref().filter(|_| !result.failed)
        {
            line(show::message(cell.output.trim_end()));
        }
    }

    fn event(&mut self, event: &RunEvent, run: &Run) {
        match event {
            RunEvent::Replied { step, took_ms, .. } => {
                let Some(last) = run.steps().last() else {
                    return;
                };
                line(format!("── step {step} · {:.1} s", seconds(*took_ms)).dimmed());
                if let Some(thought) = &last.thought {
                    line(show::message(thought).italic());
                }
                for call in &last.calls {
                    match call.code() {
                        Some(code) if call.tool == PYTHON => {
                            for text in code.lines() {
                                line(format!("{} {}", "│".cyan(), show::message(text).cyan()));
                            }
                        }
                        _ => line(format!(
                            "{} {}",
                            call.tool.cyan(),
                            show::message(&call.arguments.to_string())
                        )),
                    }
                }
            }
            RunEvent::CallEnded { result, .. } => {
                self.cell = show::Screen::default();
                if result.cell.is_none() || result.failed {
                    line(show::message(result.text.trim_end()));
                }
            }
            RunEvent::RolledBack { .. } => {
                line("[it went in circles, and was taken back]".yellow());
            }
            RunEvent::SessionStarted {
                note: Some(note), ..
            } => show::note(&format!("[{note}]")),
            RunEvent::ModelFailed { error, .. } => {
                line(format!("{} {}", "error:".red(), show::message(error)));
            }
            _ => {}
        }
        if let Some(note) = run.steps().last().and_then(|step| step.note.as_ref())
            && matches!(event, RunEvent::Replied { .. })
        {
            line(show::message(note).yellow());
        }
    }

    pub(crate) fn end(run: &Run, artifacts: &Path) {
        let Some(ending) = run.ending() else { return };
        let spent = run.spent();
        for value in &ending.evidence {
            let place = match &value.seen {
                Some(Seen::Output {
                    step,
                    cell: Some(cell),
                    rounded,
                    ..
                }) => {
                    let rounded = if *rounded { ", rounded" } else { "" };
                    format!("cell {cell} (step {step}){rounded}")
                }
                Some(Seen::Output { step, .. }) => format!("step {step}"),
                Some(Seen::Task) => "the task".into(),
                None => "seen nowhere".into(),
            };
            let value = show::message(&value.value);
            line(format!("   {value} — {place}").dimmed());
        }
        if !ending.artifacts.is_empty() {
            let names: Vec<&str> = ending.artifacts.iter().map(|a| a.path.as_str()).collect();
            line(
                format!(
                    "files: {} in {}",
                    show::message(&names.join(", ")),
                    artifacts.display()
                )
                .dimmed(),
            );
        }
        let money = if spent.money > 0.0 {
            format!(" · {:.4}", spent.money)
        } else {
            String::new()
        };
        line(
            format!(
                "── {} steps · {} tokens · {:.1} s{money}",
                spent.steps,
                spent.tokens(),
                seconds(spent.model_ms + spent.tool_ms)
            )
            .dimmed(),
        );
        if ending.reason != ExitReason::Answered {
            line(format!("[not answered: {}]", why(&ending.reason)).yellow());
        }
    }
}

fn why(reason: &ExitReason) -> String {
    match reason {
        ExitReason::Answered => "answered".into(),
        ExitReason::ModelFailed { error } => show::message(error),
        ExitReason::NotUnderstood => "the model's replies could not be understood".into(),
        ExitReason::WentInCircles => "it did the same again and again".into(),
        ExitReason::Budget { part } => format!("the budget is used up ({part:?})").to_lowercase(),
        ExitReason::Stopped => "it was stopped".into(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time to show")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

fn line(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}
