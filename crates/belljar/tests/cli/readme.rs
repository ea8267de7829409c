//! The examples of README.md, of the tutorials and of the pages cli, runs, service, commands and api of docs/, as a newcomer would
//! run them.

use std::fs;
use std::path::Path;

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::code;
use crate::support::{BELLJAR, Scratch, default_environment};

/// Every `sh` block of a page, with the `text` block that directly follows it, if one does.
fn examples_of(page: &str) -> Vec<(String, Option<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join(page)).unwrap();
    let mut examples: Vec<(String, Option<String>)> = Vec::new();
    let mut expects_output = false;
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            expects_output &= line.is_empty();
            continue;
        };
        let mut block = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            block.push_str(line);
            block.push('\n');
        }
        match language {
            "sh" => examples.push((block, None)),
            "text" if expects_output => examples.last_mut().unwrap().1 = Some(block),
            _ => {}
        }
        expects_output = language == "sh";
    }
    examples
}

#[test]
fn the_examples_of_the_readme_run() {
    default_environment();
    run_examples("README.md", 1);
}

#[test]
fn the_examples_of_the_command_line_run() {
    default_environment();
    run_examples("docs/cli.md", 9);
}

#[test]
fn the_examples_of_the_shell_run() {
    default_environment();
    run_examples("docs/shell.md", 4);
}

#[test]
fn the_examples_of_directories_run() {
    default_environment();
    run_examples("docs/directories.md", 1);
}

#[test]
fn the_examples_of_variables_run() {
    default_environment();
    run_examples("docs/variables.md", 1);
}

#[test]
fn the_examples_of_runs_run() {
    run_examples("docs/runs.md", 1);
}

#[test]
fn the_first_tutorial_runs() {
    default_environment();
    run_examples("docs/tutorial-first-session.md", 6);
}

#[test]
fn the_tutorial_on_embedding_runs() {
    default_environment();
    run_examples("docs/tutorial-embedding.md", 1);
}

#[test]
fn the_tutorial_on_an_agent_runs() {
    default_environment();
    let model = ScriptedModel::start([
        code("import pandas as pd\nprint(pd.read_csv('sales.csv').groupby('product').units.sum())"),
        Scripted::text("FINAL: Tea sold most: 37 units."),
    ])
    .unwrap();
    let variables = [
        ("BELLJAR_BASE_URL", model.base_url()),
        ("BELLJAR_MODEL", "ollama/qwen2.5-coder".to_owned()),
        ("BELLJAR_RUNS_DIR", "runs".to_owned()),
    ];
    run_as_one("docs/tutorial-csv-agent.md", &variables);
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn the_tutorial_on_a_service_runs() {
    default_environment();
    run_as_one("docs/tutorial-team-service.md", &[]);
}

#[test]
fn the_examples_of_service_run() {
    crate::support::bare();
    let model = ScriptedModel::start([
        code("total = sum(int(line) for line in open('sales.csv'))\nopen('total.txt', 'w').write(str(total))\nprint(total)"),
        Scripted::text("FINAL: The sales are 4217 in all."),
        code("print(6 * 7)"),
        Scripted::text("FINAL: It is 42."),
    ])
    .unwrap();
    let variables = [("BELLJAR_BASE_URL", model.base_url())];
    run_examples_with("docs/service.md", 2, &variables);
    assert_eq!(model.requests().len(), 4);
}

#[test]
fn the_examples_of_commands_run() {
    crate::support::bare();
    run_examples("docs/commands.md", 1);
}

#[test]
fn the_examples_of_isolation_run() {
    crate::support::bare();
    run_examples("docs/choose-isolation.md", 1);
}

#[test]
fn the_requests_of_api_run() {
    crate::support::bare();
    let model = ScriptedModel::start([
        code("total = sum(int(line) for line in open('sales.csv'))\nopen('total.txt', 'w').write(str(total))\nprint(total)"),
        Scripted::text("FINAL: The sales are 4217 in all."),
        code("print(total / 2)"),
        Scripted::text("FINAL: Half of it is 2108.5."),
        code("print(total)"),
        Scripted::text("FINAL: It is 4217."),
        code("print(sum(int(line) for line in open('sales.csv')))"),
        Scripted::text("FINAL: The sales are 4217 in all."),
        code("print(6 * 7)"),
        Scripted::text("FINAL: It is 42."),
        code("print(1)"),
        code("print(2)"),
    ])
    .unwrap();
    let variables = [("BELLJAR_BASE_URL", model.base_url())];
    run_as_one("docs/api.md", &variables);
    assert_eq!(model.requests().len(), 12);
}

/// The settings that the pages show are settings.
#[test]
fn the_settings_files_of_pages_are_ones() {
    for (page, shown) in [
        ("runs.md", "openai/gpt-5-mini"),
        ("mcp.md", "https://tracker.example/mcp"),
        ("approvals.md", "files.delete"),
    ] {
        let page = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(page).unwrap();
        let (_, file) = page.split_once("```toml\n").unwrap();
        let scratch = Scratch::new();
        scratch.write("config.toml", file.split("```").next().unwrap());
        let mut command = scratch.prepare(BELLJAR);
        command
            .env("BELLJAR_CONFIG", scratch.path("config.toml"))
            .env_remove("BELLJAR_MODEL")
            .arg("config");
        let ended = scratch.finish(command.spawn().unwrap()).exits_with(0);
        assert!(ended.stdout.contains(shown), "{ended:#?}");
    }
}

fn run_examples(page: &str, least: usize) {
    run_examples_with(page, least, &[]);
}

fn run_examples_with(page: &str, least: usize, variables: &[(&str, String)]) {
    let examples = examples_of(page);
    assert!(
        examples.len() >= least,
        "only {} examples were found in {page}",
        examples.len()
    );
    for (script, expected) in examples {
        run_example(&script, expected.as_deref(), variables);
    }
}

/// Runs the blocks of a page as one session of a shell.
fn run_as_one(page: &str, variables: &[(&str, String)]) {
    let examples = examples_of(page);
    let script: String = examples.iter().map(|(script, _)| script.as_str()).collect();
    let expected: String = examples
        .iter()
        .filter_map(|(_, expected)| expected.as_deref())
        .collect();
    run_example(&script, Some(expected.as_str()), variables);
}

fn run_example(script: &str, expected: Option<&str>, variables: &[(&str, String)]) {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let own = Path::new(BELLJAR).parent().unwrap().to_owned();
    let directories = std::iter::once(own).chain(std::env::split_paths(&directories));
    let path = std::env::join_paths(directories).unwrap();
    let scratch = Scratch::new();
    let mut command = scratch.prepare("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .env("PATH", &path)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take());
    let ended = scratch.finish(child);
    assert!(ended.status.success(), "{script}\n{ended:#?}");
    if let Some(expected) = expected {
        assert_eq!(ended.stdout, expected, "{script}\n{ended:#?}");
    }
}
