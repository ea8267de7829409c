//! Errors of environments: what failed, why, and a hint.

use std::io;
use std::path::{Path, PathBuf};

/// A failure to build, find or describe an environment. Most messages end with a `hint:` line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The name breaks the rules.
    #[error(
        "`{name}` cannot be the name of an environment\nhint: use 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`, starting with a letter or a digit"
    )]
    InvalidName {
        /// The name as given.
        name: String,
    },

    /// A requirement that is not one.
    #[error(
        "`{package}` is not a package requirement: {reason}\nhint: write it like `numpy` or `numpy>=2`"
    )]
    InvalidPackage {
        /// The requirement as given.
        package: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// A preload entry that is not a module's name.
    #[error(
        "`{module}` is not the name of a Python module\nhint: write it like `matplotlib.pyplot`"
    )]
    InvalidModule {
        /// The entry as given.
        module: String,
    },

    /// The environment exists already.
    #[error(
        "environment `{name}` exists already\nhint: choose another name, or run `belljar env remove {name}` first"
    )]
    AlreadyExists {
        /// The name that is taken.
        name: String,
    },

    /// There is no such environment.
    #[error(
        "there is no environment `{name}` (known: {known})\nhint: run `belljar env create {name}`, or see `belljar env list`"
    )]
    NotFound {
        /// The requested name.
        name: String,
        /// The known names, for people.
        known: String,
    },

    /// The environment is on disk but cannot be used.
    #[error(
        "environment `{name}` cannot be used: {reason}\nhint: run `belljar env remove {name}`, then create it again"
    )]
    Broken {
        /// The environment.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// Packages were requested of an environment that is an image.
    #[error(
        "environment `{name}` is a container image: Belljar cannot add packages to it\nhint: build an image that has them, and create an environment from it"
    )]
    IsImage {
        /// The environment.
        name: String,
    },

    /// A Python of this host was to be kept as an image.
    #[error("environment `{name}` is a Python of this host, not a container image")]
    NotImage {
        /// The environment.
        name: String,
    },

    /// It was written by a later version of Belljar.
    #[error(
        "environment `{name}` has format {found}, but this version of Belljar supports formats up to {known}\nhint: update Belljar, or remove the environment and create it again"
    )]
    NewerFormat {
        /// The environment.
        name: String,
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },

    /// `uv` is not installed.
    #[error(
        "environments are built with `uv`, and {reason}\nhint: install it with `pip install uv` or your package manager, or set `BELLJAR_UV` to its path"
    )]
    UvMissing {
        /// Why it was not found or could not be used.
        reason: String,
    },

    /// A step of `uv` failed.
    #[error("could not {step}: `uv` ended with {status} and printed:\n{output}")]
    Uv {
        /// The step.
        step: &'static str,
        /// How it ended.
        status: String,
        /// The end of its output.
        output: String,
    },

    /// `uv` wrote something we cannot read.
    #[error(
        "could not read line {line} of the locked packages: `{text}`\nhint: this is a bug of Belljar, or an unknown version of `uv`; please report it"
    )]
    Lock {
        /// The line in `requirements.lock`.
        line: usize,
        /// Its text.
        text: String,
    },

    /// No Python to build on.
    #[error(
        "no CPython 3.10 or later was found in `PATH`\nhint: install one (with your package manager, or `uv python install 3.12`), or name one with `--python PATH`"
    )]
    NoPython,

    /// There is no interpreter at that path.
    #[error("there is no Python at `{}`: {reason}\nhint: name an interpreter or the directory of a venv", path.display())]
    PythonMissing {
        /// The path as given.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// The probe of the interpreter failed.
    #[error("`{}` does not work as a Python interpreter: {reason}\nhint: try it by hand: `{} -I -c \"import sys\"`", path.display(), path.display())]
    Probe {
        /// The interpreter.
        path: PathBuf,
        /// What it did instead.
        reason: String,
    },

    /// A Python that sessions cannot run.
    #[error("`{}` is {found}, but sessions need CPython 3.10 or later\nhint: name another interpreter with `--python PATH`", path.display())]
    Unsupported {
        /// The interpreter.
        path: PathBuf,
        /// What it is.
        found: String,
    },

    /// Making this Python visible would show the whole host, or somebody's home.
    #[error(
        "this Python needs `{}` ({need}), which cannot be shown to sessions: it is {place}\nhint: use a Python or venv in a directory of its own",
        path.display()
    )]
    Exposed {
        /// The directory that would have to be visible.
        path: PathBuf,
        /// Why it is needed.
        need: &'static str,
        /// Why it must not be visible.
        place: &'static str,
    },

    /// A module of the preload list cannot be imported.
    #[error(
        "a module of the preload list cannot be imported, so the environment was not created: {output}\nhint: name the missing package, or leave the module out of `--preload`"
    )]
    Preload {
        /// The output of Python.
        output: String,
    },

    /// No data directory is set.
    #[error(
        "there is no data directory: neither `BELLJAR_DATA_DIR` nor `HOME` is set\nhint: set one of them"
    )]
    NoDataDirectory,

    /// A file operation failed.
    #[error("could not {action} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl EnvironmentError {
    /// For `map_err`: a file operation with its path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
