//! Environments on disk: built beside their place, then moved into it in one step.
//!
//! ```text
//! <root>/environments/
//!   .lock                    held while something is built or removed
//!   .building-<pid>/         a build that is under way, or was interrupted: swept by the next
//!   default/
//!     environment.json       what is below, written last
//!     requirements.in        the requested packages
//!     requirements.lock      their resolved versions, with hashes
//!     venv/
//!   analysis/
//!     environment.json       of an image, which the container engine has
//! ```
//! A directory with a name is complete: readers need no lock.

mod images;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::data::{data_directory, sha256};
use super::process::{self, Failure};
use super::uv::{Uv, find_in_path};
use super::{BuildStep, Environment, EnvironmentError, EnvironmentSpec, lock, name, probe};
use crate::permissions::open_to_sessions;

/// The format of `environment.json`.
const FORMAT: u32 = 1;
const RECORD: &str = "environment.json";
const REQUIREMENTS: &str = "requirements.in";
const LOCK: &str = "requirements.lock";
const STORE_LOCK: &str = ".lock";
const BUILDING: &str = ".building-";
const REMOVED: &str = ".removed-";
/// Long enough for a slow disk, short enough that a hanging preload is reported.
const PRELOAD_DEADLINE: Duration = Duration::from_mins(2);

/// What `environment.json` holds. Relative paths are beneath the environment's own directory, so
/// that the store may be moved.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    spec: EnvironmentSpec,
    /// The interpreter behind all links. When it is another one later, the packages are not for it.
    interpreter: PathBuf,
    lock_sha256: String,
    uv_version: String,
    environment: Environment,
}

/// Only the part of a record that every format has.
#[derive(Debug, Deserialize)]
struct RecordFormat {
    format: u32,
}

/// The named environments of one user.
#[derive(Debug, Clone)]
pub struct EnvironmentStore {
    directory: PathBuf,
}

impl EnvironmentStore {
    /// The store in the data directory `root`. Nothing is written until something is created.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self {
            directory: root.into().join("environments"),
        }
    }

    /// The store in `$BELLJAR_DATA_DIR`, or in `belljar` of the user's data directory
    /// (`$XDG_DATA_HOME`, `~/.local/share`).
    pub fn open_default() -> Result<Self, EnvironmentError> {
        Ok(Self::open(data_directory()?))
    }

    /// Where the environments lie, one directory for each.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Builds an environment. It takes seconds to minutes; `progress` gets each step.
    ///
    /// It exists completely or not at all: a failed build leaves nothing behind, and the next build
    /// removes the remains of an interrupted one.
    pub fn create(
        &self,
        spec: &EnvironmentSpec,
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<Environment, EnvironmentError> {
        let is_new = |place: &Path| is_new(place, &spec.name);
        self.build(spec, progress, is_new, Building::move_to)
    }

    /// What an environment was built from. One that is an image was not built here.
    pub fn spec(&self, name: &str) -> Result<EnvironmentSpec, EnvironmentError> {
        // Whether it can be used, and why not.
        if self.load(name)?.image.is_some() {
            let name = name.to_owned();
            return Err(EnvironmentError::IsImage { name });
        }
        let path = self.directory.join(name).join(RECORD);
        let text = fs::read(&path).map_err(EnvironmentError::io("read", &path))?;
        let record: Record = serde_json::from_slice(&text)
            .map_err(|error| EnvironmentError::io("read", &path)(error.into()))?;
        Ok(record.spec)
    }

    /// Builds an environment again, with other packages, in place of the one with its name. The old
    /// one stays if the build fails. Templates that run from it keep what they have in memory, but
    /// no new ones can start.
    pub fn replace(
        &self,
        spec: &EnvironmentSpec,
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<Environment, EnvironmentError> {
        let is_there = |place: &Path| match fs::symlink_metadata(place) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.not_found(&spec.name)),
        };
        self.build(spec, progress, is_there, |building, place| {
            let aside = place.with_file_name(format!("{REMOVED}{}", std::process::id()));
            fs::rename(place, &aside).map_err(EnvironmentError::io("replace", place))?;
            if let Err(error) = building.move_to(place) {
                fs::rename(&aside, place).map_err(EnvironmentError::io("put back", place))?;
                return Err(error);
            }
            remove_all(&aside).map_err(EnvironmentError::io("remove", &aside))
        })
    }

    /// Builds an environment aside, if its place allows it, and puts it there.
    fn build(
        &self,
        spec: &EnvironmentSpec,
        progress: &mut dyn FnMut(BuildStep<'_>),
        allows: impl Fn(&Path) -> Result<(), EnvironmentError>,
        put: impl FnOnce(Building, &Path) -> Result<(), EnvironmentError>,
    ) -> Result<Environment, EnvironmentError> {
        check(spec)?;
        allows(&self.directory.join(&spec.name))?;
        let uv = Uv::find()?;
        let python = find_python(spec, &uv)?;
        let directory = self.make_directory()?;
        let _held = hold_lock(&directory, progress)?;
        sweep(&directory);
        let place = directory.join(&spec.name);
        // Another process may have been faster.
        allows(&place)?;
        let building = Building::start(&directory)?;
        build(spec, &uv, &python, building.path(), progress)?;
        progress(BuildStep::Writing);
        put(building, &place)?;
        load_from(&place, &spec.name)
    }

    /// The environments that can be used, in order of name. See [`Self::inspect`] for the others.
    pub fn list(&self) -> Result<Vec<Environment>, EnvironmentError> {
        Ok(self.inspect()?.into_iter().flatten().collect())
    }

    /// Every environment, in order of name; instead of one that cannot be used, the reason (which
    /// names it).
    pub fn inspect(&self) -> Result<Vec<Result<Environment, EnvironmentError>>, EnvironmentError> {
        let names = self.names()?;
        Ok(names.iter().map(|name| self.load(name)).collect())
    }

    /// The environment of that name.
    pub fn load(&self, name: &str) -> Result<Environment, EnvironmentError> {
        name::check_name(name)?;
        // The real path, because that is what was recorded and what walls are built with.
        match self.directory.join(name).canonicalize() {
            Ok(place) => load_from(&place, name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.not_found(name)),
            Err(error) => Err(EnvironmentError::io("open", &self.directory.join(name))(
                error,
            )),
        }
    }

    /// Removes an environment, also one that cannot be used. Templates that run from it keep what
    /// they have in memory, but no new ones can start.
    pub fn remove(&self, name: &str) -> Result<(), EnvironmentError> {
        name::check_name(name)?;
        if fs::symlink_metadata(self.directory.join(name)).is_err() {
            return Err(self.not_found(name));
        }
        let directory = self.make_directory()?;
        let _held = hold_lock(&directory, &mut |_| {})?;
        sweep(&directory);
        let place = directory.join(name);
        // Out of sight in one step; a half-removed environment never has a name.
        let aside = directory.join(format!("{REMOVED}{}", std::process::id()));
        fs::rename(&place, &aside).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                self.not_found(name)
            } else {
                EnvironmentError::io("remove", &place)(error)
            }
        })?;
        remove_all(&aside).map_err(EnvironmentError::io("remove", &aside))
    }

    fn names(&self) -> Result<Vec<String>, EnvironmentError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(EnvironmentError::io("list", &self.directory)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(EnvironmentError::io("list", &self.directory))?;
            if let Ok(found) = entry.file_name().into_string()
                && name::check_name(&found).is_ok()
            {
                names.push(found);
            }
        }
        names.sort();
        Ok(names)
    }

    fn not_found(&self, name: &str) -> EnvironmentError {
        let names = self.names().unwrap_or_default();
        EnvironmentError::NotFound {
            name: name.to_owned(),
            known: if names.is_empty() {
                "none yet".to_owned()
            } else {
                names.join(", ")
            },
        }
    }

    /// Makes the store's directory and gives its real path.
    fn make_directory(&self) -> Result<PathBuf, EnvironmentError> {
        fs::create_dir_all(&self.directory)
            .map_err(EnvironmentError::io("make the directory", &self.directory))?;
        self.directory
            .canonicalize()
            .map_err(EnvironmentError::io("open", &self.directory))
    }
}

fn is_new(place: &Path, name: &str) -> Result<(), EnvironmentError> {
    if place.exists() {
        let name = name.to_owned();
        return Err(EnvironmentError::AlreadyExists { name });
    }
    Ok(())
}

fn check(spec: &EnvironmentSpec) -> Result<(), EnvironmentError> {
    name::check_name(&spec.name)?;
    for package in &spec.packages {
        name::check_package(package)?;
    }
    for module in &spec.preload {
        name::check_module(module)?;
    }
    Ok(())
}

/// The interpreter to build on.
fn find_python(spec: &EnvironmentSpec, uv: &Uv) -> Result<PathBuf, EnvironmentError> {
    if let Some(path) = &spec.python {
        return Ok(probe::probe(path)?.executable().to_path_buf());
    }
    // Newer ones share more of a template's memory with its sessions. Of the same version, the first.
    let in_path = ["python3", "python3.13", "python3.12"];
    in_path
        .into_iter()
        .filter_map(find_in_path)
        .chain(uv.find_python())
        .filter_map(|candidate| probe::probe(&candidate).ok())
        .reduce(|best, next| {
            if next.version() > best.version() {
                next
            } else {
                best
            }
        })
        .map(|report| report.executable().to_path_buf())
        .ok_or(EnvironmentError::NoPython)
}

/// One creator or remover at a time. The lock is gone with the process, however that ends.
fn hold_lock(
    directory: &Path,
    progress: &mut dyn FnMut(BuildStep<'_>),
) -> Result<File, EnvironmentError> {
    let path = directory.join(STORE_LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(EnvironmentError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress(BuildStep::Waiting);
            file.lock().map_err(EnvironmentError::io("lock", &path))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(EnvironmentError::io("lock", &path)(error));
        }
    }
    Ok(file)
}

/// Removes remains of interrupted builds and removals. We hold the lock, so none of them is in use.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let leftover = file_name
            .to_str()
            .is_some_and(|name| name.starts_with(BUILDING) || name.starts_with(REMOVED));
        if leftover && let Err(error) = remove_all(&entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "an interrupted build could not be removed");
        }
    }
}

/// Does not follow a link that stands in the place of the directory.
fn remove_all(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// A directory that is removed unless it was moved into its place.
struct Building {
    path: PathBuf,
}

impl Building {
    fn start(directory: &Path) -> Result<Self, EnvironmentError> {
        let path = directory.join(format!("{BUILDING}{}", std::process::id()));
        fs::create_dir(&path).map_err(EnvironmentError::io("make the directory", &path))?;
        Ok(Self { path })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Everything on disk first, then the name: a power cut leaves all or nothing.
    fn move_to(self, place: &Path) -> Result<(), EnvironmentError> {
        open_to_sessions(&self.path)
            .map_err(EnvironmentError::io("open to sessions", &self.path))?;
        let opened = File::open(&self.path).map_err(EnvironmentError::io("open", &self.path))?;
        rustix::fs::syncfs(&opened)
            .map_err(io::Error::from)
            .map_err(EnvironmentError::io("write to disk", &self.path))?;
        fs::rename(&self.path, place).map_err(EnvironmentError::io("move into place", place))?;
        if let Some(parent) = place.parent() {
            File::open(parent)
                .and_then(|directory| directory.sync_all())
                .map_err(EnvironmentError::io("write to disk", parent))?;
        }
        Ok(())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // After `move_to` there is nothing at this path any more.
        match remove_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "a failed build could not be removed");
            }
            _ => {}
        }
    }
}

fn build(
    spec: &EnvironmentSpec,
    uv: &Uv,
    python: &Path,
    directory: &Path,
    progress: &mut dyn FnMut(BuildStep<'_>),
) -> Result<(), EnvironmentError> {
    let venv = directory.join("venv");
    let venv_python = venv.join("bin/python");
    let lock_path = directory.join(LOCK);

    progress(BuildStep::Venv);
    uv.make_venv(&venv, python, progress)?;

    let mut requirements = spec.packages.join("\n");
    requirements.push('\n');
    write(&directory.join(REQUIREMENTS), requirements.as_bytes())?;
    if spec.packages.is_empty() {
        // Nothing to resolve; uv would call an empty list a mistake.
        write(&lock_path, b"")?;
    } else {
        progress(BuildStep::Versions);
        uv.lock(
            &directory.join(REQUIREMENTS),
            &lock_path,
            &venv_python,
            progress,
        )?;
        progress(BuildStep::Installing);
        uv.install(&lock_path, &venv_python, progress)?;
    }
    let lock_text =
        fs::read_to_string(&lock_path).map_err(EnvironmentError::io("read", &lock_path))?;
    let packages = lock::parse(&lock_text)?;

    if !spec.preload.is_empty() {
        progress(BuildStep::Importing);
        check_preload(&venv_python, &spec.preload)?;
    }

    let report = probe::probe(&venv_python)?;
    let interpreter = venv_python
        .canonicalize()
        .map_err(EnvironmentError::io("follow", &venv_python))?;
    let environment =
        Environment::from_report(spec.name.clone(), &report, packages, spec.preload.clone())?;
    if environment.fonts.is_empty() {
        progress(BuildStep::NoChineseFont);
    }
    let record = Record {
        format: FORMAT,
        spec: spec.clone(),
        interpreter,
        lock_sha256: sha256(lock_text.as_bytes()),
        uv_version: uv.version().to_owned(),
        environment: environment.relative_to(directory),
    };
    write_record(directory, &record)
}

fn write_record(directory: &Path, record: &impl Serialize) -> Result<(), EnvironmentError> {
    let path = directory.join(RECORD);
    let mut text = serde_json::to_string_pretty(record)
        .map_err(|error| EnvironmentError::io("write", &path)(error.into()))?;
    text.push('\n');
    write(&path, text.as_bytes())
}

/// Imports the preload list as a template will, so that a mistake in it is reported now.
fn check_preload(python: &Path, preload: &[String]) -> Result<(), EnvironmentError> {
    const SCRIPT: &str = r#"
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        sys.exit(f"{name}: {type(error).__name__}: {error}")
"#;
    // Libraries that keep caches in the home directory (matplotlib) get a temporary one.
    let scratch = tempfile::tempdir().map_err(EnvironmentError::io(
        "make a directory in",
        &std::env::temp_dir(),
    ))?;
    let mut command = Command::new(python);
    command
        .args(["-I", "-c", SCRIPT])
        .args(preload)
        .env("HOME", scratch.path())
        .env("MPLCONFIGDIR", scratch.path())
        .env("MPLBACKEND", "agg")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(scratch.path());
    match process::run_with_deadline(&mut command, PRELOAD_DEADLINE) {
        Ok(finished) if finished.status.success() => Ok(()),
        Ok(finished) => Err(EnvironmentError::Preload {
            output: format!("{} ({})", finished.stderr.trim(), finished.status),
        }),
        Err(Failure::Deadline | Failure::Stopped) => Err(EnvironmentError::Preload {
            output: format!(
                "the imports took more than {} seconds",
                PRELOAD_DEADLINE.as_secs()
            ),
        }),
        Err(Failure::Io(error)) => Err(EnvironmentError::io("run", python)(error)),
    }
}

fn load_from(place: &Path, name: &str) -> Result<Environment, EnvironmentError> {
    let broken = |reason: String| EnvironmentError::Broken {
        name: name.to_owned(),
        reason,
    };
    let path = place.join(RECORD);
    let text = fs::read(&path).map_err(|error| broken(format!("`{}`: {error}", path.display())))?;
    let unreadable =
        |error: serde_json::Error| broken(format!("`{}` cannot be read: {error}", path.display()));
    let RecordFormat { format } = serde_json::from_slice(&text).map_err(unreadable)?;
    if format > images::FORMAT {
        return Err(EnvironmentError::NewerFormat {
            name: name.to_owned(),
            found: format,
            known: images::FORMAT,
        });
    }
    let (environment, interpreter) = if format == images::FORMAT {
        (images::read(&text).map_err(unreadable)?, None)
    } else {
        let record: Record = serde_json::from_slice(&text).map_err(unreadable)?;
        (record.environment, Some(record.interpreter))
    };
    if environment.name != name {
        return Err(broken(format!(
            "it was built as `{}` and renamed by hand",
            environment.name
        )));
    }
    let Some(interpreter) = interpreter else {
        return match environment.image {
            Some(_) => Ok(environment),
            None => Err(broken("its image is not named".to_owned())),
        };
    };
    let environment = environment.absolute_in(place);
    match environment.python.canonicalize() {
        Ok(found) if found == interpreter => Ok(environment),
        Ok(found) => Err(broken(format!(
            "it was built on `{}`, but its python is now `{}`",
            interpreter.display(),
            found.display()
        ))),
        Err(_) => Err(broken(format!(
            "its Python, `{}`, is gone",
            interpreter.display()
        ))),
    }
}

impl Environment {
    /// With every path beneath `directory` written relative to it.
    fn relative_to(mut self, directory: &Path) -> Self {
        self.change_paths(|path| match path.strip_prefix(directory) {
            Ok(beneath) => beneath.to_path_buf(),
            Err(_) => path.to_path_buf(),
        });
        self
    }

    /// The reverse: relative paths are beneath `directory`.
    fn absolute_in(mut self, directory: &Path) -> Self {
        // `join` keeps a path that is absolute.
        self.change_paths(|path| directory.join(path));
        self
    }

    fn change_paths(&mut self, change: impl Fn(&Path) -> PathBuf) {
        let all = std::iter::once(&mut self.python)
            .chain(&mut self.fonts)
            .chain(&mut self.read_only_paths);
        for path in all {
            *path = change(path);
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), EnvironmentError> {
    let mut file = File::create(path).map_err(EnvironmentError::io("write", path))?;
    file.write_all(content)
        .map_err(EnvironmentError::io("write", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::version::PythonVersion;
    use super::*;

    /// A store with one environment in it, written as a build would write it.
    fn store_with(name: &str) -> (tempfile::TempDir, EnvironmentStore) {
        let root = tempfile::tempdir().unwrap();
        let store = EnvironmentStore::open(root.path());
        let directory = store.make_directory().unwrap();
        let base = directory.parent().unwrap().join("base/python3.11");
        fs::create_dir_all(base.parent().unwrap()).unwrap();
        fs::write(&base, "").unwrap();
        let place = directory.join(name);
        fs::create_dir_all(place.join("venv/bin")).unwrap();
        symlink(&base, place.join("venv/bin/python")).unwrap();
        let record = Record {
            format: FORMAT,
            spec: EnvironmentSpec::new(name),
            interpreter: base,
            lock_sha256: sha256(b""),
            uv_version: "0".to_owned(),
            environment: Environment {
                name: name.to_owned(),
                python: place.join("venv/bin/python"),
                version: PythonVersion(3, 11, 7),
                packages: Vec::new(),
                preload: Vec::new(),
                preload_is_usual: false,
                fonts: vec![place.join("venv/a.ttf"), PathBuf::from("/usr/share/b.ttf")],
                read_only_paths: vec![PathBuf::from("/usr"), place.join("venv")],
                image: None,
            }
            .relative_to(&place),
        };
        write(
            &place.join(RECORD),
            &serde_json::to_vec_pretty(&record).unwrap(),
        )
        .unwrap();
        (root, store)
    }

    #[test]
    fn a_moved_store_still_works() {
        let (root, store) = store_with("small");
        let before = store.load("small").unwrap();
        let text = fs::read_to_string(store.directory().join("small").join(RECORD)).unwrap();
        assert!(text.contains("\"venv/bin/python\""), "{text}");

        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::rename(store.directory(), elsewhere.join("environments")).unwrap();
        let after = EnvironmentStore::open(&elsewhere).load("small").unwrap();
        let place = elsewhere.canonicalize().unwrap().join("environments/small");
        assert_eq!(after.python(), place.join("venv/bin/python"));
        assert_eq!(after.fonts()[0], place.join("venv/a.ttf"));
        assert_eq!(after.fonts()[1], before.fonts()[1]);
        assert_eq!(after.read_only_paths()[1], place.join("venv"));
    }

    #[test]
    fn an_environment_that_cannot_be_used_says_why_and_can_be_removed() {
        let (_root, store) = store_with("small");
        let record = store.directory().join("small").join(RECORD);
        let good = fs::read_to_string(&record).unwrap();
        let reason = || store.load("small").unwrap_err().to_string();

        fs::write(&record, good.replace("\"format\": 1", "\"format\": 3")).unwrap();
        assert!(reason().contains("format 3"), "{}", reason());
        fs::write(&record, good.replace("\"format\": 1", "\"format\": 2")).unwrap();
        assert!(reason().contains("image is not named"), "{}", reason());
        fs::write(&record, "{").unwrap();
        assert!(reason().contains("cannot be read"), "{}", reason());
        fs::write(&record, &good).unwrap();

        let python = store.directory().join("small/venv/bin/python");
        fs::remove_file(&python).unwrap();
        assert!(reason().contains("is gone"), "{}", reason());
        symlink("/bin/sh", &python).unwrap();
        assert!(reason().contains("its python is now"), "{}", reason());
        assert!(
            reason().contains("belljar env remove small"),
            "{}",
            reason()
        );

        assert_eq!(store.list().unwrap(), []);
        assert_eq!(store.inspect().unwrap().len(), 1);
        store.remove("small").unwrap();
        assert_eq!(store.inspect().unwrap().len(), 0);
    }

    #[test]
    fn a_missing_environment_is_reported_with_the_known_ones() {
        let (_root, store) = store_with("small");
        let message = store.load("big").unwrap_err().to_string();
        assert!(message.contains("known: small"), "{message}");
        let message = store.remove("big").unwrap_err().to_string();
        assert!(message.contains("known: small"), "{message}");
        assert!(matches!(
            store.load("../small"),
            Err(EnvironmentError::InvalidName { .. })
        ));
    }

    #[test]
    fn interrupted_builds_are_swept_and_links_are_not_followed() {
        let (root, store) = store_with("small");
        let precious = root.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "").unwrap();
        fs::create_dir_all(store.directory().join(".building-1/venv")).unwrap();
        symlink(&precious, store.directory().join(".removed-2")).unwrap();
        sweep(store.directory());
        let left: Vec<_> = fs::read_dir(store.directory())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["small"]);
        assert!(precious.join("file").exists());
    }

    #[test]
    fn hashes_are_written_in_hexadecimal() {
        assert_eq!(
            sha256(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
