//! Cached reports of interpreters, in the data directory, so that each is probed once. A report is
//! valid as long as the interpreter, its `pyvenv.cfg` and the directories that it imports from are
//! unchanged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::data::{data_directory, sha256};
use super::probe::Report;

/// How many are kept: stale ones are not looked for, so now and then all are probed again.
const MOST: usize = 200;

/// The cached report of one interpreter.
#[derive(Serialize, Deserialize)]
struct Known {
    /// The hash of the probe.
    question: String,
    seen: Vec<(PathBuf, Option<Stamp>)>,
    report: Report,
}

/// Identifies a file or directory: device, inode, size, and modification time.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Stamp(u64, u64, u64, i64, i64);

impl Stamp {
    fn from_path(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self(
            found.dev(),
            found.ino(),
            found.size(),
            found.mtime(),
            found.mtime_nsec(),
        ))
    }
}

/// The cached report of an interpreter for this probe, if it is still valid.
pub(super) fn recall(interpreter: &Path, question: &str) -> Option<Report> {
    let kept = fs::read(file_of(interpreter)?).ok()?;
    let known: Known = serde_json::from_slice(&kept).ok()?;
    let same = |(path, stamp): &(PathBuf, Option<Stamp>)| Stamp::from_path(path) == *stamp;
    (known.question == sha256(question.as_bytes()) && known.seen.iter().all(same))
        .then_some(known.report)
}

/// Caches a report. If that fails, the interpreter is probed again.
pub(super) fn remember(interpreter: &Path, question: &str, report: &Report) {
    // A script that starts one may start another the next time.
    let real = |path: &Path| path.canonicalize().ok();
    if real(interpreter) != real(report.executable()) {
        return;
    }
    let venv = interpreter.parent().and_then(Path::parent);
    let venv = venv.map(|directory| directory.join("pyvenv.cfg"));
    let own = [interpreter.to_owned(), report.executable().to_owned()];
    let seen = own.into_iter().chain(venv);
    let seen = seen.chain(report.path().iter().cloned());
    let known = Known {
        question: sha256(question.as_bytes()),
        seen: seen
            .map(|path| (path.clone(), Stamp::from_path(&path)))
            .collect(),
        report: report.clone(),
    };
    let write = || -> Option<()> {
        let file = file_of(interpreter)?;
        let directory = file.parent()?;
        fs::create_dir_all(directory).ok()?;
        if fs::read_dir(directory).ok()?.count() > MOST {
            fs::remove_dir_all(directory).ok()?;
            fs::create_dir_all(directory).ok()?;
        }
        let new = tempfile::NamedTempFile::new_in(directory).ok()?;
        serde_json::to_writer(new.as_file(), &known).ok()?;
        new.persist(file).ok().map(drop)
    };
    if write().is_none() {
        tracing::debug!("the report of an interpreter could not be cached");
    }
}

fn file_of(interpreter: &Path) -> Option<PathBuf> {
    let name = sha256(interpreter.as_os_str().as_encoded_bytes());
    let directory = data_directory().ok()?.join("interpreters");
    Some(directory.join(name).with_extension("json"))
}
