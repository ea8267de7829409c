//! Markdown's fenced blocks, as models write them. One pass over the lines.

use super::python;

/// A piece of a text.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Prose { text: &'a str, start: usize },
    Block(Block<'a>),
}

#[derive(Debug)]
pub(super) struct Block<'a> {
    /// The first word after the opening fence.
    pub(super) label: &'a str,
    pub(super) body: &'a str,
    /// The end of the text closed it, or something else that is no closing fence.
    pub(super) odd_close: bool,
    /// Nothing but the end of the text closed it.
    pub(super) open: bool,
}

pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    // Where prose began, or the opening fence of the block that is open.
    let mut prose = 0;
    let mut open: Option<Open<'_>> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let fence = Fence::from_line(line);
        match (&open, fence) {
            (None, Some(fence)) => {
                push_prose(&mut out, text, prose, start);
                if let Some((label, body)) = fence.inline() {
                    out.push(Piece::Block(Block {
                        label,
                        body,
                        odd_close: true,
                        open: false,
                    }));
                    prose = at;
                } else {
                    open = Some(Open { fence, body: at });
                }
            }
            (Some(block), Some(fence)) if fence.closes(&block.fence) => {
                out.push(block.closed(&text[block.body..start], false, false));
                open = None;
                prose = at;
            }
            (Some(block), Some(fence)) if fence.opens_python(&block.fence) => {
                // The one before was never closed, or was a fence around a fence.
                if !text[block.body..start].trim().is_empty() {
                    out.push(block.closed(&text[block.body..start], true, false));
                }
                open = Some(Open { fence, body: at });
            }
            (Some(block), None) => {
                // `print(x)```` closes where a fence on its own line should.
                let trimmed = line.trim_end();
                let ticks = trimmed.len() - trimmed.trim_end_matches('`').len();
                if block.fence.mark == '`' && ticks >= block.fence.length {
                    let end = start + trimmed.len() - ticks;
                    out.push(block.closed(&text[block.body..end], true, false));
                    open = None;
                    prose = at;
                }
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
    match open {
        Some(block) => out.push(block.closed(&text[block.body..], true, true)),
        None => push_prose(&mut out, text, prose, text.len()),
    }
    out
}

fn push_prose<'a>(out: &mut Vec<Piece<'a>>, text: &'a str, start: usize, end: usize) {
    if !text[start..end].trim().is_empty() {
        out.push(Piece::Prose {
            text: &text[start..end],
            start,
        });
    }
}

struct Open<'a> {
    fence: Fence<'a>,
    body: usize,
}

impl<'a> Open<'a> {
    fn closed(&self, body: &'a str, odd_close: bool, open: bool) -> Piece<'a> {
        Piece::Block(Block {
            label: self.fence.label(),
            body,
            odd_close,
            open,
        })
    }
}

struct Fence<'a> {
    mark: char,
    length: usize,
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn from_line(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        (length >= 3).then_some(Self {
            mark,
            length,
            info: info.trim(),
        })
    }

    fn label(&self) -> &'a str {
        let end = |c: char| c.is_whitespace() || c == '{' || c == ',';
        let info = self.info.trim_start_matches(['{', '.']);
        info.split(end)
            .next()
            .unwrap_or_default()
            .trim_end_matches('}')
    }

    /// A block on one line: its label and its body.
    fn inline(&self) -> Option<(&'a str, &'a str)> {
        let body = self.info.strip_suffix("```")?;
        let body = body.trim_end_matches('`');
        let (label, rest) = body.split_once(' ').unwrap_or(("", body));
        Some(if python::is_language(label) || label.is_empty() {
            (label, rest.trim())
        } else {
            ("", body.trim())
        })
    }

    fn closes(&self, open: &Fence<'_>) -> bool {
        self.mark == open.mark && self.length >= open.length && self.info.is_empty()
    }

    fn opens_python(&self, open: &Fence<'_>) -> bool {
        self.mark == open.mark
            && self.length >= open.length
            && (python::is_language(self.info) || python::is_language(self.label()))
    }
}

/// The inside of a text that is one fenced block, however deep.
pub(super) fn unwrap(text: &str) -> Option<&str> {
    let mut inner = text.trim();
    let mut found = false;
    // Two levels are what models write; a bound keeps hostile input linear.
    for _ in 0..3 {
        let Some((first, rest)) = inner.split_once('\n') else {
            break;
        };
        let Some(fence) =
            Fence::from_line(first).filter(|f| f.info.split_whitespace().count() <= 1)
        else {
            break;
        };
        let rest = rest.trim_end();
        let bare = rest.trim_end_matches(fence.mark);
        inner = if rest.len() - bare.len() >= 3 {
            bare
        } else {
            rest
        };
        inner = inner.trim_matches('\n');
        found = true;
    }
    // A closing fence whose opening fence was lost.
    if !found && inner.contains('\n') {
        let (body, last) = inner.rsplit_once('\n')?;
        let lone = Fence::from_line(last).is_some_and(|f| f.info.is_empty() && f.mark == '`');
        if lone && !body.contains("```") {
            return Some(body);
        }
    }
    found.then_some(inner)
}
