//! The first process of a session's namespaces.
//!
//! It makes the session's private mounts, puts the namespaces on offer, and reaps for ever. It is
//! not the interpreter: a crash of the interpreter must not end the namespaces, and process 1 is
//! deaf to signals it has no handler for.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::directories;
use crate::error::{SetupError, StepContext};
use crate::identity::map_ids;
use crate::landlock;
use crate::message::{GUEST_ID, InitEvent, InitRequest, InitTask, PROXY_PORT, Report};
use crate::root::{self, RootSpec};
use crate::sys;

/// The namespaces of a session, beside the user namespace that init makes last.
pub(crate) const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// Runs in the process that was cloned into [`NAMESPACES`]; never returns. `mapper` leads to the process
/// that is [`run_mapper`]. The channels were made before: one that is made here would be seen among
/// the session's own sockets.
pub(crate) fn run(
    request: &InitRequest,
    spec: &RootSpec,
    host: &Channel,
    mapper: Channel,
    (watches, theirs): (Channel, Channel),
    directories: &[OwnedFd],
) -> ! {
    let prepared = sys::die_with_parent()
        .step("tying init to the spawner")
        .and_then(|()| prepare(request, spec, mapper, directories));
    let id = request.id;
    let sent = match prepared {
        Ok(mut offer) => {
            offer.insert(2, theirs.into());
            let descriptors: Vec<BorrowedFd<'_>> = offer.iter().map(AsFd::as_fd).collect();
            host.send(&Report::Init { id }, &descriptors)
        }
        Err(error) => {
            let error = error.to_string();
            let _ = host.send(&Report::InitFailed { id, error }, &[]);
            sys::exit_now(1);
        }
    };
    if sent.is_ok() {
        let _ = serve(&watches);
    }
    sys::exit_now(1);
}

/// Reaps, reports the ends of watched processes to the host, and moves forks into their cgroups.
/// Returns when the host is gone.
fn serve(host: &Channel) -> io::Result<()> {
    // Everything else is closed; this is the one descriptor that stays, and the next is for signals.
    sys::duplicate_to(host.as_fd().as_raw_fd(), 0)?;
    sys::close_from(1)?;
    // SAFETY: the copy above is there, and nothing else in this process owns it.
    let host = Channel::from(unsafe { OwnedFd::from_raw_fd(0) });
    let children = sys::child_signal_descriptor()?;
    let mut watched = HashSet::new();
    loop {
        let mut ready = [
            PollFd::new(&host, PollFlags::IN),
            PollFd::new(&children, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        sys::empty_signals(&children);
        // First the ends, then all requests: the host asks to watch a process before that one can end, so the
        // request for one that has ended is here by now.
        let ended: Vec<_> = std::iter::from_fn(sys::try_wait_any).collect();
        while has_message(&host)? {
            match host.receive()? {
                Some((InitTask::Watch { pid }, _)) => {
                    watched.insert(pid);
                }
                Some((InitTask::Move { pid }, cgroups)) => {
                    let error = move_process(pid, &cgroups).err();
                    let error = error.map(|error| error.to_string());
                    host.send(&InitEvent::Moved { pid, error }, &[])?;
                }
                Some((InitTask::Namespaces, _)) => {
                    let namespaces = open_namespaces().unwrap_or_default();
                    let descriptors: Vec<_> = namespaces.iter().map(AsFd::as_fd).collect();
                    host.send(&InitEvent::Namespaces, &descriptors)?;
                }
                Some((InitTask::Temporary, reply)) => {
                    send_reply(
                        reply,
                        &InitEvent::Temporary,
                        open_directory("/tmp").ok().as_ref(),
                    );
                }
                Some((InitTask::Socket, reply)) => {
                    send_reply(reply, &InitEvent::Socket, make_socket().ok().as_ref());
                }
                None => return Ok(()),
            }
        }
        for (pid, status) in ended {
            if watched.remove(&pid) {
                host.send(&InitEvent::Exited { pid, status }, &[])?;
            }
        }
    }
}

/// Sends a descriptor on the channel that a request carried. Whoever asked may have gone.
fn send_reply(reply: Vec<OwnedFd>, event: &InitEvent, descriptor: Option<&OwnedFd>) {
    if let Some(reply) = reply.into_iter().next() {
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        let _ = Channel::from(reply).send(event, &descriptors);
    }
}

/// A socket belongs to the network namespace that it was made in, whoever connects it.
fn make_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn open_directory(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// The namespaces of this process: pid, user, mount, net, ipc, uts.
fn open_namespaces() -> Result<Vec<OwnedFd>, SetupError> {
    let namespaces = ["pid", "user", "mnt", "net", "ipc", "uts"].map(|name| {
        open(
            format!("/proc/self/ns/{name}"),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .step(format!("opening the {name} namespace"))
    });
    namespaces.into_iter().collect()
}

/// Whether a message, or the end of the channel, can be read at once.
fn has_message(channel: &Channel) -> io::Result<bool> {
    let mut ready = [PollFd::new(channel, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut ready, Some(&Timespec::default())))? > 0)
}

/// Moves a process into cgroups. The kernel takes the number as this process means it: whatever the session's code
/// does, the one that is moved is of this session.
fn move_process(pid: i32, cgroups: &[OwnedFd]) -> io::Result<()> {
    let pid = pid.to_string();
    for cgroup in cgroups {
        rustix::io::write(cgroup, pid.as_bytes())?;
    }
    Ok(())
}

/// Returns what the host needs: init itself, the workspace, the namespaces in the order pid, user,
/// mount, net, ipc, uts, the Landlock rules, and, if requested, a listener for the proxy.
fn prepare(
    request: &InitRequest,
    spec: &RootSpec,
    mapper: Channel,
    directories: &[OwnedFd],
) -> Result<Vec<OwnedFd>, SetupError> {
    let _ = sys::set_name(c"belljar-init");
    rustix::system::sethostname(b"belljar").step("setting the host name")?;
    sys::loopback_up().step("bringing loopback up")?;
    root::mount_private_directories(request, spec)?;
    directories::mount(&request.directories, spec, directories)?;
    root::mount_proc().step("mounting /proc")?;
    root::hide_of_proc().step("hiding parts of /proc")?;
    let workspace = open_directory("/workspace").step("opening the workspace")?;
    enter_user_namespace(mapper)?;
    let this = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )
    .step("opening init")?;
    let mut offer = vec![this, workspace];
    offer.extend(open_namespaces()?);
    offer.push(landlock::ruleset()?);
    if request.proxy {
        // A socket belongs to the network namespace that it was made in, whoever holds it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))
            .step("listening for the session's requests")?;
        offer.push(listener.into());
    }
    // From here on nothing in the session may look into init or act through it.
    sys::set_dumpable(false).step("hiding init")?;
    sys::drop_capabilities().step("dropping init's capabilities")?;
    sys::no_new_privileges().step("giving up new privileges")?;
    Ok(offer)
}

/// Makes the session's user namespace. It comes last and owns none of the others, so that even a
/// regained capability in it has no power over the session's mounts or network.
///
/// This process becomes the session's owner after that, not before: Ubuntu's kernel restricts
/// processes that make one without capabilities, and all that they do in it.
fn enter_user_namespace(mapper: Channel) -> Result<(), SetupError> {
    sys::unshare(libc::CLONE_NEWUSER).step("making the user namespace")?;
    // So that the mapper sees its maps. Nothing of the session runs yet.
    sys::set_dumpable(true).step("opening init's maps")?;
    mapper.send(&(), &[]).step("asking for the session's ids")?;
    match mapper.receive().step("waiting for the session's ids")? {
        Some((Mapped(None), _)) => {}
        Some((Mapped(Some(error)), _)) => return Err(SetupError::Reported(error)),
        None => {
            let why = "the process that maps the session's ids is gone";
            return Err(SetupError::Process(why));
        }
    }
    drop(mapper);
    // A namespace inside would give back capabilities, over itself alone, but with them a part of
    // the kernel that a session has no use for.
    fs::write("/proc/sys/user/max_user_namespaces", "0")
        .step("forbidding user namespaces inside")?;
    sys::set_ids(GUEST_ID, GUEST_ID).step("becoming the session's owner")?;
    // It was tied to its parent before its ids changed.
    sys::die_with_parent().step("tying init to the spawner")
}

/// The result of mapping the ids; the error if they could not be mapped.
#[derive(Serialize, Deserialize)]
struct Mapped(Option<String>);

/// The whole life of the process that maps the ids of one session's user namespace, once init has made that: it
/// takes capabilities outside of it.
pub(crate) fn run_mapper(pid: libc::pid_t, owner: u32, init: &Channel) -> ! {
    if let Ok(Some(((), _))) = init.receive() {
        let mapped = sys::die_with_parent()
            .step("tying the mapper to the spawner")
            .and_then(|()| map_ids(&pid.to_string(), GUEST_ID, owner, owner, 1, false));
        let error = mapped.err().map(|error| error.to_string());
        let _ = init.send(&Mapped(error), &[]);
    }
    sys::exit_now(0);
}
