//! An engine's directory on the host: small files for the root, and outputs too long for memory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use belljar_walls::remove_tree;

const LOCK: &str = "lock";
const CGROUPS: &str = "cgroups";

/// A directory of one engine. The lock shows other engines that its owner lives.
#[derive(Debug)]
pub(crate) struct EngineDirectory {
    path: PathBuf,
    name: String,
    lock: Option<File>,
}

impl EngineDirectory {
    /// Chooses a name and makes nothing yet; but removes the directories of engines that died
    /// together with their keepers, who clean up in every other case.
    pub(crate) fn plan() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent =
            std::env::temp_dir().join(format!("belljar-{}", rustix::process::getuid().as_raw()));
        match fs::DirBuilder::new().create(&parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        check_owner(&parent)?;
        sweep(&parent);
        let name = format!(
            "belljar-{}-{}-{:04x}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed),
            // Process ids come again; a stale directory must not be in the way.
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |time| time.subsec_nanos() & 0xffff),
        );
        Ok(Self {
            path: parent.join(&name),
            name,
            lock: None,
        })
    }

    /// Whether the owner of a directory with this name lives.
    pub(crate) fn is_alive(&self, name: &str) -> bool {
        let is_name = name.starts_with("belljar-") && !name.contains(['/', '.']);
        let lock = self
            .path
            .parent()
            .map(|parent| parent.join(name).join(LOCK));
        is_name
            && lock
                .and_then(|lock| File::open(lock).ok())
                .is_some_and(|lock| lock.try_lock().is_err())
    }

    /// Makes it.
    pub(crate) fn create(&mut self) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        // It gets its name when it is locked: no sweep can find it free.
        let unlocked = self.path.join("unlocked");
        let lock = File::create(&unlocked)?;
        lock.lock()?;
        fs::rename(unlocked, self.path.join(LOCK))?;
        self.lock = Some(lock);
        for directory in ["root", "driver", "output"] {
            fs::create_dir(self.path.join(directory))?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The guest's Python files.
    pub(crate) fn driver(&self) -> PathBuf {
        self.path.join("driver")
    }

    /// Where a session without walls works.
    pub(crate) fn workspace(&self, id: u64) -> PathBuf {
        self.path.join("workspaces").join(id.to_string())
    }

    /// Where a session's long outputs go.
    pub(crate) fn output(&self, id: u64) -> PathBuf {
        self.path.join("output").join(id.to_string())
    }

    /// Where hibernated sessions are kept.
    pub(crate) fn hibernated(&self) -> PathBuf {
        self.path.clone()
    }

    /// Where a hibernated session is kept.
    pub(crate) fn hibernated_snapshot(&self, id: u64) -> PathBuf {
        self.path.join(format!("hibernated-{id}"))
    }

    /// A name that no other live engine has.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Records which cgroups belong to this engine, for a later cleanup.
    pub(crate) fn record_cgroups(&self, trees: &[PathBuf]) -> io::Result<()> {
        let lines: Vec<String> = trees
            .iter()
            .map(|tree| tree.display().to_string())
            .collect();
        fs::write(self.path.join(CGROUPS), lines.join("\n"))
    }
}

impl Drop for EngineDirectory {
    fn drop(&mut self) {
        // The keeper has done it already, unless it never started.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The parent lies in a directory that everyone may write to: it must be ours.
fn check_owner(parent: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let meta = fs::symlink_metadata(parent)?;
    if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other(format!(
            "`{}` belongs to another user\nhint: remove it, or set `TMPDIR`",
            parent.display()
        )));
    }
    fs::set_permissions(parent, fs::Permissions::from_mode(0o700))
}

fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(lock) = File::open(path.join(LOCK)) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            for tree in fs::read_to_string(path.join(CGROUPS))
                .unwrap_or_default()
                .lines()
            {
                // Only what an engine of ours can have made.
                if tree.contains("/belljar-") {
                    let _ = remove_tree(Path::new(tree));
                }
            }
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_engines_directory_is_swept_and_a_live_ones_is_not() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["dead", "live"] {
            fs::create_dir(parent.path().join(name)).unwrap();
            fs::write(parent.path().join(name).join(LOCK), "").unwrap();
        }
        let lock = File::open(parent.path().join("live").join(LOCK)).unwrap();
        lock.lock().unwrap();
        sweep(parent.path());
        assert!(!parent.path().join("dead").exists());
        assert!(parent.path().join("live").exists());
    }

    #[test]
    fn the_lock_says_whether_an_owner_lives() {
        let mut own = EngineDirectory::plan().unwrap();
        own.create().unwrap();
        let name = own.name().to_owned();
        assert!(own.is_alive(&name));
        own.lock = None;
        assert!(!own.is_alive(&name));
        assert!(!own.is_alive("../x") && !own.is_alive("belljar-0-0-0000"));
    }
}
