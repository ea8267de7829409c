//! Ctrl-C while a run goes on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::{Pid, Signal, kill_process};

use crate::run::code;
use crate::support::{BELLJAR, Scratch, bare};

fn start(scratch: &Scratch, model: &ScriptedModel) -> (Child, BufReader<ChildStderr>) {
    let url = model.base_url();
    let mut child = scratch
        .prepare(BELLJAR)
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .args(["run", "--env", bare(), "--model", "llamacpp/scripted"])
        .args(["--base-url", &url, "--timeout", "120", "Wait"])
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

/// Reads lines until one is this one.
#[track_caller]
fn wait_for(stderr: &mut impl BufRead, wanted: &str) {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        let read = stderr.read_line(&mut line).unwrap();
        assert!(read > 0, "no {wanted:?} in {said:?}");
        if line.trim_end() == wanted {
            return;
        }
        said.push_str(&line);
    }
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn one_interrupt_ends_the_cell_and_the_run_goes_on() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("import time\nprint('begun')\ntime.sleep(100)"),
        code("print(6 * 7)"),
        Scripted::text("FINAL: It is 42."),
    ])
    .unwrap();
    let (child, mut stderr) = start(&scratch, &model);
    wait_for(&mut stderr, "begun");
    interrupt(&child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let ended = scratch.finish(child);
    assert_eq!(ended.status.code(), Some(0), "{rest}");
    assert_eq!(ended.stdout, "It is 42.\n");
    assert!(
        rest.contains("[cell interrupted; press Ctrl-C again to end the run]"),
        "{rest}"
    );
    assert!(rest.contains("KeyboardInterrupt"), "{rest}");
}

/// Even if the cell does not heed it.
#[test]
fn two_interrupts_end_the_run() {
    let scratch = Scratch::new();
    let stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n\
        print('begun')\nwhile True: pass";
    let model = ScriptedModel::start([code("print('first', 11)"), code(stubborn)]).unwrap();
    let (child, mut stderr) = start(&scratch, &model);
    wait_for(&mut stderr, "begun");
    let began = Instant::now();
    interrupt(&child);
    wait_for(
        &mut stderr,
        "[cell interrupted; press Ctrl-C again to end the run]",
    );
    interrupt(&child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    scratch.finish(child).exits_with(130);
    assert!(began.elapsed() < Duration::from_mins(1), "{rest}");
    for part in [
        "[ending the run]",
        "did not react to the stop",
        "[not answered: stopped]",
    ] {
        assert!(rest.contains(part), "no {part:?} in {rest}");
    }
}

#[test]
fn an_interrupt_while_the_model_writes_ends_the_run() {
    let scratch = Scratch::new();
    let slow = Scripted::text("FINAL: never").slow_first_byte(Duration::from_secs(100));
    let model = ScriptedModel::start([code("print('begun')"), slow]).unwrap();
    let (child, mut stderr) = start(&scratch, &model);
    wait_for(&mut stderr, "begun");
    crate::support::eventually(|| model.requests().len(), |asked| *asked == 2);
    interrupt(&child);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    scratch.finish(child).exits_with(130);
    assert!(rest.contains("[not answered: stopped]"), "{rest}");
}
