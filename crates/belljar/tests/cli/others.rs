//! `belljar doctor` and `env`, and what every command says of itself.

use serde_json::Value;

use crate::support::{BELLJAR, Scratch, default_environment};

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
        "gVisor",
        "containers",
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
    ended.says("No environments yet. Run `belljar env create`");
    let ended = run(&["env", "create", "mine", "--preload", "json"]);
    ended
        .exits_with(0)
        .prints("")
        .says("Environment `mine` is ready");
    let ended = run(&["env", "create", "mine"]).exits_with(2);
    ended.says("exists already").says("belljar env remove mine");
    let code = "import sys; 'json' in sys.modules";
    run(&["exec", "--env", "mine", code])
        .exits_with(0)
        .prints("True\n");
    run(&["env", "create", "more", "--from", "mine", "six"])
        .exits_with(0)
        .says("Environment `more` is ready");
    let code = "import sys, six; 'json' in sys.modules, six.__name__";
    run(&["exec", "--env", "more", code])
        .exits_with(0)
        .prints("(True, 'six')\n");
    run(&["env", "add", "mine", "six", "--preload", "six"])
        .exits_with(0)
        .says("Environment `mine` is ready");
    let code = "import sys; 'json' in sys.modules, 'six' in sys.modules";
    run(&["exec", "--env", "mine", code])
        .exits_with(0)
        .prints("(True, True)\n");
    // A build that fails leaves the environment as it is.
    run(&["env", "add", "mine", "six==0.0.1.nothing"]).exits_with(2);
    run(&["exec", "--env", "mine", "import six"]).exits_with(0);
    let ended = run(&["env", "add", "none", "six"]).exits_with(2);
    ended.says("there is no environment `none`");
    run(&["env", "remove", "mine"])
        .exits_with(0)
        .says("Removed");
    let ended = run(&["env", "remove", "mine"]).exits_with(2);
    ended.says("there is no environment `mine`");
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
            &["--from", "--preload", "--requirements", "Examples:"],
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
        .says("Usage: belljar [OPTIONS] <COMMAND>");
    let ended = scratch.belljar(&["exce", "1"]).exits_with(2);
    ended.says("unrecognized subcommand 'exce'").says("exec");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = scratch.belljar(&["completions", shell]).exits_with(0);
        for word in ["doctor", "snapshot-out", "completions"] {
            assert!(script.stdout.contains(word), "{shell}: {word}");
        }
    }
    scratch.belljar(&["manual", "pages"]).exits_with(0);
    let page = scratch.read("pages/belljar-exec.1");
    assert!(page.contains("\\-\\-snapshot\\-out"), "{page}");
}
