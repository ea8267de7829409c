//! Sessions in sandboxes of gVisor: what is not the same as in containers. `.ci/containers gvisor` runs these tests.

use std::collections::HashSet;
use std::path::PathBuf;

use belljar_sandbox::protocol::{Cause, Fate, Status, Walls};
use belljar_sandbox::{Checkpoints, Engine, Error, Limits, SessionOptions};

use crate::support::{
    bare_environment, data_environment, eventually, good, printed, processes_below, seconds, traces,
};

/// The image of a ready sandbox, which an engine of this process has.
fn image() -> PathBuf {
    let now = traces(std::process::id());
    let inside = std::fs::read_dir(now.directories.iter().next().unwrap()).unwrap();
    let mut paths = inside.flatten().map(|entry| entry.path());
    let is_image = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("image-")
    };
    paths.find(is_image).unwrap()
}

/// How many sandboxes of this process were restored from an image.
fn restored() -> usize {
    let is_restored = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words[0].ends_with(b"/runsc") && words.contains(&&b"restore"[..])
    };
    let all = processes_below(std::process::id());
    all.iter().filter(|pid| is_restored(pid)).count()
}

fn engine() -> Engine {
    Engine::builder(bare_environment()).gvisor().build()
}

fn with(limits: Limits) -> SessionOptions {
    SessionOptions {
        limits,
        ..SessionOptions::default()
    }
}

/// A session has another kernel, and nothing of the host but its programs and the environment.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_kernel_and_root() {
    let session = engine().session().await.unwrap();
    let code = "import os\nprint(os.uname().release, sorted(os.listdir('/')), os.path.exists('/etc/shadow'))";
    let text = printed(&session, code).await;
    let host = rustix::system::uname();
    assert!(
        !text.starts_with(&*host.release().to_string_lossy()),
        "{text}"
    );
    assert!(text.trim_end().ends_with("False"), "{text}");
    for path in [
        "/home/user/a",
        "/mnt/data/a",
        "/workspace/a",
        "/dev/shm/a",
        "/tmp/a",
    ] {
        good(&session, &format!("open('{path}', 'w').write('x')")).await;
    }
    for path in ["/usr/a", "/etc/a", "/opt/belljar/a", "/dev/a", "/sys/a"] {
        let outcome = session.run(format!("open('{path}', 'w')")).await.unwrap();
        assert_eq!(outcome.status, Status::Failure, "{path}");
    }
}

/// `Auto` makes no checkpoints here; who asks for them has them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_checkpoints_are_off_unless_asked_for() {
    let crash = "import ctypes; ctypes.string_at(0)";
    for (checkpoints, is_kept) in [(Checkpoints::Auto, false), (Checkpoints::Every, true)] {
        let options = SessionOptions {
            checkpoints,
            ..SessionOptions::default()
        };
        let session = engine().session_with(options).await.unwrap();
        good(&session, "x = 1").await;
        let outcome = session.run(crash).await.unwrap();
        assert_eq!(outcome.walls, Walls::Gvisor);
        assert_eq!(
            matches!(outcome.state, Fate::Restored { .. }),
            is_kept,
            "{outcome:?}"
        );
    }
}

/// A1, A3: limits on processes, memory and time hold, and the host has a bounded number of threads for them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_a_limits() {
    let engine = engine();
    let limits = Limits {
        processes: 32,
        // A fork copies memory in large pieces there.
        memory_bytes: 1 << 30,
        wall_time: seconds(20.0),
        ..Limits::default()
    };
    let session = engine.session_with(with(limits.clone())).await.unwrap();
    let forks = r"
import os, time
children = []
try:
    while len(children) < 200:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError as error:
    print(error.errno)
print(len(children))
";
    let text = printed(&session, forks).await;
    let (errno, count) = text.trim().split_once('\n').unwrap();
    assert_eq!(errno, "11", "{text}");
    assert!((30..=32).contains(&count.parse::<u32>().unwrap()), "{text}");
    let used = session.in_use().unwrap();
    println!("{count} processes inside, on the host {used:?}");
    good(
        &session,
        "for child in children: os.kill(child, 9); os.waitpid(child, 0)",
    )
    .await;
    // One request that is too large is an exception.
    let outcome = session
        .run("x = 5\ny = bytearray(1200 << 20)")
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::Failure, "{outcome:?}");
    assert_eq!(printed(&session, "print(x)").await, "5\n");
    // What two processes have together: one of them is killed, or all of the sandbox.
    let fill = "import mmap\nchild = os.fork()\nm = mmap.mmap(-1, 700 << 20)\nfor at in range(0, 700 << 20, 4096): m[at] = 1\nif child == 0:\n    time.sleep(9)\n    os._exit(0)\nprint(os.waitpid(child, 0)[1])";
    let outcome = session.run(fill).await.unwrap();
    println!(
        "{:?} {:?} {:?}",
        outcome.cause, outcome.state, outcome.stdout.text
    );
    // The kernel may charge a little more for what it can't refuse.
    let peak = outcome.peak_memory_bytes.unwrap();
    assert!(peak < (1 << 30) + (80 << 20), "{peak}");
    if outcome.status == Status::Success {
        assert_ne!(outcome.stdout.text, "0\n");
    } else {
        assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}");
    }
    // And with its files.
    let session = engine.session_with(with(limits)).await.unwrap();
    let fill = "import mmap\nm = mmap.mmap(-1, 900 << 20)\nfor at in range(0, 900 << 20, 4096): m[at] = 1\nwith open('f', 'wb') as file:\n    for _ in range(300): file.write(bytes(1 << 20))";
    let outcome = session.run(fill).await.unwrap();
    println!("{:?} {:?}", outcome.cause, outcome.state);
    assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    engine.shutdown().await;
}

/// B: a cell that can't be interrupted is killed in time, with its sandbox. J8: so is a session whose `runsc` is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_b_killed_from_outside() {
    let engine = engine();
    let limits = Limits {
        wall_time: seconds(2.0),
        grace: seconds(1.0),
        ..Limits::default()
    };
    let session = engine.session_with(with(limits)).await.unwrap();
    let started = std::time::Instant::now();
    let stubborn = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass";
    let outcome = session.run(stubborn).await.unwrap();
    assert!(
        matches!(outcome.cause, Cause::WallTime { .. }),
        "{outcome:?}"
    );
    assert_eq!(outcome.state, Fate::Lost);
    let slow = crate::support::Stopwatch::slowness();
    assert!(
        started.elapsed() < seconds(5.0) * slow,
        "{:?}",
        started.elapsed()
    );

    let session = engine.session().await.unwrap();
    let runsc = processes_below(std::process::id())
        .into_iter()
        .find(|pid| crate::support::name(*pid).contains("runsc"))
        .unwrap();
    let cell = session.run("while True: pass");
    let kill = async {
        tokio::time::sleep(seconds(1.0)).await;
        let pid = rustix::process::Pid::from_raw(i32::try_from(runsc).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let (ended, ()) = tokio::join!(cell, kill);
    assert!(matches!(ended, Err(Error::Ended(_))), "{ended:?}");
    assert_eq!(
        printed(&engine.session().await.unwrap(), "print(1)").await,
        "1\n"
    );
    engine.shutdown().await;
}

/// After a session nothing of it is left, and after the engine nothing at all.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_nothing_is_left() {
    let before = traces(std::process::id());
    let engine = engine();
    for _ in 0..3 {
        let session = engine.session().await.unwrap();
        good(
            &session,
            "import subprocess\nsubprocess.Popen(['sleep', '600'])",
        )
        .await;
    }
    // The keeper alone.
    eventually("the sandboxes are gone", || {
        processes_below(std::process::id()).len() == 1
    })
    .await;
    let sandboxes = || {
        let now = traces(std::process::id());
        let directory = now.directories.iter().next().unwrap().join("sandboxes");
        std::fs::read_dir(directory).unwrap().count()
    };
    eventually("their directories are gone", || sandboxes() == 0).await;
    engine.shutdown().await;
    drop(engine);
    eventually("nothing is left", || traces(std::process::id()) == before).await;
    assert!(processes_below(std::process::id()).is_empty());
}

/// J1: sessions from one image draw other numbers than each other, and have all of the limits that they ask for.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_sessions_from_one_image() {
    let engine = Engine::builder(data_environment()).gvisor().build();
    let code = "import os, sys\nassert {'random', 'tempfile', 'uuid', 'numpy.random', '_ssl'} <= sys.modules.keys(), sorted(sys.modules)\nimport random, ssl, tempfile, uuid, numpy\nprint(random.random(), numpy.random.random(), ssl.RAND_bytes(8).hex(), uuid.uuid1().hex, uuid.uuid4().hex, next(tempfile._get_candidate_names()), os.urandom(8).hex(), os.getuid())";
    let mut sessions = Vec::new();
    let mut seen = HashSet::new();
    for number in 0..5_usize {
        let session = engine.session().await.unwrap();
        assert_eq!(restored(), number.saturating_sub(1));
        let text = printed(&session, code).await;
        let drawn: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        assert_eq!(drawn.len(), 8);
        for one in drawn {
            assert!(seen.insert(one.clone()), "{one} was drawn twice: {seen:?}");
        }
        sessions.push(session);
    }
    let limited = Limits {
        memory_bytes: 1 << 30,
        processes: 4,
        ..Limits::default()
    };
    let session = engine.session_with(with(limited)).await.unwrap();
    assert_eq!(restored(), 4);
    let outcome = session.run("a = bytearray(2 << 30)").await.unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    let bomb = "import os, time\nchildren = []\ntry:\n    for _ in range(20):\n        child = os.fork()\n        if child == 0: time.sleep(60)\n        children.append(child)\nexcept BlockingIOError: print(len(children))";
    // gVisor counts the others of a user.
    assert_eq!(printed(&session, bomb).await, "4\n");
    // Another size of its file systems: it can't be restored.
    let small = Limits {
        workspace_bytes: 1 << 20,
        ..Limits::default()
    };
    let session = engine.session_with(with(small)).await.unwrap();
    assert_eq!(restored(), 4);
    let outcome = session
        .run("open('a', 'wb').write(bytes(2 << 20))")
        .await
        .unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "OSError");
    engine.shutdown().await;
}

/// N7: an image that was changed or cut short costs a slower start, and no session.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs runsc"]
async fn gvisor_n7_a_broken_image() {
    for (name, keeps) in [
        ("pages.img", 2),
        ("checkpoint.img", 2),
        ("checkpoint.img", 1),
    ] {
        let engine = engine();
        for _ in 0..2 {
            good(&engine.session().await.unwrap(), "x = 1").await;
        }
        let path = image().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        if keeps == 1 {
            // The same length.
            let half = bytes.len() / 2;
            bytes[half..].reverse();
        } else {
            bytes.truncate(bytes.len() / keeps);
        }
        std::fs::write(&path, bytes).unwrap();
        for _ in 0..2 {
            let session = engine.session().await.unwrap();
            assert_eq!(printed(&session, "print(sum(range(10)))").await, "45\n");
            assert_eq!(restored(), 0, "{name}");
        }
        engine.shutdown().await;
        drop(engine);
    }
}
