//! User ids of the host that sessions can have, and how a user namespace gets them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

use crate::error::{SetupError, StepContext};
use crate::sys::has_admin_capability;

/// A range of user and group ids that belong to nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionIds {
    /// The first of them: that of the spawner and the template.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// How many an engine has on a host.
const COUNT: u32 = 1 << 16;

/// Above those that distributions and systemd hand out.
const FIRST: u32 = 0x7000_0000;
const RANGES: u32 = 0x0fff;

/// For a container that has 65,536 ids: between those of its users and those that systemd hands out.
const IN_CONTAINER: SessionIds = SessionIds {
    first: 0x8000,
    count: 0x6000,
};

/// Ids for the sessions of an engine: on a host by chance others than those of any other engine. None for an ordinary
/// user, and for the root of a container that has few ids.
pub fn session_ids() -> Option<SessionIds> {
    if !has_admin_capability() {
        return None;
    }
    let maps = ["/proc/self/uid_map", "/proc/self/gid_map"]
        .map(|file| fs::read_to_string(file).unwrap_or_default());
    [SessionIds::draw(&users()), IN_CONTAINER]
        .into_iter()
        .find(|ids| maps.iter().all(|map| ids.are_in(map)))
}

/// The users of the processes that can be seen.
fn users() -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| Some(entry.metadata().ok()?.uid()))
        .collect()
}

impl SessionIds {
    /// By chance, but none of these. Engines that start at the same moment don't see each other: then it is chance alone.
    fn draw(used: &[u32]) -> Self {
        let mut bytes = [0; 4];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        let start = u32::from_ne_bytes(bytes) % RANGES;
        let range = |step| Self {
            first: FIRST + (start + step) % RANGES * COUNT,
            count: COUNT,
        };
        let is_free = |ids: &Self| {
            let range = ids.first..ids.first + ids.count;
            !used.iter().any(|user| range.contains(user))
        };
        (0..RANGES).map(range).find(is_free).unwrap_or(range(0))
    }

    /// Whether a map of this process's user namespace has all of them.
    fn are_in(self, map: &str) -> bool {
        map.lines().any(|line| {
            let mut fields = line
                .split_whitespace()
                .map(|field| field.parse::<u64>().unwrap_or(0));
            let (inside, _, count) = (fields.next(), fields.next(), fields.next());
            let (Some(inside), Some(count)) = (inside, count) else {
                return false;
            };
            inside <= u64::from(self.first)
                && u64::from(self.first) + u64::from(self.count) <= inside + count
        })
    }
}

/// Maps so many ids of a process's user namespace, from `inside` on, to those from `uid` and `gid` on.
pub(crate) fn map_ids(
    process: &str,
    inside: u32,
    uid: u32,
    gid: u32,
    count: u32,
    keep_setgroups: bool,
) -> Result<(), SetupError> {
    if !keep_setgroups {
        fs::write(format!("/proc/{process}/setgroups"), "deny").step("denying setgroups")?;
    }
    fs::write(
        format!("/proc/{process}/uid_map"),
        format!("{inside} {uid} {count}"),
    )
    .step("mapping users")?;
    fs::write(
        format!("/proc/{process}/gid_map"),
        format!("{inside} {gid} {count}"),
    )
    .step("mapping groups")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_processes_are_not_drawn() {
        let range = |number| FIRST + number * COUNT;
        let mut used: Vec<u32> = (1..RANGES).map(|number| range(number) + 3).collect();
        used.push(1000);
        assert_eq!(SessionIds::draw(&used).first, range(0));
        let ours = rustix::process::getuid().as_raw();
        assert!(users().contains(&ours));
    }

    #[test]
    fn containers_have_fewer_ids() {
        let host = SessionIds {
            first: FIRST,
            count: COUNT,
        };
        assert!(host.are_in("         0          0 4294967295\n"));
        assert!(!host.are_in("0 100000 65536\n"));
        assert!(host.are_in("0 1000 1\n1 1 4294967294\n"));
        assert!(IN_CONTAINER.are_in("0 100000 65536\n"));
        assert!(IN_CONTAINER.are_in("0 1000 1\n1 100000 65536\n"));
        for ids in [host, IN_CONTAINER] {
            assert!(!ids.are_in("0 1000 1\n"));
            assert!(!ids.are_in(""));
        }
    }
}
