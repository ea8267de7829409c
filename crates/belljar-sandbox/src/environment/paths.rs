//! Which directories of the host a Python needs, and which must never be shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::EnvironmentError;
use super::probe::Report;

/// The kernel's own limit for links in one path.
const MOST_HOPS: usize = 40;

/// Directories that hold much more than a Python, so that showing one is showing the host.
const WHOLE_HOST: [&str; 10] = [
    "/", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var",
];

/// Every directory that must be visible for this Python to work; see
/// [`Environment::read_only_paths`](super::Environment::read_only_paths).
pub(super) fn read_only_paths(
    report: &Report,
    fonts: &[PathBuf],
) -> Result<Vec<PathBuf>, EnvironmentError> {
    let home = etcetera::home_dir().ok();
    read_only_paths_with_home(report, fonts, home.as_deref())
}

fn read_only_paths_with_home(
    report: &Report,
    fonts: &[PathBuf],
    home: Option<&Path>,
) -> Result<Vec<PathBuf>, EnvironmentError> {
    let mut shown = Shown {
        home: home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf())),
        paths: BTreeSet::new(),
    };
    for prefix in report.prefixes() {
        shown.add(prefix, "its prefix")?;
    }
    for directory in hop_directories(report.executable())? {
        shown.add(&directory, "the directory of its interpreter")?;
    }
    for entry in report.path() {
        shown.add(directory_of(entry), "part of sys.path")?;
    }
    for directory in report.editable() {
        shown.add(directory, "an editable install")?;
    }
    for directory in report.libraries() {
        shown.add(directory, "its shared libraries")?;
    }
    for font in fonts {
        shown.add(directory_of(font), "a font")?;
    }
    Ok(shown.without_nested())
}

/// The directories that are already decided to be visible.
struct Shown {
    home: Option<PathBuf>,
    paths: BTreeSet<PathBuf>,
}

impl Shown {
    /// Adds a directory as it is written and as it really is: Python uses both. What does not
    /// exist (`lib/python311.zip` of every `sys.path`) is not needed.
    fn add(&mut self, path: &Path, need: &'static str) -> Result<(), EnvironmentError> {
        let Ok(real) = path.canonicalize() else {
            return Ok(());
        };
        if let Some(place) = self.forbidden(&real) {
            return Err(EnvironmentError::Exposed {
                path: path.to_path_buf(),
                need,
                place,
            });
        }
        let dots = path
            .components()
            .any(|part| matches!(part, std::path::Component::ParentDir));
        if path.is_absolute() && !dots {
            // Rebuilt from its parts: `/a//b/./` is the same directory as `/a/b`.
            self.paths.insert(path.components().collect());
        }
        self.paths.insert(real);
        Ok(())
    }

    fn forbidden(&self, real: &Path) -> Option<&'static str> {
        if let Some(home) = &self.home {
            if real == home {
                return Some("a home directory");
            }
            // Accounts of services have homes like /usr/sbin; /usr itself is no secret.
            if home.starts_with(real) && !real.starts_with("/usr") {
                return Some("above a home directory");
            }
        }
        WHOLE_HOST
            .iter()
            .any(|place| real == Path::new(place))
            .then_some("a directory of the whole host")
    }

    /// A directory that lies in another one is visible with it.
    fn without_nested(self) -> Vec<PathBuf> {
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in self.paths {
            // In order, an ancestor comes before all that is beneath it.
            if !kept.iter().any(|ancestor| path.starts_with(ancestor)) {
                kept.push(path);
            }
        }
        kept
    }
}

/// The directory of each link between a path and the file it means: for
/// `venv/bin/python -> /x/bin/python3 -> python3.11`, `venv/bin` and `/x/bin`.
fn hop_directories(executable: &Path) -> Result<Vec<PathBuf>, EnvironmentError> {
    let mut directories = Vec::new();
    let mut current = executable.to_path_buf();
    for _ in 0..MOST_HOPS {
        let Some(directory) = current.parent() else {
            break;
        };
        directories.push(directory.to_path_buf());
        match std::fs::read_link(&current) {
            // The kernel continues from where the link really is.
            Ok(target) => {
                let base = directory
                    .canonicalize()
                    .map_err(EnvironmentError::io("follow", directory))?;
                current = base.join(target);
            }
            Err(_) => break,
        }
    }
    Ok(directories)
}

/// `sys.path` may hold archives; what must be visible is the directory they lie in.
fn directory_of(path: &Path) -> &Path {
    if path.is_file() {
        path.parent().unwrap_or(path)
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A temporary directory whose own path has no links in it.
    fn temporary() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    fn make(path: &Path) -> &Path {
        std::fs::create_dir_all(path).unwrap();
        path
    }

    #[test]
    fn every_hop_and_every_path_outside_is_shown_once() {
        let (_guard, root) = temporary();
        let base = root.join("python");
        make(&base.join("bin"));
        std::fs::write(base.join("bin/python3.11"), "").unwrap();
        symlink("python3.11", base.join("bin/python3")).unwrap();
        let links = root.join("links");
        make(&links);
        symlink("../python/bin/python3", links.join("python")).unwrap();
        let venv = root.join("venv");
        make(&venv.join("bin"));
        make(&venv.join("lib/site-packages"));
        symlink(links.join("python"), venv.join("bin/python")).unwrap();
        let editable = root.join("project/src");
        make(&editable);
        std::fs::write(root.join("links/old.egg"), "").unwrap();

        let report = Report::for_test(
            &venv.join("bin/python"),
            &[&venv, &venv, &base, &base],
            &[
                &base.join("lib/python311.zip"),
                &venv.join("lib/site-packages"),
                &editable,
                &root.join("links/old.egg"),
            ],
        );
        let paths = read_only_paths_with_home(&report, &[], None).unwrap();
        assert_eq!(paths, [links, editable, base, venv]);
    }

    #[test]
    fn a_linked_directory_is_shown_under_both_of_its_names() {
        let (_guard, root) = temporary();
        make(&root.join("cpython-3.11.7/bin"));
        std::fs::write(root.join("cpython-3.11.7/bin/python"), "").unwrap();
        symlink("cpython-3.11.7", root.join("cpython-3.11")).unwrap();
        let prefix = root.join("cpython-3.11");

        let report = Report::for_test(&prefix.join("bin/python"), &[&prefix], &[]);
        let paths = read_only_paths_with_home(&report, &[], None).unwrap();
        assert_eq!(paths, [prefix, root.join("cpython-3.11.7")]);
    }

    #[test]
    fn a_home_the_root_and_what_lies_above_a_home_are_refused() {
        let (_guard, root) = temporary();
        let home = root.join("homes/someone");
        let venv = home.join("venv");
        make(&venv.join("bin"));
        std::fs::write(venv.join("bin/python"), "").unwrap();
        let python = venv.join("bin/python");
        symlink(&home, root.join("alias")).unwrap();

        let refused = |paths: &[&Path]| {
            let report = Report::for_test(&python, &[&venv], paths);
            read_only_paths_with_home(&report, &[], Some(&home))
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(refused(&[&home.join("project")]), None, "does not exist");
        for (path, place) in [
            (home.clone(), "a home directory"),
            (root.join("alias"), "a home directory"),
            (root.join("homes"), "above a home directory"),
            (PathBuf::from("/"), "above a home directory"),
            (PathBuf::from("/etc"), "a directory of the whole host"),
        ] {
            let message = refused(&[&path]).unwrap_or_default();
            assert!(message.contains(place), "{}: {message}", path.display());
            assert!(message.contains("sys.path"), "{message}");
        }
    }

    #[test]
    fn a_loop_of_links_ends() {
        let (_guard, root) = temporary();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let directories = hop_directories(&root.join("a")).unwrap();
        assert_eq!(directories.len(), MOST_HOPS);
    }
}
