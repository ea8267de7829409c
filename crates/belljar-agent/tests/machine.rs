//! The state machine of a run alone: whatever the model says and the tools give.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use belljar_agent::{
    Approvals, Budget, COMPUTE, CallResult, Decision, Dialect, Effect, Finish, Message,
    ModelRequest, PLAN, Parent, Part, Policy, Raise, Reply, Run, RunEvent, Start, TaskFile, Timing,
    ToolCall, Usage, estimate_request_tokens,
};
use belljar_journal::BlobRef;
use belljar_protocol::Language;
use proptest::prelude::*;

const WINDOW: u32 = 4096;

fn start(dialect: Dialect, language: Language) -> Start {
    Start {
        task: "Find out what 6 times 7 is.".into(),
        files: Vec::new(),
        model: "llamacpp/none".into(),
        dialect,
        language,
        prompts: None,
        budget: Budget {
            steps: 25,
            ..Budget::default()
        },
        context_window: WINDOW,
        max_tokens: 512,
        temperature: None,
        review: false,
        tools: vec![PLAN.into()],
        packages: Vec::new(),
        versions: Vec::new(),
        granted: Vec::new(),
        approvals: Approvals::default(),
        branches: None,
        parent: None,
        environment: None,
        isolation: None,
        client: None,
    }
}

fn blob() -> BlobRef {
    serde_json::from_value(serde_json::json!({
        "hash": "0".repeat(64), "bytes": 0, "media_type": "application/json",
    }))
    .unwrap()
}

/// What a model may say, in any dialect.
fn reply() -> impl Strategy<Value = Reply> {
    let text = prop_oneof![
        4 => (0..6_u8).prop_map(|n| format!("```python\nprint({n})\n```")),
        1 => (0..3_u8).prop_map(|n| format!("FINAL: it is {n}{n}")),
        1 => (0..3_u8).prop_map(|n| format!("{{\"thought\": \"t\", \"action\": \"execute_code\", \"code\": \"print({n})\"}}")),
        1 => Just("{\"action\": \"provide_answer\", \"final_answer\": \"42\"}".to_owned()),
        1 => Just("<execution-code>\nprint(1)\n</execution-code>".to_owned()),
        1 => Just("I think about it.".to_owned()),
        1 => ".{0,40}",
        1 => Just("word ".repeat(4000)),
    ];
    let calls = prop::collection::vec(
        (
            prop_oneof![Just("python"), Just("answer"), Just(PLAN), Just("nothing")],
            0..4_u8,
        ),
        0..3,
    );
    (text, calls, any::<bool>()).prop_map(|(text, calls, cut)| Reply {
        text,
        tool_calls: calls
            .into_iter()
            .enumerate()
            .map(|(at, (name, n))| ToolCall {
                id: format!("call-{at}"),
                name: name.into(),
                arguments: match name {
                    "python" => format!("{{\"code\": \"print({n})\"}}"),
                    "answer" => format!("{{\"text\": \"it is {n}{n}\"}}"),
                    _ => "{}".into(),
                },
            })
            .collect(),
        finish: if cut { Finish::Length } else { Finish::Stop },
        usage: Usage {
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        },
        ..Reply::default()
    })
}

fn result() -> impl Strategy<Value = CallResult> {
    (
        prop_oneof![4 => ".{0,60}", 1 => Just("long output\n".repeat(2000))],
        any::<bool>(),
    )
        .prop_map(|(text, failed)| CallResult {
            text,
            failed,
            took_ms: 3,
            ..CallResult::default()
        })
}

/// Every call that the conversation shows has exactly one result, after it and before the next turn.
fn check_calls(request: &ModelRequest) {
    let mut open: Vec<&str> = Vec::new();
    for message in &request.messages {
        match message {
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty(), "calls without a result: {open:?}");
                open = tool_calls.iter().map(|call| call.id.as_str()).collect();
            }
            Message::ToolResult { call_id, .. } => {
                let at = open.iter().position(|id| id == call_id);
                open.remove(at.expect("a result without a call"));
            }
            Message::User { parts } => {
                assert!(open.is_empty(), "calls without a result: {open:?}");
                assert!(parts.iter().all(|part| matches!(part, Part::Text { .. })));
            }
            Message::System { .. } => {}
        }
    }
    assert!(open.is_empty(), "calls without a result: {open:?}");
}

/// Drives a run with these replies and results to its end; all its events.
fn drive(start: &Start, replies: &[Reply], results: &[CallResult], lose: bool) -> Vec<RunEvent> {
    let mut events = vec![RunEvent::Started(Box::new(start.clone()))];
    let mut run = Run::fold(&events).unwrap();
    let (mut replies, mut results) = (replies.iter().cycle(), results.iter().cycle());
    for _ in 0..400 {
        let effect = run.effect();
        assert_eq!(effect, run.effect(), "the same every time");
        let new = match effect {
            Effect::AskModel { step, request } => {
                check_calls(&request);
                let size = estimate_request_tokens(&request);
                assert!(
                    size <= u64::from(WINDOW - 512),
                    "step {step} asks {size} tokens"
                );
                vec![
                    RunEvent::Asked { step, body: blob() },
                    RunEvent::Replied {
                        step,
                        reply: Box::new(replies.next().unwrap().clone()),
                        took_ms: 5,
                        cost: None,
                    },
                ]
            }
            Effect::Perform { step, calls } => {
                let mut new = Vec::new();
                for (call, _) in calls {
                    new.push(RunEvent::CallStarted { step, call });
                    if !lose {
                        let result = Box::new(results.next().unwrap().clone());
                        new.push(RunEvent::CallEnded { step, call, result });
                    }
                }
                new
            }
            Effect::NoteLost { step, call } => vec![RunEvent::CallLost {
                step,
                call,
                differs: false,
            }],
            Effect::Ask { approvals } => approvals
                .into_iter()
                .map(|approval| RunEvent::ApprovalAsked(Box::new(approval)))
                .collect(),
            Effect::Await => {
                let asked = &run.undecided()[0];
                // Whatever the person says: it continues.
                let decision = match events.len() % 4 {
                    0 => Decision::Accept { rest_of_run: false },
                    1 => Decision::Edit {
                        code: "print('mine')".into(),
                    },
                    2 => Decision::Feedback {
                        text: "print more".into(),
                    },
                    _ => Decision::Reject,
                };
                vec![RunEvent::ApprovalDecided {
                    approval: asked.id.clone(),
                    hash: asked.hash.clone(),
                    decision,
                }]
            }
            Effect::RunAgain { .. } => unreachable!("no code calls tools"),
            Effect::RollBack { step, .. } => vec![RunEvent::RolledBack {
                step,
                restored: true,
                manifest: Vec::new(),
                session: None,
            }],
            Effect::Finish(ending) => vec![RunEvent::Ended(ending)],
            Effect::Nothing => return events,
        };
        for event in new {
            run.apply(&event).unwrap();
            events.push(event);
        }
    }
    panic!("it does not end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// A run ends within its budget, its conversation fits the window, and it is what its events say.
    #[test]
    fn a_run_ends_and_is_its_events(
        replies in prop::collection::vec(reply(), 1..12),
        results in prop::collection::vec(result(), 1..8),
        dialect in prop_oneof![
            Just(Dialect::NativeTools), Just(Dialect::JsonAction), Just(Dialect::Tags), Just(Dialect::FencedCode)
        ],
        chinese in any::<bool>(),
        lose in any::<bool>(),
        policy in prop_oneof![Just(Policy::Never), Just(Policy::Risky), Just(Policy::Always)],
    ) {
        let language = if chinese { Language::Chinese } else { Language::English };
        let mut start = start(dialect, language);
        start.approvals.policy = policy;
        let events = drive(&start, &replies, &results, lose);
        let run = Run::fold(&events).unwrap();
        prop_assert!(run.ending().is_some());
        prop_assert!(run.spent().steps <= 25);
        // Through the journal's text and back, and in two parts.
        let text: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let again: Vec<RunEvent> = text.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(&again, &events);
        let middle = events.len() / 2;
        let half = Run::fold(&events[..middle]).unwrap();
        let mut half: Run = serde_json::from_str(&serde_json::to_string(&half).unwrap()).unwrap();
        for event in &events[middle..] {
            half.apply(event).unwrap();
        }
        prop_assert_eq!(half, run);
    }
}

/// Events that can't follow each other are refused, not guessed at.
#[test]
fn a_journal_that_does_not_fit_is_refused() {
    let begin = RunEvent::Started(Box::new(start(Dialect::FencedCode, Language::English)));
    assert!(Run::fold([&RunEvent::Stopped]).is_err());
    assert!(Run::fold([&begin, &begin]).is_err());
    let reply = RunEvent::Replied {
        step: 1,
        reply: Box::default(),
        took_ms: 0,
        cost: None,
    };
    assert!(Run::fold([&begin, &reply]).is_err());
    let ended = RunEvent::CallLost {
        step: 1,
        call: 0,
        differs: false,
    };
    assert!(Run::fold([&begin, &ended]).is_err());
}

fn calling(tool: &str, code: &str) -> Reply {
    Reply {
        tool_calls: vec![ToolCall {
            id: code.into(),
            name: tool.into(),
            arguments: serde_json::json!({ "code": code }).to_string(),
        }],
        ..Reply::default()
    }
}

fn gave(text: &str, failed: bool) -> CallResult {
    CallResult {
        text: text.into(),
        failed,
        took_ms: 3,
        ..CallResult::default()
    }
}

/// EXP-5: past an error rate the run continues without the tool, and the model gets the reason.
#[test]
fn a_tool_for_expressions_that_mostly_fails_is_taken_away() {
    for dialect in [Dialect::NativeTools, Dialect::JsonAction] {
        let start = Start {
            tools: vec![COMPUTE.into(), PLAN.into()],
            ..start(dialect, Language::English)
        };
        let replies: Vec<Reply> = (0..8)
            .map(|n| match dialect {
                Dialect::NativeTools => calling(COMPUTE, &format!("f({n})")),
                _ => Reply {
                    text: format!(
                        r#"{{"action": "{COMPUTE}", "arguments": {{"code": "f({n})"}}}}"#
                    ),
                    ..Reply::default()
                },
            })
            .collect();
        let errors: Vec<CallResult> = (0..8)
            .map(|n| gave(&format!("PythonError: {n}"), true))
            .collect();
        let events = drive(&start, &replies, &errors, false);
        let ends: Vec<usize> = (0..events.len())
            .filter(|at| matches!(events[*at], RunEvent::CallEnded { .. }))
            .collect();
        assert_eq!(ends.len(), 4, "no expression after the fourth error");
        let asked = |events: &[RunEvent]| match Run::fold(events).unwrap().effect() {
            Effect::AskModel { request, .. } => serde_json::to_value(*request).unwrap(),
            other => panic!("{other:?}"),
        };
        let offered = |request: &serde_json::Value| {
            let system = request["messages"][0].to_string();
            system.contains(COMPUTE)
                || request["tools"].to_string().contains(COMPUTE)
                || request["response_schema"].to_string().contains(COMPUTE)
        };
        let before = asked(&events[..=ends[2]]);
        assert!(offered(&before), "{before:#}");
        let after = asked(&events[..=ends[3]]);
        assert!(!offered(&after), "{after:#}");
        let told = format!("`{COMPUTE}` is taken away: 4 of 4 expressions were errors.");
        assert!(after["messages"].to_string().contains(&told), "{after:#}");
        // One that works half the time stays.
        let halves: Vec<CallResult> = (0..8).map(|n| gave(&format!("{n}"), n % 2 == 1)).collect();
        let run = Run::fold(&drive(&start, &replies, &halves, false)).unwrap();
        assert!(run.computations().calls >= 8 && !run.computations().given_up());
    }
}

/// Where the time went counts steps that were taken back, and finds what was done twice.
#[test]
fn timing_tells_slow_steps_and_repeated_calls() {
    let start = start(Dialect::NativeTools, Language::English);
    let replies = [calling("python", "print(1)"), calling("python", "print(2)")];
    let events = drive(
        &start,
        &replies,
        &[gave("1\n", false), gave("2\n", true)],
        false,
    );
    let timing = Timing::from_events(&events).unwrap();
    let spent = Run::fold(&events).unwrap().spent();
    assert!(spent.repeats > 0, "it repeated itself");
    assert_eq!(timing.spent, spent);
    assert_eq!(timing.steps.len(), usize::try_from(spent.steps).unwrap());
    let sum = |part: fn(&belljar_agent::StepTiming) -> u64| timing.steps.iter().map(part).sum();
    let (model, tools): (u64, u64) = (sum(|step| step.model_ms), sum(|step| step.tool_ms));
    assert_eq!((model, tools), (spent.model_ms, spent.tool_ms));
    let first = &timing.repeated[0];
    assert_eq!(
        (first.tool.as_str(), &first.steps[..2]),
        ("python", &[1, 3][..])
    );
    assert_eq!(first.wasted_ms, 3 * (first.steps.len() as u64 - 1));
    assert_eq!(timing.steps[1].failed, 1);
    assert_eq!(timing.slowest(2).len(), 2);
}

/// A run of one cell, up to its reply.
fn at_its_first_cell(start: Start) -> Run {
    let mut reply = calling("python", "print(1)");
    reply.usage.input_tokens = 100;
    Run::fold(&[
        RunEvent::Started(Box::new(start)),
        RunEvent::Asked {
            step: 1,
            body: blob(),
        },
        RunEvent::Replied {
            step: 1,
            reply: Box::new(reply),
            took_ms: 1,
            cost: None,
        },
    ])
    .unwrap()
}

/// What a person adds to the budget holds from then on; nothing is ever taken away.
#[test]
fn a_budget_is_raised() {
    let mut start = start(Dialect::NativeTools, Language::English);
    start.budget.steps = 1;
    start.budget.tokens = Some(1);
    let mut run = at_its_first_cell(start);
    let started = RunEvent::CallStarted { step: 1, call: 0 };
    let result = Box::new(gave("1\n", false));
    let ended = RunEvent::CallEnded {
        step: 1,
        call: 0,
        result,
    };
    for event in [&started, &ended] {
        run.apply(event).unwrap();
    }
    let raise = |run: &mut Run, steps, tokens| {
        let raise = Raise {
            steps,
            tokens,
            seconds: Some(1),
            ..Raise::default()
        };
        run.apply(&RunEvent::BudgetRaised { raise }).unwrap();
    };
    assert!(matches!(run.effect(), Effect::Finish(_)));
    raise(&mut run, Some(5), None);
    assert!(matches!(run.effect(), Effect::Finish(_)), "of the tokens");
    raise(&mut run, None, Some(1_000_000));
    assert!(matches!(run.effect(), Effect::AskModel { .. }));
    raise(&mut run, Some(2), Some(2));
    let budget = run.budget();
    assert_eq!((budget.steps, budget.tokens), (5, Some(1_000_000)));
    // What was not limited is not limited now.
    assert_eq!(budget.seconds, None);
    assert_eq!(run.start().unwrap().budget.steps, 1);
}

/// A policy holds for what is not begun yet, and decides nothing for the person.
#[test]
fn a_policy_is_set() {
    let mut run = at_its_first_cell(start(Dialect::NativeTools, Language::English));
    let set = |run: &mut Run, policy| run.apply(&RunEvent::PolicySet { policy }).unwrap();
    assert!(matches!(run.effect(), Effect::Perform { .. }));
    set(&mut run, Policy::Risky);
    assert!(matches!(run.effect(), Effect::Perform { .. }));
    set(&mut run, Policy::Always);
    let Effect::Ask { approvals } = run.effect() else {
        panic!("{:?}", run.effect());
    };
    let asked = RunEvent::ApprovalAsked(Box::new(approvals[0].clone()));
    run.apply(&asked).unwrap();
    set(&mut run, Policy::Never);
    assert!(matches!(run.effect(), Effect::Await));
    assert_eq!(run.undecided().len(), 1);
}

/// A run that continues another one knows its names before it has a session, and its summary.
#[test]
fn a_run_goes_on_from_another() {
    let mut start = start(Dialect::NativeTools, Language::English);
    let parent = |manifest: serde_json::Value| Parent {
        run: "one".into(),
        step: 3,
        told: "You go on from an earlier run.".into(),
        manifest: serde_json::from_value(manifest).unwrap(),
        kept_cells: 0,
        session: None,
        code: None,
        new_files: Vec::new(),
    };
    let name = serde_json::json!([{"name": "x", "type": "int", "type_name": "int", "cell": 1}]);
    start.parent = Some(Box::new(parent(name)));
    let mut run = Run::fold(&[RunEvent::Started(Box::new(start))]).unwrap();
    let Effect::AskModel { request, .. } = run.effect() else {
        panic!("{:?}", run.effect());
    };
    let text = serde_json::to_string(&request.messages).unwrap();
    assert!(text.contains("You go on from an earlier run."), "{text}");
    for event in [
        RunEvent::Asked {
            step: 1,
            body: blob(),
        },
        RunEvent::Replied {
            step: 1,
            reply: Box::new(calling("python", "print(x)")),
            took_ms: 1,
            cost: None,
        },
    ] {
        run.apply(&event).unwrap();
    }
    assert!(
        matches!(run.effect(), Effect::Perform { .. }),
        "x is defined"
    );
}

/// A directory can have thousands.
#[test]
fn a_task_names_some_of_many_files() {
    let mut start = start(Dialect::FencedCode, Language::English);
    let file = |number| TaskFile {
        name: format!("data/{number:04}.csv"),
        bytes: 8,
        head: "day,sum".into(),
        contents: blob(),
    };
    start.files = (0..5000).map(file).collect();
    let run = Run::fold(&[RunEvent::Started(Box::new(start))]).unwrap();
    let Effect::AskModel { request, .. } = run.effect() else {
        panic!("{:?}", run.effect());
    };
    let request = serde_json::to_string(&request).unwrap();
    assert_eq!(request.matches(".csv").count(), 100);
    assert_eq!(request.matches("day,sum").count(), 20);
    assert!(request.contains("(+4900)"), "{request}");
}
