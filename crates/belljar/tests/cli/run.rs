//! `belljar run` and `belljar runs`, with a scripted model server.

use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::Value;

use crate::support::{BELLJAR, Ended, Scratch, bare};

pub(crate) fn code(code: &str) -> Scripted {
    Scripted::text(format!("```python\n{code}\n```"))
}

/// Runs `belljar` with the runs of this directory.
pub(crate) fn belljar(scratch: &Scratch, arguments: &[&str]) -> Ended {
    let child = scratch
        .prepare(BELLJAR)
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .env("NO_COLOR", "1")
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .spawn()
        .unwrap();
    scratch.finish(child)
}

pub(crate) fn run(scratch: &Scratch, model: &ScriptedModel, arguments: &[&str]) -> Ended {
    run_in(bare(), scratch, model, arguments)
}

/// `belljar run` in an environment.
pub(crate) fn run_in(
    environment: &str,
    scratch: &Scratch,
    model: &ScriptedModel,
    arguments: &[&str],
) -> Ended {
    let url = model.base_url();
    let fixed = ["run", "--env", environment, "--model", "llamacpp/scripted"];
    let fixed = [&fixed[..], &["--base-url", &url], arguments].concat();
    belljar(scratch, &fixed)
}

/// The answer is all that standard output gets; the rest is told beside it, and kept.
#[test]
fn run_answers_and_runs_tell_of_it() {
    let scratch = Scratch::new();
    scratch.write("numbers.txt", "20\n22\n");
    let model = ScriptedModel::start([
        code("n = [int(line) for line in open('numbers.txt')]\nprint('sum', sum(n))\nwritten = open('sum.txt', 'w').write(str(sum(n)))"),
        Scripted::text("FINAL: The sum is 42."),
    ])
    .unwrap();
    let ended = run(
        &scratch,
        &model,
        &["--put", "numbers.txt", "Sum the numbers."],
    );
    let ended = ended.exits_with(0).prints("The sum is 42.\n");
    for part in [
        "step 1",
        "sum 42",
        "42: computed in cell 1 by `sum(n)` from numbers.txt (shows origin, not correctness)",
        "sum.txt",
    ] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended:#?}");
    }
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0);
    assert!(
        listed
            .stdout
            .contains("answered      2     -  Sum the numbers."),
        "{listed:#?}"
    );
    let id = listed.stdout.split_whitespace().next().unwrap().to_owned();
    let kept = scratch
        .path("runs")
        .join("runs")
        .join(&id)
        .join("artifacts/sum.txt");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "42");
    belljar(&scratch, &["runs", "replay", &id])
        .exits_with(0)
        .prints("2 requests, all identical\n");
    let shown = belljar(&scratch, &["runs", "show", &id[..8]]).exits_with(0);
    assert_eq!(shown.stdout, "The sum is 42.\n");
    assert!(shown.stderr.contains("sum 42"), "{shown:#?}");
    let timing = belljar(&scratch, &["runs", "show", "--timing", &id]).exits_with(0);
    assert!(timing.stdout.contains("2 steps, 1 calls"), "{timing:#?}");
    let timing = belljar(&scratch, &["runs", "show", "--timing", "--json", &id])
        .exits_with(0)
        .lines();
    assert_eq!(timing[0]["steps"][0]["tools"][0], "python");
    assert_eq!(timing[0]["spent"]["steps"], 2);
    let sum = |names: [&str; 2]| names.map(|name| timing[0]["spent"][name].as_u64().unwrap());
    let busy: u64 = sum(["model_ms", "tool_ms"]).iter().sum();
    let other = timing[0]["other_ms"].as_u64().unwrap();
    assert!(
        timing[0]["wall_ms"].as_u64().unwrap() <= busy + other,
        "{timing:#?}"
    );
    let events = belljar(&scratch, &["runs", "show", "--json", &id])
        .exits_with(0)
        .lines();
    assert_eq!(events.first().unwrap()["kind"], "started");
    assert_eq!(events.last().unwrap()["kind"], "ended");
    let notebook = belljar(&scratch, &["runs", "export", "--ipynb", &id]).exits_with(0);
    let notebook: Value = serde_json::from_str(&notebook.stdout).unwrap();
    assert_eq!(notebook["nbformat"], 4);
    assert_eq!(notebook["cells"][2]["outputs"][0]["text"], "sum 42\n");
    let script = belljar(&scratch, &["runs", "export", "--py", &id]).exits_with(0);
    assert!(
        script
            .stdout
            .starts_with("# Task: Sum the numbers.\n\n# The files"),
        "{script:#?}"
    );
    let page = belljar(&scratch, &["runs", "export", "--html", &id]).exits_with(0);
    assert!(
        page.stdout.contains("<h1>Sum the numbers.</h1>"),
        "{page:#?}"
    );
}

#[test]
fn run_tells_machines_in_one_object() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([code("print(6 * 7)"), Scripted::text("FINAL: 42")]).unwrap();
    let ended = run(&scratch, &model, &["--json", "Six times seven?"]).exits_with(0);
    let [summary] = &ended.lines()[..] else {
        panic!("{ended:#?}");
    };
    assert_eq!(summary["answer"], "42");
    assert_eq!(summary["reason"]["kind"], "answered");
    assert_eq!(summary["evidence"][0]["seen"]["cell"], 1);
    assert_eq!(summary["spent"]["steps"], 2);
}

/// An answer that nothing proves has its own exit code, and every way out says why.
#[test]
fn an_unverified_answer_looks_like_one() {
    let scratch = Scratch::new();
    scratch.write("sales.csv", "region,amount\nNorth,10\n");
    let chart = || {
        let said =
            Scripted::text("FINAL: The revenue is 99887. The chart is saved as revenue.png.");
        ScriptedModel::react(move |_| said.clone()).unwrap()
    };
    let task = [
        "--file",
        "sales.csv",
        "What is the revenue? Save a chart as revenue.png.",
    ];
    let ended = run(&scratch, &chart(), &task).exits_with(4);
    let ended = ended.prints("The revenue is 99887. The chart is saved as revenue.png.\n");
    for part in [
        "── answer (unverified)",
        "99887: seen nowhere",
        "revenue.png: seen nowhere",
        "[unverified: no code was run]",
    ] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended:#?}");
    }
    let json = [&["--json"][..], &task].concat();
    let [summary] = &run(&scratch, &chart(), &json).exits_with(4).lines()[..] else {
        panic!("no summary");
    };
    assert_eq!(summary["reason"]["kind"], "unverified");
    assert_eq!(summary["reason"]["doubts"][0]["kind"], "nothing_run");
    let id = summary["run"].as_str().unwrap();
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0);
    assert!(listed.stdout.contains("unverified"), "{listed:#?}");
    for (format, parts) in [
        (
            "--html",
            [
                "<h2>Answer (unverified)</h2>",
                "<li>99887: seen nowhere</li>",
            ],
        ),
        (
            "--py",
            [
                "# Answer (unverified): The revenue",
                "# 99887: seen nowhere",
            ],
        ),
        (
            "--ipynb",
            ["# Answer (unverified)", "- 99887: seen nowhere"],
        ),
    ] {
        let export = belljar(&scratch, &["runs", "export", format, id]).exits_with(0);
        for part in parts.into_iter().chain(["[unverified: no code was run]"]) {
            assert!(export.stdout.contains(part), "no {part:?} in {export:#?}");
        }
    }
}

/// What a run printed last is not its answer: standard output stays empty, and exports label it.
#[test]
fn the_last_output_is_not_an_answer() {
    let scratch = Scratch::new();
    let model = || ScriptedModel::start([code("print('row', 6 * 7)")]).unwrap();
    let ended = run(&scratch, &model(), &["--steps", "1", "Count."]).exits_with(1);
    assert_eq!(ended.stdout, "", "{ended:#?}");
    for part in [
        "── last output (not an answer)\nrow 42",
        "[not answered: the budget does not allow another step (steps)]",
    ] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended:#?}");
    }
    let json = run(&scratch, &model(), &["--json", "--steps", "1", "Count."]).exits_with(1);
    let [summary] = &json.lines()[..] else {
        panic!("{json:#?}");
    };
    assert!(summary["answer"].is_null(), "{summary:#}");
    assert_eq!(summary["last_output"], "row 42");
    let id = summary["run"].as_str().unwrap();
    for format in ["--html", "--py", "--ipynb"] {
        let export = belljar(&scratch, &["runs", "export", format, id]).exits_with(0);
        for part in ["Not answered: the budget", "Last output (not an answer)"] {
            assert!(export.stdout.contains(part), "no {part:?} in {export:#?}");
        }
    }
}

/// A budget of one second ends a cell of a minute, and one of 100 tokens sends no request.
#[test]
fn budgets_hold_while_a_cell_runs() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([code("import time\ntime.sleep(60)")]).unwrap();
    let ended = run(&scratch, &model, &["--json", "--seconds", "1", "Wait."]).exits_with(1);
    let [summary] = &ended.lines()[..] else {
        panic!("{ended:#?}");
    };
    assert_eq!(summary["reason"]["part"], "seconds");
    assert!(
        summary["spent"]["tool_ms"].as_u64().unwrap() < 10_000,
        "{summary:#}"
    );
    let model = ScriptedModel::start([code("print(1)")]).unwrap();
    let ended = run(&scratch, &model, &["--json", "--tokens", "100", "Count."]).exits_with(1);
    assert_eq!(ended.lines()[0]["spent"]["input_tokens"], 0);
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn run_says_what_is_wrong() {
    let scratch = Scratch::new();
    let ended = belljar(&scratch, &["run", "--model", "nobody/x", "Hello"]).exits_with(2);
    assert!(ended.stderr.contains("nobody"), "{ended:#?}");
    belljar(
        &scratch,
        &["run", "--model", "ollama/x", "--put", "missing", "Hello"],
    )
    .exits_with(2)
    .says("`--put missing`: No such file or directory (os error 2)\nhint: check the path");
    scratch.write("a.txt", "");
    for (arguments, said) in [
        (
            &["run", "Hello"][..],
            "error: no model is set\nhint: give PROVIDER/MODEL with `--model`",
        ),
        (
            &["run", "--model", "gpt", "Hello"],
            "`gpt` is not the name of a model",
        ),
        (
            &["run", "--model", "openia/x", "Hello"],
            "did you mean `openai`?",
        ),
        (&["run", "--model", "ollama/x", " "], "the task is empty"),
        (
            &["run", "--model", "ollama/x", "--put", "/dev/null", "Hello"],
            "`--put /dev/null`: neither a regular file nor a directory",
        ),
        (
            &[
                "run", "--model", "ollama/x", "--put", "a.txt", "--put", "./a.txt", "Hello",
            ],
            "another file has the same name",
        ),
        (
            &["run", "--model", "openai/x", "--money", "1", "Hello"],
            "the prices of `openai/x` are unknown\nhint: remove the limit",
        ),
    ] {
        let ended = belljar(&scratch, arguments).exits_with(2).says(said);
        assert_eq!(ended.stdout, "", "{ended:#?}");
    }
    let child = scratch
        .prepare(BELLJAR)
        .env_remove("OPENAI_API_KEY")
        .args(["run", "--model", "openai/x", "Hello"])
        .spawn()
        .unwrap();
    scratch
        .finish(child)
        .exits_with(2)
        .says("hint: set the variable `OPENAI_API_KEY`, or name a file");
    belljar(&scratch, &["runs", "show", "abc"])
        .exits_with(2)
        .says("no such run: `abc`");
    // A server that refuses: the run ends, typed, and is kept.
    let model = ScriptedModel::start([Scripted::status(400, "no such model")]).unwrap();
    let ended = run(&scratch, &model, &["Hello"]).exits_with(1);
    assert!(ended.stderr.contains("no such model"), "{ended:#?}");
    assert_eq!(ended.stdout, "");
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0);
    assert!(listed.stdout.contains("ended"), "{listed:#?}");
}

/// What code may reach is what was allowed, and what it was denied is told.
#[test]
fn run_allows_the_hosts_that_it_was_given() {
    let scratch = Scratch::new();
    let reach = "import urllib.request\ntry:\n    urllib.request.urlopen('http://denied.example/', timeout=9)\nexcept OSError as error:\n    print('no:', 1234)";
    let model = ScriptedModel::start([code(reach), Scripted::text("FINAL: 1234")]).unwrap();
    let ended = run(&scratch, &model, &["--allow", "allowed.example", "Look"]).exits_with(0);
    let told = ended
        .stderr
        .lines()
        .find(|line| line.starts_with("[network:"));
    assert!(
        told.is_some_and(|line| line.contains("denied.example")),
        "{ended:#?}"
    );
}
