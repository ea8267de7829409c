//! `belljar config`, and that runs go by it.

use belljar_test_model::ScriptedModel;

use crate::run::{belljar, code};
use crate::support::{BELLJAR, Ended, Scratch, bare};

fn with(scratch: &Scratch, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let mut command = scratch.prepare(BELLJAR);
    command
        .env_remove("BELLJAR_MODEL")
        .env_remove("BELLJAR_BASE_URL")
        .env("BELLJAR_RUNS_DIR", scratch.path("runs"))
        .envs(variables.iter().copied())
        .args(arguments);
    scratch.finish(command.spawn().unwrap())
}

/// The line of a setting, its parts apart.
#[track_caller]
fn row(ended: &Ended, name: &str) -> Vec<String> {
    let line = ended.stdout.lines().find(|line| {
        let first = line.split_whitespace().next();
        first == Some(name)
    });
    let line = line.unwrap_or_else(|| panic!("no {name} in {ended:#?}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn config_says_where_each_value_came_from() {
    let scratch = Scratch::new();
    scratch.write(
        "config.toml",
        "model = \"llamacpp/of-file\"\n\n[budget]\nsteps = 7\nmoney = 1\n\n\
         [providers.openai]\nkey_variable = \"MY_KEY\"\nbase_url = \"https://file.example/v1\"\n\n\
         [prices.\"openai/big\"]\ninput = 2\noutput = 8.5\n",
    );
    let file = scratch.path("config.toml");
    let file = file.to_str().unwrap();
    let variables = [
        ("BELLJAR_CONFIG", file),
        ("BELLJAR_MODEL", "openai/big"),
        ("MY_KEY", "sk-very-secret"),
    ];
    let shown = with(&scratch, &variables, &["config", "--steps", "3"]).exits_with(0);
    for (name, value, from) in [
        ("model", "openai/big", "$BELLJAR_MODEL"),
        ("budget.steps", "3", "--steps"),
        ("budget.money", "1.0", &format!("{file}:5")),
        ("budget.calls", "100", "default"),
        ("base_url", "https://file.example/v1", &format!("{file}:9")),
        ("prices.output", "8.5", &format!("{file}:13")),
    ] {
        assert_eq!(row(&shown, name), [name, value, from]);
    }
    assert_eq!(
        row(&shown, "key_variable"),
        ["key_variable", "MY_KEY", "(set)", &format!("{file}:8")]
    );
    assert_eq!(
        row(&shown, "dialect"),
        ["dialect", "native", "profile", "openai"]
    );
    assert!(!shown.stdout.contains("secret"), "{shown:#?}");
    // What the file says of one provider is not said of another: a key stays with its server.
    let other = with(
        &scratch,
        &variables,
        &[
            "config",
            "--model",
            "llamacpp/x",
            "--base-url",
            "http://127.0.0.1:1/v1",
        ],
    );
    assert_eq!(
        row(&other, "base_url"),
        ["base_url", "http://127.0.0.1:1/v1", "--base-url"]
    );
    assert_eq!(row(&other, "key_variable")[1], "LLAMA_API_KEY");

    let json = with(&scratch, &variables, &["config", "--json"]).exits_with(0);
    assert!(!json.stdout.contains("secret"), "{json:#?}");
    let [object] = &json.lines()[..] else {
        panic!("{json:#?}");
    };
    let steps = object["settings"].as_array().unwrap().iter();
    let steps = steps
        .clone()
        .find(|row| row["name"] == "budget.steps")
        .unwrap();
    assert_eq!(steps["value"], 7);
    assert_eq!(
        steps["from"],
        serde_json::json!({"kind": "file", "path": file, "line": 4})
    );

    // Another language.
    let chinese = [variables[0], ("LC_ALL", "zh_CN.UTF-8")];
    let shown = with(&scratch, &chinese, &["config"]).exits_with(0);
    assert_eq!(row(&shown, "language"), ["language", "zh", "$LC_ALL"]);
    assert_eq!(row(&shown, "review"), ["review", "false", "默认"]);
}

#[test]
fn config_init_writes_a_file_once() {
    let scratch = Scratch::new();
    let path = with(&scratch, &[], &["config", "path"]).exits_with(0);
    let first = with(&scratch, &[], &["config", "init"]).exits_with(0);
    assert_eq!(path.stdout, first.stdout);
    let text = std::fs::read_to_string(path.stdout.trim_end()).unwrap();
    assert!(text.contains("# model = "), "{text}");
    with(&scratch, &[], &["config", "init"])
        .exits_with(2)
        .says("already exists");
    with(&scratch, &[], &["config"])
        .exits_with(0)
        .says_nothing();
}

#[test]
fn config_faults_are_told_with_their_place() {
    let scratch = Scratch::new();
    let missing = scratch.path("none.toml");
    let missing = [("BELLJAR_CONFIG", missing.to_str().unwrap())];
    with(&scratch, &missing, &["config"])
        .exits_with(2)
        .says("hint: `BELLJAR_CONFIG` names this file");
    scratch.write("config.toml", "[budget]\nstepz = 3\n");
    let file = scratch.path("config.toml");
    let file = [("BELLJAR_CONFIG", file.to_str().unwrap())];
    let told = "config.toml:2: no such setting: `budget.stepz`\nhint: did you mean `steps`?";
    with(&scratch, &file, &["config"]).exits_with(2).says(told);
    with(&scratch, &file, &["run", "Hello"])
        .exits_with(2)
        .says(told);
    let chinese = [file[0], ("LANG", "zh_CN.UTF-8"), ("LC_ALL", "")];
    with(&scratch, &chinese, &["config"])
        .exits_with(2)
        .says("config.toml:2: 没有设置 `budget.stepz`\n提示：是否想写 `steps`？");
}

/// The model, its server, the budget and the prices of the file are those of a run; what it costs is
/// told while it goes on, and of earlier runs.
#[test]
fn a_run_goes_by_the_settings_and_its_cost_is_told() {
    let scratch = Scratch::new();
    let model = ScriptedModel::start([
        code("print(1)").usage(1000, 100, 0),
        code("print(2)").usage(1000, 100, 0),
        code("print(3)").usage(1000, 100, 0),
    ])
    .unwrap();
    scratch.write(
        "config.toml",
        &format!(
            "model = 'vllm/x'\nruns_dir = '{}'\n[providers.vllm]\nbase_url = '{}'\n\
             [prices.\"vllm/x\"]\ninput = 2000\noutput = 10000\n[budget]\nmoney = 5.5\n",
            scratch.path("kept").display(),
            model.base_url()
        ),
    );
    let file = scratch.path("config.toml");
    let file = file.to_str().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("BELLJAR_CONFIG", file)
            .env_remove("BELLJAR_RUNS_DIR")
            .args(arguments);
        scratch.finish(command.spawn().unwrap())
    };
    let ended = command(&["run", "--env", bare(), "Count"]).exits_with(1);
    // 2 for what is read and 1 for what is written, in each step: the second one passes 5.5.
    let ended = ended.says("tokens · cost 3.0000").says("cost 6.0000");
    let ended = ended.says("the budget does not allow another step (money)");
    assert_eq!(model.requests().len(), 2, "{ended:#?}");
    let listed = command(&["runs", "list"]).exits_with(0);
    assert!(
        listed.stdout.contains("    2  6.0000  Count"),
        "{listed:#?}"
    );
    let id = listed.stdout.split_whitespace().next().unwrap();
    let timing = command(&["runs", "show", "--timing", id]).exits_with(0);
    assert!(timing.stdout.contains("cost 6.0000"), "{timing:#?}");
    command(&["runs", "show", id])
        .exits_with(0)
        .says("cost 6.0000");
    // Runs are where the file says.
    let elsewhere = belljar(&scratch, &["runs", "list"]).exits_with(0);
    assert_eq!(elsewhere.stdout, "");
}

/// docs/configuration.md is what the code has.
#[test]
fn the_documented_configuration_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let scratch = Scratch::new();
    let mut command = scratch.prepare(BELLJAR);
    command.env_clear().args(["config", "reference"]);
    let printed = scratch.finish(command.spawn().unwrap()).exits_with(0);
    assert!(
        std::fs::read_to_string(path).unwrap() == printed.stdout,
        "docs/configuration.md is not up to date: env -i belljar config reference > docs/configuration.md"
    );
}
