//! Demo mode: a scripted model with example tasks. It shows real sessions without a key, network or model.

mod examples;

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{
    Dialect, Finish, Message, ModelRequest, PLAN, PYTHON, Part, Policy, Provider, Reply, ToolCall,
};
use belljar_sandbox::protocol::Language;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::options::OfferedModel;
use examples::{EXAMPLES, Example, OTHER, Text, Turn};

/// An example task of demo mode.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExampleView {
    id: &'static str,
    /// Title, by language code.
    title: BTreeMap<&'static str, &'static str>,
    /// Task, by language code.
    task: BTreeMap<&'static str, &'static str>,
    files: Vec<ExampleFile>,
}

/// A file of an example task.
#[derive(Debug, Serialize, ToSchema)]
struct ExampleFile {
    name: &'static str,
    /// Contents, as base64.
    contents: String,
}

/// The example tasks of demo mode.
pub(crate) fn views() -> Vec<ExampleView> {
    let in_languages = |text: Text| {
        let languages = Language::ALL.iter();
        let texts = languages.map(|language| (language.code(), text(&language.texts().demo)));
        texts.collect()
    };
    let view = |example: &Example| ExampleView {
        id: example.id,
        title: in_languages(example.title),
        task: in_languages(example.task),
        files: example.files.iter().map(file).collect(),
    };
    EXAMPLES.iter().map(view).collect()
}

fn file((name, contents): &(&'static str, &'static str)) -> ExampleFile {
    ExampleFile {
        name,
        contents: BASE64.encode(contents),
    }
}

/// Approval policy of this task, if it demonstrates approvals.
pub(crate) fn policy_of(task: &str) -> Option<Policy> {
    let (example, _) = known(task)?;
    example.asks.then_some(Policy::Always)
}

/// The scripted model.
pub(crate) fn model() -> OfferedModel {
    OfferedModel {
        name: "demo/scripted".to_owned(),
        provider: Provider::scripted("demo", "scripted", reply),
        dialect: Dialect::NativeTools,
        max_tokens: 4096,
        temperature: None,
        review: false,
    }
}

/// The example whose task this begins with, and its language.
fn known(task: &str) -> Option<(&'static Example, Language)> {
    let mut all = EXAMPLES.iter().flat_map(|example| {
        Language::ALL
            .iter()
            .map(move |language| (example, *language))
    });
    all.find(|(example, language)| task.starts_with((example.task)(&language.texts().demo)))
}

/// What the model says to a conversation.
fn reply(request: &ModelRequest) -> Reply {
    let mut task = "";
    let (mut turn, mut outputs) = (0, Vec::new());
    for message in &request.messages {
        match message {
            Message::User { parts } if task.is_empty() => task = text(parts),
            Message::System { .. } | Message::User { .. } => {}
            Message::Assistant { .. } => turn += 1,
            Message::ToolResult { parts, .. } => outputs.push(text(parts)),
        }
    }
    // What stands before a task in the first message.
    let before = |language: &Language| task.strip_prefix(&language.prompts().task(""));
    let found = Language::ALL
        .iter()
        .find_map(|one| Some((*one, before(one)?)));
    let (language, task) = found.unwrap_or((Language::default(), task));
    let (example, language) = known(task).unwrap_or((&OTHER, language));
    let texts = &language.texts().demo;
    match example.turns.get(turn) {
        Some(Turn::Code(thought, code)) => call(thought(texts), PYTHON, &json!({"code": code})),
        Some(Turn::Plan(goal, tasks)) => {
            let tasks = tasks
                .iter()
                .map(|(name, status)| json!({"task_name": name(texts), "status": status}));
            let tree = json!({"core_goal": goal(texts), "tree_nodes": tasks.collect::<Value>()});
            call("", PLAN, &tree)
        }
        None => Reply {
            text: fill((example.answer)(texts), &outputs),
            ..Reply::default()
        },
    }
}

fn text(parts: &[Part]) -> &str {
    let first = parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    first.unwrap_or_default()
}

fn call(thought: &str, name: &str, arguments: &Value) -> Reply {
    Reply {
        text: thought.to_owned(),
        tool_calls: vec![ToolCall {
            id: format!("call_{name}"),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        }],
        finish: Finish::ToolCalls,
        ..Reply::default()
    }
}

/// Puts values into an answer as the code has printed them: `name = value` for `{name}`.
fn fill(answer: &str, outputs: &[&str]) -> String {
    let lines = outputs.iter().flat_map(|output| output.lines());
    let values: HashMap<&str, &str> = lines.filter_map(|line| line.split_once(" = ")).collect();
    let mut parts = answer.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        filled.push_str(values.get(name).copied().unwrap_or("—").trim());
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_what_was_printed() {
        let outputs = ["a = 1\nnothing", "b = 2 x\na = 3"];
        assert_eq!(fill("{a}, {b}; {c}.", &outputs), "3, 2 x; —.");
    }

    #[test]
    fn a_task_is_known_by_how_it_begins() {
        let languages = |one| Language::ALL.iter().map(move |language| (one, *language));
        for (example, language) in EXAMPLES.iter().flat_map(languages) {
            let task = format!("{}\n\nFiles", (example.task)(&language.texts().demo));
            let (found, in_language) = known(&task).unwrap();
            assert_eq!((found.id, in_language), (example.id, language));
            assert_eq!(policy_of(&task).is_some(), example.id == "approval");
        }
        assert!(known("What is six times seven?").is_none());
    }
}
