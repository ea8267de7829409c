//! Best of several: code tries alternatives in copies of its session, and a check says which is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar_agent::{
    Approvals, BRANCH, Branch, Branches, Given, HostTool, Invocation, Policy, Progress, Run,
    RunEvent, Start, ToolAnswer, ToolEffects,
};
use belljar_journal::RunId;
use belljar_sandbox::{Checkpoints, Limits, SessionOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::bridge::stub;
use crate::support::{Desk, answer, answer_of, code, drive, start};

fn wanted(most: u32, check: &str) -> Start {
    Start {
        branches: Some(Branches::new(most, check).unwrap()),
        ..start("Try it.")
    }
}

/// What came of the alternatives of a run's calls, in order.
async fn branched(desk: &Desk, id: &RunId) -> Vec<Vec<Branch>> {
    let events = desk.events(id).await.into_iter();
    let branched = events.filter_map(|event| match event {
        RunEvent::Branched { branches, .. } => Some(branches),
        _ => None,
    });
    branched.collect()
}

fn shown(branches: &[Branch]) -> Vec<(&str, bool, &str)> {
    let shown = branches.iter().map(|branch| {
        let why = branch.why.as_deref().unwrap_or_default();
        (branch.alternative.as_str(), branch.accepted, why)
    });
    shown.collect()
}

/// Runs code, and gives what the model saw of it.
async fn seen(start: Start, cells: &[&str]) -> (Desk, Run, Vec<Vec<Branch>>) {
    let script = cells.iter().map(|cell| code(cell));
    let desk = Desk::new(script.chain([answer("Done as said: 1 file.")]));
    let live = desk.agent().await.start(start).await.unwrap();
    let id = live.id().clone();
    let run = Box::pin(drive(live)).await;
    let branches = branched(&desk, &id).await;
    (desk, run, branches)
}

/// The accepted alternative is kept with all that the cell made of it, and nothing of the others.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_that_is_accepted_is_kept() {
    let (desk, run, branches) = seen(
        wanted(4, "len(rows) == 3"),
        &[
            "base = 'a;b;c'\nseparator = tools.branch([',', ';', 'b', ';'])\n\
             rows = base.split(separator)\n\
             open(f'with-{ord(separator)}.txt', 'w').write('x')\nprint('rows', rows)",
            "import os\nprint(sorted(os.listdir()), separator, rows)",
        ],
    )
    .await;
    let seen = desk.last_conversation();
    assert!(seen.contains("rows ['a', 'b', 'c']"), "{seen}");
    // A file of a branch that lost would be here.
    assert!(seen.contains("['with-59.txt'] ; ['a', 'b', 'c']"), "{seen}");
    assert_eq!(branches.len(), 1);
    assert_eq!(
        shown(&branches[0]),
        [("\",\"", false, "the check is false"), ("\";\"", true, "")]
    );
    let artifacts = &run.ending().unwrap().artifacts;
    assert_eq!(artifacts.len(), 1, "{artifacts:?}");
    assert_eq!(artifacts[0].path, "with-59.txt");
    assert_eq!(run.spent().cell_calls, 1);
    assert!(!seen.contains("check is false"), "{seen}");
    assert!(seen.contains("\n- branch(alternatives: list"), "{seen}");
    assert!(seen.contains("`len(rows) == 3`"), "{seen}");
}

/// The order of the alternatives decides, not which is faster.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_decides() {
    let cell = "import time\nseconds = tools.branch([0.6, 0.1, 0.0])\ntime.sleep(seconds)\nprint('took', seconds)";
    let (slow, fast) = (("0.6", true, ""), ("0.1", true, ""));
    let refused = ("0.6", false, "the check is false");
    for (check, took, tried) in [
        ("True", "took 0.6\n", &[slow][..]),
        ("seconds < 0.5", "took 0.1\n", &[refused, fast]),
    ] {
        let (desk, _, branches) = seen(wanted(4, check), &[cell]).await;
        let seen = desk.last_conversation();
        assert!(seen.contains(took), "{seen}");
        assert_eq!(shown(&branches[0]), tried);
    }
}

/// Whatever a branch does, the session continues, and the code gets the result of each.
#[tokio::test(flavor = "multi_thread")]
async fn none_is_accepted_and_the_code_is_told() {
    let desk = Desk::new([
        code(
            "import ctypes, os, sys\nkept = 41\ntry:\n    way = tools.branch(['crash', 'abort', 'loop', 'exit', 'raise', 'check', 'tool', 'false'])\n\
             except tools.ToolError as error:\n    print('told:', error)\n    way = None\n\
             if way == 'crash': ctypes.string_at(0)\n\
             if way == 'abort': os.abort()\n\
             while way == 'loop': pass\n\
             if way == 'exit': sys.exit(3)\n\
             if way == 'raise': {}['no\\x1b[31m key']\n\
             if way == 'tool': tools.branch([1, 2])\n\
             if way == 'check': del kept",
        ),
        code("print('kept is', kept, way)"),
        answer("It is 41."),
    ]);
    let limits = Limits {
        wall_time: Duration::from_secs(2),
        grace: Duration::from_millis(500),
        ..Limits::default()
    };
    let agent = desk.agent().await.session_options(SessionOptions {
        limits,
        checkpoints: Checkpoints::Every,
        ..SessionOptions::default()
    });
    let live = agent.start(wanted(8, "kept == 42")).await.unwrap();
    let id = live.id().clone();
    let run = drive(live).await;
    assert_eq!(answer_of(&run), "It is 41.");
    let seen = desk.last_conversation();
    let told = "told: no alternative was accepted\n\
        - \"crash\": SIGSEGV ended it\n\
        - \"abort\": SIGABRT ended it\n\
        - \"loop\": it was stopped after 2000 ms\n\
        - \"exit\": it exited with 3\n\
        - \"raise\": KeyError: 'no\\x1b[31m key'\n\
        - \"check\": the check failed: NameError: name 'kept' is not defined\n\
        - \"tool\": tools.ToolError: in a branch no tools can be called, nor branches tried: call them before `tools.branch`, or in the next cell\n\
        - \"false\": the check is false\n";
    assert!(seen.contains(told), "{seen}");
    assert!(seen.contains("kept is 41 None"), "{seen}");
    let branches = branched(&desk, &id).await;
    assert_eq!(branches[0].len(), 8);
    assert!(branches[0].iter().all(|branch| !branch.accepted));
}

/// What can't be tried is an error before anything is.
#[tokio::test(flavor = "multi_thread")]
async fn what_cant_be_tried_is_told() {
    let (desk, _, branches) = seen(
        wanted(2, "True"),
        &[
            "for many in ([], [1, 2, 3]):\n    try: tools.branch(many)\n    except tools.ToolError as error: print('told:', error)",
            "try: await tools.branch([1, 2])\nexcept tools.ToolError as error: print('awaited:', error)",
            "import threading\ndef other():\n    try: tools.branch([1, 2])\n    except tools.ToolError as error: print('thread:', error)\n\
             thread = threading.Thread(target=other)\nthread.start()\nthread.join()",
        ],
    )
    .await;
    let seen = desk.last_conversation();
    for part in [
        "told: from 1 to 2 alternatives can be tried, not 0\n",
        "told: from 1 to 2 alternatives can be tried, not 3\n",
        "awaited: nothing was tried: the session could not be forked",
        "thread: nothing was tried: the session could not be forked",
        "Call `tools.branch` without `await` and threads",
    ] {
        assert!(seen.contains(part), "no {part:?} in {seen}");
    }
    assert_eq!(branches, Vec::<Vec<Branch>>::new());
}

/// Checks that would be taken for true by a careless host.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_true_check_accepts() {
    for check in [
        "__import__('sys').exit(0)",
        "print('True')",
        "__import__('os')._exit(0)",
        "display(True)",
        "tools.branch([1])",
    ] {
        let cell = "AssertionError = SystemExit\ntry: tools.branch([1])\nexcept tools.ToolError as error: print('told:', error)";
        let (desk, _, branches) = seen(wanted(2, check), &[cell]).await;
        assert!(
            desk.last_conversation().contains("told: no alternative"),
            "{check}"
        );
        assert!(!branches[0][0].accepted, "{check}");
    }
}

/// A branch calls no tools, so that none is called twice; before it they are called as always.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_calls_no_tools() {
    let world = crate::bridge::World::default();
    let desk = Desk::new([
        code(
            "first = tools.act(n=4)\nway = tools.branch(['act', 'keep'])\n\
             if way == 'act': tools.act(n=5)\nprint(first, way)",
        ),
        answer("8 keep"),
    ]);
    let agent = desk
        .agent()
        .await
        .tools(vec![world.doubling("act", ToolEffects::EachCall)]);
    let asks = Start {
        approvals: Approvals {
            // Of a call of `branch` nobody is asked all the same.
            tools: [(BRANCH.to_owned(), Policy::Always)].into(),
            ..Approvals::default()
        },
        ..wanted(2, "way")
    };
    let run = drive(agent.start(asks).await.unwrap()).await;
    assert_eq!(answer_of(&run), "8 keep");
    assert_eq!(world.done().len(), 1);
}

/// Its name is taken in a run with branches, and free in others.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_named_branch_is_refused() {
    let desk = Desk::new([code("print(tools.branch())"), answer("7")]);
    let tool = HostTool::new(
        stub(BRANCH, &json!({}), None),
        ToolEffects::None,
        async |_: Invocation| Ok(Given::Value(json!(7))),
    );
    let agent = desk.agent().await.tools(vec![tool]);
    let refused = agent.start(wanted(2, "True")).await.unwrap_err();
    assert!(refused.to_string().contains("of the name `branch`"));
    let run = drive(agent.start(start("What?")).await.unwrap()).await;
    assert_eq!(answer_of(&run), "7");
    assert!(!desk.last_conversation().contains("alternatives"));
}

async fn dies_while(live: belljar_agent::LiveRun, is_moment: fn(&RunEvent) -> bool, after: u64) {
    let (sender, mut dies) = tokio::sync::mpsc::unbounded_channel();
    let driven = tokio::spawn(async move {
        live.drive(&mut |progress| {
            if let Progress::Event(event, _) = progress
                && is_moment(event)
            {
                let _ = sender.send(());
            }
        })
        .await
    });
    dies.recv().await.unwrap();
    tokio::time::sleep(Duration::from_millis(after)).await;
    driven.abort();
    let _ = driven.await;
}

/// A host that dies in the middle of branches: they are tried again, what was decided stays so.
#[tokio::test(flavor = "multi_thread")]
async fn branches_survive_a_restart() {
    let called = |event: &RunEvent| matches!(event, RunEvent::ToolCalled { .. });
    let answered = |event: &RunEvent| matches!(event, RunEvent::ToolAnswered { .. });
    for (moment, after) in [
        (called as fn(&RunEvent) -> bool, 0),
        (called, 100),
        (answered, 0),
    ] {
        let desk = Desk::new([
            code(
                "import time\nn = tools.branch([0.1, 2.5, 3.5])\nopen('n.txt', 'a').write(f'{n} ')\n\
                 time.sleep(0.4)\nprint('n is', n, open('n.txt').read())",
            ),
            answer("n is 2.5"),
        ]);
        let agent = desk.agent().await;
        let live = agent.start(wanted(3, "n > 2")).await.unwrap();
        let id = live.id().clone();
        dies_while(live, moment, after).await;
        let run = drive(agent.resume(&id).await.unwrap()).await;
        assert_eq!(answer_of(&run), "n is 2.5");
        let seen = desk.last_conversation();
        assert!(seen.contains("n is 2.5 2.5 \n"), "{seen}");
        assert_eq!(run.spent().cell_calls, 1);
        let branches = branched(&desk, &id).await;
        assert_eq!(branches.len(), 1, "in one piece with the answer");
        assert_eq!(
            shown(&branches[0]),
            [("0.1", false, "the check is false"), ("2.5", true, "")]
        );
    }
}

/// Processes that are below this one.
fn processes() -> usize {
    let mut below = vec![std::process::id()];
    let mut seen = 0;
    while let Some(process) = below.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            let children = children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap());
            let before = below.len();
            below.extend(children);
            seen += below.len() - before;
        }
    }
    seen
}

/// Forks are gone when the call has its answer, also those of an interrupted call, and there are never
/// more than a few of them.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_branches_is_left() {
    let desk = Desk::new([
        code("import time\nprint('begun')"),
        code("got = tools.branch([1, 2, 3, 4, 5, 6, 7, 11])\ntime.sleep(0.3)\nprint('got', got)"),
        code("wait = tools.branch([9, 9])\ntime.sleep(wait)"),
        answer("It got 11."),
        answer("It got 11."),
        answer("It got 11."),
        answer("It got 11."),
    ]);
    // Without copies of the session, so that what is left is what was left.
    let agent = desk.agent().await.session_options(SessionOptions {
        checkpoints: Checkpoints::Off,
        ..SessionOptions::default()
    });
    let live = agent.start(wanted(8, "got == 11")).await.unwrap();
    let control = live.control();
    let most = Arc::new(AtomicUsize::new(0));
    let sampled = Arc::downgrade(&most);
    let thread = std::thread::spawn(move || {
        while let Some(most) = sampled.upgrade() {
            most.fetch_max(processes(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let mut counts = Vec::new();
    let run = live
        .drive(&mut |progress| match progress {
            Progress::Event(RunEvent::CallEnded { .. }, _) => {
                let during = most.swap(0, Ordering::Relaxed);
                // What was dropped is ended by others.
                std::thread::sleep(Duration::from_millis(300));
                let mut left = processes();
                let first = counts.first().map_or(left, |(_, first)| *first);
                let patience = Instant::now() + Duration::from_secs(10);
                while left > first && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(20));
                    left = processes();
                }
                counts.push((during, left));
            }
            Progress::Event(RunEvent::ToolCalled { step: 3, .. }, _) => {
                let control = control.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                    control.interrupt();
                });
            }
            _ => {}
        })
        .await
        .unwrap();
    drop(most);
    thread.join().unwrap();
    assert_eq!(answer_of(&run), "It got 11.");
    let seen = desk.last_conversation();
    assert!(
        seen.contains("got 11") && seen.contains("KeyboardInterrupt"),
        "{seen}"
    );
    let [(_, before), (tried, after), (interrupted, at_last)] = counts[..] else {
        panic!("{counts:?}");
    };
    // One that is being made, and one that is being ended, may be seen beside the two.
    let some = before + 1..=before + 4;
    assert!(
        some.contains(&tried) && some.contains(&interrupted),
        "{counts:?}"
    );
    assert!(after <= before && at_last <= before, "{counts:?}");
}

/// Any value arrives as it was sent, in the branch and in the session.
#[tokio::test(flavor = "multi_thread")]
async fn alternatives_arrive_unchanged() {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let any_value = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    });
    let mut runner = TestRunner::new(Config::default());
    let mut draw = || any_value.new_tree(&mut runner).unwrap().current();
    let mut values: Vec<Value> = (0..6).map(|_| draw()).collect();
    // A list of values is a value.
    values.extend((0..4).map(|_| (0..100).map(|_| draw()).collect()));
    values.extend([
        Value::Null,
        json!("large ".repeat(10_000)),
        json!([1.0, 1, -0.0, "1", true, 5e-324, {"b": 1, "a": [2]}]),
    ]);
    let cells = (0..values.len()).map(|at| {
        code(&format!(
            "sent = json.load(open('values.json'))[{at}]\n\
             got = tools.branch(['refused', sent])\nprint('value {at} is', same())"
        ))
    });
    let define = code(
        "import json\ngot = sent = None\ndef same(): return [type(got), json.dumps(got)] == [type(sent), json.dumps(sent)]",
    );
    let desk = Desk::new([define].into_iter().chain(cells).chain([answer("all")]));
    let agent = desk.agent().await;
    let text = serde_json::to_vec(&values).unwrap();
    let live = agent
        .start(Start {
            files: vec![agent.file("values.json", text).await.unwrap()],
            ..wanted(2, "same()")
        })
        .await
        .unwrap();
    let id = live.id().clone();
    drive(live).await;
    let events = desk.events(&id).await;
    let printed: String = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::CallEnded { result, .. } => Some(result.text.as_str()),
            _ => None,
        })
        .collect();
    let answers: Vec<&ToolAnswer> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::ToolAnswered { answer, .. } => Some(answer),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), values.len());
    for (at, (answer, value)) in answers.into_iter().zip(&values).enumerate() {
        assert!(
            printed.contains(&format!("value {at} is True")),
            "{value}: {printed}"
        );
        match answer {
            ToolAnswer::Value { value: answered } => assert_eq!(answered, value),
            ToolAnswer::Large { json } => {
                assert_eq!(json.bytes, serde_json::to_vec(value).unwrap().len() as u64);
            }
            other => panic!("{other:?} for {value}"),
        }
    }
}

/// One decision a cell: what comes after it is in its branches.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_in_the_cell_is_refused() {
    let (desk, _, branches) = seen(
        wanted(2, "True"),
        &["one = tools.branch([1, 2])\ntwo = tools.branch([3, 4])"],
    )
    .await;
    let seen = desk.last_conversation();
    assert!(
        seen.contains("- 2: tools.ToolError: in a branch no tools"),
        "{seen}"
    );
    assert_eq!(branches.len(), 1);
}

/// The tool is there for runs with branches alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_branches_knows_nothing_of_them() {
    let desk = Desk::new([
        code("print(tools.branch([1]))"),
        code("print(1)"),
        answer("1"),
    ]);
    drive(desk.agent().await.start(start("One?")).await.unwrap()).await;
    let seen = desk.last_conversation();
    assert!(seen.contains("no `tools.branch`"), "{seen}");
}
