//! Container engines and images that fail or lie (N2, N3, N5), by a small engine of our own: no container is needed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_sandbox::{ContainerError, ContainerSpec, Environment, Error, Limits};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::support::{eventually, forget_highest_resident, highest_resident, seconds};

/// The requests that make a container and remove it, in their order.
const STEPS: [&str; 8] = [
    "version", "info", "create", "attach", "start", "inspect", "list", "remove",
];

/// What an engine does instead of the right thing.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Refuses,
    Closes,
    IsNoHttp,
    AnswersWithoutEnd,
    AnswersNonsense,
    NeverAnswers,
}

/// What the container says on its stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Container {
    Honest,
    Ends,
    EndsWithinAFrame,
    IsTooLarge,
    IsNoJson,
    IsOfAnUnknownType,
    IsNested,
    /// Frames of a session's output, though there is no session.
    FloodsOutput,
    /// Bytes on its stderr, which are kept for errors.
    FloodsErrors,
    FloodsCounts,
    Lies,
}

struct FakeEngine {
    directory: tempfile::TempDir,
    seen: Arc<Mutex<Vec<&'static str>>>,
}

impl FakeEngine {
    fn start(fault: Option<(&'static str, Fault)>, container: Container) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let seen = Arc::<Mutex<Vec<&'static str>>>::default();
        let list = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let list = Arc::clone(&list);
                // It is nobody's fault if the other end is closed first.
                tokio::spawn(async move {
                    let _ = serve(stream, fault, container, &list).await;
                });
            }
        });
        Self { directory, seen }
    }

    async fn look(&self) -> Result<Environment, ContainerError> {
        let socket: PathBuf = self.directory.path().join("socket");
        let spec = ContainerSpec {
            address: Some(format!("unix://{}", socket.display())),
            ..ContainerSpec::default()
        };
        match Environment::from_image(&spec, "image", None).await {
            Ok(environment) => Ok(environment),
            Err(Error::Container(error)) => Err(*error),
            Err(error) => panic!("{error}"),
        }
    }

    fn has_seen(&self, step: &str) -> bool {
        self.seen.lock().unwrap().contains(&step)
    }
}

async fn serve(
    mut stream: UnixStream,
    fault: Option<(&'static str, Fault)>,
    container: Container,
    seen: &Mutex<Vec<&'static str>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let has = |text: &str| request.lines().next().unwrap().contains(text);
    let step = match () {
        () if has("DELETE") => "remove",
        () if has("/version") => "version",
        () if has("/info") => "info",
        () if has("/create") => "create",
        () if has("/attach") => "attach",
        () if has("/start") => "start",
        () if has("/containers/json") => "list",
        () if has("/containers/abc/json") => "inspect",
        () => "events",
    };
    seen.lock().unwrap().push(step);
    let answer = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    match fault {
        Some((at, fault)) if at == step => {
            let text = match fault {
                Fault::Refuses => answer("500 No", "{\"message\": \"out of luck\"}"),
                Fault::Closes => return Ok(()),
                Fault::IsNoHttp => "not HTTP at all\r\n\r\n".to_owned(),
                Fault::AnswersNonsense => answer("200 OK", "[\"nonsense\""),
                Fault::AnswersWithoutEnd => {
                    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                    stream.write_all(head.as_bytes()).await?;
                    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
                    loop {
                        stream.write_all(&chunk).await?;
                    }
                }
                Fault::NeverAnswers => {
                    std::future::pending::<()>().await;
                    String::new()
                }
            };
            return stream.write_all(text.as_bytes()).await;
        }
        _ => {}
    }
    let text = match step {
        "version" => answer("200 OK", "{\"MinAPIVersion\": \"1.12\"}"),
        "info" => answer("200 OK", "{\"KernelVersion\": \"6.1\", \"Runtimes\": {}}"),
        "create" => answer("201 Created", "{\"Id\": \"abc\"}"),
        "attach" => {
            let head = "HTTP/1.1 101 UPGRADED\r\nconnection: Upgrade\r\nupgrade: tcp\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            return contain(stream, container).await;
        }
        "start" | "remove" => answer("204 No Content", ""),
        "inspect" => {
            let digest = format!("sha256:{}", "a".repeat(64));
            answer("200 OK", &json!({"Image": digest}).to_string())
        }
        "list" => answer("200 OK", "[{\"Id\": \"abc\", \"Labels\": {}}]"),
        _ => answer("200 OK", ""),
    };
    stream.write_all(text.as_bytes()).await
}

/// One frame of the host.
async fn hear(stream: &mut UnixStream) -> std::io::Result<Value> {
    let (head, blob) = (stream.read_u32_le().await?, stream.read_u32_le().await?);
    let mut bytes = vec![0; (head + blob) as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes[..head as usize]).unwrap())
}

fn frame(header: &[u8], blob: &[u8]) -> Vec<u8> {
    let lengths = [header.len(), blob.len()].map(|length| u32::try_from(length).unwrap());
    let [head, tail] = lengths.map(u32::to_le_bytes);
    [&head, &tail, header, blob].concat()
}

/// Bytes of a container's stream (1: stdout, 2: stderr), as engines send them.
async fn say(stream: &mut UnixStream, of: u8, bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    stream.write_all(&[of, 0, 0, 0]).await?;
    stream.write_all(&length).await?;
    stream.write_all(bytes).await
}

fn attest() -> Value {
    let limits = Limits::default();
    json!({
        "type": "attest", "version": 1, "python": [3, 12, 1], "implementation": "cpython",
        "executable": "/usr/bin/python3", "machine": std::env::consts::ARCH, "kernel": "6.1", "uid": 0,
        "capabilities": 0, "bounding": 0, "no_new_privileges": true, "seccomp": 2, "interfaces": ["lo"],
        "root_writable": false, "ctypes": true,
        "limits": {"memory": limits.memory_bytes, "processes": limits.processes, "milli_cpus": limits.milli_cpus},
        "mounts": {
            "/workspace": {"type": "tmpfs", "bytes": limits.workspace_bytes},
            "/tmp": {"type": "tmpfs", "bytes": limits.temporary_bytes},
        },
    })
}

async fn contain(mut stream: UnixStream, container: Container) -> std::io::Result<()> {
    // Before that the host may say that it lives.
    while hear(&mut stream).await?["type"] != "files" {}
    assert_eq!(hear(&mut stream).await?["type"], "hello");
    let stream = &mut stream;
    match container {
        Container::Honest => {
            say(stream, 1, &frame(attest().to_string().as_bytes(), b"")).await?;
            // Until the host ends it.
            while stream.read(&mut [0; 4096]).await? > 0 {}
            Ok(())
        }
        Container::Ends => Ok(()),
        Container::EndsWithinAFrame => {
            let whole = frame(attest().to_string().as_bytes(), b"");
            say(stream, 1, &whole[..whole.len() / 2]).await
        }
        Container::IsTooLarge => say(stream, 1, &[0xff; 64]).await,
        Container::IsNoJson => say(stream, 1, &frame(b"{\"type\"", b"")).await,
        Container::IsOfAnUnknownType => say(stream, 1, &frame(b"{\"type\":\"x\"}", b"")).await,
        Container::IsNested => say(stream, 1, &frame(&vec![b'['; 1 << 20], b"")).await,
        Container::FloodsOutput => loop {
            say(
                stream,
                1,
                &frame(b"{\"type\":\"stdout\"}", &vec![b'x'; 0x10000]),
            )
            .await?;
        },
        Container::FloodsErrors => {
            for _ in 0..4096 {
                say(stream, 2, &vec![b'e'; 0x10000]).await?;
            }
            Ok(())
        }
        Container::FloodsCounts => {
            let counts = br#"{"type":"exited","pid":7,"status":0}"#;
            let many = frame(counts, b"").repeat(1000);
            for _ in 0..1000 {
                say(stream, 1, &many).await?;
            }
            Ok(())
        }
        Container::Lies => {
            let mut lie = attest();
            lie["root_writable"] = json!(true);
            lie["interfaces"] = json!(["lo", "eth0"]);
            say(stream, 1, &frame(lie.to_string().as_bytes(), b"")).await?;
            while stream.read(&mut [0; 4096]).await? > 0 {}
            Ok(())
        }
    }
}

/// The control of the tests below: an engine that does all of it.
#[tokio::test(flavor = "multi_thread")]
async fn container_n3_an_engine_without_faults() {
    let engine = FakeEngine::start(None, Container::Honest);
    let environment = engine.look().await.unwrap();
    assert_eq!(environment.name(), "image:image");
    for step in STEPS {
        assert!(engine.has_seen(step), "{step}");
    }
}

/// N3: an engine that fails at a step. Each is an error that names it, soon, and what was made is removed.
#[tokio::test(flavor = "multi_thread")]
async fn container_n3_an_engine_that_fails_at_each_step() {
    for step in STEPS {
        for fault in [
            Fault::Refuses,
            Fault::Closes,
            Fault::IsNoHttp,
            Fault::AnswersNonsense,
            Fault::AnswersWithoutEnd,
        ] {
            let engine = FakeEngine::start(Some((step, fault)), Container::Honest);
            let before = forget_highest_resident();
            let found = tokio::time::timeout(seconds(20.0), engine.look()).await;
            let found = found.unwrap_or_else(|_| panic!("{step} {fault:?}: too late"));
            let grown = highest_resident().saturating_sub(before);
            assert!(grown < 64 << 10, "{step} {fault:?}: {grown} kB");
            match (step, fault, &found) {
                (_, Fault::Refuses, Err(error)) => {
                    assert!(error.to_string().contains("out of luck"), "{step}: {error}");
                }
                // What it says there is not needed.
                (
                    "version" | "info" | "start" | "list" | "remove",
                    Fault::AnswersNonsense,
                    Ok(_),
                )
                | ("remove", Fault::AnswersWithoutEnd, Ok(_))
                | (_, _, Err(_)) => {}
                _ => panic!("{step} {fault:?}: {found:?}"),
            }
            if engine.has_seen("attach") {
                eventually("the removal", || engine.has_seen("remove")).await;
            }
        }
    }
}

/// N2, N5: a container that lies, ends within a frame, or says far too much. Each is an error, it is removed, and the
/// host's memory stays as it was.
#[tokio::test(flavor = "multi_thread")]
async fn container_n5_a_container_that_is_hostile() {
    for (container, words) in [
        (Container::Ends, "it ended"),
        (Container::EndsWithinAFrame, "it ended"),
        (Container::IsTooLarge, "it ended"),
        (Container::IsNoJson, "it ended"),
        (Container::IsOfAnUnknownType, "it ended"),
        (Container::IsNested, "it ended"),
        (Container::FloodsOutput, "it sent more than it may"),
        (Container::FloodsErrors, "eeee"),
        (Container::FloodsCounts, "it ended"),
        (Container::Lies, "root file system can be written to"),
    ] {
        let engine = FakeEngine::start(None, container);
        let before = forget_highest_resident();
        let found = tokio::time::timeout(seconds(30.0), engine.look()).await;
        let found = found.unwrap_or_else(|_| panic!("{container:?}: too late"));
        let error = found.unwrap_err().to_string();
        assert!(error.contains(words), "{container:?}: {error}");
        assert!(
            error.len() < 32 << 10,
            "{container:?}: {} bytes",
            error.len()
        );
        let grown = highest_resident().saturating_sub(before);
        assert!(grown < 64 << 10, "{container:?}: {grown} kB");
        eventually("the removal", || engine.has_seen("remove")).await;
    }
}

/// N3: an engine that takes requests and never answers. It has a minute, then it is an error that names the step.
#[tokio::test(flavor = "multi_thread")]
async fn waits_container_n3_an_engine_that_never_answers() {
    let looks = STEPS[..6].iter().map(|step| {
        tokio::spawn(async move {
            let engine = FakeEngine::start(Some((step, Fault::NeverAnswers)), Container::Honest);
            let found = tokio::time::timeout(Duration::from_secs(90), engine.look()).await;
            let error = found.unwrap().unwrap_err();
            assert!(
                matches!(error, ContainerError::Silent { seconds: 60, .. }),
                "{step}: {error}"
            );
            if ["attach", "start", "inspect"].contains(step) {
                eventually("the removal", || engine.has_seen("remove")).await;
            }
        })
    });
    for look in looks.collect::<Vec<_>>() {
        look.await.unwrap();
    }
}
