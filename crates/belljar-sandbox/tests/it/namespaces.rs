//! Several namespaces in one session.

use std::path::Path;

use belljar_sandbox::protocol::{Fate, InspectDetail, Outcome};
use belljar_sandbox::{
    Cell, Checkpoints, Error, Limits, MAX_NAMESPACES, Session, SessionOptions, WhenBusy,
};

use crate::support::{data_engine, engine, good, printed, seconds, session, without_checkpoints};

fn within(namespace: &str, code: &str) -> Cell {
    Cell {
        namespace: Some(namespace.to_owned()),
        ..Cell::from(code)
    }
}

/// Runs a cell in a namespace, and returns its outcome.
async fn outcome(session: &Session, namespace: &str, code: &str) -> Outcome {
    session.run(within(namespace, code)).await.unwrap()
}

/// The same for one that must succeed; returns what it printed.
async fn prints(session: &Session, namespace: &str, code: &str) -> String {
    let outcome = outcome(session, namespace, code).await;
    assert!(outcome.is_success(), "{code}\n{outcome:#?}");
    outcome.stdout.text
}

async fn names(session: &Session, namespace: &str) -> Vec<String> {
    let manifest = session.namespace(namespace).manifest().await.unwrap();
    manifest.into_iter().map(|info| info.name).collect()
}

async fn with_two() -> Session {
    let session = session().await;
    session.create_namespace("a", None).await.unwrap();
    session.create_namespace("b", None).await.unwrap();
    session
}

/// Each has names, `__main__`, `_`, futures and `get_ipython().user_ns` of its own. Modules, files and cell numbers are
/// those of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_several_namespaces() {
    let session = with_two().await;
    good(&session, "x = 1\ndef f(): return x").await;
    let first = outcome(&session, "a", "x = 'a'\ndef g(): return x\nx").await;
    assert_eq!(first.cell, 2);
    let added: Vec<&str> = first
        .changes
        .added
        .iter()
        .map(|info| info.name.as_str())
        .collect();
    assert_eq!(added, ["x", "g"]);
    assert_eq!(
        prints(&session, "b", "print('x' in globals(), __name__)").await,
        "False __main__\n"
    );
    assert_eq!(printed(&session, "print(x, f())").await, "1 1\n");
    assert_eq!(prints(&session, "a", "print(x, g(), _)").await, "a a a\n");
    let own = "import sys, math\nprint(sys.modules['__main__'].__dict__ is globals(), get_ipython().user_ns is globals())";
    for namespace in ["a", "main", "b"] {
        assert_eq!(prints(&session, namespace, own).await, "True True\n");
    }
    // What a module holds, all of them see.
    prints(&session, "a", "math.marked = 7").await;
    assert_eq!(prints(&session, "b", "print(math.marked)").await, "7\n");
    // A class can be pickled where it is defined, and `{x}` and `%who` are those of the namespace.
    let pickled = "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)";
    assert_eq!(prints(&session, "a", pickled).await, "True\n");
    assert_eq!(prints(&session, "a", "!echo {x}").await, "a\n");
    assert_eq!(prints(&session, "main", "!echo {x}").await, "1\n");
    assert_eq!(
        prints(
            &session,
            "a",
            "from __future__ import annotations\ndef h(p: unknown): pass\nprint(h.__annotations__)"
        )
        .await,
        "{'p': 'unknown'}\n"
    );
    let evaluated = outcome(&session, "b", "def h(p: unknown): pass\nh.__annotations__").await;
    assert!(!evaluated.is_success(), "{evaluated:#?}");
    // Awaiting works in each.
    for namespace in ["a", "b", "main"] {
        let code = "import asyncio\nawait asyncio.sleep(0)\nprint('slept')";
        assert_eq!(prints(&session, namespace, code).await, "slept\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_listed_completed_and_inspected_by_namespace() {
    let session = with_two().await;
    good(&session, "only_main = 1").await;
    prints(&session, "a", "def only_a(argument):\n    'Doc of a.'").await;
    assert_eq!(names(&session, "a").await, ["only_a"]);
    assert_eq!(names(&session, "main").await, ["only_main"]);
    assert!(names(&session, "b").await.is_empty());
    assert_eq!(session.manifest().await.unwrap().len(), 1);
    let a = session.namespace("a");
    assert_eq!(a.complete("only", 4).await.unwrap().1, ["only_a"]);
    assert_eq!(session.complete("only", 4).await.unwrap().1, ["only_main"]);
    let empty = session.namespace("b").complete("only", 4).await.unwrap();
    assert!(empty.1.is_empty());
    let told = a.inspect("only_a", 6, InspectDetail::Documentation).await;
    assert!(told.unwrap().unwrap().contains("Doc of a."));
    let told = session.inspect("only_a", 6, InspectDetail::Documentation);
    assert_eq!(told.await.unwrap(), None);
    // The first cell after that is where it was.
    assert_eq!(printed(&session, "print(only_main)").await, "1\n");
    for result in [
        session.namespace("none").manifest().await.err(),
        session.namespace("none").complete("x", 1).await.err(),
        session.namespace("none").restart().await.err(),
        session.namespace("none").remove().await.err(),
        session.run(within("none", "1")).await.err(),
    ] {
        assert!(matches!(result, Some(Error::NoNamespace(name)) if name == "none"));
    }
    // A refused cell has no number.
    assert_eq!(good(&session, "1").await.cell, 4);
}

/// A directory of its own, and what a cell changes of it stays with its namespace.
#[tokio::test(flavor = "multi_thread")]
async fn each_namespace_has_a_directory() {
    let session = session().await;
    session.put("data/x.txt", b"of a").unwrap();
    session.create_namespace("a", Some("data")).await.unwrap();
    let made = session.create_namespace("b", Some("/tmp/late")).await;
    assert_eq!(made.unwrap().directory, Path::new("/tmp/late"));
    let c = session.create_namespace("c", Some("/home/user/data")).await;
    assert_eq!(c.unwrap().directory, Path::new("/workspace/data"));
    let list = session.namespaces().await.unwrap();
    let list: Vec<_> = list
        .iter()
        .map(|one| (one.name.as_str(), one.directory.to_str().unwrap()))
        .collect();
    assert_eq!(
        list,
        [
            ("main", "/workspace"),
            ("a", "/workspace/data"),
            ("b", "/tmp/late"),
            ("c", "/workspace/data")
        ]
    );
    assert_eq!(
        prints(&session, "a", "print(open('x.txt').read())").await,
        "of a\n"
    );
    let here = "import os; print(os.getcwd())";
    assert_eq!(printed(&session, here).await, "/workspace\n");
    // It is not there: the code does not run where its files are not.
    for _ in 0..2 {
        let failed = outcome(&session, "b", "open('made', 'w')").await;
        assert_eq!(failed.state, Fate::Kept);
        let exception = failed.exception.unwrap();
        assert_eq!(exception.type_name, "FileNotFoundError");
        assert!(exception.value.contains("/tmp/late"), "{exception:?}");
    }
    assert_eq!(printed(&session, "print(os.listdir())").await, "['data']\n");
    good(&session, "os.mkdir('/tmp/late')").await;
    assert_eq!(prints(&session, "b", here).await, "/tmp/late\n");
    // `chdir` holds for its namespace.
    prints(&session, "a", "import os; os.chdir('/tmp')").await;
    assert_eq!(printed(&session, here).await, "/workspace\n");
    assert_eq!(prints(&session, "a", here).await, "/tmp\n");
    // One that is gone is left as it was.
    prints(
        &session,
        "b",
        "os.mkdir('deep'); os.chdir('deep'); os.rmdir('../deep')",
    )
    .await;
    assert_eq!(printed(&session, here).await, "/workspace\n");
    session.namespace("a").restart().await.unwrap();
    assert_eq!(prints(&session, "a", here).await, "/workspace/data\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_restarts_and_is_removed() {
    let session = with_two().await;
    good(&session, "x = 'main'; import os; os.chdir('/tmp')").await;
    // The values are gone at once, also those that hold each other.
    let code = "import weakref\nclass Big:\n    def __del__(self): print('freed', flush=True)\nbig = Big()\ndef holds(): return big\nx = 'a'";
    prints(&session, "a", code).await;
    prints(&session, "b", "x = 'b'").await;
    session.namespace("a").restart().await.unwrap();
    assert!(names(&session, "a").await.is_empty());
    let after = outcome(&session, "b", "print(x)").await;
    assert!(after.stdout.text.ends_with("b\n"), "{after:#?}");
    assert!(after.stdout.text.contains("freed"), "{after:#?}");
    assert_eq!(
        printed(&session, "print(x, os.getcwd())").await,
        "main /tmp\n"
    );
    // The current one, and the main one.
    session.namespace("main").restart().await.unwrap();
    assert_eq!(
        printed(&session, "import os\nprint('x' in globals(), os.getcwd())").await,
        "False /workspace\n"
    );
    prints(&session, "b", "import os; os.chdir('/tmp')").await;
    session.namespace("b").remove().await.unwrap();
    assert!(matches!(
        session.run(within("b", "1")).await,
        Err(Error::NoNamespace(_))
    ));
    assert_eq!(
        printed(&session, "print(os.getcwd())").await,
        "/workspace\n"
    );
    let kept: Vec<_> = session.namespaces().await.unwrap();
    assert_eq!(kept.len(), 2);
    // Its name is free, and the new one is empty.
    session.create_namespace("b", None).await.unwrap();
    assert!(names(&session, "b").await.is_empty());
    assert_eq!(
        prints(&session, "b", "print('x' in globals())").await,
        "False\n"
    );
    let refused = session.namespace("main").remove().await;
    assert!(matches!(refused, Err(Error::Namespace(_))));
}

/// Cells of all namespaces share the interpreter. The list is there meanwhile, and a cell whose namespace is removed
/// before its turn does not run.
#[tokio::test(flavor = "multi_thread")]
async fn one_cell_runs_at_a_time() {
    let session = with_two().await;
    let mut waits = session.run(Cell {
        input: true,
        ..within("a", "input()")
    });
    let call = loop {
        if let belljar_sandbox::protocol::Event::InputRequested { call, .. } =
            waits.next().await.unwrap().unwrap()
        {
            break call;
        }
    };
    let refused = session.run(Cell {
        when_busy: WhenBusy::Refuse,
        ..within("b", "1")
    });
    assert!(matches!(refused.await, Err(Error::Busy)));
    session.create_namespace("c", None).await.unwrap();
    assert_eq!(session.namespaces().await.unwrap().len(), 4);
    let next = session.run(within("b", "print('never')"));
    let b = session.namespace("b");
    let (removed, answered, next) = tokio::join!(
        b.remove(),
        async {
            while session.namespaces().await.unwrap().len() == 4 {}
            session.answer_input(call, Some("x".into())).await
        },
        next,
    );
    removed.unwrap();
    answered.unwrap();
    assert!(matches!(next, Err(Error::NoNamespace(_))), "{next:?}");
    assert!(waits.outcome().await.unwrap().is_success());
}

/// A checkpoint has the variables of all of them. The list is the session's, and stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_hold_all_namespaces() {
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..without_checkpoints(Limits::default())
    };
    let session = engine().session_with(options).await.unwrap();
    for name in ["a", "b"] {
        session.create_namespace(name, None).await.unwrap();
        prints(&session, name, &format!("x = '{name}'")).await;
    }
    session.checkpoint("before").await.unwrap();
    session.create_namespace("late", None).await.unwrap();
    prints(&session, "late", "x = 'late'").await;
    prints(&session, "a", "x = 'changed'").await;
    session.namespace("b").remove().await.unwrap();
    // A crash takes all of them back to the last cell.
    let crash = outcome(
        &session,
        "late",
        "import os; x = 0; os.kill(os.getpid(), 9)",
    )
    .await;
    assert!(matches!(crash.state, Fate::Restored { .. }), "{crash:#?}");
    assert_eq!(prints(&session, "late", "print(x)").await, "late\n");
    assert_eq!(prints(&session, "a", "print(x)").await, "changed\n");
    session.restore("before").await.unwrap();
    assert_eq!(prints(&session, "a", "print(x)").await, "a\n");
    assert_eq!(
        prints(&session, "late", "print('x' in globals())").await,
        "False\n"
    );
    // A new one of the name has nothing of the old one, which the checkpoint has.
    assert_eq!(session.namespaces().await.unwrap().len(), 3);
    session.create_namespace("b", None).await.unwrap();
    assert_eq!(
        prints(&session, "b", "print('x' in globals())").await,
        "False\n"
    );
    // All or nothing, in one of them.
    let undone = Cell {
        on_failure: belljar_sandbox::OnFailure::Restore,
        ..within("a", "x = 'half'; 1 / 0")
    };
    session.run(undone).await.unwrap();
    assert_eq!(prints(&session, "a", "print(x)").await, "a\n");
    // What a restart forgot, a checkpoint has.
    session.checkpoint("again").await.unwrap();
    session.namespace("a").restart().await.unwrap();
    assert!(names(&session, "a").await.is_empty());
    session.restore("again").await.unwrap();
    assert_eq!(names(&session, "a").await, ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_have_all_namespaces() {
    let session = session().await;
    session.put("data/x.txt", b"1").unwrap();
    session
        .create_namespace("a", Some("/workspace/data"))
        .await
        .unwrap();
    session.create_namespace("new", Some("data")).await.unwrap();
    prints(&session, "a", "x = 'a'").await;
    good(&session, "x = 'main'").await;
    let fork = session.fork(1).await.unwrap().remove(0);
    assert_eq!(fork.namespaces().await.unwrap().len(), 3);
    prints(
        &fork,
        "a",
        "import os; x += '!'; open('x.txt', 'w').write('2')",
    )
    .await;
    let here = "import os; print(os.getcwd())";
    let data = format!("{}/data\n", fork.directory().display());
    assert_eq!(prints(&fork, "a", here).await, data);
    assert_eq!(prints(&fork, "new", here).await, data);
    assert_eq!(printed(&fork, "print(x)").await, "main\n");
    fork.namespace("a").remove().await.unwrap();
    assert_eq!(
        prints(&session, "a", "print(x, open('x.txt').read())").await,
        "a 1\n"
    );
}

/// Functions, classes and shared objects come back in their namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_hibernation_keep_all_namespaces() {
    let engine = data_engine();
    let session = engine.session().await.unwrap();
    session.put("data/x.txt", b"1").unwrap();
    session.create_namespace("a", Some("data")).await.unwrap();
    session.create_namespace("unused", None).await.unwrap();
    good(&session, "x = 'main'\ndef f(): return x\nshared = [1]").await;
    let code = "import threading, sys\nx = 'a'\ndef f(): return x\nclass C:\n    def get(self): return x\nc = C()\nlock = threading.Lock()\nnames = globals()";
    prints(&session, "a", code).await;
    let hold = "import gc\nnext(o for o in gc.get_objects() if type(o) is dict and o.get('x') == 'a' and 'c' in o)['shared'] = shared";
    good(&session, hold).await;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("snapshot");
    let report = session.snapshot(&path).await.unwrap();
    let left_out: Vec<_> = report
        .names
        .iter()
        .filter(|name| name.why.is_some())
        .collect();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0].name, "lock");
    assert_eq!(left_out[0].namespace.as_deref(), Some("a"));
    let loaded = engine
        .load(&path, SessionOptions::default())
        .await
        .unwrap()
        .0;
    session.hibernate().await.unwrap();
    let woken = &session;
    for session in [&loaded, woken] {
        let list = session.namespaces().await.unwrap();
        let list: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(list, ["main", "a", "unused"]);
        assert_eq!(
            prints(
                session,
                "a",
                "import os; print(x, f(), c.get(), names is globals(), os.getcwd())"
            )
            .await,
            "a a a True /workspace/data\n"
        );
        assert_eq!(printed(session, "print(x, f())").await, "main main\n");
        // It is one list, as it was, and functions see what changes in their own namespace.
        prints(
            session,
            "a",
            "shared.append(2); x = 'new'; print(f(), c.get())",
        )
        .await;
        assert_eq!(
            printed(session, "print(shared, f())").await,
            "[1, 2] main\n"
        );
        assert_eq!(
            prints(session, "unused", "print('x' in globals())").await,
            "False\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_namespaces_is_bounded() {
    let session = session().await;
    for number in 1..MAX_NAMESPACES {
        session
            .create_namespace(&number.to_string(), None)
            .await
            .unwrap();
    }
    let refused = session.create_namespace("more", None).await.unwrap_err();
    assert!(refused.to_string().contains("16, the maximum"), "{refused}");
    session.namespace("1").remove().await.unwrap();
    session.create_namespace("more", None).await.unwrap();
    let taken = session.create_namespace("more", None).await;
    assert!(matches!(taken, Err(Error::Namespace(_))));
}

/// An interrupt and a time limit hit the cell of the namespace, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_in_each_namespace() {
    let session = with_two().await;
    let late = Cell {
        wall_time: Some(seconds(0.3)),
        ..within("a", "x = 1\nwhile True: pass")
    };
    let outcome = session.run(late).await.unwrap();
    assert_eq!(outcome.state, Fate::Kept, "{outcome:#?}");
    assert!(!outcome.is_success());
    assert_eq!(prints(&session, "b", "print(1)").await, "1\n");
    assert_eq!(names(&session, "a").await, ["x"]);
}
