//! Directories of the host that a session sees, by the operator's word: [`DIRECTORIES`]`/NAME`.
//!
//! A session's processes have an id that owns nothing on the host. So that they can read, and write, what the owner of
//! the directory can, the mount maps that owner to them: an idmapped mount, which takes a privileged host. An
//! ordinary user needs none, since its sessions run as that user.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::error::{SetupError, StepContext};
use crate::holder::NamespaceHolder;
use crate::message::DirectoryMount;
use crate::root::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY, RootSpec, hide, seal};
use crate::sys;

/// Where a session sees directories of the host.
pub const DIRECTORIES: &str = "/data";

/// Where the spawner of an ordinary user has those of the engine, by their number.
const OFFERED: &str = "/var/host";

/// Opens a directory of the host as a mount for one session, whose processes have the id `owner`. On a privileged host
/// alone.
///
/// # Errors
/// The step that failed, and why.
pub fn open_directory(path: &Path, owner: u32, writable: bool) -> Result<OwnedFd, SetupError> {
    let directory = fs::metadata(path).step("opening it")?;
    let (uid, gid) = (directory.uid(), directory.gid());
    if !directory.is_dir() {
        return Err(SetupError::NotDirectory);
    }
    // Files that the session creates belong to the directory's owner.
    if writable && uid == 0 {
        return Err(SetupError::OwnedByRoot);
    }
    let tree = clone_mount(path)?;
    let holder = NamespaceHolder::start().step("making a user namespace")?;
    holder.map("uid_map", uid, owner).step("mapping its user")?;
    holder
        .map("gid_map", gid, owner)
        .step("mapping its group")?;
    let namespace = holder.namespace().step("opening a user namespace")?;
    sys::map_mount(tree.as_fd(), namespace.as_fd(), attributes(writable))
        .step("mapping its owner to the session, which not every file system can")?;
    Ok(tree)
}

fn attributes(writable: bool) -> u64 {
    let sealed = if writable { 0 } else { MOUNT_ATTR_RDONLY };
    sealed | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
}

/// This directory as a mount of its own. Mounts below it are not shown.
fn clone_mount(path: &Path) -> Result<OwnedFd, SetupError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match open_tree(CWD, path, flags) {
        Err(rustix::io::Errno::INVAL) => Err(SetupError::MountsBelow),
        tree => tree.step("opening it"),
    }
}

/// In an ordinary user's builder: shows the engine's directories to the spawner, whose sessions take them from there.
pub(crate) fn offer(spec: &RootSpec, at: &Path) -> Result<(), SetupError> {
    for (number, path) in spec.directories.iter().enumerate() {
        let target = at.join(&OFFERED[1..]).join(number.to_string());
        let shown = clone_mount(path).and_then(|tree| {
            sys::add_mount_attributes(tree.as_fd(), attributes(true)).step("sealing it")?;
            fs::create_dir_all(&target).step("making a directory")?;
            attach(&tree, &target).step("mounting it")
        });
        shown.map_err(|error| SetupError::Directory {
            path: path.clone(),
            source: Box::new(error),
        })?;
    }
    Ok(())
}

/// In a session's init: mounts the directories of this session, which came as descriptors or are on offer, and hides
/// the offer.
pub(crate) fn mount(
    mounts: &[DirectoryMount],
    spec: &RootSpec,
    opened: &[OwnedFd],
) -> Result<(), SetupError> {
    let mut trees = Vec::new();
    for mount in mounts {
        let tree = if spec.directories.is_empty() {
            opened
                .get(trees.len())
                .map(AsFd::as_fd)
                .map(|tree| tree.try_clone_to_owned())
                .ok_or(SetupError::Process(
                    "a directory of the host did not arrive",
                ))?
                .step("receiving a directory of the host")?
        } else {
            let tree = clone_mount(&Path::new(OFFERED).join(mount.number.to_string()))?;
            sys::add_mount_attributes(tree.as_fd(), attributes(mount.writable))
                .step("sealing a directory of the host")?;
            tree
        };
        trees.push(tree);
    }
    if !spec.directories.is_empty() {
        hide(Path::new(OFFERED)).step("hiding the directories of other sessions")?;
    }
    if mounts.is_empty() {
        return Ok(());
    }
    let at = Path::new(DIRECTORIES);
    let options = format!("mode=0755,size=4k,nr_inodes={}", mounts.len() + 1);
    sys::mount_new(c"tmpfs", at, libc::MS_NOSUID | libc::MS_NODEV, &options)
        .step("mounting a directory for those of the host")?;
    for (mount, tree) in mounts.iter().zip(&trees) {
        let target = at.join(&mount.name);
        fs::create_dir(&target).step("making a directory")?;
        attach(tree, &target).step("mounting a directory of the host")?;
    }
    seal(at).step("sealing the directory of those of the host")
}

fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(tree, "", CWD, target, flags)?)
}

/// The directories of the host that can be written in this mount namespace.
pub(crate) fn writable() -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORIES) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_owned()));
    paths
        .filter(|path| {
            statvfs(path.as_str())
                .is_ok_and(|about| !about.f_flag.contains(StatVfsMountFlags::RDONLY))
        })
        .collect()
}
