//! What can go wrong with an environment: what happened, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A failure to build, find or describe an environment. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The name breaks the rules.
    #[error(
        "'{name}' cannot be the name of an environment: use 1 to 64 of a-z, 0-9, '.', '_', '-', starting with a letter or a digit"
    )]
    InvalidName {
        /// The name as given.
        name: String,
    },

    /// A requirement that is not one.
    #[error(
        "'{package}' is not a package requirement ({reason}): write it like numpy or 'numpy>=2'"
    )]
    InvalidPackage {
        /// The requirement as given.
        package: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// A preload entry that is not a module's name.
    #[error("'{module}' is not the name of a Python module: write it like matplotlib.pyplot")]
    InvalidModule {
        /// The entry as given.
        module: String,
    },

    /// There is such an environment already.
    #[error(
        "environment '{name}' exists already: choose another name, or run 'belljar env remove {name}' first"
    )]
    AlreadyExists {
        /// The name that is taken.
        name: String,
    },

    /// There is no such environment.
    #[error(
        "there is no environment '{name}' (known: {known}): run 'belljar env create {name}', or see 'belljar env list'"
    )]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The names there are, for people.
        known: String,
    },

    /// The environment is on disk but cannot be used.
    #[error(
        "environment '{name}' cannot be used: {reason}. Run 'belljar env remove {name}', then create it again"
    )]
    Broken {
        /// The environment.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// It was written by a later version of Belljar.
    #[error(
        "environment '{name}' has format {found}, but this belljar knows formats up to {known}: update belljar, or remove the environment and create it again"
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
        "environments are built with uv, and {reason}: install it with 'pip install uv' or your package manager, or set BELLJAR_UV to its path"
    )]
    UvMissing {
        /// Where it was looked for.
        reason: String,
    },

    /// `uv` could not do a step.
    #[error("could not {step}: uv ended with {status} and said:\n{output}")]
    Uv {
        /// What it was to do.
        step: &'static str,
        /// How it ended.
        status: String,
        /// The end of its output.
        output: String,
    },

    /// `uv` wrote something we cannot read.
    #[error(
        "could not read the locked packages at line {line} ({text}): this is a fault of belljar or an unknown version of uv; please report it"
    )]
    Lock {
        /// The line in `requirements.lock`.
        line: usize,
        /// Its text.
        text: String,
    },

    /// No Python to build on.
    #[error(
        "no CPython 3.10 or later was found in PATH: install one (your package manager, or 'uv python install 3.12') or name one with --python PATH"
    )]
    NoPython,

    /// There is no interpreter at that path.
    #[error("there is no Python at {}: {reason}. Name an interpreter or the directory of a venv", path.display())]
    PythonMissing {
        /// The path as given.
        path: PathBuf,
        /// Why not.
        reason: String,
    },

    /// The interpreter did not answer when asked about itself.
    #[error("{} does not work as a Python: {reason}. Try it by hand: '{} -I -c \"import sys\"'", path.display(), path.display())]
    Probe {
        /// The interpreter.
        path: PathBuf,
        /// What it did instead.
        reason: String,
    },

    /// A Python that sessions cannot run.
    #[error("{} is {found}, but sessions need CPython 3.10 or later: name another with --python PATH", path.display())]
    Unsupported {
        /// The interpreter.
        path: PathBuf,
        /// What it is.
        found: String,
    },

    /// Making this Python visible would show the whole host, or somebody's home.
    #[error(
        "this Python needs {} ({need}), and sessions would see all of it because it is {place}: use a Python or venv in a directory of its own",
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
        "the packages are installed, but the preload list does not import, so nothing was kept: {output}\nAdd the missing package with --package, or leave the module out of --preload"
    )]
    Preload {
        /// What Python said.
        output: String,
    },

    /// Nobody says where data belongs.
    #[error("no data directory: neither BELLJAR_DATA_DIR nor HOME is set. Set one of them")]
    NoDataDirectory,

    /// A file operation failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
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
