//! `belljar repl` at a terminal: what is typed arrives, whenever it is typed.

use crate::support::{Scratch, bare};
use crate::typist::Typist;

fn repl() -> Typist {
    repl_with(Scratch::new(), &[])
}

fn repl_with(scratch: Scratch, arguments: &[&str]) -> Typist {
    let arguments = [&["repl", "--env", bare()], arguments].concat();
    Typist::start(scratch, &arguments)
}

/// The lines that a program wrote which start so.
fn lines_of<'a>(shown: &'a str, start: &str) -> Vec<&'a str> {
    let lines = shown.lines().map(str::trim_end);
    lines.filter(|line| line.starts_with(start)).collect()
}

/// Typed at once, before the repl is there; each cell runs a while.
#[test]
fn repl_loses_no_line_of_a_fast_typist() {
    for enter in ["\r", "\n"] {
        let mut typist = repl();
        for number in 0..50 {
            let pause = "import time; time.sleep(0.02)";
            typist.types(&format!("{pause}; print('got', 7 * {number}){enter}"));
        }
        typist.types(&format!("exit(){enter}"));
        let (ended, shown) = typist.ends();
        ended.exits_with(0);
        let expected: Vec<String> = (0..50)
            .map(|number| format!("got {}", 7 * number))
            .collect();
        assert_eq!(lines_of(&shown, "got "), expected, "{shown}");
    }
}

#[test]
fn repl_keeps_what_is_typed_while_a_cell_runs() {
    let mut typist = repl();
    typist.sees("In [1]: ", 1);
    typist.types("import time; print('sta' + 'rted'); time.sleep(1)\r");
    typist.sees("started", 1);
    // Blocks keep the indentation that they are typed with.
    for line in [
        "def f(n):",
        "    if n:",
        "        return 'yes'",
        "    else:",
        "        return 'no'",
        "",
        "print('got', f(1), f(0))",
    ] {
        typist.types(&format!("{line}\r"));
    }
    typist.types("print('got', 'half");
    typist.sees("got yes no", 1);
    // Half a line waits at the prompt, and can be finished there.
    typist.sees("In [4]: print('got', 'half", 1);
    typist.types(" a line')\r");
    typist.sees("got half a line", 1);
    typist.types("\x04");
    let (ended, shown) = typist.ends();
    ended.exits_with(0);
    assert_eq!(lines_of(&shown, "got "), ["got yes no", "got half a line"]);
}

#[test]
fn repl_interrupts_a_cell_and_keeps_what_was_typed_before_and_after() {
    let mut typist = repl();
    typist.sees("In [1]: ", 1);
    typist.types("x = 20\rprint('sta' + 'rted'); exec('while True: pass')\r");
    typist.sees("started", 1);
    typist.types("y = x + 1\r");
    typist.types("\x03print('got', x + y)\rexit()\r");
    let (ended, shown) = typist.ends();
    ended.exits_with(0);
    assert!(shown.contains("KeyboardInterrupt"), "{shown}");
    assert_eq!(lines_of(&shown, "got "), ["got 41"], "{shown}");
}

#[test]
fn repl_indents_and_marks_values() {
    let mut typist = repl();
    typist.sees("In [1]: ", 1);
    // As a person does, who sees each line before Enter.
    typist.types("def f():").sees("In [1]: def f():", 1);
    typist.types("\r").sees("...:     ", 1);
    typist
        .types("return 6 * 7")
        .sees("...:     return 6 * 7", 1);
    typist.types("\r\r").sees("In [2]: ", 1);
    typist.types("f()\r").sees("Out[2]: 42", 1);
    // What is printed or displayed is no value.
    typist.types("display(1); print('got'); None\r");
    typist.sees("In [4]: ", 1);
    typist.types("\x04");
    let (ended, shown) = typist.ends();
    ended.exits_with(0);
    assert!(!shown.contains("Out[3]"), "{shown}");
}

#[test]
fn repl_completes_keys_and_paths() {
    let scratch = Scratch::new();
    scratch.write("input.txt", "hello");
    let mut typist = repl_with(scratch, &["--put", "input.txt", "--out", "results"]);
    typist.sees("In [1]: ", 1);
    typist.types("d = {'alphabet': 26}\r").sees("In [2]: ", 1);
    typist.types("d['al\t").sees("d['alphabet", 1);
    typist
        .types("']\r")
        .sees("Out[2]: 26", 1)
        .sees("In [3]: ", 1);
    typist.types("open('inp\t").sees("open('input.txt", 1);
    typist.types("').read()\r").sees("Out[3]: 'hello'", 1);
    typist
        .types("open('made.txt', 'w').write('made')\r")
        .sees("Out[4]: 4", 1);
    typist.types("\x04");
    let (ended, _) = typist.ends();
    ended.exits_with(0);
    assert_eq!(typist.scratch.read("results/made.txt"), "made");
}
