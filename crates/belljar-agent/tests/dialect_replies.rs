//! Replies in the styles of real models, and what they say: `replies.txt`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use belljar_agent::{Action, Dialect, RawToolCall, ReplyParts, ToolSpec};
use serde_json::{Value, json};

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({ "type": "object", "properties": { "code": { "type": "string" } } }),
    };
    vec![tool("python"), tool("compute_with_python"), tool("answer")]
}

struct Case<'a> {
    title: &'a str,
    dialect: Dialect,
    truncated: bool,
    calls: Vec<RawToolCall>,
    text: String,
    expected: Value,
}

fn cases(file: &str) -> Vec<Case<'_>> {
    let case = |case| -> Case<'_> {
        let case: &str = case;
        let (head, rest) = case.split_once('\n').unwrap();
        let (kind, title) = head.split_once(" | ").unwrap();
        let (dialect, truncated) = match kind.split_once(' ') {
            Some((dialect, "truncated")) => (dialect, true),
            _ => (kind, false),
        };
        let (mut text, expected) = rest.rsplit_once("---\n").unwrap();
        let mut calls = Vec::new();
        if let Some(rest) = text.strip_prefix("calls: ") {
            let (list, rest) = rest.split_once('\n').unwrap();
            let list: Vec<(Option<String>, String, String)> = serde_json::from_str(list).unwrap();
            let call = |(id, name, arguments)| RawToolCall {
                id,
                name,
                arguments,
            };
            calls = list.into_iter().map(call).collect();
            text = rest;
        }
        Case {
            title,
            dialect: serde_json::from_value(dialect.into()).unwrap(),
            truncated,
            calls,
            text: text.strip_suffix('\n').unwrap_or(text).to_owned(),
            expected: serde_json::from_str(expected).unwrap(),
        }
    };
    file.split("\n=== ").skip(1).map(case).collect()
}

fn short(action: &Action) -> Value {
    match action {
        Action::Tool {
            name, arguments, ..
        } => match arguments.as_object() {
            Some(members) if name == "python" && members.len() == 1 => {
                json!(["python", members["code"]])
            }
            _ => json!(["tool", name, arguments]),
        },
        Action::Answer { text, .. } => json!(["answer", text]),
        Action::Refused { name, problem, .. } => {
            json!(["refused", name, json!(problem)["kind"]])
        }
    }
}

/// AGT-2, AGT-3: what models really write is understood, and what was mended is said.
#[test]
fn replies_say_what_they_should() {
    let cases = cases(include_str!("replies.txt"));
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let reply = ReplyParts {
            text: &case.text,
            tool_calls: &case.calls,
            truncated: case.truncated,
        };
        let found = match case.dialect.parse(&reply, &tools()) {
            Ok(parsed) => {
                let mut found = json!({
                    "actions": parsed.actions.iter().map(short).collect::<Vec<_>>(),
                    "mended": parsed.mended,
                });
                if case.expected.get("thought").is_some() {
                    found["thought"] = json!(parsed.thought);
                }
                found
            }
            Err(unparsed) => json!({ "problem": json!(unparsed.problem)["kind"] }),
        };
        if found != case.expected {
            wrong.push(format!(
                "{:?} {}\n  expected {}\n  found    {found}",
                case.dialect, case.title, case.expected
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
