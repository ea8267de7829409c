//! Attacks on what is between the host and a session in a container, on a real engine: the steward (N1), the stream (N2),
//! the image (N5), the wires (N6). `.ci/containers` runs them.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use belljar_sandbox::protocol::{Fate, Status};
use belljar_sandbox::{Engine, Environment, Error, Limits, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::support::containers::{containers, docker, image, spec};
use crate::support::{
    builder, forget_highest_resident, good, highest_resident, printed, seconds, timed,
    without_checkpoints,
};

pub(crate) fn bare_engine() -> Engine {
    builder(image().preload_only(|_| false)).build()
}

/// A session that lives as it should: its cells, its files, its end.
pub(crate) async fn check_lives(session: &Session) {
    assert_eq!(printed(session, "print(6 * 7)").await, "42\n");
    session.put("lives", b"yes").unwrap();
    assert_eq!(session.get("lives").unwrap(), b"yes");
}

/// N1: signals to the steward, its files in `/proc`, thousands of orphans for it, and floods of all that it passes on.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_n1_the_steward_is_flooded() {
    let engine = bare_engine();
    let session = engine.session().await.unwrap();
    let code = r"
import os
reached = []
for number in range(1, 65):
    try:
        os.kill(1, number)
        reached.append(number)
    except OSError:
        pass
for name in ('mem', 'maps', 'fd', 'cwd', 'root', 'exe', 'fdinfo', 'ns/pid'):
    try:
        path = f'/proc/1/{name}'
        reached.append((name, os.listdir(path) if name in ('fd', 'fdinfo') else os.readlink(path) if '/' in name or name in ('cwd', 'root', 'exe') else open(path, 'rb').read(1)))
    except OSError:
        pass
print(reached)
";
    let found = printed(&session, code).await;
    if spec().runtime.is_none() {
        assert_eq!(found, "[]\n");
    } else {
        // gVisor shows more of a process; none of it is a way in.
        assert!(!found.contains("'mem'"), "{found}");
        assert!(!found.starts_with("[1,"), "{found}");
    }
    check_lives(&session).await;

    // A fork takes milliseconds in gVisor.
    let count = if spec().runtime.is_none() { 2000 } else { 200 };
    let orphans = format!(
        "
import os
for _ in range({count}):
    if (pid := os.fork()) == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
"
    );
    good(&session, &orphans).await;
    check_lives(&session).await;

    let flood = "
import os, threading
def flood(fd):
    while True:
        os.write(fd, b'x' * 65536)
for fd in (1, 2):
    threading.Thread(target=flood, args=(fd,), daemon=True).start()
flood(2)
";
    let options = without_checkpoints(Limits {
        grace: seconds(1.0),
        ..Limits::default()
    });
    let flooding = engine.session_with(options).await.unwrap();
    let begun = Instant::now();
    let before = forget_highest_resident();
    let outcome = flooding.run(timed(flood, seconds(3.0))).await.unwrap();
    assert!(!outcome.is_success(), "{outcome:?}");
    assert!(begun.elapsed() < seconds(15.0), "{:?}", begun.elapsed());
    let grown = highest_resident().saturating_sub(before);
    assert!(grown < 96 << 10, "{grown} kB");
    check_lives(&session).await;
    engine.shutdown().await;
}

/// A way to the engine's socket on which the streams of containers can be cut.
struct Proxy {
    directory: tempfile::TempDir,
    /// How many more bytes pass: from the container, and to it.
    left: Arc<[AtomicI64; 2]>,
}

impl Proxy {
    fn start() -> Self {
        let address = spec().address.unwrap();
        let path = address.strip_prefix("unix://").unwrap().to_owned();
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let left = Arc::new([AtomicI64::new(i64::MAX), AtomicI64::new(i64::MAX)]);
        let bounds = Arc::clone(&left);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let engine = UnixStream::connect(&path).await.unwrap();
                tokio::spawn(pass(stream, engine, Arc::clone(&bounds)));
            }
        });
        Self { directory, left }
    }

    fn engine(&self) -> Engine {
        let mut environment = serde_json::to_value(image()).unwrap();
        let socket = self.directory.path().join("socket");
        environment["image"]["container"]["address"] =
            format!("unix://{}", socket.display()).into();
        let environment: Environment = serde_json::from_value(environment).unwrap();
        builder(environment.preload_only(|_| false)).build()
    }

    fn cut(&self, direction: usize, after: i64) {
        self.left[direction].store(after, Ordering::SeqCst);
    }
}

async fn pass(client: UnixStream, engine: UnixStream, left: Arc<[AtomicI64; 2]>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_engine, mut to_engine) = engine.into_split();
    let mut head = vec![0; 4096];
    let Ok(read) = from_client.read(&mut head).await else {
        return;
    };
    let is_attach = head[..read].windows(8).any(|part| part == b"/attach?");
    if to_engine.write_all(&head[..read]).await.is_err() {
        return;
    }
    let bound = |at: usize| is_attach.then(|| &left[at]);
    tokio::select! {
        () = pump(&mut from_engine, &mut to_client, bound(0)) => {}
        () = pump(&mut from_client, &mut to_engine, bound(1)) => {}
    }
}

async fn pump(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    left: Option<&AtomicI64>,
) {
    let mut bytes = vec![0; 65536];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let most = left.map_or(i64::MAX, |left| left.load(Ordering::SeqCst));
        let part = read.min(usize::try_from(most).unwrap());
        if to.write_all(&bytes[..part]).await.is_err() || part < read {
            return;
        }
        if let Some(left) = left.filter(|_| most < i64::MAX) {
            left.fetch_sub(i64::try_from(part).unwrap(), Ordering::SeqCst);
        }
    }
}

/// Waits until no container of a process is left but those that were never started; returns how long it took.
pub(crate) async fn until_gone(pid: u32) -> Duration {
    let begun = Instant::now();
    let is_started = |(id, _): &(String, String)| {
        docker(&["inspect", "--format", "{{.State.Status}}", id]).trim() != "created"
    };
    loop {
        let mut left = containers(pid);
        left.retain(is_started);
        if left.is_empty() {
            return begun.elapsed();
        }
        // The minute in which a steward hears nothing, and some time to end.
        assert!(begun.elapsed() < seconds(80.0), "left: {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// N2: the stream is cut within a frame, in either direction. The cell ends as lost, soon, and the container is gone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine with a local socket"]
async fn container_n2_the_stream_is_cut() {
    for direction in [0, 1] {
        for after in [0, 1, 5, 9, 30, 200, 70_000] {
            let proxy = Proxy::start();
            let engine = proxy.engine();
            let session = engine.session().await.unwrap();
            good(&session, "x = 1").await;
            proxy.cut(direction, after);
            let begun = Instant::now();
            loop {
                // Large in both directions.
                let code = format!("'{}'; print('x' * 30_000)", "y".repeat(30_000));
                let found = tokio::time::timeout(seconds(30.0), session.run(&code)).await;
                match found.unwrap() {
                    Ok(outcome) if outcome.is_success() => {}
                    Ok(outcome) => {
                        assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
                        assert_eq!(outcome.state, Fate::Lost, "{outcome:?}");
                        break;
                    }
                    Err(Error::Ended(_)) => break,
                    Err(error) => panic!("{direction} {after}: {error}"),
                }
                assert!(begun.elapsed() < seconds(30.0), "{direction} {after}");
            }
            assert!(session.get("x").is_err());
            until_gone(std::process::id()).await;
            // The engine is not to blame: another session starts.
            proxy.cut(direction, i64::MAX);
            check_lives(&engine.session().await.unwrap()).await;
            engine.shutdown().await;
        }
    }
}

/// N5: images whose Python is not one, and whose directories are links.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_n5_a_hostile_image() {
    let name = format!("belljar-hostile-{}", std::process::id());
    let base = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
    let file = format!(
        "FROM {base}\nRUN rm -rf /opt /workspace && ln -s /etc /opt && ln -s /etc /workspace && mkdir /evil && \
         printf '#!/bin/sh\\nexec yes\\n' >/evil/flood && printf '#!/bin/sh\\nexec yes >&2\\n' >/evil/errors && \
         printf '#!/bin/sh\\nexit 0\\n' >/evil/exit && chmod +x /evil/*\n"
    );
    let mut build = Command::new("docker")
        .args([
            "--host",
            &spec().address.unwrap(),
            "build",
            "--quiet",
            "--network",
            "none",
            "--tag",
            &name,
            "-",
        ])
        .env("DOCKER_BUILDKIT", "0")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    build
        .stdin
        .take()
        .unwrap()
        .write_all(file.as_bytes())
        .unwrap();
    assert!(build.wait().unwrap().success());

    let before = forget_highest_resident();
    for python in ["/evil/exit", "/evil/flood", "/evil/none", "/etc/passwd"] {
        let begun = Instant::now();
        let found = Environment::from_image(&spec(), &name, Some(python)).await;
        assert!(
            matches!(found, Err(Error::Container(_))),
            "{python}: {found:?}"
        );
        assert!(
            begun.elapsed() < seconds(20.0),
            "{python}: {:?}",
            begun.elapsed()
        );
    }
    let grown = highest_resident().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} kB");
    // Links of the image lead to places of the image: the session's own directories are there, or it does not start.
    match Environment::from_image(&spec(), &name, None).await {
        Err(error) => assert!(matches!(error, Error::Container(_)), "{error}"),
        Ok(environment) => {
            let engine = builder(environment.preload_only(|_| false)).build();
            let session = engine.session().await.unwrap();
            check_lives(&session).await;
            let code = "import os\nprint(os.access('/etc/passwd', os.W_OK), os.access('/opt/belljar', os.W_OK))";
            assert_eq!(printed(&session, code).await, "False False\n");
            engine.shutdown().await;
        }
    }
    until_gone(std::process::id()).await;
    docker(&["rmi", "--force", &name]);
}

/// N6: a child of the session holds all of its wires, and the interpreter is killed: the child can't take its place.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn container_n6_a_child_takes_the_wires() {
    let engine = bare_engine();
    let session = engine.session().await.unwrap();
    let code = r#"
import json, os, signal, struct, sys, time
state = sys.modules["belljar_guest.state"].STATE
if os.fork() == 0:
    while True:
        for kind in ("done", "finished", "report", "outcome"):
            head = json.dumps({"type": kind, "status": "success", "cell": 1}).encode()
            try:
                os.write(3, struct.pack("<II", len(head), 0) + head)
                os.write(1, b"false\n")
            except OSError:
                pass
        time.sleep(0.01)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"#;
    let begun = Instant::now();
    let outcome = session.run(code).await.unwrap();
    assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost, "{outcome:?}");
    assert!(begun.elapsed() < seconds(20.0), "{:?}", begun.elapsed());
    assert!(matches!(session.run("1").await, Err(Error::Ended(_))));
    until_gone(std::process::id()).await;
    check_lives(&engine.session().await.unwrap()).await;
    engine.shutdown().await;
}
