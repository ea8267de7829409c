//! Wrong things: exit code 2, and what to do.

use std::fs;

use crate::support::{BELLJAR, Ended, Scratch, bare};

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
        let ended = ended.says("there is no environment `nowhere`").says("bare");
        ended.says("belljar env create nowhere");
    }
}

#[test]
fn an_interpreter_that_is_missing_says_what_to_name() {
    let ended = Scratch::new().belljar(&["exec", "--python", "/nowhere/python", "1"]);
    let ended = ended.exits_with(2).says("/nowhere/python");
    ended.says("name an interpreter or the directory of a venv");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let scratch = Scratch::new();
    for (option, value, remedy) in [
        ("--timeout", "soon", "expected a number of seconds"),
        ("--timeout", "0", "above 0, at most 86400"),
        ("--timeout=-1", "", "above 0, at most 86400"),
        ("--timeout", "inf", "above 0, at most 86400"),
        ("--memory", "10", "from 64M to 1T"),
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
    ended.says("`--seed` takes a JSON object, such as");
    let ended = scratch.exec(&["--seed", r#"{"class": 1}"#, "1"]);
    ended.exits_with(2).says("`class` (a keyword of Python)");
}

#[test]
fn hosts_that_can_not_be_allowed_are_refused() {
    let scratch = Scratch::new();
    for (host, remedy) in [
        ("10.0.0.1", "list the host by name"),
        ("*", "list each host"),
        ("exämple.com", "xn--"),
    ] {
        let ended = scratch.exec(&["--allow", host, "1"]).exits_with(2);
        ended.prints("").says(host).says(remedy);
    }
    let ended = scratch.exec(&["--allow", "example.com", "--walls=none", "1"]);
    ended.exits_with(2).says("`--allow` needs walls");
}

#[test]
fn walls_are_given_up_only_by_name() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--walls=off", "1"]).exits_with(2);
    ended.says("possible values: full, gvisor, none");
    let ended = scratch.exec(&["--walls=none", "print(1)"]).exits_with(0);
    let ended = ended.prints("1\n").says("--walls=none");
    ended.says("without isolation");
    let ended = scratch.exec(&["--walls=none", "--json", "print(1)"]);
    let lines = ended.exits_with(0).lines();
    assert_eq!(lines.last().unwrap()["walls"], "none");
}

/// A program in the place of gVisor's, for one test.
fn runsc(scratch: &Scratch, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = scratch.path("runsc");
    fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn exec_in_gvisor(scratch: &Scratch, path: &str) -> Ended {
    let mut command = scratch.prepare(BELLJAR);
    command.env("PATH", path).args(["exec", "--env", bare()]);
    let child = command.args(["--walls=gvisor", "print(1)"]).spawn();
    scratch.finish(child.unwrap()).exits_with(2).prints("")
}

/// N3, G18: gVisor that is missing, too old, or not what it says it is.
#[test]
fn gvisor_that_can_not_be_trusted_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let ended = exec_in_gvisor(&scratch, "/nonexistent");
    ended.says("`runsc` was not found in PATH").says("hint: ");

    let path = format!("{}:/usr/bin:/bin", scratch.path("").display());
    runsc(&scratch, "echo runsc version 0.0~20221219.0");
    let ended = exec_in_gvisor(&scratch, &path);
    ended
        .says("0.0~20221219.0")
        .says("2024 or later")
        .says("hint: ");
    runsc(&scratch, "echo no options; exit 2");
    exec_in_gvisor(&scratch, &path).says("`runsc` did not start a sandbox");

    // One that starts the steward as a process of this host.
    let host = r#"
if [ "$1" = --version ]; then echo runsc version release-20260101.0; exit; fi
while [ "$1" != --bundle ]; do shift; done
exec /usr/bin/env python3 -I -c 'import sys; sys.path.insert(0, sys.argv[1]); from belljar_guest.steward import main; main()' "$2/../../driver"
"#;
    runsc(&scratch, host);
    let ended = exec_in_gvisor(&scratch, &path);
    ended.says("not closed enough").says("this host's kernel");
    runsc(
        &scratch,
        "if [ \"$1\" = --version ]; then echo release-20260101.0; else echo no such platform >&2; exit 1; fi",
    );
    exec_in_gvisor(&scratch, &path).says("no such platform");
}
