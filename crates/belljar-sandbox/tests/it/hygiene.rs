//! What is left behind after any death, and after a lot of work: nothing.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::Status;
use belljar_sandbox::{Error, Limits};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Stopwatch, bare_environment, builder, data_engine, descriptors, engine, eventually, good,
    inits, name, printed, processes_below, repeats, resident, seconds, session_with, template,
    timed, traces, without_checkpoints,
};

/// A number below `limit`, another one each time.
fn random(limit: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
        % limit
}

/// Whether this is a live process of ours. The keeper's parent is gone, so it stays a zombie until
/// the machine's first process looks after it.
fn is_ours(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    name(pid).starts_with("belljar") && !status.contains("State:\tZ")
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have died by itself.
    let _ = kill_process(pid, Signal::KILL);
}

/// Kills the template and sessions' inits in turns (70 times each with `BELLJAR_LONG`) at random moments, while
/// sessions start and run cells.
#[tokio::test(flavor = "multi_thread")]
async fn killing_template_and_init_leaves_nothing() {
    // What a runtime and a first engine keep open is the baseline.
    let first = engine();
    good(&first.session().await.unwrap(), "1").await;
    first.shutdown().await;
    drop(first);
    let (before, open) = (traces(std::process::id()), descriptors());

    let engine = engine();
    let witness = engine.session().await.unwrap();
    good(&witness, "x = 'still here'").await;
    let witness_init = inits();
    for round in 0..repeats(40, 140) {
        let busy = tokio::spawn({
            let engine = engine.clone();
            async move {
                let session = engine.session().await?;
                session
                    .run("import time\ntime.sleep(0.02)\nprint('done')")
                    .await
            }
        });
        tokio::time::sleep(Duration::from_micros(random(40_000))).await;
        let victim = if round % 2 == 0 {
            template()
        } else {
            inits()
                .into_iter()
                .find(|init| !witness_init.contains(init))
        };
        if let Some(victim) = victim {
            kill(victim);
        }
        // Whatever happened, it is reported: never a hang, never a false success, and never blamed
        // on the program.
        match tokio::time::timeout(seconds(20.0), busy)
            .await
            .unwrap()
            .unwrap()
        {
            Ok(outcome) => {
                assert_eq!(outcome.status, Status::Success, "{outcome:?}");
                assert_eq!(outcome.stdout.text, "done\n");
            }
            Err(Error::Ended(_) | Error::Session(_) | Error::Template { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(
        printed(&witness, "print(x)").await,
        "still here\n",
        "a live session noticed"
    );
    good(&engine.session().await.unwrap(), "1").await;
    drop(witness);
    engine.shutdown().await;
    drop(engine);
    assert!(processes_below(std::process::id()).is_empty());
    assert_eq!(traces(std::process::id()), before);
    eventually("the return to as many descriptors as before", || {
        descriptors() <= open
    })
    .await;
}

/// What the test below kills: an engine with sessions that work without end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of waits_killing_the_caller_leaves_nothing, which starts and kills it"]
async fn caller() {
    let engine = builder(bare_environment()).warm_pool(2).build();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let engine = engine.clone();
        tasks.spawn(async move {
            loop {
                let session = engine.session().await.unwrap();
                let _ = session
                    .run("import os, time\nos.fork()\nprint('x' * 100_000)\ntime.sleep(0.01)")
                    .await;
            }
        });
    }
    tasks.join_next().await;
}

/// Kills the caller (60 times with `BELLJAR_LONG`) at random moments, from its first breath to full work.
#[tokio::test]
async fn waits_killing_the_caller_leaves_nothing() {
    let before = traces(0);
    for _ in 0..repeats(20, 60) {
        let mut caller = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hygiene::caller", "--ignored", "--nocapture"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(random(900))).await;
        let left: Vec<u32> = processes_below(caller.id());
        caller.kill().unwrap();
        caller.wait().unwrap();
        let pid = caller.id();
        eventually("the end of all its processes", || {
            left.iter().all(|pid| !is_ours(*pid))
        })
        .await;
        eventually("the removal of its cgroups and directories", || {
            let traces = traces(pid);
            traces.cgroups.is_empty() && traces.directories.is_empty()
        })
        .await;
    }
    assert_eq!(traces(0).mounts, before.mounts);
}

/// 10 GB printed by one cell: the host's memory stays flat.
#[tokio::test(flavor = "multi_thread")]
async fn ten_gigabytes_of_output() {
    let limits = Limits {
        output_bytes: 20 << 30,
        ..Limits::default()
    };
    let session = session_with(limits).await;
    good(&session, "import os\nblock = b'0123456789abcdef' * 65536").await;
    let before = resident();
    let run = session.run(timed(
        "for i in range(10 * 1024): os.write(1, block)\nprint('the end')",
        seconds(500.0),
    ));
    let started = Instant::now();
    let mut outcome = run.into_future();
    let mut most = before;
    let outcome = loop {
        most = most.max(resident());
        if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(50), &mut outcome).await {
            break outcome.unwrap();
        }
    };
    assert!(outcome.is_success(), "{:?}", outcome.cause);
    assert_eq!(outcome.stdout.bytes, (10 << 30) + 8);
    assert!(outcome.stdout.text.ends_with("the end\n"));
    assert!(outcome.stdout.text.len() < 300 << 10);
    let file = outcome.stdout.file.as_ref().unwrap();
    assert_eq!(std::fs::metadata(file).unwrap().len(), 64 << 20);
    assert!(outcome.stdout.file_truncated);
    eprintln!(
        "10 GiB in {:?}; resident {before} kB before, {most} kB at most",
        started.elapsed()
    );
    assert!(most < before + (16 << 10), "{before} kB grew to {most} kB");
}

/// A heap of 2 GB: cells continue at once, and the host does not hold it.
#[tokio::test]
async fn heavy_two_gigabytes_of_heap() {
    let limits = Limits {
        memory_bytes: 4 << 30,
        ..Limits::default()
    };
    let engine = data_engine();
    let session = engine
        .session_with(without_checkpoints(limits))
        .await
        .unwrap();
    let before = resident();
    let outcome = good(&session, "import numpy as np\nbig = np.ones(1 << 28)").await;
    assert!(outcome.peak_memory_bytes.unwrap() > 2 << 30);
    let manifest = session.manifest().await.unwrap();
    let big = manifest.iter().find(|info| info.name == "big").unwrap();
    assert_eq!(big.size_bytes, Some(2 << 30));
    let started = Stopwatch::start();
    for _ in 0..50 {
        good(&session, "x = 1").await;
    }
    assert!(started.elapsed() < seconds(2.0), "{:?}", started.elapsed());
    assert!(
        resident() < before + (4 << 10),
        "the host grew to {} kB",
        resident()
    );
}

/// 10,000 cells in one session: memory and descriptors of the host, and memory of the session,
/// stay flat.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_cells() {
    let engine = data_engine();
    // Pages that the template no longer shares would count as the session's.
    engine.wait_until_shared().await.unwrap();
    let session = engine.session().await.unwrap();
    let cell = "x = [i for i in range(10)]\nprint(sum(x))";
    for _ in 0..500 {
        good(&session, cell).await;
    }
    let (memory, open, private) = (resident(), descriptors(), session.private_bytes().unwrap());
    for _ in 0..9_500 {
        let outcome = session.run(cell).await.unwrap();
        assert_eq!(outcome.stdout.text, "45\n");
    }
    assert_eq!(descriptors(), open);
    assert!(
        resident() < memory + (2 << 10),
        "{memory} kB grew to {} kB",
        resident()
    );
    let grown = session.private_bytes().unwrap().saturating_sub(private);
    assert!(grown < 16 << 20, "the session grew by {grown} bytes");
}

/// 1,000 sessions one after another.
#[tokio::test(flavor = "multi_thread")]
async fn thousand_sessions() {
    let engine = engine();
    for _ in 0..50 {
        good(&engine.session().await.unwrap(), "1").await;
    }
    tokio::time::sleep(seconds(0.3)).await;
    let (memory, open) = (resident(), descriptors());
    let started = Instant::now();
    for i in 0..1000 {
        let session = engine.session().await.unwrap();
        assert_eq!(
            printed(&session, &format!("print({i})")).await,
            format!("{i}\n")
        );
    }
    eprintln!("a session with a cell takes {:?}", started.elapsed() / 1000);
    eventually("the end of the last sessions", || inits().is_empty()).await;
    eventually("the return to as many descriptors as before", || {
        descriptors() <= open
    })
    .await;
    assert!(
        resident() < memory + (4 << 10),
        "{memory} kB grew to {} kB",
        resident()
    );
    eventually("the removal of the sessions' cgroups", || {
        let trees = traces(std::process::id()).cgroups;
        trees.iter().all(|tree| {
            std::fs::read_dir(tree)
                .unwrap()
                .flatten()
                .all(|entry| entry.file_type().unwrap().is_file())
        })
    })
    .await;
}

/// Sessions started at once all answer.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_two_hundred_sessions_at_once() {
    let engine = engine();
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let session = engine.session().await.unwrap();
                assert_eq!(
                    printed(&session, &format!("print({i} * 2)")).await,
                    format!("{}\n", i * 2)
                );
                session
            })
        })
        .collect();
    let mut sessions = Vec::new();
    for task in tasks {
        sessions.push(task.await.unwrap());
    }
    assert_eq!(inits().len(), 200);
}
