//! The whole program, from outside: exit code, standard output, standard error, and what is left
//! on the host when it has ended.
//!
//! Most tests use the environment `bare` (no packages, built here in a second if it is missing):
//! its template is warm at once. The few that need libraries use `default`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BELLJAR: &str = env!("CARGO_BIN_EXE_belljar");

/// A directory of one test: `work`, where commands run, and `tmp`, which is their `TMPDIR`.
struct Scratch(tempfile::TempDir);

/// How a command ended.
#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Ended {
    #[track_caller]
    fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    fn prints(self, stdout: &str) -> Self {
        assert_eq!(self.stdout, stdout, "{self:#?}");
        self
    }

    #[track_caller]
    fn says(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        self
    }

    #[track_caller]
    fn says_nothing(self) -> Self {
        assert_eq!(self.stderr, "", "{self:#?}");
        self
    }

    /// Standard output as JSON, one value a line.
    fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap();
        self.stdout.lines().map(parse).collect()
    }
}

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        for name in ["work", "tmp"] {
            fs::create_dir(scratch.0.path().join(name)).unwrap();
        }
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("work").join(name)
    }

    fn write(&self, name: &str, contents: &str) {
        fs::write(self.path(name), contents).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn prepare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path(""))
            .env("TMPDIR", self.0.path().join("tmp"))
            .env_remove("BELLJAR_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `belljar` with this on its standard input, to its end.
    fn feed(&self, input: &str, arguments: &[&str]) -> Ended {
        let mut child = self.prepare(BELLJAR).args(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.finish(child)
    }

    fn belljar(&self, arguments: &[&str]) -> Ended {
        self.feed("", arguments)
    }

    /// `belljar exec --env bare …`.
    fn exec(&self, arguments: &[&str]) -> Ended {
        self.belljar(&[&["exec", "--env", bare()], arguments].concat())
    }

    /// Waits for a command, and for everything that it started to be gone.
    fn finish(&self, child: Child) -> Ended {
        let output = child.wait_with_output().unwrap();
        self.nothing_is_left();
        Ended {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts a cell that prints a line, and returns once that line was printed.
    fn start(&self, arguments: &[&str], code: &str) -> Child {
        let mut child = self
            .prepare(BELLJAR)
            .args(["exec", "--env", bare()])
            .args(arguments)
            .arg(code)
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut first)
            .unwrap();
        if first != "started\n" {
            let mut why = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut why).unwrap();
            panic!("the cell did not start: {first:?} {why}");
        }
        child
    }

    /// A name that stands in the paths of this test and of no other.
    fn marker(&self) -> &str {
        self.0.path().file_name().unwrap().to_str().unwrap()
    }

    /// Directories of engines, and processes behind walls, that this test has caused.
    fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let user = rustix::process::getuid().as_raw();
        let engines = self.0.path().join(format!("tmp/belljar-{user}"));
        for entry in fs::read_dir(engines).into_iter().flatten().flatten() {
            found.push(format!("directory {}", entry.path().display()));
        }
        found.extend(
            self.processes()
                .iter()
                .map(|name| format!("process {name}")),
        );
        found
    }

    /// Names of the processes behind this test's walls. The keeper writes its log into our
    /// `TMPDIR`, and the others see the driver that is mounted from there.
    fn processes(&self) -> Vec<String> {
        let marker = self.marker();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            let Ok(name) = fs::read_to_string(path.join("comm")) else {
                continue;
            };
            let logs_here = fs::read_link(path.join("fd/2"))
                .is_ok_and(|log| log.to_string_lossy().contains(marker));
            let sees_us = || {
                fs::read_to_string(path.join("mountinfo")).is_ok_and(|text| text.contains(marker))
            };
            if logs_here || sees_us() {
                found.push(name.trim().to_owned());
            }
        }
        found
    }

    #[track_caller]
    fn nothing_is_left(&self) {
        eventually(|| self.leftovers(), Vec::is_empty);
    }
}

/// Asks until the answer is right, at most ten seconds.
#[track_caller]
fn eventually<T: std::fmt::Debug>(ask: impl Fn() -> T, right: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask();
        if right(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "it stays at {answer:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The engines' cgroups whose engine is a process with this id.
fn cgroups_of(process: u32) -> Vec<PathBuf> {
    fn search(directory: &Path, start: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(start) {
                    found.push(entry.path());
                }
                search(&entry.path(), start, found);
            }
        }
    }
    let mut found = Vec::new();
    for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        let (mount, kind) = line.split_once(" - ").unwrap();
        if kind.starts_with("cgroup") {
            let point = mount.split(' ').nth(4).unwrap();
            search(Path::new(point), &format!("belljar-{process}-"), &mut found);
        }
    }
    found
}

/// The environment without packages; its name.
fn bare() -> &'static str {
    static THERE: std::sync::Once = std::sync::Once::new();
    let env = |action: &str| {
        let command = Command::new(BELLJAR).args(["env", action, "bare"]).output();
        let output = command.unwrap();
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), why)
    };
    THERE.call_once(|| {
        if !env("show").0 {
            let (_, why) = env("create");
            // Another test process may have been faster, which is as good.
            assert!(env("show").0, "the environment `bare` is missing: {why}");
        }
    });
    "bare"
}

/// The environment with the data libraries; its name. It takes too long to be built in a test.
fn default_environment() -> &'static str {
    let output = Command::new(BELLJAR)
        .args(["env", "show", "default"])
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "the environment `default` is missing, run .ci/run environment: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    "default"
}

// exec: what goes in

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
    scratch.finish(child).exits_with(130).says("does not heed");
}

#[test]
fn long_output_is_passed_on_whole() {
    let expected: String = (0..3_000_000)
        .flat_map(|i| [i.to_string(), "\n".into()])
        .collect();
    let ended = Scratch::new().exec(&["for i in range(3_000_000): print(i)"]);
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
}

// Wrong things: exit code 2, and what to do

#[test]
fn exec_without_code_says_what_is_missing() {
    let ended = Scratch::new().belljar(&["exec"]).exits_with(2);
    ended.prints("").says("<CODE>").says("Usage: belljar exec");
}

#[test]
fn exec_takes_a_string_or_a_file() {
    let ended = Scratch::new().exec(&["--file", "program.py", "print(1)"]);
    ended.exits_with(2).says("cannot be used with");
}

#[test]
fn files_that_are_missing_are_named() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--file", "gone.py"]).exits_with(2);
    ended.prints("").says("gone.py").says("No such file");
    let ended = scratch.exec(&["--put", "gone.csv", "1"]).exits_with(2);
    ended.prints("").says("gone.csv").says("No such file");
}

#[test]
fn an_unknown_environment_says_how_to_make_it() {
    bare();
    let scratch = Scratch::new();
    for command in [
        &["exec", "--env", "nowhere", "1"][..],
        &["repl", "--env", "nowhere"],
    ] {
        let ended = scratch.belljar(command).exits_with(2).prints("");
        let ended = ended.says("there is no environment 'nowhere'").says("bare");
        ended.says("belljar env create nowhere");
    }
}

#[test]
fn an_interpreter_that_is_missing_says_what_to_name() {
    let ended = Scratch::new().belljar(&["exec", "--python", "/nowhere/python", "1"]);
    let ended = ended.exits_with(2).says("/nowhere/python");
    ended.says("Name an interpreter or the directory of a venv");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    for (option, value, remedy) in [
        ("--timeout", "soon", "give a number of seconds"),
        ("--timeout", "0", "above 0 and at most 86400"),
        ("--timeout=-1", "", "above 0 and at most 86400"),
        ("--timeout", "inf", "above 0 and at most 86400"),
        ("--memory", "10", "64.."),
        ("--cpus", "none", "from 0.01 to 1024"),
    ] {
        let mut arguments = vec!["exec", option];
        arguments.extend((!value.is_empty()).then_some(value));
        arguments.push("1");
        scratch.belljar(&arguments).exits_with(2).says(remedy);
    }
}

#[test]
fn a_seed_that_can_not_be_bound_is_refused() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--seed", "[1]", "1"]).exits_with(2);
    ended.says("--seed takes a JSON object, such as");
    let ended = scratch.exec(&["--seed", r#"{"class": 1}"#, "1"]);
    ended.exits_with(2).says("`class` (a keyword of Python)");
}

// repl

#[test]
fn repl_keeps_state_between_cells_of_a_pipe() {
    let input = "x = 20\ndef double(n):\n    return 2 * n\n\ndouble(x) + 2\nprint('x is', x)\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    ended.exits_with(0).prints("42\nx is 20\n").says_nothing();
}

#[test]
fn repl_exits_with_how_the_last_cell_ended() {
    let scratch = Scratch::new();
    let repl = ["repl", "--env", bare()];
    let ended = scratch.feed("1 / 0\n'went on'\n", &repl).exits_with(0);
    ended.prints("'went on'\n").says("ZeroDivisionError");
    let ended = scratch.feed("'good'\n1 / 0\n", &repl).exits_with(1);
    ended.prints("'good'\n").says("File \"<cell 2>\", line 1");
    scratch
        .feed("", &repl)
        .exits_with(0)
        .prints("")
        .says_nothing();
}

#[test]
fn repl_has_commands() {
    let scratch = Scratch::new();
    scratch.write("in.txt", "hello");
    let input = "/help\n\
        number = 5\n\
        /vars\n\
        /put in.txt renamed.txt\n\
        open('renamed.txt').read()\n\
        /files\n\
        /get renamed.txt back.txt\n\
        /reset\n\
        'number' in globals()\n\
        /quit\n\
        print('not reached')\n";
    let ended = scratch
        .feed(input, &["repl", "--env", bare()])
        .exits_with(0);
    for command in [
        "/help",
        "/vars",
        "/files",
        "/put PATH",
        "/get NAME",
        "/reset",
        "/quit",
    ] {
        assert!(ended.stdout.contains(command), "{command}: {ended:#?}");
    }
    let row = |line: &&str| line.starts_with("number ") && line.contains(" int ");
    assert!(ended.stdout.lines().any(|line| row(&line)), "{ended:#?}");
    for part in ["'hello'\n", "renamed.txt\n", "False\n"] {
        assert!(ended.stdout.contains(part), "{part}: {ended:#?}");
    }
    assert!(!ended.stdout.contains("not reached"), "{ended:#?}");
    assert_eq!(scratch.read("back.txt"), "hello");
    ended.says("variables and files of the old one are gone");
}

#[test]
fn repl_says_which_commands_there_are() {
    let input = "/nothing\n/put\n/get gone.txt\n'went on'\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0).prints("'went on'\n");
    let ended = ended.says("there is no command `/nothing`; there are /help, ");
    let ended = ended.says("write it as `/put PATH [NAME]`");
    ended.says("`gone.txt` does not exist in the workspace");
}

#[test]
fn repl_goes_on_in_a_new_session_after_a_crash() {
    let input = "x = 1\nimport ctypes; ctypes.string_at(0)\n'x' in globals()\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0).prints("False\n").says("SIGSEGV");
    ended.says("the session was lost; this is a new one");
}

// doctor, env, help

#[test]
fn doctor_finds_that_sessions_can_run_here() {
    default_environment();
    let ended = Scratch::new().belljar(&["doctor"]).exits_with(0);
    for check in [
        "linux kernel",
        "user namespaces",
        "privileges",
        "cgroups",
        "temporary files",
        "open files",
        "uv",
        "python",
        "environments",
        "a session",
    ] {
        let line = |line: &str| {
            line.get(9..)
                .is_some_and(|l| l.starts_with(&format!("{check}: ")))
        };
        assert!(ended.stdout.lines().any(line), "{check}: {ended:#?}");
    }
    assert!(
        !ended.stdout.contains('\x1b'),
        "colours in a pipe: {ended:#?}"
    );
    ended.says_nothing();
}

#[test]
fn doctor_tells_machines() {
    default_environment();
    let ended = Scratch::new().belljar(&["doctor", "--json"]).exits_with(0);
    let lines = ended.lines();
    for line in &lines {
        let status = line["status"].as_str().unwrap();
        assert!(["ok", "note", "missing"].contains(&status), "{line}");
        assert!(line["detail"].is_string(), "{line}");
        assert!(line["remedy"].is_string() || status != "missing", "{line}");
    }
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["check"], &last["status"]),
        (&"a session".into(), &"ok".into())
    );
}

#[test]
fn doctor_fails_where_nothing_can_be_written() {
    let scratch = Scratch::new();
    let mut command = scratch.prepare(BELLJAR);
    command.arg("doctor").env("TMPDIR", scratch.path("nowhere"));
    let ended = scratch.finish(command.spawn().unwrap()).exits_with(1);
    assert!(
        ended.stdout.contains("set TMPDIR to a directory"),
        "{ended:#?}"
    );
}

#[test]
fn environments_are_listed_and_shown() {
    let scratch = Scratch::new();
    let listed = scratch.belljar(&["env", "list"]).exits_with(0);
    assert!(listed.stdout.starts_with("NAME"), "{listed:#?}");
    let name = default_environment();
    assert!(
        listed.stdout.lines().any(|line| line.starts_with(name)),
        "{listed:#?}"
    );
    let listed = scratch.belljar(&["env", "list", "--json"]).exits_with(0);
    let all: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    assert!(
        all.iter().any(|environment| environment["name"] == name),
        "{listed:#?}"
    );

    let shown = scratch.belljar(&["env", "show"]).exits_with(0);
    for part in [
        "name      default",
        "python",
        "preload",
        "visible",
        "pandas",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {shown:#?}");
    }
    let shown = scratch
        .belljar(&["env", "show", name, "--json"])
        .exits_with(0);
    let environment: Value = serde_json::from_str(&shown.stdout).unwrap();
    let packages = environment["packages"].as_array().unwrap();
    for package in packages {
        let hashes = package["hashes"].as_array().unwrap();
        assert!(!hashes.is_empty(), "{package} is not locked");
    }
}

#[test]
fn environments_are_made_used_and_removed() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let run = |arguments: &[&str]| {
        let mut command = scratch.prepare(BELLJAR);
        command.args(arguments).env("BELLJAR_DATA_DIR", &data);
        scratch.finish(command.spawn().unwrap())
    };
    let ended = run(&["env", "list"]).exits_with(0).prints("");
    ended.says("No environments yet. Run 'belljar env create'");
    let ended = run(&["env", "create", "mine", "--preload", "json"]);
    ended
        .exits_with(0)
        .prints("")
        .says("Environment 'mine' is ready");
    let ended = run(&["env", "create", "mine"]).exits_with(2);
    ended.says("exists already").says("belljar env remove mine");
    let code = "import sys; 'json' in sys.modules";
    run(&["exec", "--env", "mine", code])
        .exits_with(0)
        .prints("True\n");
    run(&["env", "remove", "mine"])
        .exits_with(0)
        .says("Removed");
    let ended = run(&["env", "remove", "mine"]).exits_with(2);
    ended.says("there is no environment 'mine'");
}

#[test]
fn names_that_can_not_be_environments_are_refused() {
    let ended = Scratch::new().belljar(&["env", "create", "../up"]);
    ended
        .exits_with(2)
        .says("cannot be the name of an environment");
}

#[test]
fn every_command_explains_itself() {
    let scratch = Scratch::new();
    for (arguments, parts) in [
        (
            &["--help"][..],
            &["exec", "repl", "env", "doctor", "bench", "BELLJAR_DATA_DIR"][..],
        ),
        (
            &["exec", "--help"],
            &[
                "Examples:",
                "belljar exec ",
                "Exit code",
                "124",
                "--put",
                "--out",
            ],
        ),
        (
            &["repl", "--help"],
            &["/help", "Ctrl-C", "--env", "exit code"],
        ),
        (
            &["env", "--help"],
            &["create", "list", "show", "remove", "Examples:"],
        ),
        (
            &["env", "create", "--help"],
            &["--package", "--preload", "--requirements", "Examples:"],
        ),
        (&["env", "list", "--help"], &["--json"]),
        (
            &["env", "show", "--help"],
            &["--json", "[default: default]"],
        ),
        (&["env", "remove", "--help"], &["<NAME>"]),
        (&["doctor", "--help"], &["--json", "Exit code"]),
        (&["bench", "--help"], &["--json", "--jupyter"]),
    ] {
        let ended = scratch.belljar(arguments).exits_with(0).says_nothing();
        for part in parts {
            assert!(
                ended.stdout.contains(part),
                "no {part:?} in {arguments:?}: {ended:#?}"
            );
        }
    }
    let ended = scratch.belljar(&["--version"]).exits_with(0);
    ended.prints(&format!("belljar {}\n", env!("CARGO_PKG_VERSION")));
    scratch
        .belljar(&[])
        .exits_with(2)
        .says("Usage: belljar <COMMAND>");
    let ended = scratch.belljar(&["exce", "1"]).exits_with(2);
    ended.says("unrecognized subcommand 'exce'").says("exec");
}

// README.md

/// Every `sh` block of the README, with the `text` block that directly follows it, if one does.
fn readme_examples() -> Vec<(String, Option<String>)> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let readme = readme.unwrap();
    let mut examples: Vec<(String, Option<String>)> = Vec::new();
    let mut expects_output = false;
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            expects_output &= line.is_empty();
            continue;
        };
        let mut block = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            block.push_str(line);
            block.push('\n');
        }
        match language {
            "sh" => examples.push((block, None)),
            "text" if expects_output => examples.last_mut().unwrap().1 = Some(block),
            _ => {}
        }
        expects_output = language == "sh";
    }
    examples
}

#[test]
fn the_examples_of_the_readme_run() {
    default_environment();
    let examples = readme_examples();
    assert!(
        examples.len() >= 5,
        "only {} examples were found",
        examples.len()
    );
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let own = Path::new(BELLJAR).parent().unwrap().to_owned();
    let directories = std::iter::once(own).chain(std::env::split_paths(&directories));
    let path = std::env::join_paths(directories).unwrap();
    for (script, expected) in examples {
        let scratch = Scratch::new();
        let mut command = scratch.prepare("bash");
        command
            .args(["-euo", "pipefail", "-c", &script])
            .env("PATH", &path);
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take());
        let ended = scratch.finish(child);
        assert!(ended.status.success(), "{script}\n{ended:#?}");
        if let Some(expected) = expected {
            assert_eq!(ended.stdout, expected, "{script}\n{ended:#?}");
        }
    }
}
