//! A layer's files: cleaned of what belongs to the host, checked, counted and hashed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::PackageError;

/// The most files and directories of a layer.
const MOST_FILES: usize = 300_000;
const CHUNK: usize = 1 << 18;

/// What uv writes beside a wheel's own files: times and places of this host.
const OF_UV: [&str; 4] = [".lock", "uv_cache.json", "direct_url.json", "REQUESTED"];

/// Removes what uv has added.
pub(super) fn clean(directory: &Path) -> io::Result<()> {
    let mut places = vec![directory.to_owned()];
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && is_metadata(&entry.path()) {
            places.push(entry.path());
        }
    }
    for path in places
        .iter()
        .flat_map(|place| OF_UV.map(|name| place.join(name)))
    {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a directory is `<name>-<version>.dist-info`.
pub(super) fn is_metadata(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "dist-info")
}

/// The hash of all files with their paths, and of which can be executed.
pub(super) fn hash(directory: &Path, limit: u64) -> Result<String, PackageError> {
    let mut walk = Walk {
        hash: Sha256::new(),
        room: limit,
        files: 0,
        limit,
        buffer: vec![0; CHUNK],
    };
    walk.enter(directory, "")?;
    Ok(hexadecimal(&walk.hash.finalize()))
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

struct Walk {
    hash: Sha256,
    room: u64,
    files: usize,
    limit: u64,
    buffer: Vec<u8>,
}

impl Walk {
    fn enter(&mut self, directory: &Path, name: &str) -> Result<(), PackageError> {
        let read = |error| PackageError::io("read", directory)(error);
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(read)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            self.files += 1;
            if self.files > MOST_FILES {
                return Err(PackageError::TooLarge { limit: self.limit });
            }
            let file_name = entry.file_name();
            let inner = format!("{name}/{}", file_name.display());
            // Of the entry itself: a link is not followed.
            let meta = entry.metadata().map_err(PackageError::io("read", &path))?;
            if meta.is_dir() && file_name.to_str().is_some() {
                self.enter(&path, &inner)?;
            } else if meta.is_file() && file_name.to_str().is_some() {
                let executable = meta.permissions().mode() & 0o100 != 0;
                self.file(&path, &inner, executable)
                    .map_err(PackageError::io("read", &path))?
                    .then_some(())
                    .ok_or(PackageError::TooLarge { limit: self.limit })?;
            } else {
                return Err(PackageError::Odd(inner));
            }
        }
        Ok(())
    }

    /// False if it exceeds the limit.
    fn file(&mut self, path: &Path, name: &str, executable: bool) -> io::Result<bool> {
        let mut file = File::open(path)?;
        let mut content = Sha256::new();
        loop {
            let read = file.read(&mut self.buffer)?;
            if read == 0 {
                break;
            }
            let Some(room) = self.room.checked_sub(read as u64) else {
                return Ok(false);
            };
            self.room = room;
            content.update(&self.buffer[..read]);
        }
        // A length in front of the only part that has no fixed one.
        self.hash.update((name.len() as u64).to_le_bytes());
        self.hash.update(name);
        self.hash.update([u8::from(executable)]);
        self.hash.update(content.finalize());
        Ok(true)
    }
}
