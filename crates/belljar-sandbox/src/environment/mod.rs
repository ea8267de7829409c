//! Environments: the Python and the packages that a session starts from.
//!
//! An [`Environment`] is everything a template needs to know before it starts: which interpreter
//! to execute, which modules to import once, which fonts draw Chinese in plots, and which
//! directories of the host must be visible (read-only, at the same path) for that Python to work.
//!
//! It comes from one of two places:
//! - [`EnvironmentStore`] builds named, locked environments with `uv` and keeps them on disk;
//! - [`Environment::from_python`] describes an interpreter or venv that already exists, as it is.

mod error;
mod fonts;
mod known;
mod lock;
mod name;
mod paths;
mod probe;
mod process;
mod store;
mod uv;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::EnvironmentError;
pub use lock::LockedPackage;
pub use store::EnvironmentStore;

pub(crate) use process::{Failure, run_watched};
pub(crate) use store::data_directory;
pub(crate) use uv::Uv;

/// The packages of the `default` environment.
///
/// The last one is there for its font file only: `zhplot` carries Noto Sans SC Regular (SIL Open
/// Font License 1.1) with all 6,763 characters of GB 2312 and 20,976 unified ideographs in a wheel
/// of 6.3 MB. It was the smallest well-licensed one in the package index: the others carry several
/// weights (17 to 85 MB), a font that may not be redistributed, or Japanese only.
const DEFAULT_PACKAGES: [&str; 11] = [
    "numpy",
    "pandas",
    "matplotlib",
    "scipy",
    "scikit-learn",
    "networkx",
    "pydantic",
    "requests",
    "pillow",
    "openpyxl",
    "zhplot",
];

/// The default preload list of a template: those of these modules that are installed.
///
/// A preloaded module costs its import once per template and its memory once per machine, but each
/// megabyte of it also makes every fork slower, used or not. Measured on the 2-core build machine
/// with everything above it already imported (time, memory):
///
/// | module | ms | MB | preloaded |
/// |---|---|---|---|
/// | numpy | 100 | 21 | yes |
/// | pandas | 280 | 42 | yes |
/// | matplotlib.pyplot | 450 | 31 | yes |
/// | PIL.Image | 0 | 0 | yes (matplotlib has it anyway) |
/// | requests | 90 | 7 | yes |
/// | pydantic | 25 | 5 | yes |
/// | networkx | 95 | 11 | yes |
/// | openpyxl | 100 | 5 | yes |
/// | scipy | 7 | 1 | yes (it loads its parts when they are used) |
/// | scipy.stats | 960 | 59 | no |
/// | sklearn | 1,145 | 70 | no (nearly all of it is `scipy.stats`) |
///
/// The first nine together fork in 1.1 ms; with the last two it is 1.8 ms, for every session. Few
/// first cells use statistics or models, so those that do pay the second, or an environment names
/// the modules with `--preload`.
const DEFAULT_PRELOAD: [&str; 9] = [
    "numpy",
    "pandas",
    "matplotlib.pyplot",
    "PIL.Image",
    "requests",
    "pydantic",
    "networkx",
    "openpyxl",
    "scipy",
];

/// The specification of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentSpec {
    /// The environment's name: `[a-z0-9][a-z0-9._-]{0,63}`.
    pub name: String,
    /// The interpreter (or the directory of a venv) to build on. `None` takes `python3` of `PATH`.
    pub python: Option<PathBuf>,
    /// Requirements as `pip` writes them, for example `polars` or `numpy>=2,<3`.
    pub packages: Vec<String>,
    /// The modules that a template imports once, so that sessions start with them.
    pub preload: Vec<String>,
}

impl EnvironmentSpec {
    /// The name of the environment that is used by default.
    pub const DEFAULT_NAME: &str = "default";

    /// An environment with Python's standard library alone.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            python: None,
            packages: Vec::new(),
            preload: Vec::new(),
        }
    }

    /// The `default` environment: the usual data libraries, and a font that draws Chinese.
    pub fn default_environment() -> Self {
        Self {
            packages: DEFAULT_PACKAGES.map(String::from).to_vec(),
            preload: DEFAULT_PRELOAD.map(String::from).to_vec(),
            ..Self::new(Self::DEFAULT_NAME)
        }
    }
}

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
}

impl Environment {
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

/// Written as text (`"3.11.7"`), compared as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct PythonVersion(u8, u8, u8);

impl PythonVersion {
    /// The oldest Python that sessions can run.
    const OLDEST: Self = Self(3, 10, 0);
}

impl std::fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl From<PythonVersion> for String {
    fn from(version: PythonVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for PythonVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut parts = text.split('.').map(str::parse::<u8>);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(micro)), None) => {
                Ok(Self(major, minor, micro))
            }
            _ => Err(format!("`{text}` is not a Python version like `3.12.1`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let version = PythonVersion::try_from("3.9.18".to_owned()).unwrap();
        assert_eq!(version, PythonVersion(3, 9, 18));
        assert!(version < PythonVersion::OLDEST, "3.9 is older than 3.10");
        assert_eq!(String::from(version), "3.9.18");
        for wrong in ["", "3", "3.11", "3.11.7.1", "3.x.1", "3.11.700"] {
            assert!(
                PythonVersion::try_from(wrong.to_owned()).is_err(),
                "{wrong}"
            );
        }
    }

    /// ENV-3: the libraries that must be present are in the default environment.
    #[test]
    fn the_default_environment_names_the_common_libraries() {
        let spec = EnvironmentSpec::default_environment();
        assert_eq!(spec.name, "default");
        for package in [
            "numpy",
            "pandas",
            "matplotlib",
            "scikit-learn",
            "networkx",
            "requests",
            "pydantic",
        ] {
            assert!(
                spec.packages.iter().any(|name| name == package),
                "{package}"
            );
        }
        for module in &spec.preload {
            assert!(name::check_module(module).is_ok(), "{module}");
        }
    }
}
