//! One JSON object a reply: `thought`, `action`, `code`, `final_answer` (AGT-2).
//!
//! `action` is `execute_code`, `debug_error` (both run `code`) or `provide_answer` (which gives
//! `final_answer`); or, beyond the plan, the name of a tool with its `arguments`. The action decides:
//! `final_answer` beside `execute_code` is held back, `code` beside `provide_answer` is not run.
//! Of several objects the first action counts, because the others were written without its result;
//! an array of actions is meant as one reply and is taken whole.

use serde_json::{Map, Value, json};

use super::{
    ANSWER, Action, Found, Mended, Mending, PYTHON, Problem, Reader, fenced, loose, native, python,
};
use crate::ToolSpec;

/// Names of members, first the one that is asked for.
const THOUGHT: [&str; 5] = [
    "thought",
    "thoughts",
    "thinking",
    "reasoning",
    "explanation",
];
const ACTION: [&str; 5] = ["action", "name", "tool", "tool_name", "function"];
const CODE: [&str; 6] = [
    "code",
    "python_code",
    "python",
    "source",
    "script",
    "python_code_snippet",
];
const FINAL: [&str; 5] = ["final_answer", "answer", "final", "result", "response"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "action_input", "args", "input"];

/// What people call `execute_code` and `provide_answer`.
const RUNS: [&str; 12] = [
    "execute_code",
    "debug_error",
    "continue_debugging",
    "execute",
    "run_code",
    "run",
    "code",
    "execute_python",
    "execute_python_code",
    "python_code",
    "run_python",
    "debug",
];
const ANSWERS: [&str; 6] = [
    "provide_answer",
    "final_answer",
    "give_answer",
    "finish",
    "final",
    "provide_final_answer",
];

pub(super) fn schema(tools: &[ToolSpec]) -> Value {
    let mut actions = vec!["execute_code", "debug_error", "provide_answer"];
    let others = tools.iter().map(|tool| tool.name.as_str());
    actions.extend(others.filter(|name| *name != PYTHON && *name != ANSWER));
    let mut properties = json!({
        "thought": { "type": "string" },
        "action": { "type": "string", "enum": actions },
        "code": { "type": "string" },
        "final_answer": { "type": "string" },
    });
    if actions.len() > 3 {
        properties["arguments"] = json!({ "type": "object" });
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["thought", "action"],
        "additionalProperties": false,
    })
}

pub(super) fn parse(reader: &Reader<'_>, mended: &mut Mended) -> Result<Found, Problem> {
    let keys = reader.keys(&[&THOUGHT[..], &ACTION, &CODE, &FINAL, &ARGUMENTS].concat());
    let text = reader.text;
    let mut at = 0;
    let mut fault = None;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        if !loose::may_begin(&text[start + 1..]) {
            at = start + 1;
            continue;
        }
        // An array counts only right before its first object.
        let before = text[at..start].trim_end();
        let start = if before.ends_with('[') {
            at + before.len() - 1
        } else {
            start
        };
        let mut notes = Mended::default();
        match loose::read(text, start, &keys, reader.truncated, &mut notes) {
            Ok((value, end)) if is_action(&value) => {
                notes.0.into_iter().for_each(|note| mended.add(note));
                around(&text[..start], &text[end..], mended);
                return actions(value, reader, mended);
            }
            Ok((_, end)) => at = end,
            Err(new) => {
                // Reading continues where it stopped, so that the whole takes one pass.
                at = new.at.max(start + 1).min(text.len());
                while !text.is_char_boundary(at) {
                    at += 1;
                }
                fault.get_or_insert(new);
            }
        }
    }
    match fault {
        Some(fault) if reader.truncated && fault.at_end => Err(Problem::Truncated),
        fault => {
            // A block of code beside or instead of the object.
            let mut notes = Mended::default();
            if let Ok(found) = fenced::parse(reader, &mut notes)
                && (fault.is_none() || !notes.0.contains(&Mending::FenceMissing))
            {
                mended.add(Mending::CodeInText);
                notes.0.into_iter().for_each(|note| mended.add(note));
                return Ok(found);
            }
            Err(match fault {
                Some(fault) => Problem::Json {
                    expected: fault.expected.into(),
                    near: fault.near(text),
                },
                None => reader.nothing(),
            })
        }
    }
}

fn is_action(value: &Value) -> bool {
    match value {
        Value::Object(members) => [&ACTION[..], &CODE, &FINAL, &THOUGHT[..1]]
            .concat()
            .iter()
            .any(|key| members.contains_key(*key)),
        Value::Array(items) => !items.is_empty() && items.iter().all(is_action),
        _ => false,
    }
}

/// What stands before and after the object.
fn around(before: &str, after: &str, mended: &mut Mended) {
    let fence = |line: &str| line.trim_start().starts_with("```");
    let lines = || before.lines().chain(after.lines());
    if lines().any(fence) {
        mended.add(Mending::FenceRemoved);
    }
    if lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !fence(line) && !line.eq_ignore_ascii_case("json")
    }) {
        mended.add(Mending::ProseAroundJson);
    }
    if ["\"action\"", "'action'", "\"code\""]
        .iter()
        .any(|key| after.contains(key))
    {
        mended.add(Mending::FurtherActionsDropped);
    }
}

fn actions(value: Value, reader: &Reader<'_>, mended: &mut Mended) -> Result<Found, Problem> {
    let items = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    let mut found = Found::default();
    for item in items {
        let Value::Object(mut members) = item else {
            continue;
        };
        if let Some(thought) = take_text(&mut members, &THOUGHT, mended) {
            if !found.thought.is_empty() {
                found.thought.push('\n');
            }
            found.thought.push_str(&thought);
        }
        found.actions.push(action(members, reader, mended)?);
    }
    Ok(found.hold_back(mended))
}

fn action(
    mut members: Map<String, Value>,
    reader: &Reader<'_>,
    mended: &mut Mended,
) -> Result<Action, Problem> {
    // `"action": {"name": …, "arguments": …}`
    if let Some(Value::Object(inner)) = members.get("action").cloned() {
        mended.add(Mending::FieldType);
        members.remove("action");
        members.extend(inner);
    }
    let given = take(&mut members, &ACTION, mended).and_then(|value| match value {
        Value::String(name) if !name.trim().is_empty() => Some(name),
        _ => None,
    });
    let has = |members: &Map<String, Value>, keys: &[&str]| {
        keys.iter()
            .any(|key| members.get(*key).is_some_and(|value| !is_empty(value)))
    };
    let name = match given {
        Some(name) => name,
        None if has(&members, &CODE) => {
            mended.add(Mending::ActionMissing);
            RUNS[0].into()
        }
        None if has(&members, &FINAL) => {
            mended.add(Mending::ActionMissing);
            ANSWERS[0].into()
        }
        None => return Err(missing("action", "")),
    };
    let plain = name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    if RUNS.contains(&plain.as_str()) || plain == PYTHON {
        if !["execute_code", "debug_error", PYTHON].contains(&name.as_str()) {
            mended.add(Mending::ActionName);
        }
        let held_back = members.get(FINAL[0]).is_some_and(|value| !is_empty(value));
        // `code` may stand inside the arguments, as with any other tool.
        let code = match take_text(&mut members, &CODE, mended) {
            Some(code) if !code.trim().is_empty() => code,
            _ => match take(&mut members, &ARGUMENTS, mended) {
                Some(Value::Object(mut inner)) => take_text(&mut inner, &CODE, mended),
                Some(Value::String(code)) => Some(code),
                _ => None,
            }
            .filter(|code| !code.trim().is_empty())
            .ok_or_else(|| missing(CODE[0], &plain))?,
        };
        if held_back {
            mended.add(Mending::AnswerHeldBack);
        }
        let code = python::mend(&code, mended);
        if code.is_empty() {
            return Err(missing(CODE[0], &plain));
        }
        return Ok(Action::python(&code));
    }
    if ANSWERS.contains(&plain.as_str()) || plain == ANSWER {
        if name != ANSWERS[0] {
            mended.add(Mending::ActionName);
        }
        let text = take_text(&mut members, &FINAL, mended).or_else(|| {
            let arguments = take(&mut members, &ARGUMENTS, mended)?;
            native::answer_text(&arguments)
        });
        let text = text.filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| missing(FINAL[0], ANSWERS[0]))?;
        return Ok(Action::answer(text.trim()));
    }
    if reader.knows(&name) {
        let arguments = take(&mut members, &ARGUMENTS, mended).unwrap_or_else(|| {
            // The arguments stand beside the action.
            members.retain(|_, value| !is_empty(value));
            Value::Object(members)
        });
        return native::tool(&name, arguments, None, mended);
    }
    let mut known = vec![
        RUNS[0].to_owned(),
        RUNS[1].to_owned(),
        ANSWERS[0].to_owned(),
    ];
    let own = |name: &String| name != PYTHON && name != ANSWER;
    known.extend(reader.known().into_iter().filter(own));
    Err(Problem::UnknownAction { given: name, known })
}

fn missing(field: &str, action: &str) -> Problem {
    Problem::Missing {
        field: field.into(),
        action: action.into(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// Removes the first member of these names that is not empty.
pub(super) fn take(
    members: &mut Map<String, Value>,
    keys: &[&str],
    mended: &mut Mended,
) -> Option<Value> {
    let key = keys
        .iter()
        .find(|key| members.get(**key).is_some_and(|value| !is_empty(value)))?;
    if *key != keys[0] {
        mended.add(Mending::FieldName);
    }
    members.remove(*key)
}

/// The same as text: lines of a list are joined, other values are written as JSON.
fn take_text(
    members: &mut Map<String, Value>,
    keys: &[&str],
    mended: &mut Mended,
) -> Option<String> {
    let value = take(members, keys, mended)?;
    Some(match value {
        Value::String(text) => text,
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            mended.add(Mending::FieldType);
            let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            lines.join("\n")
        }
        other => {
            mended.add(Mending::FieldType);
            other.to_string()
        }
    })
}
