//! The steps of building an environment.

/// A step of building an environment, for people who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildStep<'a> {
    /// Another process builds or removes an environment.
    Waiting,
    /// The virtual environment is made.
    Venv,
    /// Versions of the packages are found.
    Versions,
    /// The packages are downloaded and installed.
    Installing,
    /// The packages are compiled to bytecode, of which `uv` says nothing before its end.
    Compiling,
    /// The preload list is imported once.
    Importing,
    /// No font was found that draws Chinese: not in the packages, not on this host.
    NoChineseFont,
    /// The environment is written to disk.
    Writing,
    /// A line that `uv` printed.
    Uv(&'a str),
}
