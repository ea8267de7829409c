//! Tool calls in the provider's own format; several in one reply, and the legacy `function_call`.
//!
//! A reply without calls is the answer, unless the call stands in its text: as `<tool_call>` or as
//! one JSON object that names a known tool; or, where an `answer` tool was offered, as a block of
//! Python.

use serde_json::{Map, Value, json};

use super::{
    ANSWER, Action, Found, Mended, Mending, PYTHON, Problem, RawToolCall, Reader, fenced,
    json_action, loose, python,
};
use crate::tool::{Tool, find_tool};

const CODE: [&str; 6] = [
    "code",
    "python_code_snippet",
    "python_code",
    "source",
    "script",
    "input",
];
const TEXT: [&str; 5] = ["text", "answer", "final_answer", "content", "response"];

pub(super) fn parse(
    reader: &Reader<'_>,
    calls: &[RawToolCall],
    mended: &mut Mended,
) -> Result<Found, Problem> {
    if calls.is_empty() {
        return from_text(reader, mended);
    }
    let mut found = Found {
        thought: reader.text.to_owned(),
        actions: Vec::new(),
    };
    for (index, call) in calls.iter().enumerate() {
        // Only the last call can have been cut.
        let cut = reader.truncated && index + 1 == calls.len();
        let action = one(call, cut, reader, mended).unwrap_or_else(|problem| Action::Refused {
            name: call.name.clone(),
            problem,
            call_id: call.id.clone(),
        });
        found.actions.push(action);
    }
    if let [
        Action::Refused {
            problem: Problem::Truncated,
            ..
        },
    ] = &found.actions[..]
    {
        return Err(Problem::Truncated);
    }
    // Code before the answer; but the answer's call needs a result as well.
    let answer = |action: &Action| matches!(action, Action::Answer { .. });
    if found.actions.len() > 1 && found.actions.iter().any(answer) {
        for action in &mut found.actions {
            if let Action::Answer { call_id, .. } = action {
                *action = Action::Refused {
                    name: ANSWER.into(),
                    problem: Problem::AnswerTooEarly,
                    call_id: call_id.take(),
                };
            }
        }
        mended.add(Mending::AnswerHeldBack);
    }
    Ok(found)
}

fn one(
    call: &RawToolCall,
    cut: bool,
    reader: &Reader<'_>,
    mended: &mut Mended,
) -> Result<Action, Problem> {
    let name = call.name.trim();
    if !reader.knows(name) {
        return Err(Problem::UnknownTool {
            given: name.into(),
            known: reader.known(),
        });
    }
    let text = call.arguments.trim();
    let keys = reader.keys(&CODE);
    let arguments = match loose::read(text, 0, &keys, cut, mended) {
        _ if text.is_empty() => Value::Object(Map::new()),
        Ok((value, end)) if text[end..].trim().is_empty() => value,
        _ if cut => return Err(Problem::Truncated),
        // The code itself instead of an object that holds it.
        _ if name == PYTHON && !text.starts_with('{') && python::is_program(text) => {
            mended.add(Mending::ArgumentsAsText);
            json!({ "code": text })
        }
        Ok((_, end)) => {
            return Err(Problem::Json {
                expected: "one object".into(),
                near: super::quote(text, end),
            });
        }
        Err(fault) => {
            return Err(Problem::Json {
                expected: fault.expected.into(),
                near: fault.near(text),
            });
        }
    };
    tool(name, arguments, call.id.clone(), mended)
}

/// A call of a known tool, whose arguments may still be text.
pub(super) fn tool(
    name: &str,
    arguments: Value,
    call_id: Option<String>,
    mended: &mut Mended,
) -> Result<Action, Problem> {
    if name == ANSWER {
        let text = answer_text(&arguments);
        let text = text.filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| missing(TEXT[0], name))?;
        return Ok(Action::Answer {
            text: text.trim().into(),
            call_id,
        });
    }
    let mut members = match arguments {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        Value::String(text) => {
            mended.add(Mending::ArgumentsAsText);
            match loose::read(text.trim(), 0, &[], false, mended) {
                Ok((Value::Object(members), _)) => members,
                _ if takes_code(name) => Map::from_iter([("code".to_owned(), Value::String(text))]),
                _ => return Err(not_an_object(&text)),
            }
        }
        other => return Err(not_an_object(&other.to_string())),
    };
    if takes_code(name) {
        let code = json_action::take(&mut members, &CODE, mended);
        let code = code.as_ref().and_then(Value::as_str).unwrap_or_default();
        let code = python::mend(code, mended);
        if code.is_empty() {
            return Err(missing(CODE[0], name));
        }
        // First, as it is asked for.
        members.shift_insert(0, "code".into(), Value::String(code));
    }
    Ok(Action::Tool {
        name: name.into(),
        arguments: Value::Object(members),
        call_id,
    })
}

pub(super) fn takes_code(name: &str) -> bool {
    name == PYTHON || find_tool(name).is_some_and(Tool::takes_code)
}

fn missing(field: &str, action: &str) -> Problem {
    Problem::Missing {
        field: field.into(),
        action: action.into(),
    }
}

fn not_an_object(text: &str) -> Problem {
    Problem::Json {
        expected: "arguments as an object".into(),
        near: super::quote(text, 0),
    }
}

/// The text of an answer, from whatever the arguments are.
pub(super) fn answer_text(arguments: &Value) -> Option<String> {
    match arguments {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => {
            let known = TEXT.iter().find_map(|key| members.get(*key));
            match known.or_else(|| members.values().next())? {
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        }
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn from_text(reader: &Reader<'_>, mended: &mut Mended) -> Result<Found, Problem> {
    let text = reader.text.trim();
    if let Some(found) = calls_in_text(reader, mended)? {
        mended.add(Mending::CallInText);
        return Ok(found.hold_back(mended));
    }
    if reader.tools.iter().any(|tool| tool.name == ANSWER) {
        let mut notes = Mended::default();
        if let Ok(found) = fenced::parse(reader, &mut notes) {
            if !matches!(found.actions[..], [Action::Answer { .. }]) {
                mended.add(Mending::CodeInText);
            }
            notes.0.into_iter().for_each(|note| mended.add(note));
            return Ok(found);
        }
    }
    if text.is_empty() || reader.truncated {
        return Err(reader.nothing());
    }
    if reader.tools.iter().any(|tool| tool.name == ANSWER) {
        mended.add(Mending::AnswerMark);
    }
    Ok(Found {
        thought: String::new(),
        actions: vec![Action::answer(text)],
    })
}

/// Calls that the model's template should have made calls, but left as text.
fn calls_in_text(reader: &Reader<'_>, mended: &mut Mended) -> Result<Option<Found>, Problem> {
    const OPEN: [&str; 3] = ["<tool_call>", "<|python_tag|>", "<function_call>"];
    let text = reader.text;
    let marked = OPEN.iter().any(|open| text.contains(open));
    let whole = super::fences::unwrap(text).unwrap_or(text).trim();
    if !marked && !whole.starts_with(['{', '[']) {
        return Ok(None);
    }
    let text = if marked { text } else { whole };
    let from = OPEN
        .iter()
        .filter_map(|open| text.find(open))
        .min()
        .unwrap_or(0);
    let mut found = Found {
        thought: text[..from].trim().to_owned(),
        actions: Vec::new(),
    };
    let mut at = from;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        let mut notes = Mended::default();
        let read = loose::read(
            text,
            start,
            &reader.keys(&["name", "arguments", "parameters"]),
            reader.truncated,
            &mut notes,
        );
        let (value, end) = match read {
            Ok(read) => read,
            Err(fault) if reader.truncated && fault.at_end => {
                if found.actions.is_empty() {
                    return Err(Problem::Truncated);
                }
                mended.add(Mending::CutTailDropped);
                break;
            }
            Err(fault) if marked => {
                return Err(Problem::Json {
                    expected: fault.expected.into(),
                    near: fault.near(text),
                });
            }
            Err(_) => return Ok(None),
        };
        at = end;
        let Value::Object(mut members) = value else {
            continue;
        };
        let Some(Value::String(name)) =
            json_action::take(&mut members, &["name", "function", "tool"], &mut notes)
        else {
            continue;
        };
        if !reader.knows(&name) {
            // An object of the answer's own that happens to have a name.
            if !marked {
                return Ok(None);
            }
            return Err(Problem::UnknownTool {
                given: name,
                known: reader.known(),
            });
        }
        let arguments = json_action::take(
            &mut members,
            &["arguments", "parameters", "args"],
            &mut notes,
        );
        if arguments.is_none() && !marked {
            return Ok(None);
        }
        notes
            .0
            .into_iter()
            .filter(|note| *note != Mending::FieldName)
            .for_each(|note| mended.add(note));
        found
            .actions
            .push(tool(&name, arguments.unwrap_or_default(), None, mended)?);
    }
    Ok((!found.actions.is_empty()).then_some(found))
}
