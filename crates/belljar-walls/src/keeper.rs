//! The process that outlives the host just long enough to clean up.

use std::fs;
use std::io::BufRead;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::channel::Channel;
use crate::error::{SetupError, StepContext};
use crate::identity::{SessionIds, map_ids};
use crate::message::Report;
use crate::spawner;
use crate::sys::{self, Forked};
use crate::{init, landlock, root};

/// Where a keeper finds its end of the channel.
pub(crate) const CHANNEL: i32 = 3;
/// Where a keeper finds the pipe whose end is the end of the host.
pub(crate) const LIFE: i32 = 4;

/// What a keeper will remove at the end. It gets this before any of it is made, so that there is no
/// moment at which the host could die and leave something behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperPlan {
    /// A directory of this engine alone.
    pub directory: PathBuf,
    /// Cgroup directories of this engine alone.
    pub cgroup_trees: Vec<PathBuf>,
}

/// Options of the walls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WallsSpec {
    /// What the template and sessions see.
    pub root: root::RootSpec,
    /// An empty directory on which the root is built.
    pub root_directory: PathBuf,
    /// The user and group ids for sessions, where the host may give them away; else all sessions run as the host's
    /// own user.
    pub ids: Option<SessionIds>,
    /// `--walls=none`: nothing of the above is made, and code runs as an ordinary process.
    pub none: bool,
}

/// The main function of a keeper.
pub(crate) fn run() -> ! {
    let _ = sys::set_name(c"belljar-keeper");
    // Its own session: a Ctrl-C at the terminal is for the host, which decides.
    let _ = rustix::process::setsid();
    // The root it builds is for other users too, whatever the host's umask is.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // SAFETY: `start` put the channel there, and nothing else in this new process owns it.
    let host = Channel::from(unsafe { OwnedFd::from_raw_fd(CHANNEL) });
    // SAFETY: `start` put the pipe there, and nothing else in this new process owns it.
    let life = unsafe { OwnedFd::from_raw_fd(LIFE) };
    let mut instructions = std::io::stdin().lock().lines();
    // A host that dies before it said the plan has made nothing.
    let Some(plan) = next::<KeeperPlan>(&mut instructions) else {
        sys::exit_now(1);
    };
    let kept = match next::<WallsSpec>(&mut instructions) {
        Some(spec) => keep(&spec, host, &life),
        None => Ok(()),
    };
    if let Err(error) = &kept {
        let _ = rustix::io::write(std::io::stderr(), format!("{error}\n").as_bytes());
    }
    clean_up(&plan);
    sys::exit_now(i32::from(kept.is_err()));
}

/// The next line of instructions, if the host lived to write it.
fn next<T: DeserializeOwned>(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Option<T> {
    serde_json::from_str(&lines.next()?.ok()?).ok()
}

/// Removes what belongs to this engine on the host.
fn clean_up(plan: &KeeperPlan) {
    for tree in &plan.cgroup_trees {
        let _ = cgroup::remove_tree(tree);
    }
    let _ = fs::remove_dir_all(&plan.directory);
}

fn keep(spec: &WallsSpec, host: Channel, life: &OwnedFd) -> Result<(), SetupError> {
    let children = sys::child_signal_descriptor().step("watching children")?;
    if spec.none {
        sys::adopt_orphans().step("adopting orphans")?;
    }
    let (read_pid, write_pid) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("making a pipe")?;
    match sys::clone_process(0).step("starting the builder")? {
        Forked::Child => {
            drop(read_pid);
            let answer = build(spec, &host);
            tell_failure(&answer, &host);
            let pid = answer.unwrap_or(0);
            let _ = rustix::io::write(&write_pid, &pid.to_le_bytes());
            sys::exit_now(i32::from(pid == 0));
        }
        Forked::Parent(builder) => {
            drop(write_pid);
            drop(host);
            let mut pid = [0; 4];
            let read = rustix::io::read(&read_pid, &mut pid);
            let _ = sys::wait(builder);
            let spawner = i32::from_le_bytes(pid);
            if read != Ok(4) || spawner == 0 {
                return Err(SetupError::Process("the walls could not be raised"));
            }
            wait_for_the_end(spawner, life, &children);
            let _ = sys::kill(spawner, libc::SIGKILL);
            let _ = sys::wait(spawner);
            if spec.none {
                end_descendants();
            }
            Ok(())
        }
    }
}

fn tell_failure<T>(result: &Result<T, SetupError>, host: &Channel) {
    if let Err(error) = result {
        let error = error.to_string();
        let _ = host.send(&Report::Failed { error }, &[]);
    }
}

/// Returns when the host or the spawner is gone.
fn wait_for_the_end(spawner: i32, life: &OwnedFd, children: &OwnedFd) {
    loop {
        let mut watched = [
            PollFd::new(life, PollFlags::IN),
            PollFd::new(children, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        // The host never writes: any event on the pipe is its end.
        if !watched[0].revents().is_empty() {
            return;
        }
        sys::empty_signals(children);
        while let Some((pid, _)) = sys::try_wait_any() {
            if pid == spawner {
                return;
            }
        }
    }
}

/// Builds the root and starts the spawner in it, in a process of its own since the way there
/// passes through a mount namespace. Returns the spawner's id; the keeper is its parent.
fn build(spec: &WallsSpec, host: &Channel) -> Result<i32, SetupError> {
    sys::die_with_parent().step("tying the builder to the keeper")?;
    if spec.none {
        return start_without_walls(host);
    }
    landlock::check_host()?;
    let privileged = spec.ids.is_some();
    if !privileged {
        let (uid, gid) = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        sys::unshare(libc::CLONE_NEWUSER).step("making a user namespace (see `belljar doctor`)")?;
        map_ids("self", 0, uid, gid, 1, false)?;
    }
    sys::unshare(libc::CLONE_NEWNS).step("making a mount namespace")?;
    root::enter(&spec.root, &spec.root_directory)?;

    let (ours, theirs) = Channel::pair().step("making a channel")?;
    let flags = libc::CLONE_NEWUSER | init::NAMESPACES | libc::CLONE_PARENT;
    match sys::clone_process(flags).step("making the outer namespaces")? {
        Forked::Child => {
            drop(ours);
            let proc = wait_for_proc(&theirs);
            drop(theirs);
            let result = proc
                .and_then(|proc| {
                    become_spawner(privileged)?;
                    root::show_proc(&proc).step("showing /proc to the template")
                })
                .and_then(|()| spawner::run(Some(&spec.root), host));
            tell_failure(&result, host);
            sys::exit_now(i32::from(result.is_err()));
        }
        Forked::Parent(pid) => {
            drop(theirs);
            let ids = spec.ids.unwrap_or(SessionIds { first: 0, count: 1 });
            let (first, count) = (ids.first, ids.count);
            map_ids(&pid.to_string(), 0, first, first, count, privileged)?;
            give_proc(pid, &ours)?;
            Ok(pid)
        }
    }
}

/// The result of making the spawner's `/proc`: the error, or none, and the mount beside it.
#[derive(Serialize, Deserialize)]
struct Made(Option<String>);

/// Makes the spawner's `/proc`, by a process in the spawner's pid namespace and in this user namespace: inside of the
/// spawner's own, the kernel refuses one where a part of the one outside is hidden, as in a container.
fn give_proc(spawner: i32, to: &Channel) -> Result<(), SetupError> {
    let namespace = fs::File::open(format!("/proc/{spawner}/ns/pid"))
        .step("opening the outer pid namespace")?;
    let kind = Some(LinkNameSpaceType::ProcessID);
    move_into_link_name_space(namespace.as_fd(), kind).step("joining the outer pid namespace")?;
    match sys::clone_process(0).step("starting a process")? {
        Forked::Child => {
            let sent = match root::detached_proc().step("mounting /proc for the template") {
                Ok(proc) => to.send(&Made(None), &[proc.as_fd()]),
                Err(error) => to.send(&Made(Some(error.to_string())), &[]),
            };
            sys::exit_now(i32::from(sent.is_err()));
        }
        Forked::Parent(child) => sys::wait(child).step("waiting for a process").map(drop),
    }
}

/// In the spawner: its ids are mapped when this returns.
fn wait_for_proc(from: &Channel) -> Result<OwnedFd, SetupError> {
    match from.receive().step("waiting for /proc")? {
        Some((Made(None), mut descriptors)) => {
            let proc = descriptors.pop();
            proc.ok_or(SetupError::Process("no `/proc` was received"))
        }
        Some((Made(Some(error)), _)) => Err(SetupError::Reported(error)),
        // The builder tells why.
        None => sys::exit_now(1),
    }
}

/// The spawner as an ordinary process: no pid namespace ends what it leaves.
fn start_without_walls(host: &Channel) -> Result<i32, SetupError> {
    match sys::clone_process(libc::CLONE_PARENT).step("starting the spawner")? {
        Forked::Child => {
            let result = sys::die_with_parent()
                .and_then(|()| sys::adopt_orphans())
                .step("preparing the spawner")
                .and_then(|()| spawner::run(None, host));
            tell_failure(&result, host);
            sys::exit_now(i32::from(result.is_err()));
        }
        Forked::Parent(pid) => Ok(pid),
    }
}

/// Ends all processes below this one. Orphans come to it, so in the end there is no child left.
fn end_descendants() {
    loop {
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        for child in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
        {
            let _ = sys::kill(child, libc::SIGKILL);
        }
        // Fails when there is none.
        if sys::wait(-1).is_err() {
            return;
        }
    }
}

fn become_spawner(privileged: bool) -> Result<(), SetupError> {
    if privileged {
        sys::clear_groups().step("leaving all groups")?;
        sys::set_ids(0, 0).step("becoming the spawner's user")?;
    }
    sys::die_with_parent().step("tying the spawner to the keeper")
}
