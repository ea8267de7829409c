//! The process that starts templates and inits: process 1 of the outer pid namespace, so that its
//! death is the death of everything.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::channel::Channel;
use crate::commands;
use crate::error::{SetupError, StepContext};
use crate::init;
use crate::landlock;
use crate::message::{ForkSlotRequest, InitRequest, Report, Request};
use crate::process::Process;
use crate::root::{self, RootSpec};
use crate::sys::{self, Forked};
use crate::writer;

/// Runs as process 1 of the outer pid namespace; returns when the host is gone.
/// Without a root there are no walls: it starts templates as ordinary processes, and no inits.
pub(crate) fn run(root: Option<&RootSpec>, host: &Channel) -> Result<(), SetupError> {
    let _ = sys::set_name(c"belljar-spawner");
    let mut empty = None;
    if root.is_some() {
        // Libraries ask for it while they are imported, and every session has the template's memory.
        rustix::system::sethostname(b"belljar").step("setting the template's host name")?;
        empty = Some(root::empty_namespace()?);
    }
    let children = sys::child_signal_descriptor().step("watching children")?;
    let mut inits: HashMap<i32, u64> = HashMap::new();
    let mut helpers: HashSet<i32> = HashSet::new();
    host.send(&Report::Up, &[]).step("greeting the host")?;
    loop {
        let mut watched = [
            PollFd::new(host, PollFlags::IN),
            PollFd::new(&children, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).step("waiting for work"),
        }
        let (work, ended) = (
            !watched[0].revents().is_empty(),
            !watched[1].revents().is_empty(),
        );
        if ended {
            reap(&children, &mut inits, &mut helpers, host).step("reporting a child")?;
        }
        if work {
            let Some((request, descriptors)) = host.receive().step("reading a request")? else {
                return Ok(());
            };
            match request {
                Request::Template { argv, environment } => {
                    let walls = root.zip(empty.as_ref());
                    start_template(&argv, &environment, walls, descriptors, host)
                        .step("starting the template")?;
                }
                Request::Ping => host.send(&Report::Pong, &[]).step("answering the host")?,
                Request::ForkSlot(request) => {
                    let id = request.id;
                    let fail = |error: SetupError| report_failure(id, &error, host);
                    let work = || {
                        if let Err(error) = make_slot(&request, host) {
                            let _ = fail(error);
                        }
                    };
                    if let Err(error) = inside(&descriptors, work) {
                        fail(error).step("reporting a failure")?;
                    }
                }
                // Where it can't be, the namespaces are on their way out themselves.
                Request::ReleaseSlot { path } => {
                    let _ = inside(&descriptors, || root::unmount_slot(&path));
                }
                // Where it can't be started, its socket is closed, which the host sees.
                Request::Writer { source } => {
                    if let Ok(pid) = start_writer(descriptors, source) {
                        helpers.insert(pid);
                    }
                }
                // As for a writer.
                Request::CommandServer(request) => {
                    if let Some(empty) = &empty
                        && let Ok(pid) = commands::start(&request, descriptors, empty)
                    {
                        helpers.insert(pid);
                    }
                }
                Request::Init(request) => {
                    let started = start_init(&request, root, host, &descriptors);
                    match started.step("making the session's namespaces") {
                        Ok((pid, mapper)) => {
                            inits.insert(pid, request.id);
                            helpers.extend(mapper);
                        }
                        Err(error) => {
                            let sent = report_failure(request.id, &error, host);
                            sent.step("reporting a failure")?;
                        }
                    }
                }
            }
        }
    }
}

/// An init could not prepare its session, or a fork slot could not be made.
fn report_failure(id: u64, error: &SetupError, host: &Channel) -> io::Result<()> {
    let error = error.to_string();
    host.send(&Report::InitFailed { id, error }, &[])
}

/// Starts init, and the process that maps its ids. If that one can't be started, init reports it.
fn start_init(
    request: &InitRequest,
    root: Option<&RootSpec>,
    host: &Channel,
    directories: &[OwnedFd],
) -> io::Result<(libc::pid_t, Option<libc::pid_t>)> {
    let root = root.ok_or_else(|| io::Error::other("there are no walls"))?;
    let watches = Channel::pair()?;
    let (theirs, mapper) = Channel::pair()?;
    let pid = match sys::clone_process(init::NAMESPACES)? {
        Forked::Child => {
            drop(mapper);
            init::run(request, root, host, theirs, watches, directories)
        }
        Forked::Parent(pid) => pid,
    };
    drop((theirs, watches));
    match sys::clone_process(0) {
        Ok(Forked::Child) => init::run_mapper(pid, request.owner, &mapper),
        Ok(Forked::Parent(mapper)) => Ok((pid, Some(mapper))),
        Err(_) => Ok((pid, None)),
    }
}

fn start_writer(descriptors: Vec<OwnedFd>, source: bool) -> io::Result<libc::pid_t> {
    match sys::clone_process(0)? {
        Forked::Child => writer::run(descriptors, source),
        Forked::Parent(pid) => Ok(pid),
    }
}

/// Works in the mount namespace that came with a request, in a process of its own.
fn inside(descriptors: &[OwnedFd], work: impl FnOnce()) -> Result<(), SetupError> {
    let mounts = descriptors.first();
    let mounts = mounts.ok_or(SetupError::Process("the request has no mounts"))?;
    match sys::clone_process(0).step("starting a process")? {
        Forked::Child => {
            let kind = Some(LinkNameSpaceType::Mount);
            let joined = move_into_link_name_space(mounts.as_fd(), kind);
            if joined.is_ok() {
                work();
            }
            sys::exit_now(i32::from(joined.is_err()));
        }
        Forked::Parent(pid) => match sys::wait(pid).step("waiting for a process")? {
            (_, 0) => Ok(()),
            _ => Err(SetupError::Process("its mounts could not be joined")),
        },
    }
}

fn make_slot(request: &ForkSlotRequest, host: &Channel) -> Result<(), SetupError> {
    root::mount_slot(request)?;
    let workspace =
        File::open(root::slot_workspace(&request.slot)).step("opening the workspace")?;
    let rules = landlock::fork_ruleset(&request.slot.display().to_string())?;
    let report = Report::Init { id: request.id };
    host.send(&report, &[workspace.as_fd(), rules.as_fd()])
        .step("reporting a fork slot")
}

fn reap(
    children: &OwnedFd,
    inits: &mut HashMap<i32, u64>,
    helpers: &mut HashSet<i32>,
    host: &Channel,
) -> io::Result<()> {
    sys::empty_signals(children);
    while let Some((pid, status)) = sys::try_wait_any() {
        // Its waiter sees the end of its socket.
        if helpers.remove(&pid) {
            continue;
        }
        let report = match inits.remove(&pid) {
            Some(id) => Report::InitExited { id },
            None => Report::Exited { pid, status },
        };
        host.send(&report, &[])?;
    }
    Ok(())
}

fn start_template(
    argv: &[String],
    environment: &[String],
    walls: Option<(&RootSpec, &OwnedFd)>,
    descriptors: Vec<OwnedFd>,
    host: &Channel,
) -> io::Result<()> {
    let strings = |list: &[String]| {
        list.iter()
            .map(|s| CString::new(s.as_str()))
            .collect::<Result<Vec<_>, _>>()
    };
    let (argv, environment) = (strings(argv)?, strings(environment)?);
    let mut descriptors = descriptors.into_iter();
    let (Some(channel), Some(log)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::Error::other("a template needs its channel and its log"));
    };
    let join = descriptors.next();
    match sys::clone_process(0)? {
        Forked::Child => {
            let joined = join.map_or(Ok(1), |join| rustix::io::write(&join, b"0"));
            let error = match joined {
                Ok(_) => become_template(&argv, &environment, walls, &channel, &log),
                Err(error) => error.into(),
            };
            let _ = rustix::io::write(&log, error.to_string().as_bytes());
            sys::exit_now(127);
        }
        Forked::Parent(pid) => {
            let process = Process::open(pid)?;
            host.send(&Report::Template, &[process.as_fd()])
        }
    }
}

/// The private directories of a template, in which it keeps caches of its imports.
const TEMPLATE: InitRequest = InitRequest {
    id: 0,
    owner: 0,
    workspace_bytes: 1 << 20,
    temporary_bytes: 64 << 20,
    inodes: 10_000,
    proxy: false,
    directories: Vec::new(),
};

/// Where a template finds the mount namespace that is empty (`walls.py`).
const EMPTY_NAMESPACE: i32 = 4;

fn become_template(
    argv: &[CString],
    environment: &[CString],
    walls: Option<(&RootSpec, &OwnedFd)>,
    channel: &OwnedFd,
    log: &OwnedFd,
) -> io::Error {
    let prepared = || -> io::Result<()> {
        sys::die_with_parent()?;
        sys::unblock_signals()?;
        // Imports want a place to write, which no session may share.
        if let Some((root, _)) = walls {
            sys::unshare(libc::CLONE_NEWNS)?;
            root::mount_private_directories(&TEMPLATE, root).map_err(io::Error::other)?;
        }
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::empty(),
        )?;
        // Out of the way of 0 to 4 first, since a target may be one of the sources.
        let mut targets = vec![(0, &null), (1, &null), (2, log), (3, channel)];
        targets.extend(walls.map(|(_, empty)| (EMPTY_NAMESPACE, empty)));
        let moved = targets.iter().map(|(target, source)| {
            let moved = sys::duplicate_above(source.as_raw_fd(), 10)?;
            Ok((*target, moved))
        });
        let moved: Vec<(i32, i32)> = moved.collect::<io::Result<_>>()?;
        drop(null);
        for (target, source) in &moved {
            sys::duplicate_to(*source, *target)?;
        }
        sys::close_from(u32::try_from(moved.len()).map_err(io::Error::other)?)
    };
    match prepared() {
        Ok(()) => sys::exec(argv, environment),
        Err(error) => error,
    }
}
