//! Python in colours: words of the language, strings, numbers and comments.

use owo_colors::{OwoColorize as _, Style};

use crate::python_input::string_length;

const WORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Code with colours, each ended within its line.
pub(crate) fn python(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (length, style) = token(rest, first);
        let (piece, after) = rest.split_at(length);
        for (number, line) in piece.split('\n').enumerate() {
            if number > 0 {
                out.push('\n');
            }
            match style {
                Some(style) if !line.is_empty() => out.push_str(&line.style(style).to_string()),
                _ => out.push_str(line),
            }
        }
        rest = after;
    }
    out
}

/// The length of what a text begins with, and how that is shown.
fn token(text: &str, first: char) -> (usize, Option<Style>) {
    let line = || text.find('\n').unwrap_or(text.len());
    let string = Some(Style::new().green());
    match first {
        '#' => (line(), Some(Style::new().dimmed())),
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
            let style = WORDS.contains(&word).then(|| Style::new().magenta());
            (word.len(), style)
        }
        c if c.is_ascii_digit() => {
            let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.'));
            let style = Some(Style::new().yellow());
            (end.unwrap_or(text.len()), style)
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
