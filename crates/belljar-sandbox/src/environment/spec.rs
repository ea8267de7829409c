//! What an environment is built from, and the packages of the default one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The packages of the `default` environment.
///
/// The last one is there for its font file only: `zhplot` carries Noto Sans SC Regular (SIL Open
/// Font License 1.1) with all 6,763 characters of GB 2312 and 20,976 unified ideographs in a wheel
/// of 6.3 MB. It was the smallest well-licensed one in the package index: the others carry several
/// weights (17 to 85 MB), a font that may not be redistributed, or Japanese only.
const DEFAULT_PACKAGES: [&str; 15] = [
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
    "tqdm",
    "seaborn",
    "pyarrow",
    "jinja2",
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
/// | seaborn | 1,010 | 57 | no (the same) |
/// | pyarrow | 60 | 50 | no, but pandas imports it |
/// | jinja2 | 30 | 1 | no (only `DataFrame.style` uses it) |
/// | tqdm | 6 | 1 | no |
///
/// Of pyarrow's 50 MB, 42 are pages of its library files: a fork does not copy their entries, and
/// all sessions share them. The 8 MB of its own data are 9 % more than what a fork copies without it.
///
/// The preloaded nine together fork in 1.1 ms; with the last two it is 1.8 ms, for every session. Few
/// first cells use statistics or models, so those that do pay the second, or an environment names
/// the modules with `--preload`.
pub(crate) const DEFAULT_PRELOAD: [&str; 9] = [
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
    /// The interpreter (or the directory of a venv) to build on. `None` takes the newest
    /// of `PATH`.
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

#[cfg(test)]
mod tests {
    use super::super::name;
    use super::*;

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
            "tqdm",
            "seaborn",
            "pyarrow",
            "jinja2",
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
