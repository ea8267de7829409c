//! Where the host has its cgroups, and which of them an engine can make its own in.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::claim::{self, HOST_LEAF};
use super::{CgroupError, PROCESSES, Version, refused, unique};

/// Version 1 has no word for no limit, but the largest number of pages.
const UNLIMITED: u64 = 1 << 60;

pub(super) const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];
const V2_CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Where the host has its cgroups: for each controller the caller's own directory and the top.
#[derive(Debug, Default)]
pub(super) struct Hierarchies {
    v1: Vec<(String, Vec<PathBuf>)>,
    pub(super) v2: Option<Vec<PathBuf>>,
}

impl Hierarchies {
    pub(super) fn of_this_process() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::find(&mounts, &own)
    }

    /// The same, from a scope of systemd where the cgroup of this process is not ours to divide. Root could use the top
    /// of the hierarchy, but systemd owns that.
    pub(super) fn claimed() -> Self {
        let found = Self::of_this_process();
        let own = found.v2.as_ref().and_then(|candidates| candidates.first());
        let foreign = own.is_some_and(|own| !claim::is_ours(own));
        let v2 = matches!(found.choose(), Ok((Version::Two, _)));
        if v2 && foreign && claim::move_to_scope() {
            return Self::of_this_process();
        }
        found
    }

    /// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`.
    pub(super) fn find(mounts: &str, own: &str) -> Self {
        let mut found = Self::default();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let mut left = left.split(' ').skip(3);
            let (Some(root), Some(point)) = (left.next(), left.next()) else {
                continue;
            };
            let mut right = right.split(' ');
            let (kind, _, options) = (right.next(), right.next(), right.next().unwrap_or(""));
            let candidates = |own: &str| {
                let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
                // One that was here before has moved this process into the leaf.
                let below = below.strip_suffix(HOST_LEAF).unwrap_or(below);
                let top = PathBuf::from(point);
                let own = match below.trim_matches('/') {
                    "" => top.clone(),
                    below => top.join(below),
                };
                unique(&[own, top])
            };
            match kind {
                Some("cgroup2") => {
                    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
                    found.v2 = Some(candidates(own.unwrap_or("/")));
                }
                Some("cgroup") => {
                    for controller in options.split(',').filter(|o| CONTROLLERS.contains(o)) {
                        let own = own.lines().find_map(|line| {
                            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                            controllers
                                .split(',')
                                .any(|c| c == controller)
                                .then_some(path)
                        });
                        found
                            .v1
                            .push((controller.to_owned(), candidates(own.unwrap_or("/"))));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The caller's own directory of the memory controller, and those above it.
    fn memory(&self) -> Vec<PathBuf> {
        let v1 = self.v1.iter().find(|(name, _)| name == "memory");
        let own_and_top = v1.map(|(_, found)| found).into_iter().chain(&self.v2);
        let mut all = Vec::new();
        for found in own_and_top {
            let (Some(own), Some(top)) = (found.first(), found.last()) else {
                continue;
            };
            let above = own.ancestors().take_while(|path| path.starts_with(top));
            all.extend(above.map(Path::to_owned));
        }
        all
    }

    /// Where this process joins its own cgroup of version 2; none in version 1, where joining takes no lock.
    pub(super) fn own_join(&self, version: Version) -> Option<OwnedFd> {
        let own = self
            .v2
            .as_ref()?
            .first()
            .filter(|_| version == Version::Two)?;
        let in_leaf = claim::own_cgroup()?.ends_with(HOST_LEAF);
        let leaf = if in_leaf { HOST_LEAF } else { "" };
        let join = own.join(leaf.trim_start_matches('/')).join(PROCESSES);
        let file = File::options().write(true).open(join).ok()?;
        Some(file.into())
    }

    /// The directories to try for each controller.
    pub(super) fn choose(&self) -> Result<(Version, Vec<Vec<PathBuf>>), CgroupError> {
        if let Some(candidates) = &self.v2 {
            let usable = candidates.iter().any(|directory| {
                let there = fs::read_to_string(directory.join("cgroup.controllers"));
                let there = there.unwrap_or_default();
                V2_CONTROLLERS
                    .iter()
                    .all(|c| there.split_whitespace().any(|t| t == *c))
            });
            if usable {
                return Ok((Version::Two, vec![candidates.clone()]));
            }
        }
        let mut parents = Vec::new();
        for controller in CONTROLLERS {
            let Some((_, candidates)) = self.v1.iter().find(|(name, _)| name == controller) else {
                return Err(CgroupError::Missing {
                    missing: controller.to_owned(),
                });
            };
            parents.push(candidates.clone());
        }
        Ok((Version::One, parents))
    }

    /// Makes an engine's directory for each controller.
    pub(super) fn make(&self, name: &str) -> Result<(Version, Vec<PathBuf>), CgroupError> {
        let (version, parents) = self.choose()?;
        if version == Version::Two {
            for candidates in &parents {
                claim::make_writable(candidates);
            }
        }
        let make = match version {
            Version::One => make_v1_tree,
            Version::Two => make_v2_tree,
        };
        let trees = parents.iter().map(|candidates| make(candidates, name));
        let mut trees = trees.collect::<Result<Vec<_>, _>>()?;
        if version == Version::Two {
            trees = vec![trees.swap_remove(0); CONTROLLERS.len()];
        }
        Ok((version, trees))
    }
}

/// The memory that cgroups leave to this process and all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// The lowest of their limits, in bytes.
    pub limit: u64,
    /// What is available until one of them is reached; cached files can be dropped for it.
    pub available: u64,
}

impl MemoryRoom {
    /// A reading; `None` if no cgroup has a limit.
    pub fn now() -> Option<Self> {
        Self::within(&Hierarchies::of_this_process().memory())
    }

    pub(super) fn within(directories: &[PathBuf]) -> Option<Self> {
        let rooms = directories
            .iter()
            .filter_map(|directory| Self::from_directory(directory));
        rooms.reduce(|a, b| Self {
            limit: a.limit.min(b.limit),
            available: a.available.min(b.available),
        })
    }

    fn from_directory(directory: &Path) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
        let number = |text: String| text.trim().parse::<u64>().ok();
        // `max` is no number.
        let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"));
        let limit = number(limit?).filter(|limit| *limit < UNLIMITED)?;
        let used = read("memory.current").or_else(|| read("memory.usage_in_bytes"));
        let used = number(used?)?;
        let stat = read("memory.stat").unwrap_or_default();
        let field = |name: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(key, _)| *key == name)?;
            found.1.trim().parse::<u64>().ok()
        };
        // Version 1 tells of what is below under other names.
        let files = ["inactive_file", "active_file"].map(|name| {
            let below = field(&format!("total_{name}"));
            below.or_else(|| field(name)).unwrap_or_default()
        });
        let cached: u64 = files.iter().sum();
        Some(Self {
            limit,
            available: limit.saturating_sub(used.saturating_sub(cached)),
        })
    }
}

fn make_v1_tree(candidates: &[PathBuf], name: &str) -> Result<PathBuf, CgroupError> {
    let mut last = None;
    for parent in candidates {
        let tree = parent.join(name);
        match fs::create_dir(&tree) {
            Ok(()) => return Ok(tree),
            // Another controller of the same hierarchy made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(tree),
            Err(error) => last = Some(refused(&tree, error)),
        }
    }
    Err(last.unwrap_or(CgroupError::Missing {
        missing: "memory".into(),
    }))
}

pub(super) fn make_v2_tree(candidates: &[PathBuf], name: &str) -> Result<PathBuf, CgroupError> {
    let mut last = None;
    for parent in candidates {
        let tree = parent.join(name);
        let made = delegate(parent)
            .and_then(|()| fs::create_dir(&tree).map_err(|source| refused(&tree, source)))
            .and_then(|()| delegate(&tree));
        match made {
            Ok(()) => return Ok(tree),
            Err(error) => {
                let _ = fs::remove_dir(&tree);
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or(CgroupError::Missing {
        missing: "memory".into(),
    }))
}

/// Enables the controllers for the children of a cgroup.
pub(super) fn delegate(directory: &Path) -> Result<(), CgroupError> {
    let control = directory.join("cgroup.subtree_control");
    let on = fs::read_to_string(&control).unwrap_or_default();
    if V2_CONTROLLERS
        .iter()
        .all(|c| on.split_whitespace().any(|t| t == *c))
    {
        return Ok(());
    }
    let wanted = V2_CONTROLLERS
        .map(|controller| format!("+{controller}"))
        .join(" ");
    match fs::write(&control, &wanted) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            if !claim::is_ours(directory) {
                return Err(refused(&control, error));
            }
            let moved = claim::move_to_leaf(directory).and_then(|()| fs::write(&control, &wanted));
            moved.map_err(|source| refused(&control, source))
        }
        other => other.map_err(|source| refused(&control, source)),
    }
}
