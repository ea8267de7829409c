//! What the program prints, to the letter: help, and errors with their hints. The texts are in `screens/`. After a
//! change, `.ci/generate` writes them again; read the difference.

use std::fmt::Write as _;

use crate::support::{BELLJAR, Ended, Scratch};

/// Compares a text with the file of this name in `screens/`.
#[track_caller]
pub(crate) fn compare(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn belljar(scratch: &Scratch, arguments: &[&str]) -> Ended {
    let mut command = scratch.prepare(BELLJAR);
    command
        .env_remove("COLUMNS")
        .env("BELLJAR_DATA_DIR", scratch.path("data"))
        .args(arguments);
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take());
    scratch.finish(child)
}

/// The commands in a help text.
fn commands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect()
}

/// The short help of a command and of those below it.
fn help_of(scratch: &Scratch, command: &[&str], out: &mut String) {
    let arguments = [command, &["-h"]].concat();
    let mut program = scratch.prepare(BELLJAR);
    let printed = program.env_remove("COLUMNS").args(&arguments).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    writeln!(out, "$ belljar {}\n{printed}", arguments.join(" ")).unwrap();
    for name in commands(&printed) {
        help_of(scratch, &[command, &[&name]].concat(), out);
    }
}

#[test]
fn help_of_every_command() {
    let mut out = String::new();
    help_of(&Scratch::new(), &[], &mut out);
    compare("help", &out);
}

#[test]
fn errors_with_their_hints() {
    let scratch = Scratch::new();
    scratch.write("config.toml", "modell = 'openai/gpt-5-mini'\n");
    let config = scratch.path("config.toml");
    let mut out = String::new();
    for arguments in [
        &["exex", "1"][..],
        &["exec"],
        &["exec", "--timeout", "soon", "1"],
        &["exec", "--memory", "10", "1"],
        &["exec", "--env", "nowhere", "1"],
        &["exec", "--python", "/nowhere/python", "1"],
        &["exec", "--file", "gone.py"],
        &["exec", "--seed", "[1]", "1"],
        &["exec", "--allow", "*", "1"],
        &["exec", "--allow", "10.0.0.1", "1"],
        &["run", "--model", "gpt", "task"],
        &["runs", "show", "nothing"],
        &["env", "remove", "nowhere"],
        &["keys", "create", "--data", "service", "--scope", "all"],
    ] {
        let ended = belljar(&scratch, arguments);
        let code = ended.status.code().unwrap();
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        let line = arguments.join(" ");
        writeln!(out, "$ belljar {line}\n{printed}[exit code {code}]\n").unwrap();
    }
    let mut command = scratch.prepare(BELLJAR);
    command.env("BELLJAR_CONFIG", &config).arg("config");
    let ended = scratch.finish(command.spawn().unwrap()).exits_with(2);
    write!(out, "$ belljar config\n{}", ended.stderr).unwrap();
    compare(
        "errors",
        &out.replace(scratch.path("").to_str().unwrap(), "WORK/"),
    );
}

/// docs/cli-reference.md and docs/options.md are what the code has.
#[test]
fn the_documented_commands_are_those_of_the_code() {
    let scratch = Scratch::new();
    for (page, flag) in [("cli-reference", "--reference"), ("options", "--options")] {
        let path = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let mut command = scratch.prepare(BELLJAR);
        command.env_clear().args(["manual", flag]);
        let printed = scratch.finish(command.spawn().unwrap()).exits_with(0);
        assert!(
            std::fs::read_to_string(path).unwrap() == printed.stdout,
            "docs/{page}.md is not up to date: env -i belljar manual {flag} > docs/{page}.md"
        );
    }
}
