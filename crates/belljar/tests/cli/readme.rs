//! The examples of README.md, as a newcomer would run them.

use std::fs;
use std::path::Path;

use crate::support::{BELLJAR, Scratch, default_environment};

/// Every `sh` block of the README, with the `text` block that directly follows it, if one does.
fn readme_examples() -> Vec<(String, Option<String>)> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let readme = readme.unwrap();
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
    let examples = readme_examples();
    assert!(
        examples.len() >= 5,
        "only {} examples were found",
        examples.len()
    );
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let own = Path::new(BELLJAR).parent().unwrap().to_owned();
    let directories = std::iter::once(own).chain(std::env::split_paths(&directories));
    let path = std::env::join_paths(directories).unwrap();
    for (script, expected) in examples {
        let scratch = Scratch::new();
        let mut command = scratch.prepare("bash");
        command
            .args(["-euo", "pipefail", "-c", &script])
            .env("PATH", &path);
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take());
        let ended = scratch.finish(child);
        assert!(ended.status.success(), "{script}\n{ended:#?}");
        if let Some(expected) = expected {
            assert_eq!(ended.stdout, expected, "{script}\n{ended:#?}");
        }
    }
}
