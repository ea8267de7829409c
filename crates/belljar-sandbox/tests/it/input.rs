//! `input()` and `getpass()` of a cell, answered by the caller.

use std::time::Duration;

use belljar_sandbox::protocol::{CallId, Cause, Event, Outcome, Status};
use belljar_sandbox::{Cell, CellRun, Checkpoints, Error, Limits, Session, SessionOptions};

use crate::support::{bare_environment, plain_builder};

async fn session_with(limits: Limits) -> Session {
    let options = SessionOptions {
        checkpoints: Checkpoints::Off,
        limits,
        ..SessionOptions::default()
    };
    let engine = plain_builder(bare_environment()).build();
    engine.session_with(options).await.unwrap()
}

async fn session() -> Session {
    session_with(Limits::default()).await
}

fn asking(code: &str) -> Cell {
    Cell {
        input: true,
        ..Cell::from(code)
    }
}

/// The next question of a cell: its id, prompt, and whether it is a password.
async fn question(run: &mut CellRun) -> (CallId, String, bool) {
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::InputRequested {
                call,
                prompt,
                password,
            } => return (call, prompt, password),
            Event::Outcome(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

/// The rest of a cell: the closed questions, and the outcome.
async fn ended(mut run: CellRun) -> (Vec<u32>, Outcome) {
    let mut closed = Vec::new();
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::InputClosed { call } => closed.push(call.number),
            Event::InputRequested { call, .. } => panic!("question {call}"),
            Event::Outcome(outcome) => return (closed, *outcome),
            _ => {}
        }
    }
}

/// Answers a question with a line.
async fn answer(session: &Session, call: CallId, line: &str) -> Result<(), Error> {
    session.answer_input(call, Some(line.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_in_order() {
    let session = session().await;
    let code = "import getpass\nprint('first')\nname = input('Name: ')\nsecret = getpass.getpass()\n\
                print(name, len(secret), repr(input()))";
    let mut run = session.run(asking(code));
    // What was printed before it comes before it.
    let mut printed = String::new();
    let first = loop {
        match run.next().await.unwrap().unwrap() {
            Event::Output { text, .. } => printed += &text,
            Event::InputRequested {
                call,
                prompt,
                password,
            } => break (call, prompt, password),
            _ => {}
        }
    };
    assert_eq!(printed, "first\n");
    assert_eq!((first.1.as_str(), first.2), ("Name: ", false));
    answer(&session, first.0, "Zoë 张").await.unwrap();
    let (call, prompt, password) = question(&mut run).await;
    assert_eq!((prompt.as_str(), password), ("Password: ", true));
    answer(&session, call, "s3cret").await.unwrap();
    let (call, prompt, _) = question(&mut run).await;
    assert_eq!(prompt, "");
    answer(&session, call, "").await.unwrap();
    let (closed, outcome) = ended(run).await;
    assert_eq!(closed, [3]);
    assert_eq!(outcome.stdout.text, "first\nZoë 张 6 ''\n");
    // The end of input, and the same session without a caller who answers.
    let mut run = session.run(asking("input('?')"));
    let (call, ..) = question(&mut run).await;
    session.answer_input(call, None).await.unwrap();
    let (_, outcome) = ended(run).await;
    assert_eq!(outcome.exception.unwrap().type_name, "EOFError");
    for code in ["input('?')", "import getpass; getpass.getpass()"] {
        let outcome = session.run(code).outcome().await.unwrap();
        let exception = outcome.exception.unwrap();
        assert_eq!(exception.type_name, "EOFError");
        let reason = "the client of this cell does not answer input()";
        assert!(exception.value.contains(reason), "{exception:?}");
    }
    // Code that brings its own input gets it.
    let code = "import io, sys\nsys.stdin = io.StringIO('mine\\n')\nprint(input())";
    let outcome = session.run(asking(code)).outcome().await.unwrap();
    assert_eq!(outcome.stdout.text, "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_question() {
    let session = session().await;
    let mut run = session.run(asking("x = 1\ninput('wait')"));
    let (call, ..) = question(&mut run).await;
    assert!(session.interrupt());
    let (closed, outcome) = ended(run).await;
    assert_eq!(closed, [call.number]);
    assert_eq!(outcome.cause, Cause::Interrupted);
    // An answer after the end, and an answer to another cell's question.
    let late = answer(&session, call, "late").await;
    assert!(matches!(late, Err(Error::NoCall { .. })), "{late:?}");
    let mut run = session.run(asking("print(input(), x)"));
    let (next, ..) = question(&mut run).await;
    let wrong = answer(&session, call, "wrong").await;
    assert!(matches!(wrong, Err(Error::NoCall { .. })), "{wrong:?}");
    let long = answer(&session, next, &"x".repeat(65_537)).await;
    assert!(matches!(long, Err(Error::InputTooLong { .. })), "{long:?}");
    answer(&session, next, "right").await.unwrap();
    let twice = answer(&session, next, "again").await;
    assert!(matches!(twice, Err(Error::NoCall { .. })), "{twice:?}");
    assert_eq!(ended(run).await.1.stdout.text, "right 1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_and_event_loops_ask_one_after_the_other() {
    let session = session().await;
    let code = "import threading\nheard = []\n\
                def ask(n): heard.append((n, input(str(n))))\n\
                threads = [threading.Thread(target=ask, args=(n,)) for n in range(5)]\n\
                for thread in threads: thread.start()\n\
                for thread in threads: thread.join()\n\
                async def later(): return input('loop')\n\
                print(sorted(heard), await later())";
    let mut run = session.run(asking(code));
    for _ in 0..6 {
        let (call, prompt, _) = question(&mut run).await;
        answer(&session, call, &format!("to {prompt}"))
            .await
            .unwrap();
    }
    let (_, outcome) = ended(run).await;
    let heard: Vec<String> = (0..5).map(|n| format!("({n}, 'to {n}')")).collect();
    let expected = format!("[{}] to loop\n", heard.join(", "));
    assert_eq!(outcome.stdout.text, expected);
}

/// Waiting for a person costs no time of the cell; computing does.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_does_not_count_as_wall_time() {
    let limits = Limits {
        wall_time: Duration::from_secs(1),
        ..Limits::default()
    };
    let session = session_with(limits).await;
    let mut run = session.run(asking("answer = input()\nwhile answer: pass"));
    let (call, ..) = question(&mut run).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    answer(&session, call, "go").await.unwrap();
    let (_, outcome) = ended(run).await;
    assert_eq!(outcome.status, Status::Timeout);
    assert!(matches!(outcome.cause, Cause::WallTime { .. }));
}
