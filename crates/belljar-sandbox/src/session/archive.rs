//! Whole directories of a session, as tar archives.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write};
use std::os::unix::fs::PermissionsExt as _;

use belljar_walls::{BeneathError, EntryKind};
use tar::{Builder, EntryType, Header};

use crate::error::Error;
use crate::session::Session;
use crate::session::archive_plan::{ArchiveError, PlannedEntry, plan};

/// Directories come with all that is in them. Links, pipes and sockets, and files whose names are not UTF-8, are left
/// out of an archive.
impl Session {
    /// Writes the files of a tar archive into a directory of the workspace, which is made if it does not exist. Files
    /// there are replaced. An archive with links, devices or paths that lead elsewhere is refused before anything is
    /// written.
    pub fn unpack(&self, directory: &str, mut archive: &File) -> Result<(), Error> {
        let fault = || Error::io("reading an archive");
        let length = archive.metadata().map_err(fault())?.len();
        // All of it, wherever its writer left it.
        archive.rewind().map_err(fault())?;
        let entries = plan(archive, length)?;
        let files = || entries.iter().filter_map(|entry| entry.contents.as_ref());
        let mut left: u64 = files().map(|file| file.bytes).sum();
        self.write(directory, Some(archive), |writing, directory| {
            if !directory.is_empty() {
                writing.directory(directory)?;
            }
            for PlannedEntry { path, contents } in &entries {
                let path = match directory {
                    "" => path.clone(),
                    directory => format!("{directory}/{path}"),
                };
                let Some(contents) = contents else {
                    writing.directory(&path)?;
                    continue;
                };
                writing.file(&path, contents.executable, |file| {
                    // The first file is refused if not all of them fit.
                    file.check_room(left)?;
                    left -= contents.bytes;
                    file.copy(contents.offset, contents.bytes)
                })?;
            }
            Ok(())
        })
    }

    /// Writes a directory of the workspace as a tar archive, `""` for all of it: at most so many bytes of files. What
    /// changes meanwhile is as it was found, or not there.
    pub fn pack(&self, directory: &str, limit: u64, archive: impl Write) -> Result<(), Error> {
        let fault = || Error::io("writing an archive");
        let mut archive = Builder::new(archive);
        let listing = self.list(directory)?;
        if listing.truncated {
            return Err(ArchiveError::TooMany.into());
        }
        let inside = self.listed_path(directory)?;
        let mut bytes = 0;
        for entry in listing.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(0);
            let name = entry.path.strip_prefix(&inside).unwrap_or(&entry.path);
            let name = name.trim_start_matches('/');
            match entry.kind {
                EntryKind::Other => {}
                EntryKind::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(0o755);
                    header.set_size(0);
                    let path = format!("{name}/");
                    let empty = std::io::empty();
                    archive
                        .append_data(&mut header, path, empty)
                        .map_err(fault())?;
                }
                EntryKind::File => {
                    let source = match self.open(&entry.path) {
                        Ok(source) => source,
                        // It is something else by now, or its name is not UTF-8.
                        Err(Error::File(
                            BeneathError::NotFound(_) | BeneathError::NotRegular(_),
                        )) => continue,
                        Err(error) => return Err(error),
                    };
                    let found = source.metadata().map_err(fault())?;
                    let size = found.len();
                    bytes += size;
                    if bytes > limit {
                        let path = if directory.is_empty() {
                            "/workspace".into()
                        } else {
                            directory.into()
                        };
                        return Err(Error::FileTooLarge { path, bytes, limit });
                    }
                    let executable = found.permissions().mode() & 0o100 != 0;
                    header.set_mode(if executable { 0o755 } else { 0o644 });
                    header.set_size(size);
                    // What is missing at its end when it shrinks is zeros: the size is already said.
                    let source = source.chain(std::io::repeat(0)).take(size);
                    archive
                        .append_data(&mut header, name, source)
                        .map_err(fault())?;
                }
            }
        }
        archive.into_inner().map_err(fault())?;
        Ok(())
    }
}
