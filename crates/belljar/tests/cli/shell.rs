//! `belljar shell`: at a terminal, and with pipes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{BELLJAR, Ended, Scratch, bare, eventually};
use crate::typist::Typist;

const PROMPT: &str = "belljar:/workspace$ ";

fn typist(arguments: &[&str]) -> Typist {
    let arguments = [&["shell", "--env", bare()], arguments].concat();
    Typist::start(Scratch::new(), &arguments)
}

fn shell(scratch: &Scratch, input: &str, arguments: &[&str]) -> Ended {
    scratch.feed(input, &[&["shell", "--env", bare()], arguments].concat())
}

/// The modes of a terminal, in words.
fn modes(terminal: impl std::os::fd::AsFd) -> String {
    let modes = tcgetattr(terminal).unwrap();
    format!(
        "{:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
    )
}

/// The modes that a new terminal has.
fn modes_before() -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    modes(terminal)
}

fn is_raw(typist: &Typist) -> bool {
    let modes = tcgetattr(&typist.terminal).unwrap();
    !modes
        .local_modes
        .intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
}

#[test]
fn a_shell_at_a_terminal_is_one() {
    let mut typist = typist(&[]);
    typist.sees(PROMPT, 1);
    assert!(is_raw(&typist));
    typist
        .types("stty size; echo $SHELL\r")
        .sees("\n40 120\n", 1);
    let size = Winsize {
        ws_row: 50,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&typist.terminal, size).unwrap();
    typist.types("until [ \"$(stty size)\" = '50 100' ]; do sleep 0.05; done; echo resi''zed\r");
    typist.sees("\nresized", 1);
    // Ctrl-C ends the program, and not the shell.
    // A process of its own says that it runs: bash gives it the terminal before.
    typist
        .types("sh -c \"echo sta''rted; exec sleep 1000\"\r")
        .sees("\nstarted", 1);
    typist.types("\x03").sees("^C", 1);
    typist.types("echo co''de $?\r").sees("\ncode 130", 1);
    // Job control.
    typist
        .types("sh -c \"echo ag''ain; exec sleep 1000\"\r")
        .sees("\nagain", 1);
    typist.types("\x1a").sees("Stopped", 1);
    // Where bash still takes the job for a stopped one, it leaves at the second try.
    typist.types("kill -KILL %1\rexit 7\rexit 7\r");
    let (ended, _) = typist.ends();
    ended.exits_with(7);
    assert_eq!(modes(&typist.terminal), modes_before());
}

#[test]
fn the_terminal_is_restored_after_a_signal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut typist = typist(&[]);
        typist.sees(PROMPT, 1);
        // A full-screen program that can't clean up after itself.
        typist
            .types("printf '\\033[?1049h\\033[?25lfu''ll'; sleep 1000\r")
            .sees("full", 1);
        assert!(is_raw(&typist));
        kill_process(typist.process(), signal).unwrap();
        let (ended, _) = typist.ends();
        ended.exits_with(code);
        assert_eq!(modes(&typist.terminal), modes_before());
        let raw = typist.raw();
        assert!(
            raw.contains("\x1b[?47l") && raw.contains("\x1b[?25h"),
            "{raw:?}"
        );
    }
}

#[test]
fn a_command_at_a_terminal_has_it() {
    let mut typist = typist(&["stty size; test -t 1 && read line; echo \"got $line\""]);
    typist.sees("40 120", 1);
    typist.types("a word\r").sees("got a word", 1);
    typist.ends().0.exits_with(0);
    assert_eq!(modes(&typist.terminal), modes_before());
}

#[test]
fn a_command_has_our_pipes_and_its_exit_code_is_ours() {
    let scratch = Scratch::new();
    let ended = shell(&scratch, "hi\n", &["cat"]).exits_with(0);
    ended.prints("hi\n").says_nothing();
    let ended = shell(&scratch, "", &["echo out; echo error >&2; exit 3"]);
    assert_eq!(ended.stderr, "error\n");
    ended.exits_with(3).prints("out\n");
    // Several words are a program and its arguments, with their hyphens.
    let words = ["printf", "%s|", "a b", "$HOME", "--memory", "-x"];
    let ended = shell(&scratch, "", &words).exits_with(0);
    ended.prints("a b|$HOME|--memory|-x|");
    // A script for the shell.
    let script = "cd /tmp\necho $((6 * 7)) > a\ncat a\nexit 4\n";
    shell(&scratch, script, &[]).exits_with(4).prints("42\n");
    shell(&scratch, "", &["kill -9 $$"]).exits_with(137);
    let ended = shell(&scratch, "", &["--timeout", "1", "echo first; sleep 1000"]);
    ended.exits_with(124).prints("first\n");
    let ended = shell(&scratch, "", &["no-such-program", "x"]).exits_with(2);
    ended.says("no-such-program");
}

/// Neither the middle nor the end is lost if whoever reads takes their time.
#[test]
fn waits_a_slow_reader_gets_all_of_the_output() {
    let scratch = Scratch::new();
    for bytes in [150_000, 5_000_000] {
        let line = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let mut child = start(&scratch, &[&line]);
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0];
        stdout.read_exact(&mut first).unwrap();
        // As slow as that: longer than output is read after the end of a program that nobody waits for.
        std::thread::sleep(Duration::from_millis(2500));
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len() + 1, bytes);
        scratch.finish(child).exits_with(0);
    }
}

fn start(scratch: &Scratch, arguments: &[&str]) -> Child {
    let mut command = scratch.prepare(BELLJAR);
    command.args(["shell", "--env", bare()]).args(arguments);
    command.spawn().unwrap()
}

#[test]
fn output_streams_and_signals_arrive() {
    let scratch = Scratch::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // In the shell's place: sh forgets a signal that comes just as it starts a program.
        let mut child = start(&scratch, &["echo started; exec sleep 1000"]);
        let mut first = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut first).unwrap();
        assert_eq!(first, "started\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        scratch.finish(child).exits_with(code);
    }
    // The second Ctrl-C kills.
    let mut child = start(
        &scratch,
        &["trap 'echo no' INT; echo started; while :; do sleep 0.1; done"],
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "no");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    scratch.finish(child).exits_with(137);
    // Whoever reads has enough.
    let mut child = start(&scratch, &["yes"]);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 2]).unwrap();
    drop(stdout);
    scratch.finish(child).exits_with(141).says_nothing();
}

#[test]
fn files_go_in_and_changed_ones_come_out() {
    let scratch = Scratch::new();
    for name in ["same.txt", "changed.txt"] {
        scratch.write(name, "old");
    }
    let put = [
        "--put",
        "same.txt",
        "--put",
        "changed.txt",
        "--out",
        "results",
    ];
    let line = "cat same.txt; echo more >> changed.txt; mkdir d; cp same.txt d/new.txt";
    let ended = shell(&scratch, "", &[&put[..], &[line]].concat());
    ended.exits_with(0).prints("old");
    assert_eq!(scratch.read("results/changed.txt"), "oldmore\n");
    assert_eq!(scratch.read("results/d/new.txt"), "old");
    assert!(!scratch.path("results/same.txt").exists());
}

#[test]
fn wrong_options_are_refused() {
    let scratch = Scratch::new();
    let ended = shell(&scratch, "", &["--memroy", "2G", "ls"]).exits_with(2);
    ended.prints("").says("--memroy");
    let ended = shell(&scratch, "", &["--packages", "any", "ls"]).exits_with(2);
    ended.says("hint: name the packages");
    let ended = shell(&scratch, "", &["--put", "gone.csv", "ls"]).exits_with(2);
    ended.says("gone.csv");
    let ended = shell(&scratch, "", &["--walls=none", "ls"]).exits_with(2);
    ended.prints("").says("does not support commands");
}

#[test]
fn the_repl_runs_commands_in_its_session() {
    let scratch = Scratch::new();
    let input = "open('a.txt', 'w').write('from a cell')\n!cat a.txt; echo; echo word >&2\n!echo made > b.txt\n\
        open('b.txt').read()\n!exit 3\n";
    let repl = ["repl", "--env", bare(), "--out", "results"];
    let ended = scratch.feed(input, &repl).exits_with(1);
    let ended = ended.prints("11\nfrom a cell\n'made\\n'\n");
    ended.says("word\n").says("[exit code 3]");
    assert_eq!(scratch.read("results/b.txt"), "made\n");
}

#[test]
fn the_repl_interrupts_a_command_and_completes_its_files() {
    let scratch = Scratch::new();
    scratch.write("measurements.csv", "1,2\n");
    let mut typist = Typist::start(
        scratch,
        &["repl", "--env", bare(), "--put", "measurements.csv"],
    );
    typist.sees("In [1]: ", 1);
    typist.types("!cat mea\t").sees("!cat measurements.csv", 1);
    typist.types("\r").sees("\n1,2", 1);
    typist
        .types("!echo sta''rted; exec sleep 1000\r")
        .sees("\nstarted", 1);
    typist.types("\x03").sees("[ended by SIGINT]", 1);
    typist.types("6 * 7\r").sees("Out[1]: 42", 1);
    typist.types("\x04");
    typist.ends().0.exits_with(0);
}

/// What a command that is killed with its session had started is gone, too.
#[test]
fn nothing_is_left_of_what_a_command_started() {
    let scratch = Scratch::new();
    let child = start(&scratch, &["setsid sleep 1000 & sleep 1000"]);
    eventually(
        || scratch.processes(),
        |names| names.iter().filter(|name| *name == "sleep").count() == 2,
    );
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    let ended = scratch.finish(child);
    assert_eq!(ended.status.code(), None);
}
