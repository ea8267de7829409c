//! L: questions of a cell, by `input()`.

use belljar_sandbox::protocol::{Cause, Event, Fate};
use belljar_sandbox::{Cell, Error, Limits};

use crate::d_channel::{all_break, broken, forging};
use crate::harness::{Case, Severity};
use crate::support::{Stopwatch, seconds, without_checkpoints};

fn asking(code: &str) -> Cell {
    Cell {
        input: true,
        ..Cell::from(code)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l1c_forged_questions() {
    let case = Case::begin(
        "L1c",
        Severity::Integrity,
        "forged questions to the client: numbers that repeat, another cell, a wrong nonce, a prompt of 5,000 bytes, 1,001 of them, two at once",
        "each breaks the channel and ends its session; without a client that answers, a question reaches nobody",
    )
    .await;
    let ask = |fields: &str| {
        format!(
            "frame({{'type': 'asked', 'cell': STATE.cell, 'nonce': STATE.nonce, 'number': 1, 'prompt': '?', 'password': False, {fields}}})"
        )
    };
    let codes = [
        ask("'number': 0"),
        format!("{}; {}", ask(""), ask("")),
        ask("'cell': STATE.cell + 1"),
        ask("'nonce': 'x'"),
        ask("'prompt': 'x' * 5000"),
        ask("'password': 'x'"),
        format!("for n in range(1001): {}", ask("'number': n + 1")),
    ]
    .map(|code| format!("{code}\ntime.sleep(5)"));
    let details = all_break(&case, &codes).await;
    let words = [
        "question 0 after call 0",
        "question 1 after call 1",
        "a report about cell 3 while cell 2 runs",
        "a report about cell 2 while cell 2 runs",
        "too many questions",
        "not a frame: invalid type: string",
        "too many questions",
    ];
    for (detail, words) in details.iter().zip(words) {
        assert!(detail.starts_with(words), "{details:?}");
    }
    let session = case.session().await;
    let code = format!("{}; {}\ntime.sleep(5)", ask(""), ask("'number': 2"));
    let mut run = session.run(asking(&forging(&code)));
    let mut asked = 0;
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::InputRequested { .. } => asked += 1,
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    assert_eq!(broken(&outcome, &code), "two questions at once");
    assert_eq!(asked, 1);
    // Nobody answers: nobody is asked.
    let other = case.session().await;
    let code = format!("{}\nprint(1)", ask(""));
    let mut run = other.run(forging(&code).as_str());
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::InputRequested { .. } => panic!("a question without a client that answers"),
            Event::Outcome(outcome) => {
                assert_eq!(outcome.stdout.text, "1\n");
                break;
            }
            _ => {}
        }
    }
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l14a_a_cell_asks_for_ever() {
    let case = Case::begin(
        "L14a",
        Severity::SelfDos,
        "a cell that asks for ever with prompts of ten megabytes and commands to the terminal, and swallows what ends it; one that is closed while it waits",
        "1,000 questions of 1,000 characters reach the client, then the time limit ends the cell; an answer after its end reaches nobody",
    )
    .await;
    let limits = Limits {
        grace: seconds(0.5),
        ..Limits::default()
    };
    let session = case.session_of(without_checkpoints(limits.clone())).await;
    let code = "prompt = '\\x1b[2J' + 'x' * 10_000_000\ndef ask():\n    while True:\n        try: input(prompt)\n        except BaseException: pass\nwhile True:\n    try: ask()  # an interrupt may come between two of its tries\n    except BaseException: pass";
    let mut run = session.run(Cell {
        wall_time: Some(seconds(3.0) * Stopwatch::slowness()),
        ..asking(code)
    });
    let (mut asked, mut last) = (0, None);
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            Event::InputRequested { call, prompt, .. } => {
                assert_eq!(prompt.chars().count(), 1001);
                asked += 1;
                last = Some(call);
                session.answer_input(call, None).await.unwrap();
            }
            Event::Outcome(outcome) => break outcome,
            _ => {}
        }
    };
    assert_eq!(asked, 1000);
    let limit_ms = u64::from(3000 * Stopwatch::slowness());
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms });
    assert_eq!(outcome.state, Fate::Lost);
    let late = session
        .answer_input(last.unwrap(), Some("late".into()))
        .await;
    assert!(
        matches!(late, Err(Error::NoCall { .. } | Error::Ended(_))),
        "{late:?}"
    );
    let other = case.session_of(without_checkpoints(limits)).await;
    let mut run = other.run(asking("input()"));
    while !matches!(
        run.next().await.unwrap().unwrap(),
        Event::InputRequested { .. }
    ) {}
    let started = Stopwatch::start();
    other.close().await.unwrap();
    let _ = run.outcome().await;
    assert!(started.elapsed() < seconds(5.0), "{:?}", started.elapsed());
    case.end([session]).await;
}
