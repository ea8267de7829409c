//! Contents of the root file system of the template and all sessions: the driver, a few files of
//! `/etc`, and the environment variables.

use std::fs;
use std::io;
use std::path::PathBuf;

use belljar_walls::{Cgroups, RootSpec, seccomp_program};

use crate::directory::{EngineDirectory, open_to_sessions};

/// Where sessions see the guest's Python files.
pub(crate) const DRIVER: &str = "/opt/belljar";

/// The command line of the template's Python.
pub(crate) const BOOT: &str =
    "import sys; sys.path.insert(0, sys.argv[1]); from belljar_guest.template import main; main()";

/// All environment variables of the template and of sessions.
pub(crate) fn template_environment() -> Vec<String> {
    [
        "PATH=/usr/local/bin:/usr/bin:/bin",
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
    ]
    .map(str::to_owned)
    .to_vec()
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
        files: [
            (
                "/etc/passwd",
                "root:x:0:0:root:/:/usr/sbin/nologin\n\
                 belljar:x:1000:1000:belljar:/tmp:/bin/sh\n\
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
