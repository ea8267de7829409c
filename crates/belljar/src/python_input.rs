//! Whether what was typed is a whole cell, or the next line belongs to it.
//!
//! Not a parser: it knows strings, comments, brackets and indentation, which is what decides when
//! somebody presses Enter. Whatever it takes for complete goes to Python, which says what is wrong.

/// Whether `text`, without the newline of the Enter just pressed, is to be run.
pub(crate) fn is_complete(text: &str) -> bool {
    if text.starts_with('/') {
        return true;
    }
    if let Some(complete) = ipython(text) {
        return complete;
    }
    let scan = Scan::new(text);
    if scan.open.is_some() {
        return false;
    }
    let ends_blank = text
        .rsplit('\n')
        .next()
        .is_some_and(|line| line.trim().is_empty());
    !(scan.in_block || scan.continued) || ends_blank
}

/// Whether `IPython`'s notation is complete: a cell magic with an empty line, any other line at its
/// end. `None` if it is none.
fn ipython(text: &str) -> Option<bool> {
    let text = text.trim_start();
    if text.starts_with("%%") {
        return Some(text.contains('\n') && text.ends_with('\n'));
    }
    let mut lines = text.rsplit('\n');
    let last = lines.next()?;
    let is_command = text.starts_with(['!', '%', '?']) && lines.all(|line| line.ends_with('\\'));
    is_command.then(|| !last.ends_with('\\'))
}

/// The indentation of a new line after `text`.
pub(crate) fn indentation(text: &str) -> String {
    let is_python = !text.starts_with('/') && ipython(text).is_none();
    if !is_python || Scan::new(text).open == Some(Open::String) {
        return String::new();
    }
    let last = text.rsplit('\n').next().unwrap_or_default();
    let code = last.trim_start();
    let mut spaces = last[..last.len() - code.len()].to_owned();
    let scan = Scan::new(code);
    let leaves = |word: &str| {
        let rest = code.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let leaving = ["return", "raise", "pass", "break", "continue"];
    if scan.open.is_some() || scan.in_block && !code.starts_with('@') {
        spaces.push_str(INDENT);
    } else if leaving.into_iter().any(leaves) {
        let outer = spaces.strip_suffix(INDENT).map_or(0, str::len);
        spaces.truncate(outer);
    }
    spaces
}

/// One level of indentation.
const INDENT: &str = "    ";

/// What more text would have to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Bracket,
    /// Of three quotes.
    String,
}

/// What is known after the last character.
#[derive(Debug, Default)]
struct Scan {
    open: Option<Open>,
    /// The last line ends with a backslash.
    continued: bool,
    /// The last statement opens a block, or is in one.
    in_block: bool,
}

impl Scan {
    fn new(text: &str) -> Self {
        let mut scan = Self::default();
        let mut depth = 0_usize;
        let mut rest = text;
        // Of the statement that is being read: its first character's column, its first and last
        // character, comments and space left out.
        let mut statement: Option<(bool, char, char)> = None;
        let mut line_start = true;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            scan.continued = false;
            match c {
                '#' => length = rest.find('\n').unwrap_or(rest.len()),
                '\n' => {
                    if depth == 0 {
                        if let Some(statement) = statement.take() {
                            scan.in_block = opens_or_is_in_block(statement);
                        }
                        line_start = true;
                    }
                }
                '\\' if rest == "\\" => scan.continued = true,
                '\\' if rest.starts_with("\\\n") => length = 2,
                c if c.is_whitespace() => {
                    if line_start && statement.is_none() {
                        let blank =
                            rest.len() - rest.trim_start_matches([' ', '\t', '\u{c}']).len();
                        length = blank.max(length);
                        let indented = rest[length..].chars().next();
                        if let Some(first) = indented.filter(|c| !matches!(c, '\n' | '#')) {
                            statement = Some((true, first, first));
                        }
                    }
                }
                c => {
                    line_start = false;
                    let (_, _, last) = statement.get_or_insert((false, c, c));
                    *last = c;
                    match c {
                        '(' | '[' | '{' => depth += 1,
                        // One too many is for Python to tell.
                        ')' | ']' | '}' => depth = depth.saturating_sub(1),
                        '\'' | '"' => match string_length(rest) {
                            Ok(found) => length = found,
                            Err(Unclosed::Line) => return Self::default(),
                            Err(Unclosed::Text) => {
                                return Self {
                                    open: Some(Open::String),
                                    ..Self::default()
                                };
                            }
                        },
                        _ => {}
                    }
                }
            }
            rest = &rest[length..];
        }
        if let Some(statement) = statement {
            scan.in_block = opens_or_is_in_block(statement);
        }
        scan.open = (depth > 0).then_some(Open::Bracket);
        scan
    }
}

fn opens_or_is_in_block((indented, first, last): (bool, char, char)) -> bool {
    indented || first == '@' || last == ':'
}

pub(crate) enum Unclosed {
    /// It ends with its line: whatever follows, Python will refuse it.
    Line,
    /// More text may close it.
    Text,
}

/// The length of the string that `text` starts with, quotes included.
pub(crate) fn string_length(text: &str) -> Result<usize, Unclosed> {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let long = text.starts_with(&triple);
    let closing = if long { triple.as_str() } else { quote };
    let mut at = closing.len();
    while let Some(c) = text[at..].chars().next() {
        match c {
            _ if text[at..].starts_with(closing) => return Ok(at + closing.len()),
            '\\' => {
                at += 1;
                let Some(escaped) = text[at..].chars().next() else {
                    return Err(Unclosed::Text);
                };
                at += escaped.len_utf8();
            }
            '\n' if !long => return Err(Unclosed::Line),
            c => at += c.len_utf8(),
        }
    }
    Err(if long { Unclosed::Text } else { Unclosed::Line })
}

#[cfg(test)]
mod tests {
    use super::{indentation, is_complete};

    #[test]
    fn a_new_line_is_indented_as_its_block() {
        for (text, spaces) in [
            ("x = 1", 0),
            ("def f():", 4),
            ("def f():  # why", 4),
            ("if x:\n    for y in z:", 8),
            ("if x:\n    y", 4),
            ("if x:\n    return y", 0),
            ("if x:\n    returned = y", 4),
            ("if x:\n    pass  # later", 0),
            ("@decorator", 0),
            ("f(", 4),
            ("    f(a,", 8),
            ("x = {'a': 1}", 0),
            ("x = '''", 0),
            ("if x:\n    s = '''\n    text:", 0),
            ("/put a:", 0),
        ] {
            assert_eq!(indentation(text), " ".repeat(spaces), "{text}");
        }
        assert_eq!(indentation("if x:\n\ty"), "\t");
    }

    #[test]
    fn one_line_runs_at_once() {
        for text in [
            "",
            "x = 1",
            "x = {'a': 1}",
            "x[1:]",
            "print('(')",
            "x  # (",
            "x = '#'  # not: open [",
            "for i in range(3): print(i)",
            "f\"{d['a']}\"",
            r"r'\'' ",
            "'''one''' + \"\"\"two\"\"\"",
            "a = lambda: 3",
            "变量 = '中文（'",
        ] {
            assert!(is_complete(text), "{text}");
        }
    }

    #[test]
    fn a_command_is_one_line() {
        assert!(is_complete("/get it's (mine)"));
        assert!(is_complete("!for f in (a b"));
    }

    #[test]
    fn a_command_of_the_shell_ends_with_its_line_and_a_cell_magic_with_an_empty_one() {
        for text in [
            "!echo it's (",
            "%time f(",
            "?len",
            "len?",
            "!echo \\\n  (",
            "%%time\nx = (\n",
        ] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["!echo \\", "%%bash", "%%bash\necho it's"] {
            assert!(!is_complete(text), "{text}");
            assert_eq!(indentation(text), "");
        }
    }

    #[test]
    fn what_is_open_goes_on_even_after_an_empty_line() {
        for text in [
            "print(",
            "x = [1,\n",
            "x = {\n  'a': (1,\n\n",
            "'''one\n\n",
            "x = \"\"\"a\\\"\"\"",
            "'abc\\",
        ] {
            assert!(!is_complete(text), "{text}");
        }
        assert!(is_complete("x = [1,\n\n2]"));
        assert!(is_complete("'''one\n\ntwo'''"));
    }

    #[test]
    fn a_backslash_goes_on() {
        assert!(!is_complete("x = 1 + \\"));
        assert!(is_complete("x = 1 + \\\n2"));
        assert!(is_complete("x = 1 + \\\n"));
        assert!(is_complete("x = 1  # \\"));
    }

    #[test]
    fn a_block_ends_with_an_empty_line() {
        for text in [
            "def f():",
            "def f():  # why",
            "def f(\n  a,\n):",
            "if x:\n    y",
            "if x:\n    y\n\n    z",
            "if x:\n    y\nelse:",
            "@decorator",
            "@decorator\ndef f():\n\tpass",
            "if x:\n    f(1,\n2)",
            "if x:\n    # nothing yet",
            "if x:\n    s = '''\nq'''",
        ] {
            assert!(!is_complete(text), "{text}");
            assert!(is_complete(&format!("{text}\n")), "{text}");
            assert!(is_complete(&format!("{text}\n    ")), "{text}");
        }
    }

    #[test]
    fn a_statement_after_a_block_runs() {
        assert!(is_complete("def f():\n    return 1\n\nf()"));
        assert!(is_complete("if a:\n    b\nelse: c"));
        assert!(is_complete("if a:\n    b\n# done\nf()"));
    }

    #[test]
    fn what_is_wrong_is_for_python_to_tell() {
        for text in ["x = 'open", "x = )", "print('a", "if 'a:"] {
            assert!(is_complete(text), "{text}");
        }
    }

    #[test]
    fn any_text_gets_an_answer() {
        let alphabet = [
            'a', ' ', '\n', '\'', '"', '\\', '(', ')', ':', '#', '@', '中', '\t',
        ];
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 14 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push(alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]);
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            let _ = is_complete(&text);
            let _ = indentation(&text);
        }
    }
}
