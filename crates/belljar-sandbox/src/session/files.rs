//! Files into and out of a session: its workspace, and its `/tmp`.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;

use belljar_walls::{BeneathError, Entry, FileStatus, HOME};

use crate::backend::workspace::{Files, FilesWriting, Workspace};
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

/// A directory of a session that is reached from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Workspace,
    Temporary,
}

const TEMPORARY: &str = "/tmp";

/// Which directory a path is in, and the path as that directory has it. `own` is the name of the workspace for
/// the session's code: that of a fork has one of its own.
fn locate<'a>(path: &'a str, own: &str) -> Result<(Root, &'a str), BeneathError> {
    let below = |name: &str| {
        let rest = path.strip_prefix(name)?;
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix('/')
        }
    };
    if let Some(rest) = ["/workspace", HOME, own].into_iter().find_map(below) {
        return Ok((Root::Workspace, rest));
    }
    if let Some(rest) = below(TEMPORARY) {
        return Ok((Root::Temporary, rest));
    }
    // A file can have the name `~`.
    let path = path.strip_prefix("~/").unwrap_or(path);
    // `/` is the workspace for a listing; for all else it is no path.
    if path.starts_with('/') && !path.bytes().all(|byte| byte == b'/') {
        let path = path.chars().take(200).collect::<String>();
        return Err(BeneathError::Outside(path.escape_debug().to_string()));
    }
    Ok((Root::Workspace, path))
}

impl Root {
    fn directory(self, handle: &SessionHandle) -> Result<&Workspace, Error> {
        match self {
            Self::Workspace => Ok(&handle.workspace),
            Self::Temporary => handle.temporary(),
        }
    }

    /// What its paths begin with outside.
    fn prefix(self) -> &'static str {
        match self {
            Self::Workspace => "",
            Self::Temporary => "/tmp/",
        }
    }

    fn explain(self, error: Error) -> Error {
        match error {
            Error::File(error) => Error::File(error.with_prefix(self.prefix())),
            error => error,
        }
    }
}

/// Paths are relative to the workspace; `/workspace/x`, `/home/user/x` and `~/x` are `x`, as for code in the session.
/// `/tmp/x` is a file of the session's `/tmp`, which forks share and hibernation does not keep. No other absolute path
/// can be reached.
///
/// Files of a hibernated session are out of reach: [`Error::Hibernated`], until it is
/// [woken](Session::wake).
impl Session {
    /// Writes a file into the workspace, making directories as needed. The path is relative to
    /// the workspace. What is written counts towards the session's memory.
    pub fn put(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        self.check_size(path, contents.len() as u64)?;
        self.write(path, None, |writing, path| {
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
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        self.write(path, None, |writing, path| {
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
        self.write(path, Some(source), |writing, path| {
            writing.file(path, false, |file| Ok(file.copy(0, bytes)?))
        })
    }

    /// Opens a file of the workspace to be read. Code in the session may change it meanwhile.
    pub fn open(&self, path: &str) -> Result<File, Error> {
        let most = self.limits().transfer_bytes;
        let file = self.with_files(path, |files, path| Ok(files.read(path, most)?))?;
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

    /// Lists what is beneath a directory of the workspace, `""` for all of it, or of `/tmp`. Paths are as the other
    /// functions take them.
    pub fn list(&self, path: &str) -> Result<Listing, Error> {
        self.at(path, |_, root, directory, path| {
            let (mut entries, truncated) = directory.files().list(path, MAX_ENTRIES)?;
            for entry in &mut entries {
                entry.path.insert_str(0, root.prefix());
            }
            Ok(Listing { entries, truncated })
        })
    }

    /// Deletes a file or an empty directory of the workspace.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.with_files(path, |files, path| Ok(files.remove(path)?))
    }

    /// Deletes a file or a directory of the workspace with all that is in it.
    pub fn delete_all(&self, path: &str) -> Result<(), Error> {
        self.with_files(path, |files, path| Ok(files.remove_all(path)?))
    }

    /// What is known of a file or a directory of the workspace, `""` for the workspace itself. A link is not followed.
    pub fn stat(&self, path: &str) -> Result<FileStatus, Error> {
        self.with_files(path, |files, path| Ok(files.stat(path)?))
    }

    /// Where a link of the workspace leads, in its own words, which may be any path; none for what is no link.
    pub fn read_link(&self, path: &str) -> Result<Option<String>, Error> {
        self.with_files(path, |files, path| Ok(files.read_link(path)?))
    }

    /// Makes a directory of the workspace, and its missing parents. One that exists is no error.
    pub fn make_directory(&self, path: &str) -> Result<(), Error> {
        self.write(path, None, |writing, path| Ok(writing.directory(path)?))
    }

    /// Gives a file or a directory of the workspace another name, replacing a file of that name. Missing directories
    /// of the new name are made. Nothing is moved between the workspace and `/tmp`.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let reserve = self.limits().reserve_bytes();
        self.at(from, |handle, root, directory, from| {
            let (other, to) = locate(to, &handle.directory().to_string_lossy())?;
            if other != root {
                return Err(Error::File(BeneathError::BadPath {
                    path: to.escape_debug().to_string(),
                    why: "files cannot be renamed from the workspace to `/tmp` or back",
                }));
            }
            let rename = |writing: &mut FilesWriting<'_>| Ok(writing.rename(from, to)?);
            handle.write_files(directory, from, reserve, None, rename)
        })
    }

    /// What the paths of a listing of this directory begin with.
    pub(super) fn listed_path(&self, path: &str) -> Result<String, Error> {
        self.at(path, |_, root, _, path| {
            let path = match path.trim_end_matches('/') {
                "." => "",
                path => path,
            };
            Ok(format!("{}{path}", root.prefix()))
        })
    }

    /// Does something with a directory of an awake session, and keeps it awake meanwhile. Paths of errors are as the
    /// caller gave them.
    fn at<'p, T>(
        &self,
        path: &'p str,
        act: impl FnOnce(&SessionHandle, Root, &Workspace, &'p str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let AwakeSession { handle, .. } = self.lifecycle().now()?.ok_or(Error::Hibernated)?;
        let hibernated = handle.hibernated();
        if *hibernated {
            return Err(Error::Hibernated);
        }
        let (root, path) = locate(path, &handle.directory().to_string_lossy())?;
        let directory = root.directory(&handle)?;
        act(&handle, root, directory, path).map_err(|error| root.explain(error))
    }

    /// The same for its files, to be read, listed and deleted.
    pub(super) fn with_files<'p, T>(
        &self,
        path: &'p str,
        act: impl FnOnce(&Files, &'p str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.at(path, |_, _, directory, path| act(directory.files(), path))
    }

    /// The same for what is written. Some memory is left to the session's code.
    pub(super) fn write<'p>(
        &self,
        path: &'p str,
        source: Option<&File>,
        act: impl FnOnce(&mut FilesWriting<'_>, &'p str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let reserve = self.limits().reserve_bytes();
        self.at(path, |handle, _, directory, path| {
            let act = |writing: &mut FilesWriting<'_>| act(writing, path);
            handle.write_files(directory, path, reserve, source, act)
        })
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
