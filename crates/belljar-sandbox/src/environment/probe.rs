//! Probing an interpreter: one short run of it, one line of JSON back.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::known::{recall, remember};
use super::process::{self, Failure};
use super::spec::DEFAULT_PRELOAD;
use super::version::PythonVersion;
use super::{EnvironmentError, LockedPackage};

const SCRIPT: &str = include_str!("probe.py");
const MARK: &str = "belljar-probe:";
/// An answer takes 50 ms, but a minute on a machine that has much else to do, or a slow disk.
const DEADLINE: Duration = Duration::from_mins(1);
/// After so long, a warning says what takes so long.
const LONG: Duration = Duration::from_secs(5);
/// How much of an interpreter's stderr is shown.
const SHOWN_CHARACTERS: usize = 2000;

/// The report of an interpreter. It is trusted only for its own sessions: every path in it becomes
/// at most a read-only view, after [`super::paths`] has checked it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    implementation: String,
    version: String,
    executable: PathBuf,
    prefixes: Vec<PathBuf>,
    path: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
    packages: Vec<(String, String)>,
    editable: Vec<PathBuf>,
    modules: Vec<String>,
    #[serde(skip, default = "oldest")]
    checked_version: PythonVersion,
}

fn oldest() -> PythonVersion {
    PythonVersion::OLDEST
}

impl Report {
    /// The interpreter itself, also when what was asked is a shell script that starts it.
    pub(super) fn executable(&self) -> &Path {
        &self.executable
    }

    pub(super) fn version(&self) -> PythonVersion {
        self.checked_version
    }

    /// `sys.prefix`, `sys.base_prefix` and their `exec_` twins.
    pub(super) fn prefixes(&self) -> &[PathBuf] {
        &self.prefixes
    }

    /// `sys.path`.
    pub(super) fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// Where the shared libraries lie that it has mapped.
    pub(super) fn libraries(&self) -> &[PathBuf] {
        &self.libraries
    }

    /// The source directories of editable installs.
    pub(super) fn editable(&self) -> &[PathBuf] {
        &self.editable
    }

    /// The modules of the usual preload list that are installed.
    pub(super) fn preload(&self) -> Vec<String> {
        self.modules.clone()
    }

    /// The installed packages, in order of name.
    pub(super) fn packages(&self) -> Vec<LockedPackage> {
        let mut packages: Vec<_> = self
            .packages
            .iter()
            .map(|(name, version)| LockedPackage {
                name: name.clone(),
                version: version.clone(),
                hashes: Vec::new(),
            })
            .collect();
        packages.sort();
        packages
    }

    /// The directories that packages are installed into.
    pub(super) fn library_directories(&self) -> impl Iterator<Item = &Path> {
        self.path.iter().map(PathBuf::as_path).filter(|path| {
            path.file_name()
                .is_some_and(|name| name == "site-packages" || name == "dist-packages")
        })
    }

    #[cfg(test)]
    pub(super) fn for_test(executable: &Path, prefixes: &[&Path], path: &[&Path]) -> Self {
        let owned = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
        Self {
            implementation: "cpython".to_owned(),
            version: "3.11.7".to_owned(),
            executable: executable.to_path_buf(),
            prefixes: owned(prefixes),
            path: owned(path),
            libraries: Vec::new(),
            packages: Vec::new(),
            editable: Vec::new(),
            modules: Vec::new(),
            checked_version: PythonVersion(3, 11, 7),
        }
    }
}

/// The interpreter that `path` names: itself, or the one in the venv that it is.
pub(super) fn interpreter_of(path: &Path) -> Result<PathBuf, EnvironmentError> {
    let missing = |reason: String| EnvironmentError::PythonMissing {
        path: path.to_path_buf(),
        reason,
    };
    let absolute =
        std::path::absolute(path).map_err(EnvironmentError::io("find the directory of", path))?;
    let metadata = std::fs::metadata(&absolute).map_err(|error| missing(error.to_string()))?;
    if !metadata.is_dir() {
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(missing("the file is not executable".to_owned()));
        }
        return Ok(absolute);
    }
    let inside = absolute.join("bin/python");
    if inside.is_file() {
        Ok(inside)
    } else {
        Err(missing("the directory has no `bin/python`".to_owned()))
    }
}

/// Probes the interpreter, unless its report is cached, and checks that sessions can use it.
pub(super) fn probe(path: &Path) -> Result<Report, EnvironmentError> {
    let interpreter = interpreter_of(path)?;
    let question = format!("{SCRIPT}{DEFAULT_PRELOAD:?}");
    if let Some(report) = recall(&interpreter, &question) {
        return check(report, &interpreter);
    }
    let report = check(ask(&interpreter)?, &interpreter)?;
    remember(&interpreter, &question, &report);
    Ok(report)
}

fn ask(interpreter: &Path) -> Result<Report, EnvironmentError> {
    let failed = |reason: String| EnvironmentError::Probe {
        path: interpreter.to_owned(),
        reason,
    };
    let mut command = Command::new(interpreter);
    command.args(["-I", "-c", SCRIPT]).args(DEFAULT_PRELOAD);
    let (begun, warned) = (Instant::now(), Cell::new(false));
    let wait = |_| {
        if begun.elapsed() > LONG && !warned.replace(true) {
            tracing::warn!(python = %interpreter.display(), "still waiting for a Python to start");
        }
        true
    };
    let finished = process::run_watched(&mut command, DEADLINE, wait).map_err(|failure| {
        failed(match failure {
            Failure::Io(error) => format!("it could not be started: {error}"),
            Failure::Deadline | Failure::Stopped => {
                format!("it did not answer within {} seconds", DEADLINE.as_secs())
            }
        })
    })?;
    if !finished.status.success() {
        return Err(failed(format!(
            "it ended with {}{}",
            finished.status,
            said(&finished.stderr)
        )));
    }
    parse(&finished.stdout).map_err(|reason| failed(format!("{reason}{}", said(&finished.stderr))))
}

/// Checks that sessions can use the interpreter of this report.
fn check(mut report: Report, interpreter: &Path) -> Result<Report, EnvironmentError> {
    let failed = |reason: String| EnvironmentError::Probe {
        path: interpreter.to_owned(),
        reason,
    };
    let unsupported = |found: String| EnvironmentError::Unsupported {
        path: interpreter.to_owned(),
        found,
    };
    if report.implementation != "cpython" {
        return Err(unsupported(format!(
            "{} {}",
            report.implementation, report.version
        )));
    }
    let version = PythonVersion::try_from(report.version.clone()).map_err(&failed)?;
    if version < PythonVersion::OLDEST {
        return Err(unsupported(format!("CPython {version}")));
    }
    report.checked_version = version;
    if !report.executable.is_absolute() {
        return Err(failed(
            "it does not know its own path (`sys.executable`)".to_owned(),
        ));
    }
    Ok(report)
}

/// Why there is no report in the output of an interpreter.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("it did not answer like a Python")]
    Missing,
    #[error("its answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// The report in the output of an interpreter; start-up files may have written lines of their own.
fn parse(stdout: &[u8]) -> Result<Report, ReportError> {
    let text = String::from_utf8_lossy(stdout);
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(MARK))
        .ok_or(ReportError::Missing)?;
    Ok(serde_json::from_str(line)?)
}

/// The stderr of an interpreter, as the end of a sentence.
fn said(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() {
        return String::new();
    }
    let start = text
        .char_indices()
        .rev()
        .nth(SHOWN_CHARACTERS - 1)
        .map_or(0, |(index, _)| index);
    format!(" and said: {}", &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn answer(implementation: &str, version: &str) -> String {
        format!(
            "#!/bin/sh\necho noise\ncat <<'END'\n{MARK}{{\"implementation\":\"{implementation}\",\
             \"version\":\"{version}\",\"executable\":\"/x/python\",\"prefixes\":[],\"path\":[],\
             \"libraries\":[],\"packages\":[],\"editable\":[],\"modules\":[]}}\nEND\n"
        )
    }

    #[test]
    fn only_a_recent_cpython_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let good = script(directory.path(), "good", &answer("cpython", "3.10.0"));
        assert_eq!(probe(&good).unwrap().version(), PythonVersion(3, 10, 0));

        for (implementation, version, found) in [
            ("pypy", "3.11.9", "pypy 3.11.9"),
            ("cpython", "3.9.18", "CPython 3.9.18"),
        ] {
            let other = script(directory.path(), "other", &answer(implementation, version));
            let message = probe(&other).unwrap_err().to_string();
            assert!(message.contains(found), "{message}");
            assert!(message.contains("3.10 or later"), "{message}");
        }
    }

    #[test]
    fn what_is_no_python_is_told_so() {
        let directory = tempfile::tempdir().unwrap();
        let silent = script(directory.path(), "silent", "#!/bin/sh\n");
        let message = probe(&silent).unwrap_err().to_string();
        assert!(
            message.contains("did not answer like a Python"),
            "{message}"
        );

        let failing = script(
            directory.path(),
            "failing",
            "#!/bin/sh\necho no >&2; exit 7\n",
        );
        let message = probe(&failing).unwrap_err().to_string();
        assert!(
            message.contains("exit status: 7") && message.contains("said: no"),
            "{message}"
        );

        let plain = directory.path().join("plain");
        std::fs::write(&plain, "x").unwrap();
        let message = probe(&plain).unwrap_err().to_string();
        assert!(message.contains("not executable"), "{message}");

        let message = probe(directory.path()).unwrap_err().to_string();
        assert!(message.contains("no `bin/python`"), "{message}");

        let message = probe(&directory.path().join("absent"))
            .unwrap_err()
            .to_string();
        assert!(message.contains("No such file"), "{message}");
    }

    #[test]
    fn a_long_complaint_is_cut_at_its_beginning() {
        assert_eq!(said("  \n"), "");
        let long = format!("{}数", "x".repeat(3000));
        let shown = said(&long);
        assert_eq!(
            shown.chars().count(),
            SHOWN_CHARACTERS + " and said: ".len()
        );
        assert!(shown.ends_with('数'));
    }
}
