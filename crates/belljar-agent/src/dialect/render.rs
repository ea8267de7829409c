//! Actions written in the canonical way: for histories of other models, and for tests.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{ANSWER, Action, Dialect, PYTHON, RawToolCall};

/// A reply as a model should have written it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The tool calls; only in [`Dialect::NativeTools`].
    pub tool_calls: Vec<RawToolCall>,
}

pub(super) fn render(dialect: Dialect, thought: Option<&str>, actions: &[Action]) -> Rendered {
    match dialect {
        Dialect::NativeTools => native(thought, actions),
        Dialect::JsonAction => text(json_action(thought, actions)),
        Dialect::Tags => text(tags(thought, actions)),
        Dialect::FencedCode => text(fenced(thought, actions)),
    }
}

fn text(text: String) -> Rendered {
    Rendered {
        text,
        tool_calls: Vec::new(),
    }
}

fn native(thought: Option<&str>, actions: &[Action]) -> Rendered {
    let mut out = text(thought.unwrap_or_default().to_owned());
    for action in actions {
        let (name, arguments, id) = match action {
            Action::Tool {
                name,
                arguments,
                call_id,
            } => (name.as_str(), arguments.clone(), call_id),
            Action::Answer { text, call_id } => (ANSWER, json!({ "text": text }), call_id),
            Action::Refused { name, call_id, .. } => (name.as_str(), json!({}), call_id),
        };
        out.tool_calls.push(RawToolCall {
            id: id.clone(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        });
    }
    out
}

fn code(action: &Action) -> Option<&str> {
    match action {
        Action::Tool {
            name, arguments, ..
        } if name == PYTHON => arguments.get("code")?.as_str(),
        _ => None,
    }
}

fn json_action(thought: Option<&str>, actions: &[Action]) -> String {
    let object = |(index, action): (usize, &Action)| {
        let mut members = Map::new();
        if let (0, Some(thought)) = (index, thought) {
            members.insert("thought".into(), thought.into());
        }
        match action {
            _ if code(action).is_some() => {
                members.insert("action".into(), "execute_code".into());
                members.insert("code".into(), code(action).into());
            }
            Action::Tool {
                name, arguments, ..
            } => {
                members.insert("action".into(), name.clone().into());
                members.insert("arguments".into(), arguments.clone());
            }
            Action::Answer { text, .. } => {
                members.insert("action".into(), "provide_answer".into());
                members.insert("final_answer".into(), text.clone().into());
            }
            Action::Refused { name, .. } => {
                members.insert("action".into(), name.clone().into());
            }
        }
        Value::Object(members)
    };
    let mut objects: Vec<Value> = actions.iter().enumerate().map(object).collect();
    if objects.len() == 1 {
        objects.remove(0).to_string()
    } else {
        Value::Array(objects).to_string()
    }
}

fn tags(thought: Option<&str>, actions: &[Action]) -> String {
    let mut out = String::new();
    if let Some(thought) = thought {
        let _ = writeln!(out, "<thought>{thought}</thought>");
    }
    for action in actions {
        let _ = match action {
            Action::Tool {
                name, arguments, ..
            } => match code(action) {
                Some(code) => {
                    if let Some(Value::Array(names)) = arguments.get("libraries") {
                        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                        let names = names.join(", ");
                        let _ = writeln!(
                            out,
                            "<pip-dependencies-to-install>{names}</pip-dependencies-to-install>"
                        );
                    }
                    writeln!(out, "<execution-code>\n{code}\n</execution-code>")
                }
                None => writeln!(out, "<tool name=\"{name}\">\n{arguments}\n</tool>"),
            },
            Action::Answer { text, .. } => {
                writeln!(out, "<final-answer>\n{text}\n</final-answer>")
            }
            Action::Refused { name, .. } => writeln!(out, "<tool name=\"{name}\">\n</tool>"),
        };
    }
    out
}

fn fenced(thought: Option<&str>, actions: &[Action]) -> String {
    let mut out = String::new();
    if let Some(thought) = thought {
        let _ = writeln!(out, "{thought}\n");
    }
    for action in actions {
        let block = |out: &mut String, label: &str, body: &str| {
            // A fence longer than any inside of it.
            let runs = body.split(|c| c != '`').map(str::len);
            let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
            writeln!(out, "{fence}{label}\n{body}\n{fence}")
        };
        let _ = match action {
            Action::Tool {
                name, arguments, ..
            } => match code(action) {
                Some(code) => block(&mut out, "python", code),
                None => block(&mut out, name, &arguments.to_string()),
            },
            Action::Answer { text, .. } => writeln!(out, "FINAL: {text}"),
            Action::Refused { name, .. } => block(&mut out, name, "{}"),
        };
    }
    out
}
