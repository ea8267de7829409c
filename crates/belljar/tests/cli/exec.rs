//! `belljar exec`: what goes in, how it ends, what machines get.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{BELLJAR, Scratch, bare, cgroups_of, default_environment, eventually};

#[test]
fn exec_runs_a_string() {
    let ended = Scratch::new().exec(&["import sys\nprint('out')\nprint('err', file=sys.stderr)"]);
    let ended = ended.exits_with(0).prints("out\n");
    assert_eq!(ended.stderr, "err\n");
}

#[test]
fn exec_shows_the_last_expression() {
    let ended = Scratch::new().exec(&["x = 6\nx * 7"]);
    ended.exits_with(0).prints("42\n").says_nothing();
}

#[test]
fn exec_runs_a_file() {
    let scratch = Scratch::new();
    scratch.write(
        "program.py",
        "def double(n):\n    return 2 * n\n\nprint(double(21))\n",
    );
    for option in ["--file", "-f"] {
        let ended = scratch.exec(&[option, "program.py"]);
        ended.exits_with(0).prints("42\n").says_nothing();
    }
}

#[test]
fn exec_runs_standard_input() {
    let ended = Scratch::new().feed("print(6 * 7)\n", &["exec", "--env", bare(), "-"]);
    ended.exits_with(0).prints("42\n").says_nothing();
}

/// Parquet, styled tables, progress bars and statistical plots work, in a template with one thread.
#[test]
fn the_default_environment_has_parquet_and_styles() {
    default_environment();
    let code = "import pandas as pd, seaborn as sns\nfrom tqdm import tqdm\n\
        df = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\n\
        df.to_parquet('t.parquet')\n\
        print(pd.read_parquet('t.parquet').equals(df), df.style.to_html().count('<tr>'))\n\
        print(sum(tqdm([1, 2])), type(sns.barplot(df, x='b', y='a')).__name__)\n\
        import matplotlib.pyplot as plt; plt.close('all')";
    let ended = Scratch::new().belljar(&["exec", "--timeout", "120", code]);
    ended.exits_with(0).prints("True 3\n3 Axes\n");
}

#[test]
fn exec_uses_the_libraries_of_the_default_environment() {
    default_environment();
    let ended =
        Scratch::new().belljar(&["exec", "import pandas as pd; pd.DataFrame({'a': [1, 2]})"]);
    ended
        .exits_with(0)
        .prints("   a\n0  1\n1  2\n")
        .says_nothing();
}

#[test]
fn exec_uses_an_interpreter_that_is_there() {
    let shown = Scratch::new().belljar(&["env", "show", bare(), "--json"]);
    let environment: Value = serde_json::from_str(&shown.exits_with(0).stdout).unwrap();
    let python = environment["python"].as_str().unwrap();
    let ended = Scratch::new().belljar(&["exec", "--python", python, "print(6 * 7)"]);
    ended.exits_with(0).prints("42\n").says_nothing();
}

#[test]
fn exec_seeds_variables() {
    let ended = Scratch::new().exec(&["--seed", r#"{"n": 3, "names": ["a", "b"]}"#, "names * n"]);
    let ended = ended.exits_with(0).says_nothing();
    ended.prints("['a', 'b', 'a', 'b', 'a', 'b']\n");
}

#[test]
fn exec_puts_files_in_and_brings_files_out() {
    let scratch = Scratch::new();
    scratch.write("in.txt", "one\ntwo\n");
    let code = "import os\n\
        text = open('in.txt').read()\n\
        os.makedirs('made/here')\n\
        open('made/here/out.txt', 'w').write(text.upper())\n\
        open('/tmp/not-an-artifact', 'w').close()\n";
    let ended = scratch.exec(&["--put", "in.txt", "--out", "results", code]);
    let ended = ended.exits_with(0).prints("");
    ended.says("[file: made/here/out.txt (8 bytes)]");
    assert_eq!(scratch.read("results/made/here/out.txt"), "ONE\nTWO\n");
    // Neither what was put in unchanged, nor what lies outside of the workspace.
    let out: Vec<_> = fs::read_dir(scratch.path("results")).unwrap().collect();
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(scratch.read("in.txt"), "one\ntwo\n");
}

#[test]
fn exec_brings_files_out_of_a_cell_that_failed() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--out", ".", "open('log', 'w').write('so far')\n1 / 0"]);
    ended.exits_with(1).says("ZeroDivisionError");
    assert_eq!(scratch.read("log"), "so far");
}

// exec: how it ends

#[test]
fn a_failing_cell_exits_with_1_and_its_traceback() {
    let ended = Scratch::new().exec(&["print('before')\n1 / 0\n"]);
    let ended = ended.exits_with(1).prints("before\n");
    let expected = "Traceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n";
    let ended = ended.says(expected);
    ended.says("ZeroDivisionError: division by zero\n");
}

#[test]
fn a_syntax_error_exits_with_1_and_runs_nothing() {
    let ended = Scratch::new().exec(&["print('before')\ndef f(\n"]);
    let ended = ended.exits_with(1).prints("");
    ended.says("SyntaxError: '(' was never closed");
}

#[test]
fn sys_exit_gives_the_exit_code() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["import sys; print('before'); sys.exit(3)"]);
    ended.exits_with(3).prints("before\n");
    scratch.exec(&["import sys; sys.exit(0)"]).exits_with(0);
    let ended = scratch.exec(&["import sys; sys.exit('why not')"]);
    ended.exits_with(1).says("why not\n");
    scratch.exec(&["import os; os._exit(7)"]).exits_with(7);
}

#[test]
fn the_time_limit_exits_with_124() {
    let started = Instant::now();
    let ended = Scratch::new().exec(&["--timeout", "0.5", "print('on')\nwhile True: pass"]);
    let ended = ended.exits_with(124).prints("on\n");
    ended.says("ran longer than 0.5 s");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_time_limit_ends_what_ignores_it() {
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let ended = Scratch::new().exec(&["--timeout", "0.5", code]);
    ended.exits_with(124).says("All variables are lost");
}

#[test]
fn a_crash_exits_with_128_and_the_signal() {
    let ended = Scratch::new().exec(&["import ctypes; ctypes.string_at(0)"]);
    let ended = ended.exits_with(139).prints("");
    ended.says("SIGSEGV").says("All variables are lost");
}

#[test]
fn the_memory_limit_exits_with_137() {
    // Shared memory, since one process that asks for too much of its own gets a MemoryError.
    let code = "import mmap\n\
        block = mmap.mmap(-1, 512 << 20)\n\
        for page in range(0, len(block), 4096):\n    block[page] = 1\n";
    let ended = Scratch::new().exec(&["--memory", "128", code]);
    ended.exits_with(137).says("memory");
}

#[test]
fn an_interrupt_exits_with_130() {
    let scratch = Scratch::new();
    let code = "import time\n\
        try:\n    print('started')\n    time.sleep(60)\n\
        finally:\n    print('cleaned up')\n";
    let mut child = scratch.start(&[], code);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_to_string(&mut rest).unwrap();
    let ended = scratch.finish(child).exits_with(130);
    assert_eq!(rest, "cleaned up\n");
    ended.says("KeyboardInterrupt");
}

#[test]
fn a_second_interrupt_gives_the_cell_up() {
    let scratch = Scratch::new();
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
        print('started')\nwhile True: pass";
    let child = scratch.start(&[], code);
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    scratch
        .finish(child)
        .exits_with(130)
        .says("ignores the interrupt");
}

#[test]
fn long_output_is_passed_on_whole() {
    let expected: String = (0..2_000_000)
        .flat_map(|i| [i.to_string(), "\n".into()])
        .collect();
    let code = "for i in range(2_000_000): print(i)";
    let ended = Scratch::new().exec(&["--timeout", "100", code]);
    let ended = ended.exits_with(0).says_nothing();
    assert!(ended.stdout == expected, "{} bytes", ended.stdout.len());
}

#[test]
fn a_careful_umask_is_no_obstacle() {
    let scratch = Scratch::new();
    let script = format!("umask 077; exec {BELLJAR} exec --env {} 'print(1)'", bare());
    let child = scratch.prepare("sh").args(["-c", &script]).spawn().unwrap();
    scratch.finish(child).exits_with(0).prints("1\n");
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    let scratch = Scratch::new();
    let child = scratch.start(&[], "import time\nprint('started')\ntime.sleep(60)");
    let process = child.id();
    // What looks for leftovers must find what is alive.
    let names = scratch.processes();
    for name in ["belljar-keeper", "belljar-spawner", "belljar-init"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert!(names.len() >= 5, "no template or interpreter: {names:?}");
    assert!(!cgroups_of(process).is_empty());

    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    let ended = scratch.finish(child);
    assert_eq!(ended.status.code(), None);
    eventually(|| cgroups_of(process), Vec::is_empty);
}

#[test]
fn nothing_is_left_when_the_program_has_ended() {
    let scratch = Scratch::new();
    let child = scratch.start(&[], "print('started')");
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // At once, not eventually: the command waits until all is gone.
    assert_eq!(scratch.leftovers(), [""; 0]);
    assert_eq!(cgroups_of(process), <[PathBuf; 0]>::default());
}

// exec: for machines

#[test]
fn json_is_one_event_a_line_and_ends_with_the_outcome() {
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n\
        open('made.txt', 'w').write('x')\n6 * 7";
    let ended = Scratch::new().exec(&["--json", code]).exits_with(0);
    let lines = ended.lines();
    let kinds: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["started", "output", "output", "display", "outcome"]);
    assert_eq!(lines[1]["stream"], "stdout");
    assert_eq!(lines[2]["text"], "err\n");
    let outcome = &lines[4];
    assert_eq!(outcome["status"], "success");
    assert_eq!(outcome["cause"]["kind"], "completed");
    assert_eq!(outcome["state"]["fate"], "kept");
    assert_eq!(outcome["stdout"]["text"], "out\n");
    assert_eq!(outcome["displays"][0]["parts"][0]["text"], "42");
    assert_eq!(outcome["artifacts"][0]["path"], "made.txt");
    ended.says_nothing();
}

#[test]
fn json_tells_a_failure_on_standard_output_and_in_the_exit_code() {
    let ended = Scratch::new().exec(&["--json", "1 / 0"]).exits_with(1);
    let outcome = ended.lines().pop().unwrap();
    assert_eq!(outcome["type"], "outcome");
    assert_eq!(outcome["cause"]["kind"], "exception");
    assert_eq!(outcome["exception"]["type"], "ZeroDivisionError");
    assert_eq!(outcome["exception"]["line"], 1);
    assert_eq!(outcome["exit_code"], 1);
    ended.says_nothing();
}

#[test]
fn json_tells_a_crash() {
    let code = "import os; os.kill(os.getpid(), 11)";
    let ended = Scratch::new().exec(&["--json", code]).exits_with(139);
    let outcome = ended.lines().pop().unwrap();
    assert_eq!(outcome["status"], "crashed");
    assert_eq!(outcome["cause"]["name"], "SIGSEGV");
    assert_eq!(outcome["state"]["fate"], "lost");
    assert_eq!(outcome["exit_code"], 139);
}

// exec: what a program may do to a reader

/// Every way in which a cell's words reach a person.
const HOSTILE: &str = "import os, time\n\
    evil = '\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x1b[1A\\x9b31m\\x1b]8;;http://evil\\x07ok\\x1b]8;;\\x07'\n\
    for half in evil[:8], evil[8:] + '\\n':\n    \
        os.write(1, half.encode()); os.write(2, half.encode()); time.sleep(0.2)\n\
    print('rm -rf /\\rharmless')\n\
    open('a\\u202eb\\x1b[2J', 'w').close()\n\
    class Shown:\n    \
        def __repr__(self): return evil\n\
    display(Shown())\n\
    print('\\x1b]0;never ended')\n\
    raise ValueError(evil)\n";

/// E5, E6: no sequence reaches a terminal, not even in two halves, and nothing is hidden.
#[test]
fn a_terminal_gets_no_commands_from_a_cell() {
    let shown = Scratch::new().exec_on_a_terminal(&[HOSTILE]);
    // Our own sign that something starts, and its removal, come first.
    let shown = shown.rsplit("\r\x1b[2K").next().unwrap();
    let control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!shown.contains(control), "{shown:?}");
    // Both streams, the display, and the exception.
    assert_eq!(shown.matches("ok\n").count(), 4, "{shown:?}");
    for part in [
        "rm -rf /\nharmless\n",
        "\n0;never ended\n",
        "[file: a<U+202E>b<U+001B>[2J (0 bytes)]\n",
        "ValueError: ok\n",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
}

/// E5: what is read by a program is what the cell wrote; what is for people is plain anyway.
#[test]
fn a_pipe_gets_a_cells_output_as_it_was_written() {
    let ended = Scratch::new().exec(&[HOSTILE]).exits_with(1);
    let evil =
        "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[1A\u{9b}31m\x1b]8;;http://evil\x07ok\x1b]8;;\x07\n";
    // The display among the lines that were printed may come a little earlier or later.
    let mut lines: Vec<_> = ended.stdout.split_inclusive('\n').collect();
    lines.sort_unstable();
    let never_ended = "\x1b]0;never ended\n";
    assert_eq!(lines, [never_ended, evil, evil, "rm -rf /\rharmless\n"]);
    let ended = ended.says("[file: a<U+202E>b<U+001B>[2J (0 bytes)]\n");
    ended.says("ValueError: ok\n");
}

/// E4, E5, E10: JSON is ASCII where it must be, one event a line, and has what the cell wrote.
#[test]
fn json_survives_whatever_is_written() {
    let code = "import os\n\
        os.write(1, b'\\xff\\x00\\xed\\xa0\\x80\\n')\n\
        print('\\ud800'.encode('utf8', 'surrogatepass'))\n\
        print('\\r\\n{\"type\": \"outcome\"}\\r\\n\\x1b[2J\\x9b31m\\x7f')\n\
        raise ValueError('\\ud800\\0')\n";
    let ended = Scratch::new().exec(&["--json", code]).exits_with(1);
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!ended.stdout.contains(control), "{:?}", ended.stdout);
    let events = ended.lines();
    let types: Vec<_> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(types.iter().filter(|name| **name == "outcome").count(), 1);
    let outcome = events.last().unwrap();
    assert_eq!(
        outcome["stdout"]["text"],
        "\\xff\0\\xed\\xa0\\x80\nb'\\xed\\xa0\\x80'\n\r\n{\"type\": \"outcome\"}\r\n\x1b[2J\u{9b}31m\x7f\n"
    );
    assert_eq!(outcome["exception"]["value"], "\\ud800\0");
}
