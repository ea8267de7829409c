//! `uv` does the work with packages: it resolves, locks, checks hashes and installs.
//!
//! It is a program, not a library: its crates are not published. It reads the user's own
//! configuration (indexes, proxies, certificates), and nothing here adds to that.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::process;
use super::{BuildStep, EnvironmentError};

const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// A `uv` that answers.
#[derive(Debug)]
pub(crate) struct Uv {
    program: PathBuf,
    version: String,
}

impl Uv {
    /// `$BELLJAR_UV`, or `uv` in `PATH`.
    pub(crate) fn find() -> Result<Self, EnvironmentError> {
        let (program, whence) = match std::env::var_os("BELLJAR_UV") {
            Some(path) if !path.is_empty() => {
                let whence = format!("`BELLJAR_UV` names `{}`, which", Path::new(&path).display());
                (PathBuf::from(path), whence)
            }
            _ => match find_in_path("uv") {
                Some(path) => {
                    let whence = format!("`{}`", path.display());
                    (path, whence)
                }
                None => {
                    return Err(EnvironmentError::UvMissing {
                        reason: "there is no `uv` in `PATH`".to_owned(),
                    });
                }
            },
        };
        let missing = |why: String| EnvironmentError::UvMissing {
            reason: format!("{whence} {why}"),
        };
        let finished =
            process::run_with_deadline(Command::new(&program).arg("--version"), VERSION_DEADLINE)
                .map_err(|failure| match failure {
                process::Failure::Io(error) => missing(format!("could not be started ({error})")),
                process::Failure::Deadline | process::Failure::Stopped => {
                    missing("did not answer".to_owned())
                }
            })?;
        if !finished.status.success() {
            return Err(missing(format!("ended with {}", finished.status)));
        }
        // `uv 0.9.2 (x86_64-unknown-linux-gnu)`
        let version = String::from_utf8_lossy(&finished.stdout)
            .split_whitespace()
            .nth(1)
            .unwrap_or("unknown")
            .to_owned();
        Ok(Self { program, version })
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Some Python that is recent enough, if uv knows one on this machine.
    pub(super) fn find_python(&self) -> Option<PathBuf> {
        let mut command = Command::new(&self.program);
        command.args(["python", "find", "--system", "cpython>=3.10"]);
        let finished = process::run_with_deadline(&mut command, VERSION_DEADLINE).ok()?;
        let path = String::from_utf8(finished.stdout).ok()?;
        let path = PathBuf::from(path.trim());
        (finished.status.success() && path.is_file()).then_some(path)
    }

    /// A venv that may be moved to another place afterwards.
    pub(super) fn make_venv(
        &self,
        venv: &Path,
        python: &Path,
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<(), EnvironmentError> {
        self.run(
            "make the virtual environment",
            &[
                "venv".as_ref(),
                "--relocatable".as_ref(),
                "--no-project".as_ref(),
                "--python".as_ref(),
                python.as_ref(),
                venv.as_ref(),
            ],
            progress,
        )
    }

    /// Resolves the requirements to exact versions with hashes.
    pub(super) fn lock(
        &self,
        requirements: &Path,
        lock: &Path,
        python: &Path,
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<(), EnvironmentError> {
        self.run(
            "find versions for the packages",
            &[
                "pip".as_ref(),
                "compile".as_ref(),
                "--generate-hashes".as_ref(),
                // Neither may hold paths of the directory it is built in.
                "--no-header".as_ref(),
                "--no-annotate".as_ref(),
                "--python".as_ref(),
                python.as_ref(),
                "--output-file".as_ref(),
                lock.as_ref(),
                requirements.as_ref(),
            ],
            progress,
        )
    }

    /// Installs exactly what is locked. Bytecode is compiled now, because sessions see the
    /// directory read-only and would compile it again and again.
    pub(super) fn install(
        &self,
        lock: &Path,
        python: &Path,
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<(), EnvironmentError> {
        self.run(
            "install the packages",
            &[
                "pip".as_ref(),
                "sync".as_ref(),
                "--require-hashes".as_ref(),
                "--compile-bytecode".as_ref(),
                "--python".as_ref(),
                python.as_ref(),
                lock.as_ref(),
            ],
            progress,
        )
    }

    fn run(
        &self,
        step: &'static str,
        arguments: &[&OsStr],
        progress: &mut dyn FnMut(BuildStep<'_>),
    ) -> Result<(), EnvironmentError> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("NO_COLOR", "1")
            .env("UV_NO_PROGRESS", "1")
            // A venv that happens to be active is none of our business.
            .env_remove("VIRTUAL_ENV");
        let mut follow = |line: &str| {
            if is_news(line) {
                progress(BuildStep::Uv(line));
                if line.starts_with("Installed ") {
                    progress(BuildStep::Compiling);
                }
            }
        };
        let (status, output) = process::run_and_follow(&mut command, &mut follow)
            .map_err(EnvironmentError::io("run", &self.program))?;
        if status.success() {
            Ok(())
        } else {
            Err(EnvironmentError::Uv {
                step,
                status: status.to_string(),
                output,
            })
        }
    }
}

/// Progress lines. Not the hints for its own users, the list of every package, or the errors that
/// become part of our error.
fn is_news(line: &str) -> bool {
    const NEWS: [&str; 10] = [
        "Resolved",
        "Prepared",
        "Downloading",
        "Downloaded",
        "Building",
        "Built",
        "Installed",
        "Bytecode",
        "warning:",
        "Audited",
    ];
    NEWS.iter()
        .any(|start| line.trim_start().starts_with(start))
}

/// The first executable file of that name in `PATH`.
pub(super) fn find_in_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;

    let path: OsString = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| {
            std::fs::metadata(candidate)
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
}
