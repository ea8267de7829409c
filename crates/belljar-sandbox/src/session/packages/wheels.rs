//! `uv` fetches and unpacks wheels, and does nothing else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use belljar_protocol::plain;

use super::PackageError;
use super::requirement::{Requirement, normalise};
use crate::environment::{Failure, Uv, run_watched};

/// How long fetching and unpacking may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// Lines of uv's stderr that are passed on.
const LINES: usize = 20;

/// What uv may write beside the layer itself: indexes' answers, its locks.
const SLACK: u64 = 64 << 20;

/// uv's variables that are kept, beside those that name an index: how it reaches one. All others are
/// taken from it, and its configuration files: by some of them (`no-binary`) it builds packages from
/// their sources whatever its arguments say.
const KEPT: [&str; 10] = [
    "UV_OFFLINE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_PROXY",
    "UV_HTTPS_PROXY",
    "UV_KEYRING_PROVIDER",
    "UV_CREDENTIALS_DIR",
    "UV_EXCLUDE_NEWER",
];

/// What is to be installed.
pub(super) struct Installing<'a> {
    pub(super) requirements: &'a [Requirement],
    pub(super) target: &'a Path,
    /// A file with versions that stay as they are, if there are any.
    pub(super) constraints: Option<&'a Path>,
    pub(super) python: &'a Path,
    /// Where uv works; it would look for a configuration there.
    pub(super) directory: &'a Path,
    pub(super) cache: &'a Path,
    /// The only indexes, if they are not what uv's variables say.
    pub(super) indexes: Option<&'a [String]>,
    pub(super) limit: u64,
}

/// Whether a variable sets where uv gets packages.
pub(super) fn names_an_index(variable: &str) -> bool {
    // Names and passwords have the index's own name in theirs: UV_INDEX_<NAME>_PASSWORD.
    variable.starts_with("UV_INDEX")
        || [
            "UV_DEFAULT_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_FIND_LINKS",
            "UV_NO_INDEX",
        ]
        .contains(&variable)
}

impl Installing<'_> {
    /// Returns the names and versions that uv reported as installed.
    pub(super) fn run(&self, uv: &Uv) -> Result<BTreeMap<String, String>, PackageError> {
        let mut command = uv.command();
        command
            .args(["pip", "install", "--no-config", "--no-compile-bytecode"])
            // Never a source distribution, whose build would run its code here.
            .args(["--only-binary", ":all:"])
            .arg("--python")
            .arg(self.python)
            .arg("--target")
            .arg(self.target)
            .args(self.index_arguments())
            .current_dir(self.directory)
            .env("NO_COLOR", "1")
            .env("UV_NO_PROGRESS", "1")
            .env_remove("VIRTUAL_ENV");
        if let Some(constraints) = self.constraints {
            command.arg("--constraints").arg(constraints);
        }
        command
            .arg("--")
            .args(self.requirements.iter().map(ToString::to_string));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let kept = KEPT.contains(&&*text) || self.indexes.is_none() && names_an_index(&text);
            if text.starts_with("UV_") && !kept {
                command.env_remove(&name);
            }
        }
        command.env("UV_CACHE_DIR", self.cache);
        // Once into the cache and, where files can't be linked, once from there.
        let most = self.limit.saturating_mul(2).saturating_add(SLACK);
        let goes_on = |pid: u32| written(pid) <= most;
        let failed = |status: &str, output: &str| PackageError::Uv {
            status: status.to_owned(),
            output: last_lines(output),
        };
        match run_watched(&mut command, DEADLINE, goes_on) {
            Ok(finished) if finished.status.success() => Ok(installed(&finished.stderr)),
            Ok(finished) => Err(failed(
                &format!("ended with {}", finished.status),
                &finished.stderr,
            )),
            Err(Failure::Stopped) => Err(PackageError::TooLarge { limit: self.limit }),
            Err(Failure::Deadline) => Err(failed("took more than ten minutes", "")),
            Err(Failure::Io(error)) => Err(PackageError::io("run", Path::new("uv"))(error)),
        }
    }

    fn index_arguments(&self) -> Vec<OsString> {
        let Some(indexes) = self.indexes else {
            return Vec::new();
        };
        let (urls, directories): (Vec<&String>, Vec<&String>) =
            indexes.iter().partition(|index| index.contains("://"));
        let mut arguments: Vec<OsString> = Vec::new();
        match urls.split_first() {
            None => arguments.push("--no-index".into()),
            Some((first, others)) => {
                arguments.extend(["--default-index".into(), first.into()]);
                for other in others {
                    arguments.extend(["--index".into(), other.into()]);
                }
            }
        }
        for directory in directories {
            arguments.extend(["--find-links".into(), directory.into()]);
        }
        arguments
    }
}

/// What uv lists: ` + name==version`.
fn installed(output: &str) -> BTreeMap<String, String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix(" + "));
    let pins = lines.filter_map(|line| line.split_whitespace().next()?.split_once("=="));
    pins.map(|(name, version)| (normalise(name), version.to_owned()))
        .collect()
}

/// Bytes that a process has written so far, to whatever.
fn written(pid: u32) -> u64 {
    let counters = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = counters
        .lines()
        .find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The end of uv's output, parts of which may come from a package.
fn last_lines(output: &str) -> String {
    // Before its errors it prints which Python it has found.
    let output = plain(&output[output.find("error:").unwrap_or(0)..]);
    let lines: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
