//! Files whose last name goes. The kernel frees their pages and blocks before the call returns: for 500 MB that takes a
//! tenth of a second and more, and nobody has to wait for it.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use tokio::runtime::Handle;

/// A file that is held while it loses its name, and freed by another thread afterwards.
#[derive(Debug)]
pub(super) struct FreedLater(Option<OwnedFd>);

impl FreedLater {
    /// What has this name now, if anything.
    pub(super) fn hold(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self(open(path, flags, Mode::empty()).ok())
    }
}

impl Drop for FreedLater {
    fn drop(&mut self) {
        // Without a runtime, it is freed here.
        if let (Some(file), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}
