//! `belljar run --branches N --check EXPRESSION`.

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{belljar, code, run};
use crate::support::Scratch;

#[test]
fn branches_are_tried_and_shown() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("n = tools.branch(['x\\x1b[31m', 0, 7, 9])\nprint('it gives', 42 // n)"),
        Scripted::text("FINAL: It gives 6."),
    ])
    .unwrap();
    let options = ["--branches", "4", "--check", "n > 5"];
    let ended = run(&scratch, &model, &[&options[..], &["Divide."]].concat());
    let ended = ended.exits_with(0).prints("It gives 6.\n");
    for part in [
        "→ branch ",
        "TypeError: unsupported operand",
        "  ✗ 0 — ZeroDivisionError: ",
        "  ✓ 7 — accepted\nit gives 6\n",
    ] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended:#?}");
    }
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
    assert!(!ended.stderr.contains(" 9 — "), "{ended:#?}");
    // They are there for whoever looks later.
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0);
    let id = listed.stdout.split_whitespace().next().unwrap().to_owned();
    belljar(&scratch, &["runs", "show", &id]).says("  ✓ 7 — accepted\n");
    let events = belljar(&scratch, &["runs", "show", "--json", &id]).lines();
    assert_eq!(events[0]["branches"]["check"], "n > 5");
    let event = events.iter().find(|event| event["kind"] == "branched");
    let branches = event.unwrap()["branches"].as_array().unwrap();
    assert_eq!(branches.len(), 3);
    assert_eq!(branches[2]["accepted"], true);
    belljar(&scratch, &["runs", "replay", &id]).exits_with(0);
}

#[test]
fn branches_and_their_check_are_given_together() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([]).unwrap();
    for (options, words) in [
        (&["--branches", "3"][..], "--check <EXPRESSION>"),
        (&["--check", "True"], "--branches <N>"),
        (&["--branches", "1", "--check", "True"], "2..=8"),
        (
            &["--branches", "2", "--check", "x = 1"],
            "the check is not one expression of Python\nhint: ",
        ),
    ] {
        let ended = run(&scratch, &model, &[options, &["Do it."]].concat());
        ended.exits_with(2).prints("").says(words);
    }
}

/// Without walls there are no copies, and the code is told so.
#[test]
fn without_walls_nothing_is_tried() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("try: tools.branch([1])\nexcept tools.ToolError as error: print('told:', error)"),
        Scripted::text("FINAL: none"),
    ])
    .unwrap();
    let options = ["--walls=none", "--branches", "4", "--check", "True"];
    let ended = run(&scratch, &model, &[&options[..], &["Try."]].concat());
    ended.says("told: nothing was tried: the session's backend does not support forks");
}
