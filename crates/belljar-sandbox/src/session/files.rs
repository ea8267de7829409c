//! Files into and out of a workspace.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;

use belljar_walls::{Beneath, BeneathError, Entry, FileStatus, HOME, Writing};

use crate::error::Error;
use crate::session::Session;
use crate::session::handle::{AwakeSession, SessionHandle};

/// The most entries that a listing returns.
const MAX_ENTRIES: usize = 10_000;

/// How much of a source is read at once.
const CHUNK: usize = 128 << 10;

/// A file that is smaller is sent to the process that writes it, not copied by it.
const SMALL: u64 = 256 << 10;

/// A listing of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What is there, sorted by path.
    pub entries: Vec<Entry>,
    /// Whether there is more than a listing holds.
    pub truncated: bool,
}

/// A path as the workspace has it. Code in the session knows the same files by absolute names, too.
fn inside(path: &str) -> &str {
    let absolute = ["/workspace", HOME].iter().find_map(|name| {
        let rest = path.strip_prefix(name)?;
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix('/')
        }
    });
    // A file can have the name `~`.
    let from_home = || path.strip_prefix("~/");
    absolute.or_else(from_home).unwrap_or(path)
}

/// Paths are relative to the workspace; `/workspace/x`, `/home/user/x` and `~/x` are `x`, as for code in the session.
///
/// Files of a hibernated session are out of reach: [`Error::Hibernated`], until it is
/// [woken](Session::wake).
impl Session {
    /// Writes a file into the workspace, making directories as needed. The path is relative to
    /// the workspace. What is written counts towards the session's memory.
    pub fn put(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let path = inside(path);
        self.check_size(path, contents.len() as u64)?;
        self.write(path, None, |writing| {
            writing.file(path, false, |file| {
                file.check_room(contents.len() as u64)?;
                Ok(file.data(contents)?)
            })
        })
    }

    /// Writes a file into the workspace from a source that is read to its end, for contents that
    /// should not be held in memory. The session stays awake meanwhile: copy a slow source into a
    /// file first.
    pub fn put_from(&self, path: &str, source: &mut dyn Read) -> Result<(), Error> {
        let path = inside(path);
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        self.write(path, None, |writing| {
            writing.file(path, false, |file| {
                let (mut chunk, mut bytes) = (vec![0; CHUNK], 0);
                loop {
                    let read = match source.read(&mut chunk) {
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        read => read.map_err(failed)?,
                    };
                    if read == 0 {
                        return Ok(());
                    }
                    bytes += read as u64;
                    self.check_size(path, bytes)?;
                    file.data(&chunk[..read])?;
                }
            })
        })
    }

    /// Writes a file into the workspace from a file of the host, all of it.
    pub fn put_file(&self, path: &str, source: &File) -> Result<(), Error> {
        let path = inside(path);
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        let bytes = source.metadata().map_err(failed)?.len();
        self.check_size(path, bytes)?;
        if bytes <= SMALL {
            let mut contents = vec![0; usize::try_from(bytes).unwrap_or(0)];
            source.read_exact_at(&mut contents, 0).map_err(failed)?;
            return self.put(path, &contents);
        }
        self.write(path, Some(source), |writing| {
            writing.file(path, false, |file| Ok(file.copy(0, bytes)?))
        })
    }

    /// Opens a file of the workspace to be read. Code in the session may change it meanwhile.
    pub fn open(&self, path: &str) -> Result<File, Error> {
        let path = inside(path);
        let file = self.with_files(|files| Ok(files.read(path)?))?;
        let size = file.metadata().map_err(|source| BeneathError::Io {
            path: path.to_owned(),
            source,
        })?;
        self.check_size(path, size.len())?;
        Ok(file)
    }

    /// Reads a file of the workspace.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        let file = self.open(path)?;
        // It may grow while it is read: one byte more than allowed is enough to know.
        let mut contents = Vec::new();
        let mut bounded = file.take(self.limits().transfer_bytes + 1);
        bounded.read_to_end(&mut contents).map_err(failed)?;
        self.check_size(path, contents.len() as u64)?;
        Ok(contents)
    }

    /// Lists what is beneath a directory of the workspace, `""` for all of it.
    pub fn list(&self, path: &str) -> Result<Listing, Error> {
        let path = inside(path);
        let list = |files: &Beneath| Ok(files.list(path, MAX_ENTRIES)?);
        let (entries, truncated) = self.with_files(list)?;
        Ok(Listing { entries, truncated })
    }

    /// Deletes a file or an empty directory of the workspace.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        let path = inside(path);
        self.with_files(|files| Ok(files.remove(path)?))
    }

    /// Deletes a file or a directory of the workspace with all that is in it.
    pub fn delete_all(&self, path: &str) -> Result<(), Error> {
        let path = inside(path);
        self.with_files(|files| Ok(files.remove_all(path)?))
    }

    /// What is known of a file or a directory of the workspace, `""` for the workspace itself. A link is not followed.
    pub fn stat(&self, path: &str) -> Result<FileStatus, Error> {
        let path = inside(path);
        self.with_files(|files| Ok(files.stat(path)?))
    }

    /// Makes a directory of the workspace, and its missing parents. One that exists is no error.
    pub fn make_directory(&self, path: &str) -> Result<(), Error> {
        let path = inside(path);
        self.write(path, None, |writing| Ok(writing.directory(path)?))
    }

    /// Gives a file or a directory of the workspace another name, replacing a file of that name. Missing directories
    /// of the new name are made.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (inside(from), inside(to));
        self.write(from, None, |writing| Ok(writing.rename(from, to)?))
    }

    /// Does something with the workspace of an awake session, and keeps it awake meanwhile.
    fn with_files<T>(&self, act: impl FnOnce(&Beneath) -> Result<T, Error>) -> Result<T, Error> {
        self.with_handle(|handle| act(handle.workspace.files()))
    }

    fn with_handle<T>(
        &self,
        act: impl FnOnce(&SessionHandle) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let AwakeSession { handle, .. } = self.lifecycle().now()?.ok_or(Error::Hibernated)?;
        let hibernated = handle.hibernated();
        if *hibernated {
            return Err(Error::Hibernated);
        }
        act(&handle)
    }

    /// The same for what is written. Some memory is left to the session's code.
    fn write(
        &self,
        path: &str,
        source: Option<&File>,
        act: impl FnOnce(&mut Writing<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let reserve = self.limits().reserve_bytes();
        self.with_handle(|handle| handle.write_files(path, reserve, source, act))
    }

    fn check_size(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let limit = self.limits().transfer_bytes;
        if bytes > limit {
            return Err(Error::FileTooLarge {
                path: path.to_owned(),
                bytes,
                limit,
            });
        }
        Ok(())
    }
}
