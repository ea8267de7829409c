//! Python in colours: words of the language, strings, numbers and comments.

use owo_colors::{OwoColorize as _, Style};

use crate::python_input::string_length;

const WORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// What a piece of code is, where it has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    String,
    Number,
    Comment,
}

/// Code with colours, each ended within its line.
pub(crate) fn python(code: &str) -> String {
    let mut out = String::new();
    for (piece, kind) in pieces(code) {
        let style = kind.map(|kind| match kind {
            Kind::Word => Style::new().magenta(),
            Kind::String => Style::new().green(),
            Kind::Number => Style::new().yellow(),
            Kind::Comment => Style::new().dimmed(),
        });
        for (number, line) in piece.split('\n').enumerate() {
            if number > 0 {
                out.push('\n');
            }
            match style {
                Some(style) if !line.is_empty() => out.push_str(&line.style(style).to_string()),
                _ => out.push_str(line),
            }
        }
    }
    out
}

/// The pieces of code, which together are all of it.
pub(crate) fn pieces(code: &str) -> impl Iterator<Item = (&str, Option<Kind>)> {
    let mut rest = code;
    std::iter::from_fn(move || {
        let (length, kind) = token(rest, rest.chars().next()?);
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some((piece, kind))
    })
}

/// The length of what a text begins with, and what it is.
fn token(text: &str, first: char) -> (usize, Option<Kind>) {
    let line = || text.find('\n').unwrap_or(text.len());
    let string = Some(Kind::String);
    match first {
        '#' => (line(), Some(Kind::Comment)),
        '\'' | '"' => (string_length(text).unwrap_or_else(|_| line()), string),
        c if c.is_alphabetic() || c == '_' => {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (word, after) = text.split_at(end.unwrap_or(text.len()));
            let prefix = word.len() <= 2 && word.chars().all(|c| "rbfutRBFUT".contains(c));
            if prefix && after.starts_with(['\'', '"']) {
                let length = string_length(after);
                let length = length.unwrap_or_else(|_| after.find('\n').unwrap_or(after.len()));
                return (word.len() + length, string);
            }
            (word.len(), WORDS.contains(&word).then_some(Kind::Word))
        }
        c if c.is_ascii_digit() => {
            let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.'));
            (end.unwrap_or(text.len()), Some(Kind::Number))
        }
        c => (c.len_utf8(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_strings_numbers_and_comments_have_colours() {
        let shown = python("for x in f'a{1}': # no\n  y = 0x1f");
        assert_eq!(
            shown,
            "\x1b[35mfor\x1b[0m x \x1b[35min\x1b[0m \x1b[32mf'a{1}'\x1b[0m: \x1b[2m# no\x1b[0m\n  y = \x1b[33m0x1f\x1b[0m"
        );
    }

    #[test]
    fn nothing_is_lost_and_no_colour_leaves_its_line() {
        for code in [
            "'''a\nb''' + 'open\nx = 1",
            "变量 = \"中文\"\n",
            "'\\",
            "\"\"\"never\nclosed",
            "1.5e-3j",
            "rb'\\x00' U'x",
        ] {
            let shown = python(code);
            assert_eq!(belljar_sandbox::protocol::plain(&shown), code);
            for line in shown.split('\n') {
                assert_eq!(
                    line.matches("\x1b[0m").count() * 2,
                    line.matches('\x1b').count()
                );
            }
        }
    }
}
