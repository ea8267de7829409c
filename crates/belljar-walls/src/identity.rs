//! User ids of the host that sessions can have.

use crate::sys::has_admin_capability;

/// How many ids an engine has for its sessions.
pub(crate) const COUNT: u32 = 1 << 16;

/// Above those that distributions and systemd hand out.
const FIRST: u32 = 0x7000_0000;
const RANGES: u32 = 0x0fff;

/// The first of 65,536 user and group ids that belong to nobody, by chance others than those of any
/// other engine. None for an ordinary user, and for the root of a container that has few ids.
pub fn session_ids() -> Option<u32> {
    let mut bytes = [0; 4];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let first = FIRST + u32::from_ne_bytes(bytes) % RANGES * COUNT;
    let mapped = |file: &str| {
        let maps = std::fs::read_to_string(file).unwrap_or_default();
        covers(&maps, first)
    };
    let all =
        has_admin_capability() && mapped("/proc/self/uid_map") && mapped("/proc/self/gid_map");
    all.then_some(first)
}

/// Whether a map of this process's user namespace has all of the range.
fn covers(maps: &str, first: u32) -> bool {
    maps.lines().any(|line| {
        let mut fields = line
            .split_whitespace()
            .map(|field| field.parse::<u64>().unwrap_or(0));
        let (inside, _, count) = (fields.next(), fields.next(), fields.next());
        let (Some(inside), Some(count)) = (inside, count) else {
            return false;
        };
        inside <= u64::from(first) && u64::from(first) + u64::from(COUNT) <= inside + count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_fewer_ids() {
        assert!(covers("         0          0 4294967295\n", FIRST));
        assert!(!covers("0 100000 65536\n", FIRST));
        assert!(!covers("0 1000 1\n", FIRST));
        assert!(covers("0 1000 1\n1 1 4294967294\n", FIRST));
        assert!(!covers("", FIRST));
    }
}
