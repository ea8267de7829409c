//! Snapshots that anyone may have written: nothing but a form that is right is read, nothing outside
//! of the workspace is touched, and what comes back is what a naive reading of the format gives.
//!
//! The input: one byte that says how it is used, then bytes. They are the file as it is; or its parts,
//! two bytes for the length of the variables and two for that of the files, which get the lengths and
//! the checksum that belong to them, so that what is behind those is reached; and then either the
//! rest is the header, or a good one is taken. A byte below 16 in a path stands for one of `WORDS`.
#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use belljar_walls::FileWriter;
use libfuzzer_sys::fuzz_target;

/// The reader is no part of what the library offers, so its file is compiled into this target; what
/// it takes from the library stands here in its place.
#[path = "."]
mod snapshot {
    pub(crate) mod error {
        #[derive(Debug)]
        #[allow(dead_code, reason = "to be shown where something is found")]
        pub(crate) enum SnapshotError {
            NotASnapshot,
            Version(u32),
            Damaged(&'static str),
            Io(std::io::Error),
        }

        impl From<std::io::Error> for SnapshotError {
            fn from(error: std::io::Error) -> Self {
                Self::Io(error)
            }
        }
    }

    #[path = "../../crates/belljar-sandbox/src/state/snapshot/checksum.rs"]
    mod checksum;
    #[allow(dead_code, reason = "snapshots are only read here")]
    #[path = "../../crates/belljar-sandbox/src/state/snapshot/file.rs"]
    pub(crate) mod file;
}

#[allow(dead_code, reason = "snapshots are only read here")]
#[path = "../../crates/belljar-sandbox/src/disk.rs"]
mod disk;
#[path = "../../crates/belljar-sandbox/src/lock.rs"]
mod lock;

mod state {
    pub(crate) mod freeing {
        /// No snapshot is written here, so none is replaced.
        #[derive(Debug)]
        #[allow(dead_code, reason = "snapshots are only read here")]
        pub(crate) struct FreedLater;

        #[allow(dead_code, reason = "snapshots are only read here")]
        impl FreedLater {
            pub(crate) fn hold(_path: &std::path::Path) -> Self {
                Self
            }
        }
    }
}

mod environment {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    #[allow(dead_code, reason = "only its form matters")]
    pub(crate) struct LockedPackage {
        name: String,
        version: String,
        hashes: Vec<String>,
    }
}

mod backend {
    pub(crate) mod workspace {
        use belljar_walls::{Beneath, BeneathError, Entry};

        pub(crate) use belljar_walls::Writing as FilesWriting;

        /// What is written of a workspace is not read here.
        #[derive(Debug)]
        pub(crate) struct Files(Beneath);

        impl Files {
            pub(crate) fn list(
                &self,
                path: &str,
                limit: usize,
            ) -> Result<(Vec<Entry>, bool), BeneathError> {
                self.0.list(path, limit)
            }

            pub(crate) fn read(
                &self,
                path: &str,
                _most: u64,
            ) -> Result<std::fs::File, BeneathError> {
                self.0.read(path)
            }
        }
    }
}

mod session {
    pub(crate) mod namespace_list {
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        #[allow(dead_code, reason = "only its form matters")]
        pub(crate) struct SavedNamespace {
            name: String,
            directory: String,
        }
    }

    pub(crate) mod packages {
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        #[allow(dead_code, reason = "only its form matters")]
        pub(crate) struct Layer {
            content: String,
            packages: Vec<crate::environment::LockedPackage>,
        }
    }
}

mod error {
    use crate::snapshot::error::SnapshotError;

    #[derive(Debug)]
    #[allow(dead_code, reason = "to be shown where something is found")]
    pub(crate) enum Error {
        Io(&'static str, std::io::Error),
        Beneath(belljar_walls::BeneathError),
        Snapshot(SnapshotError),
    }

    impl Error {
        pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
            move |source| Self::Io(what, source)
        }
    }

    impl From<belljar_walls::BeneathError> for Error {
        fn from(error: belljar_walls::BeneathError) -> Self {
            Self::Beneath(error)
        }
    }

    impl From<SnapshotError> for Error {
        fn from(error: SnapshotError) -> Self {
            Self::Snapshot(error)
        }
    }
}

use error::Error;
use snapshot::error::SnapshotError;
use snapshot::file::Reader;

const HEADER: &str = r#"{"belljar":"0.1.0","python":[3,12,1],"environment":"bare","packages":[{"name":"a","version":"1","hashes":["sha256:0"]}],"cells":3,"sources":{"<cell 1>":"x = 1"},"library":"pickle","names":[],"files_left_out":[]}"#;

const WORDS: [&str; 16] = [
    "/",
    ".",
    "..",
    "file",
    "directory",
    "nested",
    "out",
    "absolute",
    "loop",
    "leak",
    "../outside",
    "/proc/self/root",
    "dangling",
    "canary",
    "directory/",
    "new",
];

/// Contents of files, and whether they may be run, by path.
type Files = BTreeMap<String, (bool, Vec<u8>)>;

/// A file's variables, files and header.
type Parts = [Vec<u8>; 3];

/// How many files a list has, and what it makes of them; `None` if it is cut off.
fn naive(mut list: &[u8]) -> Option<(usize, Files)> {
    fn take<'a>(list: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = list.split_at_checked(length)?;
        *list = rest;
        Some(taken)
    }
    let number = |list: &mut &[u8]| {
        let bytes = take(list, 4)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |n, byte| n * 256 + usize::from(*byte)),
        )
    };
    let (mut count, mut files) = (0, BTreeMap::new());
    while !list.is_empty() {
        let length = number(&mut list)?;
        let path = String::from_utf8(take(&mut list, length)?.to_vec()).ok()?;
        let kind = take(&mut list, 1)?[0];
        if kind == 2 {
            continue;
        }
        let mut contents = Vec::new();
        loop {
            match number(&mut list)? {
                0 => break,
                length => contents.extend_from_slice(take(&mut list, length)?),
            }
        }
        count += 1;
        files.insert(path, (kind == 1, contents));
    }
    Some((count, files))
}

/// The list of files with the words in the place of small bytes in its paths.
fn with_words(mut list: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [length, after @ ..] = list {
        let (path, after) = after.split_at(after.len().min(usize::from(*length)));
        let mut spelled = Vec::new();
        for byte in path {
            match WORDS.get(usize::from(*byte)) {
                Some(word) => spelled.extend_from_slice(word.as_bytes()),
                None => spelled.push(*byte),
            }
        }
        out.extend_from_slice(&u32::try_from(spelled.len()).expect("short").to_le_bytes());
        out.extend_from_slice(&spelled);
        let [kind, after @ ..] = after else {
            return out;
        };
        out.push(*kind);
        list = after;
        if *kind == 2 {
            continue;
        }
        while let [length, after @ ..] = list {
            let (chunk, after) = after.split_at(after.len().min(usize::from(*length)));
            list = after;
            out.extend_from_slice(&u32::from(*length).to_le_bytes());
            out.extend_from_slice(chunk);
            if *length == 0 {
                break;
            }
        }
    }
    out
}

/// The file, and its parts if the checksum is right.
fn written(input: &[u8]) -> Option<(Vec<u8>, Option<Parts>)> {
    let (how, rest) = input.split_first()?;
    if how & 1 == 0 {
        return Some((rest.to_vec(), None));
    }
    let (lengths, rest) = rest.split_at_checked(4)?;
    let length = |at: usize| usize::from(lengths[at]) + 256 * usize::from(lengths[at + 1]);
    let (variables, rest) = rest.split_at(rest.len().min(length(0)));
    let (files, rest) = rest.split_at(rest.len().min(length(2)));
    let files = if how & 2 == 0 {
        files.to_vec()
    } else {
        with_words(files)
    };
    let header = if how & 4 == 0 {
        rest
    } else {
        HEADER.as_bytes()
    };
    let parts = [variables.to_vec(), files, header.to_vec()];
    let mut file = b"belljar-snapshot\x02\0\0\0".to_vec();
    file.extend(parts.iter().flatten());
    for part in &parts {
        file.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    let checksum = blake3::hash(&file);
    file.extend_from_slice(checksum.as_bytes());
    Some((file, Some(parts)))
}

fn look(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("it is there").flatten();
    entries
        .map(|entry| {
            let contents = fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), contents)
        })
        .collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((bytes, parts)) = written(input) else {
        return;
    };
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.snapshot");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(&bytes).expect("it can be written");
    drop(file);

    let mut reader = match Reader::new(fs::File::open(&path).expect("it is there")) {
        Ok(reader) => reader,
        Err(SnapshotError::Damaged("its header cannot be read")) => return,
        Err(SnapshotError::Io(error)) => panic!("{error}"),
        Err(error) => {
            assert!(parts.is_none(), "a snapshot that is right: {error:?}");
            return;
        }
    };
    // Who finds a checksum by chance has found the end of SHA-256.
    let [variables, files, _] = parts.expect("a snapshot that nobody signed was read");

    let (outside, inside) = (place.path().join("outside"), place.path().join("inside"));
    for directory in [&outside, &inside, &inside.join("directory")] {
        fs::create_dir(directory).expect("a directory");
    }
    fs::write(outside.join("canary"), "outside").expect("a file");
    for (link, target) in [
        ("out", "../outside"),
        ("loop", "."),
        ("leak", "../outside/canary"),
        ("dangling", "../outside/new"),
        ("absolute", outside.to_str().expect("it is text")),
        ("directory/out", "../../outside"),
    ] {
        symlink(target, inside.join(link)).expect("a link");
    }
    let before = (look(&outside), look(place.path()).len());
    let workspace = fs::File::open(&inside).expect("it is there");
    let source = reader.source().expect("it is open");
    let writer = FileWriter::in_thread(workspace.into(), Some(source.into()));
    let mut writer = writer.expect("a writer");
    let mut writing = writer.begin(None, 0);
    let restored = reader.restore_files(&mut writing);
    let restored = restored.and_then(|count| {
        writing.finish()?;
        Ok(count)
    });
    if restored.is_err() {
        writing.abandon().expect("the writer is there");
    }
    assert_eq!((look(&outside), look(place.path()).len()), before);
    match (restored, naive(&files)) {
        (Ok(count), Some((expected, contents))) => {
            assert_eq!(count, expected);
            for (name, (may_run, contents)) in contents {
                let path = inside.join(&name);
                // Nothing that was there before is a file, so this is what was written last, but for
                // paths that lead to it by other spellings.
                let mode = fs::metadata(&path)
                    .expect("it was written")
                    .permissions()
                    .mode();
                let is_alone = !files.windows(2).any(|pair| pair == b"//" || pair == b"./");
                if is_alone {
                    assert_eq!(
                        fs::read(&path).expect("it can be read"),
                        contents,
                        "{name:?}"
                    );
                    assert_eq!(mode & 0o100 != 0, may_run, "{name:?}");
                }
            }
        }
        (Ok(_), None) => panic!("a list that can't be read was read"),
        (Err(Error::Io(..)), _) => panic!("a fault of ours"),
        (Err(_), _) => {}
    }
    let range = reader.variables();
    let length = usize::try_from(range.end - range.start).expect("it is in memory, too");
    let mut read = vec![0; length];
    let source = reader.source().expect("it can be read");
    source
        .read_exact_at(&mut read, range.start)
        .expect("it can be read");
    assert_eq!(read, variables);
});
