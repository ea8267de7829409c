//! A person decides at the terminal, or later by `belljar runs approve` (APR-1).

use std::process::Command;

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::Value;

use crate::run::{belljar, code, run};
use crate::support::{BELLJAR, Scratch, bare};

const RISKY: &str = "import os\nprint('it gave', os.system('exit 6') >> 8)";

fn at_terminal(scratch: &Scratch, model: &ScriptedModel) -> Command {
    let mut command = scratch.prepare(BELLJAR);
    command
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .env("NO_COLOR", "1")
        .env("EDITOR", "sed -i s/6/7/")
        .args(["run", "--env", bare(), "--model", "llamacpp/scripted"])
        .args(["--base-url", &model.base_url(), "Do it."]);
    command
}

/// At a terminal what is risky is asked for without being told to; every choice works.
#[test]
fn the_person_at_the_terminal_decides() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("print(6 * 7)"),
        code("import os\nos.remove('nothing')"),
        code("import os\nos.rmdir('nothing')"),
        code(RISKY),
        code("import os\nprint('again', os.system('true'))"),
        Scripted::text("FINAL: It gave 7."),
    ])
    .unwrap();
    let (ended, seen) = scratch.typed_at_a_terminal(
        &mut at_terminal(&scratch, &model),
        &[
            ("end the run: ", "what?"),
            ("end the run: ", "r"),
            ("end the run: ", "f"),
            ("feedback: ", "Keep it."),
            ("end the run: ", "e"),
            ("discard: ", "a"),
            ("end the run: ", "d"),
        ],
    );
    assert_eq!(ended.status.code(), Some(0), "{seen}");
    for part in [
        "[`what?` is not a choice: type a letter in brackets, then press Enter]",
        "approval 2.0: run this cell?",
        "deletions: os.remove",
        "   2 │ os.remove('nothing')",
        "[not approved]",
        "[not approved: Keep it.]",
        "processes: os.system",
        "── the edited code:",
        "   2 │ print('it gave', os.system('exit 7') >> 8)",
        "[code edited by a person:]",
        "it gave 7",
        "[approved, also similar requests for the rest of the run]",
        "again 0",
        "It gave 7.",
    ] {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
    let asked = model.requests().pop().unwrap().json().to_string();
    for part in ["Keep it.", "A person changed the code", "exit 7"] {
        assert!(asked.contains(part), "the model was not told {part:?}");
    }
}

/// Attack L5: what would hide text is seen, and nothing is cut.
#[test]
fn l5_what_is_approved_is_seen_whole() {
    let scratch = Scratch::new();
    let mut hidden = String::from("import os\n# \u{202e}harmless\u{2066}\u{1b}[8m\u{1b}[2K\n");
    hidden.push_str(&"x = 1\n".repeat(3000));
    hidden.push_str("y = 2");
    hidden.push_str(&" ".repeat(500));
    hidden.push_str("; os.system('true')\n");
    hidden.push_str("print('end\u{200b}')");
    let model = ScriptedModel::start([code(&hidden), Scripted::text("FINAL: no")]).unwrap();
    let (_, seen) = scratch.typed_at_a_terminal(
        &mut at_terminal(&scratch, &model),
        &[("end the run: ", "q")],
    );
    assert!(!seen.contains(['\u{202e}', '\u{2066}', '\u{200b}']));
    assert!(!seen.contains("\u{1b}[8m"));
    for part in ["202e", "2066", "3003 │", "3004 │", "os.system('true')"] {
        assert!(seen.contains(part), "no {part:?}");
    }
    let lines = seen.lines().filter(|line| line.ends_with("│ x = 1"));
    // Once where the model wrote it, once where it is asked for.
    assert!(lines.count() >= 3000);
}

/// Where nobody is, the run ends with a code of its own, and goes on once somebody has decided.
#[test]
fn a_run_waits_for_a_later_decision() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("x = 6"),
        code(RISKY),
        code("import os\nos.remove('nothing')"),
        Scripted::text("FINAL: It gave 6."),
    ])
    .unwrap();
    let ended = run(
        &scratch,
        &model,
        &["--approve", "risky", "--json", "Do it."],
    );
    let ended = ended.exits_with(3);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said["waits_for"][0]["id"], "2.0");
    assert_eq!(said["waits_for"][0]["subject"]["code"], RISKY);
    let id = said["run"].as_str().unwrap();
    assert!(ended.stderr.contains(&format!("belljar runs approve {id}")));
    let shown = belljar(&scratch, &["runs", "approve", id]).exits_with(3);
    assert!(shown.stderr.contains("os.system('exit 6')"), "{shown:#?}");
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0);
    assert!(listed.stdout.contains("  waits "), "{listed:#?}");
    let url = model.base_url();
    let approve = |more: &[&str]| {
        let fixed = ["runs", "approve", id, "--base-url", &url, "--env", bare()];
        belljar(&scratch, &[&fixed, more].concat())
    };
    let wrong = approve(&["--only", "9.9", "--accept"]).exits_with(2);
    assert!(
        wrong.stderr.contains("no pending approval `9.9`"),
        "{wrong:#?}"
    );
    let more = approve(&["--accept"]).exits_with(3);
    assert!(more.stderr.contains("it gave 6"), "{more:#?}");
    assert!(more.stderr.contains("approval 3.0"), "{more:#?}");
    approve(&["--only", "2.0", "--accept"]).exits_with(2);
    approve(&["--reject"]).exits_with(0).prints("It gave 6.\n");
    let over = approve(&["--accept"]).exits_with(2);
    assert!(over.stderr.contains("has no pending approval"), "{over:#?}");
}
