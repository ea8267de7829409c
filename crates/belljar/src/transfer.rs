//! Files and directories on their way into a workspace and out of it: `--put` and `--out`.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use belljar_sandbox::protocol::texts::RunTexts;
use belljar_sandbox::protocol::{Outcome, visible};
use belljar_sandbox::{EntryKind, MAX_LISTED, Session, SessionOptions};
use clap::Args;

use crate::words;

/// What goes into a session first, and what comes out of it last.
#[derive(Debug, Default, Args)]
pub(crate) struct FileArgs {
    /// Copy a file or directory into /workspace first, under its own name (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) put: Vec<PathBuf>,
    /// Copy files created or changed in /workspace to this directory
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Let `--out` replace existing files
    #[arg(long, requires = "out")]
    overwrite: bool,
}

/// A file of this machine, and its name in the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

fn texts() -> &'static RunTexts {
    &words::texts().run
}

/// Lets files of any size through: what is copied piece by piece is limited by the workspace alone.
pub(crate) fn unlimited(mut options: SessionOptions) -> SessionOptions {
    options.limits.transfer_bytes = u64::MAX;
    options
}

impl FileArgs {
    /// The files of `--put`, those of directories one by one.
    pub(crate) fn inputs(&self) -> anyhow::Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for path in &self.put {
            let name = name_of(path)?;
            add(path, name, &mut inputs)?;
        }
        let mut names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!(texts().file_name_twice(twice));
        }
        Ok(inputs)
    }

    /// Copies what a cell created or changed to the directory of `--out`.
    pub(crate) fn save(&self, session: &Session, outcome: &Outcome) -> anyhow::Result<()> {
        let changed: Vec<String> = outcome.artifacts.iter().map(|a| a.path.clone()).collect();
        // The outcome names no more than this many; then the workspace is asked.
        let all = if changed.len() < MAX_LISTED {
            changed
        } else {
            files_below(session, "")?
        };
        self.save_files(session, all)
    }

    /// The files of a workspace as they are now, if `--out` will ask which ones were changed.
    pub(crate) fn stamps(&self, session: &Session) -> anyhow::Result<Option<Stamps>> {
        self.out.as_ref().map(|_| Stamps::new(session)).transpose()
    }

    /// Copies files of a workspace to the directory of `--out`.
    pub(crate) fn save_files(
        &self,
        session: &Session,
        names: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<()> {
        // The path comes from the guest. The workspace refuses one that leads outside, and only such
        // a path is used on this side too.
        self.copy_out(names, |name| Ok(session.open(name)?))
    }

    /// Copies artifacts of a run to the directory of `--out`.
    pub(crate) fn save_artifacts(
        &self,
        directory: &Path,
        names: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<()> {
        self.copy_out(names, |name| {
            let path = directory.join(name);
            File::open(&path).with_context(|| cannot_read(&path))
        })
    }

    fn copy_out(
        &self,
        names: impl IntoIterator<Item = String>,
        open: impl Fn(&str) -> anyhow::Result<File>,
    ) -> anyhow::Result<()> {
        let Some(directory) = &self.out else {
            return Ok(());
        };
        let mut existing = Vec::new();
        for name in names {
            let target = directory.join(&name);
            if !copy(&mut open(&name)?, &target, self.overwrite)? {
                existing.push(visible(&target.to_string_lossy()).into_owned());
            }
        }
        match existing.first() {
            Some(first) => bail!(texts().out_exists(first, existing.len())),
            None => Ok(()),
        }
    }
}

/// Writes a file completely or not at all; false if it exists and may not be replaced.
pub(crate) fn copy(source: &mut File, target: &Path, overwrite: bool) -> anyhow::Result<bool> {
    let failed = || words::texts().session.cannot_write(&target.display());
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !overwrite && target.symlink_metadata().is_ok() {
        return Ok(false);
    }
    std::fs::create_dir_all(parent).with_context(failed)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent)
        .with_context(failed)?;
    io::copy(source, &mut file).with_context(failed)?;
    if overwrite {
        file.persist(target).with_context(failed)?;
        return Ok(true);
    }
    match file.persist_noclobber(target) {
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        kept => kept.map(|_| true).with_context(failed),
    }
}

/// Copies files into a workspace.
pub(crate) fn put_all(session: &Session, inputs: &[Input]) -> anyhow::Result<()> {
    for Input { name, path } in inputs {
        let file = File::open(path).with_context(|| cannot_read(path))?;
        session.put_file(name, &file)?;
    }
    Ok(())
}

/// Which files a workspace has, and when each was changed. What commands do is in no outcome.
#[derive(Debug)]
pub(crate) struct Stamps(BTreeMap<String, (u64, i64, i64)>);

impl Stamps {
    fn new(session: &Session) -> anyhow::Result<Self> {
        let mut stamps = BTreeMap::new();
        for path in files_below(session, "")? {
            // It may be gone already.
            if let Ok(found) = session.open(&path).map(|file| file.metadata())
                && let Ok(found) = found
            {
                stamps.insert(path, (found.ino(), found.ctime(), found.ctime_nsec()));
            }
        }
        Ok(Self(stamps))
    }

    /// The files that were created or changed since.
    pub(crate) fn changed(&self, session: &Session) -> anyhow::Result<Vec<String>> {
        let mut now = Self::new(session)?.0;
        now.retain(|path, stamp| self.0.get(path) != Some(stamp));
        Ok(now.into_keys().collect())
    }
}

/// The paths of the files below a directory of a workspace.
pub(crate) fn files_below(session: &Session, directory: &str) -> anyhow::Result<Vec<String>> {
    let listing = session.list(directory)?;
    if listing.truncated {
        bail!(texts().out_too_many(listing.entries.len()));
    }
    let entries = listing.entries.into_iter();
    let files = entries.filter(|entry| entry.kind == EntryKind::File);
    Ok(files.map(|entry| entry.path).collect())
}

/// The files of a path, which become `name` or are below it.
pub(crate) fn add(path: &Path, name: String, inputs: &mut Vec<Input>) -> anyhow::Result<()> {
    let unreadable = |error: io::Error| anyhow!(texts().file_unreadable(&path.display(), &error));
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if found.is_file() {
        let path = path.to_owned();
        inputs.push(Input { name, path });
        return Ok(());
    }
    // A link to a directory may lead back to where it is.
    let is_link = path.symlink_metadata().is_ok_and(|own| own.is_symlink());
    if !found.is_dir() || is_link && name.contains('/') {
        bail!(texts().file_not_regular(&path.display()));
    }
    let mut below = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        below.push(entry.map_err(unreadable)?.path());
    }
    below.sort();
    for path in below {
        let own = name_of(&path)?;
        add(&path, format!("{name}/{own}"), inputs)?;
    }
    Ok(())
}

/// The name of a path, also of one such as `.`.
fn name_of(path: &Path) -> anyhow::Result<String> {
    let whole = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path.canonicalize().with_context(|| cannot_read(path))?,
    };
    let name = whole.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| texts().file_name_invalid(&path.display()))?;
    Ok(name.to_owned())
}

fn cannot_read(path: &Path) -> String {
    words::texts().session.cannot_read(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(put: &[&Path]) -> anyhow::Result<Vec<String>> {
        let args = FileArgs {
            put: put.iter().map(|path| (*path).to_owned()).collect(),
            ..FileArgs::default()
        };
        Ok(args.inputs()?.into_iter().map(|input| input.name).collect())
    }

    #[test]
    fn a_directory_is_its_files() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        std::fs::create_dir_all(data.join("b/c")).unwrap();
        for name in ["a.csv", "b/c/d.csv"] {
            std::fs::write(data.join(name), name).unwrap();
        }
        assert_eq!(inputs(&[&data]).unwrap(), ["data/a.csv", "data/b/c/d.csv"]);
        let through = data.join("b/..");
        assert_eq!(inputs(&[&through]).unwrap().len(), 2);
        // The same name twice, and a circle.
        let twice = inputs(&[&data, &data]).unwrap_err();
        assert!(twice.to_string().contains("data/a.csv"), "{twice}");
        std::os::unix::fs::symlink("..", data.join("b/up")).unwrap();
        let circle = inputs(&[&data]).unwrap_err();
        assert!(circle.to_string().contains("b/up"), "{circle}");
    }

    #[test]
    fn nothing_is_replaced_unless_that_is_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("new/to"));
        std::fs::write(&from, "first").unwrap();
        let copy = |overwrite| copy(&mut File::open(&from).unwrap(), &to, overwrite).unwrap();
        assert!(copy(false));
        std::fs::write(&from, "second").unwrap();
        assert!(!copy(false));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "first");
        assert!(copy(true));
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "second");
    }
}
