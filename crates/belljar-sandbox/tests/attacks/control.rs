//! The positive control: the same snippet, with the same Python, without our walls.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use belljar_walls::{CgroupLimits, Cgroups, remove_tree};

use crate::support::Stopwatch;

/// How long a control may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a control may use. The machine is not to suffer from an attack that works.
const LIMITS: CgroupLimits = CgroupLimits {
    memory_bytes: 256 << 20,
    processes: 64,
    milli_cpus: 1000,
};

/// How a snippet fared without walls.
#[derive(Debug)]
#[allow(dead_code, reason = "not each has a reader beside Debug yet")]
pub(crate) struct ControlResult {
    /// The exit code; `None` where a signal ended it, or the patience.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether it was still running when the patience ended.
    pub(crate) timed_out: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the snippet in namespaces of its own, which end it and all that it starts. `as_root` leaves
/// out the user namespace: for what only the true root can do, and where this process is root.
pub(crate) fn run(python: &Path, code: &str, as_root: bool) -> ControlResult {
    let name = format!("belljar-{}-control", std::process::id());
    let cgroups = Cgroups::create(&name).unwrap();
    let cgroup = cgroups.session("1", None, LIMITS).unwrap();
    // A shell is process 1 of the namespace, since signals that the snippet sends to itself would
    // not end a process 1.
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("for d in $CGROUPS; do echo 0 > $d/cgroup.procs || exit 99; done; unset CGROUPS; exec unshare \"$@\"")
        .arg("sh")
        .args("--mount --pid --fork --kill-child --net --ipc --uts --mount-proc".split(' '));
    if !as_root {
        command.args(["--user", "--map-root-user"]);
    }
    let mut child = command
        .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(python)
        .args(["-I", "-c", include_str!("control.py"), code])
        .env(
            "CGROUPS",
            cgroup
                .directories()
                .iter()
                .map(|directory| directory.display().to_string())
                .collect::<Vec<_>>()
                .join(" "),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = |mut stream: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What a control says is short; one that floods is not read to its end.
            let _ = stream.by_ref().take(1 << 20).read_to_end(&mut text);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = reader(Box::new(child.stdout.take().unwrap()));
    let stderr = reader(Box::new(child.stderr.take().unwrap()));
    let started = Stopwatch::start();
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE && !timed_out {
            timed_out = true;
            // `--kill-child` ends process 1 of the namespace, and the kernel all others in it.
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    for tree in cgroups.trees() {
        remove_tree(&tree).unwrap();
    }
    assert!(
        !stderr.contains("could not be made harmless") && status.code() != Some(99),
        "the control did not run: {stderr}"
    );
    // A shell tells the signal that ended its child as 128 and its number.
    let shell_signal = status.code().filter(|code| *code > 128 && !timed_out);
    ControlResult {
        code: status.code().filter(|code| *code <= 128 && !timed_out),
        signal: shell_signal
            .map(|code| code - 128)
            .or(status.signal().filter(|_| !timed_out)),
        timed_out,
        stdout,
        stderr,
    }
}
