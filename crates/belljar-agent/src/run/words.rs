//! What the host says to the model beside the results of its calls.

use std::fmt::Write as _;

use belljar_protocol::{Language, NameInfo, ToolStub};

use super::doubt::Doubt;
use super::event::{CallResult, Start};
use super::gate::Undefined;
use super::machine::{Run, Step};
use super::tools_text::tools_text;
use crate::dialect::PYTHON;

/// The first message: what the model is to be, and how it acts.
pub(crate) fn system(start: &Start) -> String {
    let texts = start.language.prompts();
    let mut text = texts.system.to_owned();
    if !start.packages.is_empty() {
        text.push_str(&texts.installed(&start.packages.join(", ")));
    }
    let granted: Vec<ToolStub> = start.granted.iter().map(|tool| tool.stub.clone()).collect();
    text.push_str(&tools_text(&granted, start.language));
    if let Some(branches) = &start.branches {
        text.push_str(&branches.text(start.language));
    }
    text.push('\n');
    text.push_str(
        &start
            .dialect
            .instructions(&start.tool_specs(), start.language),
    );
    text
}

/// A task, the first line of a good reply to it, its code, and what that prints.
pub(crate) fn example(language: Language) -> [&'static str; 4] {
    let texts = language.prompts();
    [
        texts.example_task,
        texts.example_thought,
        "weeks = 3\nprint(weeks * 7 * 24 * 60 * 60)",
        "1814400",
    ]
}

/// Files that the task names, and those of them whose beginning is shown: a directory has many, and the model can
/// list it.
const MOST_NAMED: usize = 100;
const MOST_HEADS: usize = 20;

/// The task, and the files that come with it.
pub(crate) fn task(start: &Start) -> String {
    let texts = start.language.prompts();
    let mut text = texts.task(&start.task);
    if !start.files.is_empty() {
        text.push_str(texts.files);
        for (number, file) in start.files.iter().take(MOST_NAMED).enumerate() {
            let _ = write!(text, "\n- {} ({} bytes)", file.name, file.bytes);
            if number < MOST_HEADS && !file.head.is_empty() {
                text.push_str(texts.file_begins);
                text.push_str(file.head.trim_end());
            }
        }
        if let Some(more @ 1..) = start.files.len().checked_sub(MOST_NAMED) {
            let _ = write!(text, "\n- … (+{more})");
        }
    }
    if let Some(parent) = &start.parent {
        text.push_str("\n\n");
        text.push_str(&parent.told);
    }
    text
}

/// The summary of an earlier run for the run that continues it.
pub(crate) fn parent(run: &Run, answer: Option<&str>, language: Language) -> String {
    let task = run.start().map_or("", |start| start.task.as_str());
    let plan = run.plan().tree.as_ref();
    let plan = plan.map(|tree| tree.checklist(language));
    let steps = memory(run.steps(), plan, run.manifest(), language);
    let texts = language.prompts();
    let mut text = texts.parent(task, &steps);
    if let Some(answer) = answer {
        text.push_str(&texts.parent_answer(answer));
    }
    text
}

/// What stands before the result of a call, in dialects where it is a message of the user.
pub(crate) fn observation(tool: &str, cell: Option<u32>, language: Language) -> String {
    match (tool, cell) {
        (PYTHON, Some(cell)) => language.prompts().output_of_cell(cell),
        (tool, _) => language.prompts().result_of_tool(tool),
    }
}

pub(crate) fn not_run(missing: &[Undefined], language: Language) -> String {
    let texts = language.prompts();
    let names = missing.iter().take(5);
    let names = names.map(|(name, line)| texts.undefined_name(name, *line));
    texts.undefined_names(&names.collect::<Vec<_>>().join(", "))
}

pub(crate) fn answer_unseen(values: &[&str], task: &str, language: Language) -> String {
    let values = values.iter().take(5);
    let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
    language.prompts().answer_unseen(&values.join(", "), task)
}

pub(crate) fn answer_doubted(doubts: &[Doubt], task: &str, language: Language) -> String {
    let doubts = doubts.iter().take(5);
    let doubts: Vec<String> = doubts.map(|doubt| doubt.text(language)).collect();
    language.prompts().answer_doubted(&doubts.join("; "), task)
}

pub(crate) fn keeps_failing(steps: usize, planned: bool, language: Language) -> String {
    let texts = language.prompts();
    let more = if planned { texts.skip_in_plan } else { "" };
    texts.keeps_failing(steps, more)
}

pub(crate) fn repetition(repeated: &str, restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    language.prompts().repetition(variables, repeated)
}

/// What is said of code that failed twice in the same way; the code itself would only be copied.
pub(crate) fn failed_again(result: &CallResult, restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    let error = result.cell.as_ref().and_then(|cell| cell.error.as_deref());
    let error = error.or_else(|| result.text.trim_end().lines().next_back());
    let error = error.unwrap_or_default();
    let error = &error[..error.floor_char_boundary(SUMMARY)];
    language.prompts().failed_again(error, variables)
}

/// What is said of code that was run twice and showed no good answer.
pub(crate) fn showed_nothing(restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    language.prompts().showed_nothing(variables)
}

fn variables_after(restored: bool, language: Language) -> &'static str {
    if restored {
        language.prompts().variables_restored
    } else {
        language.prompts().variables_current
    }
}

/// The most bytes of an action, and of its result, in a summary.
const SUMMARY: usize = 150;

/// What a step did, in one line.
pub(crate) fn summary(step: &Step) -> String {
    let mut line = String::new();
    for call in &step.calls {
        if !line.is_empty() {
            line.push_str("; ");
        }
        let done = match call.code() {
            Some(code) => code
                .lines()
                .map(str::trim)
                .filter(|l| {
                    !l.is_empty()
                        && !l.starts_with('#')
                        && !l.starts_with("import ")
                        && !l.starts_with("from ")
                })
                .collect::<Vec<_>>()
                .join("; "),
            None => call.arguments.to_string(),
        };
        let mut done = format!("{} {done}", call.tool);
        done.truncate(done.floor_char_boundary(SUMMARY));
        let result = call.result().map_or("", |result| {
            let text = result.cell.as_ref().map_or(&result.text, |cell| {
                if cell.output.trim().is_empty() {
                    &result.text
                } else {
                    &cell.output
                }
            });
            text.trim()
        });
        let mut result: String = result
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" | ");
        result.truncate(result.floor_char_boundary(SUMMARY));
        let _ = write!(line, "{done} -> {result}");
    }
    if line.is_empty() {
        let first = step.reply.text.trim().lines().next();
        line.push_str(first.unwrap_or_default());
        line.truncate(line.floor_char_boundary(SUMMARY));
    }
    line
}

/// What is left of steps that are no longer in the conversation, with the plan and the variables.
pub(crate) fn memory(
    steps: &[Step],
    plan: Option<String>,
    manifest: &[NameInfo],
    language: Language,
) -> String {
    const LINES: usize = 15;
    let texts = language.prompts();
    let mut text = texts.earlier_steps.to_owned();
    let hidden = steps.len().saturating_sub(LINES);
    if hidden > 0 {
        text.push_str(&texts.hidden_steps(hidden));
    }
    for step in &steps[hidden..] {
        let _ = write!(text, "\n{}. {}", step.number, summary(step));
    }
    if let Some(plan) = plan {
        text.push_str(texts.your_plan);
        text.push_str(plan.trim_end());
    }
    if !manifest.is_empty() {
        text.push_str(texts.session_variables);
        text.push_str(&names(manifest));
    }
    text
}

/// The names of a namespace, by type.
pub(crate) fn names(manifest: &[NameInfo]) -> String {
    let mut types: Vec<(&str, Vec<String>)> = Vec::new();
    for name in manifest {
        let mut shown = name.name.clone();
        if let Some(shape) = &name.shape {
            let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
            let _ = write!(shown, " {}", shape.join("×"));
        } else if let Some(length) = name.length {
            let _ = write!(shown, "[{length}]");
        }
        match types.iter_mut().find(|(kind, _)| *kind == name.type_name) {
            Some((_, names)) => names.push(shown),
            None => types.push((&name.type_name, vec![shown])),
        }
    }
    let types: Vec<String> = types
        .iter()
        .map(|(kind, names)| format!("{kind}: {}", names.join(", ")))
        .collect();
    types.join("; ")
}
