//! A small memory cgroup around this process, and with it around the service that the case starts.

use std::fs;
use std::path::{Path, PathBuf};

/// A cgroup that this process is in until it ends. The kernel kills it where it needs more.
pub(crate) struct Small {
    directory: PathBuf,
    /// Where this process was before.
    before: PathBuf,
}

impl Small {
    /// Moves this process into a cgroup of its own with so much memory. The case fails where it can't be made: only root
    /// can, and a control that did not run proves nothing.
    pub(crate) fn enter(bytes: u64) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let found = find(&mounts, &own);
        let (top, before, limit) = found.expect("there is no memory controller, of version 1 or 2");
        let directory = top.join(format!("belljar-small-{}", std::process::id()));
        let made = fs::create_dir(&directory);
        made.unwrap_or_else(|error| {
            panic!("{}: {error}; run it as root", directory.display());
        });
        let small = Self { directory, before };
        let limited = fs::write(small.directory.join(limit), bytes.to_string());
        limited.expect("the limit can't be set");
        small.join(&small.directory);
        small
    }

    fn join(&self, directory: &Path) {
        let joined = fs::write(
            directory.join("cgroup.procs"),
            std::process::id().to_string(),
        );
        joined.unwrap_or_else(|error| panic!("{}: {error}", self.directory.display()));
    }

    /// The most memory that was used, in bytes: by this process, its templates and its sessions.
    pub(crate) fn peak(&self) -> u64 {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).ok();
        let peak = read("memory.max_usage_in_bytes").or_else(|| read("memory.peak"));
        peak.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = fs::write(
            self.before.join("cgroup.procs"),
            std::process::id().to_string(),
        );
        // What is below ends with the engine, which takes a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.directory).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// Where a cgroup can be made, where this process is, and the name of the limit.
fn find(mounts: &str, own: &str) -> Option<(PathBuf, PathBuf, &'static str)> {
    let mut second = None;
    for line in mounts.lines() {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, PathBuf::from(left.next()?));
        let below = |path: &str| {
            let rest = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
            point.join(rest.trim_matches('/'))
        };
        let kind = right.split(' ').next()?;
        let controllers = right.rsplit(' ').next()?;
        if kind == "cgroup" && controllers.split(',').any(|name| name == "memory") {
            let path = own.lines().find_map(|line| {
                let (names, path) = line.split_once(':')?.1.split_once(':')?;
                names
                    .split(',')
                    .any(|name| name == "memory")
                    .then_some(path)
            })?;
            return Some((point.clone(), below(path), "memory.limit_in_bytes"));
        }
        let there = fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default();
        if kind == "cgroup2" && there.split_whitespace().any(|name| name == "memory") {
            let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
            let _ = fs::write(point.join("cgroup.subtree_control"), "+memory +pids +cpu");
            second = Some((point.clone(), below(path), "memory.max"));
        }
    }
    second
}
