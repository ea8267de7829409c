//! The kernel's file rules (Landlock) that every process of a session is under: a second wall
//! behind the read-only mounts. A hole in the one is not yet a hole in the other.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, Scope,
};

use crate::directories;
use crate::error::{SetupError, StepContext};
use crate::message::FORKS;
use crate::sys;

/// The minimum version for sessions (Linux 5.19): before it, no file can be renamed into another
/// directory.
pub const LANDLOCK_FLOOR: u32 = 2;

/// The version since which (Linux 6.2) a read-only file can't be emptied either. Before it, the
/// system call filter prevents that.
pub const COVERS_EMPTYING: u32 = 3;

/// The newest version whose rights are known here; more than the host has is left out.
const NEWEST: ABI = ABI::V7;

/// The version of Landlock that this kernel has; `None` if it is off or not built in.
pub fn landlock_version() -> Option<u32> {
    const ASK_FOR_VERSION: libc::c_ulong = 1;
    // SAFETY: with this flag the kernel wants a null pointer and the size 0.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            ASK_FOR_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// What a session may write.
const OWN: [&str; 4] = ["/tmp", "/dev/shm", "/workspace", FORKS];

/// Refuses a host whose Landlock is too old or off.
pub(crate) fn check_host() -> Result<(), SetupError> {
    match landlock_version() {
        Some(version) if version >= LANDLOCK_FLOOR => Ok(()),
        Some(version) => Err(SetupError::OldLandlock {
            version,
            floor: LANDLOCK_FLOOR,
        }),
        None => Err(SetupError::NoLandlock),
    }
}

/// The rules of a session, seen from inside its mounts. Whoever gets the descriptor can put itself
/// under them.
pub(crate) fn ruleset() -> Result<OwnedFd, SetupError> {
    rules(
        &["/"],
        &OWN,
        &directories::writable(),
        Scope::from_all(NEWEST),
    )
}

/// The rules of its commands. They can signal the session's other processes, as a shell must: what
/// is outside of its pid namespace they can't name.
pub(crate) fn command_ruleset() -> Result<OwnedFd, SetupError> {
    rules(
        &["/"],
        &OWN,
        &directories::writable(),
        Scope::AbstractUnixSocket.into(),
    )
}

/// Puts this process under rules. What they refuse is not reported to the host's audit log, which hostile code could
/// fill: the flags for that (neither of this program, nor of nested rules) came with version 7.
pub(crate) fn restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    const QUIET: u32 = 1 | 4;
    let flags = match landlock_version() {
        Some(7..) => QUIET,
        _ => 0,
    };
    sys::restrict_by_landlock(rules, flags)
}

/// The rules that a fork of a session puts itself under in addition: it reaches the files of its
/// own fork slot, which contains the slots of its own forks, but those of no other fork nor of its
/// parent session.
pub(crate) fn fork_ruleset(slot: &str) -> Result<OwnedFd, SetupError> {
    let entries = fs::read_dir("/").step("reading the root")?;
    let readable: Vec<String> = entries
        .filter_map(|entry| Some(format!("/{}", entry.ok()?.file_name().to_str()?)))
        .filter(|path| !["/workspace", "/home", FORKS].contains(&path.as_str()))
        .collect();
    let readable: Vec<&str> = readable.iter().map(String::as_str).collect();
    rules(
        &readable,
        &["/tmp", "/dev/shm", slot],
        // Forks try things out: directories of the host they only read.
        &[],
        Scope::from_all(NEWEST),
    )
}

fn rules(
    readable: &[&str],
    own_paths: &[&str],
    host_paths: &[String],
    scope: BitFlags<Scope>,
) -> Result<OwnedFd, SetupError> {
    let everything = AccessFs::from_all(NEWEST);
    let reading = AccessFs::from_read(NEWEST);
    // Devices are not made by sessions; of those that there are, seccomp decides what is asked.
    let own = everything & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let devices =
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)
        .map_err(io::Error::other)
        .step("Landlock's rights")?
        // Signals and abstract sockets stay among the session's processes.
        .scope(scope)
        .map_err(io::Error::other)
        .step("Landlock's scopes")?
        .create()
        .map_err(io::Error::other)
        .step("making Landlock's rules")?;
    // What is left on the host is plain files: no link that leads a user of the host elsewhere, no socket, no pipe.
    let files = own & !(AccessFs::MakeSym | AccessFs::MakeSock | AccessFs::MakeFifo);
    let readable = readable.iter().map(|path| (*path, reading));
    let own = own_paths.iter().map(|path| (*path, own));
    let host = host_paths.iter().map(|path| (path.as_str(), files));
    for (path, access) in readable.chain([("/dev", devices)]).chain(own).chain(host) {
        let directory = PathFd::new(path).map_err(io::Error::other);
        let directory = directory.step("opening a directory for Landlock")?;
        rules = rules
            .add_rule(PathBeneath::new(directory, access))
            .map_err(io::Error::other)
            .step("adding a rule to Landlock")?;
    }
    Option::<OwnedFd>::from(rules).ok_or(SetupError::Process("this kernel has no Landlock"))
}
