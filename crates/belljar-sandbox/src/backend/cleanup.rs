//! Removing the cgroups of dead sessions.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use belljar_walls::remove_tree;

/// Maximum delay before a failed removal is retried.
const CLEANUP_RETRY: Duration = Duration::from_secs(1);

/// Removes cgroups until all senders are gone.
pub(super) fn start_cleanup_thread() -> mpsc::Sender<Vec<PathBuf>> {
    let (sender, receiver) = mpsc::channel::<Vec<PathBuf>>();
    std::thread::spawn(move || {
        // Where a host is so busy that a process takes long to end, its cgroup is there for longer.
        let mut left = VecDeque::new();
        loop {
            let new = match receiver.recv_timeout(CLEANUP_RETRY) {
                Ok(new) => new,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // One of those for which it took too long, so that new ones don't wait for them all.
            for directory in new.into_iter().chain(left.pop_front()) {
                if let Err(error) = remove_tree(&directory) {
                    tracing::warn!(%error, "a session's cgroup cannot be removed yet");
                    left.push_back(directory);
                }
            }
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    /// A file in it stands for a process that takes long to end.
    #[test]
    fn what_can_not_be_removed_is_removed_later() {
        let directory = tempfile::tempdir().unwrap();
        let [full, empty] = ["full", "empty"].map(|name| directory.path().join(name));
        fs::create_dir(&full).unwrap();
        fs::create_dir(&empty).unwrap();
        fs::write(full.join("process"), "").unwrap();
        let cleanup = start_cleanup_thread();
        cleanup.send(vec![full.clone(), empty.clone()]).unwrap();
        let gone = |path: &PathBuf| {
            let until = Instant::now() + Duration::from_secs(10);
            while path.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            !path.exists()
        };
        assert!(gone(&empty));
        assert!(full.exists());
        fs::remove_file(full.join("process")).unwrap();
        assert!(gone(&full));
    }
}
