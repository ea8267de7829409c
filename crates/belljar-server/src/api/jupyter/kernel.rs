//! Kernels: sessions that clients of this wire made, as they see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use time::OffsetDateTime;

use super::running::kernel_of;
use super::specs::{environment, spec_name};
use crate::api::session_create::CreateSession;
use crate::api::session_views::CheckpointPolicy;
use crate::api::sessions;
use crate::api::variables::VariablesAsked;
use crate::label::{KernelLabel, LabelChange, LabelFilter, NotebookLabel};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Variables of the client that are meant for a gateway.
const OF_GATEWAY: &str = "KERNEL_";

/// Digits of each group of a kernel's id.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Starts a kernel: a session that has a checkpoint after every cell.
pub(super) async fn start(
    service: &Arc<Service>,
    caller: Caller,
    name: Option<&str>,
    env: BTreeMap<String, String>,
    notebook: Option<NotebookLabel>,
) -> Result<Arc<SessionEntry>, Problem> {
    let mut env = env;
    env.retain(|name, _| !name.starts_with(OF_GATEWAY));
    let mut asked = CreateSession::default();
    asked.checkpoints = Some(CheckpointPolicy::Every);
    asked.environment = environment(service, name)?.map(str::to_owned);
    asked.variables = VariablesAsked(env);
    let label = LabelChange {
        kernel: Some(KernelLabel { notebook }),
        ..LabelChange::default()
    };
    let entry = sessions::start(service, caller, asked, label).await?;
    kernel_of(service, &entry);
    Ok(entry)
}

/// A kernel of this tenant. That of another, and a session that is none, are as one that is not there.
pub(super) fn find(
    service: &Service,
    caller: &Caller,
    id: &str,
) -> Result<Arc<SessionEntry>, Problem> {
    let found = digits(id).and_then(|digits| {
        // They begin with the node that made it, which may be another one.
        let made = digits.get(..8).unwrap_or_default();
        let ids = [
            service.sessions.id_from_digits(&digits),
            format!("{made}-{digits}"),
        ];
        let mut found = ids
            .iter()
            .filter_map(|id| service.sessions.find(&caller.tenant, id).ok());
        found.next()
    });
    found.filter(|entry| is_kernel(entry)).ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        let detail = format!("no kernel has the id `{}`", id.escape_debug());
        Problem::new(Code::SessionNotFound, detail)
    })
}

/// All kernels of a tenant, the oldest first.
pub(super) fn all(service: &Service, caller: &Caller) -> Vec<Arc<SessionEntry>> {
    let filter = LabelFilter::default();
    let sessions = service
        .sessions
        .list(&caller.tenant, &filter, 0, usize::MAX);
    let kernels = sessions.into_iter().filter(|entry| is_kernel(entry));
    kernels.collect()
}

/// Whether it is a kernel that has not ended. One that a restart of the service has interrupted has not.
fn is_kernel(entry: &SessionEntry) -> bool {
    let is_there = match entry.any_session() {
        Ok(_) => true,
        Err(problem) => problem.code == Code::Draining,
    };
    is_there && entry.label().kernel.is_some()
}

/// Ends a kernel and its session.
pub(super) async fn end(service: &Service, entry: &SessionEntry) {
    // A second request finds nothing to remove.
    let _ = service.sessions.remove(&entry.tenant, &entry.id);
    if let Some(handle) = service.kernels.find(&entry.id) {
        handle.over.cancel();
    }
    entry.close().await;
}

pub(super) fn view(service: &Service, entry: &SessionEntry) -> Value {
    let handle = service.kernels.find(&entry.id);
    let (state, last, connections) = match &handle {
        Some(handle) => {
            let state = handle.state();
            let connections = handle.connections();
            (state.execution_state, state.last_activity, connections)
        }
        // Nobody has used it since the service started.
        None => ("idle".to_owned(), entry.created, 0),
    };
    json!({
        "id": id(entry),
        "name": spec_name(&entry.environment),
        "last_activity": moment(last),
        "execution_state": state,
        "connections": connections,
    })
}

/// The id of a kernel: the random digits of its session, in the groups that clients expect.
fn id(entry: &SessionEntry) -> String {
    let digits = entry.id.rsplit('-').next().unwrap_or_default();
    grouped(digits)
}

/// Digits in the groups of an id.
pub(super) fn grouped(digits: &str) -> String {
    let mut rest = digits;
    let groups = GROUPS.map(|length| {
        let (group, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        group
    });
    groups.join("-")
}

/// The digits of an id.
fn digits(id: &str) -> Option<String> {
    let groups: Vec<&str> = id.split('-').collect();
    let is_hex = |group: &str| {
        let mut digits = group.bytes();
        digits.all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let fits = groups.len() == GROUPS.len()
        && groups
            .iter()
            .zip(GROUPS)
            .all(|(group, length)| group.len() == length && is_hex(group));
    fits.then(|| groups.concat())
}

/// A moment as this wire has it, which is read with a fixed number of digits.
pub(super) fn moment(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    format!(
        "{}T{:02}:{:02}:{:02}.{:06}Z",
        time.date(),
        time.hour(),
        time.minute(),
        time.second(),
        time.microsecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_id_has_five_groups() {
        let random = "0123456789abcdef0123456789abcdef";
        let id = grouped(random);
        assert_eq!(id, "01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(digits(&id).as_deref(), Some(random));
        for wrong in [
            random,
            "",
            "----",
            "01234567-89ab-cdef-0123-456789abcdeF",
            "01234567-89ab-cdef-0123-456789abcde/",
            "012345678-9ab-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdef-",
        ] {
            assert_eq!(digits(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_moment_has_six_digits() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_794_807_241_000_065);
        assert_eq!(moment(time), "2026-11-16T05:34:01.000065Z");
    }
}
