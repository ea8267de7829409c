//! A snapshot as a file: how it is written, and how it is read when it may be damaged or hostile.
//!
//! In this order: [`MAGIC`] and the format's version; the variables, which only a guest can read;
//! the workspace's files; the header, as JSON; three lengths; the BLAKE3 hash of all that. The header
//! comes late because the guest reports what it saved at the end, and nothing is written twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use belljar_protocol::SavedName;
use belljar_walls::{BeneathError, EntryKind, start_writing};
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;

use super::checksum::hash;
use super::error::SnapshotError;
use crate::backend::workspace::{Files, FilesWriting};
use crate::disk::{DiskAllowance, DiskSpace};
use crate::environment::LockedPackage;
use crate::error::Error;
use crate::session::namespace_list::SavedNamespace;
use crate::session::packages::Layer;
use crate::state::freeing::FreedLater;

const MAGIC: &[u8; 16] = b"belljar-snapshot";
const VERSION: u32 = 2;
const HEAD: u64 = 16 + 4;
const LENGTHS: u64 = 3 * 8;
const TRAILER: u64 = LENGTHS + 32;

/// The longest header that is read; a guest's names and sources are at most 40 MiB of it.
pub(super) const MAX_HEADER: u64 = 64 << 20;
/// The longest path that is read; the workspace refuses longer ones.
const MAX_PATH: u32 = 4096;
const CHUNK: usize = 1 << 20;
const MAX_CHUNK: u32 = 1 << 20;
/// So many bytes are sent to the disk while the next ones are made.
const AHEAD: u64 = 8 << 20;
/// A chunk of so many bytes is copied by the process that writes the files, and not sent to it.
const COPIED: u32 = 64 << 10;
/// More entries than any workspace has by default.
const MAX_ENTRIES: usize = 200_000;
/// The most files that are listed as left out: the list is held while a session is hibernated, and
/// is part of responses.
const MAX_LEFT_OUT: usize = 1000;

const FILE: u8 = 0;
const EXECUTABLE: u8 = 1;
const DIRECTORY: u8 = 2;

/// A file of the workspace that is not in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLeftOut {
    /// Its path.
    pub path: String,
    /// Why.
    pub why: String,
}

/// What is known of a snapshot without opening its variables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The version of Belljar that wrote it.
    pub(crate) belljar: String,
    pub(crate) python: (u8, u8, u8),
    pub(crate) environment: String,
    pub(crate) packages: Vec<LockedPackage>,
    /// Packages that were installed into the session.
    #[serde(default)]
    pub(crate) layers: Vec<Layer>,
    /// How many cells had run.
    pub(crate) cells: u32,
    /// Namespaces besides the main one.
    #[serde(default)]
    pub(crate) namespaces: Vec<SavedNamespace>,
    /// Their sources, by the names that tracebacks have.
    pub(crate) sources: BTreeMap<String, String>,
    /// What pickled the variables.
    pub(crate) library: String,
    pub(crate) names: Vec<SavedName>,
    #[serde(default)]
    pub(crate) files: usize,
    pub(crate) files_left_out: Vec<FileLeftOut>,
    /// Threads and child processes of the program, which are not in it.
    #[serde(default)]
    pub(crate) threads: u32,
    #[serde(default)]
    pub(crate) processes: u32,
}

/// A snapshot that is being written. It has no name in the directory until it is whole.
#[derive(Debug)]
pub(crate) struct Writer {
    file: BufWriter<tempfile::NamedTempFile>,
    hash: blake3::Hasher,
    written: u64,
    /// Bytes that the disk has been asked to write already.
    begun: u64,
    space: Option<DiskSpace>,
    /// For the files, which may be many and small: to fill it with zeros takes longer than to read one.
    chunk: Vec<u8>,
}

impl Writer {
    /// The allowance that written bytes are charged to, if there is one.
    pub(crate) fn create(to: &Path, disk: Option<&Arc<DiskAllowance>>) -> io::Result<Self> {
        let mut writer = Self {
            file: BufWriter::with_capacity(CHUNK, new_file(to)?),
            hash: blake3::Hasher::new(),
            written: 0,
            begun: 0,
            space: disk.map(|disk| disk.take(32)).transpose()?,
            chunk: vec![0; CHUNK],
        };
        writer.write(MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(space) = &mut self.space {
            space.grow(bytes.len() as u64)?;
        }
        self.hash.update(bytes);
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        if self.written - self.begun >= AHEAD {
            // The disk works from the beginning, not only at the end, where it is waited for.
            start_writing(self.file.get_ref(), self.begun, self.written - self.begun);
            self.begun = self.written;
        }
        Ok(())
    }

    /// Adds the workspace's files, which may change meanwhile. Returns their number, and those left
    /// out.
    pub(crate) fn write_files(
        &mut self,
        workspace: &Files,
        limit: u64,
    ) -> Result<(usize, Vec<FileLeftOut>), Error> {
        let (entries, more) = workspace.list("", MAX_ENTRIES)?;
        let mut left_out = Vec::new();
        let mut unlisted = 0;
        let mut room = limit;
        let mut files = 0;
        for entry in entries {
            let mut leave_out = |why: String| {
                if left_out.len() == MAX_LEFT_OUT {
                    unlisted += 1;
                    return;
                }
                left_out.push(FileLeftOut {
                    path: entry.path.clone(),
                    why,
                });
            };
            match entry.kind {
                EntryKind::Directory => self
                    .write_entry(&entry.path, DIRECTORY)
                    .map_err(Error::io("writing the snapshot"))?,
                EntryKind::Other => leave_out("not a regular file".into()),
                EntryKind::File if entry.size > room => {
                    leave_out(format!("the files would exceed the limit of {limit} bytes"));
                }
                EntryKind::File => match workspace.read(&entry.path, room) {
                    // It has grown since.
                    Ok(file) if file.metadata().is_ok_and(|found| found.len() > room) => {
                        leave_out(format!("the files would exceed the limit of {limit} bytes"));
                    }
                    Ok(file) => {
                        files += 1;
                        room -= self.write_file(&entry.path, file, room)?;
                    }
                    // A name that is not UTF-8 is listed with its bytes replaced.
                    Err(BeneathError::NotFound(_)) if entry.path.contains('\u{fffd}') => {
                        leave_out("its name is not UTF-8".into());
                    }
                    Err(error) => leave_out(error.to_string()),
                },
            }
        }
        let why = match (more, unlisted) {
            (true, _) => format!("there are more than {MAX_ENTRIES} files"),
            (false, 0) => return Ok((files, left_out)),
            (false, _) => format!("{unlisted} more files were not saved"),
        };
        left_out.push(FileLeftOut {
            path: String::new(),
            why,
        });
        Ok((files, left_out))
    }

    fn write_entry(&mut self, path: &str, kind: u8) -> io::Result<()> {
        let length = u32::try_from(path.len()).map_err(io::Error::other)?;
        self.write(&length.to_le_bytes())?;
        self.write(path.as_bytes())?;
        self.write(&[kind])
    }

    /// In chunks that say their length, an empty one last: a file may grow while it is read.
    fn write_file(&mut self, path: &str, file: File, room: u64) -> Result<u64, Error> {
        let failed = |source| BeneathError::Io {
            path: path.to_owned(),
            source,
        };
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        let kind = if mode & 0o100 == 0 { FILE } else { EXECUTABLE };
        let writing = Error::io("writing the snapshot");
        let mut source = file.take(room);
        let mut chunk = std::mem::take(&mut self.chunk);
        let mut total = 0;
        let mut write = || -> Result<(), io::Error> {
            self.write_entry(path, kind)?;
            loop {
                let read = source.read(&mut chunk)?;
                let length = u32::try_from(read).map_err(io::Error::other)?;
                self.write(&length.to_le_bytes())?;
                if read == 0 {
                    return Ok(());
                }
                self.write(&chunk[..read])?;
                total += read as u64;
            }
        };
        let written = write();
        self.chunk = chunk;
        written.map_err(writing)?;
        Ok(total)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes the rest, syncs the file, and gives it its name. Returns its size, and its share of
    /// an allowance.
    pub(crate) fn finish(
        mut self,
        header: &Header,
        variables: u64,
        files: u64,
        to: &Path,
    ) -> io::Result<(u64, Option<DiskSpace>)> {
        let header = serde_json::to_vec(header)?;
        self.write(&header)?;
        for length in [variables, files, header.len() as u64] {
            self.write(&length.to_le_bytes())?;
        }
        self.file.write_all(self.hash.finalize().as_bytes())?;
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        let _replaced = FreedLater::hold(to);
        file.persist(to).map_err(|error| error.error)?;
        Ok((self.written + 32, self.space))
    }
}

/// A snapshot that is whole: it has the right form, and every byte is as it was written. That says
/// nothing about who wrote it.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    pub(crate) header: Header,
    variables: u64,
    files: u64,
    /// Of the memory for large headers.
    pub(super) room: Option<SemaphorePermit<'static>>,
}

/// The length of a snapshot's header, according to its end.
pub(super) fn header_length(file: &mut File) -> io::Result<u64> {
    let Some(at) = file.metadata()?.len().checked_sub(32 + 8) else {
        return Ok(0);
    };
    file.seek(SeekFrom::Start(at))?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    Ok(u64::from_le_bytes(length))
}

impl Reader {
    pub(crate) fn new(mut file: File) -> Result<Self, SnapshotError> {
        file.seek(SeekFrom::Start(0))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(SnapshotError::NotASnapshot);
        }
        let mut head = [0; 20];
        let read = read_up_to(&mut file, &mut head)?;
        if read < head.len() || !head.starts_with(MAGIC) {
            return Err(SnapshotError::NotASnapshot);
        }
        let version = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let cut = SnapshotError::Damaged("it is truncated");
        let body = metadata.len().checked_sub(HEAD + TRAILER).ok_or(cut)?;

        file.seek(SeekFrom::Start(HEAD + body))?;
        let mut lengths = [0; 24];
        file.read_exact(&mut lengths)?;
        let mut expected = [0; 32];
        file.read_exact(&mut expected)?;
        let [variables, files, header] = [0, 8, 16].map(|at| number(&lengths[at..at + 8]));
        let sum = variables
            .checked_add(files)
            .and_then(|sum| sum.checked_add(header));
        if sum != Some(body) || header > MAX_HEADER {
            return Err(SnapshotError::Damaged("its lengths are inconsistent"));
        }
        if hash(&file, HEAD + body + LENGTHS)? != expected {
            return Err(SnapshotError::Damaged("its checksum is wrong"));
        }

        file.seek(SeekFrom::Start(HEAD + variables + files))?;
        let header = serde_json::from_reader(BufReader::new((&file).take(header)))
            .map_err(|_| SnapshotError::Damaged("its header cannot be read"))?;
        Ok(Self {
            file,
            header,
            variables,
            files,
            room: None,
        })
    }

    /// Writes the files into a new workspace. Their paths are refused if they lead outside.
    pub(crate) fn restore_files(
        &mut self,
        workspace: &mut FilesWriting<'_>,
    ) -> Result<usize, Error> {
        let from = HEAD + self.variables;
        self.file
            .seek(SeekFrom::Start(from))
            .map_err(SnapshotError::from)?;
        workspace.check_room(self.files)?;
        let mut source = Section {
            source: BufReader::new(&self.file),
            at: from,
            end: from + self.files,
        };
        let mut files = 0;
        let mut chunk = Vec::new();
        while source.at < source.end {
            let length = source.length(MAX_PATH)?;
            source.take(&mut chunk, length)?;
            let path = String::from_utf8(std::mem::take(&mut chunk)).map_err(|_| BAD_FILES)?;
            source.take(&mut chunk, 1)?;
            let executable = match chunk[0] {
                FILE => false,
                EXECUTABLE => true,
                DIRECTORY => {
                    workspace.directory(&path)?;
                    continue;
                }
                _ => return Err(BAD_FILES.into()),
            };
            workspace.file(&path, executable, |file| -> Result<(), Error> {
                loop {
                    match source.length(MAX_CHUNK)? {
                        0 => return Ok(()),
                        length if length < COPIED => {
                            source.take(&mut chunk, length)?;
                            file.data(&chunk)?;
                        }
                        length => {
                            file.copy(source.at, length.into())?;
                            source.skip(length)?;
                        }
                    }
                }
            })?;
            files += 1;
        }
        Ok(files)
    }

    /// Writes the same snapshot to another file, whole or not at all.
    pub(super) fn copy(&mut self, to: &Path) -> io::Result<()> {
        let mut file = new_file(to)?;
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.file, &mut file)?;
        file.as_file().sync_all()?;
        let _replaced = FreedLater::hold(to);
        file.persist(to).map_err(|error| error.error)?;
        Ok(())
    }

    /// The file, for the writer of the workspace's files.
    pub(crate) fn source(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Where the variables are in the file.
    pub(crate) fn variables(&self) -> std::ops::Range<u64> {
        HEAD..HEAD + self.variables
    }
}

/// A file that will have this path when it is whole.
fn new_file(to: &Path) -> io::Result<tempfile::NamedTempFile> {
    let directory = match to.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    tempfile::NamedTempFile::with_prefix_in(".belljar-snapshot-", directory)
}

const BAD_FILES: SnapshotError = SnapshotError::Damaged("its list of files cannot be read");

fn number(bytes: &[u8]) -> u64 {
    let fold = |n, byte: &u8| n << 8 | u64::from(*byte);
    bytes.iter().rev().fold(0, fold)
}

/// A part of a file that is read in order.
struct Section<'a> {
    source: BufReader<&'a File>,
    at: u64,
    end: u64,
}

impl Section<'_> {
    fn pass(&mut self, length: u32) -> Result<(), SnapshotError> {
        self.at += u64::from(length);
        if self.at > self.end {
            return Err(BAD_FILES);
        }
        Ok(())
    }

    /// Reads a length.
    fn length(&mut self, most: u32) -> Result<u32, SnapshotError> {
        let mut length = [0; 4];
        self.pass(4)?;
        self.source.read_exact(&mut length).map_err(|_| BAD_FILES)?;
        let length = u32::from_le_bytes(length);
        if length > most {
            return Err(BAD_FILES);
        }
        Ok(length)
    }

    /// Reads so many bytes, all of them.
    fn take(&mut self, into: &mut Vec<u8>, length: u32) -> Result<(), SnapshotError> {
        self.pass(length)?;
        into.resize(length as usize, 0);
        self.source.read_exact(into).map_err(|_| BAD_FILES)
    }

    fn skip(&mut self, length: u32) -> Result<(), SnapshotError> {
        self.pass(length)?;
        Ok(self.source.seek_relative(length.into())?)
    }
}

/// Fills the buffer as far as there is something.
fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
