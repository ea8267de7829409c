//! What the kernel tells of processes, and of what the host has in use.

use std::fs;
use std::path::Path;

/// A process, and when it began: numbers are used again.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    began: String,
}

/// What a service uses. Mounts are those that it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) memory_mib: u64,
    pub(crate) files: usize,
    pub(crate) mounts: usize,
    pub(crate) cgroups: usize,
    pub(crate) processes: usize,
}

impl Process {
    pub(crate) fn is_alive(&self) -> bool {
        read(self.id).is_some_and(|(_, state, began)| state != "Z" && began == self.began)
    }

    /// Whether it is in a session, as its cgroup tells; else it is one that all of them need.
    pub(crate) fn is_in_a_session(&self) -> bool {
        let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", self.id)).unwrap_or_default();
        cgroups.lines().any(|line| {
            let below = line
                .split_once("/belljar-")
                .and_then(|(_, rest)| rest.split_once('/'));
            below.is_some()
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

/// Parent, state and time of beginning.
fn read(id: u32) -> Option<(u32, String, String)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some((
        fields.get(1)?.parse().ok()?,
        (*fields.first()?).to_owned(),
        (*fields.get(19)?).to_owned(),
    ))
}

/// All processes below one.
pub(crate) fn descendants(of: u32) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let all: Vec<(u32, u32, String)> = numbers
        .filter_map(|id| read(id).map(|(parent, _, began)| (id, parent, began)))
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        found.extend(all.iter().filter(|one| one.1 == parent).map(|one| one.0));
    }
    let below = all.into_iter().filter(|one| found[1..].contains(&one.0));
    below.map(|(id, _, began)| Process { id, began }).collect()
}

pub(crate) fn size(id: u32) -> Size {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let lines = |path: &str| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    Size {
        memory_mib: memory.unwrap_or(0) / 1024,
        files: fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count),
        mounts: lines(&format!("/proc/{id}/mountinfo")),
        cgroups: cgroups(Path::new("/sys/fs/cgroup"), Some(&format!("belljar-{id}-"))),
        processes: descendants(id).len(),
    }
}

/// Directories below one, in all hierarchies: of those whose name begins so, or all of them.
fn cgroups(directory: &Path, begins: Option<&str>) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let counts = directories.map(|entry| {
        let is_meant = |begins: &str| entry.file_name().to_string_lossy().starts_with(begins);
        if begins.is_none_or(is_meant) {
            1 + cgroups(&entry.path(), None)
        } else {
            cgroups(&entry.path(), begins)
        }
    });
    counts.sum()
}
