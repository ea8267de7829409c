//! State that outlives the death of its process.

use belljar_sandbox::protocol::{Cause, Changes, Fate, Status};
use belljar_sandbox::{
    Cell, CheckpointRef, Checkpoints, Engine, Error, Limits, OnFailure, Session, SessionOptions,
};

use crate::posture;
use crate::support::{
    bare_environment, data_engine, engine, good, plain_builder, printed, seconds, timed,
};

pub(crate) fn kept(checkpoints: Checkpoints) -> SessionOptions {
    SessionOptions {
        checkpoints,
        limits: Limits {
            grace: seconds(3.0),
            memory_bytes: 256 << 20,
            ..Limits::default()
        },
        ..SessionOptions::default()
    }
}

async fn session(checkpoints: Checkpoints) -> Session {
    plain_builder(bare_environment())
        .build()
        .session_with(kept(checkpoints))
        .await
        .unwrap()
}

/// The cells and names of the copies that are kept.
async fn listed(session: &Session) -> Vec<(u32, Option<String>)> {
    let list = session.checkpoints().await.unwrap();
    list.into_iter()
        .map(|copy| (copy.cell, copy.name))
        .collect()
}

async fn cells(session: &Session) -> Vec<u32> {
    listed(session)
        .await
        .iter()
        .map(|(cell, _)| *cell)
        .collect()
}

/// Ways to lose a process.
const DEATHS: &[(&str, &str)] = &[
    ("segfault", "import ctypes; ctypes.string_at(0)"),
    ("abort", "import os; os.abort()"),
    ("exit", "import os; os._exit(3)"),
    ("deadline", "import itertools; sum(itertools.repeat(1))"),
    // From Python 3.12 on the main thread's stack is longer than Python lets it become.
    (
        "recursion",
        "import sys, threading; sys.setrecursionlimit(10**9); _ = threading.stack_size(1 << 16)\nclass A:\n    def __add__(s, o): return s + o\nt = threading.Thread(target=lambda: A() + 1); t.start(); t.join()",
    ),
    (
        "memory",
        "import resource\nhogs = []\nimport mmap\nwhile True:\n    m = mmap.mmap(-1, 1 << 24); m.write(b'x' * (1 << 24)); hogs.append(m)",
    ),
];

/// Variables, functions and classes of earlier cells are there after each kind of death.
#[tokio::test(flavor = "multi_thread")]
async fn state_outlives_every_death() {
    for checkpoints in [Checkpoints::Auto, Checkpoints::Every] {
        let session = session(checkpoints).await;
        good(&session, "x = [1]\ndef double(n): return 2 * n\nclass Point:\n    def __init__(self, n): self.n = n\np = Point(4)").await;
        for (name, code) in DEATHS {
            let before = good(&session, "x.append(len(x) + 1)").await.cell;
            // The caller thinks.
            tokio::time::sleep(seconds(0.1)).await;
            // Only one of them is to end by time, however slow the machine is.
            let limit = seconds(if *name == "deadline" { 2.0 } else { 60.0 });
            let outcome = session.run(timed(code, limit)).await.unwrap();
            assert_ne!(outcome.status, Status::Success, "{name}: {outcome:?}");
            assert_eq!(
                outcome.state,
                Fate::Restored { cell: before },
                "{name}: {outcome:?}"
            );
            match *name {
                "segfault" => assert!(matches!(outcome.cause, Cause::Signal { number: 11, .. })),
                "recursion" => assert!(matches!(outcome.cause, Cause::Signal { number: 11, .. })),
                "abort" => assert!(matches!(outcome.cause, Cause::Signal { number: 6, .. })),
                "exit" => assert_eq!(outcome.cause, Cause::Exit { code: 3 }),
                "deadline" => assert_eq!(outcome.status, Status::Timeout),
                "memory" => assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}"),
                _ => {}
            }
            assert_eq!(
                printed(&session, "print(len(x), double(3), p.n, type(p) is Point)").await,
                format!("{} 6 4 True\n", outcome.cell.div_ceil(3) + 1),
                "{name}"
            );
        }
    }
}

/// A restored session continues as any other: it is interrupted, dies again with the true reason, has
/// its random numbers and its files; what ran beside it is gone, and told.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_session_is_a_session() {
    let session = session(Checkpoints::Every).await;
    let code = "import random, threading, time, os, subprocess\nrandom.seed(7); random.random()\nstop = threading.Event()\nthreading.Thread(target=stop.wait, daemon=True).start()\nchild = subprocess.Popen(['sleep', '60'])\nopen('file', 'w').write('1')";
    good(&session, code).await;
    let outcome = session.run("os.kill(os.getpid(), 11)").await.unwrap();
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    let lacking = outcome.notes.join("; ");
    assert!(
        lacking.contains("1 earlier threads") && lacking.contains("1 earlier child processes"),
        "{lacking}"
    );
    // Two processes and the copy: no sleep.
    let text = printed(&session, "print(sum(open(f'/proc/{p}/comm').read() == 'sleep\\n' for p in os.listdir('/proc') if p.isdigit()), threading.active_count(), open('file').read())").await;
    assert_eq!(text, "0 1 1\n");
    let drawn =
        "import random; r = random.Random(7); r.random(); print(random.random() == r.random())";
    assert_eq!(printed(&session, drawn).await, "True\n");
    let outcome = session.run(timed("while True: pass", seconds(0.3))).await;
    let outcome = outcome.unwrap();
    assert_eq!(
        (outcome.status, outcome.state),
        (Status::Timeout, Fate::Kept)
    );
    let outcome = session.run("os._exit(5)").await.unwrap();
    assert_eq!(outcome.cause, Cause::Exit { code: 5 }, "{outcome:?}");
    assert!(
        matches!(outcome.state, Fate::Restored { .. }),
        "{outcome:?}"
    );
    let outcome = session.run("os.abort()").await.unwrap();
    assert!(
        matches!(outcome.cause, Cause::Signal { number: 6, .. }),
        "{outcome:?}"
    );
    assert_eq!(printed(&session, "print(open('file').read())").await, "1\n");
    // No child of the session is a copy that its code could wait for.
    let waits = "try: print(os.wait())\nexcept ChildProcessError: print('no child')";
    assert_eq!(printed(&session, waits).await, "no child\n");
}

/// Rollback: to any of the kept cells, and again from there.
#[tokio::test(flavor = "multi_thread")]
async fn going_back_to_a_cell() {
    let session = session(Checkpoints::Every).await;
    for n in 1..=6 {
        good(&session, &format!("x = {n}")).await;
    }
    assert_eq!(cells(&session).await, [3, 4, 5, 6]);
    session.restore(4).await.unwrap();
    assert_eq!(cells(&session).await, [3, 4]);
    assert_eq!(printed(&session, "print(x)").await, "4\n");
    session.restore(3).await.unwrap();
    assert_eq!(printed(&session, "print(x)").await, "3\n");
    let error = session.restore(5).await.unwrap_err();
    assert!(
        matches!(error, Error::NoCheckpoint(CheckpointRef::Cell(5))),
        "{error}"
    );
    assert_eq!(printed(&session, "print(x)").await, "3\n");
}

/// Named copies are kept beside the recent ones with every policy, through restores and crashes,
/// until their name is used again or forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn going_back_to_a_name() {
    for checkpoints in [Checkpoints::Off, Checkpoints::Auto, Checkpoints::Every] {
        let session = session(checkpoints).await;
        session.checkpoint("start").await.unwrap();
        good(&session, "x = 1").await;
        session.checkpoint("one").await.unwrap();
        for n in 2..=7 {
            good(&session, &format!("x = {n}")).await;
        }
        let named = |all: Vec<(u32, Option<String>)>| -> Vec<_> {
            let named = all.into_iter();
            named
                .filter_map(|(cell, name)| Some((name?, cell)))
                .collect()
        };
        let both = [("start".to_owned(), 0), ("one".to_owned(), 1)];
        assert_eq!(named(listed(&session).await), both);
        // Twice: it is kept again, as the newest one.
        for _ in 0..2 {
            session.restore("one").await.unwrap();
            assert_eq!(named(listed(&session).await), both);
            assert_eq!(printed(&session, "print(x); x = 9").await, "1\n");
        }
        session.restore("start").await.unwrap();
        assert_eq!(
            printed(&session, "print('x' in globals())").await,
            "False\n"
        );
        let error = session.restore("two").await.unwrap_err();
        assert!(
            error.to_string().contains("no such checkpoint: `two`"),
            "{error}"
        );
        // The name of a copy of before is used again. A crash goes back to the newest copy.
        good(&session, "x = 2").await;
        session.checkpoint("one").await.unwrap();
        let outcome = session.run("import os; os.abort()").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 11 }, "{outcome:?}");
        assert_eq!(
            named(listed(&session).await).last(),
            Some(&("one".into(), 11))
        );
        session.restore("one").await.unwrap();
        assert_eq!(printed(&session, "print(x)").await, "2\n");
        session.forget("one").await.unwrap();
        let error = session.restore("one").await.unwrap_err();
        assert!(
            matches!(error, Error::NoCheckpoint(CheckpointRef::Name(_))),
            "{error}"
        );
    }
}

/// A copy by name waits for the cell that runs, and there is a most of them.
#[tokio::test(flavor = "multi_thread")]
async fn named_checkpoints_are_counted() {
    let session = session(Checkpoints::Off).await;
    let running = session.run("import time; time.sleep(0.3); x = 5");
    tokio::time::sleep(seconds(0.1)).await;
    session.checkpoint("0").await.unwrap();
    running.await.unwrap();
    for n in 1..16 {
        session.checkpoint(&n.to_string()).await.unwrap();
    }
    let error = session.checkpoint("16").await.unwrap_err();
    assert!(
        matches!(error, Error::TooManyCheckpoints { limit: 16 }),
        "{error}"
    );
    session.checkpoint("3").await.unwrap();
    session.forget("4").await.unwrap();
    session.checkpoint("16").await.unwrap();
    assert_eq!(listed(&session).await.len(), 16);
    good(&session, "del x").await;
    session.restore("0").await.unwrap();
    assert_eq!(printed(&session, "print(x)").await, "5\n");
}

/// The private memory of a checkpoint is reported: nothing of the data at first, all of it once the session wrote.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_checkpoint_is_reported() {
    let session = session(Checkpoints::Off).await;
    good(&session, "data = bytearray(b'x') * (50 << 20)").await;
    session.checkpoint("data").await.unwrap();
    let held = async || {
        session.checkpoints().await.unwrap()[0]
            .memory_bytes
            .unwrap()
    };
    assert!(held().await < 20 << 20, "{}", held().await);
    good(&session, "for i in range(0, len(data), 4096): data[i] = 0").await;
    assert!(
        (50 << 20..70 << 20).contains(&held().await),
        "{}",
        held().await
    );
}

/// Cells that rewrite all of their data again and again: older copies are given up, and no cell is
/// ended for the memory that they hold. Named ones stay.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_make_room() {
    for checkpoints in [Checkpoints::Auto, Checkpoints::Every] {
        let mut options = kept(checkpoints);
        options.limits.memory_bytes = 512 << 20;
        let session = engine().session_with(options).await.unwrap();
        session.checkpoint("start").await.unwrap();
        good(&session, "data = bytearray(100 << 20)").await;
        for n in 1..=10 {
            good(&session, &format!("part = bytes([{n}]) * (1 << 20)")).await;
            good(
                &session,
                "for at in range(0, len(data), 1 << 20): data[at:at + (1 << 20)] = part",
            )
            .await;
            // The caller thinks.
            tokio::time::sleep(seconds(0.03)).await;
        }
        let list = session.checkpoints().await.unwrap();
        assert_eq!(list[0].name.as_deref(), Some("start"));
        let total: u64 = list.iter().filter_map(|copy| copy.memory_bytes).sum();
        assert!(total < 350 << 20, "{list:?}");
        let outcome = session.run("import os; os.abort()").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 21 }, "{outcome:?}");
        assert_eq!(
            printed(&session, "print(data[0], data[-1], len(data))").await,
            "10 10 104857600\n"
        );
    }
}

/// The copy that a cell may go back to is not given up for want of memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_undone_also_where_memory_is_short() {
    let session = session(Checkpoints::Every).await;
    good(&session, "data = b'x' * (160 << 20)").await;
    let cell = Cell {
        on_failure: OnFailure::Restore,
        ..Cell::from("y = 1; 1 / 0")
    };
    let outcome = session.run(cell).await.unwrap();
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    assert_eq!(
        printed(&session, "print(len(data), 'y' in globals())").await,
        "167772160 False\n"
    );
}

/// Where memory runs out, the session's process is ended and not its copy, also if that is larger.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_outlives_the_memory_kill() {
    let session = session(Checkpoints::Every).await;
    good(&session, "data = b'x' * (160 << 20)").await;
    let outcome = session
        .run("import mmap\ndel data\nhogs = []\nwhile True:\n    hog = mmap.mmap(-1, 1 << 22); hog.write(b'x' * (1 << 22)); hogs.append(hog)")
        .await
        .unwrap();
    assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}");
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    assert_eq!(printed(&session, "print(len(data))").await, "167772160\n");
}

/// A session at its process limit says so and continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_can_not_be_made() {
    let session = session(Checkpoints::Off).await;
    let fill = "import os, signal\nchildren = []\ntry:\n    while True:\n        child = os.fork()\n        if child == 0: signal.pause()\n        children.append(child)\nexcept OSError: pass";
    good(&session, fill).await;
    let error = session.checkpoint("full").await.unwrap_err();
    assert!(matches!(error, Error::NotCheckpointed(_)), "{error}");
    good(
        &session,
        "for child in children: os.kill(child, 9)\nfor child in children: os.waitpid(child, 0)",
    )
    .await;
    session.checkpoint("full").await.unwrap();
}

/// All or nothing: a cell that does not succeed leaves nothing behind but its outcome and its files.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_fails_is_undone() {
    for checkpoints in [Checkpoints::Off, Checkpoints::Auto, Checkpoints::Every] {
        let session = session(checkpoints).await;
        let run = async |code: &str| {
            let cell = Cell {
                on_failure: OnFailure::Restore,
                ..timed(code, seconds(2.0))
            };
            session.run(cell).await.unwrap()
        };
        // Before the first cell as well.
        let outcome = run("x = 0; 1 / 0").await;
        assert_eq!(outcome.state, Fate::Restored { cell: 0 }, "{outcome:?}");
        assert_eq!(outcome.exception.unwrap().type_name, "ZeroDivisionError");
        let values = serde_json::json!({"seeded": 7});
        session.seed(values.as_object().unwrap()).await.unwrap();
        let outcome = run("del seeded; x = 1; import sys; sys.exit(3)").await;
        assert_eq!(outcome.cause, Cause::Exit { code: 3 });
        assert_eq!(outcome.state, Fate::Restored { cell: 0 }, "{outcome:?}");
        assert_eq!(outcome.changes, Changes::default());
        assert_eq!(
            printed(&session, "print(seeded, 'x' in globals())").await,
            "7 False\n"
        );

        let outcome = run("x = [1]").await;
        assert_eq!(
            (outcome.status, outcome.state),
            (Status::Success, Fate::Kept)
        );
        let last = outcome.cell;
        for (name, code) in DEATHS {
            let outcome = run(&format!(
                "x.append(2); open('made', 'w').write('1')\n{code}"
            ))
            .await;
            assert_ne!(outcome.status, Status::Success, "{name}");
            assert_eq!(
                outcome.state,
                Fate::Restored { cell: last },
                "{name}: {outcome:?}"
            );
        }
        let outcome = run("x.append(2)\nwhile True: pass").await;
        assert_eq!(outcome.status, Status::Timeout);
        assert_eq!(outcome.state, Fate::Restored { cell: last }, "{outcome:?}");
        assert_eq!(
            printed(&session, "print(x, open('made').read())").await,
            "[1] 1\n"
        );
        if checkpoints == Checkpoints::Off {
            assert_eq!(listed(&session).await, []);
        }
        // As ever, for the others.
        let outcome = session.run("x.append(2); 1 / 0").await.unwrap();
        assert_eq!(outcome.state, Fate::Kept);
        assert_eq!(printed(&session, "print(x)").await, "[1, 2]\n");
    }
}

/// `auto`: a copy is made in a pause, and cells that follow each other at once don't wait for one.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_made_in_pauses() {
    let session = session(Checkpoints::Auto).await;
    for n in 1..=200 {
        good(&session, &format!("x = {n}")).await;
    }
    assert!(cells(&session).await.last() < Some(&200));
    for _ in 0..500 {
        if cells(&session).await.last() == Some(&200) {
            return;
        }
        tokio::time::sleep(seconds(0.01)).await;
    }
    panic!("no copy was made in the pause");
}

/// Processes that fork without pause don't keep a session from being restored, and don't stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_is_cleared_away() {
    let session = session(Checkpoints::Every).await;
    good(&session, "x = 1").await;
    let bomb = "\
import os
try:
    for _ in range(20):
        if os.fork() == 0:
            while True:
                try:
                    if os.fork(): os._exit(0)
                except OSError: pass
except OSError: pass  # There are as many as there may be.
os.kill(os.getpid(), 9)";
    let outcome = session.run(bomb).await.unwrap();
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    let count = "import os; print(x, len([p for p in os.listdir('/proc') if p.isdigit()]) <= 4)";
    assert_eq!(printed(&session, count).await, "1 True\n");
}

/// The default, also for pooled sessions. Without walls there are none, and a request for one is an error.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_made_by_default() {
    for pooled in [0, 1] {
        let engine = plain_builder(bare_environment()).warm_pool(pooled).build();
        engine.warm().await.unwrap();
        let session = engine.session().await.unwrap();
        good(&session, "x = 1").await;
        tokio::time::sleep(seconds(0.2)).await;
        let outcome = session.run("import os; os.abort()").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    }
    let engine = Engine::builder(bare_environment()).without_walls().build();
    let session = engine.session().await.unwrap();
    good(&session, "x = 1").await;
    assert_eq!(listed(&session).await, []);
    let error = session.checkpoint("one").await.unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    let all_or_nothing = Cell {
        on_failure: OnFailure::Restore,
        ..Cell::from("x = 2")
    };
    let error = session.run(all_or_nothing).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    let outcome = session.run("import os; os.abort()").await.unwrap();
    assert_eq!(outcome.state, Fate::Lost);
    let error = engine
        .session_with(kept(Checkpoints::Every))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

/// H5b: code that takes every limit from its init still has a session that is restored.
#[tokio::test(flavor = "multi_thread")]
async fn an_init_without_limits_still_tells() {
    let session = session(Checkpoints::Every).await;
    good(&session, "import os, resource\nfor kind in range(16):\n    try: resource.prlimit(1, kind, (0, 0))\n    except PermissionError: pass").await;
    for _ in 0..30 {
        good(&session, "x = 1").await;
        let outcome = session.run("os._exit(3)").await.unwrap();
        assert_eq!(outcome.cause, Cause::Exit { code: 3 }, "{outcome:?}");
        assert!(
            matches!(outcome.state, Fate::Restored { .. }),
            "{outcome:?}"
        );
    }
}

/// Off: as if there were none.
#[tokio::test]
async fn without_checkpoints_a_crash_is_the_end() {
    let session = engine().session().await.unwrap();
    good(&session, "x = 1").await;
    let outcome = session.run("import os; os._exit(3)").await.unwrap();
    assert_eq!(outcome.state, Fate::Lost);
    assert!(matches!(session.run("x").await, Err(Error::Ended(_))));
}

/// 300 crashes of random kinds lose nothing that an earlier good cell bound.
#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_crashes() {
    let session = session(Checkpoints::Every).await;
    good(&session, "import ctypes, os\nbound = 0").await;
    for round in 1..=300_usize {
        good(&session, &format!("v{round} = {round}; bound += 1")).await;
        let (name, code) = DEATHS[round % 3];
        let outcome = session.run(code).await.unwrap();
        assert!(
            matches!(outcome.state, Fate::Restored { .. }),
            "{round} {name}: {outcome:?}"
        );
    }
    let all = "print(bound, sum(globals()[f'v{n}'] for n in range(1, 301)))";
    assert_eq!(printed(&session, all).await, "300 45150\n");
}

/// A frame and a fitted model.
#[tokio::test(flavor = "multi_thread")]
async fn data_outlives_a_segfault() {
    let options = SessionOptions {
        checkpoints: Checkpoints::Auto,
        ..SessionOptions::default()
    };
    let session = data_engine().session_with(options).await.unwrap();
    good(&session, "import numpy as np, pandas as pd\nfrom sklearn.linear_model import LinearRegression\nframe = pd.DataFrame({'a': np.arange(1000), 'b': np.arange(1000) * 2.0})\nmodel = LinearRegression().fit(frame[['a']], frame['b'])").await;
    tokio::time::sleep(seconds(0.2)).await;
    let outcome = session
        .run("import ctypes; ctypes.string_at(0)")
        .await
        .unwrap();
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    let text = printed(
        &session,
        "print(frame['a'].sum(), round(float(model.predict(pd.DataFrame({'a': [21]}))[0])))",
    )
    .await;
    assert_eq!(text, "499500 42\n");
}

/// G17: a restored session is behind the same walls.
#[tokio::test(flavor = "multi_thread")]
async fn g17_posture_of_a_restored_session() {
    let session = plain_builder(bare_environment()).build();
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..SessionOptions::default()
    };
    let session = session.session_with(options).await.unwrap();
    good(&session, posture::POSTURE).await;
    for _ in 0..2 {
        let outcome = session.run("os.abort()").await.unwrap();
        assert!(
            matches!(outcome.state, Fate::Restored { .. }),
            "{outcome:?}"
        );
        let found = printed(&session, "print(posture())").await;
        assert_eq!(posture::lines(&found), posture::lines(posture::GOLDEN));
    }
}

/// D2: copies that code in a session tells of are counted, and can only be processes of its own.
#[tokio::test(flavor = "multi_thread")]
async fn forged_checkpoints_win_nothing() {
    let forge = |pid: i32, times: u32| {
        format!(
            "import os, json, struct\nfor _ in range({times}):\n    head = json.dumps({{'type': 'kept', 'cell': 2, 'pid': {pid}}}).encode()\n    os.write(3, struct.pack('<II', len(head), 0) + head)"
        )
    };
    // Of a stranger: not believed. Of itself: it can't be woken.
    for pid in [1, 2, 99999, -1] {
        let session = session(Checkpoints::Every).await;
        good(&session, "x = 1").await;
        let outcome = session.run(forge(pid, 1)).await.unwrap();
        // The true copy of that cell is then one too many.
        assert!(
            matches!(outcome.cause, Cause::Protocol { .. }),
            "{outcome:?}"
        );
        assert_eq!(
            outcome.state,
            Fate::Restored { cell: 1 },
            "{pid}: {outcome:?}"
        );
        assert_eq!(printed(&session, "print(x)").await, "1\n");
    }
    for asked in ["False", "True"] {
        let session = session(Checkpoints::Off).await;
        let forged = forge(2, 1).replace("'cell'", &format!("'asked': {asked}, 'cell'"));
        let outcome = session.run(forged).await.unwrap();
        assert!(
            matches!(outcome.cause, Cause::Protocol { .. }),
            "{outcome:?}"
        );
        assert_eq!(outcome.state, Fate::Lost);
    }
}

/// A snapshot is made and loaded as well by sessions that keep copies, restored ones too.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_session_has_snapshots() {
    let engine = engine();
    let session = engine.session_with(kept(Checkpoints::Auto)).await.unwrap();
    good(&session, "x = [1, 2]").await;
    tokio::time::sleep(seconds(0.2)).await;
    let outcome = session.run("import os; os.abort()").await.unwrap();
    assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("snapshot");
    session.snapshot(&path).await.unwrap();
    let (loaded, _) = engine.load(&path, kept(Checkpoints::Every)).await.unwrap();
    good(&loaded, "x.append(3)").await;
    let outcome = loaded.run("import os; os.abort()").await.unwrap();
    assert!(
        matches!(outcome.state, Fate::Restored { .. }),
        "{outcome:?}"
    );
    assert_eq!(printed(&loaded, "print(x)").await, "[1, 2, 3]\n");
}
