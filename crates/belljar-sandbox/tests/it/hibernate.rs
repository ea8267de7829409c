//! Hibernated sessions: a snapshot instead of processes, until the next use.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::{CallId, Cause, Event, Fate, Outcome, Walls};
use belljar_sandbox::{
    Cell, Checkpoints, DetachedSession, Engine, Error, Limits, SavedSnapshot, Session,
    SessionOptions, SnapshotError, WhenBusy,
};
use rustix::process::getuid;

use crate::support::{
    bare_environment, data_engine, descriptors, engine, eventually, good, inits, printed,
    processes_below, seconds, session, traces, without_checkpoints,
};

const HIBERNATED: &str = "and was restarted: only variables and files of the workspace were saved, not /tmp, environment variables and the current directory";

/// Files of hibernated sessions in the engine's directory.
fn hibernated_snapshots() -> BTreeSet<PathBuf> {
    let directories = traces(std::process::id()).directories;
    let entries = directories.iter().flat_map(|path| path.read_dir().unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().contains("hibernated-"))
        .collect()
}

/// The cgroups beneath those of the engine.
fn cgroups() -> BTreeSet<PathBuf> {
    let trees = traces(std::process::id()).cgroups;
    let entries = trees.iter().flat_map(|path| path.read_dir().unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

fn told(outcome: &Outcome) -> Vec<&str> {
    outcome.notes.iter().map(String::as_str).collect()
}

async fn hibernate_session(session: &Session) {
    session.hibernate().await.unwrap();
    assert!(session.is_hibernated());
}

/// Nothing of it runs while it sleeps, and all of it is back in the next cell.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_hibernates_and_wakes() {
    let engine = data_engine();
    let other = engine.session().await.unwrap();
    good(&other, "1").await;
    let (without, processes) = (cgroups(), processes_below(std::process::id()).len());
    let session = engine.session().await.unwrap();
    let code = "import pandas as pd, os\nclass Box:\n    def __init__(self, n): self.n = n\ndef twice(box): return 2 * box.n\nbox = Box(21)\nalias = box\nframe = pd.DataFrame({'a': range(5)})\nos.mkdir('sub')\nopen('sub/note.txt', 'w').write('hi')";
    good(&session, code).await;
    let id = session.id();
    assert_ne!(cgroups(), without);
    assert!(session.private_bytes().unwrap() > 0);
    let report = session.hibernate().await.unwrap();
    assert!(session.is_hibernated());
    assert_eq!(report.files, 1);
    assert_eq!(session.private_bytes(), Some(0));
    // Dead ones are there until they are reaped.
    eventually("the end of its processes", || {
        processes_below(std::process::id()).len() == processes
    })
    .await;
    eventually("the removal of its cgroup", || cgroups() == without).await;
    // Only its owner may read it.
    let files = hibernated_snapshots();
    assert_eq!(files.len(), 1);
    let meta = std::fs::metadata(files.first().unwrap()).unwrap();
    assert_eq!(
        (meta.uid(), meta.mode() & 0o777),
        (getuid().as_raw(), 0o600)
    );

    let outcome = good(
        &session,
        "print(twice(alias), alias is box, isinstance(box, Box), frame['a'].sum(), open('sub/note.txt').read())",
    )
    .await;
    assert_eq!(outcome.stdout.text, "42 True True 10 hi\n");
    assert_eq!((outcome.cell, outcome.state), (2, Fate::Kept));
    assert_eq!(
        told(&outcome)[0],
        format!("the session hibernated after cell 1 {HIBERNATED}")
    );
    assert_eq!(session.id(), id);
    assert!(!session.is_hibernated());
    assert!(hibernated_snapshots().is_empty());
    // It is reported once.
    let outcome = good(&session, "1").await;
    assert_eq!((outcome.cell, outcome.notes), (3, vec![]));
    let error = session.run("twice(None)").await.unwrap();
    let traceback = error.exception.unwrap().traceback;
    assert!(
        traceback.contains("def twice(box): return 2 * box.n"),
        "{traceback}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_told() {
    let session = data_engine()
        .session_with(without_checkpoints(Limits::default()))
        .await
        .unwrap();
    session.checkpoint("mine").await.unwrap();
    let code = "import os, subprocess, threading, time\ngood = 1\ndef count(): yield 1\ngenerator = count()\nlock = threading.Lock()\nfile = open('open.txt', 'w')\nos.symlink('open.txt', 'link')\nthread = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nthread.start()\nchild = subprocess.Popen(['/bin/sleep', '600'])\nprint('x' * 2_000_000)\nthreading.Timer(0.1, print, ['late']).start()";
    let outcome = good(&session, code).await;
    let whole = outcome.stdout.file.unwrap();
    assert!(whole.exists());
    tokio::time::sleep(seconds(0.5)).await;
    hibernate_session(&session).await;
    assert!(!whole.exists());
    let outcome = good(&session, "print(good, os.path.exists('open.txt'))").await;
    assert_eq!(outcome.stdout.text, "1 True\n");
    let mut lines = told(&outcome);
    let pickling = |name: &str, kind: &str| {
        format!(
            "the variable `{name}` is gone: not saved: TypeError: cannot pickle '{kind}' object"
        )
    };
    let first = [
        format!("the session hibernated after cell 1 {HIBERNATED}"),
        "1 earlier threads are gone".into(),
        "1 earlier child processes are gone".into(),
        "earlier checkpoints are gone: `mine`".into(),
        "output of threads and child processes after the last cell was lost".into(),
        "the files with the full text of long outputs are gone".into(),
        pickling("generator", "generator"),
        pickling("lock", "_thread.lock"),
    ];
    assert_eq!(lines.drain(..first.len()).collect::<Vec<_>>(), first);
    for (line, name) in lines.iter().zip(["file", "thread", "child"]) {
        let start = format!("the variable `{name}` is gone: not saved: TypeError: ");
        assert!(line.starts_with(&start), "{line}");
    }
    assert!(
        lines[3].starts_with("the file `link` is gone: "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(matches!(
        session.restore("mine").await,
        Err(Error::NoCheckpoint(_))
    ));
}

/// Any request wakes it; and the next outcome reports its losses all the same.
#[tokio::test(flavor = "multi_thread")]
async fn every_question_wakes_it() {
    let session = session().await;
    good(&session, "number = 1").await;
    hibernate_session(&session).await;
    let manifest = session.manifest().await.unwrap();
    assert_eq!((manifest[0].name.as_str(), manifest[0].cell), ("number", 1));
    assert!(!session.is_hibernated());
    hibernate_session(&session).await;
    let (_, names) = session.complete("numb", 4).await.unwrap();
    assert_eq!(names, ["number"]);
    hibernate_session(&session).await;
    let values = serde_json::json!({"seeded": 2});
    session.seed(values.as_object().unwrap()).await.unwrap();
    hibernate_session(&session).await;
    session.checkpoint("here").await.unwrap();
    hibernate_session(&session).await;
    let fork = session.fork(1).await.unwrap().remove(0);
    assert_eq!(printed(&fork, "print(number, seeded)").await, "1 2\n");
    drop(fork);
    hibernate_session(&session).await;
    // It has nothing to interrupt or to answer, and sleeps on.
    assert!(!session.interrupt());
    assert!(matches!(
        session
            .answer(CallId::default(), Ok(serde_json::Value::Null.into()))
            .await,
        Err(Error::NoCall { .. })
    ));
    // Its snapshot is copied.
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("a");
    let report = session.snapshot(&copy).await.unwrap();
    assert!(session.is_hibernated());
    assert_eq!(report.bytes, copy.metadata().unwrap().len());
    assert!(report.names.iter().any(|name| name.name == "seeded"));
    let (loaded, _) = engine().load(&copy, Limits::default()).await.unwrap();
    assert_eq!(printed(&loaded, "print(number, seeded)").await, "1 2\n");
    // Files are reached after waking.
    assert!(matches!(session.put("a", b"1"), Err(Error::Hibernated)));
    assert!(matches!(session.get("a"), Err(Error::Hibernated)));
    assert!(matches!(session.list(""), Err(Error::Hibernated)));
    assert!(matches!(session.delete("a"), Err(Error::Hibernated)));
    session.wake().await.unwrap();
    session.wake().await.unwrap();
    session.put("a", b"1").unwrap();
    hibernate_session(&session).await;
    session.wake().await.unwrap();
    assert_eq!(session.get("a").unwrap(), b"1");
    let refuse = Cell {
        when_busy: WhenBusy::Refuse,
        ..Cell::from("print(number)")
    };
    hibernate_session(&session).await;
    let outcome = session.run(refuse).await.unwrap();
    assert_eq!((outcome.cell, outcome.stdout.text.as_str()), (2, "1\n"));
    let hibernated = |line: &&String| line.ends_with(HIBERNATED);
    assert_eq!(outcome.notes.iter().filter(hibernated).count(), 1);
    assert!(
        outcome
            .notes
            .contains(&"earlier checkpoints are gone: `here`".into()),
        "{:?}",
        outcome.notes
    );
    assert!(hibernated_snapshots().is_empty());
}

/// A session that has slept outlives a crash of its next cell.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_waking_costs_nothing_more() {
    for checkpoints in [Checkpoints::Auto, Checkpoints::Every] {
        let options = SessionOptions {
            checkpoints,
            ..SessionOptions::default()
        };
        let session = engine().session_with(options).await.unwrap();
        good(&session, "x = 1").await;
        good(&session, "x = 2").await;
        hibernate_session(&session).await;
        let crash = session.run("x = 3; import os; os.abort()").await.unwrap();
        assert_eq!(crash.state, Fate::Restored { cell: 2 });
        assert!(
            crash.notes[0].contains("hibernated after cell 2"),
            "{crash:?}"
        );
        assert_eq!(printed(&session, "print(x)").await, "2\n");
    }
    // Without copies it is lost, as it would have been.
    let options = without_checkpoints(Limits::default());
    let session = engine().session_with(options).await.unwrap();
    good(&session, "x = 1").await;
    hibernate_session(&session).await;
    let crash = session.run("import os; os.abort()").await.unwrap();
    assert_eq!(crash.state, Fate::Lost);
    assert!(matches!(crash.cause, Cause::Signal { .. }));
    assert!(matches!(session.hibernate().await, Err(Error::Ended(_))));
}

/// Again and again: cell numbers continue, and it has its own limits.
#[tokio::test(flavor = "multi_thread")]
async fn it_hibernates_many_times() {
    let limits = Limits {
        memory_bytes: 200 << 20,
        workspace_bytes: 1 << 20,
        ..Limits::default()
    };
    let session = engine().session_with(limits).await.unwrap();
    good(&session, "numbers = []").await;
    for number in 2..6 {
        let first = session.hibernate().await.unwrap();
        let again = session.hibernate().await.unwrap();
        assert_eq!((first.bytes, first.names), (again.bytes, again.names));
        let outcome = good(&session, &format!("numbers.append({number})")).await;
        assert_eq!(outcome.cell, number);
    }
    assert_eq!(printed(&session, "print(numbers)").await, "[2, 3, 4, 5]\n");
    let outcome = session.run("open('big', 'wb').write(bytes(2 << 20))").await;
    assert_eq!(outcome.unwrap().exception.unwrap().type_name, "OSError");
    let outcome = session.run("x = bytearray(300 << 20)").await.unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    eventually("the end of those before", || inits().len() == 1).await;
}

/// Cells and sleeps at once: each cell runs once, in its order, and sees the one before.
#[tokio::test(flavor = "multi_thread")]
async fn cells_and_hibernation_at_once() {
    let session = engine().session().await.unwrap();
    good(&session, "runs = 0").await;
    for _ in 0..4 {
        let runs: Vec<_> = (0..3).map(|_| session.run("runs += 1; runs")).collect();
        let (first, second) = tokio::join!(session.hibernate(), session.hibernate());
        first.unwrap();
        second.unwrap();
        let more = session.run("runs += 1; runs");
        for run in runs {
            assert!(run.await.unwrap().is_success());
        }
        more.await.unwrap();
    }
    assert_eq!(printed(&session, "print(runs)").await, "16\n");
    // One that nobody waits for goes its way.
    let mut slow = session.run("import time; time.sleep(0.3); runs = 'slow'");
    let begun = slow.next().await.unwrap().unwrap();
    assert!(matches!(begun, Event::Started { .. }), "{begun:?}");
    let hibernate = session.hibernate();
    assert!(tokio::time::timeout(seconds(0.1), hibernate).await.is_err());
    slow.await.unwrap();
    eventually("the sleep", || session.is_hibernated()).await;
    assert_eq!(printed(&session, "print(runs)").await, "slow\n");
}

/// No file that was put is lost, whenever it is put.
#[tokio::test(flavor = "multi_thread")]
async fn files_and_hibernation_at_once() {
    let session = std::sync::Arc::new(engine().session().await.unwrap());
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let writer = tokio::spawn({
        let session = std::sync::Arc::clone(&session);
        let count = std::sync::Arc::clone(&count);
        async move {
            while count.load(Ordering::Relaxed) < 200 {
                let put = count.load(Ordering::Relaxed);
                match session.put(&format!("{put}"), b"here") {
                    Ok(()) => count.store(put + 1, Ordering::Relaxed),
                    Err(Error::Hibernated) => session.wake().await.unwrap(),
                    Err(error) => panic!("{error}"),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let mut sleeps = 0;
    while !writer.is_finished() {
        // One who always slept before the next file is put would keep it away for ever.
        let put = count.load(Ordering::Relaxed);
        while count.load(Ordering::Relaxed) == put && !writer.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(sleeps % 16)).await;
        session.hibernate().await.unwrap();
        sleeps += 1;
    }
    writer.await.unwrap();
    session.wake().await.unwrap();
    assert_eq!(session.list("").unwrap().entries.len(), 200);
    assert!(sleeps > 5, "{sleeps} sleeps");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_hibernates_if_it_is_to() {
    let engine = engine();
    let awake = engine.session().await.unwrap();
    let options = SessionOptions {
        hibernate_after: Some(seconds(0.4)),
        ..SessionOptions::default()
    };
    let session = engine.session_with(options).await.unwrap();
    good(&session, "x = 1").await;
    // Not while it is used, nor while a cell runs.
    for _ in 0..4 {
        tokio::time::sleep(seconds(0.2)).await;
        assert!(!session.is_hibernated());
        good(&session, "x += 1").await;
    }
    let outcome = good(&session, "import time; time.sleep(1)").await;
    assert_eq!(outcome.notes, Vec::<String>::new());
    let used = Instant::now();
    // Twice: also after it was woken.
    for _ in 0..2 {
        eventually("the sleep", || session.is_hibernated()).await;
        assert!(used.elapsed() > seconds(0.3), "{:?}", used.elapsed());
        assert_eq!(printed(&session, "print(x)").await, "5\n");
    }
    // Not while it has a fork, nor the fork.
    let fork = session.fork(1).await.unwrap().remove(0);
    tokio::time::sleep(seconds(1.5)).await;
    assert!(!session.is_hibernated() && !fork.is_hibernated());
    drop(fork);
    eventually("the sleep", || session.is_hibernated()).await;
    assert!(!awake.is_hibernated());
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_and_their_parents_do_not_hibernate() {
    let session = session().await;
    good(&session, "x = 1").await;
    let fork = session.fork(1).await.unwrap().remove(0);
    let why = |error: Result<_, Error>| match error {
        Err(Error::NotHibernated(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(session.hibernate().await), "it has live forks");
    assert_eq!(why(fork.hibernate().await), "it is a fork");
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    assert_eq!(printed(&fork, "print(x)").await, "1\n");
    drop(fork);
    hibernate_session(&session).await;
}

/// What can't be written leaves the session awake; what can't be loaded leaves it asleep.
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_told() {
    let session = session().await;
    good(&session, "x = 1").await;
    hibernate_session(&session).await;
    let file = hibernated_snapshots().pop_first().unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(
        session.run("x").await,
        Err(Error::Snapshot(SnapshotError::Damaged(_)))
    ));
    assert!(session.is_hibernated());
    std::fs::write(&file, whole).unwrap();
    assert_eq!(printed(&session, "print(x)").await, "1\n");

    // The next interpreter has the next number; there is something in its place already.
    let name = file.file_name().unwrap().to_str().unwrap();
    let number: u32 = name.strip_prefix("hibernated-").unwrap().parse().unwrap();
    let places = (1..10).map(|more| file.with_file_name(format!("hibernated-{}", number + more)));
    let places: Vec<PathBuf> = places.collect();
    for place in &places {
        std::fs::create_dir(place).unwrap();
    }
    assert!(matches!(session.hibernate().await, Err(Error::Io { .. })));
    assert!(!session.is_hibernated());
    session.put("a", b"1").unwrap();
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    for place in places {
        std::fs::remove_dir(place).unwrap();
    }
    hibernate_session(&session).await;
}

/// Whoever goes first, the session or its engine.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_hibernated_session() {
    let first = engine();
    good(&first.session().await.unwrap(), "1").await;
    first.shutdown().await;
    drop(first);
    let (before, open) = (traces(std::process::id()), descriptors());

    let engine = engine();
    let [dropped, closed, late] = [(); 3].map(|()| engine.session());
    let (dropped, closed, late) = tokio::try_join!(dropped, closed, late).unwrap();
    for session in [&dropped, &closed, &late] {
        good(session, "x = 1").await;
        hibernate_session(session).await;
    }
    assert_eq!(hibernated_snapshots().len(), 3);
    eventually("the end of their processes", || inits().is_empty()).await;
    drop(dropped);
    closed.close().await.unwrap();
    assert_eq!(hibernated_snapshots().len(), 1);
    // One that is dropped while it wakes.
    late.wake().await.unwrap();
    hibernate_session(&late).await;
    let run = late.run("x");
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(late);
    let _ = run.await;
    eventually("the end of its processes", || inits().is_empty()).await;
    assert!(hibernated_snapshots().is_empty());

    let last = engine.session().await.unwrap();
    good(&last, "x = 1").await;
    hibernate_session(&last).await;
    engine.shutdown().await;
    assert!(matches!(last.run("x").await, Err(Error::Ended(_))));
    assert!(matches!(last.wake().await, Err(Error::Ended(_))));
    drop((last, engine));
    assert!(processes_below(std::process::id()).is_empty());
    assert_eq!(traces(std::process::id()), before);
    eventually("the return to as many descriptors as before", || {
        descriptors() <= open
    })
    .await;
}

/// A hibernated session needs no handle of its engine.
#[tokio::test(flavor = "multi_thread")]
async fn it_wakes_without_its_engines_handle() {
    let session = session().await;
    good(&session, "x = 1").await;
    hibernate_session(&session).await;
    assert_eq!(printed(&session, "print(x)").await, "1\n");
}

/// How long it takes, for one with pandas and for one with a frame of 100 MB.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_hibernation_is_measured() {
    let engine = data_engine();
    for (what, code) in [
        (
            "pandas",
            "import pandas as pd; frame = pd.DataFrame({'a': range(1000)})",
        ),
        (
            "100 MB",
            "import numpy as np, pandas as pd; frame = pd.DataFrame({'a': np.random.rand(12_500_000)})",
        ),
    ] {
        let session = engine.session().await.unwrap();
        good(&session, code).await;
        let sum = printed(&session, "print(frame['a'].sum())").await;
        let mut times = Vec::new();
        for _ in 0..5 {
            let before = session.private_bytes().unwrap();
            let started = Instant::now();
            let report = session.hibernate().await.unwrap();
            let hibernated = started.elapsed();
            assert_eq!(session.private_bytes(), Some(0));
            let started = Instant::now();
            session.wake().await.unwrap();
            times.push((
                hibernated,
                started.elapsed(),
                before >> 20,
                report.bytes >> 20,
            ));
            assert_eq!(printed(&session, "print(frame['a'].sum())").await, sum);
        }
        for (hibernated, woke, before, bytes) in times {
            eprintln!(
                "{what}: asleep in {hibernated:?}, awake in {woke:?}; {before} MiB private before, 0 asleep, {bytes} MiB on disk"
            );
        }
    }
}

/// Without walls too, where there is no init, no cgroup and no copy.
#[tokio::test(flavor = "multi_thread")]
async fn it_hibernates_without_walls() {
    let engine = Engine::builder(bare_environment()).without_walls().build();
    let session = engine.session().await.unwrap();
    session.put("a", b"1").unwrap();
    let pid = printed(&session, "import os; x = 1; print(os.getpid())").await;
    hibernate_session(&session).await;
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    eventually("the end of its process", || !process.exists()).await;
    let outcome = good(&session, "print(x, open('a').read())").await;
    assert_eq!(outcome.stdout.text, "1 1\n");
    assert_eq!((outcome.cell, outcome.walls), (2, Walls::None));
}

/// A service starts and ends sessions all day: none leaves a task that waits for the time when it would sleep.
#[tokio::test]
async fn an_ended_session_leaves_no_task() {
    let engine = engine();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    good(&engine.session().await.unwrap(), "1").await;
    tokio::time::sleep(seconds(0.5)).await;
    let before = tasks();
    for _ in 0..3 {
        let options = SessionOptions {
            hibernate_after: Some(seconds(3600.0)),
            ..SessionOptions::default()
        };
        let session = engine.session_with(options).await.unwrap();
        good(&session, "x = 1").await;
        hibernate_session(&session).await;
        good(&session, "x").await;
        session.close().await.unwrap();
    }
    eventually("no more tasks than before", || tasks() <= before).await;
}

/// Leaves an engine: its snapshot outlives it, and another engine wakes the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_detached_session_continues_in_another_engine() {
    let place = tempfile::tempdir().unwrap();
    let options = || SessionOptions {
        hibernate_in: Some(place.path().to_owned()),
        ..SessionOptions::default()
    };
    let first = engine();
    let session = first.session_with(options()).await.unwrap();
    good(&session, "x = 1").await;
    session.put("file", b"2").unwrap();
    let fork = session.fork(1).await.unwrap().remove(0);
    good(&fork, "x = 3").await;
    let hibernated = first.session_with(options()).await.unwrap();
    good(&hibernated, "x = 4").await;
    hibernate_session(&hibernated).await;

    let mut detached = Vec::new();
    for session in [&session, &fork, &hibernated] {
        detached.push(session.detach(seconds(10.0)).await.unwrap());
        assert!(matches!(session.run("x").await, Err(Error::Detached)));
        assert!(matches!(session.wake().await, Err(Error::Detached)));
        assert!(matches!(session.get("file"), Err(Error::Detached)));
        assert!(matches!(session.hibernate().await, Err(Error::Detached)));
        assert!(matches!(
            session.detach(seconds(1.0)).await,
            Err(Error::Detached)
        ));
    }
    session.close().await.unwrap();
    drop((fork, hibernated));
    first.shutdown().await;
    drop(first);
    assert_eq!(place.path().read_dir().unwrap().count(), 3);

    let second = engine();
    let mut attached = Vec::new();
    for detached in detached {
        let session = second.attach(detached, options()).await.unwrap();
        assert!(session.is_hibernated());
        attached.push(session);
    }
    let report = attached[0].hibernate().await.unwrap();
    assert_eq!((report.files, report.names[0].name.as_str()), (1, "x"));
    let outcome = good(&attached[0], "print(x, open('file').read())").await;
    assert_eq!((outcome.cell, outcome.stdout.text.as_str()), (2, "1 2\n"));
    assert!(
        told(&outcome)[0].ends_with(HIBERNATED),
        "{:?}",
        outcome.notes
    );
    let outcome = good(&attached[1], "import os; print(x, os.getcwd())").await;
    assert_eq!(outcome.stdout.text, "3 /workspace\n");
    assert!(
        told(&outcome)
            .iter()
            .any(|note| note.starts_with("it was a fork"))
    );
    assert_eq!(printed(&attached[2], "print(x)").await, "4\n");
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
    // One that nobody wakes leaves nothing.
    hibernate_session(&attached[0]).await;
    assert_eq!(place.path().read_dir().unwrap().count(), 1);
    drop(attached);
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

/// What is slow to save is left out in time, and the rest is saved.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_name_does_not_cost_the_others() {
    let place = tempfile::tempdir().unwrap();
    let options = || SessionOptions {
        hibernate_in: Some(place.path().to_owned()),
        ..SessionOptions::default()
    };
    let engine = engine();
    let session = engine.session_with(options()).await.unwrap();
    let slow = "import time\nclass Slow:\n    def __reduce__(self):\n        time.sleep(9)\n        return int, ()\n\
                first = 1\nslow = Slow()\nlast = 2";
    good(&session, slow).await;
    let started = Instant::now();
    let detached = session.detach(seconds(3.0)).await.unwrap();
    assert!(started.elapsed() < seconds(8.0), "{:?}", started.elapsed());
    let session = engine.attach(detached, options()).await.unwrap();
    let outcome = good(&session, "print(first, last)").await;
    assert_eq!(outcome.stdout.text, "1 2\n");
    let notes = told(&outcome).join("\n");
    assert!(notes.contains("the variable `slow` is gone"), "{notes}");
}

/// Values that other packages made are not loaded; the session stays as it is, and its snapshot can be had.
#[tokio::test(flavor = "multi_thread")]
async fn another_environment_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let options = || SessionOptions {
        hibernate_in: Some(place.path().to_owned()),
        ..SessionOptions::default()
    };
    let session = data_engine().session_with(options()).await.unwrap();
    good(&session, "x = 1").await;
    let detached = session.detach(seconds(30.0)).await.unwrap();
    let bare = engine();
    let session = bare.attach(detached, options()).await.unwrap();
    let refused = session.run("x").await;
    let Err(Error::Snapshot(SnapshotError::Packages(differences))) = &refused else {
        panic!("{refused:?}");
    };
    assert!(differences.len() <= 11, "{differences:?}");
    assert!(differences[0].ends_with("is missing"), "{differences:?}");
    assert!(session.is_hibernated());
    let copy = place.path().join("copy");
    session.snapshot(&copy).await.unwrap();
    let (loaded, report) = bare.load(&copy, Limits::default()).await.unwrap();
    assert!(!report.packages.is_empty());
    assert_eq!(printed(&loaded, "print(x)").await, "1\n");
}

/// A missing snapshot is an error at once, not at the first cell.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_snapshot_cannot_be_attached() {
    let detached = DetachedSession {
        snapshot: SavedSnapshot::File("/nowhere".into()),
        lost: Vec::new(),
    };
    let attached = engine().attach(detached, SessionOptions::default()).await;
    assert!(
        matches!(attached, Err(Error::Snapshot(SnapshotError::Io(_)))),
        "{attached:?}"
    );
}
