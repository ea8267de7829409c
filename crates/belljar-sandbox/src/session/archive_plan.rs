//! What a tar archive holds, read before anything of it is written. The archive is hostile: of its headers only names,
//! kinds and sizes are believed, and none of it is kept in memory but these.

use std::io::{Read, Seek};

use tar::{Archive, EntryType, PaxExtensions};

/// The most files and directories of an archive.
pub(crate) const MAX_ENTRIES: usize = 10_000;

/// The most bytes of a header that holds the name of the next entry. Paths have at most 4,000.
const MAX_EXTENSION: u64 = 16 << 10;

/// The deepest directory of an archive.
const MAX_LEVELS: usize = 64;

/// Why an archive is refused. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It is no tar archive, or it is cut off.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// An entry can't be written.
    #[error("the archive has an entry `{path}` that cannot be unpacked: {why}")]
    Entry {
        /// Its path, with control characters made visible.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are too many entries.
    #[error("there are more than {MAX_ENTRIES} files and directories")]
    TooMany,
}

/// A file or a directory of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlannedEntry {
    /// Relative, without `.`, `..` and empty parts.
    pub(crate) path: String,
    /// None for a directory.
    pub(crate) contents: Option<PlannedFile>,
}

/// Where the contents of a file are in the archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlannedFile {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) executable: bool,
}

/// Reads the headers of an archive of this length.
pub(crate) fn plan(
    archive: impl Read + Seek,
    length: u64,
) -> Result<Vec<PlannedEntry>, ArchiveError> {
    let damaged = |error: std::io::Error| ArchiveError::Damaged(error.to_string());
    // Even an archive of nothing has an end. Who sends no bytes has forgotten them.
    if length == 0 {
        return Err(ArchiveError::Damaged("it is empty".into()));
    }
    let mut archive = Archive::new(archive);
    // The headers as they are: the crate would read those with names of any length into memory.
    let entries = archive.entries_with_seek().map_err(damaged)?.raw(true);
    let (mut planned, mut name) = (Vec::new(), None);
    for (seen, entry) in entries.enumerate() {
        let mut entry = entry.map_err(damaged)?;
        // At most two headers come before an entry.
        if planned.len() >= MAX_ENTRIES || seen >= 3 * MAX_ENTRIES {
            return Err(ArchiveError::TooMany);
        }
        let (offset, bytes) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(bytes).is_none_or(|end| end > length) {
            return Err(ArchiveError::Damaged("it is cut off".into()));
        }
        let kind = entry.header().entry_type();
        if let EntryType::GNULongName | EntryType::XHeader = kind {
            let refuse = |why| ArchiveError::Damaged(format!("a header {why}"));
            if bytes > MAX_EXTENSION {
                return Err(refuse("is too long"));
            }
            let mut extension = Vec::new();
            entry.read_to_end(&mut extension).map_err(damaged)?;
            if kind == EntryType::GNULongName {
                let end = extension.iter().position(|byte| *byte == 0);
                extension.truncate(end.unwrap_or(extension.len()));
                name = Some(extension);
            } else if let Some(path) = extended_path(&extension).map_err(refuse)? {
                name = Some(path);
            }
            continue;
        }
        if let EntryType::XGlobalHeader | EntryType::GNULongLink = kind {
            continue;
        }
        let raw = name
            .take()
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let refuse = |why| {
            let path = String::from_utf8_lossy(&raw);
            let path = path.chars().take(200).collect::<String>();
            let path = path.escape_debug().to_string();
            ArchiveError::Entry { path, why }
        };
        let path = relative(&raw).map_err(refuse)?;
        let is_directory = match kind {
            EntryType::Directory => true,
            // As old archives have it.
            EntryType::Regular => raw.ends_with(b"/"),
            EntryType::Symlink | EntryType::Link => return Err(refuse("it is a link")),
            _ => return Err(refuse("it is neither a file nor a directory")),
        };
        let contents = (!is_directory).then(|| PlannedFile {
            offset,
            bytes,
            executable: entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0),
        });
        match (path, &contents) {
            // The directory that the archive is of.
            (None, None) => {}
            (None, Some(_)) => return Err(refuse("it has no name")),
            (Some(path), _) => planned.push(PlannedEntry { path, contents }),
        }
    }
    Ok(planned)
}

/// The path of a header that extends the next one, if it has one.
fn extended_path(extension: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut path = None;
    for record in PaxExtensions::new(extension) {
        let record = record.map_err(|_| "is malformed")?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_vec()),
            // Whoever believes one of the two sizes would see other entries than who believes the other.
            b"size" => return Err("gives a size: files over 8 GiB are not supported"),
            key if key.starts_with(b"GNU.sparse.") => {
                return Err("is of a sparse file, which is not supported");
            }
            _ => {}
        }
    }
    Ok(path)
}

/// A path without `.` parts and the last `/`; none if nothing is left.
fn relative(raw: &[u8]) -> Result<Option<String>, &'static str> {
    let path = std::str::from_utf8(raw).map_err(|_| "its name is not valid UTF-8")?;
    if path.contains('\0') {
        return Err("its name has a NUL character");
    }
    if path.starts_with('/') {
        return Err("its path is absolute");
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        return Err("its path has `..`");
    }
    if parts.len() > MAX_LEVELS {
        return Err("it is nested too deeply");
    }
    Ok(Some(parts.join("/")).filter(|path| !path.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn planned(archive: &[u8]) -> Result<Vec<PlannedEntry>, ArchiveError> {
        plan(Cursor::new(archive), archive.len() as u64)
    }

    /// An archive of one entry, whose name is not checked.
    fn one(kind: EntryType, name: &[u8], contents: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(contents.len() as u64);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, contents).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_and_directories_are_planned() {
        let mut builder = tar::Builder::new(Vec::new());
        let long = format!("{}/x", "d".repeat(150));
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(3);
        builder
            .append_data(&mut header, &long, &b"one"[..])
            .unwrap();
        header.set_mode(0o644);
        let record = [("path", "pax/名".as_bytes())];
        builder.append_pax_extensions(record).unwrap();
        builder
            .append_data(&mut header, "other", &b"two"[..])
            .unwrap();
        let mut archive = builder.into_inner().unwrap();
        archive.truncate(archive.len() - 1024);
        archive.extend(one(EntryType::Directory, b"./", b""));
        archive.truncate(archive.len() - 1024);
        archive.extend(one(EntryType::Directory, b"./a//b/", b""));
        let plan = planned(&archive).unwrap();
        let paths: Vec<&str> = plan.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, [long.as_str(), "pax/名", "a/b"]);
        let contents = |entry: &PlannedEntry| {
            let file = entry.contents.as_ref().unwrap();
            let offset = usize::try_from(file.offset).unwrap();
            let end = offset + usize::try_from(file.bytes).unwrap();
            (archive[offset..end].to_vec(), file.executable)
        };
        assert_eq!(contents(&plan[0]), (b"one".to_vec(), true));
        assert_eq!(contents(&plan[1]), (b"two".to_vec(), false));
        assert_eq!(plan[2].contents, None);
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let deep = "d/".repeat(48) + "x";
        for (kind, name, why) in [
            (EntryType::Regular, &b"/etc/passwd"[..], "absolute"),
            (EntryType::Regular, b"a/../../b", "`..`"),
            (EntryType::Directory, b"..", "`..`"),
            (EntryType::Regular, b"\xff", "UTF-8"),
            (EntryType::Regular, b"", "no name"),
            (EntryType::Symlink, b"a", "link"),
            (EntryType::Link, b"a", "link"),
            (EntryType::Char, b"a", "neither"),
            (EntryType::Block, b"a", "neither"),
            (EntryType::Fifo, b"a", "neither"),
            (EntryType::GNUSparse, b"a", "neither"),
            (EntryType::new(b'Z'), b"a", "neither"),
        ] {
            let error = planned(&one(kind, name, b"")).unwrap_err().to_string();
            assert!(error.contains(why), "{kind:?} {name:?}: {error}");
        }
        assert_eq!(
            planned(&one(EntryType::Regular, deep.as_bytes(), b""))
                .unwrap()
                .len(),
            1
        );
        let mut longer = one(EntryType::GNULongName, b"n", "d/".repeat(80).as_bytes());
        longer.truncate(longer.len() - 1024);
        longer.extend(one(EntryType::Regular, b"x", b""));
        let error = planned(&longer).unwrap_err().to_string();
        assert!(error.contains("too deeply"), "{error}");
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let file = one(EntryType::Regular, b"a", &[1; 600]);
        let mut huge = file.clone();
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes().copy_from_slice(&huge[..512]);
        header.set_size(u64::MAX / 2);
        header.set_cksum();
        huge[..512].copy_from_slice(header.as_bytes());
        let long = one(EntryType::GNULongName, b"n", &vec![b'a'; 1 << 20]);
        let sized = one(EntryType::XHeader, b"n", b"10 size=1\n");
        let sparse = one(EntryType::XHeader, b"n", b"22 GNU.sparse.major=1\n");
        let malformed = one(EntryType::XHeader, b"n", b"99 path=a\n");
        let mut sum = file.clone();
        sum[0] ^= 1;
        for archive in [
            &file[..700],
            &huge,
            &long,
            &sized,
            &sparse,
            &malformed,
            &sum,
        ] {
            assert!(matches!(planned(archive), Err(ArchiveError::Damaged(_))));
        }
        // Without entries an archive has its end, and without that it is none.
        assert_eq!(planned(&[0; 1024]).unwrap(), []);
        assert!(planned(b"").is_err());
    }

    #[test]
    fn too_many_entries_are_refused() {
        let mut entry = one(EntryType::Directory, b"a/", b"");
        entry.truncate(512);
        let most = entry.repeat(MAX_ENTRIES);
        assert_eq!(planned(&most).unwrap().len(), MAX_ENTRIES);
        let more = entry.repeat(MAX_ENTRIES + 1);
        assert!(matches!(planned(&more), Err(ArchiveError::TooMany)));
    }
}
