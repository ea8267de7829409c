//! B: time, and ends that must come.

use belljar_sandbox::protocol::{Cause, Fate, Status};
use belljar_sandbox::{Error, Limits};

use crate::harness::{Case, Severity};
use crate::support::{seconds, timed};

fn impatient() -> Limits {
    Limits {
        grace: seconds(0.2),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_endless_loop() {
    let case = Case::begin(
        "B1",
        Severity::SelfDos,
        "while True: pass",
        "interrupted at its time; variables are kept",
    )
    .await;
    let session = case.session_with(impatient()).await;
    case.printed(&session, "x = 'before'").await;
    let outcome = case
        .fails(&session, timed("while True: pass", seconds(0.3)))
        .await;
    assert_eq!(outcome.status, Status::Timeout, "{outcome:?}");
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 300 });
    assert_eq!(outcome.state, Fate::Kept);
    assert_eq!(case.printed(&session, "print(x)").await, "before\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_deaf_to_interrupts() {
    let case = Case::begin(
        "B2",
        Severity::SelfDos,
        "sum(itertools.repeat(1)); deque(count(), maxlen=0)",
        "ended at its time and the grace; the session is lost",
    )
    .await;
    let mut sessions = Vec::new();
    for code in [
        "import itertools; sum(itertools.repeat(1))",
        "import collections, itertools; collections.deque(itertools.count(), maxlen=0)",
    ] {
        let session = case.session_with(impatient()).await;
        let outcome = case.fails(&session, timed(code, seconds(0.2))).await;
        assert_eq!(
            outcome.cause,
            Cause::WallTime { limit_ms: 200 },
            "{outcome:?}"
        );
        assert_eq!(outcome.state, Fate::Lost);
        assert!(outcome.durations.total_us < 2_000_000, "{outcome:?}");
        let next = case.run(&session, "1").await;
        assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_daemon() {
    let case = Case::begin(
        "B5",
        Severity::PeerDos,
        "a daemon by double fork that writes a file for ever",
        "it runs until its session ends, and dies with it",
    )
    .await;
    let session = case.session().await;
    let daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while 1:\n            with open('alive', 'a') as f: f.write('x')\n            time.sleep(0.02)\n    os._exit(0)\nos.wait()";
    case.printed(&session, daemon).await;
    let grows = "size = os.path.getsize('alive') if os.path.exists('alive') else 0\ntime.sleep(0.2)\nprint(os.path.getsize('alive') > size)";
    assert_eq!(case.printed(&session, grows).await, "True\n");
    assert_eq!(case.members(&session).len(), 2);
    // The oracle looks for it once the session is closed.
    case.end([session]).await;
}
