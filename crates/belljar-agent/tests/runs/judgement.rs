//! When a run is reminded, taken back, sent on, or ended.

use std::time::{Duration, Instant};

use belljar_agent::{
    Budget, BudgetPart, Derivation, DerivationInput, Doubt, Evidence, ExitReason, Mending,
    RunEvent, Seen,
};
use belljar_sandbox::protocol::Language;
use belljar_test_model::{Scripted, ScriptedModel};

use crate::support::{Desk, answer, answer_of, code, drive, start};

/// An answer whose value stands in no output is sent back; one that repeats itself is taken as
/// unverified.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_rests_on_nothing_is_sent_back() {
    let desk = Desk::new([
        answer("It is 4242."),
        code("print(6 * 7)"),
        answer("It is 4242."),
        answer("It is 4242."),
        answer("It is 42."),
    ]);
    let run = desk.run(start("What is six times seven?")).await;
    assert_eq!(answer_of(&run), "It is 4242.", "who insists is heard");
    let doubts = vec![Doubt::Unseen {
        value: "4242".into(),
    }];
    assert_eq!(
        run.ending().unwrap().reason,
        ExitReason::Unverified { doubts }
    );
    let desk = Desk::new([
        answer("It is 41."),
        code("print(6 * 7)"),
        answer("It is 43."),
        answer("It is 42."),
    ]);
    let run = desk.run(start("What is six times seven?")).await;
    assert_eq!(answer_of(&run), "It is 42.");
    let talk = desk.last_conversation();
    assert!(talk.contains("nothing was run yet"), "{talk}");
    assert!(
        talk.contains("`43` stands in it, but in no output"),
        "{talk}"
    );
}

/// The same number three times, and nothing was run: it is not proven by that.
#[tokio::test(flavor = "multi_thread")]
async fn insisting_proves_nothing() {
    let revenue = || answer("The revenue is 99887.");
    let desk = Desk::new([revenue(), revenue(), revenue()]);
    let run = desk.run(start("What is the revenue?")).await;
    let ending = run.ending().unwrap();
    let doubts = vec![Doubt::NothingRun];
    assert_eq!(ending.reason, ExitReason::Unverified { doubts });
    assert_eq!(ending.answer.as_deref(), Some("The revenue is 99887."));
    assert_eq!(ending.evidence[0].seen, None);
    let line = ending.evidence[0].text(Language::English);
    assert_eq!(line, "99887: seen nowhere");
}

/// What a check of the whole finds goes back once, in the run's language; a mended answer is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_goes_back_once() {
    for (language, said) in [
        (Language::English, "sums nothing up"),
        (Language::Chinese, "没有求和"),
    ] {
        let row = "import csv\nrows = list(csv.DictReader(open('a.csv')))\nprint(rows[0]['n'])";
        let desk = Desk::new([
            code(row),
            answer("The total is 12."),
            code("print(sum(int(row['n']) for row in rows))"),
            answer("The total is 42."),
        ]);
        let agent = desk.agent().await;
        let mut task = belljar_agent::Start {
            language,
            ..start("What is the total of n?")
        };
        let file = agent.file("a.csv", b"n\n12\n30\n".to_vec()).await;
        task.files.push(file.unwrap());
        let run = drive(agent.start(task).await.unwrap()).await;
        let ending = run.ending().unwrap();
        assert_eq!(ending.reason, ExitReason::Answered, "{ending:?}");
        assert_eq!(answer_of(&run), "The total is 42.");
        let said_to_model = desk.last_conversation();
        assert!(said_to_model.contains(said), "{said_to_model}");
    }
}

/// Evidence says where a value comes from, and that this is all it says.
#[test]
fn evidence_shows_origin() {
    let seen = |derived| Evidence {
        value: "4980.0".into(),
        seen: Some(Seen::Output {
            step: 2,
            cell: Some(1),
            line: "4980.0".into(),
            rounded: false,
            weak: None,
            derived,
        }),
    };
    let found = seen(None);
    assert_eq!(
        found.text(Language::English),
        "4980.0: printed by cell 1 (shows origin, not correctness)"
    );
    assert_eq!(
        found.text(Language::Chinese),
        "4980.0：由单元 1 打印（说明来源，不说明正确）"
    );
    let found = seen(Some(Derivation {
        expression: "total".into(),
        inputs: vec![DerivationInput {
            name: "total".into(),
            cell: Some(1),
            code: "total = (sales\n    .amount.sum())".into(),
        }],
        files: vec!["sales.csv".into()],
        label: None,
    }));
    assert_eq!(
        found.text(Language::English),
        "4980.0: computed in cell 1 by `total = (sales .amount.sum())` from sales.csv \
         (shows origin, not correctness)"
    );
    assert_eq!(
        found.text(Language::Chinese),
        "4980.0：由单元 1 的 `total = (sales .amount.sum())` 计算得出，数据来自 sales.csv（说明来源，不说明正确）"
    );
}

/// Code says what a value is, in a real session; the model knows of it from its task alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_what_the_code_cites_it_as() {
    let desk = Desk::new([
        code("days = [3, 4, 8]\ncite(sum(days), 'days of sick leave')"),
        answer("There were 15 days of sick leave."),
    ]);
    let run = desk
        .run(start("How many? Cite it with cite(value, label)."))
        .await;
    let ending = run.ending().unwrap();
    let Some(Seen::Output { line, derived, .. }) = &ending.evidence[0].seen else {
        panic!("{ending:?}");
    };
    assert_eq!(line, "days of sick leave: 15");
    let derived = derived.as_ref().unwrap();
    assert_eq!(derived.label.as_deref(), Some("days of sick leave"));
    assert_eq!(derived.expression, "sum(days)");
}

/// With a review an answer is worked out a second time, and the second is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_review_works_the_answer_out_again() {
    let reviewed = belljar_agent::Start {
        review: true,
        ..start("What is six times seven?")
    };
    let desk = Desk::new([
        code("print(6 * 8)"),
        answer("It is 48."),
        code("print(sum([7] * 6))"),
        answer("42"),
    ]);
    let run = desk.run(reviewed).await;
    assert_eq!(answer_of(&run), "42");
    assert_eq!(desk.model.requests().len(), 4);
    assert!(desk.last_conversation().contains("run other code"));
}

/// Code that fails twice in the same way is taken out of the conversation, so that it is no example;
/// the message for the model has the error alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_failure_is_forgotten() {
    let failing = || code("total = 6 * int('seven')");
    let desk = Desk::new([
        failing(),
        answer("I can't."),
        failing(),
        code("print(6 * 7)"),
        answer("42"),
    ]);
    let run = desk.run(start("What is six times seven?")).await;
    assert_eq!(answer_of(&run), "42");
    let talk = desk.last_conversation();
    assert!(!talk.contains("6 * int"), "{talk}");
    assert!(
        talk.contains(
            "failed twice with `ValueError: invalid literal for int() with base 10: 'seven'`"
        ),
        "{talk}"
    );
}

/// Code that needs what nothing defines is sent back unrun; who insists gets the interpreter's word.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_before_the_run() {
    let desk = Desk::new([
        code("open('mark', 'w')\nn = 6"),
        code("open('mark', 'a').write('x')\nprint(n * np.int64(7))"),
        code("import os\nprint(os.path.getsize('mark'), n * 7)"),
        code("print(sevens)"),
        code("print(sevens)"),
        answer("42"),
        answer("42"),
        answer("42"),
        answer("42"),
    ]);
    let run = desk.run(start("What is six times seven?")).await;
    assert_eq!(answer_of(&run), "42");
    let talk = desk.last_conversation();
    assert!(
        talk.contains("not run: nothing defines `np` (line 2)"),
        "{talk}"
    );
    assert!(talk.contains("0 42"), "nothing of it was run: {talk}");
    assert!(talk.contains("NameError: name 'sevens'"), "{talk}");
}

/// A file that the task requests and that nothing made is asked for, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_task_is_made() {
    let task = "Write the product of 6 and 7 to `out/product.txt`, and tell it.";
    let desk = Desk::new([
        code("print(6 * 7)"),
        answer("42"),
        code("import os\nos.makedirs('out')\nopen('out/product.txt', 'w').write('42')\nprint(42)"),
        answer("42"),
    ]);
    let run = desk.run(start(task)).await;
    assert_eq!(answer_of(&run), "42");
    assert_eq!(run.ending().unwrap().artifacts.len(), 1);
    assert!(
        desk.last_conversation()
            .contains("there is no file `out/product.txt`")
    );
    let insisting = [
        code("print(6 * 7)"),
        answer("42"),
        answer("42"),
        answer("43"),
    ];
    let desk = Desk::new(insisting);
    let run = desk.run(start(task)).await;
    let file = "out/product.txt".into();
    let doubts = vec![Doubt::FileMissing { file }];
    assert_eq!(
        run.ending().unwrap().reason,
        ExitReason::Unverified { doubts }
    );
    assert_eq!(desk.model.requests().len(), 3);
    let desk = Desk::new([code("print(6 * 7)"), answer("42")]);
    let run = desk.run(start("Unlike in notes.md, tell 6 times 7.")).await;
    assert_eq!(run.ending().unwrap().reason, ExitReason::Answered);
}

/// Who is asked for other code and runs the same again loses sight of it.
#[tokio::test(flavor = "multi_thread")]
async fn other_code_is_other_code() {
    let table = || code("print([6] * 7)");
    let desk = Desk::new([
        table(),
        answer("It is 67."),
        table(),
        code("print(sum([6] * 7))"),
        answer("42"),
    ]);
    let run = desk.run(start("What is six times seven?")).await;
    assert_eq!(answer_of(&run), "42");
    let talk = desk.last_conversation();
    assert!(talk.contains("did not show what was asked for"), "{talk}");
    assert!(!talk.contains("print([6] * 7)"), "{talk}");
}

/// The same call with the same result: told at the second time, taken back at the third, with the
/// session; after that the run ends with what it has.
#[tokio::test(flavor = "multi_thread")]
async fn repetition_is_taken_back_and_ends_the_run() {
    let model = ScriptedModel::react(|request| {
        let talk = request.json().to_string();
        if !talk.contains("n is 1") {
            return code("n = 1\nprint('n is', n)");
        }
        code("# again\nprint('stuck', n)")
    })
    .unwrap();
    let desk = Desk::with(model);
    let agent = desk.agent().await;
    let live = agent.start(start("Go on for ever.")).await.unwrap();
    let id = live.id().clone();
    let run = drive(live).await;
    let ending = run.ending().unwrap();
    assert_eq!(ending.reason, ExitReason::Repetition, "{ending:?}");
    assert_eq!(ending.answer, None);
    assert!(ending.last_output.as_deref().unwrap().contains("stuck 1"));
    let events = desk.events(&id).await;
    let back: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::RolledBack {
                restored, manifest, ..
            } => Some((*restored, manifest.len())),
            _ => None,
        })
        .collect();
    assert_eq!(back, [(true, 1), (true, 1)], "the session went back, too");
    let told: Vec<_> = desk
        .model
        .requests()
        .iter()
        .map(|r| r.json().to_string())
        .collect();
    assert!(
        told.iter()
            .any(|talk| talk.contains("You did exactly this in step"))
    );
    assert!(
        told.iter()
            .any(|talk| talk.contains("taken back to before it"))
    );
}

/// Every part of the budget ends a run, with its last output, which is no answer.
#[tokio::test(flavor = "multi_thread")]
async fn budgets_end_a_run() {
    let numbered = || {
        let mut count = 0;
        ScriptedModel::react(move |_| {
            count += 1;
            code(&format!("print('result {count}')")).usage(1000, 10, 0)
        })
        .unwrap()
    };
    for (budget, part) in [
        (
            Budget {
                steps: 3,
                ..Budget::default()
            },
            BudgetPart::Steps,
        ),
        (
            Budget {
                tokens: Some(3000),
                ..Budget::default()
            },
            BudgetPart::Tokens,
        ),
        (
            Budget {
                calls: 2,
                ..Budget::default()
            },
            BudgetPart::Calls,
        ),
    ] {
        let desk = Desk::with(numbered());
        let run = desk
            .run(belljar_agent::Start {
                budget,
                ..start("Count.")
            })
            .await;
        let ending = run.ending().unwrap();
        assert_eq!(ending.reason, ExitReason::Budget { part });
        assert_eq!(ending.answer, None);
        let output = ending.last_output.as_deref().unwrap();
        assert!(output.starts_with("result"), "{ending:?}");
        if part == BudgetPart::Steps {
            assert!(desk.last_conversation().contains("This is your last step"));
        }
    }
}

/// The time of a run bounds its cells and its requests while they run.
#[tokio::test(flavor = "multi_thread")]
async fn time_is_up_while_something_runs() {
    let slow_cell = code("import time\nprint('begun', flush=True)\ntime.sleep(50)");
    let slow_model = answer("Late.").slow_first_byte(Duration::from_secs(50));
    for reply in [slow_cell, slow_model] {
        let desk = Desk::new([reply, answer("42")]);
        let mut task = start("Wait.");
        task.budget.seconds = Some(1);
        let live = desk.agent().await.start(task).await.unwrap();
        let started = Instant::now();
        let run = drive(live).await;
        let took = started.elapsed();
        let part = BudgetPart::Seconds;
        assert_eq!(run.ending().unwrap().reason, ExitReason::Budget { part });
        let spent = run.spent();
        assert!(spent.model_ms + spent.tool_ms < 10_000, "{spent:?}");
        assert!(took < Duration::from_secs(40), "{took:?}");
        assert_eq!(desk.model.requests().len(), 1);
    }
}

/// A request that the budget of tokens can't pay is not sent, and a reply gets no more than the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_fit_is_not_sent() {
    let desk = Desk::new([answer("42")]);
    let mut task = start("Six times seven?");
    task.budget.tokens = Some(100);
    let run = desk.run(task.clone()).await;
    let part = BudgetPart::Tokens;
    assert_eq!(run.ending().unwrap().reason, ExitReason::Budget { part });
    assert_eq!(desk.model.requests().len(), 0);
    assert_eq!(run.spent().tokens(), 0);

    let desk = Desk::new([code("print(6 * 7)"), answer("42")]);
    task.budget.tokens = Some(900);
    desk.run(task).await;
    let most = desk.model.requests()[0].json()["max_tokens"]
        .as_u64()
        .unwrap();
    assert!((16..1024).contains(&most), "{most}");
}

/// Replies that can't be understood get a repair request; four in a row end the run (AGT-2, AGT-6).
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_is_repaired_or_ends() {
    let desk = Desk::new([
        Scripted::empty(),
        Scripted::text("python\nprint(6*7)"),
        answer("42"),
    ]);
    let run = desk.run(start("Six times seven?")).await;
    assert_eq!(answer_of(&run), "42");
    assert!(
        run.steps()
            .iter()
            .any(|step| step.mended.contains(&Mending::FenceMissing) || !step.mended.is_empty())
    );
    let desk =
        Desk::with(ScriptedModel::react(|_| Scripted::text("I am thinking about it.")).unwrap());
    let run = desk.run(start("Six times seven?")).await;
    assert_eq!(run.ending().unwrap().reason, ExitReason::NotUnderstood);
}

/// A server that fails for good ends the run, typed; one that recovers does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_model_fails() {
    let desk = Desk::new([
        Scripted::status(500, "broken"),
        code("print(42)"),
        answer("42"),
    ]);
    let run = desk.run(start("Six times seven?")).await;
    assert_eq!(answer_of(&run), "42");
    let desk = Desk::new([
        Scripted::status(401, "no key"),
        Scripted::status(401, "no key"),
    ]);
    let run = desk.run(start("Six times seven?")).await;
    let reason = &run.ending().unwrap().reason;
    assert!(
        matches!(reason, ExitReason::ModelFailed { .. }),
        "{reason:?}"
    );
}

/// A run of 200 steps (500 with `BELLJAR_LONG`) in a window of 16k tokens: it never overflows, and the model sees
/// every variable and its latest actions. The time of a step stays flat.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_hundreds_of_steps_in_a_small_window() {
    let is_long = std::env::var_os("BELLJAR_LONG").is_some();
    let steps = if is_long { 500 } else { 200 };
    let mut count = 0;
    let model = ScriptedModel::react(move |request| {
        count += 1;
        let talk = request.json().to_string();
        assert!(
            talk.len() / 4 < 16_384,
            "request {count} has {} bytes",
            talk.len()
        );
        if count == steps {
            return answer("done");
        }
        code(&format!(
            "v{count} = {count}\nprint('step {count}', 'x' * 500)"
        ))
    })
    .unwrap();
    let desk = Desk::with(model);
    let mut wanted = start("Count as far as you can.");
    wanted.budget = Budget {
        steps: 1000,
        calls: 1000,
        ..Budget::default()
    };
    let agent = desk.agent().await;
    let live = agent.start(wanted).await.unwrap();
    let (mut times, mut last) = (Vec::new(), std::time::Instant::now());
    let run = live
        .drive(&mut |progress| {
            if let belljar_agent::Progress::Event(RunEvent::Replied { .. }, _) = progress {
                times.push(last.elapsed());
                last = std::time::Instant::now();
            }
        })
        .await
        .unwrap();
    assert_eq!(answer_of(&run), "done");
    assert_eq!(run.manifest().len(), steps - 1);
    let talk = desk.last_conversation();
    for number in [1, steps / 2, steps - 1] {
        assert!(
            talk.contains(&format!("v{number}")),
            "v{number} is forgotten"
        );
    }
    let median = |times: &[std::time::Duration]| {
        let mut times = times.to_vec();
        times.sort();
        times[times.len() / 2]
    };
    let (early, late) = (median(&times[20..80]), median(&times[steps - 60..]));
    assert!(late < early * 4, "a step took {early:?}, and then {late:?}");
}
