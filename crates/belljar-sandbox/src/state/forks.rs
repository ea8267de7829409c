//! Forks: new sessions that start as copies of a live one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use belljar_protocol::{ForkSetup, GuestFrame, HostFrame, encode_frame};
use belljar_walls::{ForkSlotRequest, SessionCgroup, send_message};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::{mpsc, oneshot};

use crate::backend::cgroups::cgroup_limits;
use crate::backend::namespace_group::{ForkSlot, NamespaceGroup};
use crate::backend::pipes::Pipes;
use crate::backend::process::SessionProcess;
use crate::backend::running::RunningBackend;
use crate::backend::waits::Offer;
use crate::backend::warm::{PATIENCE, WarmBackend};
use crate::backend::watched::Watched;
use crate::backend::workspace::Workspace;
use crate::buffers::Share;
use crate::capabilities::Capability;
use crate::error::Error;
use crate::lock::lock;
use crate::session::commands::list::Commands;
use crate::session::connections::Connections;
use crate::session::guest::{Guest, WaitingCall};
use crate::session::guest_error::{GuestError, ProtocolError};
use crate::session::handle::{AwakeSession, SessionHandle};
use crate::session::network::Proxy;
use crate::session::nonce::nonce;
use crate::session::tools::Toolset;
use crate::session::watches::Watches;
use crate::state::checkpoint_set::CheckpointSet;
use crate::variables::SecretGrant;

/// Why there is no fork, where its process never answered.
const NOT_STARTED: &str = "its process did not start\nhint: the session may be at its limit of processes or memory, or another of its threads computes without a pause";
/// Why there is no fork, where its process is gone.
const ENDED: &str = "its process ended at once\nhint: try again";
/// How long a session may take to release its forks, and a fork to copy the workspace.
const FORK_TIME: Duration = Duration::from_mins(1);

/// Makes forks of a guest that waits for a request, or for the answer to a call.
pub(crate) async fn make_forks(
    handle: &SessionHandle,
    guest: &mut Guest,
    count: u32,
    grant: &SecretGrant,
) -> Result<Vec<AwakeSession>, Error> {
    handle.backend.capabilities().require(Capability::Forks)?;
    let Some(namespace_group) = &handle.namespace_group else {
        return Err(Error::Fork("it runs without walls".into()));
    };
    let (_, withheld) = handle.variables.for_fork(grant)?;
    let mut pending = Vec::new();
    for _ in 0..count {
        pending.push(Beginning::ask(handle, namespace_group).await?);
    }
    let mut beginnings = Vec::new();
    for (mut beginning, offer) in pending {
        beginning.prepare(handle, offer).await?;
        beginnings.push(beginning);
    }
    if beginnings.is_empty() {
        return Ok(Vec::new());
    }
    // Meanwhile the session makes its forks.
    if let Some(cgroup) = handle.meter.cgroup() {
        namespace_group.orphans.expect_moves(cgroup).await;
    }
    match tokio::time::timeout(FORK_TIME, hand_over(guest, &beginnings, &withheld)).await {
        Ok(Ok(_)) => {}
        // Its next answer would be misread.
        Ok(Err(error)) => return Err(handle.fail(error.into())),
        Err(_) => {
            let why = "it did not make its forks in time".into();
            return Err(handle.fail(Error::Ended(why)));
        }
    }
    for beginning in &mut beginnings {
        beginning.admit(handle, guest.another_share()).await?;
    }
    let mut forks = Vec::new();
    for beginning in beginnings {
        forks.push(beginning.finish(handle, guest, grant).await?);
    }
    Ok(forks)
}

/// Requests the forks and sends each its descriptors; returns how many were made.
async fn hand_over(
    guest: &mut Guest,
    beginnings: &[Beginning],
    withheld: &[String],
) -> Result<u32, GuestError> {
    let count = u32::try_from(beginnings.len()).unwrap_or(u32::MAX);
    let request = encode_frame(&HostFrame::Fork { count, withheld }, &[])
        .map_err(|error| ProtocolError::Unwritable(error.to_string()))?;
    guest.control.write_all(&request).await?;
    let is_forking = |frame: &GuestFrame| matches!(frame, GuestFrame::Forking).then_some(());
    guest.expect(is_forking).await?;
    for beginning in beginnings {
        let (Some(slot), Some(wires)) = (&beginning.slot, &beginning.wires) else {
            continue;
        };
        let setup = ForkSetup {
            workspace: slot.workspace(),
            cell: guest.cells,
            nonce: beginning.nonce.clone(),
        };
        let descriptors = wires.pipes.theirs.iter().chain([&wires.rules]);
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.map(AsFd::as_fd).collect();
        let control = &guest.control;
        let send = || send_message(control, &setup, &descriptors);
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
    warm: Arc<WarmBackend>,
    nonce: String,
    /// None once it is a session.
    slot: Option<ForkSlot>,
    cgroup: Option<SessionCgroup>,
    wires: Option<Wires>,
    /// None until it is in its cgroups.
    admitted: Option<Admitted>,
}

struct Wires {
    pipes: Pipes,
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
    async fn ask(
        handle: &SessionHandle,
        namespace_group: &Arc<NamespaceGroup>,
    ) -> Result<(Self, Offer), Error> {
        let warm = handle.backend.warm(Capability::Forks)?;
        let slot = ForkSlot::find(namespace_group, warm, handle.slot.as_ref())?;
        let path = slot.path().to_owned();
        let (id, offer, _) = warm.expect_session()?;
        let beginning = Self {
            id,
            warm: Arc::clone(warm),
            nonce: nonce(),
            slot: Some(slot),
            cgroup: None,
            wires: None,
            admitted: None,
        };
        let request = ForkSlotRequest {
            id,
            slot: path,
            owner: warm.owner(namespace_group.id),
            workspace_bytes: handle.limits.workspace_bytes,
            inodes: handle.limits.inodes,
        };
        warm.ask_for_slot(&namespace_group.mounts, request).await?;
        Ok((beginning, offer))
    }

    /// Makes its resources, and waits for its fork slot.
    async fn prepare(&mut self, handle: &SessionHandle, offer: Offer) -> Result<(), Error> {
        let (Some(cgroups), Some(parent)) = (self.warm.cgroups(), handle.meter.cgroup()) else {
            return Err(Error::Fork("there are no cgroups".into()));
        };
        let limits = cgroup_limits(&handle.limits);
        self.cgroup = Some(cgroups.beside(parent, &self.id.to_string(), limits)?);
        let pipes = Pipes::new().map_err(Error::io("a fork's pipes"))?;
        let offer = match tokio::time::timeout(PATIENCE, offer).await {
            Ok(Ok(offer)) => offer.map_err(|error| Error::Fork(error.to_string()))?,
            _ => {
                return Err(Error::Fork(
                    "no workspace was made for the fork in time\nhint: try again".into(),
                ));
            }
        };
        let Ok([workspace, rules]) = <[OwnedFd; 2]>::try_from(offer) else {
            return Err(Error::Fork(
                "the workspace of the fork is incomplete".into(),
            ));
        };
        self.wires = Some(Wires {
            pipes,
            rules,
            workspace,
        });
        Ok(())
    }

    /// Waits for the fork's process, moves it into its cgroups, and lets it continue.
    async fn admit(&mut self, handle: &SessionHandle, buffers: Share) -> Result<(), Error> {
        let failed = |why: &str| Error::Fork(why.to_owned());
        let (Some(wires), Some(namespace_group), Some(cgroup), Some(parent)) = (
            self.wires.take(),
            &handle.namespace_group,
            &self.cgroup,
            handle.meter.cgroup(),
        ) else {
            return Err(failed("it was not prepared"));
        };
        let Pipes {
            control,
            interrupts,
            stdout,
            stderr,
            theirs,
        } = wires.pipes;
        // From here on the fork has the only ones.
        drop((theirs, wires.rules));
        // The proxy of the namespace group reports to its first session.
        let (_, denials) = mpsc::channel(1);
        let (_, exit) = oneshot::channel();
        let watched = Watched::Init(namespace_group.orphans.clone());
        let checkpoint_set = CheckpointSet::new(Some(watched), handle.checkpoints);
        let mut guest = Guest::new(
            control,
            [stdout, stderr],
            denials,
            exit,
            checkpoint_set,
            buffers,
            Arc::clone(handle.variables.scrubber()),
        );
        let Ok(Ok((GuestFrame::Forked { pid }, _))) =
            tokio::time::timeout(FORK_TIME, guest.frame()).await
        else {
            return Err(failed(NOT_STARTED));
        };
        // Whatever it says, it is a process of its parent session.
        if parent.member(pid).is_none() {
            return Err(failed(ENDED));
        }
        let moved = namespace_group.orphans.move_into(pid, cgroup);
        match tokio::time::timeout(PATIENCE, moved).await {
            Ok(moved) => moved.map_err(|why| {
                Error::Fork(format!(
                    "its process could not be put under its limits: {why}"
                ))
            })?,
            Err(_) => return Err(failed("its process was not put under its limits in time")),
        }
        let go = guest.control.write_all(b"\n").await;
        go.map_err(|_| failed(ENDED))?;
        self.admitted = Some(Admitted {
            guest,
            pid,
            interrupts,
            workspace: wires.workspace,
        });
        Ok(())
    }

    /// Waits until the fork is ready, and makes it a session.
    async fn finish(
        mut self,
        handle: &SessionHandle,
        parent: &Guest,
        grant: &SecretGrant,
    ) -> Result<AwakeSession, Error> {
        let failed = |why: &str| Error::Fork(why.to_owned());
        let (Some(admitted), Some(namespace_group)) =
            (self.admitted.take(), &handle.namespace_group)
        else {
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
            _ => return Err(failed(NOT_STARTED)),
        }
        let process = self.cgroup.as_ref().and_then(|cgroup| cgroup.member(pid));
        let (Some((_, interpreter)), Some(exit)) = (process, namespace_group.orphans.watch(pid))
        else {
            return Err(failed(ENDED));
        };
        guest.ready = true;
        guest.cells = parent.cells;
        guest.checkpoint_set.go_on_from(&parent.checkpoint_set);
        guest.set_exit(exit);
        guest.lost.clone_from(&parent.lost);
        guest.layers.clone_from(&parent.layers);
        guest.traffic = handle.proxy().map(Proxy::traffic).unwrap_or_default();
        guest.waiting = parent.waiting.clone().map(|waiting| WaitingCall {
            nonce: self.nonce.clone(),
            ..waiting
        });
        let fork = SessionHandle {
            id: self.id,
            tenant: handle.tenant.clone(),
            limits: handle.limits.clone(),
            walls: handle.walls,
            checkpoints: handle.checkpoints,
            packages: handle.packages.clone(),
            variables: handle.variables.for_fork(grant)?.0,
            set_by: handle.set_by,
            output_directory: self.warm.directory().output(self.id),
            workspace: Workspace::new(workspace, &self.warm),
            temporary: OnceLock::new(),
            watches: Watches::default(),
            connections: Connections::default(),
            namespace_group: Some(Arc::clone(namespace_group)),
            steward: None,
            interpreter: Mutex::new(Arc::new(SessionProcess::Held(interpreter))),
            interrupts,
            meter: self.cgroup.take().into(),
            running: AtomicU32::new(0),
            ended: Mutex::default(),
            hibernated: RwLock::default(),
            tools: Arc::new(Toolset::clone(&handle.tools)),
            calls: Mutex::default(),
            waiting: Mutex::new(guest.waiting.as_ref().map(|waiting| waiting.id)),
            commands: Commands::default(),
            package_paths: Mutex::new(lock(&handle.package_paths).clone()),
            namespaces: Mutex::new(lock(&handle.namespaces).clone()),
            slot: self.slot.take(),
            backend: RunningBackend::Warm(Arc::clone(&self.warm)),
        };
        Ok(AwakeSession::new(fork, guest))
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if self.slot.is_none() {
            return;
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill_all_but(&[]);
            self.warm.discard(cgroup);
        }
        self.warm.forget(self.id);
    }
}
