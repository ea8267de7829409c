//! From a process that the backend has started to an awake session.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use belljar_protocol::{GuestFrame, HostFrame, Walls};
use tokio::sync::mpsc::channel;

use crate::backend::namespace_group::NamespaceGroup;
use crate::backend::starting::Started;
use crate::backend::warm::WarmBackend;
use crate::backend::workspace::Workspace;
use crate::buffers::Share;
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

/// Starts a session, and offers it its tools.
pub(crate) async fn start(
    warm: Arc<WarmBackend>,
    options: &SessionOptions,
    walls: Walls,
    tools: Arc<Toolset>,
) -> Result<AwakeSession, Error> {
    let variables = SessionVariables::new(&options.variables, &options.secrets)?;
    let scrubber = Arc::clone(variables.scrubber());
    let Started {
        id,
        control,
        interrupts,
        stdout,
        stderr,
        init,
        interpreter,
        workspace,
        cgroup,
        listener,
        watches,
        exit,
    } = warm
        .start_session(options, walls != Walls::Unfiltered)
        .await?;
    let (reports, denials) = channel(MAX_DENIALS);
    let proxy = match (listener, &options.network) {
        (Some(listener), Network::Allow(list)) => {
            let proxy = Proxy::start(listener.into(), list.clone(), reports);
            Some(proxy.map_err(Error::io("the session's proxy"))?)
        }
        _ => None,
    };
    let namespace_group = match init.zip(watches) {
        Some(((init, mounts), watches)) => {
            let namespace_group = NamespaceGroup::new(id, init, mounts, watches, proxy);
            Some(Arc::new(
                namespace_group.map_err(Error::io("the session's orphans"))?,
            ))
        }
        None => None,
    };
    let orphans = namespace_group
        .as_ref()
        .map(|namespace_group| namespace_group.orphans.clone());
    let checkpoints = options.checkpoints;
    let mut checkpoint_set = CheckpointSet::new(orphans, checkpoints);
    if checkpoints != Checkpoints::Off {
        checkpoint_set.stand_before(&interpreter);
    }
    let awake = AwakeSession::new(
        SessionHandle {
            id,
            tenant: options.tenant.clone(),
            limits: options.limits.clone(),
            walls,
            checkpoints,
            packages: options.packages.clone(),
            variables,
            set_by: options.set_by,
            output_directory: warm.output_directory(id),
            workspace: Workspace::new(workspace, &warm),
            temporary: OnceLock::new(),
            watches: Watches::default(),
            connections: Connections::default(),
            namespace_group,
            interpreter: Mutex::new(Arc::new(interpreter)),
            interrupts,
            meter: cgroup.into(),
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
            warm,
        },
        Guest::new(
            control,
            [stdout, stderr],
            denials,
            exit,
            checkpoint_set,
            Share::new(options.tenant.as_deref()),
            scrubber,
        ),
    );
    grant(&awake).await?;
    Ok(awake)
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
