//! Gets a cgroup of version 2 that this process may divide among sessions.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys;

/// Where the host's own processes go, since a cgroup has either processes or children with controllers.
pub(super) const HOST_LEAF: &str = "/belljar-host";

/// How often processes that have just been started are moved, too.
const MOVES: usize = 100;

/// How long systemd may take for a scope.
const SCOPE_TIME: Duration = Duration::from_secs(10);

/// Has systemd move this process into a delegated scope of its own, as `systemd-run --scope -p Delegate=yes` does: that of
/// the machine for root, that of the user for others. Says whether it did; `busctl` is part of systemd.
pub(super) fn move_to_scope() -> bool {
    if !Path::new("/run/systemd/system").exists() {
        return false;
    }
    let before = own_cgroup();
    let process = std::process::id().to_string();
    let mut command = Command::new("busctl");
    if !rustix::process::geteuid().is_root() {
        command.arg("--user");
    }
    let manager = "org.freedesktop.systemd1";
    let object = "/org/freedesktop/systemd1";
    let interface = "org.freedesktop.systemd1.Manager";
    command.args(["call", manager, object, interface, "StartTransientUnit"]);
    command.args([
        "ssa(sv)a(sa(sv))",
        &format!("belljar-{process}.scope"),
        "fail",
    ]);
    // Three properties, and no other units.
    command.args(["3", "PIDs", "au", "1", &process, "Delegate", "b", "1"]);
    command.args(["CollectMode", "s", "inactive-or-failed", "0"]);
    let none = Stdio::null;
    command.stdin(none()).stdout(none()).stderr(none());
    if !command.status().is_ok_and(|status| status.success()) {
        return false;
    }
    // It answers before it has moved the process.
    let asked = Instant::now();
    while own_cgroup() == before && asked.elapsed() < SCOPE_TIME {
        std::thread::sleep(Duration::from_millis(5));
    }
    own_cgroup() != before
}

/// Remounts the cgroups of our own container, the last of these, which container runtimes mount read-only. Where that is
/// refused, the first use says so.
pub(super) fn make_writable(candidates: &[PathBuf]) {
    let (Some(own), Some(top)) = (candidates.first(), candidates.last()) else {
        return;
    };
    let read_only = rustix::fs::statvfs(top)
        .is_ok_and(|place| place.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    if is_of_container(own) && read_only {
        let flags = libc::MS_REMOUNT
            | libc::MS_BIND
            | libc::MS_NOSUID
            | libc::MS_NODEV
            | libc::MS_NOEXEC
            | libc::MS_RELATIME;
        let _ = sys::mount_new(c"none", top, flags, "");
    }
}

/// Whether all processes of a cgroup may be moved: it is that of our container, it was handed to us, or nobody else is
/// in it (as in a scope made for this process).
pub(super) fn is_ours(directory: &Path) -> bool {
    is_of_container(directory) || is_delegated(directory) || {
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        processes.split_whitespace().all(is_this_or_its_child)
    }
}

/// Whether a cgroup, the one of this process, is the root of a cgroup namespace, as containers have one.
fn is_of_container(directory: &Path) -> bool {
    // The root of the machine has no type.
    matches!(own_cgroup().as_deref(), Some("/" | HOST_LEAF))
        && directory.join("cgroup.type").exists()
}

/// This process's cgroup of version 2, as it is named in its cgroup namespace.
pub(super) fn own_cgroup() -> Option<String> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(own.to_owned())
}

/// Whether systemd or its like has handed a cgroup to who runs this.
fn is_delegated(directory: &Path) -> bool {
    let marked = ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        let read = rustix::fs::getxattr(directory, *name, &mut value);
        read.is_ok_and(|length| &value[..length] == b"1")
    });
    let user = rustix::process::geteuid();
    let owned = fs::metadata(directory).is_ok_and(|data| data.uid() == user.as_raw());
    // Root owns those of the machine, too.
    marked || owned && !user.is_root()
}

pub(super) fn move_to_leaf(directory: &Path) -> io::Result<()> {
    let leaf = directory.join(HOST_LEAF.trim_start_matches('/'));
    fs::create_dir_all(&leaf)?;
    let join = leaf.join("cgroup.procs");
    for _ in 0..MOVES {
        let processes = fs::read_to_string(directory.join("cgroup.procs"))?;
        if processes.is_empty() {
            break;
        }
        for process in processes.split_whitespace() {
            match fs::write(&join, process) {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                moved => moved?,
            }
        }
    }
    Ok(())
}

/// Whether a process is this one or its child.
fn is_this_or_its_child(process: &str) -> bool {
    let this = std::process::id().to_string();
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    process == this || parent.is_some_and(|parent| parent.trim() == this)
}
