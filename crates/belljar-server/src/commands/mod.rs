//! Commands of sessions: starting and finding them, and charging their tenants.

mod book;
mod reader;
mod view;

use std::sync::Arc;
use std::time::Duration;

use belljar_sandbox::{
    Capability, Command, CommandEnd, CommandProcess, Error, SentBytes, Unsupported,
};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

pub(crate) use book::CommandBook;
pub(crate) use reader::{CommandPosition, CommandReader, explained, written};
pub(crate) use view::{CommandEvent, CommandView, ShownOutput};

use crate::admission::Permit;
use crate::charged::{Charge, SMALL};
use crate::problem::{Code, Problem};
use crate::service::Service;
use crate::sessions::SessionEntry;
use crate::tenants::Quota;

/// How often a running command is charged. It may run for days.
const CHARGE_EVERY: Duration = Duration::from_secs(10);

/// Whether the client of a command waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It does, and the command ends when the client is gone.
    Foreground,
    /// The command keeps running.
    Background,
}

/// A command that has started.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) process: Arc<CommandProcess>,
    /// Ends after the command, when that is charged and its permit is free.
    pub(crate) followed: JoinHandle<()>,
}

/// Starts a command, within what its tenant may use. A hibernated session wakes.
pub(crate) async fn start(
    service: &Arc<Service>,
    entry: &Arc<SessionEntry>,
    command: Command,
    presence: Presence,
) -> Result<StartedCommand, Problem> {
    let session = entry.session()?;
    let permit = service.admission.command(&entry.tenant)?;
    let variables = command.variables.iter();
    let variables = variables.map(|(name, value)| name.len() + value.len());
    let arguments = command.argv.iter().map(String::len);
    let bytes = arguments.chain(variables).sum();
    let charged = &service.admission.charged;
    let charge = (bytes > SMALL).then(|| charged.charge_or_refuse(&entry.tenant, bytes));
    let permit = (permit, charge.transpose()?);
    // Before the command has used any.
    let cpu = cpu_time(entry).await;
    let process = match session.spawn(command).await {
        Ok(process) => process,
        Err(Error::Command(why)) => return Err(not_started(&why)),
        Err(error @ Error::Unsupported(Unsupported(Capability::Commands))) => {
            return Err(not_started(&error.to_string()));
        }
        Err(error) => return Err(entry.explain(error)),
    };
    let sent = session.sent_bytes();
    // What runs does not keep the session from being deleted.
    drop(session);
    tracing::info!(pid = process.pid(), "command started");
    entry.commands.started(&process, cpu.unwrap_or_default());
    let follow = follow(
        Arc::clone(&process),
        Arc::clone(entry),
        presence,
        permit,
        sent,
        Arc::clone(service),
    );
    let followed = tokio::spawn(follow.in_current_span());
    Ok(StartedCommand { process, followed })
}

/// Why a command could not be started, without the numbers of the system.
fn not_started(why: &str) -> Problem {
    let why = why.find(" (os error ").map_or(why, |at| &why[..at]);
    let why = match why {
        // What the kernel says of a fork beyond the limit.
        "Resource temporarily unavailable" => "the session has its maximum of processes",
        why => why,
    };
    Problem::new(Code::CommandNotStarted, why)
}

/// The command with this process id.
pub(crate) fn find(entry: &SessionEntry, pid: i32) -> Result<Arc<CommandProcess>, Problem> {
    let mut known = known(entry)?.into_iter().rev();
    known
        .find(|process| process.pid() == pid)
        .ok_or_else(|| not_found(pid))
}

/// The commands of a session that have their output.
fn known(entry: &SessionEntry) -> Result<Vec<Arc<CommandProcess>>, Problem> {
    let mut known = entry.any_session()?.commands();
    // A session that hibernates forgets them before their ends are noted.
    for process in entry.commands.running() {
        if !known.iter().any(|one| Arc::ptr_eq(one, &process)) {
            known.push(process);
        }
    }
    Ok(known)
}

/// The view of the command with this process id.
pub(crate) fn show(
    service: &Service,
    entry: &SessionEntry,
    pid: i32,
) -> Result<CommandView, Problem> {
    let problem = match find(entry, pid) {
        Ok(process) => return Ok(view(service, &process, ShownOutput::Kept)),
        Err(problem) => problem,
    };
    let lost = entry.commands.lost().into_iter();
    lost.rev().find(|one| one.pid == pid).ok_or(problem)
}

/// The commands of a session, without output.
pub(crate) fn list(service: &Service, entry: &SessionEntry) -> Result<Vec<CommandView>, Problem> {
    let known = known(entry)?;
    let is_known = |one: &CommandView| known.iter().any(|process| process.pid() == one.pid);
    let mut all = entry.commands.lost();
    all.retain(|one| !is_known(one));
    let known = known.iter();
    all.extend(known.map(|process| view(service, process, ShownOutput::Absent)));
    Ok(all)
}

pub(crate) fn view(service: &Service, process: &CommandProcess, shown: ShownOutput) -> CommandView {
    let end = process.end().map(|end| explained(end, service));
    CommandView::new(process, end.as_ref(), shown)
}

fn not_found(pid: i32) -> Problem {
    let detail = format!("command {pid} was not started, or is no longer kept");
    Problem::new(Code::CommandNotFound, detail)
}

/// CPU time of a session that is awake. The kernel counts on request, which may block.
async fn cpu_time(entry: &SessionEntry) -> Option<Duration> {
    let session = entry.any_session().ok()?;
    let used = tokio::task::spawn_blocking(move || session.in_use()).await;
    used.ok().flatten()?.cpu_time
}

/// Charges a command to its end, and gives its permit back.
async fn follow(
    process: Arc<CommandProcess>,
    entry: Arc<SessionEntry>,
    presence: Presence,
    permit: (Permit, Option<Charge>),
    sent: Option<SentBytes>,
    service: Arc<Service>,
) {
    let foreground = (presence == Presence::Foreground).then(|| entry.commands.foreground());
    let mut charged_output = 0;
    let end = loop {
        let end = tokio::time::timeout(CHARGE_EVERY, process.wait()).await;
        let output = written(&process);
        let cpu = match cpu_time(&entry).await {
            Some(cpu) => entry.commands.charge(cpu),
            None => Duration::ZERO,
        };
        let new = output - charged_output;
        let egress = sent.as_ref().map_or(0, SentBytes::take);
        let admission = &service.admission;
        admission.spend_command(&entry.tenant, cpu, new, egress);
        charged_output = output;
        match end {
            Ok(end) => break end,
            // It has no time limit that would end it soon, unlike a cell.
            Err(_) if admission.check(&entry.tenant, &Quota::OF_CELLS).is_err() => {
                tracing::info!(pid = process.pid(), "command killed: quota exceeded");
                let _ = process.kill();
            }
            Err(_) => {}
        }
    };
    let is_lost = end.lost.is_some();
    let lost = is_lost.then(|| view(&service, &process, ShownOutput::Absent));
    entry.commands.ended(&process, lost);
    service.metrics.command(&end);
    log_end(&process, &end);
    drop((foreground, permit));
}

/// Logs the end, without arguments and output.
fn log_end(process: &CommandProcess, end: &CommandEnd) {
    let duration = process.started().elapsed().unwrap_or_default();
    tracing::info!(
        pid = process.pid(),
        exit_code = end.exit_code,
        signal = end.signal,
        timed_out = end.timed_out,
        lost = end.lost.is_some(),
        duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        "command ended"
    );
}
