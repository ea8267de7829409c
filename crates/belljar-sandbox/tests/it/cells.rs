//! Cells: how code is run.

use belljar_sandbox::protocol::{Cause, Fate, Status};

use crate::support::{good, printed, session};

/// The last expression is displayed; a statement or `None` is not.
#[tokio::test]
async fn the_last_expression_is_displayed() {
    let session = session().await;
    let outcome = good(&session, "x = 20\nx + 1").await;
    assert_eq!(outcome.displays[0].text(), Some("21"));
    assert_eq!(outcome.stdout.text, "");
    assert!(good(&session, "None").await.displays.is_empty());
    assert!(good(&session, "y = 5").await.displays.is_empty());
    assert_eq!(good(&session, "display('a', 2)\n3").await.displays.len(), 3);
    assert!(good(&session, "").await.displays.is_empty());
    assert!(good(&session, "# only a comment").await.displays.is_empty());
}

/// Top-level await works, tasks keep living on the same loop, and an error in one is an exception.
#[tokio::test]
async fn top_level_await() {
    let session = session().await;
    let outcome = good(&session, "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.gather(*(asyncio.sleep(0, i) for i in range(3)))").await;
    assert_eq!(outcome.displays[0].text(), Some("[0, 1, 2]"));
    good(&session, "queue = asyncio.Queue()\nawait queue.put(7)").await;
    assert_eq!(
        good(&session, "await queue.get()").await.displays[0].text(),
        Some("7")
    );
    let outcome = session
        .run("async def fail(): raise ValueError('async')\nawait fail()")
        .await
        .unwrap();
    assert_eq!(outcome.exception.unwrap().value, "async");
    assert_eq!(
        printed(&session, "print(asyncio.run.__name__)").await,
        "run\n"
    );
}

/// Futures stay in force for later cells.
#[tokio::test]
async fn future_imports_persist() {
    let session = session().await;
    good(&session, "from __future__ import annotations").await;
    good(&session, "def f(x: not_defined_anywhere): pass").await;
}

/// stdin is at its end.
#[tokio::test]
async fn stdin_is_at_its_end() {
    let session = session().await;
    assert_eq!(
        session
            .run("input()")
            .await
            .unwrap()
            .exception
            .unwrap()
            .type_name,
        "EOFError"
    );
    assert_eq!(
        printed(
            &session,
            "import sys, os\nprint(repr(sys.stdin.read()), os.read(0, 10))"
        )
        .await,
        "'' b''\n"
    );
}

/// C5 of the attack catalogue: sources that are no programs end typed, and the session lives.
#[tokio::test]
async fn odd_sources() {
    let session = session().await;
    let sources = [
        (
            "(".repeat(10_000) + &")".repeat(10_000),
            "SyntaxError|MemoryError|RecursionError",
        ),
        (
            "-".repeat(200_000) + "1",
            "MemoryError|RecursionError|SyntaxError",
        ),
        ("x = 1\0".to_owned(), "SyntaxError|ValueError"),
        ("# -*- coding: nonsense -*-\nx = 1".to_owned(), ""),
        ("'\u{202e}unfinished".to_owned(), "SyntaxError"),
        ("return 1".to_owned(), "SyntaxError"),
        ("  indented = 1".to_owned(), "IndentationError"),
    ];
    for (source, expected) in sources {
        let outcome = session.run(source.as_str()).await.unwrap();
        assert_eq!(outcome.state, Fate::Kept);
        match outcome.exception {
            Some(exception) => assert!(
                expected.split('|').any(|name| name == exception.type_name),
                "{source:.20}: {exception:?}"
            ),
            None => assert_eq!(expected, ""),
        }
    }
    let long = session.run("x".repeat(5 << 20)).await;
    assert!(
        matches!(long, Err(belljar_sandbox::Error::CellTooLarge { .. })),
        "{long:?}"
    );
    good(&session, "x = 1").await;
}

/// C7 and D1: a cell that breaks the interpreter's own parts breaks nothing of ours.
#[tokio::test]
async fn the_driver_survives_vandals() {
    for vandal in [
        "import builtins\nfor n in list(vars(builtins)):\n    if n not in ('__import__', '__build_class__'):\n        delattr(builtins, n)",
        "import sys\nsys.modules.clear()",
        "import sys\nsys.stdout = sys.stderr = None",
        "import sys, os\nsys.stdout.close()",
        "import json, os, struct, socket\njson.dumps = json.loads = os.write = os.read = None",
        "import sys\nsys.settrace(lambda *a: 1/0)",
        "import sys\nsys.setrecursionlimit(50)",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('/workspace/gone')",
        "import gc\ngc.disable(); gc.unfreeze()",
        "open('json.py', 'w').write('raise SystemExit'); open('sitecustomize.py', 'w').write('import os; os.abort()')",
    ] {
        let session = session().await;
        let outcome = session.run(vandal).await.unwrap();
        assert_eq!(outcome.state, Fate::Kept, "{vandal}: {outcome:?}");
        let outcome = session.run("answer = 6 * 7").await.unwrap();
        assert_eq!(
            outcome.status,
            Status::Success,
            "after {vandal}: {outcome:?}"
        );
        let outcome = session.run("answer").await.unwrap();
        assert_eq!(outcome.displays[0].text(), Some("42"), "after {vandal}");
    }
}

/// A child forked by user code never speaks for the session.
#[tokio::test]
async fn a_forked_child_is_not_the_session() {
    let session = session().await;
    let outcome = good(&session, "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')").await;
    assert_eq!(outcome.stdout.text, "child\nparent\n");
    assert_eq!(printed(&session, "print(pid > 0)").await, "True\n");
}

/// D7: what a thread prints after its cell is reported with the next one, and marked as late.
#[tokio::test]
async fn late_output_is_marked() {
    let session = session().await;
    good(&session, "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()").await;
    tokio::time::sleep(crate::support::seconds(0.6)).await;
    let outcome = good(&session, "print('now')").await;
    assert_eq!(outcome.stdout.text, "late\nnow\n");
    assert!(
        outcome
            .notes
            .iter()
            .any(|d| d.contains("between the cells")),
        "{:?}",
        outcome.notes
    );
}

/// D2: frames forged by user code end the session, and never become a result.
#[tokio::test]
async fn forged_frames_are_a_protocol_error() {
    let frame = "def send(h): os.write(3, len(h).to_bytes(4, 'little') + bytes(4) + h)\n";
    for forged in [
        "send(b'{}')",
        "send(json.dumps({'type': 'done', 'cell': 1, 'nonce': 'guess', 'end': 'ok'}).encode())",
        "send(json.dumps({'type': 'fault', 'detail': 'yours'}).encode())",
        "send(b'[' * 100_000)",
        "os.write(3, b'\\xff' * 8)",
    ] {
        let session = session().await;
        let code = format!("import os, json\n{frame}{forged}");
        let outcome = session.run(code).await.unwrap();
        let is_protocol = matches!(outcome.cause, Cause::Protocol { .. });
        assert!(is_protocol, "{forged}: {outcome:?}");
        assert_eq!(
            (outcome.status, outcome.state),
            (Status::Crashed, Fate::Lost)
        );
    }
}

/// A guest that sends true displays without end, past its own limits, does not fill the host.
#[tokio::test]
async fn a_flood_of_displays_ends_the_session() {
    let session = session().await;
    let flood = "from belljar_guest import wire\nfrom belljar_guest.state import STATE\n\
        for _ in range(1000):\n    wire.send({'type': 'display', 'cell': STATE.cell, 'nonce': STATE.nonce, 'parts': [{'mime': 'text/plain', 'len': 8 << 20}]}, b'x' * (8 << 20))";
    let outcome = session.run(flood).await.unwrap();
    assert!(
        matches!(outcome.cause, Cause::Protocol { .. }),
        "{:?}",
        outcome.cause
    );
    assert!(outcome.displays.len() <= 4);
}
