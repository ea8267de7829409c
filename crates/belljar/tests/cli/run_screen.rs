//! What a run looks like: in a pipe to the letter, on a terminal while it goes on.

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::json;

use crate::run::run;
use crate::screens::compare;
use crate::support::{BELLJAR, Scratch, bare};

const PLAN: &str = "recursive_plan_tree_todo";

/// A run that has all that a screen shows, and a model and a guest that try to write to the terminal.
fn script() -> [Scripted; 4] {
    let plan = json!({"core_goal": "count\u{1b}[31m", "tree_nodes": [
        {"task_name": "look", "status": "completed"},
        {"task_name": "sum\u{1b}[2J", "status": "processing", "children": [{"task_name": "part"}]},
    ]});
    let cell = "# a \u{1b}[31mcomment\nfor i in range(2):\n    print('row', i, '\\x1b[2J')\nprint('42', end='')\nwritten = open('a.txt', 'w').write('x')";
    [
        Scripted::text("I plan \u{1b}]0;title\u{7}first.").and_call(PLAN, plan),
        Scripted::call("python", json!({"code": "raise ValueError('\u{1b}[2Jno')"})),
        Scripted::text("Now\u{1b}[2J code.").and_call("python", json!({"code": cell})),
        Scripted::call("answer", json!({"text": "It is\u{1b}[31m 42, not 7."})),
    ]
    .map(|reply| reply.usage(100, 10, 0))
}

/// Times and places differ each time.
fn steady(text: &str, scratch: &Scratch) -> String {
    let text = text.replace(scratch.path("").to_str().unwrap(), "WORK/");
    let mut out = String::new();
    for line in text.lines() {
        let words = line.split(' ').map(|word| {
            let time = word.split_once('.').is_some_and(|(a, b)| {
                b.len() == 1 && (a.to_owned() + b).bytes().all(|byte| byte.is_ascii_digit())
            });
            if time { "T" } else { word }
        });
        let line = words.collect::<Vec<_>>().join(" ");
        let line = match line.split_once("runs/runs/") {
            Some((before, after)) => {
                let rest = after.split_once('/').map(|(_, rest)| rest);
                format!("{before}runs/runs/ID/{}", rest.unwrap_or_default())
            }
            None => line,
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn screen(language: &str) -> (String, String) {
    let scratch = Scratch::new();
    let model = ScriptedModel::start(script()).unwrap();
    let ended = run(
        &scratch,
        &model,
        &[
            "--dialect",
            "native",
            "--language",
            language,
            "--tool",
            PLAN,
            "Count",
        ],
    )
    .exits_with(0);
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
    (ended.stdout.clone(), steady(&ended.stderr, &scratch))
}

#[test]
fn a_run_in_a_pipe_in_english() {
    let (stdout, stderr) = screen("en");
    assert_eq!(stdout, "It is 42, not 7.\n");
    compare("run_en", &stderr);
}

#[test]
fn a_run_in_a_pipe_in_chinese() {
    let (stdout, stderr) = screen("zh");
    assert_eq!(stdout, "It is 42, not 7.\n");
    compare("run_zh", &stderr);
}

/// On a terminal code has colours, and what the model writes is there before it is understood; what a
/// model or a guest writes is no command to the terminal.
#[test]
fn a_run_on_a_terminal() {
    let scratch = Scratch::new();
    let slow = |reply: Scripted| reply.slow_chunks(std::time::Duration::from_millis(300));
    let model = ScriptedModel::start(script().map(slow)).unwrap();
    let url = model.base_url();
    let mut command = scratch.prepare(BELLJAR);
    command
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .args(["run", "--env", bare(), "--model", "llamacpp/scripted"])
        .args([
            "--base-url",
            &url,
            "--dialect",
            "native",
            "--tool",
            PLAN,
            "Count",
        ]);
    let got = scratch.on_a_terminal(&mut command);
    for part in [
        "the model is writing · 1 steps · 110 tokens",
        "\u{1b}[35mfor\u{1b}[0m i \u{1b}[35min\u{1b}[0m range(",
        "It is 42, not 7.\n",
    ] {
        assert!(got.contains(part), "no {part:?} in {got:?}");
    }
    for command in ["\u{1b}[2J", "\u{1b}]0;", "\u{7}", "\u{1b}[31m 42"] {
        assert!(!got.contains(command), "{command:?} in {got:?}");
    }
    // Before it is understood: the reply's first words stand above the line that moves.
    let writing = got.find("Now code.").unwrap();
    let understood = got.find("── step 3").unwrap();
    assert!(writing < understood, "{got:?}");
}
