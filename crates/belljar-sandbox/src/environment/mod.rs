//! Environments: the Python and the packages that a session starts from.
//!
//! An [`Environment`] is everything a template needs to know before it starts: which interpreter
//! to execute, which modules to import once, which fonts draw Chinese in plots, and which
//! directories of the host must be visible (read-only, at the same path) for that Python to work.
//!
//! It comes from one of two places:
//! - [`EnvironmentStore`] builds named, locked environments with `uv` and keeps them on disk;
//! - [`Environment::from_python`] describes an interpreter or venv that already exists, as it is.

mod data;
mod error;
mod fonts;
mod image;
mod known;
mod lock;
mod name;
mod paths;
mod probe;
mod process;
mod spec;
mod step;
mod store;
mod uv;
mod version;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::EnvironmentError;
pub use image::{ContainerSpec, Image};
pub use lock::LockedPackage;
pub use spec::EnvironmentSpec;
pub use step::BuildStep;
pub use store::EnvironmentStore;

pub(crate) use data::data_directory;
pub(crate) use process::{Failure, Finished, run_watched};
pub(crate) use spec::DEFAULT_PRELOAD;
pub(crate) use uv::Uv;

use version::PythonVersion;

/// A Python with its packages, ready to start templates from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    name: String,
    python: PathBuf,
    version: PythonVersion,
    packages: Vec<LockedPackage>,
    preload: Vec<String>,
    /// The preload list is the default one: modules that can't be imported are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    preload_is_usual: bool,
    fonts: Vec<PathBuf>,
    read_only_paths: Vec<PathBuf>,
    /// The image that it is, if it is no Python of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<Image>,
}

impl Environment {
    /// The image that it is, if it is no Python of this host.
    pub fn image(&self) -> Option<&Image> {
        self.image.as_ref()
    }

    /// Describes an interpreter that already exists. `path` is the interpreter or a venv's
    /// directory.
    ///
    /// Nothing is locked here: the packages are those that happen to be installed, so they have no
    /// hashes. The preload list is the default one, as far as the modules are installed; a module
    /// that can't be imported is left out, with a warning.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use belljar_sandbox::Environment;
    ///
    /// # let path = std::env::var_os("PATH").unwrap_or_default();
    /// # let python = std::env::split_paths(&path)
    /// #     .map(|directory| directory.join("python3"))
    /// #     .find(|python| python.is_file())
    /// #     .ok_or("there is no python3 in PATH")?;
    /// let environment = Environment::from_python(&python)?;
    /// assert!(environment.version() >= (3, 10, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_python(path: &Path) -> Result<Self, EnvironmentError> {
        let report = probe::probe(path)?;
        let name = format!("python:{}", path.display());
        Ok(Self {
            preload_is_usual: true,
            ..Self::from_report(name, &report, report.packages(), report.preload())?
        })
    }

    /// The common part of both origins: what a probe of the interpreter finds.
    fn from_report(
        name: String,
        report: &probe::Report,
        packages: Vec<LockedPackage>,
        preload: Vec<String>,
    ) -> Result<Self, EnvironmentError> {
        let fonts = fonts::find(report.library_directories());
        let read_only_paths = paths::read_only_paths(report, &fonts)?;
        Ok(Self {
            name,
            python: report.executable().to_path_buf(),
            version: report.version(),
            packages,
            preload,
            preload_is_usual: false,
            fonts,
            read_only_paths,
            image: None,
        })
    }

    /// The environment's name, or `python:<path>` for an interpreter of the host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interpreter to execute.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// The version of Python: major, minor, micro.
    pub fn version(&self) -> (u8, u8, u8) {
        (self.version.0, self.version.1, self.version.2)
    }

    /// The installed packages in order of name.
    pub fn packages(&self) -> &[LockedPackage] {
        &self.packages
    }

    /// The modules that a template imports once, in order.
    pub fn preload(&self) -> &[String] {
        &self.preload
    }

    pub(crate) fn preload_is_usual(&self) -> bool {
        self.preload_is_usual
    }

    /// The same environment with a shorter preload list: for a template that serves one session, an
    /// import that the session does not use is wasted time.
    #[must_use]
    pub fn preload_only(mut self, is_wanted: impl Fn(&str) -> bool) -> Self {
        self.preload.retain(|module| is_wanted(module));
        self
    }

    /// Font files that draw Chinese, the best first. Empty when neither the packages nor the host
    /// have one.
    pub fn fonts(&self) -> &[PathBuf] {
        &self.fonts
    }

    /// Every directory of the host that must be visible, read-only and at the same path, for this
    /// Python to work. Sorted; none lies beneath another. Never `/`, never a home directory.
    ///
    /// The C library and the dynamic loader are found by their real directories only: the links
    /// `/lib` and `/lib64` of a merged `/usr` belong to whoever builds the root of a session.
    pub fn read_only_paths(&self) -> &[PathBuf] {
        &self.read_only_paths
    }
}
