//! What a sandbox of gVisor is started from: a root directory, and its description.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::backend::rootfs::{DRIVER, template_environment};
use crate::limits::Limits;

/// The command line of the steward's Python. The guest's files are there already.
const BOOT: &str =
    "import sys; sys.path.insert(0, sys.argv[1]); from belljar_guest.steward import main; main()";

/// The capabilities of the steward; a session has none.
const CAPABILITIES: [&str; 5] = [
    "CAP_CHOWN",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
];

/// What the sandboxes of an engine share.
#[derive(Debug)]
pub(super) struct Bundle {
    /// The root directory: links, small files and mount points.
    pub(super) root: PathBuf,
    /// Paths of this host, and their names in the root.
    pub(super) shown: Vec<(PathBuf, PathBuf)>,
}

impl Bundle {
    /// The description of one, in the words of the Open Container Initiative.
    pub(super) fn config(&self, python: &str, limits: &Limits) -> Value {
        let own = |path: &str, options: String| {
            json!({
                "destination": path, "type": "tmpfs", "source": "tmpfs",
                "options": format!("nosuid,nodev,{options}").split(',').collect::<Vec<_>>(),
            })
        };
        let temporary = format!("size={},mode=1777", limits.temporary_bytes);
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}),
            own("/dev/shm", temporary.clone()),
            own("/tmp", temporary),
            own(
                "/workspace",
                format!("size={},mode=0755", limits.workspace_bytes),
            ),
        ];
        mounts.extend(self.shown.iter().map(|(source, target)| {
            json!({
                "destination": target, "type": "bind", "source": source,
                "options": ["rbind", "ro", "nosuid", "nodev"],
            })
        }));
        let namespaces =
            ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
        json!({
            "ociVersion": "1.0.2",
            "hostname": "belljar",
            "root": {"path": self.root, "readonly": true},
            "mounts": mounts,
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": [python, "-I", "-X", "utf8", "-c", BOOT, DRIVER],
                "env": template_environment(),
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": {
                    "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
                },
                "rlimits": [
                    {"type": "RLIMIT_NOFILE", "soft": limits.open_files.min(1024), "hard": limits.open_files.max(4096)},
                    {"type": "RLIMIT_CORE", "soft": 1, "hard": 1},
                ],
            },
            "linux": {"namespaces": namespaces},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_can_write_only_to_memory() {
        let bundle = Bundle {
            root: "/engine/root".into(),
            shown: vec![("/usr".into(), "/usr".into())],
        };
        let config = bundle.config("/usr/bin/python3", &Limits::default());
        assert_eq!(config["root"]["readonly"], true);
        assert_eq!(config["process"]["noNewPrivileges"], true);
        for mount in config["mounts"].as_array().unwrap() {
            let options = mount["options"].as_array().unwrap();
            let is_read_only = options.iter().any(|option| option == "ro");
            assert_eq!(is_read_only, mount["type"] == "bind", "{mount}");
        }
        assert!(config["linux"].get("devices").is_none());
    }
}
