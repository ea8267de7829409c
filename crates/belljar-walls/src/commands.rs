//! Programs that run in a session beside its interpreter.
//!
//! A session's **command server** starts them. It is a child of the spawner that has joined the
//! session's namespaces and cgroups, is its user, has no capabilities and is under its Landlock
//! rules; the filter of system calls it leaves to each command, since one with a terminal has another.
//! All commands of a session are in one Landlock domain, so that one can signal another.
//!
//! It runs code of this crate alone, takes requests of the host alone, and can't be traced from the
//! session. Where code in the session kills it, its commands continue as orphans, and the host sees
//! that it is gone.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::channel::{Channel, receive_bytes};
use crate::command_message::{
    BEGUN, CommandEvent, CommandRequest, CommandServerRequest, CommandSpec, MAX_SPEC, ProcessLimits,
};
use crate::error::{SetupError, StepContext};
use crate::landlock;
use crate::message::GUEST_ID;
use crate::seccomp::{self, Filter};
use crate::sys::{self, Forked};

/// How much of a command is read at once: all of most.
const FIRST_PART: usize = 16 << 10;

/// The namespaces of a session that a process of it joins itself, in the order in which init sends them after the
/// pid namespace.
const KINDS: [libc::c_int; 5] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
];

/// Starts a command server, as a process of the spawner. Returns the helper that does it, which ends at once.
pub(crate) fn start(
    request: &CommandServerRequest,
    descriptors: Vec<OwnedFd>,
    empty: &OwnedFd,
) -> io::Result<libc::pid_t> {
    let mut descriptors = descriptors.into_iter();
    let too_few = || io::Error::other("a command server needs its channel and its namespaces");
    let host = Channel::from(descriptors.next().ok_or_else(too_few)?);
    let pid_namespace = descriptors.next().ok_or_else(too_few)?;
    let namespaces: Vec<OwnedFd> = descriptors.by_ref().take(KINDS.len()).collect();
    let cgroups: Vec<OwnedFd> = descriptors.collect();
    match sys::clone_process(0)? {
        Forked::Parent(pid) => Ok(pid),
        Forked::Child => {
            // In a process of its own: the children of one that has joined a pid namespace are in it.
            let started = sys::join_namespace(pid_namespace.as_fd(), libc::CLONE_NEWPID)
                .and_then(|()| sys::clone_process(0));
            match started.step("joining the pid namespace") {
                Ok(Forked::Child) => run(request, &host, &namespaces, &cgroups, empty),
                Ok(Forked::Parent(_)) => sys::exit_now(0),
                Err(error) => fail(&host, &error),
            }
        }
    }
}

fn fail(host: &Channel, error: &SetupError) -> ! {
    let error = error.to_string();
    let _ = host.send(&CommandEvent::Failed { error }, &[]);
    sys::exit_now(1)
}

fn run(
    request: &CommandServerRequest,
    host: &Channel,
    namespaces: &[OwnedFd],
    cgroups: &[OwnedFd],
    empty: &OwnedFd,
) -> ! {
    if let Err(error) = enter(request, namespaces, cgroups, empty) {
        fail(host, &error);
    }
    let _ = serve(host, request.filters);
    sys::exit_now(0)
}

/// Moves this process into the session, as `walls.py` does it for the interpreter.
fn enter(
    request: &CommandServerRequest,
    namespaces: &[OwnedFd],
    cgroups: &[OwnedFd],
    empty: &OwnedFd,
) -> Result<(), SetupError> {
    let [user, others @ ..] = namespaces else {
        return Err(SetupError::Process("the request has no namespaces"));
    };
    let _ = sys::set_name(c"belljar-command");
    for cgroup in cgroups {
        rustix::io::write(cgroup, b"0").step("joining the cgroups")?;
    }
    sys::unshare(libc::CLONE_NEWCGROUP).step("making a cgroup namespace")?;
    // Where the namespace forbids it, there are none to give up.
    match sys::clear_groups() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        cleared => cleared.step("giving up groups")?,
    }
    // The user namespace last: the others belong to the one that is left with it.
    for (namespace, kind) in others.iter().zip(&KINDS[1..]).rev() {
        sys::join_namespace(namespace.as_fd(), *kind).step("joining the namespaces")?;
    }
    let rules = match &request.slot {
        _ if !request.filters => None,
        Some(slot) => Some(landlock::fork_ruleset(&slot.display().to_string())?),
        None => Some(landlock::command_ruleset()?),
    };
    // Of the list of mounts nothing is to be seen.
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).step("opening the root")?;
    move_into_link_name_space(empty.as_fd(), Some(LinkNameSpaceType::Mount))
        .step("hiding the list of mounts")?;
    rustix::process::fchdir(&root).step("moving into the root")?;
    rustix::process::chroot(".").step("moving into the root")?;
    sys::join_namespace(user.as_fd(), KINDS[0]).step("joining the user namespace")?;
    sys::drop_bounding_set().step("dropping the bounding set")?;
    sys::set_ids(GUEST_ID, GUEST_ID).step("becoming the session's user")?;
    set_limits(&request.limits).step("setting limits")?;
    sys::drop_capabilities().step("dropping capabilities")?;
    sys::no_new_privileges().step("giving up new privileges")?;
    // Nothing of the session may look into it.
    sys::set_dumpable(false).step("hiding the command server")?;
    if let Some(rules) = rules {
        landlock::restrict(rules.as_fd()).step("Landlock")?;
    }
    rustix::process::setsid().step("making a process session")?;
    // What commands leave behind is reported, too.
    sys::adopt_orphans().step("adopting orphans")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

fn set_limits(limits: &ProcessLimits) -> io::Result<()> {
    for (resource, wanted) in [
        (Resource::Core, limits.core),
        (Resource::Sigpending, limits.signals),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        (Resource::Data, limits.data),
        (Resource::Nproc, limits.processes),
    ] {
        let most = getrlimit(resource).maximum;
        let wanted = most.map_or(wanted, |most| most.min(wanted));
        setrlimit(
            resource,
            Rlimit {
                current: Some(wanted),
                maximum: Some(wanted),
            },
        )?;
    }
    Ok(())
}

/// Starts what the host requests, and reports every end, until the host is gone.
fn serve(host: &Channel, filters: bool) -> io::Result<()> {
    // Everything else is closed; this is the one descriptor that stays.
    sys::duplicate_to(host.as_fd().as_raw_fd(), 0)?;
    sys::close_from(1)?;
    // SAFETY: the copy above is there, and nothing else in this process owns it.
    let host = Channel::from(unsafe { OwnedFd::from_raw_fd(0) });
    // 1 and 2 stay taken, so that no descriptor of a command is one of its own targets.
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let null_too = null.try_clone()?;
    let children = sys::child_signal_descriptor()?;
    let filters = filters.then(|| [false, true].map(seccomp::command_filter));
    host.send(&CommandEvent::Ready, &[])?;
    loop {
        let mut ready = [
            PollFd::new(&host, PollFlags::IN),
            PollFd::new(&children, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (work, ended) = (
            !ready[0].revents().is_empty(),
            !ready[1].revents().is_empty(),
        );
        if ended {
            sys::empty_signals(&children);
            while let Some((pid, status)) = sys::try_wait_any() {
                host.send(&CommandEvent::Exited { pid, status }, &[])?;
            }
        }
        if work {
            match host.receive()? {
                Some((CommandRequest::Prepare { id, terminal }, descriptors)) => {
                    let filter = filters
                        .as_ref()
                        .map(|[plain, driving]| if terminal { driving } else { plain });
                    if let Err(error) = prepare(&host, id, terminal, filter, descriptors) {
                        let error = error.to_string();
                        host.send(&CommandEvent::NotPrepared { id, error }, &[])?;
                    }
                }
                Some((CommandRequest::Signal { group, signal }, _)) => {
                    // A group that is gone is what was wanted, mostly.
                    if group > 1 {
                        let _ = sys::kill(-group, signal);
                    }
                }
                None => {
                    drop((null, null_too));
                    return Ok(());
                }
            }
        }
    }
}

/// Makes the process of a command, which waits until the host says what it becomes. A command without a terminal is no leader of its process group: a shell runs
/// `setsid PROGRAM` in its own place if that is its last command, and as the leader of a group `setsid` would
/// return at once. So its group has as leader a process that ends before it begins.
fn prepare(
    host: &Channel,
    id: u64,
    terminal: bool,
    filter: Option<&Filter>,
    descriptors: Vec<OwnedFd>,
) -> io::Result<()> {
    let report = |pid: libc::pid_t, group: libc::pid_t| -> io::Result<()> {
        let process = crate::process::Process::open(pid)?;
        host.send(
            &CommandEvent::Prepared { id, pid, group },
            &[process.as_fd()],
        )
    };
    match sys::clone_process(0)? {
        Forked::Parent(pid) if terminal => report(pid, pid),
        Forked::Parent(_) => Ok(()),
        Forked::Child if terminal => become_command(terminal, filter, descriptors),
        Forked::Child => {
            let started = rustix::process::setsid()
                .map_err(io::Error::from)
                .and_then(|group| Ok((group.as_raw_nonzero().get(), sys::clone_process(0)?)));
            let sent = match started {
                Ok((_, Forked::Child)) => become_command(terminal, filter, descriptors),
                Ok((group, Forked::Parent(pid))) => report(pid, group),
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                let error = error.to_string();
                let _ = host.send(&CommandEvent::NotPrepared { id, error }, &[]);
            }
            sys::exit_now(0)
        }
    }
}

fn become_command(terminal: bool, filter: Option<&Filter>, descriptors: Vec<OwnedFd>) -> ! {
    let Some(control) = descriptors.into_iter().next() else {
        sys::exit_now(126);
    };
    let control = UnixStream::from(control);
    let error = match wait_and_become(&control, terminal, filter) {
        Ok((argv, environment)) => {
            let _ = rustix::io::write(&control, &[BEGUN]);
            match sys::exec(&argv, &environment) {
                // Of a script also where its interpreter is missing.
                error if error.kind() == io::ErrorKind::NotFound => {
                    format!("{}: no such program", argv[0].to_string_lossy())
                }
                error => format!("{}: {error}", argv[0].to_string_lossy()),
            }
        }
        Err(error) => error.to_string(),
    };
    let _ = rustix::io::write(&control, error.as_bytes());
    sys::exit_now(127)
}

type Program = (Vec<CString>, Vec<CString>);

fn wait_and_become(
    control: &UnixStream,
    terminal: bool,
    filter: Option<&Filter>,
) -> Result<Program, SetupError> {
    sys::default_signals().step("signals")?;
    let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .step("opening /dev/null")?;
    if let Some(filter) = filter {
        sys::filter_all_threads(filter).step("seccomp")?;
    }
    let (spec, descriptors) = receive_spec(control)?;
    let (output, error, input) = match descriptors.as_slice() {
        [tty] if terminal => {
            rustix::process::setsid().step("making a process session")?;
            rustix::process::ioctl_tiocsctty(tty).step("taking the terminal")?;
            (tty, tty, tty)
        }
        [output, error] => (output, error, &null),
        [output, error, input] => (output, error, input),
        _ => return Err(SetupError::Process("the request has too few descriptors")),
    };
    for (target, source) in [(0, input), (1, output), (2, error)] {
        sys::duplicate_to(source.as_raw_fd(), target).step("putting descriptors in place")?;
    }
    std::env::set_current_dir(&spec.directory).step(spec.directory.display().to_string())?;
    let strings = |list: &[String]| {
        list.iter()
            .map(|text| CString::new(text.as_str()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::other)
            .step("reading the command")
    };
    let mut argv = strings(&spec.argv)?;
    let environment = strings(&spec.environment)?;
    let Some(program) = spec.argv.first() else {
        return Err(SetupError::Process("no program given"));
    };
    if !program.contains('/')
        && let Some(found) = find(program, &spec.environment)
    {
        argv[0] = found;
    }
    Ok((argv, environment))
}

/// Waits for what the host sends. Where the host is gone, this process ends.
fn receive_spec(mut control: &UnixStream) -> Result<(CommandSpec, Vec<OwnedFd>), SetupError> {
    const HEADER: usize = 4;
    let mut text = vec![0; FIRST_PART];
    let (received, descriptors) =
        receive_bytes(control, &mut text).step("waiting for the command")?;
    if received == 0 {
        sys::exit_now(0);
    }
    text.truncate(received);
    let mut more = |wanted: usize, text: &mut Vec<u8>| -> io::Result<()> {
        let there = text.len();
        if wanted > there {
            text.resize(wanted, 0);
            control.read_exact(&mut text[there..])?;
        }
        Ok(())
    };
    more(HEADER, &mut text).step("reading the command")?;
    let length = [text[0], text[1], text[2], text[3]];
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_SPEC {
        return Err(SetupError::Process("the command is too long"));
    }
    more(HEADER + length, &mut text).step("reading the command")?;
    let spec = serde_json::from_slice(&text[HEADER..]).step("reading the command")?;
    Ok((spec, descriptors))
}

/// The program of this name in the directories of `PATH`.
fn find(program: &str, environment: &[String]) -> Option<CString> {
    let directories = environment
        .iter()
        .find_map(|variable| variable.strip_prefix("PATH="))
        .unwrap_or("/usr/bin:/bin");
    directories.split(':').find_map(|directory| {
        let path = Path::new(directory).join(program);
        let file = File::open(&path).ok()?.metadata().ok()?;
        let executable = std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o111 != 0;
        (file.is_file() && executable).then(|| sys::c_path(&path).ok())?
    })
}
