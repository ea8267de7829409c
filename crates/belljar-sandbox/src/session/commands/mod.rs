//! Commands: programs that run in a session beside its cells.

mod capture;
mod command;
pub(crate) mod list;
mod log;
mod process;
mod server;

use std::path::Path;
use std::sync::Arc;

use belljar_protocol::Walls;
use belljar_walls::{CommandServerRequest, CommandSpec, HOME};

pub use capture::CommandCapture;
pub use command::{Command, TerminalSize};
pub use log::{OutputChunk, OutputPart, OutputStream};
pub use process::{CommandEnd, CommandProcess};

use crate::backend::namespace_group::ForkSlot;
use crate::backend::process::process_limits;
use crate::backend::rootfs::command_environment;
use crate::buffers::Share;
use crate::capabilities::Capability;
use crate::error::Error;
use crate::lock::lock;
use crate::session::Session;
use crate::session::handle::SessionHandle;
use server::ServerPlace;

/// The most commands of a session that run at once.
const MOST_RUNNING: usize = 128;

/// Starting and listing commands.
impl Session {
    /// Starts a program in the session, also while a cell runs. It is within the session's limits and walls, and
    /// ends with it, when the session hibernates, and when a checkpoint is restored.
    ///
    /// # Errors
    /// [`Error::Command`] if the program can't be started, or too many run; [`Error::Unsupported`] without walls.
    pub async fn spawn(&self, command: Command) -> Result<Arc<CommandProcess>, Error> {
        let handle = self.lifecycle().awake().await?.handle;
        handle.check()?;
        handle
            .backend
            .capabilities()
            .require(Capability::Commands)?;
        command.check()?;
        if handle.commands.running() >= MOST_RUNNING {
            let why =
                format!("{MOST_RUNNING} commands are running, the maximum\nhint: end one of them");
            return Err(Error::Command(why));
        }
        let place = place(&handle)?;
        let server = handle.commands.server(place).await?;
        let share = Share::new(handle.tenant.as_deref());
        let spec = spec(&handle, &command);
        let (process, following) = process::start(&server, command, &spec, share).await?;
        let scrubber = Arc::clone(handle.variables.scrubber());
        handle.commands.add(&process);
        tokio::spawn(async move {
            let _busy = handle.meter.busy();
            tokio::join!(following.run(handle.limits.grace, &scrubber), server.fill());
        });
        Ok(process)
    }

    /// The commands that run, and the last ones that have ended, the oldest first. None while the session is
    /// hibernated.
    pub fn commands(&self) -> Vec<Arc<CommandProcess>> {
        self.now()
            .map_or_else(Vec::new, |awake| awake.handle.commands.list())
    }

    /// The command with this process id.
    pub fn command(&self, pid: i32) -> Option<Arc<CommandProcess>> {
        let commands = self.commands();
        commands.into_iter().rev().find(|one| one.pid() == pid)
    }
}

/// Where the command server of a session is started.
fn place(handle: &SessionHandle) -> Result<ServerPlace<'_>, Error> {
    let group = handle.namespace_group.as_ref();
    let no_namespaces = || Error::Command("the session runs without walls".into());
    Ok(ServerPlace {
        warm: handle.backend.warm(Capability::Commands)?,
        namespaces: group.ok_or_else(no_namespaces)?,
        cgroup: handle.meter.cgroup(),
        request: CommandServerRequest {
            slot: handle
                .slot
                .as_ref()
                .map(|slot: &ForkSlot| slot.path().to_owned()),
            filters: handle.walls != Walls::Unfiltered,
            limits: process_limits(&handle.limits, 0),
        },
    })
}

/// What a command's process needs to become its program.
fn spec(handle: &SessionHandle, command: &Command) -> CommandSpec {
    let workspace = handle.directory();
    let mut environment = command_environment(
        handle.backend.environment().python(),
        match handle.slot {
            Some(_) => &workspace,
            None => Path::new(HOME),
        },
        handle.limits.threads(),
        handle.proxy().is_some(),
        command.terminal.is_some(),
    );
    let packages: Vec<String> = lock(&handle.package_paths)
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if !packages.is_empty() {
        environment.insert("PYTHONPATH".into(), packages.join(":"));
    }
    for (name, value) in handle.variables.values().iter().chain(&command.variables) {
        environment.insert(name.clone(), value.clone());
    }
    CommandSpec {
        argv: command.argv.clone(),
        environment: environment
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        directory: match &command.directory {
            Some(directory) => workspace.join(directory),
            None => workspace,
        },
    }
}
