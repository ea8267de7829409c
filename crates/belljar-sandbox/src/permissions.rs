//! Permissions of directories that sessions see.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Sessions run as another user: whatever our umask was, they must be able to read all of it.
pub(crate) fn open_to_sessions(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = meta.permissions().mode();
    // What the owner may read or enter, everyone may.
    let open = mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6;
    if open != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(open))?;
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_sessions(&entry?.path())?;
        }
    }
    Ok(())
}
