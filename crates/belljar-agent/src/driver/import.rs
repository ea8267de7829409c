//! Runs of a directory, brought into a cluster with all that they have.

use std::collections::HashMap;

use belljar_journal::{
    BlobHash, BlobRef, Blobs, Entry, Error, Import, Journal, NewEvent, RunId, RunState,
};
use serde_json::Value;

use super::artifacts::below;
use super::decode_event;
use super::directory::{RunsDirectory, blobs_below, run_directory, sessions_below};
use super::error::RunError;
use super::saved::{MEDIA_TYPE, path_of, snapshot_in};
use crate::run::{EVENT_VERSION, Run, RunEvent};

/// The events that are sent at once, and about their bytes.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 8 << 20;

/// What a run has brought into a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportedRun {
    /// Its events.
    pub events: u64,
    /// Its large values, artifacts and saved session.
    pub objects: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// Those of them that its directory does not have, or has damaged.
    pub missing: u64,
}

impl RunsDirectory {
    /// Brings a run of this directory into a cluster, which nothing drives here. Below `to`, each run of the tenant has its
    /// own objects. A repetition continues where an earlier one ended. At the end, everything is read and compared.
    pub async fn import(
        &self,
        id: &RunId,
        tenant: &str,
        into: &Import,
        to: &Blobs,
    ) -> Result<ImportedRun, RunError> {
        let entries = entries(&self.journal, id).await?;
        let found = into.run(id).await?;
        if found.as_ref().is_some_and(|found| found.tenant != tenant) {
            return Err(RunError::InCluster(id.clone()));
        }
        if found.is_some_and(|found| !found.is_partial) {
            // It was complete, and may have continued since.
            let there = self::entries(into.journal(), id).await?;
            let is_same = |(ours, theirs): (&Entry, &Entry)| {
                (ours.at, &ours.kind) == (theirs.at, &theirs.kind)
            };
            if there.len() < entries.len() || !entries.iter().zip(&there).all(is_same) {
                return Err(RunError::InCluster(id.clone()));
            }
            return Ok(ImportedRun::default());
        }
        let events: Result<Vec<_>, _> = entries.iter().map(decode_event).collect();
        let mut events = events?;
        let run = Run::fold(&events)?;
        let mut imported = ImportedRun {
            events: entries.len() as u64,
            ..ImportedRun::default()
        };
        self.send_blobs(id, &entries, to, &mut imported).await?;
        let mut changed = Vec::new();
        changed.extend(
            self.send_artifacts(id, &mut events, to, &mut imported)
                .await?,
        );
        changed.extend(
            self.send_session(id, &run, &mut events, to, &mut imported)
                .await?,
        );

        let mut new = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            new.push(if changed.contains(&index) {
                let made = NewEvent::new(entry.kind, EVENT_VERSION, entry.at, &events[index]);
                let seq = entry.seq;
                made.map_err(|source| RunError::Event { seq, source })?
            } else {
                NewEvent {
                    kind: entry.kind,
                    version: entry.version,
                    at: entry.at,
                    body: entry.body,
                }
            });
        }
        send_events(id, tenant, into, &new).await?;
        let state = match run.ending() {
            Some(_) => RunState::Ended,
            None => RunState::Ready,
        };
        into.complete(id, state).await?;
        Ok(imported)
    }

    /// The large values that events name.
    async fn send_blobs(
        &self,
        id: &RunId,
        entries: &[Entry],
        to: &Blobs,
        imported: &mut ImportedRun,
    ) -> Result<(), RunError> {
        let mut named = HashMap::new();
        for entry in entries {
            let seq = entry.seq;
            let event: Value = entry
                .decode()
                .map_err(|source| RunError::Event { seq, source })?;
            find_blobs(&event, &mut named);
        }
        let to = blobs_below(to, id);
        for blob in named.values() {
            let file = match self.blobs.get_file(blob).await {
                Ok(file) => file,
                Err(Error::UnknownBlob(_) | Error::CorruptBlob(_)) => {
                    imported.missing += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let sent = to.put_file(&path_of(&file), &blob.media_type).await?;
            if sent.hash == blob.hash {
                check(&to, &sent, imported).await?;
            } else {
                to.remove(sent.hash).await?;
                imported.missing += 1;
            }
        }
        Ok(())
    }

    /// The files that the run has left. Its last event names them; returns its index if it has changed.
    async fn send_artifacts(
        &self,
        id: &RunId,
        events: &mut [RunEvent],
        to: &Blobs,
        imported: &mut ImportedRun,
    ) -> Result<Option<usize>, RunError> {
        let last = events.len().checked_sub(1);
        let Some(RunEvent::Ended(ending)) = events.last_mut() else {
            return Ok(None);
        };
        let (to, directory) = (blobs_below(to, id), self.artifacts(id));
        for artifact in &ending.artifacts {
            let path = below(&directory, &artifact.path).ok();
            let Some(path) = path.filter(|path| path.is_file()) else {
                imported.missing += 1;
                continue;
            };
            let sent = to.put_file(&path, "application/octet-stream").await?;
            check(&to, &sent, imported).await?;
            ending.contents.insert(artifact.path.clone(), sent);
        }
        Ok(last.filter(|_| !ending.contents.is_empty()))
    }

    /// The session that the run or a follow-up continues. An event names it; returns its index.
    async fn send_session(
        &self,
        id: &RunId,
        run: &Run,
        events: &mut [RunEvent],
        to: &Blobs,
        imported: &mut ImportedRun,
    ) -> Result<Option<usize>, RunError> {
        let cell = run.kept_cell();
        let path = snapshot_in(&run_directory(&self.path, id), cell);
        if cell == 0 || !path.is_file() {
            return Ok(None);
        }
        let to = sessions_below(to, id);
        let sent = to.put_file(&path, MEDIA_TYPE).await?;
        check(&to, &sent, imported).await?;
        let of_parent = run.untouched_parent().is_some();
        for (index, event) in events.iter_mut().enumerate().rev() {
            match event {
                RunEvent::Started(start) if of_parent => {
                    if let Some(parent) = &mut start.parent {
                        parent.session = Some(sent);
                    }
                    return Ok(Some(index));
                }
                RunEvent::CallEnded { result, .. } if !of_parent => result.session = Some(sent),
                RunEvent::SessionStarted { session, .. } | RunEvent::RolledBack { session, .. }
                    if !of_parent =>
                {
                    *session = Some(sent);
                }
                _ => continue,
            }
            return Ok(Some(index));
        }
        Ok(None)
    }
}

/// Sends the events that the cluster does not have yet, and compares all of them.
async fn send_events(
    id: &RunId,
    tenant: &str,
    into: &Import,
    events: &[NewEvent],
) -> Result<(), RunError> {
    let last = into.journal().last_seq(id).await?;
    let mut sent = usize::try_from(last).unwrap_or(usize::MAX);
    while let Some(rest) = events.get(sent..).filter(|rest| !rest.is_empty()) {
        let mut bytes = 0;
        let fits = |event: &&NewEvent| {
            bytes += event.body.get().len();
            bytes <= PAGE_BYTES
        };
        // One that is larger goes alone.
        let count = rest.iter().take(PAGE).take_while(fits).count().max(1);
        let expected = sent as u64;
        into.append(id, tenant, expected, &rest[..count]).await?;
        sent += count;
    }
    let there = entries(into.journal(), id).await?;
    let is_same = |(ours, theirs): (&NewEvent, &Entry)| {
        (ours.at, ours.version, &ours.kind) == (theirs.at, theirs.version, &theirs.kind)
            && ours.body.get() == theirs.body.get()
    };
    if there.len() != events.len() || !events.iter().zip(&there).all(is_same) {
        return Err(RunError::InCluster(id.clone()));
    }
    Ok(())
}

/// Reads an object again, to the last byte.
async fn check(to: &Blobs, sent: &BlobRef, imported: &mut ImportedRun) -> Result<(), RunError> {
    to.get_file(sent).await?;
    imported.objects += 1;
    imported.bytes += sent.bytes;
    Ok(())
}

async fn entries(journal: &Journal, id: &RunId) -> Result<Vec<Entry>, RunError> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.seq);
        let page = journal.read(id, after, PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn find_blobs(value: &Value, found: &mut HashMap<BlobHash, BlobRef>) {
    match value {
        Value::Array(values) => {
            for value in values {
                find_blobs(value, found);
            }
        }
        Value::Object(values) => {
            let is_blob = values.len() == 3 && values.contains_key("media_type");
            let blob = is_blob.then(|| serde_json::from_value::<BlobRef>(value.clone()));
            if let Some(Ok(blob)) = blob {
                found.insert(blob.hash, blob);
            }
            for value in values.values() {
                find_blobs(value, found);
            }
        }
        _ => {}
    }
}
