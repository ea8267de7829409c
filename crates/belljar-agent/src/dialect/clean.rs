//! What all dialects remove before they look: invisible characters, and blocks of thoughts.

use super::{Mended, Mending};

/// Names of tags around thoughts, as reasoning models write them.
const THINKING: [&str; 5] = ["think", "thinking", "thought", "reasoning", "thoughts"];

pub(super) struct Cleaned {
    pub(super) thought: String,
    pub(super) text: String,
}

pub(super) fn clean(text: &str, truncated: bool, mended: &mut Mended) -> Cleaned {
    // Between letters of some scripts a joiner of no width is part of a word, so only those are
    // removed that no script needs, and the joiners nowhere.
    const INVISIBLE: [char; 3] = ['\u{feff}', '\u{200b}', '\u{2060}'];
    let mut text = text.replace("\r\n", "\n");
    if text.contains(INVISIBLE) {
        text.retain(|c| !INVISIBLE.contains(&c));
        mended.add(Mending::InvisibleRemoved);
    }
    let mut thoughts = Vec::new();
    let mut rest = text.as_str();
    // A template of a reasoning model may have written the opening tag into the prompt.
    if let Some((end, after)) = first_close_without_open(rest) {
        thoughts.push(rest[..end].trim());
        rest = &rest[after..];
        mended.add(Mending::ThinkingDelimited);
    }
    loop {
        let start = rest.trim_start();
        let Some(name) = THINKING.into_iter().find(|name| opens(start, name)) else {
            break;
        };
        let body = &start[name.len() + 2..];
        let close = format!("</{name}>");
        if let Some((thought, after)) = body.split_once(&close) {
            thoughts.push(thought.trim());
            rest = after;
            continue;
        }
        mended.add(Mending::ThinkingDelimited);
        if truncated {
            thoughts.push(body.trim());
            rest = "";
        } else {
            // Never closed and not cut: the action may stand inside of it.
            rest = body;
        }
        break;
    }
    thoughts.retain(|thought| !thought.is_empty());
    Cleaned {
        thought: thoughts.join("\n\n"),
        text: rest.to_owned(),
    }
}

fn opens(text: &str, name: &str) -> bool {
    text.strip_prefix('<')
        .and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with('>'))
}

/// Where thoughts end that no tag began: only the names that nothing but a template leaves out.
fn first_close_without_open(text: &str) -> Option<(usize, usize)> {
    ["think", "thinking"].into_iter().find_map(|name| {
        let close = format!("</{name}>");
        let end = text.find(&close)?;
        (!text[..end].contains(&format!("<{name}>"))).then_some((end, end + close.len()))
    })
}
