//! Forks: new sessions that start as copies of a live one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use belljar_protocol::{ForkRoom, GuestFrame, HostFrame, encode_frame};
use belljar_walls::{Beneath, RoomRequest, SessionCgroup, send_message};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::{mpsc, oneshot};

use crate::buffers::Share;
use crate::call::{CallRequest, WaitingCall};
use crate::cell::nonce;
use crate::copies::Copies;
use crate::error::Error;
use crate::family::{Family, Room};
use crate::guest::{Guest, GuestError};
use crate::life::Live;
use crate::network::Proxy;
use crate::options::SessionOptions;
use crate::plumbing::Plumbing;
use crate::session::Session;
use crate::shared::Shared;
use crate::starting::cgroup_limits;
use crate::tools::Toolset;
use crate::warm::{Offer, PATIENCE, Warm};

/// How long a session may take to release its forks, and a fork to copy the workspace.
const FORK_TIME: Duration = Duration::from_mins(1);

impl Session {
    /// Makes new sessions that start as copies of this one: all variables, a copy of the workspace,
    /// the same limits, each of its own. Afterwards the sessions are independent. The random
    /// generators of Python and numpy are reseeded.
    ///
    /// Waits for a running cell, unless its main thread waits in a call: then each fork waits in
    /// that call too, and continues when it is [resumed](Session::resume). If other calls are open
    /// too, it can't be forked. Forks may call the same tools, until one is
    /// [revoked](Session::revoke).
    ///
    /// Forks live in the namespaces of this session; docs/checkpoints.md describes what they share.
    pub async fn fork(&self, count: u32) -> Result<Vec<Self>, Error> {
        if self.is_in_call()
            && let Some(forks) = self
                .call_request(|done| CallRequest::Fork { count, done })
                .await
        {
            return forks;
        }
        let (shared, mut guest) = self.wires().await?;
        make_forks(&shared, &mut guest, count).await
    }

    /// The current directory of the session's code: `/workspace`, or a fork's own.
    pub fn directory(&self) -> PathBuf {
        let path = |live: Live| live.shared.room.as_ref().map(Room::workspace);
        let room = self.now().and_then(path);
        room.unwrap_or_else(|| PathBuf::from("/workspace"))
    }
}

/// Makes forks of a guest that waits for a request, or for the answer to a call.
pub(crate) async fn make_forks(
    shared: &Shared,
    guest: &mut Guest,
    count: u32,
) -> Result<Vec<Session>, Error> {
    let Some(family) = &shared.family else {
        return Err(Error::Fork("without walls there are no forks".into()));
    };
    let mut pending = Vec::new();
    for _ in 0..count {
        pending.push(Beginning::ask(shared, family).await?);
    }
    let mut beginnings = Vec::new();
    for (mut beginning, offer) in pending {
        beginning.prepare(shared, offer).await?;
        beginnings.push(beginning);
    }
    if beginnings.is_empty() {
        return Ok(Vec::new());
    }
    // Meanwhile the session makes its forks.
    if let Some(cgroup) = &shared.cgroup {
        family.orphans.expect_moves(cgroup).await;
    }
    match tokio::time::timeout(FORK_TIME, hand_over(guest, &beginnings)).await {
        Ok(Ok(_)) => {}
        // Its next answer would be misread.
        failed => {
            let why = match failed {
                Ok(Err(GuestError::Protocol(why))) => format!("it broke the protocol: {why}"),
                Ok(_) => "its process is gone".into(),
                Err(_) => "it did not make its forks in time".into(),
            };
            return Err(shared.fail(Error::Ended(why)));
        }
    }
    for beginning in &mut beginnings {
        beginning.admit(shared, guest.another_share()).await?;
    }
    let mut forks = Vec::new();
    for beginning in beginnings {
        forks.push(beginning.finish(shared, guest).await?);
    }
    Ok(forks)
}

/// Requests the forks and sends each its descriptors; returns how many were made.
async fn hand_over(guest: &mut Guest, beginnings: &[Beginning]) -> Result<u32, GuestError> {
    let count = u32::try_from(beginnings.len()).unwrap_or(u32::MAX);
    let request = encode_frame(&HostFrame::Fork { count }, &[])
        .map_err(|error| GuestError::Protocol(error.to_string()))?;
    guest.control.write_all(&request).await?;
    let is_forking = |frame: &GuestFrame| matches!(frame, GuestFrame::Forking).then_some(());
    guest.expect(is_forking).await?;
    for beginning in beginnings {
        let (Some(room), Some(wires)) = (&beginning.room, &beginning.wires) else {
            continue;
        };
        let told = ForkRoom {
            workspace: room.workspace(),
            cell: guest.cells,
            nonce: beginning.nonce.clone(),
        };
        let descriptors = wires.plumbing.theirs.iter().chain([&wires.rules]);
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.map(AsFd::as_fd).collect();
        let control = &guest.control;
        let send = || send_message(control, &told, &descriptors);
        control.async_io(Interest::WRITABLE, send).await?;
    }
    let made = |frame: &GuestFrame| match frame {
        GuestFrame::ForksMade { made } => Some(*made),
        _ => None,
    };
    guest.expect(made).await
}

/// A fork that is being made. If a step fails, its resources are released.
struct Beginning {
    id: u64,
    warm: Arc<Warm>,
    nonce: String,
    /// None once it is a session.
    room: Option<Room>,
    cgroup: Option<SessionCgroup>,
    wires: Option<Wires>,
    /// None until it is in its cgroups.
    admitted: Option<Admitted>,
}

struct Wires {
    plumbing: Plumbing,
    /// Landlock's rules.
    rules: OwnedFd,
    workspace: OwnedFd,
}

/// A fork that is in its cgroups.
struct Admitted {
    guest: Guest,
    pid: i32,
    interrupts: OwnedFd,
    workspace: OwnedFd,
}

impl Beginning {
    /// Requests a fork slot.
    async fn ask(shared: &Shared, family: &Arc<Family>) -> Result<(Self, Offer), Error> {
        let warm = &shared.warm;
        let room = Room::find(family, warm, shared.room.as_ref())?;
        let path = room.path().to_owned();
        let (id, offer, _) = warm.expect_session()?;
        let beginning = Self {
            id,
            warm: Arc::clone(warm),
            nonce: nonce(),
            room: Some(room),
            cgroup: None,
            wires: None,
            admitted: None,
        };
        let request = RoomRequest {
            id,
            room: path,
            owner: warm.owner(family.id),
            workspace_bytes: shared.limits.workspace_bytes,
            inodes: shared.limits.inodes,
        };
        warm.ask_for_room(&family.mounts, request).await?;
        Ok((beginning, offer))
    }

    /// Makes its resources, and waits for its fork slot.
    async fn prepare(&mut self, shared: &Shared, offer: Offer) -> Result<(), Error> {
        let (Some(cgroups), Some(parent)) = (self.warm.cgroups(), &shared.cgroup) else {
            return Err(Error::Fork("there are no cgroups".into()));
        };
        let limits = cgroup_limits(&shared.limits);
        self.cgroup = Some(cgroups.beside(parent, &self.id.to_string(), limits)?);
        let plumbing = Plumbing::new().map_err(Error::io("a fork's pipes"))?;
        let offer = match tokio::time::timeout(PATIENCE, offer).await {
            Ok(Ok(offer)) => offer.map_err(Error::Fork)?,
            _ => return Err(Error::Fork("its fork slot was not made".into())),
        };
        let Ok([workspace, rules]) = <[OwnedFd; 2]>::try_from(offer) else {
            return Err(Error::Fork("its fork slot is incomplete".into()));
        };
        self.wires = Some(Wires {
            plumbing,
            rules,
            workspace,
        });
        Ok(())
    }

    /// Waits for the fork's process, moves it into its cgroups, and lets it continue.
    async fn admit(&mut self, shared: &Shared, buffers: Share) -> Result<(), Error> {
        let failed = |why: &str| Error::Fork(why.to_owned());
        let (Some(wires), Some(family), Some(cgroup), Some(parent)) = (
            self.wires.take(),
            &shared.family,
            &self.cgroup,
            &shared.cgroup,
        ) else {
            return Err(failed("it was not prepared"));
        };
        let Plumbing {
            control,
            interrupts,
            stdout,
            stderr,
            theirs,
        } = wires.plumbing;
        // From here on the fork has the only ones.
        drop((theirs, wires.rules));
        // The proxy of the namespace group reports to its first session.
        let (_, denials) = mpsc::channel(1);
        let (_, exit) = oneshot::channel();
        let copies = Copies::new(Some(family.orphans.clone()), shared.checkpoints);
        let mut guest = Guest::new(control, stdout, stderr, denials, exit, copies, buffers);
        let Ok(Ok((GuestFrame::Forked { pid }, _))) =
            tokio::time::timeout(FORK_TIME, guest.frame()).await
        else {
            return Err(failed("its process did not start"));
        };
        // Whatever it says, it is a process of its parent session.
        if parent.member(pid).is_none() {
            return Err(failed("its process is gone"));
        }
        let moved = family.orphans.move_into(pid, cgroup);
        match tokio::time::timeout(PATIENCE, moved).await {
            Ok(moved) => moved.map_err(|why| Error::Fork(format!("its cgroups: {why}")))?,
            Err(_) => return Err(failed("init did not move it into its cgroups")),
        }
        let go = guest.control.write_all(b"\n").await;
        go.map_err(|_| failed("its process is gone"))?;
        self.admitted = Some(Admitted {
            guest,
            pid,
            interrupts,
            workspace: wires.workspace,
        });
        Ok(())
    }

    /// Waits until the fork is ready, and makes it a session.
    async fn finish(mut self, shared: &Shared, parent: &Guest) -> Result<Session, Error> {
        let failed = |why: &str| Error::Fork(why.to_owned());
        let (Some(admitted), Some(family)) = (self.admitted.take(), &shared.family) else {
            return Err(failed("it was not prepared"));
        };
        let Admitted {
            mut guest,
            pid,
            interrupts,
            workspace,
        } = admitted;
        match tokio::time::timeout(FORK_TIME, guest.frame()).await {
            Ok(Ok((GuestFrame::Ready, _))) => {}
            Ok(Ok((GuestFrame::Fault { detail }, _))) => return Err(Error::Fork(detail)),
            _ => return Err(failed("its process did not start")),
        }
        let process = self.cgroup.as_ref().and_then(|cgroup| cgroup.member(pid));
        let (Some((_, interpreter)), Some(exit)) = (process, family.orphans.watch(pid)) else {
            return Err(failed("its process is gone"));
        };
        guest.ready = true;
        guest.cells = parent.cells;
        guest.copies.go_on_from(&parent.copies);
        guest.set_exit(exit);
        guest.lost.clone_from(&parent.lost);
        guest.layers.clone_from(&parent.layers);
        guest.traffic = shared.proxy().map(Proxy::traffic).unwrap_or_default();
        guest.waiting = parent.waiting.clone().map(|waiting| WaitingCall {
            nonce: self.nonce.clone(),
            ..waiting
        });
        let fork = Shared {
            id: self.id,
            limits: shared.limits.clone(),
            walls: shared.walls,
            checkpoints: shared.checkpoints,
            packages: shared.packages.clone(),
            output_directory: self.warm.output_directory(self.id),
            workspace: Beneath::new(workspace),
            writer: Mutex::default(),
            family: Some(Arc::clone(family)),
            interpreter: Mutex::new(Arc::new(interpreter)),
            interrupts,
            cgroup: self.cgroup.take(),
            running: AtomicU32::new(0),
            ended: Mutex::default(),
            asleep: RwLock::default(),
            tools: Arc::new(Toolset::clone(&shared.tools)),
            calls: Mutex::default(),
            waiting: Mutex::new(guest.waiting.as_ref().map(|waiting| waiting.id)),
            room: self.room.take(),
            warm: Arc::clone(&self.warm),
        };
        // A fork does not hibernate.
        let options = SessionOptions {
            limits: shared.limits.clone(),
            checkpoints: shared.checkpoints,
            ..SessionOptions::default()
        };
        Ok(Session::new(Live::new(fork, guest), options))
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if self.room.is_none() {
            return;
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill_all_but(&[]);
            self.warm.discard(cgroup);
        }
        self.warm.forget(self.id);
    }
}
