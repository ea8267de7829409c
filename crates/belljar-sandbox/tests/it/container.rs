//! Sessions in containers of a real engine, or in sandboxes of gVisor. `.ci/containers` runs these tests on each engine
//! that `.ci/engines` starts.

use belljar_sandbox::protocol::{Cause, Fate, Status, Walls};
use belljar_sandbox::{
    AllowList, Capability, Checkpoints, Command, ContainerError, ContainerSpec, Engine,
    Environment, Error, Limits, Network, Packages, Requirement, SessionOptions, Unsupported,
};

use crate::support::containers::spec;
use crate::support::{good, printed, seconds};

/// Whether sessions are in sandboxes of gVisor that we start ourselves, without a container engine.
fn is_gvisor() -> bool {
    std::env::var("BELLJAR_TEST_ENGINE").as_deref() == Ok("gvisor")
}

/// Whether sessions have a kernel of their own.
fn has_own_kernel() -> bool {
    is_gvisor() || spec().runtime.is_some()
}

async fn engine() -> Engine {
    if is_gvisor() {
        // The imports of all of it would take most of a test's time.
        let environment = crate::support::data_environment();
        let environment = environment.preload_only(|module| module == "numpy");
        return Engine::builder(environment).gvisor().build();
    }
    let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
    let environment = Environment::from_image(&spec(), &image, None)
        .await
        .unwrap();
    Engine::builder(environment).build()
}

/// ENV-1: a session in a container.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_env_1_a_session() {
    let engine = engine().await;
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        limits: Limits {
            wall_time: seconds(5.0),
            grace: seconds(1.0),
            memory_bytes: 600 << 20,
            ..Limits::default()
        },
        ..SessionOptions::default()
    };
    let session = engine.session_with(options).await.unwrap();
    let outcome = session
        .run("import numpy as np\nx = 41\nprint('out')\nx + 1")
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::Success, "{outcome:?}");
    assert_eq!(outcome.stdout.text, "out\n");
    assert_eq!(outcome.displays[0].text(), Some("42"));
    let walls = if is_gvisor() {
        Walls::Gvisor
    } else {
        Walls::Container
    };
    assert_eq!(outcome.walls, walls);
    // Without the imports of its start. The time of gVisor's kernel is the session's, too.
    assert!(
        outcome.durations.cpu_us < if has_own_kernel() { 600_000 } else { 200_000 },
        "{outcome:?}"
    );
    assert!(
        outcome
            .peak_memory_bytes
            .is_some_and(|peak| peak > 10 << 20),
        "{outcome:?}"
    );

    // Files, both ways.
    session.put("in/a.txt", b"from outside").unwrap();
    assert_eq!(
        printed(&session, "print(open('in/a.txt').read())").await,
        "from outside\n"
    );
    good(&session, "open('b.bin', 'wb').write(b'x' * 3_000_000)").await;
    assert_eq!(session.get("b.bin").unwrap().len(), 3_000_000);
    let paths: Vec<_> = session
        .list("")
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    assert_eq!(paths, ["b.bin", "in", "in/a.txt"]);

    // A deadline keeps the variables, and so does a crash.
    let outcome = session.run("import time\ntime.sleep(60)").await.unwrap();
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 5000 });
    assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    let outcome = session
        .run("import ctypes; ctypes.string_at(0)")
        .await
        .unwrap();
    assert!(
        matches!(outcome.state, Fate::Restored { .. }),
        "{outcome:?}"
    );
    assert_eq!(printed(&session, "print(x)").await, "41\n");
    // Memory that the limit of a process does not count.
    let fill =
        "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): m[at] = 1";
    let outcome = session.run(fill).await.unwrap();
    if is_gvisor() {
        // There it counts.
        assert_eq!(outcome.status, Status::Failure, "{outcome:?}");
        assert_eq!(printed(&session, "print(x)").await, "41\n");
    } else if has_own_kernel() {
        // gVisor runs out of memory in its own way: the process ends with a status of its own, or all of the container.
        assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    } else {
        assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}");
        assert!(
            matches!(outcome.state, Fate::Restored { .. }),
            "{outcome:?}"
        );
        assert_eq!(printed(&session, "print(x)").await, "41\n");
    }
    engine.shutdown().await;
}

fn unsupported<T: std::fmt::Debug>(refused: Result<T, Error>, what: Capability) {
    match refused {
        Err(Error::Unsupported(Unsupported(found))) => assert_eq!(found, what),
        other => panic!("{what}: {other:?}"),
    }
}

/// ENV-1: operations that a container does not support are refused by name, and the session continues.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_env_1_refusals() {
    let engine = engine().await;
    let session = engine.session().await.unwrap();
    unsupported(session.fork(1).await, Capability::Forks);
    unsupported(
        session.spawn(Command::shell("true")).await,
        Capability::Commands,
    );
    unsupported(session.connect(8000).await, Capability::Ports);
    unsupported(session.watch(""), Capability::Watches);
    let options = SessionOptions {
        network: Network::Allow(AllowList::parse(["example.org"]).unwrap()),
        ..SessionOptions::default()
    };
    unsupported(engine.session_with(options).await, Capability::AllowLists);
    let options = SessionOptions {
        packages: Packages::Any,
        ..SessionOptions::default()
    };
    let other = engine.session_with(options).await.unwrap();
    let refused = other
        .install(&[Requirement::list("left-pad").unwrap().remove(0)])
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("does not support packages")
    );
    assert_eq!(printed(&session, "print(6 * 7)").await, "42\n");
    engine.shutdown().await;
}

/// What was printed before a report is there before it, however much it is, and the output limit holds.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_output_is_whole_and_in_order() {
    let session = engine().await.session().await.unwrap();
    for number in 0..100 {
        let text = printed(&session, &format!("print({number})")).await;
        assert_eq!(text, format!("{number}\n"));
    }
    let outcome = good(&session, "for at in range(200_000): print(f'{at:099d}')").await;
    assert_eq!(outcome.stdout.bytes, 20_000_000);
    assert!(outcome.stdout.text.ends_with(&format!("{:099}\n", 199_999)));
}

/// A session hibernates and wakes, and a snapshot is loaded into another container.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_snapshots() {
    let engine = engine().await;
    let session = engine.session().await.unwrap();
    good(&session, "import pandas as pd\nframe = pd.DataFrame({'a': range(5)})\nopen('kept.txt', 'w').write('here')").await;
    session.hibernate().await.unwrap();
    let code = "print(frame['a'].sum(), open('kept.txt').read())";
    assert_eq!(printed(&session, code).await, "10 here\n");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshot");
    session.snapshot(&file).await.unwrap();
    let (other, _) = engine.load(&file, SessionOptions::default()).await.unwrap();
    assert_eq!(printed(&other, code).await, "10 here\n");
    engine.shutdown().await;
}

/// F: files are reached without following links, with the same errors as behind our own walls.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_f_files() {
    let session = engine().await.session().await.unwrap();
    good(
        &session,
        "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')\nos.mkfifo('pipe')\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('c')\nopen('/tmp/t', 'w').write('t')",
    )
    .await;
    for path in ["link", "root/etc/passwd", "pipe"] {
        let refused = session.get(path).unwrap_err().to_string();
        assert!(
            refused.contains("is not a regular file"),
            "{path}: {refused}"
        );
    }
    assert!(
        session
            .get("nothing")
            .unwrap_err()
            .to_string()
            .contains("does not exist")
    );
    assert!(session.get("../x").is_err());
    assert_eq!(session.get("/tmp/t").unwrap(), b"t");
    assert_eq!(
        session.read_link("link").unwrap().as_deref(),
        Some("/etc/passwd")
    );
    session.rename("a/b/c", "d/e").unwrap();
    assert_eq!(session.get("d/e").unwrap(), b"c");
    session.delete_all("a").unwrap();
    session.put("big", &vec![7; 5 << 20]).unwrap();
    assert_eq!(session.stat("big").unwrap().size, 5 << 20);
    assert_eq!(session.get("big").unwrap(), vec![7; 5 << 20]);
    // While a cell runs, too, and after the session has killed the helper.
    good(
        &session,
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(-1, signal.SIGTERM)",
    )
    .await;
    assert_eq!(session.get("d/e").unwrap(), b"c");
}

/// G17, H: a session has no capability, and can't reach the process of ours beside it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_g17_posture() {
    let session = engine().await.session().await.unwrap();
    let code = r"
import os
status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
print(*(int(status[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd')), status.get('NoNewPrivs', '1'), status['Seccomp'])
print(os.getuid() > 1 << 29, sorted(os.listdir('/proc/self/fd'))[:5])
for act in (lambda: os.kill(1, 9), lambda: open('/proc/1/environ').read(), lambda: open('/x', 'w'), lambda: os.setuid(0)):
    try:
        print('reached', act())
    except OSError as error:
        print(error.errno)
print([line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])
";
    let mut code = code.to_owned();
    if has_own_kernel() {
        // In gVisor it can be read: it has the fixed list alone.
        code = code.replace(" lambda: open('/proc/1/environ').read(),", "");
    }
    let text = printed(&session, &code).await;
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("0 0 0 0 1 2"), "{text}");
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("True ['0', '1', '2', '3', '4']"),
        "{text}"
    );
    assert!(!text.contains("reached"), "{text}");
    assert!(text.ends_with("['lo']\n"), "{text}");
}

/// N3, ENV-2: an engine, an image or a runtime that can't be had is refused with the reason.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_n3_refused_with_the_reason() {
    let refused = |spec: ContainerSpec, image: &'static str| async move {
        match Environment::from_image(&spec, image, None).await {
            Err(Error::Container(error)) => *error,
            other => panic!("{other:?}"),
        }
    };
    let found = refused(spec(), "no-such-image:1").await;
    assert!(matches!(&found, ContainerError::NoImage { .. }), "{found}");
    let nobody = ContainerSpec {
        address: Some("unix:///nonexistent/docker.sock".to_owned()),
        ..ContainerSpec::default()
    };
    let found = refused(nobody, "x").await;
    assert!(
        matches!(&found, ContainerError::Unreachable { .. }),
        "{found}"
    );
    let odd = ContainerSpec {
        runtime: Some("no-such-runtime".to_owned()),
        ..spec()
    };
    let found = refused(odd, "x").await;
    assert!(found.to_string().contains("no-such-runtime"), "{found}");
}

/// The median time of some rounds, in milliseconds.
async fn median<F: Future<Output = ()>>(rounds: usize, mut act: impl FnMut() -> F) -> f64 {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = std::time::Instant::now();
        act().await;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

/// What a container costs beside a session behind our own walls, in turns: run by hand, with a release build.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine, and measures"]
async fn container_figures() {
    let containers = engine().await;
    let own = crate::support::data_engine();
    own.warm().await.unwrap();
    let pool = |environment: Environment| {
        Engine::builder(environment)
            .checkpoints(Checkpoints::Off)
            .warm_pool(2)
            .build()
    };
    for engine in [&own, &containers] {
        let session = engine.session().await.unwrap();
        let cell = median(300, || async { drop(session.run("x = 1").await.unwrap()) }).await;
        let start = median(7, || async {
            drop(engine.session().await.unwrap().run("x = 1").await.unwrap());
        })
        .await;
        let pooled = pool(engine.environment().clone());
        pooled.warm().await.unwrap();
        let mut from_pool = Vec::new();
        for _ in 0..7 {
            tokio::time::sleep(seconds(4.0)).await;
            from_pool.push(
                median(1, || async {
                    drop(pooled.session().await.unwrap().run("x = 1").await.unwrap());
                })
                .await,
            );
        }
        from_pool.sort_by(f64::total_cmp);
        let file = median(5, || async {
            session.put("f", &vec![1; 64 << 20]).unwrap();
        })
        .await;
        println!(
            "{}: x=1 {cell:.3} ms, start and first cell {start:.1} ms, from the pool {:.2} ms, 64 MiB written {file:.0} ms",
            engine.environment().name(),
            from_pool[3]
        );
        pooled.shutdown().await;
    }
    containers.shutdown().await;
}
