//! Sessions in containers, in sandboxes of gVisor or with an interpreter of their own, where `.ci/tiers` asks for them: the
//! tests themselves say nothing of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use belljar_sandbox::{ContainerSpec, Environment};

/// Whether the sessions of the tests are containers.
pub(crate) fn is_in_containers() -> bool {
    backend() == Some("container")
}

/// Whether they are sandboxes of gVisor that we start ourselves.
pub(crate) fn is_gvisor() -> bool {
    backend() == Some("gvisor")
}

/// Whether each session starts an interpreter of its own, behind own walls.
pub(crate) fn is_fresh() -> bool {
    backend() == Some("fresh")
}

fn backend() -> Option<&'static str> {
    static BACKEND: OnceLock<Option<String>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| std::env::var("BELLJAR_TEST_BACKEND").ok());
    assert!(
        matches!(
            backend.as_deref(),
            None | Some("container" | "gvisor" | "fresh")
        ),
        "BELLJAR_TEST_BACKEND is container, gvisor, fresh, or not set: {backend:?}"
    );
    backend.as_deref()
}

/// The engine under test, as `.ci/engines` names it.
pub(crate) fn spec() -> ContainerSpec {
    ContainerSpec {
        address: Some(std::env::var("BELLJAR_TEST_ENGINE").unwrap()),
        certificates: std::env::var_os("BELLJAR_TEST_CERTIFICATES").map(Into::into),
        runtime: std::env::var("BELLJAR_TEST_RUNTIME").ok(),
    }
}

/// The image under test. It is looked at once: each test is a process of its own, and looking takes a container.
pub(crate) fn image() -> Environment {
    static IMAGE: OnceLock<Environment> = OnceLock::new();
    IMAGE
        .get_or_init(|| {
            let kept = std::env::var_os("BELLJAR_TEST_PROBED").map(PathBuf::from);
            let text = kept.as_deref().and_then(|kept| std::fs::read(kept).ok());
            text.map_or_else(
                || look(kept.as_deref()),
                |text| serde_json::from_slice(&text).unwrap(),
            )
        })
        .clone()
}

fn look(kept: Option<&Path>) -> Environment {
    let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
    // On a thread of its own: the caller may be a task.
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Environment::from_image(&spec(), &image, None))
    });
    let environment = looking.join().unwrap().unwrap();
    // What a test looks at begins without it.
    while !containers(std::process::id()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    if let Some(kept) = kept {
        // Another test may look at the same time.
        let part = kept.with_extension(std::process::id().to_string());
        std::fs::write(&part, serde_json::to_string(&environment).unwrap()).unwrap();
        std::fs::rename(part, kept).unwrap();
    }
    environment
}

/// What Docker's own client says; it speaks with Podman, too.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let spec = spec();
    let mut command = Command::new("docker");
    command.arg("--host").arg(spec.address.unwrap());
    if let Some(certificates) = spec.certificates {
        command.env("DOCKER_CERT_PATH", certificates);
        command.env("DOCKER_TLS_VERIFY", "1");
    }
    let output = command.args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The containers of one process's engines: id, and number of the session.
pub(crate) fn containers(pid: u32) -> Vec<(String, String)> {
    let prefix = format!("belljar-{pid}-");
    let format = "{{.ID}} {{.Label \"belljar.session\"}} {{.Label \"belljar.engine\"}}";
    let listed = docker(&["ps", "--all", "--no-trunc", "--format", format]);
    let words = listed.lines().map(|line| line.split(' ').collect());
    words
        .filter_map(|words: Vec<&str>| match words[..] {
            [id, session, engine] if engine.starts_with(&prefix) => {
                Some((id.to_owned(), session.to_owned()))
            }
            _ => None,
        })
        .collect()
}

/// The cgroups of a session of this process.
pub(crate) fn cgroups(session: u64) -> Vec<PathBuf> {
    let session = session.to_string();
    let ours = containers(std::process::id());
    let ours = ours.into_iter().filter(|(_, of)| *of == session);
    ours.flat_map(|(id, _)| {
        let pid = docker(&["inspect", "--format", "{{.State.Pid}}", &id]);
        let path = format!("/proc/{}/cgroup", pid.trim());
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        // It may be in the root of a hierarchy: gVisor's kernel has no cgroup in that of version 2 beside version 1.
        let lines = lines.lines().filter(|line| !line.ends_with(":/"));
        let lines = lines.map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next().unwrap_or_default().trim_start_matches("name=");
            let path = parts.next().unwrap_or_default().trim_start_matches('/');
            Path::new("/sys/fs/cgroup").join(controllers).join(path)
        });
        lines.filter(|path| path.is_dir()).collect::<Vec<_>>()
    })
    .collect()
}
