//! D: the control channel, and what the host believes of it.

use std::pin::Pin;
use std::task::Poll;

use belljar_sandbox::protocol::{Cause, Fate, Outcome, Status};
use belljar_sandbox::{Error, Limits, Session};

use crate::harness::{Case, Severity};
use crate::support::{eventually, good, seconds, timed};

/// For code that writes to the channel itself: `send` writes bytes, `frame` a frame. `STATE` is the
/// driver's: code in a session can reach every object of its process.
const FORGE: &str = r#"
import json, os, struct, sys, threading, time
STATE = sys.modules["belljar_guest.state"].STATE

def send(data):
    while data:
        data = data[os.write(3, data):]

def frame(header, blob=b""):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    send(struct.pack("<II", len(head), len(blob)) + head + blob)
"#;

pub(crate) fn forging(code: &str) -> String {
    format!("{FORGE}\n{code}")
}

/// Waits for all of them at once.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in pending.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        if results.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// The channel was broken: reported as that, and the session has ended.
pub(crate) fn broken(outcome: &Outcome, code: &str) -> String {
    let Cause::Protocol { detail } = &outcome.cause else {
        panic!("{code}\n{outcome:#?}");
    };
    assert_eq!(outcome.status, Status::Crashed, "{code}");
    assert_eq!(outcome.state, Fate::Lost, "{code}");
    detail.clone()
}

/// Runs each code in a session of its own, all at once; each must break the channel. Returns what
/// the host found wrong.
pub(crate) async fn all_break(case: &Case, codes: &[String]) -> Vec<String> {
    all(codes.iter().map(|code| async move {
        let session = case.session().await;
        let outcome = case.fails(&session, forging(code)).await;
        let detail = broken(&outcome, code);
        let next = case.run(&session, "1").await;
        assert!(matches!(next, Err(Error::Ended(_))), "{code}: {next:?}");
        session.close().await.unwrap();
        detail
    }))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_patched_modules() {
    let case = Case::begin(
        "D1",
        Severity::Integrity,
        "print, open, json, socket, threading, sys.stdout and all of os, time, io, struct replaced by functions that fail",
        "the driver has its own references: values, exceptions, output and the manifest are reported as before",
    )
    .await;
    let patch = r#"
import builtins, codecs, io, json, json.decoder, json.encoder, os, socket, struct, sys, threading, time, traceback
write = os.write

def broken(*arguments, **options):
    raise RuntimeError("patched")

def patch(module, set=setattr, is_callable=callable, is_instance=isinstance, members=vars):
    for name, value in list(members(module).items()):
        if is_callable(value) and not is_instance(value, type) and not name.startswith("__"):
            set(module, name, broken)
"#;
    let patches = [
        "builtins.print = broken",
        "builtins.open = io.open = broken",
        "patch(json.decoder); patch(json.encoder); patch(json)",
        "patch(socket); socket.socket = broken",
        "patch(threading); threading.Thread = threading.Lock = broken",
        "sys.stdout = sys.stderr = sys.stdin = None",
        "sys.stdout.close(); sys.stderr.close()",
        "sys.stdout = sys.__stdout__ = object(); sys.displayhook = sys.excepthook = broken",
        "patch(os); patch(time); patch(io); patch(struct); patch(traceback); patch(codecs)",
        "for module in [codecs, io, json, os, socket, struct, threading, time, traceback, builtins]: patch(module)",
    ];
    let sessions = all(patches.into_iter().map(|code| {
        let case = &case;
        async move {
            let session = case.session().await;
            let outcome = case.outcome(&session, format!("{patch}\n{code}")).await;
            assert!(outcome.is_success(), "{code}: {outcome:#?}");
            let outcome = case.outcome(&session, "_ = write(1, b'out')\n6 * 7").await;
            assert_eq!(outcome.stdout.text, "out", "{code}: {outcome:#?}");
            assert_eq!(outcome.displays[0].text(), Some("42"), "{code}");
            let outcome = case.fails(&session, "1 / 0").await;
            let exception = outcome.exception.unwrap();
            assert_eq!(exception.type_name, "ZeroDivisionError", "{code}");
            assert_eq!(exception.line, Some(1), "{code}");
            let names = session.manifest().await.unwrap();
            assert!(names.iter().any(|info| info.name == "broken"), "{code}");
            session
        }
    }))
    .await;
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2a_forged_frames() {
    let case = Case::begin(
        "D2a",
        Severity::Integrity,
        "forged frames of every type on descriptor 3, with a wrong number or nonce, or of a type that nobody knows",
        "each ends the session as a broken channel; none is believed",
    )
    .await;
    let (report, answer, none) = (
        "a report about cell",
        "an unsolicited answer",
        "not a frame",
    );
    let frames = [
        (
            report,
            r#"{"type": "done", "cell": STATE.cell, "nonce": "0" * 16, "end": "ok"}"#,
        ),
        (
            report,
            r#"{"type": "done", "cell": STATE.cell + 1, "nonce": STATE.nonce, "end": "ok"}"#,
        ),
        (
            report,
            r#"{"type": "done", "cell": STATE.cell, "nonce": "", "end": "ok"}"#,
        ),
        (
            report,
            r#"{"type": "display", "cell": STATE.cell, "nonce": "0" * 16, "parts": []}"#,
        ),
        (
            answer,
            r#"{"type": "fault", "detail": "the walls are down"}"#,
        ),
        (answer, r#"{"type": "seeded", "refused": {}}"#),
        (answer, r#"{"type": "rehearsed"}"#),
        (answer, r#"{"type": "namespace_cleared"}"#),
        (answer, r#"{"type": "manifest", "names": []}"#),
        (
            answer,
            r#"{"type": "completions", "start": 0, "candidates": []}"#,
        ),
        (answer, r#"{"type": "saved_part"}"#),
        (
            answer,
            r#"{"type": "saved", "names": [], "library": "pickle", "threads": 0, "processes": 0}"#,
        ),
        (
            report,
            r#"{"type": "called", "cell": STATE.cell, "nonce": "0" * 16, "number": 1, "tool": "t", "blocks": True}"#,
        ),
        (
            report,
            r#"{"type": "cancelled", "cell": STATE.cell, "nonce": "0" * 16, "number": 1}"#,
        ),
        (answer, r#"{"type": "granted"}"#),
        (answer, r#"{"type": "checkpointed"}"#),
        (answer, r#"{"type": "forking"}"#),
        (answer, r#"{"type": "forked", "pid": 1}"#),
        (answer, r#"{"type": "forks_made", "made": 1}"#),
        (answer, r#"{"type": "loaded", "names": []}"#),
        (none, r#"{"type": "final_answer", "value": 42}"#),
        (none, r#"{"type": "tool_result", "value": 42}"#),
        (none, r#"{"type": "approved"}"#),
        (
            none,
            r#"{"cell": STATE.cell, "nonce": STATE.nonce, "end": "ok"}"#,
        ),
        (none, "[]"),
        // As the host would ask, on the same wire.
        (
            none,
            r#"{"type": "run", "cell": 9, "nonce": STATE.nonce, "code": "print(1)"}"#,
        ),
    ];
    let codes = frames.map(|(_, header)| format!("frame({header})\ntime.sleep(5)"));
    let details = all_break(&case, &codes).await;
    for ((expected, header), detail) in frames.iter().zip(&details) {
        assert!(detail.starts_with(expected), "{header}: {detail}");
    }
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2b_replayed_and_early_reports() {
    let case = Case::begin(
        "D2b",
        Severity::Integrity,
        "the report of an earlier cell again, in a later cell; a report for the cell to come, before it starts",
        "the next cell ends as a broken channel, and is never taken for done",
    )
    .await;
    let keep = forging("old = STATE.cell, STATE.nonce\nopen('sent', 'w').close()");
    let replay = r#"
frame({"type": "done", "cell": old[0], "nonce": old[1], "end": "ok"})
time.sleep(5)
"#;
    let between = forging(
        r#"
early = {"type": "done", "cell": STATE.cell + 1, "nonce": STATE.nonce, "end": "ok"}
def later():
    while STATE.cell:
        time.sleep(0.001)
    frame(early)
    open("sent", "w").close()
threading.Thread(target=later).start()
"#,
    );
    all(
        [(&keep, replay), (&between, "time.sleep(5)")].map(|(first, second)| {
            let case = &case;
            async move {
                let session = case.session().await;
                case.printed(&session, first.as_str()).await;
                eventually("the first part", || session.get("sent").is_ok()).await;
                let outcome = case.fails(&session, second).await;
                let detail = broken(&outcome, first);
                assert!(detail.starts_with("a report about cell"), "{detail}");
                session.close().await.unwrap();
            }
        }),
    )
    .await;
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2c_a_report_with_the_true_nonce() {
    let case = Case::begin(
        "D2c",
        Severity::Integrity,
        "a forged report with the nonce out of the driver's memory",
        "a session may lie about its own cell; output, durations, memory and walls are the host's, and the lie ends the session at its next cell",
    )
    .await;
    let session = case.session().await;
    let code = r#"
print("printed", flush=True)
busy = bytearray(64 << 20)
time.sleep(0.2)
frame({
    "type": "done", "cell": STATE.cell, "nonce": STATE.nonce, "end": "ok",
    "walls": "none", "status": "success", "state": {"fate": "restored", "cell": 1},
    "stdout": {"text": "forged"}, "peak_memory_bytes": 1, "durations": {"total_us": 1},
    "artifacts": [{"path": "../../etc/passwd", "size": 1, "change": "created"}],
})
raise SystemExit(3)
"#;
    let outcome = case.outcome(&session, forging(code)).await;
    assert!(outcome.is_success(), "{outcome:#?}");
    assert_eq!(outcome.state, Fate::Kept);
    assert_eq!(outcome.stdout.text, "printed\n");
    assert!(outcome.durations.total_us >= 200_000, "{outcome:#?}");
    assert!(outcome.peak_memory_bytes.unwrap() > 64 << 20);
    assert!(outcome.walls.are_full());
    // A path that it made up opens nothing.
    let got = session.get(&outcome.artifacts[0].path);
    assert!(matches!(got, Err(Error::File(_))), "{got:?}");
    let outcome = case.fails(&session, "print('next')").await;
    let detail = broken(&outcome, "next");
    assert!(detail.starts_with("a report about cell"), "{detail}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2d_a_thread_races_the_driver() {
    let case = Case::begin(
        "D2d",
        Severity::Integrity,
        "a thread writes pieces of frames and whole ones, while the driver writes its own",
        "the cell ends, as what it was or as a broken channel; nothing hangs, no other session notices",
    )
    .await;
    let code = r#"
import random
pieces = [
    b"\0" * 8, b"{}", struct.pack("<II", 2, 0) + b"{}", struct.pack("<II", 1000, 1000),
    json.dumps({"type": "done", "cell": 3, "nonce": STATE.nonce, "end": "ok"}).encode(),
]
def race():
    time.sleep(random.random() / 100)
    while True:
        os.write(3, random.choice(pieces))
threading.Thread(target=race, daemon=True).start()
for i in range(50):
    display(i)
"#;
    let limits = Limits {
        wall_time: seconds(0.5),
        grace: seconds(0.2),
        ..Limits::default()
    };
    all((0..6).map(|_| async {
        let session = case.session_with(limits.clone()).await;
        // The last one is long enough to be struck.
        for cell in [forging(code), "print(1)".into(), "time.sleep(5)".into()] {
            match case.run(&session, cell).await {
                Ok(outcome) => assert!(
                    matches!(
                        outcome.cause,
                        Cause::Completed | Cause::Protocol { .. } | Cause::WallTime { .. }
                    ),
                    "{outcome:#?}"
                ),
                Err(error) => assert!(matches!(error, Error::Ended(_)), "{error}"),
            }
        }
        let next = case.run(&session, "1").await;
        assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
        session.close().await.unwrap();
    }))
    .await;
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2e_forged_answers_between_cells() {
    let case = Case::begin(
        "D2e",
        Severity::Integrity,
        "forged answers to the host's questions between cells: a fault, no frame, an unknown type",
        "the question fails as the session's doing, never as a fault of the host; the session ends",
    )
    .await;
    let answers = [
        r#"{"type": "fault", "detail": "the host is broken"}"#,
        r#"{"type": "final_answer"}"#,
        "{",
    ];
    all(answers.into_iter().map(|header| {
        let case = &case;
        async move {
            let session = case.session().await;
            let later = forging(&format!(
                r"
def later():
    while STATE.cell:
        time.sleep(0.001)
    frame(b'{header}')
    open('sent', 'w').close()
threading.Thread(target=later).start()
"
            ));
            case.printed(&session, later).await;
            eventually("the forged frame", || session.get("sent").is_ok()).await;
            let error = session.manifest().await.unwrap_err();
            assert!(
                matches!(&error, Error::Ended(why) if why.starts_with("it broke the protocol")),
                "{header}: {error:?}"
            );
            let next = case.run(&session, "1").await;
            assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
            session.close().await.unwrap();
        }
    }))
    .await;
    case.end([]).await;
}

/// Waits until all processes of a session are stopped.
async fn stopped(case: &Case, session: &Session) {
    eventually("the stop of the session", || {
        case.members(session).iter().all(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.contains("State:\tT"))
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_d6_a_session_that_does_not_read() {
    let case = Case::begin(
        "D6",
        Severity::PeerDos,
        "a session stops itself, or never leaves C, while the host sends cells of 4 MiB, seeds and questions",
        "the host's writing ends at the deadline (a cell) or after 5 s (a question); other sessions don't notice",
    )
    .await;
    let limits = Limits {
        wall_time: seconds(1.0),
        grace: seconds(0.3),
        ..Limits::default()
    };
    let stop = r"
import os, signal, threading
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGSTOP)).start()
";
    let spin = r"
import itertools, threading
threading.Timer(0.1, sum, (itertools.repeat(1),)).start()
";
    let watch = case.watch_sibling();
    let large = "#".repeat((4 << 20) - 1) + "\n";
    let cell = async |code: &str| {
        let session = case.session_with(limits.clone()).await;
        good(&session, code).await;
        tokio::time::sleep(seconds(0.3)).await;
        let outcome = case.fails(&session, large.clone()).await;
        assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 1000 }, "{code}");
        assert_eq!(outcome.state, Fate::Lost, "{code}");
        session.close().await.unwrap();
    };
    let question = async |seed: bool| {
        let session = case.session_with(limits.clone()).await;
        good(&session, stop).await;
        stopped(&case, &session).await;
        let error = if seed {
            let value = serde_json::Value::String("x".repeat(8 << 20));
            let values = [("x".to_owned(), value)].into_iter().collect();
            session.seed(&values).await.unwrap_err()
        } else {
            session.manifest().await.unwrap_err()
        };
        assert!(matches!(error, Error::Unresponsive), "{error:?}");
        let next = case.run(&session, timed("1", seconds(1.0))).await;
        assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
        session.close().await.unwrap();
    };
    tokio::join!(cell(stop), cell(spin), question(true), question(false));
    watch.finish().await;
    case.end([]).await;
}
