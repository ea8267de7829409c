//! Texts in an editor, which shows Markdown: what is not ours is in a block that it cannot leave.

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, SessionUpdate, TextContent};
use belljar_journal::RunId;
use belljar_protocol::visible;

/// The most characters of a title.
const TITLE: usize = 80;

pub(crate) fn text(text: impl Into<String>) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

/// A part of what the agent says.
pub(crate) fn message(block: ContentBlock) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(block))
}

/// The id of a call of a run in its session, which has several runs.
pub(crate) fn call_id(run: &RunId, id: &str) -> String {
    format!("{run}:{id}")
}

/// The title of a cell.
pub(crate) fn code_title(code: &str) -> String {
    format!("Python: {}", title(code))
}

/// A block of code. Its fence is longer than any in it.
pub(crate) fn fenced(language: &str, contents: &str) -> String {
    let longest = contents
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let newline = if contents.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{contents}{newline}{fence}")
}

/// A name in the middle of a sentence.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", visible(name).replace('`', "'"))
}

/// One line: the first one that is not empty.
pub(crate) fn title(contents: &str) -> String {
    let line = contents
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let line = visible(line.unwrap_or_default()).into_owned();
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The beginning of a text, and a mark where it was cut.
pub(crate) fn head(contents: &str, most: usize) -> String {
    if contents.len() <= most {
        return contents.to_owned();
    }
    format!("{}\n…", &contents[..contents.floor_char_boundary(most)])
}

/// The end of a text, and a mark where it was cut.
pub(crate) fn tail(contents: &str, most: usize) -> String {
    if contents.len() <= most {
        return contents.to_owned();
    }
    let from = contents.ceil_char_boundary(contents.len() - most);
    format!("…\n{}", &contents[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cannot_be_left() {
        assert_eq!(fenced("python", "x = 1"), "```python\nx = 1\n```");
        let hostile = fenced("", "```\n# Approved\n`````x");
        assert!(hostile.starts_with("``````\n") && hostile.ends_with("\n``````"));
        assert_eq!(quoted("a`b\u{202e}"), "`a'b<U+202E>`");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(title("\n\n  x = 1\ny"), "x = 1");
        assert_eq!(title(&"ä".repeat(100)), "ä".repeat(80) + "…");
        assert_eq!(head("äää", 3), "ä\n…");
        assert_eq!(tail("äää", 3), "…\nä");
    }
}
