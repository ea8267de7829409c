//! L: calls of tools.

use belljar_sandbox::protocol::{CallDenial, Cause, Event, Fate, ToolStub};
use belljar_sandbox::{Cell, Error, Limits, Session, SessionOptions};
use serde_json::json;

use crate::d_channel::{all_break, broken, forging};
use crate::harness::{Case, Severity};
use crate::support::{
    Stopwatch, forget_highest_resident, highest_resident, seconds, without_checkpoints,
};

/// The driver's own way to call, past the stubs: `make(NAME, JSON)` returns what the host says.
const MAKE: &str = r"
held = [cell.cell_contents for cell in tools.count.__closure__]
calls = [value for value in held if type(value).__name__ == 'Session'][0].calls
def make(name, data):
    return calls.make(name, data, lambda answer: answer)
";

fn granted(limits: Limits) -> SessionOptions {
    SessionOptions {
        tools: vec![ToolStub {
            name: "count".into(),
            description: String::new(),
            parameters: json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
                "additionalProperties": false,
            }),
            result: None,
        }],
        ..without_checkpoints(limits)
    }
}

fn calling(code: &str) -> Cell {
    Cell {
        answers: true,
        ..Cell::from(code)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l1a_calls_that_are_not_granted() {
    let case = Case::begin(
        "L1a",
        Severity::Escape,
        "calls past the stubs: tools that another session has, names that are none, arguments that don't fit, that are no JSON, that are 100,000 deep, that are too long",
        "denied by the host's own list and its own look at the arguments, and told; the session lives on",
    )
    .await;
    let session = case.session_of(granted(Limits::default())).await;
    let code = format!(
        r#"{MAKE}
for name, data in [
    ("shell", b"{{}}"), ("", b"{{}}"), ("count\0", b'{{"n":1}}'), ("Count", b'{{"n":1}}'), ("x" * 100_000, b"{{}}"),
    ("count", b"{{}}"), ("count", b'{{"n":"1"}}'), ("count", b'{{"n":1,"m":1}}'), ("count", b"[]"), ("count", b"1"),
    ("count", b""), ("count", b"\xff"), ("count", b'{{"n":1e400}}'), ("count", b'{{"n":' + b"[" * 100_000),
    ("count", b'{{"n":1}}' + b" " * 300_000),
]:
    print(list(make(name, data)))
print(make("count", b'{{"n":1}}')["value"])
"#
    );
    let mut run = session.run(calling(&code));
    let (mut denials, mut calls) = (Vec::new(), 0);
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::CallDenied { why, tool, .. } => {
                assert!(tool.len() <= 100 && !tool.contains(char::is_control));
                denials.push(why == CallDenial::NotGranted);
            }
            Event::Called { call, .. } => {
                calls += 1;
                session.answer(call, Ok(json!(7).into())).await.unwrap();
            }
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    let denied = "['type', 'number', 'denied']\n".repeat(15);
    assert_eq!(outcome.stdout.text, format!("{denied}7\n"), "{outcome:#?}");
    assert_eq!(denials, [vec![true; 5], vec![false; 10]].concat());
    assert_eq!(calls, 1);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l1b_forged_calls() {
    let case = Case::begin(
        "L1b",
        Severity::Integrity,
        "forged calls: without a number, with one twice, with one past the limit, of another cell, with another nonce; cancellations of calls that are none",
        "a broken channel; what was never called is not cancelled",
    )
    .await;
    let call = |fields: &str| {
        format!(
            "frame({{'type': 'called', 'cell': STATE.cell, 'nonce': STATE.nonce, 'number': 1, 'tool': 'count', 'blocks': True, {fields}}}, b'{{}}')"
        )
    };
    let codes = [
        call("'number': 0"),
        format!("{}; {}", call(""), call("")),
        call("'number': 10_001"),
        call("'cell': STATE.cell + 1"),
        call("'nonce': 'x'"),
        call("'number': -1"),
    ]
    .map(|code| format!("{code}\ntime.sleep(5)"));
    let details = all_break(&case, &codes).await;
    let words = [
        "call 0 after call 0",
        "call 1 after call 1",
        "call 10001 after call 0",
        "a report about cell 3 while cell 2 runs",
        "a report about cell 2 while cell 2 runs",
        "not a frame: invalid value: integer `-1`",
    ];
    for (detail, words) in details.iter().zip(words) {
        assert!(detail.starts_with(words), "{details:?}");
    }
    let session = case.session_of(granted(Limits::default())).await;
    let code = "for n in range(1000): frame({'type': 'cancelled', 'cell': STATE.cell, 'nonce': STATE.nonce, 'number': n})\nprint(tools.count(1))";
    let outcome = case.outcome(&session, calling(&forging(code))).await;
    assert_eq!(outcome.stdout.text, "1\n", "{outcome:#?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_l2_a_million_calls() {
    let case = Case::begin(
        "L2",
        Severity::HostDos,
        "a million calls in a loop; 100,000 that are made and given up; a million forged ones, in order, whose answers nobody reads",
        "no more reach the tool than a cell may make; forgeries break the channel; the host's memory stays flat",
    )
    .await;
    let limits = Limits {
        calls: 2000,
        // The denied ones take seconds of a CPU that others use too.
        wall_time: seconds(100.0),
        ..Limits::default()
    };
    let before = forget_highest_resident();
    let session = case.session_of(granted(limits)).await;
    let code = format!(
        "{MAKE}\ndone = 0\nfor n in range(1_000_000):\n    try: done += make('count', b'{{\"n\":1}}')['value']\n    except tools.ToolDenied: pass\nprint(done)"
    );
    assert_eq!(count_calls(&session, &code).await, (2000, "2000\n".into()));
    let code = "import asyncio\nasync def give_up():\n    try: tools.count(1).cancel()\n    except tools.ToolDenied: return 1\n    await asyncio.sleep(0)\n    return 0\nprint(sum([await give_up() for n in range(100_000)]) >= 98_000)";
    let (calls, text) = count_calls(&session, code).await;
    assert!(calls <= 2000, "{calls}");
    assert_eq!(text, "True\n");
    session.close().await.unwrap();
    let flood = "for n in range(1, 1_000_001): frame({'type': 'called', 'cell': STATE.cell, 'nonce': STATE.nonce, 'number': n, 'tool': 'count', 'blocks': False}, b'{\"n\":1}')";
    let session = case.session_of(granted(Limits::default())).await;
    let mut run = session.run(calling(&forging(flood)));
    let mut calls = 0;
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::Called { .. } => calls += 1,
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    assert_eq!(broken(&outcome, flood), "too many calls at once");
    assert_eq!(calls, 4096);
    let session_of_many = case.session_of(granted(Limits::default())).await;
    let flood = flood.replace("'tool': 'count'", "'tool': 'shell'");
    let outcome = case
        .fails(&session_of_many, calling(&forging(&flood)))
        .await;
    assert_eq!(broken(&outcome, &flood), "call 10001 after call 10000");
    let grown = highest_resident() - before;
    assert!(grown < 64 << 10, "{grown} kB");
    case.end([session, session_of_many]).await;
}

/// Runs a cell that must succeed, and answers its calls; how many, and what it printed.
async fn count_calls(session: &Session, code: &str) -> (u32, String) {
    let mut run = session.run(calling(code));
    let mut calls = 0;
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Called { call, .. } => {
                calls += 1;
                let _ = session.answer(call, Ok(json!(1).into())).await;
            }
            Event::Outcome(outcome) => {
                assert!(outcome.is_success(), "{outcome:#?}");
                break (calls, outcome.stdout.text);
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l14_a_cell_is_ended_in_a_call() {
    let case = Case::begin(
        "L14",
        Severity::Integrity,
        "a cell is interrupted, or its session closed, while it waits in a call; it swallows the interrupt and calls on",
        "it ends within its bound, its calls are reported as cancelled, and no later answer is accepted",
    )
    .await;
    let limits = Limits {
        wall_time: seconds(2.0),
        grace: seconds(0.5),
        ..Limits::default()
    };
    let session = case.session_of(granted(limits.clone())).await;
    let mut run = session.run(calling("tools.count(1)"));
    let call = loop {
        if let Event::Called { call, .. } = run.next().await.unwrap().unwrap() {
            break call;
        }
    };
    let started = Stopwatch::start();
    assert!(session.interrupt());
    let mut cancelled = Vec::new();
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::CallCancelled { call } => cancelled.push(call),
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    assert!(started.elapsed() < seconds(5.0), "{:?}", started.elapsed());
    assert_eq!(outcome.cause, Cause::Interrupted);
    assert_eq!(cancelled, [call]);
    let late = session.answer(call, Ok(json!(1).into())).await;
    assert!(matches!(late, Err(Error::NoCall { .. })), "{late:?}");
    // It computes with a call open, and swallows what ends it.
    let code = "import threading\nthread = None\nwhile True:\n    try:\n        if not thread:\n            thread = threading.Thread(target=tools.count, args=(1,), daemon=True)\n            thread.start()\n        while True: pass\n    except BaseException: pass";
    let mut run = session.run(calling(code));
    let mut cancelled = 0;
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::CallCancelled { .. } => cancelled += 1,
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 2000 });
    assert_eq!((outcome.state, cancelled), (Fate::Lost, 1));
    // The session is closed while a cell waits.
    let other = case.session_of(granted(limits)).await;
    let mut run = other.run(calling("tools.count(1)"));
    while !matches!(run.next().await.unwrap().unwrap(), Event::Called { .. }) {}
    let started = Stopwatch::start();
    other.close().await.unwrap();
    let outcome = run.outcome().await;
    assert!(started.elapsed() < seconds(5.0), "{:?}", started.elapsed());
    assert!(
        outcome
            .as_ref()
            .is_err_and(|error| matches!(error, Error::Ended(_)))
            || outcome
                .as_ref()
                .is_ok_and(|outcome| outcome.state == Fate::Lost),
        "{outcome:?}"
    );
    case.end([session]).await;
}
