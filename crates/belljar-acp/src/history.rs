//! Sessions of the journal: found by their first run, and shown again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use agent_client_protocol_schema::v1::{
    ContentChunk, ListSessionsRequest, ListSessionsResponse, SessionId, SessionInfo, SessionUpdate,
};
use belljar_agent::{Run, RunError, RunEvent, RunsDirectory, Start, read_events};
use belljar_journal::{Blobs, RunId, Timestamp};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::cell_view::{Image, is_shown};
use crate::peer::{Peer, PeerError};
use crate::updates::Updates;
use crate::words::{text, title};

/// The most sessions of a page.
const PAGE: usize = 50;

/// The most runs that are looked at for sessions, the newest.
const MOST_RUNS: usize = 10_000;

/// The most bytes of figures that are shown again.
const IMAGE_BYTES: u64 = 16 << 20;

/// Why a session can't be shown again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// How a run started, and when its last event happened.
struct Started {
    id: RunId,
    start: Start,
    last: Timestamp,
}

/// The runs of the journal, newest first.
async fn started(runs: &RunsDirectory) -> Result<Vec<Started>, RunError> {
    let mut found: Vec<Started> = Vec::new();
    let mut before: Option<RunId> = None;
    let mut seen = 0;
    loop {
        let page = runs.journal().runs(before.as_ref(), 200).await?;
        seen += page.len();
        let Some(last) = page.last() else {
            return Ok(found);
        };
        before = Some(last.first.run.clone());
        for summary in page {
            // Runs of a newer Belljar are left out.
            if let Ok(RunEvent::Started(start)) = summary.first.decode() {
                found.push(Started {
                    id: summary.first.run,
                    start: *start,
                    last: summary.last.at,
                });
            }
        }
        if seen >= MOST_RUNS {
            return Ok(found);
        }
    }
}

/// The sessions of clients, newest first, a page at a time.
pub(crate) async fn list(
    runs: &RunsDirectory,
    request: &ListSessionsRequest,
) -> Result<ListSessionsResponse, RunError> {
    let mut changed: HashMap<String, Timestamp> = HashMap::new();
    let mut sessions = Vec::new();
    // Follow-ups come before what they continue.
    for run in started(runs).await? {
        let id = run.id.as_str();
        let last = changed.remove(id).unwrap_or(run.last).max(run.last);
        if let Some(parent) = &run.start.parent {
            let known = changed.entry(parent.run.clone()).or_insert(last);
            *known = last.max(*known);
            continue;
        }
        let Some(client) = run.start.client else {
            continue;
        };
        let directory = PathBuf::from(client.directory);
        let is_wanted = request.cwd.as_ref().is_none_or(|cwd| *cwd == directory);
        let is_later = request.cursor.as_deref().is_none_or(|after| id < after);
        if is_wanted && is_later {
            let info = SessionInfo::new(SessionId::new(id), directory)
                .title(title(&run.start.task))
                .updated_at(time(last));
            sessions.push(info);
        }
    }
    let more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let last = sessions.last().filter(|_| more);
    let cursor = last.map(|session| session.session_id.0.to_string());
    Ok(ListSessionsResponse::new(sessions).next_cursor(cursor))
}

fn time(at: Timestamp) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1000).ok()?;
    time.format(&Rfc3339).ok()
}

/// The runs of a session, the first one first, each with how it started; none if there is no such
/// session.
pub(crate) async fn find(
    runs: &RunsDirectory,
    id: &RunId,
) -> Result<Vec<(RunId, Start)>, RunError> {
    let mut next: HashMap<Option<String>, Vec<Started>> = HashMap::new();
    for run in started(runs).await? {
        let parent = run.start.parent.as_ref().map(|parent| parent.run.clone());
        next.entry(parent).or_default().push(run);
    }
    let first = next.remove(&None).unwrap_or_default();
    let is_first = |run: &Started| run.id == *id && run.start.client.is_some();
    let mut run = first.into_iter().find(is_first);
    let mut found = Vec::new();
    while let Some(Started { id, start, .. }) = run {
        // The newest, if a run was continued more than once.
        let follow_ups = next.remove(&Some(id.to_string()));
        run = follow_ups.and_then(|runs| runs.into_iter().next());
        found.push((id, start));
    }
    Ok(found)
}

/// Shows a session again, as it was shown when it happened.
pub(crate) async fn replay(
    runs: &RunsDirectory,
    peer: &Peer,
    session: &str,
    chain: &[(RunId, Start)],
) -> Result<(), HistoryError> {
    let mut bytes = 0;
    for (id, start) in chain {
        let task = ContentChunk::new(text(start.task.as_str()));
        peer.update(session, SessionUpdate::UserMessageChunk(task))
            .await?;
        let mut updates = Updates::new(
            id.clone(),
            runs.artifacts(id),
            start.dialect,
            start.language,
        );
        let mut run = Run::default();
        for event in read_events(runs.journal(), id).await?.0 {
            run.apply(&event).map_err(RunError::from)?;
            let images = images(&runs.blobs(id), &event, &mut bytes).await;
            updates.event(&event, &run, Some(images));
            for update in updates.take(Instant::now()) {
                peer.update(session, update).await?;
            }
        }
    }
    Ok(())
}

/// The figures of a call that ended.
async fn images(blobs: &Blobs, event: &RunEvent, bytes: &mut u64) -> Vec<Image> {
    let mut images = Vec::new();
    let RunEvent::CallEnded { result, .. } = event else {
        return images;
    };
    for blob in result.cell.iter().flat_map(|cell| &cell.images) {
        *bytes += blob.bytes;
        if *bytes > IMAGE_BYTES || !is_shown(&blob.media_type) {
            continue;
        }
        if let Ok(data) = blobs.get(blob).await {
            images.push((blob.media_type.clone(), data));
        }
    }
    images
}
