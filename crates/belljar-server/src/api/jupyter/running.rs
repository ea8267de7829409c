//! The task of a kernel: it answers requests, restarts, and ends with its session.

use std::sync::Arc;
use std::time::Duration;

use belljar_jupyter::{Kernel, KernelEnd, KernelOptions, Outgoing, status_message};
use tokio::sync::mpsc;

use super::host::{ServiceHost, restart};
use crate::kernels::{KernelHandle, KernelInput, RestartAsked};
use crate::problem::{Code, Problem};
use crate::service::Service;
use crate::sessions::SessionEntry;

/// Messages on their way into the log.
const OUTGOING: usize = 64;

/// How often a kernel looks whether its session is there. One that is replaced is away for less than twice as long.
const LOOK: Duration = Duration::from_secs(2);

/// Looks that must find no session.
const MISSES: u32 = 2;

/// The kernel of a session. Its task is started if nobody has used it yet.
pub(super) fn kernel_of(service: &Arc<Service>, entry: &Arc<SessionEntry>) -> Arc<KernelHandle> {
    let memory = &service.admission.charged;
    let kernels = &service.kernels;
    let (handle, input) = kernels.find_or_insert(&entry.id, &entry.tenant, memory);
    if let Some(input) = input {
        let (service, entry) = (Arc::clone(service), Arc::clone(entry));
        tokio::spawn(serve(service, entry, Arc::clone(&handle), input));
    }
    handle
}

/// Why the requests of a kernel are no longer answered.
enum Stop {
    Restart(Option<RestartAsked>),
    /// By a client.
    Shutdown,
    /// By whoever ended its session, or with the service.
    Ended,
    /// Its session is lost, and there is no other.
    Dead,
}

async fn serve(
    service: Arc<Service>,
    entry: Arc<SessionEntry>,
    handle: Arc<KernelHandle>,
    input: KernelInput,
) {
    let KernelInput {
        mut requests,
        mut restarts,
    } = input;
    let stop = loop {
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let saying = tokio::spawn(say_all(messages, Arc::clone(&handle)));
        let host = ServiceHost {
            service: Arc::clone(&service),
            entry: Arc::clone(&entry),
        };
        let options = KernelOptions {
            language: service.options.runs.language,
            ..KernelOptions::default()
        };
        let kernel = Kernel::new(host, options, outgoing);
        let stop = tokio::select! {
            end = kernel.run(requests) => match end {
                Ok(KernelEnd::Restart) => Stop::Restart(None),
                Ok(KernelEnd::Shutdown) => Stop::Shutdown,
                Err(error) => {
                    tracing::warn!(%error, session = entry.id, "a kernel has lost its session");
                    Stop::Dead
                }
            },
            Some(asked) = restarts.recv() => Stop::Restart(Some(asked)),
            () = handle.over.cancelled() => Stop::Ended,
            () = service.over.cancelled() => Stop::Ended,
            () = end_of(&entry, &handle) => Stop::Dead,
        };
        // Nothing is lost of what it said.
        drop(kernel);
        let _ = saying.await;
        let Stop::Restart(asked) = stop else {
            break stop;
        };
        // Not told: clients take it for the death of the kernel.
        handle.set_state("restarting");
        // Requests that waited are those of the time before.
        requests = handle.reopen();
        let restarted = restart(&service, &entry).await;
        let failed = restarted.is_err();
        answer(asked, restarted);
        if failed {
            break Stop::Dead;
        }
    };
    if let Stop::Dead = stop {
        say(&handle, "dead").await;
    }
    service.kernels.remove(&entry.id);
    handle.over.cancel();
    if let Stop::Shutdown | Stop::Dead = stop {
        // Whoever ended it otherwise has removed it.
        let _ = service.sessions.remove(&entry.tenant, &entry.id);
        entry.close().await;
    }
}

fn answer(asked: Option<RestartAsked>, restarted: Result<(), Problem>) {
    match (asked, restarted) {
        // Nobody may wait any more.
        (Some(asked), restarted) => drop(asked.send(restarted)),
        (None, Err(problem)) => tracing::warn!(code = problem.code.as_str(), "a restart failed"),
        (None, Ok(())) => {}
    }
}

async fn say_all(mut messages: mpsc::Receiver<Outgoing>, handle: Arc<KernelHandle>) {
    while let Some(message) = messages.recv().await {
        handle.say(message).await;
    }
}

async fn say(handle: &KernelHandle, state: &str) {
    handle.say(Outgoing::Publish(status_message(state))).await;
}

/// Waits until the session of a kernel has ended by something else than its cells.
async fn end_of(entry: &SessionEntry, handle: &KernelHandle) {
    let mut misses = 0;
    while misses < MISSES {
        tokio::time::sleep(LOOK).await;
        handle.forget_absent();
        misses = match entry.any_session() {
            Err(problem) if problem.code != Code::Draining => misses + 1,
            _ => 0,
        };
    }
}
