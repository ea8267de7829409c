//! Finished runs, about half of them with a wrong answer: how many wrong ones are shown as answered,
//! and how many right ones are downgraded.
//!
//! `corpus/right.txt` and `corpus/wrong.txt` have sixty scripted runs, in ways that small models were seen to fail;
//! `corpus/recorded-*.txt` have recorded ones of a small model; `corpus/held-*.txt` have twenty more. A run is `=== name | file, …`, the task,
//! and the replies of the model, each after a line `---`. A model that is asked again repeats its last
//! reply, as small models do: so a wrong answer is never mended, and a right one never gets better.

use std::path::Path;

use belljar_agent::{ExitReason, Start};
use belljar_sandbox::Engine;
use belljar_sandbox::protocol::Language;
use belljar_test_model::{Scripted, ScriptedModel};

use crate::support::{Desk, drive, environment, start};

struct Case {
    name: &'static str,
    files: Vec<&'static str>,
    task: &'static str,
    replies: Vec<&'static str>,
}

fn cases(text: &'static str) -> Vec<Case> {
    let cases = text.split("\n=== ").skip(1);
    let cases = cases.map(|case| {
        let (first, rest) = case.split_once('\n').unwrap();
        let (name, files) = first.split_once('|').unwrap();
        let mut parts = rest.split("\n---\n");
        Case {
            name: name.trim(),
            files: files
                .split(',')
                .map(str::trim)
                .filter(|file| !file.is_empty())
                .collect(),
            task: parts.next().unwrap(),
            replies: parts.map(str::trim_end).collect(),
        }
    });
    cases.collect()
}

async fn reason_of(case: &Case, engine: &Engine) -> ExitReason {
    let replies = case.replies.clone();
    let mut next = 0;
    let model = ScriptedModel::react(move |_| {
        let reply = replies[next.min(replies.len() - 1)];
        next += 1;
        Scripted::text(reply)
    });
    let mut desk = Desk::with(model.unwrap());
    desk.engine = engine.clone();
    let agent = desk.agent().await;
    let chinese = case.task.chars().any(|c| u32::from(c) > 0x2E80);
    let mut start = Start {
        language: if chinese {
            Language::Chinese
        } else {
            Language::English
        },
        ..start(case.task)
    };
    for name in &case.files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/corpus/files");
        let contents = std::fs::read(path.join(name)).unwrap();
        start.files.push(agent.file(name, contents).await.unwrap());
    }
    let run = drive(agent.start(start).await.unwrap()).await;
    run.ending().unwrap().reason.clone()
}

/// How many runs are misjudged, and of how many.
#[expect(
    clippy::print_stdout,
    reason = "a failed test shows how each run was judged"
)]
async fn misjudged(kind: &str, cases: &[Case], engine: &Engine) -> (usize, usize) {
    let mut wrong = 0;
    for case in cases {
        let reason = Box::pin(reason_of(case, engine)).await;
        let language = Language::English;
        let doubts: Vec<String> = reason.doubts().iter().map(|d| d.text(language)).collect();
        let well = (reason == ExitReason::Answered) == (kind == "right");
        wrong += usize::from(!well);
        let mark = if well { " " } else { "*" };
        let state = reason.text(language);
        let (name, doubts) = (case.name, doubts.join("; "));
        println!("{mark} {kind:5}  {state:10}  {name}  {doubts}");
    }
    println!("{kind}: {wrong} of {} misjudged", cases.len());
    (wrong, cases.len())
}

/// Of the wrong answers at most one in ten is shown as answered, and of the right ones at most one in ten is not.
#[tokio::test(flavor = "multi_thread")]
async fn waits_a_corpus_of_finished_runs() {
    // One template for all.
    let engine = Engine::builder(environment()).build();
    for (kind, scripted, recorded) in [
        (
            "right",
            include_str!("corpus/right.txt"),
            include_str!("corpus/recorded-right.txt"),
        ),
        (
            "wrong",
            include_str!("corpus/wrong.txt"),
            include_str!("corpus/recorded-wrong.txt"),
        ),
    ] {
        let mut cases = cases(scripted);
        assert_eq!(cases.len(), 30);
        cases.extend(self::cases(recorded));
        let (wrong, all) = Box::pin(misjudged(kind, &cases, &engine)).await;
        assert!(10 * wrong <= all, "{kind}: {wrong} of {all}");
    }
}

/// The same for runs on other files, whose author had seen the corpus but not read the rules of the checks. These were
/// tuned with the corpus.
#[tokio::test(flavor = "multi_thread")]
async fn waits_runs_that_the_checks_were_not_tuned_with() {
    let engine = Engine::builder(environment()).build();
    for (kind, scripted, most) in [
        ("right", include_str!("corpus/held-right.txt"), 1),
        ("wrong", include_str!("corpus/held-wrong.txt"), 1),
    ] {
        let cases = cases(scripted);
        assert_eq!(cases.len(), 10);
        let (wrong, _) = Box::pin(misjudged(kind, &cases, &engine)).await;
        assert!(wrong <= most, "{kind}: {wrong}");
    }
}
