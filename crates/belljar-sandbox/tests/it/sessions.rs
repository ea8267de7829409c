//! SES-1 to SES-6: what a session is.

use belljar_sandbox::protocol::{Cause, Event, Fate, Status, Stream};
use belljar_sandbox::{Cell, Error, Limits, WhenBusy};
use serde_json::json;

use crate::support::{
    Log, Stopwatch, bare_environment, builder, data_session, engine, good, inits, printed, seconds,
    session, timed, without_checkpoints,
};

/// SES-1: names, functions, classes, imports and instances persist.
#[tokio::test]
async fn ses_1_state_persists() {
    let session = session().await;
    good(&session, "import math\nclass P:\n    def __init__(self, x): self.x = x\np = P(3)\ndef twice(n): return 2 * n").await;
    assert_eq!(
        printed(&session, "print(twice(p.x), math.pi > 3, isinstance(p, P))").await,
        "6 True True\n"
    );
    good(
        &session,
        "import pickle\ncopy = pickle.loads(pickle.dumps(p))",
    )
    .await;
    assert_eq!(
        printed(&session, "print(copy.x, type(copy) is P)").await,
        "3 True\n"
    );
}

/// SES-2 and SES-6: seeded names are there before the first cell; collisions are reported.
#[tokio::test]
async fn ses_2_seeding() {
    let session = session().await;
    let values = json!({"n": 3, "names": ["甲", null, 1.5], "deep": {"a": {"b": true}}});
    session.seed(values.as_object().unwrap()).await.unwrap();
    assert_eq!(
        printed(&session, "print(n, names, deep)").await,
        "3 ['甲', None, 1.5] {'a': {'b': True}}\n"
    );
    let again = json!({"n": 4, "not a name": 1, "for": 2, "__builtins__": {}, "fine": 1});
    match session.seed(again.as_object().unwrap()).await {
        Err(Error::Seed(refused)) => {
            let names: Vec<&str> = refused.keys().map(String::as_str).collect();
            assert_eq!(names, ["__builtins__", "for", "n", "not a name"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(printed(&session, "print(n, fine)").await, "3 1\n");
}

/// SES-3: both streams at descriptor level, apart, in order, from C code and child programs too.
#[tokio::test]
async fn ses_3_output_of_every_kind() {
    let session = session().await;
    let code = "import os, sys, subprocess, ctypes\n\
        print('python')\n\
        os.write(1, b'descriptor\\n')\n\
        ctypes.CDLL(None).puts(b'c code')\n\
        subprocess.run(['echo', 'child'])\n\
        subprocess.run('echo child error >&2', shell=True)\n";
    let outcome = good(&session, code).await;
    let mut lines: Vec<&str> = outcome.stdout.text.lines().collect();
    // C buffers its own output until the cell ends; the rest is in order.
    assert!(lines.contains(&"c code"), "{lines:?}");
    lines.retain(|line| *line != "c code");
    assert_eq!(lines, ["python", "descriptor", "child"]);
    assert_eq!(outcome.stderr.text, "child error\n");

    let code = "import sys\nfor i in range(50):\n    print('out', i)\n    print('err', i, file=sys.stderr)";
    let outcome = good(&session, code).await;
    let expected: String = (0..50).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(outcome.transcript, expected);
    assert!(!outcome.stdout.text.contains("err") && !outcome.stderr.text.contains("out"));
}

/// SES-3: output is streamed while the cell runs.
#[tokio::test]
async fn ses_3_output_is_streamed() {
    let session = session().await;
    let mut run = session.run("import time\nprint('first')\ntime.sleep(0.5)\nprint('second')");
    let mut seen = Vec::new();
    while let Some(event) = run.next().await {
        match event.unwrap() {
            Event::Output {
                stream: Stream::Stdout,
                text,
            } => seen.push((text, std::time::Instant::now())),
            Event::Outcome(outcome) => assert!(outcome.is_success()),
            _ => {}
        }
    }
    assert_eq!(
        (seen[0].0.as_str(), seen[1].0.as_str()),
        ("first\n", "second\n")
    );
    assert!(
        seen[1].1 - seen[0].1 > seconds(0.3),
        "the first line came early"
    );
}

/// SES-4: each cell has its name, its source stays for later tracebacks, our frames are gone.
#[tokio::test]
async fn ses_4_tracebacks_across_cells() {
    let session = session().await;
    good(&session, "def helper(x):\n    return 10 // x").await;
    good(&session, "def outer(x):\n    return helper(x)").await;
    let outcome = session.run("y = 1\nouter(0)").await.unwrap();
    let traceback = outcome.exception.unwrap().traceback;
    for part in [
        "File \"<cell 3>\", line 2, in <module>\n    outer(0)",
        "File \"<cell 2>\", line 2, in outer\n    return helper(x)",
        "File \"<cell 1>\", line 2, in helper\n    return 10 // x",
        "ZeroDivisionError",
    ] {
        assert!(traceback.contains(part), "{part:?} is not in\n{traceback}");
    }
    assert!(!traceback.contains("belljar"), "{traceback}");

    let outcome = session.run("import json\njson.loads('{')").await.unwrap();
    let exception = outcome.exception.unwrap();
    assert!(
        exception.traceback.contains("json/decoder.py"),
        "{}",
        exception.traceback
    );
    assert_eq!(exception.type_name, "json.decoder.JSONDecodeError");
    assert_eq!(exception.line, Some(2));

    let chained =
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('second') from e";
    let traceback = session
        .run(chained)
        .await
        .unwrap()
        .exception
        .unwrap()
        .traceback;
    assert!(
        traceback.contains("direct cause") && traceback.contains("ValueError: second"),
        "{traceback}"
    );
}

/// SES-4: type and message are never lost, whatever the exception does.
#[tokio::test]
async fn ses_4_hostile_exceptions() {
    let session = session().await;
    let code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError\n    __repr__ = __str__\nraise Bad()";
    let exception = session.run(code).await.unwrap().exception.unwrap();
    assert_eq!(exception.type_name, "Bad");
    let code = "e = ValueError('inner')\nfor _ in range(100_000):\n    n = ValueError('x'); n.__cause__ = e; e = n\nraise e";
    let outcome = session.run(code).await.unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "ValueError");
    good(&session, "1").await;
}

/// SES-6: an exception leaves earlier state; a syntax error runs nothing; sys.exit is ordinary.
#[tokio::test]
async fn ses_6_errors_leave_the_session_alone() {
    let session = session().await;
    good(&session, "x = 1").await;
    let outcome = session
        .run("x = 2\nthis is not valid python")
        .await
        .unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause),
        (Status::Failure, &Cause::Syntax)
    );
    let exception = outcome.exception.unwrap();
    assert_eq!(
        (exception.type_name.as_str(), exception.line),
        ("SyntaxError", Some(2))
    );
    assert_eq!(
        printed(&session, "print(x)").await,
        "1\n",
        "nothing of the cell ran"
    );
    let outcome = session.run("x = 3\nraise KeyError('k')").await.unwrap();
    assert_eq!(outcome.cause, Cause::Exception);
    assert_eq!(printed(&session, "print(x)").await, "3\n");

    let outcome = session
        .run("import sys; print('bye'); sys.exit(3)")
        .await
        .unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause, outcome.state),
        (Status::Failure, &Cause::Exit { code: 3 }, Fate::Kept)
    );
    assert_eq!(outcome.stdout.text, "bye\n");
    let outcome = session.run("exit()").await.unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause),
        (Status::Success, &Cause::Exit { code: 0 })
    );
    assert_eq!(printed(&session, "print(x)").await, "3\n");
}

/// SES-6: an interrupt is a `KeyboardInterrupt`, keeps the variables, and never hits a later cell.
#[tokio::test(flavor = "multi_thread")]
async fn ses_6_interrupt() {
    let session = session().await;
    good(&session, "x = 1").await;
    assert!(!session.interrupt(), "nothing runs");
    let run = session.run("x = 2\nwhile True: pass");
    tokio::time::sleep(seconds(0.3)).await;
    assert!(session.interrupt());
    let outcome = run.await.unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause, outcome.state),
        (Status::Failure, &Cause::Interrupted, Fate::Kept)
    );
    assert_eq!(outcome.exception.unwrap().type_name, "KeyboardInterrupt");
    assert_eq!(printed(&session, "print(x)").await, "2\n");

    let run = session.run(
        "import time\ntry:\n    time.sleep(10)\nexcept KeyboardInterrupt:\n    print('caught')",
    );
    tokio::time::sleep(seconds(0.3)).await;
    session.interrupt();
    let outcome = run.await.unwrap();
    assert_eq!(
        (outcome.status, outcome.stdout.text.as_str()),
        (Status::Success, "caught\n")
    );
}

/// SES-6: an interrupt of a first cell counts, however early it comes: the session may not have its
/// handler yet.
#[tokio::test(flavor = "multi_thread")]
async fn ses_6_the_first_cell_can_be_interrupted() {
    let engine = engine();
    for _ in 0..20 {
        let session = engine.session().await.unwrap();
        let mut run = session.run("import time\ntime.sleep(5)");
        while !matches!(run.next().await, Some(Ok(Event::Started { .. }))) {}
        let began = Stopwatch::start();
        while !session.interrupt() {
            tokio::task::yield_now().await;
        }
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.cause, Cause::Interrupted);
        assert!(began.elapsed() < seconds(4.0));
    }
}

/// SES-6 and B12 of the attack catalogue: interrupts that race with the end of a cell.
#[tokio::test(flavor = "multi_thread")]
async fn ses_6_late_interrupts_hit_nothing() {
    let session = session().await;
    for _ in 0..300 {
        let run = session.run("x = 1");
        session.interrupt();
        let outcome = run.await.unwrap();
        assert!(
            outcome.is_success() || outcome.cause == Cause::Interrupted,
            "{outcome:?}"
        );
        let next = session.run("y = sum(range(200))").await.unwrap();
        assert!(next.is_success(), "a stray interrupt: {next:?}");
    }
}

/// SES-6: one cell at a time; a second one waits or is refused, as the caller chose.
#[tokio::test(flavor = "multi_thread")]
async fn ses_6_one_cell_at_a_time() {
    let session = session().await;
    let first = session.run("import time; time.sleep(0.5); order = ['first']");
    tokio::time::sleep(seconds(0.1)).await;
    let refused = session
        .run(Cell {
            when_busy: WhenBusy::Refuse,
            ..Cell::from("1")
        })
        .await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    let second = session.run("order.append('second'); print(order)");
    assert!(first.await.unwrap().is_success());
    let second = second.await.unwrap();
    assert!(second.is_success(), "{second:?}");
    assert_eq!(second.stdout.text, "['first', 'second']\n");
}

/// SES-6: nothing is started before the first session is asked for.
#[tokio::test]
async fn ses_6_an_engine_is_lazy() {
    let engine = builder(bare_environment()).build();
    assert!(crate::support::processes_below(std::process::id()).is_empty());
    let session = engine.session().await.unwrap();
    assert!(!crate::support::processes_below(std::process::id()).is_empty());
    drop(session);
    engine.shutdown().await;
    assert!(crate::support::processes_below(std::process::id()).is_empty());
}

/// A session that has ended says so.
#[tokio::test]
async fn an_ended_session_refuses_cells() {
    let session = session().await;
    session.run("import os; os._exit(1)").await.unwrap();
    let again = session.run("1").await;
    assert!(matches!(again, Err(Error::Ended(_))), "{again:?}");
    assert!(matches!(session.manifest().await, Err(Error::Ended(_))));
}

/// Random generators differ between forks of one template; nothing is printed twice.
#[tokio::test]
async fn forks_are_reseeded_and_print_once() {
    let engine = crate::support::data_engine();
    let code = "import random, uuid, secrets, tempfile, numpy as np\nprint(random.random(), np.random.rand(), uuid.uuid4(), secrets.token_hex(4), tempfile.mktemp())";
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let session = engine.session().await.unwrap();
        let text = printed(&session, code).await;
        let values: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(values.len(), 5, "{text}");
        for value in values {
            assert!(seen.insert(value.to_owned()), "{value} came twice");
        }
    }
}

/// The manifest tells name, type, shape or length, size and cell, and what a cell changed.
#[tokio::test]
async fn manifest_and_changes() {
    let session = data_session().await;
    let outcome = good(&session, "import numpy as np, pandas as pd\na = np.zeros((3, 4))\nf = pd.DataFrame({'x': [1, 2]})\ns = 'text'\n_hidden = 1").await;
    let added: Vec<&str> = outcome
        .changes
        .added
        .iter()
        .map(|i| i.name.as_str())
        .collect();
    assert_eq!(added, ["np", "pd", "a", "f", "s"]);
    let outcome = good(&session, "s = 'other'\ndel f\nnew = [1]\nnew.append(2)").await;
    let names = |list: &[belljar_sandbox::protocol::NameInfo]| {
        list.iter().map(|i| i.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&outcome.changes.added), ["new"]);
    assert_eq!(names(&outcome.changes.changed), ["s"]);
    assert_eq!(outcome.changes.removed, ["f"]);
    let manifest = session.manifest().await.unwrap();
    let a = manifest.iter().find(|i| i.name == "a").unwrap();
    assert_eq!(
        (
            a.type_name.as_str(),
            a.shape.as_deref(),
            a.size_bytes,
            a.cell
        ),
        ("numpy.ndarray", Some(&[3, 4][..]), Some(96), 1)
    );
}

/// Pooled sessions are started ahead, are no more than configured, and look like any other session.
#[tokio::test(flavor = "multi_thread")]
async fn pooled_sessions_are_ordinary() {
    let engine = builder(crate::support::data_environment())
        .warm_pool(2)
        .build();
    engine.warm().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..6 {
        let session = engine.session().await.unwrap();
        let outcome = good(&session, "first = sorted(globals())\nprint(first)").await;
        assert_eq!(outcome.cell, 1);
        assert_eq!(
            outcome.stdout.text,
            "['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__']\n"
        );
        assert!(
            outcome.notes.is_empty() && outcome.stderr.text.is_empty(),
            "{outcome:?}"
        );
        sessions.push(session);
    }
    // The burst is over: two pooled sessions beside the six.
    crate::support::eventually("two pooled sessions", || inits().len() == 8).await;
    tokio::time::sleep(seconds(0.3)).await;
    assert_eq!(inits().len(), 8);
}

/// When a process started, in the kernel's ticks.
fn started(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(19).unwrap().parse().unwrap()
}

/// A prepared sandbox is there after the first session, is used by the next one of its kind alone, and is
/// replaced. One that broke is no obstacle, and none outlives the engine.
#[tokio::test(flavor = "multi_thread")]
async fn prepared_sandboxes() {
    let log = Log::begin();
    let engine = builder(crate::support::bare_environment())
        .prepared_sandboxes(1)
        .build();
    // Its init is there before the sandbox is ready: the log says when.
    let prepared = async |count: usize| {
        let is_logged = || log.text().matches("a sandbox is prepared").count() == count;
        crate::support::eventually("a prepared sandbox", is_logged).await;
        let all = inits();
        all.into_iter()
            .max_by_key(|pid| (started(*pid), *pid))
            .unwrap()
    };
    let mut sessions = vec![engine.session().await.unwrap()];
    let first = prepared(1).await;
    sessions.push(engine.session().await.unwrap());
    good(&sessions[1], "1").await;
    // The same init, with an interpreter beside it.
    let second = prepared(2).await;
    assert!(second != first && inits().contains(&first));

    let limits = Limits {
        workspace_bytes: 1 << 20,
        ..Limits::default()
    };
    let other = engine.session_with(without_checkpoints(limits)).await;
    sessions.push(other.unwrap());
    let outcome = sessions[2]
        .run("open('large', 'wb').write(bytes(2 << 20))")
        .await
        .unwrap();
    assert!(!outcome.is_success(), "its own limits: {outcome:?}");
    crate::support::eventually("the end of the older one", || !inits().contains(&second)).await;

    let broken = prepared(3).await;
    let mut kill = std::process::Command::new("kill");
    kill.args(["-9", &broken.to_string()]);
    assert!(kill.status().unwrap().success());
    crate::support::eventually("its end", || !inits().contains(&broken)).await;
    let limits = Limits {
        workspace_bytes: 1 << 20,
        ..Limits::default()
    };
    let next = engine.session_with(without_checkpoints(limits)).await;
    good(next.as_ref().unwrap(), "1").await;
    drop((next, sessions));
    engine.shutdown().await;
    assert!(inits().is_empty());
}

/// Completion from the live namespace.
#[tokio::test]
async fn completion() {
    let session = session().await;
    good(&session, "import math\nmy_value = 'text'").await;
    let (start, candidates) = session.complete("x = my_v", 8).await.unwrap();
    assert_eq!((start, candidates), (4, vec!["my_value".to_owned()]));
    let (_, candidates) = session.complete("math.sq", 7).await.unwrap();
    assert!(
        candidates.iter().any(|c| c.ends_with("sqrt")),
        "{candidates:?}"
    );
}

/// Keys, columns and paths, where a text is open.
#[tokio::test]
async fn completion_in_quotes() {
    let session = data_session().await;
    let code = "import os, pandas as pd\n\
        df = pd.DataFrame({'price': [1], 'product': ['a'], 7: [0]})\n\
        d = {'price list': df}\n\
        os.mkdir('data'); open('data/prices.csv', 'w').close(); open('.hidden', 'w').close()\n\
        class Trap(dict):\n    \
            def __iter__(self): raise SystemExit\n\
        trap = Trap(a=1)\n\
        x = type('X', (), {'df': df})()";
    good(&session, code).await;
    for (typed, start, expected) in [
        ("df['p", 4, &["price", "product"][..]),
        ("x = df[[\"price\", \"pro", 18, &["product"]),
        ("df.loc[:, 'pr", 11, &["price", "product"]),
        ("d['", 3, &["price list"]),
        ("x.df['pri", 6, &["price"]),
        ("df.pro", 3, &["prod", "product"]),
        ("open('da", 6, &["data/"]),
        ("pd.read_csv('data/", 13, &["data/prices.csv"]),
        ("open('", 6, &["data/"]),
        ("open('.h", 6, &[".hidden"]),
        ("open('/no/such/place/", 6, &[]),
        ("df['price'].pri", 12, &[]),
        ("# it's da", 7, &[]),
        ("gar['", 5, &["data/"]),
        ("whi", 0, &["while"]),
    ] {
        let (found, candidates) = session.complete(typed, typed.len()).await.unwrap();
        assert_eq!(
            (found, &candidates[..]),
            (
                start,
                &expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]
            ),
            "{typed}"
        );
    }
    // A class of the user's is not asked.
    let (_, candidates) = session.complete("trap['", 6).await.unwrap();
    assert_eq!(candidates, ["data/"]);
    good(&session, "df.shape").await;
}

/// A cut value tells how much of it is missing.
#[tokio::test]
async fn a_long_value_tells_how_much_was_left_out() {
    let session = session().await;
    for (code, left_out, what) in [
        ("'x' * 500_000", 500_000, "characters"),
        ("b'\\xff' * 500_000", 500_000, "bytes"),
        ("'\\U0001f600' * 200_000", 200_000, "characters"),
    ] {
        let outcome = session.run(code).await.unwrap();
        let text = outcome.displays[0].text().unwrap();
        let (head, rest) = text.split_once("\n[... ").unwrap();
        let (count, rest) = rest.split_once(' ').unwrap();
        let tail = rest
            .strip_prefix(&format!("{what} left out ...]\n"))
            .unwrap();
        let kept = |part: &str| part.matches(['x', '\u{1f600}']).count();
        assert_eq!(
            count.parse::<usize>().unwrap() + kept(head) + kept(tail),
            left_out,
            "{code}"
        );
        assert!(text.len() <= 64 << 10, "{code}: {}", text.len());
    }
}

/// A time limit per cell does not stay with the session.
#[tokio::test]
async fn a_limit_is_for_one_cell() {
    let session = engine().session().await.unwrap();
    let outcome = session
        .run(timed("while True: pass", seconds(0.3)))
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::Timeout);
    good(&session, "import time; time.sleep(0.5)").await;
}
