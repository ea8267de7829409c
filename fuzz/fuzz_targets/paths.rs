//! Paths of a guest beneath a directory full of traps: nothing outside is read, listed, changed or
//! removed, and each answer is the one that a naive reading of the rule gives.
//!
//! The input: operations. Of each the first byte says what is done, the second how long the path is;
//! a byte of the path below 32 stands for one of the names in `WORDS`, so that the traps are found.
#![no_main]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use belljar_walls::{Beneath, BeneathError, EntryKind, FileWriter};
use libfuzzer_sys::fuzz_target;

const CANARY: &str = "outside";

/// What Linux allows, in bytes.
const LONGEST_NAME: usize = 255;

const WORDS: [&str; 16] = [
    "/",
    ".",
    "..",
    "file",
    "directory",
    "nested",
    "out",
    "up",
    "absolute",
    "loop",
    "leak",
    "pipe",
    "dangling",
    "canary",
    "proc",
    "new",
];

struct Place {
    _root: tempfile::TempDir,
    outside: PathBuf,
    inside: PathBuf,
    beneath: Beneath,
}

/// ```text
/// outside/canary                 what must never be touched
/// outside/nested/canary
/// inside/file                    what may be
/// inside/directory/nested/file
/// inside/…                       links to all of it, a pipe
/// ```
fn place() -> Place {
    let root = tempfile::tempdir().expect("a directory");
    let (outside, inside) = (root.path().join("outside"), root.path().join("inside"));
    let write = |path: PathBuf, text| {
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    for path in ["canary", "nested/canary", "file"] {
        write(outside.join(path), CANARY);
    }
    for path in ["file", "directory/nested/file"] {
        write(inside.join(path), "inside");
    }
    let at = |path: &Path| path.to_str().expect("it is text").to_owned();
    for (link, target) in [
        ("out", "../outside".to_owned()),
        ("up", "..".to_owned()),
        ("absolute", at(&outside)),
        ("loop", ".".to_owned()),
        ("leak", "../outside/canary".to_owned()),
        ("dangling", "../outside/new".to_owned()),
        ("proc", format!("/proc/self/root{}", at(&outside))),
        ("directory/out", "../../outside".to_owned()),
        ("directory/up", "../../outside/nested".to_owned()),
        ("directory/leak", at(&outside.join("canary"))),
        ("directory/nested/absolute", at(&inside)),
        ("directory/nested/loop", "../../loop".to_owned()),
    ] {
        symlink(target, inside.join(link)).expect("a link");
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, inside.join("pipe"), pipe, mode, 0).expect("a pipe");
    let beneath = Beneath::new(fs::File::open(&inside).expect("it is there").into());
    Place {
        _root: root,
        outside,
        inside,
        beneath,
    }
}

/// Everything beneath a directory: path, kind and mode, contents. Links are not followed.
fn look(directory: &Path, before: &Path, found: &mut Vec<(PathBuf, u32, Vec<u8>)>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .expect("it is there")
        .flatten()
        .collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), before.join(entry.file_name()));
        let data = fs::symlink_metadata(&path).expect("it is there");
        let contents = if data.is_file() {
            fs::read(&path).expect("it can be read")
        } else {
            Vec::new()
        };
        found.push((name.clone(), data.permissions().mode(), contents));
        if data.is_dir() {
            look(&path, &name, found);
        }
    }
}

fn snapshot(directory: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    look(directory, Path::new(""), &mut found);
    found
}

/// What a path leads to by the rule, one part after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// It is not one of the paths that are allowed, or the system knows no such names.
    Bad,
    /// A link, a pipe, or a part of the way that is no directory.
    Blocked,
    Nothing,
    File,
    Directory,
}

fn well_formed(path: &str) -> bool {
    path.len() <= 4000
        && !path.contains('\0')
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// A walk by hand, which stops at the first part that is not a directory.
fn follow(inside: &Path, path: &str) -> Leads {
    if !well_formed(path) {
        return Leads::Bad;
    }
    let mut at = inside.to_owned();
    let mut leads = Leads::Directory;
    for part in path.split('/') {
        if leads != Leads::Directory {
            // Nothing stays nothing; what is no directory is in the way.
            return if leads == Leads::Nothing {
                Leads::Nothing
            } else {
                Leads::Blocked
            };
        }
        if part.len() > LONGEST_NAME {
            return Leads::Bad;
        }
        at.push(part);
        leads = match fs::symlink_metadata(&at) {
            Err(_) => Leads::Nothing,
            Ok(data) if data.is_dir() => Leads::Directory,
            Ok(data) if data.is_file() => Leads::File,
            Ok(_) => Leads::Blocked,
        };
    }
    leads
}

fn is_refused<T>(result: &Result<T, BeneathError>) -> bool {
    matches!(
        result,
        Err(BeneathError::BadPath { .. } | BeneathError::Io { .. })
    )
}

fn is_blocked<T>(result: &Result<T, BeneathError>) -> bool {
    matches!(result, Err(BeneathError::NotRegular(_)))
}

fn is_missing<T>(result: &Result<T, BeneathError>) -> bool {
    matches!(result, Err(BeneathError::NotFound(_)))
}

fn get(place: &Place, path: &str) {
    let leads = follow(&place.inside, path);
    let got = place.beneath.read(path).map(|mut file| {
        let mut text = Vec::new();
        file.read_to_end(&mut text).expect("it can be read");
        text
    });
    match leads {
        // The directory itself may be named.
        Leads::Bad => assert!(
            is_refused(&got) || path == "." && is_blocked(&got),
            "{path:?} {got:?}"
        ),
        Leads::Blocked | Leads::Directory => assert!(is_blocked(&got), "{path:?} {got:?}"),
        Leads::Nothing => assert!(is_missing(&got), "{path:?} {got:?}"),
        Leads::File => {
            let expected = fs::read(place.inside.join(path)).expect("it is a file");
            assert_eq!(got.expect("it is a file"), expected, "{path:?}");
        }
    }
}

fn put(place: &Place, path: &str, contents: &[u8]) {
    let leads = match follow(&place.inside, path) {
        Leads::Nothing if path.split('/').any(|part| part.len() > LONGEST_NAME) => Leads::Bad,
        // Directories on the way are made, so a path that is missing leads to a new file.
        leads => leads,
    };
    let blocked = !matches!(leads, Leads::File | Leads::Nothing);
    let workspace = fs::File::open(&place.inside).expect("it is there");
    let mut writer = FileWriter::in_thread(workspace.into(), None).expect("a writer");
    let mut writing = writer.begin(None, 0);
    let put = writing
        .file(path, false, |file| file.data(contents))
        .and_then(|()| writing.finish());
    if put.is_err() {
        writing.abandon().expect("the writer is there");
    }
    match (leads, blocked) {
        (Leads::Bad, _) => assert!(is_refused(&put), "{path:?} {put:?}"),
        (_, true) => assert!(is_blocked(&put), "{path:?} {put:?}"),
        (_, false) => {
            put.expect("it can be written");
            assert_eq!(follow(&place.inside, path), Leads::File, "{path:?}");
            assert_eq!(
                fs::read(place.inside.join(path)).expect("it is a file"),
                contents
            );
        }
    }
}

fn list(place: &Place, path: &str) {
    // The directory itself is `.` too.
    let trimmed = match path.trim_end_matches('/') {
        "." => "",
        other => other,
    };
    let leads = match trimmed {
        "" => Leads::Directory,
        other => follow(&place.inside, other),
    };
    let listed = place.beneath.list(path, 1000);
    match leads {
        Leads::Bad => assert!(is_refused(&listed), "{path:?} {listed:?}"),
        Leads::Blocked | Leads::File => assert!(is_blocked(&listed), "{path:?} {listed:?}"),
        Leads::Nothing => assert!(is_missing(&listed), "{path:?} {listed:?}"),
        Leads::Directory => {
            let (entries, more) = listed.expect("it is a directory");
            if !more {
                let mut expected: Vec<_> = snapshot(&place.inside.join(trimmed))
                    .into_iter()
                    .map(|(name, ..)| Path::new(trimmed).join(name))
                    .collect();
                expected.sort();
                let mut got: Vec<_> = entries
                    .iter()
                    .map(|entry| PathBuf::from(&entry.path))
                    .collect();
                got.sort();
                assert_eq!(got, expected, "{path:?}");
            }
            for entry in entries {
                let path = place.inside.join(&entry.path);
                let data = fs::symlink_metadata(&path).expect("it is there");
                let kind = match () {
                    () if data.is_file() => EntryKind::File,
                    () if data.is_dir() => EntryKind::Directory,
                    () => EntryKind::Other,
                };
                let size = if data.is_file() { data.len() } else { 0 };
                assert_eq!((entry.kind, entry.size), (kind, size), "{entry:?}");
            }
        }
    }
}

fn delete(place: &Place, path: &str) {
    let leads = follow(&place.inside, path);
    let parent = path
        .rsplit_once('/')
        .map(|(parent, _)| follow(&place.inside, parent));
    let full = place.inside.join(path);
    let empty = leads == Leads::Directory && snapshot(&full).is_empty();
    let removed = place.beneath.remove(path);
    let way_is_free = parent.is_none_or(|parent| parent == Leads::Directory);
    match leads {
        Leads::Bad => assert!(is_refused(&removed), "{path:?} {removed:?}"),
        Leads::Nothing => assert!(is_missing(&removed), "{path:?} {removed:?}"),
        Leads::Blocked if !way_is_free => assert!(is_blocked(&removed), "{path:?} {removed:?}"),
        Leads::Directory if !empty => assert!(is_refused(&removed), "{path:?} {removed:?}"),
        // A link or a pipe goes itself; what it leads to stays.
        Leads::File | Leads::Directory | Leads::Blocked => {
            removed.expect("it can be removed");
            assert!(fs::symlink_metadata(&full).is_err(), "{path:?}");
        }
    }
}

fn read_path(bytes: &[u8]) -> String {
    let mut path = Vec::new();
    for byte in bytes {
        match byte {
            0..16 => path.extend_from_slice(WORDS[usize::from(*byte)].as_bytes()),
            16 => path.extend_from_slice(&[b'x'; 300]),
            17 => path.extend_from_slice(&b"deep/".repeat(40)),
            18 => path.push(0),
            19 => path.extend_from_slice(b"directory/nested/"),
            20 => path.extend_from_slice(b"../outside/canary"),
            21..32 => path.push(b'/'),
            _ => path.push(*byte),
        }
    }
    String::from_utf8_lossy(&path).into_owned()
}

fuzz_target!(|input: &[u8]| {
    let place = place();
    let before = snapshot(&place.outside);
    let mut rest = input;
    for _ in 0..16 {
        let [operation, length, after @ ..] = rest else {
            break;
        };
        let (bytes, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        let path = read_path(bytes);
        match operation % 4 {
            0 => get(&place, &path),
            1 => put(&place, &path, bytes),
            2 => list(&place, &path),
            _ => delete(&place, &path),
        }
    }
    assert_eq!(
        snapshot(&place.outside),
        before,
        "something outside was changed"
    );
    // Not even a half-written file stays, unless the input found the name by itself.
    if !String::from_utf8_lossy(input).contains("belljar-put") {
        for (path, ..) in snapshot(&place.inside) {
            let path = path.to_string_lossy();
            assert!(!path.contains(".belljar-put-"), "{path:?}");
        }
    }
});
