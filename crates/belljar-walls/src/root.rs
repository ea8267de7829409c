//! The root directory that the template and all sessions see: a read-only view of the host's
//! programs and of one Python, and nothing else.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use crate::directories;
use crate::error::{SetupError, StepContext};
use crate::message::{FORKS, ForkSlotRequest, InitRequest, MOST_FORKS};
use crate::sys;

/// What the root holds beside the host's system directories.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RootSpec {
    /// Paths of the host that are visible, read-only, under the same name.
    pub read_only: Vec<PathBuf>,
    /// A directory of the host, and the name under which the root shows it, read-only.
    pub mounts: Vec<(PathBuf, PathBuf)>,
    /// Small files that the root holds: absolute path, contents.
    pub files: Vec<(PathBuf, String)>,
    /// Directories of the host that sessions of an ordinary user can mount, see [`DirectoryMount`]; elsewhere each
    /// session's come with its request.
    ///
    /// [`DirectoryMount`]: crate::DirectoryMount
    pub directories: Vec<PathBuf>,
}

/// Directories every session replaces by one of its own.
const PRIVATE: [&str; 3] = ["/tmp", "/workspace", "/dev/shm"];

/// Where a session sees its workspace once more: where programs look for a home, and other sandboxes have one.
pub const HOME: &str = "/home/user";

/// One more name of it, which code written for other sandboxes uses.
pub(crate) const DATA: &str = "/mnt/data";

/// The system directories: linked or shown as the host has them.
pub(crate) const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What programs read of `/etc`; the rest of the host's is not shown.
pub(crate) const ETC: [&str; 9] = [
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/matplotlibrc",
    "/etc/mime.types",
];

/// `tty` is the terminal of whoever opens it, if it has one.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Files of `/proc` that every user may read and no session should: the machine's name for this
/// boot, its command line, keys, addresses of the kernel, counters that reveal other sessions. What
/// only root may read or write there is closed by the session's user.
const HIDDEN: [&str; 11] = [
    "/proc/acpi",
    "/proc/cmdline",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/key-users",
    "/proc/keys",
    // Locks of open files have no process, and are listed in every pid namespace.
    "/proc/locks",
    "/proc/modules",
    "/proc/scsi",
    "/proc/sys/kernel/random/boot_id",
];

/// An empty directory, which hides others.
const EMPTY: &str = "/var/empty";

// From linux/mount.h; libc does not have them for every target.
pub(crate) const MOUNT_ATTR_RDONLY: u64 = 0x1;
pub(crate) const MOUNT_ATTR_NOSUID: u64 = 0x2;
pub(crate) const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOEXEC: u64 = 0x8;

/// Builds the root at `at` in this process's own mount namespace and moves into it.
pub(crate) fn enter(spec: &RootSpec, at: &Path) -> Result<(), SetupError> {
    sys::make_mounts_private().step("making the mounts private")?;
    sys::mount_new(
        c"tmpfs",
        at,
        libc::MS_NOSUID | libc::MS_NODEV,
        "mode=0755,size=16m",
    )
    .step("mounting the root")?;
    for name in SYSTEM {
        show_system_directory(at, name).step(format!("showing /{name}"))?;
    }
    for directory in [
        "proc",
        "dev",
        "dev/shm",
        "tmp",
        "workspace",
        "home/user",
        "etc",
        "var/empty",
        "data",
    ] {
        fs::create_dir_all(at.join(directory)).step(directory)?;
    }
    let forks = inside(at, Path::new(FORKS));
    fs::create_dir(&forks).step("making fork slots")?;
    make_slot_directories(&forks).step("making fork slots")?;
    // Shown until the spawner has its own: for an ordinary user the kernel allows a new one only where one is already
    // visible. It stays below the later ones, locked there.
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    show(Path::new("/proc"), &at.join("proc"), attributes).step("showing /proc")?;
    for device in DEVICES {
        let source = Path::new("/dev").join(device);
        // A device can be written on a read-only mount; its times, which the whole host sees, can't.
        let attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
        show(&source, &at.join("dev").join(device), attributes)
            .step(format!("showing {}", source.display()))?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, at.join("dev").join(link)).step("linking a device")?;
    }
    let sealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    for path in ETC.map(Path::new) {
        if path.exists() {
            // A link such as /etc/localtime is shown as the file it means.
            let source = path.canonicalize().step("resolving a link")?;
            show(&source, &inside(at, path), sealed).step(format!("showing {}", path.display()))?;
        }
    }
    let mut shown: Vec<&Path> = vec![Path::new("/usr")];
    let mut read_only: Vec<&Path> = spec.read_only.iter().map(PathBuf::as_path).collect();
    read_only.sort_unstable();
    for path in read_only {
        if !shown.iter().any(|above| path.starts_with(above)) {
            show(path, &inside(at, path), sealed).step(format!("showing {}", path.display()))?;
            shown.push(path);
        }
    }
    for (source, target) in &spec.mounts {
        show(source, &inside(at, target), sealed).step(format!("showing {}", target.display()))?;
    }
    for (path, contents) in &spec.files {
        let path = inside(at, path);
        make_parent(&path).step("making a directory")?;
        fs::write(&path, contents).step(format!("writing {}", path.display()))?;
    }
    // Not where the host has an environment there, or in a directory above.
    let data = Path::new(DATA);
    let targets = spec.mounts.iter().map(|(_, target)| target);
    let mut others = spec.read_only.iter().chain(targets);
    if !others.any(|path| path.starts_with(data) || data.starts_with(path)) {
        let data = inside(at, data);
        make_parent(&data).step("making a directory")?;
        symlink("/workspace", data).step("linking the workspace")?;
    }
    directories::offer(spec, at)?;
    move_in(at).step("moving into the root")?;
    seal(Path::new("/")).step("making the root read-only")
}

/// Moves into a root directory that is empty and stays so, in this process's own mount namespace.
pub(crate) fn enter_empty() -> Result<(), SetupError> {
    // The one directory that every host has.
    let at = Path::new("/proc");
    sys::make_mounts_private().step("making the mounts private")?;
    let sealed = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    sys::mount_new(c"tmpfs", at, sealed, "mode=0555,size=4k,nr_inodes=1")
        .step("mounting an empty root")?;
    move_in(at).step("moving into the root")
}

/// Makes a mount read-only; the mounts below it keep their own attributes.
pub(crate) fn seal(path: &Path) -> io::Result<()> {
    let flags =
        libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
    sys::mount_new(c"none", path, flags, "")
}

/// `at` + an absolute path, without `.` and `..`.
pub(crate) fn inside(at: &Path, path: &Path) -> PathBuf {
    let mut out = at.to_owned();
    out.extend(
        path.components()
            .filter(|c| matches!(c, Component::Normal(_))),
    );
    out
}

pub(crate) fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn show_system_directory(at: &Path, name: &str) -> io::Result<()> {
    let source = Path::new("/").join(name);
    match fs::symlink_metadata(&source) {
        Ok(meta) if meta.is_symlink() => symlink(fs::read_link(&source)?, at.join(name)),
        Ok(meta) if meta.is_dir() => show(
            &source,
            &at.join(name),
            MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        ),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Shows a file or directory of the host at `target`, with more attributes than it has there.
fn show(source: &Path, target: &Path, attributes: u64) -> io::Result<()> {
    make_parent(target)?;
    if source.is_dir() {
        fs::create_dir_all(target)?;
    } else if !target.exists() {
        fs::write(target, "")?;
    }
    let tree = open_tree(
        CWD,
        source,
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE,
    )?;
    if attributes != 0 {
        sys::add_mount_attributes(tree.as_fd(), attributes)?;
    }
    move_mount(
        &tree,
        "",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?;
    Ok(())
}

/// Mounts `/proc` of this pid namespace, which shows each process only those that it may inspect.
/// So nobody in a session sees init, whose list of mounts names paths and users of the host.
pub(crate) fn mount_proc() -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    sys::mount_new(c"proc", Path::new("/proc"), flags, "hidepid=invisible")
}

/// The same, not shown anywhere yet.
pub(crate) fn detached_proc() -> io::Result<OwnedFd> {
    let proc = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(proc.as_fd(), "hidepid", "invisible")?;
    fsconfig_create(proc.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(
        proc.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// Shows what [`detached_proc`] made.
pub(crate) fn show_proc(proc: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(proc, "", CWD, "/proc", flags)?)
}

/// Makes a mount namespace that holds nothing. A session's processes are in it, with their root in the session's
/// own: of the mounts of a namespace `/proc/*/mountinfo` lists those alone that are below the process's root.
pub(crate) fn empty_namespace() -> Result<OwnedFd, SetupError> {
    let this = || {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        open("/proc/self/ns/mnt", flags, Mode::empty())
    };
    let own = this().step("opening the mount namespace")?;
    sys::unshare(libc::CLONE_NEWNS).step("making an empty mount namespace")?;
    let empty = this().step("opening the empty mount namespace")?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
    let at = Path::new(EMPTY);
    sys::mount_new(c"tmpfs", at, flags, "mode=0555,size=4k").step("mounting an empty root")?;
    move_in(at).step("emptying a mount namespace")?;
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Mount))
        .step("going back to the mount namespace")?;
    Ok(empty)
}

/// Hides what sessions don't need.
pub(crate) fn hide_of_proc() -> io::Result<()> {
    for path in HIDDEN.map(Path::new) {
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => hide(path)?,
            Ok(_) => show(Path::new("/dev/null"), path, 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Hides a directory behind an empty one.
pub(crate) fn hide(directory: &Path) -> io::Result<()> {
    show(Path::new(EMPTY), directory, 0)
}

/// Mounts the directories that a session, or the template, has for itself.
pub(crate) fn mount_private_directories(
    request: &InitRequest,
    spec: &RootSpec,
) -> Result<(), SetupError> {
    // An environment may live under one of these; it must stay visible above the new mount.
    let mut kept = Vec::new();
    for path in &spec.read_only {
        if PRIVATE.iter().any(|private| path.starts_with(private)) {
            let tree = open_tree(
                CWD,
                path,
                OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_RECURSIVE,
            )
            .step(format!("keeping {}", path.display()))?;
            kept.push((path, tree));
        }
    }
    let owner = request.owner;
    let options = [
        ("/tmp", request.temporary_bytes, 0o1777),
        ("/dev/shm", request.temporary_bytes, 0o1777),
        ("/workspace", request.workspace_bytes, 0o755),
    ];
    for (path, bytes, mode) in options {
        mount_private(Path::new(path), bytes, request.inodes, mode, owner)?;
    }
    // Not where a user of the host has this home, and the environment in it.
    if !spec.read_only.iter().any(|path| path.starts_with(HOME)) {
        show(Path::new("/workspace"), Path::new(HOME), 0).step("showing the workspace as home")?;
    }
    for (path, tree) in kept {
        let made = if path.is_dir() {
            Ok(())
        } else {
            fs::create_dir_all(path)
        };
        made.step(format!("keeping {}", path.display()))?;
        move_mount(
            &tree,
            "",
            CWD,
            path.as_path(),
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .step(format!("keeping {}", path.display()))?;
    }
    Ok(())
}

fn mount_private(
    path: &Path,
    bytes: u64,
    inodes: u64,
    mode: u32,
    owner: u32,
) -> Result<(), SetupError> {
    sys::mount_new(
        c"tmpfs",
        path,
        libc::MS_NOSUID | libc::MS_NODEV,
        &format!("size={bytes},nr_inodes={inodes},mode={mode:o},uid={owner},gid={owner}"),
    )
    .step(format!("mounting {}", path.display()))
}

/// The directory of the fork slot with this number; the slots of a fork's own forks are in its
/// slot.
pub fn slot_path(above: Option<&Path>, number: u32) -> PathBuf {
    above.unwrap_or(Path::new(FORKS)).join(number.to_string())
}

/// The workspace of the fork in a slot.
pub fn slot_workspace(slot: &Path) -> PathBuf {
    slot.join("workspace")
}

/// Empty directories for fork slots.
fn make_slot_directories(inside: &Path) -> io::Result<()> {
    (1..=MOST_FORKS).try_for_each(|number| fs::create_dir(inside.join(number.to_string())))
}

/// Mounts a fork slot, in the mount namespace of the parent session: a read-only directory with its
/// workspace, and with directories for the slots of its own forks.
pub(crate) fn mount_slot(request: &ForkSlotRequest) -> Result<(), SetupError> {
    let slot = &request.slot;
    let options = format!("mode=0755,size=4k,nr_inodes={}", MOST_FORKS + 8);
    sys::mount_new(c"tmpfs", slot, libc::MS_NOSUID | libc::MS_NODEV, &options)
        .step("mounting a fork slot")?;
    let workspace = slot_workspace(slot);
    fs::create_dir(&workspace).step("filling a fork slot")?;
    make_slot_directories(slot).step("filling a fork slot")?;
    seal(slot).step("making a fork slot read-only")?;
    let (bytes, inodes) = (request.workspace_bytes, request.inodes);
    mount_private(&workspace, bytes, inodes, 0o755, request.owner)
}

/// Unmounts a fork slot, or the workspace in it.
pub(crate) fn unmount_slot(path: &Path) {
    let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
}

/// `pivot_root` without a second directory: the old root ends up under the new one and is let go.
fn move_in(at: &Path) -> io::Result<()> {
    rustix::process::chdir(at)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_root() {
        let at = Path::new("/jar");
        assert_eq!(inside(at, Path::new("/a/../../b")), Path::new("/jar/a/b"));
        assert_eq!(inside(at, Path::new("/")), at);
    }
}
