//! `input()` and `getpass()` of a program, answered at the terminal.

use crate::support::{Scratch, bare};
use crate::typist::Typist;

#[test]
fn a_program_asks_at_the_terminal() {
    let code = "import getpass\nname = input('\\x1b[2JName: ')\nkey = getpass.getpass('Key: ')\nprint('got', name, len(key))";
    let mut typist = Typist::start(Scratch::new(), &["exec", "--env", bare(), code]);
    typist.sees("Name: ", 1);
    typist.types("Zoo\u{7f}ë\r").sees("Key: ", 1);
    typist.types("s3cret\r").sees("got Zoë 6", 1);
    // A prompt is a program's text: it commands nothing. A password is not shown.
    let raw = typist.raw();
    assert!(!raw.contains("\u{1b}[2J"), "{raw:?}");
    let (ended, shown) = typist.ends();
    ended.exits_with(0);
    assert!(!shown.contains("s3cret"), "{shown}");

    // Ctrl-D is the end of input, and Ctrl-C an interrupt.
    let mut typist = Typist::start(Scratch::new(), &["exec", "--env", bare(), "input('> ')"]);
    typist.sees("> ", 1).types("\u{4}").sees("EOFError", 1);
    typist.ends().0.exits_with(1);
    let mut typist = Typist::start(Scratch::new(), &["exec", "--env", bare(), "input('> ')"]);
    typist.sees("> ", 1).types("half\u{3}");
    typist.ends().0.exits_with(130);
}

#[test]
fn repl_answers_questions_and_keeps_the_lines_after_them() {
    let mut typist = Typist::start(Scratch::new(), &["repl", "--env", bare()]);
    typist.sees("In [1]: ", 1).types("x = input('Name: ')\r");
    typist.sees("Name: ", 2);
    // The second line is for the prompt.
    typist
        .types("first\rprint('got', x)\r")
        .sees("got first", 1);
    typist.types("\u{4}");
    typist.ends().0.exits_with(0);
}

/// Without a terminal nobody can be asked.
#[test]
fn a_pipe_answers_nothing() {
    let scratch = Scratch::new();
    let ended = scratch.feed("line\n", &["exec", "--env", bare(), "input()"]);
    ended.exits_with(1).says("does not answer input()");
}
