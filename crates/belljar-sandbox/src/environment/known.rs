//! What interpreters said of themselves, kept in the data directory so that each is asked once. An
//! answer is taken for as long as the interpreter, its `pyvenv.cfg` and the directories that it
//! imports from are as they were.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::data_directory;
use super::probe::Report;
use super::store::sha256;

/// How many are kept: those that are gone are not looked for, so now and then all are asked again.
const MOST: usize = 200;

/// What was kept of one interpreter.
#[derive(Serialize, Deserialize)]
struct Known {
    /// Of the question.
    question: String,
    seen: Vec<(PathBuf, Option<Stamp>)>,
    report: Report,
}

/// By which a file or directory is known again: device, inode, size, and when it was changed last.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Stamp(u64, u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
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

/// The answer of an interpreter to this question, if it would answer the same now.
pub(super) fn recall(interpreter: &Path, question: &str) -> Option<Report> {
    let kept = fs::read(file_of(interpreter)?).ok()?;
    let known: Known = serde_json::from_slice(&kept).ok()?;
    let same = |(path, stamp): &(PathBuf, Option<Stamp>)| Stamp::of(path) == *stamp;
    (known.question == sha256(question.as_bytes()) && known.seen.iter().all(same))
        .then_some(known.report)
}

/// Keeps an answer. It is asked again where it can't be kept.
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
        seen: seen.map(|path| (path.clone(), Stamp::of(&path))).collect(),
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
