//! The same root directory as plain files and a list of mounts, for a sandbox that mounts it by itself.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::root::{DATA, ETC, HOME, RootSpec, SYSTEM, inside, make_parent};

/// Directories on which the sandbox mounts its own.
const OWN: [&str; 5] = ["/proc", "/dev", "/sys", "/tmp", "/workspace"];

/// Writes the links, files and mount points of the root into an empty directory. Returns what is to be shown on them,
/// read-only: paths of this host, and their names in the root.
pub fn lay_out_root(spec: &RootSpec, at: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut shown = Vec::new();
    for name in SYSTEM {
        let source = Path::new("/").join(name);
        match fs::symlink_metadata(&source) {
            Ok(meta) if meta.is_symlink() => symlink(fs::read_link(&source)?, at.join(name))?,
            Ok(meta) if meta.is_dir() => shown.push((source.clone(), source)),
            _ => {}
        }
    }
    for path in ETC.map(Path::new) {
        if path.exists() {
            // A link such as /etc/localtime is shown as the file it means.
            shown.push((path.canonicalize()?, path.to_owned()));
        }
    }
    let mut read_only: Vec<&PathBuf> = spec.read_only.iter().collect();
    read_only.sort_unstable();
    for path in read_only {
        if !shown.iter().any(|(_, above)| path.starts_with(above)) {
            shown.push((path.clone(), path.clone()));
        }
    }
    shown.extend(spec.mounts.iter().cloned());
    for (source, target) in &shown {
        let target = inside(at, target);
        if source.is_dir() {
            fs::create_dir_all(target)?;
        } else {
            make_parent(&target)?;
            fs::write(target, "")?;
        }
    }
    for directory in OWN.map(Path::new) {
        fs::create_dir_all(inside(at, directory))?;
    }
    for (path, contents) in &spec.files {
        let path = inside(at, path);
        make_parent(&path)?;
        fs::write(path, contents)?;
    }
    for link in [HOME, DATA].map(Path::new) {
        // Not where the host has an environment there, or in a directory above.
        if !shown
            .iter()
            .any(|(_, path)| path.starts_with(link) || link.starts_with(path))
        {
            let link = inside(at, link);
            make_parent(&link)?;
            symlink("/workspace", link)?;
        }
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mount_has_its_place_and_nothing_else_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let environment = directory.path().join("environment");
        fs::create_dir(&environment).unwrap();
        let at = directory.path().join("root");
        fs::create_dir(&at).unwrap();
        let spec = RootSpec {
            read_only: vec![environment.clone(), environment.join("below")],
            files: vec![("/etc/hostname".into(), "belljar\n".into())],
            ..RootSpec::default()
        };
        let shown = lay_out_root(&spec, &at).unwrap();
        assert!(shown.contains(&(environment.clone(), environment.clone())));
        // What is seen with the directory above it is no mount of its own.
        assert!(!shown.iter().any(|(_, path)| path.ends_with("below")));
        for (source, target) in &shown {
            assert_eq!(inside(&at, target).is_dir(), source.is_dir(), "{target:?}");
        }
        assert_eq!(
            fs::read_to_string(at.join("etc/hostname")).unwrap(),
            "belljar\n"
        );
        assert_eq!(
            fs::read_link(at.join("mnt/data")).unwrap(),
            Path::new("/workspace")
        );
        assert!(!at.join("etc/shadow").exists() && !at.join("var").exists());
    }
}
