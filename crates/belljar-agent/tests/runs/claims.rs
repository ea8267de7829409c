//! Claims: values in answers, half of them wrong in subtle ways. How many wrong ones are derived, and how many right ones
//! are not.
//!
//! The rules of evidence were tuned with `claims/tuning.txt`, and not with `claims/held.txt`. The code of `claims/cited.txt`
//! cites its values, and is measured with `print` in the place of `cite`, too. `claims/fresh.txt` and `claims/fresh_cited.txt`
//! are newer than the rules. A run is
//! `### name | file, …`, the task, its cells, each after a line `--- cell`, and its claims: `--- right | VALUE` or
//! `--- wrong: KIND | VALUE` with an answer. The cells run in real sessions, anew for each claim.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_agent::{Evidence, Seen};
use belljar_sandbox::Engine;
use belljar_test_model::ScriptedModel;

use crate::support::{Desk, answer, code, drive, environment, start};

struct Claim {
    kind: &'static str,
    value: &'static str,
    answer: &'static str,
}

struct Run {
    name: &'static str,
    files: Vec<&'static str>,
    task: &'static str,
    cells: Vec<&'static str>,
    claims: Vec<Claim>,
}

fn runs(text: &'static str) -> Vec<Run> {
    let read = |run: &'static str| {
        let mut parts = run.split("\n--- ");
        let (first, task) = parts.next().unwrap().split_once('\n').unwrap();
        let (name, files) = first.split_once('|').unwrap();
        let files = files.split(',').map(str::trim);
        let mut run = Run {
            name: name.trim(),
            files: files.filter(|file| !file.is_empty()).collect(),
            task: task.trim(),
            cells: Vec::new(),
            claims: Vec::new(),
        };
        for part in parts {
            let (first, text) = part.split_once('\n').unwrap();
            match first.split_once('|') {
                None => run.cells.push(text.trim_end()),
                Some((kind, value)) => run.claims.push(Claim {
                    kind: kind.trim(),
                    value: value.trim(),
                    answer: text.trim(),
                }),
            }
        }
        run
    };
    text.split("### ").skip(1).map(read).collect()
}

/// What was found for the value, or for each part of it.
async fn found(run: &Run, claim: &Claim, how: Shows, engine: &Engine) -> Vec<Evidence> {
    let cells = run.cells.iter().map(|cell| match how {
        Shows::Cites => code(cell),
        Shows::Prints => code(&printed(cell)),
    });
    let replies: Vec<_> = cells.chain([answer(claim.answer)]).collect();
    let mut next = 0;
    // A model that is asked again repeats its answer.
    let model = ScriptedModel::react(move |_| {
        let reply = replies[next.min(replies.len() - 1)].clone();
        next += 1;
        reply
    });
    let mut desk = Desk::with(model.unwrap());
    desk.engine = engine.clone();
    let agent = desk.agent().await;
    let mut start = start(run.task);
    for name in &run.files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/corpus/files");
        let contents = std::fs::read(path.join(name)).unwrap();
        start.files.push(agent.file(name, contents).await.unwrap());
    }
    let driven = drive(agent.start(start).await.unwrap()).await;
    let evidence = driven.ending().unwrap().evidence.clone();
    // The value itself, or its parts.
    let bare = claim.value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let is_it = |one: &&Evidence| one.value == claim.value || one.value == bare;
    let is_part = |one: &&Evidence| claim.value.contains(&one.value);
    let whole: Vec<Evidence> = evidence.iter().filter(is_it).cloned().collect();
    if whole.is_empty() {
        evidence.iter().filter(is_part).cloned().collect()
    } else {
        whole
    }
}

/// What stands in the place of `cite`.
#[derive(Clone, Copy)]
enum Shows {
    Cites,
    Prints,
}

/// The same code with the same output, without citations.
fn printed(cell: &str) -> String {
    let line = |line: &str| {
        let code = line.trim_start();
        let inner = code
            .strip_prefix("cite(")
            .and_then(|rest| rest.strip_suffix(')'));
        let Some(inner) = inner else {
            return line.to_owned();
        };
        let ends = [", '", ", f'", ", f\""];
        let at = ends
            .iter()
            .filter_map(|one| inner.rfind(one))
            .max()
            .unwrap();
        let indent = &line[..line.len() - code.len()];
        format!(
            "{indent}print({} + ':', {})",
            &inner[at + 2..],
            &inner[..at]
        )
    };
    let lines: Vec<String> = cell.lines().map(line).collect();
    lines.join("\n")
}

#[derive(Debug, Default)]
struct Count {
    all: usize,
    misjudged: usize,
    /// How many were, if it counted what was printed and nothing speaks against.
    by_rules: usize,
    /// How many were, if the digits alone counted.
    by_digits: usize,
}

/// How many claims are misjudged by kind, with how many there are.
#[expect(clippy::print_stdout, reason = "the rates are read by people")]
async fn misjudged(
    text: &'static str,
    how: Shows,
    engine: &Engine,
) -> BTreeMap<&'static str, Count> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for run in runs(text) {
        for claim in &run.claims {
            let found = Box::pin(found(&run, claim, how, engine)).await;
            let holds = !found.is_empty() && found.iter().all(Evidence::is_derived);
            let is_strong = !found.is_empty() && found.iter().all(Evidence::is_strong);
            let is_printed = |one: &Evidence| matches!(one.seen, Some(Seen::Output { .. }));
            let matches =
                !found.is_empty() && found.iter().all(|one| one.is_strong() || is_printed(one));
            let why: Vec<String> = found.iter().map(|one| format!("{:?}", one.seen)).collect();
            let why = why.join("; ");
            let is_right = claim.kind == "right";
            let count = counts
                .entry(if is_right { "right" } else { "wrong" })
                .or_default();
            count.all += 1;
            count.misjudged += usize::from(holds != is_right);
            count.by_rules += usize::from(is_strong != is_right);
            count.by_digits += usize::from(matches != is_right);
            let mark = if holds == is_right { " " } else { "*" };
            println!(
                "{mark} {:18} {:12} {why:40} {}: {}",
                claim.kind, claim.value, run.name, claim.answer
            );
        }
    }
    println!("{counts:?}");
    counts
}

/// At most these percentages of the wrong and of the right claims are misjudged. The aim is 5 % of the wrong claims
/// derived, and 15 % of the right ones not; the bounds are what is reached.
async fn check(text: &'static str, how: Shows, of_wrong: usize, of_right: usize) {
    let engine = Engine::builder(environment()).build();
    let counts = Box::pin(misjudged(text, how, &engine)).await;
    for (kind, most) in [("wrong", of_wrong), ("right", of_right)] {
        let count = &counts[kind];
        assert!(100 * count.misjudged <= most * count.all, "{counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_claims() {
    check(include_str!("claims/tuning.txt"), Shows::Cites, 2, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_claims_that_the_rules_were_not_tuned_with() {
    check(include_str!("claims/held.txt"), Shows::Cites, 13, 58).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_claims_that_the_code_cites() {
    check(include_str!("claims/cited.txt"), Shows::Cites, 7, 26).await;
}

/// What these are worth without citations: the same outputs by `print`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the figures of docs/answers.md: minutes"]
async fn waits_cited_claims_with_print() {
    check(include_str!("claims/cited.txt"), Shows::Prints, 26, 12).await;
}

/// Newer than the rules: nothing was tuned with these claims.
#[tokio::test(flavor = "multi_thread")]
async fn waits_fresh_claims() {
    check(include_str!("claims/fresh.txt"), Shows::Cites, 5, 53).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_fresh_claims_that_the_code_cites() {
    check(include_str!("claims/fresh_cited.txt"), Shows::Cites, 11, 64).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the figures of docs/answers.md: minutes"]
async fn waits_fresh_cited_claims_with_print() {
    check(
        include_str!("claims/fresh_cited.txt"),
        Shows::Prints,
        30,
        19,
    )
    .await;
}
