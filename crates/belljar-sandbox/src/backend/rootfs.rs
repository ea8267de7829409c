//! Contents of the root file system of the template and all sessions: the driver, a few files of
//! `/etc`, and the environment variables.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_walls::{Cgroups, PROXY_PORT, RootSpec, seccomp_program};

use crate::backend::directory::EngineDirectory;
use crate::limits::Limits;
use crate::permissions::open_to_sessions;

/// Where sessions see the guest's Python files.
pub(crate) const DRIVER: &str = "/opt/belljar";

/// Where programs are looked up.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The command line of the template's Python.
pub(crate) const BOOT: &str =
    "import sys; sys.path.insert(0, sys.argv[1]); from belljar_guest.template import main; main()";

/// All environment variables of the template and of sessions.
pub(crate) fn template_environment() -> Vec<String> {
    [
        &format!("PATH={PATH}"),
        "HOME=/tmp",
        "TMPDIR=/tmp",
        "LANG=C.UTF-8",
        "LC_ALL=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
        "MPLBACKEND=module://belljar_guest.plots",
        // More than one thread in the template would make its forks unsafe.
        "OMP_NUM_THREADS=1",
        "OPENBLAS_NUM_THREADS=1",
        "MKL_NUM_THREADS=1",
        // Idle threads compute nothing for half a millisecond, instead of 25, before they wait.
        "OPENBLAS_THREAD_TIMEOUT=20",
        // pandas imports pyarrow, whose allocator starts a thread otherwise.
        "JE_ARROW_MALLOC_CONF=background_thread:false",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The environment variables of a command, without those of its caller.
pub(crate) fn command_environment(
    python: &Path,
    home: &Path,
    threads: u64,
    proxy: bool,
    terminal: bool,
) -> BTreeMap<String, String> {
    let path = match python.parent() {
        Some(directory) => format!("{}:{PATH}", directory.display()),
        None => PATH.to_owned(),
    };
    let home = home.display().to_string();
    let threads = threads.to_string();
    let mut variables = BTreeMap::from(
        [
            ("PATH", path.as_str()),
            ("HOME", &home),
            ("TMPDIR", "/tmp"),
            ("USER", "belljar"),
            ("LOGNAME", "belljar"),
            ("SHELL", "/bin/sh"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C.UTF-8"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("OMP_NUM_THREADS", &threads),
            ("OPENBLAS_NUM_THREADS", &threads),
            ("MKL_NUM_THREADS", &threads),
            ("TERM", if terminal { "xterm-256color" } else { "dumb" }),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if proxy {
        let proxy = proxy_variables().into_iter();
        variables.extend(proxy.map(|(name, value)| (name.to_owned(), value)));
    }
    variables
}

/// The environment variables of an interpreter that are its own. OpenMP has one thread: a process that had more hangs in
/// its next parallel loop after a fork, and every checkpoint is a fork. `OpenBLAS` is made for forks.
pub(crate) fn interpreter_environment(
    limits: &Limits,
    proxy: bool,
) -> BTreeMap<&'static str, String> {
    let mut variables = BTreeMap::from([("OPENBLAS_NUM_THREADS", limits.threads().to_string())]);
    if proxy {
        variables.extend(proxy_variables());
    }
    variables
}

/// Sets the proxy variables, in both spellings in use.
pub(crate) fn proxy_variables() -> BTreeMap<&'static str, String> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let local = "localhost,127.0.0.1,::1".to_owned();
    BTreeMap::from([
        ("HTTP_PROXY", proxy.clone()),
        ("HTTPS_PROXY", proxy.clone()),
        ("NO_PROXY", local.clone()),
        ("http_proxy", proxy.clone()),
        ("https_proxy", proxy),
        ("no_proxy", local),
    ])
}

/// Writes what the root needs into the engine's directory.
pub(crate) fn prepare_directory(
    directory: &EngineDirectory,
    cgroups: Option<&Cgroups>,
) -> io::Result<RootSpec> {
    if let Some(cgroups) = cgroups {
        directory.record_cgroups(&cgroups.trees())?;
    }
    let driver = directory.driver();
    for (path, contents) in belljar_guest::FILES {
        let path = driver.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, contents)?;
    }
    fs::write(driver.join("seccomp.bpf"), seccomp_program())?;
    open_to_sessions(&driver)?;
    Ok(RootSpec {
        read_only: Vec::new(),
        mounts: vec![(driver, PathBuf::from(DRIVER))],
        directories: Vec::new(),
        files: [
            (
                "/etc/passwd",
                "root:x:0:0:root:/:/usr/sbin/nologin\n\
                 belljar:x:1000:1000:belljar:/home/user:/bin/sh\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
            ),
            (
                "/etc/group",
                "root:x:0:\nbelljar:x:1000:\nnogroup:x:65534:\n",
            ),
            ("/etc/hosts", "127.0.0.1 localhost belljar\n::1 localhost\n"),
            ("/etc/hostname", "belljar\n"),
            (
                "/etc/nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files\n",
            ),
        ]
        .map(|(path, contents)| (PathBuf::from(path), contents.to_owned()))
        .to_vec(),
    })
}
