//! The request that makes a container.

use serde_json::{Value, json};

use crate::backend::rootfs::template_environment;
use crate::limits::Limits;

/// The label that says which engine of ours a container belongs to.
pub(super) const ENGINE_LABEL: &str = "belljar.engine";

/// The label that says which host and user that engine has: others use the same container engine.
pub(super) const HOST_LABEL: &str = "belljar.host";

/// The capabilities of the steward, as the kernel numbers them: `CHOWN`, `KILL`, `SETGID`, `SETUID`, `SETPCAP`. A
/// session has none.
pub(super) const CAPABILITIES: u64 = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;

/// Processes of ours beside those of the session: the steward, its file helper, and one of them while it starts.
const OURS: u64 = 3;

/// What the engine hides by itself; naming more replaces its list.
const MASKED: [&str; 24] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    // And what tells of the host.
    "/proc/cmdline",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/locks",
    "/proc/sys/kernel/random/boot_id",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/devices",
    "/sys/kernel",
    "/sys/module",
];

/// The command line of the steward's Python: writes the guest's files, and begins. An engine that takes long to start it
/// lets it hear that the host lives before that.
const BOOT: &str = "\
import json, os, struct, sys
def take(size):
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 16))
        if not part: os._exit(0)
        parts.append(part); size -= len(part)
    return b''.join(parts)
message = {}
while 'files' not in message:
    head, _ = struct.unpack('<II', take(8))
    message = json.loads(take(head))
os.makedirs('/opt/belljar/belljar_guest', exist_ok=True)
for name, size in message['files']:
    with open('/opt/belljar/' + name, 'wb') as file: file.write(take(size))
sys.path.insert(0, '/opt/belljar')
from belljar_guest.steward import main
main()
";

/// Processes and threads of a container.
pub(super) fn own_processes(limits: &Limits) -> u64 {
    limits.processes + OURS
}

/// What makes a container.
pub(super) struct Container<'a> {
    pub(super) image: &'a str,
    pub(super) python: &'a str,
    pub(super) runtime: Option<&'a str>,
    /// The engine of ours that it belongs to.
    pub(super) engine: &'a str,
    /// The host and user of that engine.
    pub(super) host: &'a str,
    pub(super) session: u64,
    pub(super) limits: &'a Limits,
    /// Whether sizes of file systems can be numbers of files, too.
    pub(super) counts_files: bool,
    /// Whether the engine is Podman, which may not raise a limit that is not named.
    pub(super) is_podman: bool,
}

impl Container<'_> {
    /// The request's body.
    pub(super) fn body(&self) -> Value {
        let limits = self.limits;
        let files = if self.counts_files {
            format!(",nr_inodes={}", limits.inodes)
        } else {
            String::new()
        };
        let mut host = json!({
            "NetworkMode": "none",
            // Otherwise the host's resolver is seen.
            "Dns": ["127.0.0.1"],
            "CgroupnsMode": "private",
            "IpcMode": "private",
            "AutoRemove": true,
            "Memory": limits.memory_bytes,
            "MemorySwap": limits.memory_bytes,
            "NanoCpus": limits.milli_cpus * 1_000_000,
            "PidsLimit": own_processes(limits),
            "ReadonlyRootfs": true,
            "ShmSize": limits.temporary_bytes,
            // Output of hostile code does not belong on a disk of the engine.
            "LogConfig": {"Type": "none"},
            // Programs and libraries of the session are in there, which an engine would not let it use.
            "Tmpfs": {
                "/workspace": format!("rw,exec,nosuid,nodev,size={}{files},mode=0755", limits.workspace_bytes),
                "/tmp": format!("rw,exec,nosuid,nodev,size={}{files},mode=1777", limits.temporary_bytes),
                "/opt/belljar": "rw,nosuid,nodev,size=4194304,mode=0755",
            },
            "CapDrop": ["ALL"],
            "CapAdd": ["CHOWN", "KILL", "SETGID", "SETPCAP", "SETUID"],
            "SecurityOpt": ["no-new-privileges"],
            "Ulimits": [
                {"Name": "nofile", "Soft": limits.open_files.min(1024), "Hard": limits.open_files.max(4096)},
                {"Name": "core", "Soft": 1, "Hard": 1},
            ],
            "MaskedPaths": MASKED,
        });
        if self.is_podman {
            let most = own_processes(limits);
            let limit = json!({"Name": "nproc", "Soft": most, "Hard": most});
            if let Some(limits) = host["Ulimits"].as_array_mut() {
                limits.push(limit);
            }
        }
        if let Some(runtime) = self.runtime {
            host["Runtime"] = json!(runtime);
        }
        json!({
            "Image": self.image,
            "Entrypoint": [self.python, "-I", "-c", BOOT],
            "Cmd": [],
            "Hostname": "belljar",
            "User": "0",
            "WorkingDir": "/",
            "Env": template_environment(),
            "OpenStdin": true,
            "StdinOnce": true,
            "AttachStdin": true,
            "AttachStdout": true,
            "AttachStderr": true,
            "Tty": false,
            "Labels": {ENGINE_LABEL: self.engine, HOST_LABEL: self.host, "belljar.session": self.session.to_string()},
            "HostConfig": host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_limited_and_closed() {
        let limits = Limits::default();
        let body = Container {
            image: "python:3.12",
            python: "python3",
            runtime: None,
            engine: "belljar-1",
            host: "h",
            session: 7,
            limits: &limits,
            counts_files: true,
            is_podman: false,
        }
        .body();
        let host = &body["HostConfig"];
        assert_eq!(host["Memory"], limits.memory_bytes);
        assert_eq!(host["MemorySwap"], host["Memory"]);
        assert_eq!(host["PidsLimit"], limits.processes + OURS);
        assert_eq!(host["NetworkMode"], "none");
        assert_eq!(host["ReadonlyRootfs"], true);
        assert!(host.get("Runtime").is_none());
        assert!(host.get("Binds").is_none() && host.get("Mounts").is_none());
        assert_eq!(body["Labels"][ENGINE_LABEL], "belljar-1");
    }
}
