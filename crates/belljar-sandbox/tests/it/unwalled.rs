//! `--walls=none`: the same sessions without any protection, and never silently.

use belljar_sandbox::protocol::{Cause, Language, Status, Walls};
use belljar_sandbox::{
    Capability, Cell, Checkpoints, Engine, Error, OnFailure, SessionOptions, Unsupported,
};

use crate::support::{
    bare_environment, eventually, good, plain_builder, printed, processes_below, seconds, timed,
};

/// Cells, files and limits on time work as ever; each outcome says what is missing; and at the end
/// nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_without_walls_say_so() {
    let engine = Engine::builder(bare_environment()).without_walls().build();
    let session = engine.session().await.unwrap();
    let outcome = good(&session, "import os\nx = 1\nprint(os.getuid())").await;
    assert_eq!(outcome.walls, Walls::None);
    assert_eq!(session.in_use(), None);
    let json = serde_json::to_value(&outcome).unwrap();
    assert_eq!(json["walls"], "none");
    assert!(
        outcome
            .text("", Language::English)
            .contains("WITHOUT walls")
    );
    let user = rustix::process::getuid().as_raw();
    assert_eq!(outcome.stdout.text, format!("{user}\n"));

    session.put("in.txt", b"1").unwrap();
    let outcome = good(
        &session,
        "open('out.txt', 'w').write(open('in.txt').read())",
    )
    .await;
    assert_eq!(outcome.artifacts[0].path, "out.txt");
    assert_eq!(session.get("out.txt").unwrap(), b"1");
    // Its `/tmp` is that of the host.
    let denied = session.put("/tmp/x", b"").unwrap_err().to_string();
    assert!(denied.contains("permission denied"), "{denied}");

    let outcome = session.run(timed("while True: pass", seconds(0.3))).await;
    assert_eq!(outcome.unwrap().status, Status::Timeout);
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    let outcome = session.run("os.abort()").await.unwrap();
    assert!(
        matches!(outcome.cause, Cause::Signal { number: 6, .. }),
        "{outcome:?}"
    );
    assert_eq!(outcome.walls, Walls::None);

    let session = engine.session().await.unwrap();
    let daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(100)";
    good(&session, daemon).await;
    drop(session);
    engine.shutdown().await;
    eventually("the end of all processes", || {
        processes_below(std::process::id()).is_empty()
    })
    .await;
}

/// What takes walls is refused by name, and the session continues.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_walls_is_refused_without_them() {
    let engine = Engine::builder(bare_environment()).without_walls().build();
    let capabilities: Vec<_> = engine.capabilities().iter().collect();
    assert_eq!(capabilities, [Capability::Packages, Capability::Watches]);
    let session = engine.session().await.unwrap();
    good(&session, "x = 1").await;
    let refused = |error: Error| match error {
        Error::Unsupported(Unsupported(capability)) => capability,
        other => panic!("{other}"),
    };
    let error = session.fork(1).await.unwrap_err();
    assert_eq!(refused(error), Capability::Forks);
    let error = session.checkpoint("a").await.unwrap_err();
    assert_eq!(refused(error), Capability::Checkpoints);
    let undone = Cell {
        on_failure: OnFailure::Restore,
        ..Cell::from("x = 2")
    };
    let error = session.run(undone).await.unwrap_err();
    assert_eq!(refused(error), Capability::Checkpoints);
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..SessionOptions::default()
    };
    let error = engine.session_with(options).await.unwrap_err();
    assert_eq!(refused(error), Capability::Checkpoints);

    let engine = plain_builder(bare_environment()).build();
    assert!(engine.capabilities().has(Capability::Forks));
}

/// With walls nothing is said, and the field is not even there.
#[tokio::test]
async fn full_walls_are_silent() {
    let session = crate::support::session().await;
    let outcome = good(&session, "1").await;
    assert_eq!(outcome.walls, Walls::Full);
    assert!(
        serde_json::to_value(&outcome)
            .unwrap()
            .get("walls")
            .is_none()
    );
}
