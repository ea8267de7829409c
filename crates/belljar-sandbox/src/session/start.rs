//! From a process that the backend has started to an awake session.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use belljar_protocol::{Denial, GuestFrame, HostFrame, Walls};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;

use crate::backend::container::error::ContainerError;
use crate::backend::container::steward::Steward;
use crate::backend::container::{ContainerBackend, ContainerSession};
use crate::backend::meter::Meter;
use crate::backend::namespace_group::NamespaceGroup;
use crate::backend::process::SessionProcess;
use crate::backend::running::RunningBackend;
use crate::backend::warm::WarmBackend;
use crate::backend::watched::Watched;
use crate::backend::workspace::Workspace;
use crate::buffers::Share;
use crate::capabilities::Capabilities;
use crate::error::Error;
use crate::options::{Checkpoints, SessionOptions};
use crate::session::commands::list::Commands;
use crate::session::connections::Connections;
use crate::session::guest::Guest;
use crate::session::handle::{AwakeSession, SessionHandle};
use crate::session::network::{Network, Proxy};
use crate::session::tools::Toolset;
use crate::session::watches::Watches;
use crate::state::checkpoint_set::CheckpointSet;
use crate::variables::SessionVariables;

/// Denials that wait to be reported; more are counted.
const MAX_DENIALS: usize = 64;

/// What every backend gives a session.
struct Parts {
    id: u64,
    control: UnixStream,
    interrupts: OwnedFd,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    exit: oneshot::Receiver<i32>,
    interpreter: SessionProcess,
    workspace: Workspace,
    meter: Meter,
    namespace_group: Option<Arc<NamespaceGroup>>,
    steward: Option<Arc<Steward>>,
    denials: Receiver<Denial>,
}

/// Starts a session, and offers it its tools.
pub(crate) async fn start(
    backend: RunningBackend,
    options: &SessionOptions,
    walls: Walls,
    tools: Arc<Toolset>,
) -> Result<AwakeSession, Error> {
    let parts = match &backend {
        // Boxed, as both are large.
        RunningBackend::Warm(warm) => Box::pin(behind_walls(warm, options, walls)).await,
        RunningBackend::Container(containers) => {
            Box::pin(in_container(containers, backend.capabilities(), options)).await
        }
    };
    let awake = parts.and_then(|parts| assemble(backend, options, walls, tools, parts))?;
    grant(&awake).await?;
    Ok(awake)
}

/// Not a part of the future above, which would be as large as all that is moved here.
fn assemble(
    backend: RunningBackend,
    options: &SessionOptions,
    walls: Walls,
    tools: Arc<Toolset>,
    parts: Parts,
) -> Result<AwakeSession, Error> {
    let variables = SessionVariables::new(&options.variables, &options.secrets)?;
    let scrubber = Arc::clone(variables.scrubber());
    let watched = match (&parts.namespace_group, &parts.steward) {
        (Some(group), _) => Some(Watched::Init(group.orphans.clone())),
        (None, Some(steward)) => Some(Watched::Steward(Arc::clone(steward))),
        (None, None) => None,
    };
    let checkpoints = options.checkpoints;
    let mut checkpoint_set = CheckpointSet::new(watched, checkpoints);
    if checkpoints != Checkpoints::Off {
        checkpoint_set.stand_before(&parts.interpreter);
    }
    Ok(AwakeSession::new(
        SessionHandle {
            id: parts.id,
            tenant: options.tenant.clone(),
            limits: options.limits.clone(),
            walls,
            checkpoints,
            packages: options.packages.clone(),
            variables,
            set_by: options.set_by,
            output_directory: backend.output_directory(parts.id),
            workspace: parts.workspace,
            temporary: OnceLock::new(),
            watches: Watches::default(),
            connections: Connections::default(),
            namespace_group: parts.namespace_group,
            steward: parts.steward,
            interpreter: Mutex::new(Arc::new(parts.interpreter)),
            interrupts: parts.interrupts,
            meter: parts.meter,
            running: AtomicU32::new(0),
            ended: Mutex::default(),
            hibernated: RwLock::default(),
            tools,
            calls: Mutex::default(),
            waiting: Mutex::default(),
            commands: Commands::default(),
            package_paths: Mutex::default(),
            namespaces: Mutex::default(),
            slot: None,
            backend,
        },
        Guest::new(
            parts.control,
            [parts.stdout, parts.stderr],
            parts.denials,
            parts.exit,
            checkpoint_set,
            Share::new(options.tenant.as_deref()),
            scrubber,
        ),
    ))
}

async fn behind_walls(
    warm: &Arc<WarmBackend>,
    options: &SessionOptions,
    walls: Walls,
) -> Result<Parts, Error> {
    let started = warm
        .start_session(options, walls != Walls::Unfiltered)
        .await?;
    let (reports, denials) = channel(MAX_DENIALS);
    let proxy = match (started.listener, &options.network) {
        (Some(listener), Network::Allow(list)) => {
            let proxy = Proxy::start(listener.into(), list.clone(), reports);
            Some(proxy.map_err(Error::io("the session's proxy"))?)
        }
        _ => None,
    };
    let namespace_group = match started.init.zip(started.watches) {
        Some(((init, mounts), watches)) => {
            let group = NamespaceGroup::new(started.id, init, mounts, watches, proxy);
            Some(Arc::new(group.map_err(Error::io("the session's orphans"))?))
        }
        None => None,
    };
    Ok(Parts {
        id: started.id,
        control: started.control,
        interrupts: started.interrupts,
        stdout: started.stdout,
        stderr: started.stderr,
        exit: started.exit,
        interpreter: SessionProcess::Held(started.interpreter),
        workspace: Workspace::new(started.workspace, warm),
        meter: started.cgroup.into(),
        namespace_group,
        steward: None,
        denials,
    })
}

async fn in_container(
    containers: &ContainerBackend,
    capabilities: Capabilities,
    options: &SessionOptions,
) -> Result<Parts, Error> {
    let ContainerSession {
        id,
        pid,
        pipes,
        steward,
    } = containers.start_session(capabilities, options).await?;
    let twice = || ContainerError::Steward("its interpreter is there twice".to_owned());
    Ok(Parts {
        id,
        control: pipes.control,
        interrupts: pipes.interrupts,
        stdout: pipes.stdout,
        stderr: pipes.stderr,
        exit: steward.watch(pid).ok_or_else(twice)?,
        interpreter: SessionProcess::Told {
            steward: Arc::clone(&steward),
            pid,
        },
        workspace: Workspace::told(&steward, "/workspace"),
        meter: Meter::Told(Arc::clone(&steward)),
        namespace_group: None,
        steward: Some(steward),
        denials: channel(1).1,
    })
}

/// Offers its tools to the session's code.
async fn grant(awake: &AwakeSession) -> Result<(), Error> {
    let tools = awake.handle.tools.stubs();
    if tools.is_empty() {
        return Ok(());
    }
    let calls = awake.handle.limits.calls;
    let mut guest = awake.guest.lock().await;
    let meter = &awake.handle.meter;
    match guest.ask(&HostFrame::Grant { tools, calls }, meter).await {
        Ok(GuestFrame::Granted) => Ok(()),
        Ok(_) => Err(Error::session("it did not accept its tools")),
        Err(error) => Err(error),
    }
}
