//! The Python that runs in a template and in its sessions, embedded as source.
//!
//! The files are a package, `belljar_guest`, that the walls mount read-only into every session. It
//! needs nothing but the standard library of `CPython` 3.10 or later.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$((
            concat!("belljar_guest/", $name),
            include_str!(concat!("../python/belljar_guest/", $name)),
        )),*]
    };
}

/// The files of the package: path relative to the package's parent directory, and contents.
pub const FILES: &[(&str, &str)] = files![
    "__init__.py",
    "artifacts.py",
    "bare.py",
    "blas.py",
    "calls.py",
    "cells.py",
    "checkpoints.py",
    "complete.py",
    "container.py",
    "displays.py",
    "errors.py",
    "file_helper.py",
    "file_requests.py",
    "forks.py",
    "inspection.py",
    "magics.py",
    "manifest.py",
    "names.py",
    "namespaces.py",
    "plots.py",
    "plots_bridge.py",
    "previews.py",
    "questions.py",
    "rehearsal.py",
    "relay.py",
    "reseed.py",
    "rewrite.py",
    "session.py",
    "sharing.py",
    "shell.py",
    "snapshot.py",
    "state.py",
    "steward.py",
    "streams.py",
    "table_reads.py",
    "table_views.py",
    "tables.py",
    "template.py",
    "tools.py",
    "walls.py",
    "warm.py",
    "variables.py",
    "wire.py",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::FILES;

    #[test]
    fn every_file_of_the_package_is_embedded() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/python/belljar_guest");
        let on_disk: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "__pycache__")
            .map(|name| format!("belljar_guest/{name}"))
            .collect();
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(on_disk, embedded);
    }

    /// Those of the steward that need no container; the others are in `tests/test_steward.py`.
    #[test]
    fn python_tests() {
        run_tests("python3".as_ref(), "test_parts.py", "Ran 6 tests");
    }

    /// On every interpreter that is found: each version lays its objects out in its own way.
    #[test]
    fn sharing() {
        for python in interpreters() {
            run_tests(&python, "test_sharing.py", "Ran 6 tests");
        }
    }

    fn run_tests(python: &Path, file: &str, result: &str) {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
        let output = std::process::Command::new(python)
            .args(["-m", "unittest", "discover", "--start-directory", tests])
            .args(["--pattern", file])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains(result),
            "{}: {said}",
            python.display()
        );
    }

    /// `python3`, and those of pyenv that have immortal objects.
    fn interpreters() -> BTreeSet<PathBuf> {
        let versions = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
        let versions = versions.and_then(|versions| versions.read_dir().ok());
        let names = ["3.12", "3.13"];
        let found = versions.into_iter().flatten().filter_map(|version| {
            let directory = version.ok()?.path();
            let name = directory.file_name()?.to_str()?;
            let known = names.iter().any(|known| name.starts_with(known));
            known.then(|| directory.join("bin/python3"))
        });
        let mut found: BTreeSet<_> = found.filter(|python| python.exists()).collect();
        found.insert("python3".into());
        found
    }

    #[test]
    fn modules_use_the_private_builtins() {
        // `plots` runs as a part of matplotlib and is loaded by it, after user code may have run.
        for (path, text) in FILES {
            if !path.ends_with("__init__.py") && !path.ends_with("plots.py") {
                assert!(
                    text.contains("from belljar_guest import BUILTINS as __builtins__"),
                    "{path} can be broken by `del builtins.len`"
                );
            }
        }
    }
}
