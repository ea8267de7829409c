//! Tags (AGT-3): `<execution-code>` holds a cell, `<pip-dependencies-to-install>` the libraries it
//! needs, separated by commas; `<final-answer>` holds the answer. Other tools are
//! `<tool name="…">` with their arguments as JSON.
//!
//! Tags count at the start of a line; anywhere, if none stands there. What is inside of a tag is
//! not looked at for others, so code may have tags in its strings.

use serde_json::{Value, json};

use super::{
    Action, Found, Mended, Mending, Problem, Reader, add_cell, fenced, loose, native, python,
    strip_prefix_any_case,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Libraries,
    Answer,
    Thought,
    Tool,
    Observation,
}

/// Names of tags; the first of each kind is the one that is asked for.
const NAMES: [(&str, Kind); 26] = [
    ("execution-code", Kind::Code),
    ("execution_code", Kind::Code),
    ("execute-code", Kind::Code),
    ("execute_code", Kind::Code),
    ("executioncode", Kind::Code),
    ("execute", Kind::Code),
    ("python", Kind::Code),
    ("code", Kind::Code),
    ("pip-dependencies-to-install", Kind::Libraries),
    ("pip_dependencies_to_install", Kind::Libraries),
    ("pip-dependencies", Kind::Libraries),
    ("final-answer", Kind::Answer),
    ("final_answer", Kind::Answer),
    ("answer", Kind::Answer),
    ("thought", Kind::Thought),
    ("think", Kind::Thought),
    ("thinking", Kind::Thought),
    ("reasoning", Kind::Thought),
    ("tool", Kind::Tool),
    ("tool_call", Kind::Tool),
    ("observation", Kind::Observation),
    ("execution-result", Kind::Observation),
    ("execution_result", Kind::Observation),
    ("output", Kind::Observation),
    ("result", Kind::Observation),
    ("tool_response", Kind::Observation),
];
const CANONICAL: [&str; 5] = [
    "execution-code",
    "pip-dependencies-to-install",
    "final-answer",
    "thought",
    "tool",
];

#[derive(Debug)]
struct Tag<'a> {
    kind: Kind,
    name: &'a str,
    attributes: &'a str,
    closing: bool,
    /// Has its `>`, and its whole name.
    complete: bool,
    line_start: bool,
    start: usize,
    end: usize,
}

pub(super) fn parse(reader: &Reader<'_>, mended: &mut Mended) -> Result<Found, Problem> {
    let text = reader.text;
    let tags = tags(text);
    let acts =
        |tag: &Tag<'_>| !tag.closing && matches!(tag.kind, Kind::Code | Kind::Answer | Kind::Tool);
    let at_lines = tags.iter().any(|tag| acts(tag) && tag.line_start);
    let counts = |tag: &Tag<'_>| tag.line_start || !at_lines;
    let mut found = Found::default();
    let mut libraries = Vec::new();
    let mut problem = None;
    let mut cut = false;
    // Where each kind's next closing tag is looked for; only ever forward.
    let mut closing = [0_usize; 6];
    let same = |t: &Tag<'_>| t.closing && t.kind == Kind::Code && t.complete;
    let last_close = tags.iter().rposition(same);
    let mut index = 0;
    let mut prose = 0;
    while index < tags.len() {
        let tag = &tags[index];
        index += 1;
        if tag.closing || !counts(tag) {
            continue;
        }
        if found.actions.is_empty() {
            found.thought.push_str(&text[prose..tag.start]);
        } else if text[prose..tag.start].lines().any(fenced::is_observation) {
            mended.add(Mending::ObservationCut);
            break;
        }
        if tag.kind == Kind::Observation {
            if found.actions.is_empty() {
                prose = tag.start;
                continue;
            }
            mended.add(Mending::ObservationCut);
            break;
        }
        let cursor = &mut closing[tag.kind as usize];
        *cursor = (*cursor).max(index);
        while tags
            .get(*cursor)
            .is_some_and(|t| !(t.closing && t.kind == tag.kind))
        {
            *cursor += 1;
        }
        let body = match tags.get(*cursor) {
            Some(close) => {
                if !close.complete {
                    mended.add(Mending::TagClosed);
                }
                index = *cursor + 1;
                prose = close.end;
                &text[tag.end..close.start]
            }
            None if reader.truncated => {
                cut = true;
                break;
            }
            None => {
                mended.add(Mending::TagClosed);
                let next = tags[index..]
                    .iter()
                    .find(|next| !next.closing && counts(next));
                let end = next.map_or(text.len(), |next| next.start);
                index += tags[index..]
                    .iter()
                    .take_while(|next| next.start < end)
                    .count();
                prose = end;
                without_partial_tag(&text[tag.end..end])
            }
        };
        if !CANONICAL.contains(&tag.name) && tag.kind != Kind::Thought {
            mended.add(Mending::TagName);
        }
        if !tag.attributes.is_empty() && tag.kind != Kind::Tool {
            mended.add(Mending::TagAttributes);
        }
        match tag.kind {
            Kind::Thought => found.thought.push_str(body),
            Kind::Libraries => libraries = names(body),
            Kind::Answer if !body.trim().is_empty() => {
                found.actions.push(Action::answer(body.trim()));
            }
            Kind::Code => {
                let (body, last) =
                    whole_code(text, tag, body, &tags, last_close.filter(|l| *l >= index));
                if let Some(last) = last {
                    index = last + 1;
                    prose = tags[last].end;
                }
                let code = python::mend(cdata(body), mended);
                if !code.is_empty() {
                    add_cell(&mut found.actions, &code, mended);
                }
            }
            Kind::Tool => match tool(tag, body, reader, mended) {
                Ok(action) => found.actions.push(action),
                Err(new) => problem = problem.or(Some(new)),
            },
            Kind::Answer | Kind::Observation => {}
        }
    }
    if let (false, [Action::Tool { arguments, .. }, ..]) =
        (libraries.is_empty(), &mut found.actions[..])
        && arguments.get("code").is_some()
    {
        arguments["libraries"] = json!(libraries);
    }
    if !found.actions.is_empty() {
        if cut {
            mended.add(Mending::CutTailDropped);
        }
        return Ok(found.hold_back(mended));
    }
    if let Some(problem) = problem {
        return Err(problem);
    }
    if cut {
        return Err(Problem::Truncated);
    }
    // Code in a block instead of a tag.
    let mut notes = Mended::default();
    if let Ok(found) = fenced::parse(reader, &mut notes) {
        mended.add(Mending::CodeInText);
        notes.0.into_iter().for_each(|note| mended.add(note));
        return Ok(found);
    }
    Err(reader.nothing())
}

/// All known tags, in one pass.
fn tags(text: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    let mut line_start = true;
    let mut seen = 0;
    for (start, _) in text.match_indices('<') {
        if !matches!(
            text.as_bytes().get(start + 1),
            Some(b'/' | b'a'..=b'z' | b'A'..=b'Z')
        ) {
            continue;
        }
        line_start = match text[seen..start].rfind('\n') {
            Some(at) => text[seen + at..start].trim().is_empty(),
            None => line_start && text[seen..start].trim().is_empty(),
        };
        seen = start;
        let rest = &text[start + 1..];
        let closing = rest.starts_with('/');
        let name = &rest[usize::from(closing)..];
        let length = name
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .unwrap_or(name.len());
        let (name, after) = name.split_at(length);
        let Some((known, kind, whole)) = known(name, closing) else {
            continue;
        };
        // Attributes are short and on the same line.
        let line = after.split(['\n', '<']).next().unwrap_or_default();
        let (attributes, length, complete) = match line.find('>').filter(|at| *at < 200) {
            Some(at) => (line[..at].trim(), at + 1, whole),
            // Without its end it is only believed at the end of a line.
            None if line.trim().is_empty() && closing => ("", 0, false),
            None => continue,
        };
        let end = start + 1 + usize::from(closing) + name.len() + length;
        tags.push(Tag {
            kind,
            name: known,
            attributes,
            closing,
            complete,
            line_start,
            start,
            end,
        });
        line_start = line_start && !closing;
    }
    tags
}

/// The name that is meant. A closing tag may have lost its end: `</execution`.
fn known(name: &str, closing: bool) -> Option<(&'static str, Kind, bool)> {
    if name.len() > 40 {
        return None;
    }
    let exact = NAMES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some((known, kind)) = exact {
        return Some((known, *kind, true));
    }
    let begins =
        |known: &&str| closing && name.len() >= 4 && strip_prefix_any_case(known, name).is_some();
    let known = CANONICAL.iter().copied().find(|known| begins(known))?;
    let (_, kind) = NAMES.iter().find(|(name, _)| *name == known)?;
    Some((known, *kind, false))
}

/// The body, up to the last closing tag if only then it is Python: code may have the tag in a
/// string. Gives that tag's place among the tags.
fn whole_code<'a>(
    text: &'a str,
    tag: &Tag<'_>,
    body: &'a str,
    tags: &[Tag<'_>],
    last: Option<usize>,
) -> (&'a str, Option<usize>) {
    if let Some(last) = last {
        let mut trial = Mended::default();
        let longer = &text[tag.end..tags[last].start];
        if !python::is_valid(&python::mend(body, &mut trial))
            && python::is_valid(&python::mend(longer, &mut trial))
        {
            return (longer, Some(last));
        }
    }
    (body, None)
}

fn without_partial_tag(body: &str) -> &str {
    let end = body.trim_end();
    match end.rfind("</") {
        Some(at)
            if end[at + 2..]
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') =>
        {
            &end[..at]
        }
        _ => body,
    }
}

fn cdata(body: &str) -> &str {
    let inner = body.trim().strip_prefix("<![CDATA[");
    inner.map_or(body, |inner| inner.strip_suffix("]]>").unwrap_or(inner))
}

/// Libraries, separated by commas or lines.
fn names(body: &str) -> Vec<String> {
    let none = |name: &&str| !name.is_empty() && !name.eq_ignore_ascii_case("none");
    let names = body.split([',', '\n']).map(str::trim).filter(none);
    names.map(str::to_owned).collect()
}

fn tool(
    tag: &Tag<'_>,
    body: &str,
    reader: &Reader<'_>,
    mended: &mut Mended,
) -> Result<Action, Problem> {
    let body = super::fences::unwrap(body).unwrap_or(body).trim();
    let keys = reader.keys(&["name", "arguments", "parameters"]);
    let read = match body {
        "" => Ok((json!({}), 0)),
        body => loose::read(body, 0, &keys, false, mended),
    };
    let (mut arguments, _) = read.map_err(|fault| Problem::Json {
        expected: fault.expected.into(),
        near: fault.near(body),
    })?;
    let mut name = tag
        .attributes
        .split_once("name=")
        .map(|(_, rest)| rest.trim_start_matches(['"', '\'']))
        .and_then(|rest| rest.split(['"', '\'', ' ']).next())
        .unwrap_or_default()
        .to_owned();
    if name.is_empty() {
        // `<tool_call>{"name": …, "arguments": …}</tool_call>`
        mended.add(Mending::CallInText);
        let given = arguments.get("name").and_then(Value::as_str);
        name = given.map(str::to_owned).unwrap_or_default();
        let inner = arguments
            .get("arguments")
            .or_else(|| arguments.get("parameters"));
        arguments = inner.cloned().unwrap_or_default();
    }
    if !reader.knows(&name) {
        return Err(Problem::UnknownTool {
            given: name,
            known: reader.known(),
        });
    }
    native::tool(&name, arguments, None, mended)
}
