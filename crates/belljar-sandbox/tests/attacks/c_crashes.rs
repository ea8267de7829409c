//! C: crashes of the interpreter.

use belljar_sandbox::Error;
use belljar_sandbox::protocol::{Cause, Fate, Status};

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn c1_crash_by_signal() {
    let case = Case::begin(
        "C1",
        Severity::SelfDos,
        "ctypes.string_at(0); os.abort()",
        "a crash that names its signal; the next session is well",
    )
    .await;
    let mut sessions = Vec::new();
    for (code, number, name) in [
        ("import ctypes; ctypes.string_at(0)", 11, "SIGSEGV"),
        ("import os; os.abort()", 6, "SIGABRT"),
    ] {
        let control = case.control(code).await;
        assert_eq!(control.signal, Some(number), "{control:?}");
        let session = case.session().await;
        let outcome = case.fails(&session, code).await;
        let name = name.to_owned();
        assert_eq!(outcome.cause, Cause::Signal { number, name }, "{outcome:?}");
        assert_eq!(outcome.state, Fate::Lost);
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_exits() {
    let case = Case::begin(
        "C3",
        Severity::SelfDos,
        "sys.exit; SystemExit in a thread; os._exit",
        "sys.exit ends the cell alone; os._exit loses the session, also with code 0",
    )
    .await;
    let session = case.session().await;
    let outcome = case.fails(&session, "import sys\nx = 1\nsys.exit(3)").await;
    assert_eq!(outcome.cause, Cause::Exit { code: 3 });
    assert_eq!(outcome.state, Fate::Kept);
    let thread = "import threading\ndef leave(): raise SystemExit(4)\nt = threading.Thread(target=leave); t.start(); t.join()\nprint(x)";
    assert_eq!(case.printed(&session, thread).await, "1\n");
    let outcome = case.fails(&session, "import os; os._exit(0)").await;
    assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    assert_eq!(outcome.cause, Cause::Exit { code: 0 });
    assert_eq!(outcome.state, Fate::Lost);
    let next = case.run(&session, "1").await;
    assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
    case.end([session]).await;
}
