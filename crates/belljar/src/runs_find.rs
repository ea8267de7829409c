//! Finding a run by the beginning of its id.

use std::path::Path;

use anyhow::bail;
use belljar_agent::{RunEvent, RunsDirectory, read_events};
use belljar_journal::{Journal, RunId};

use crate::words;

/// The runs of a directory, which has some, to look for one of them.
pub(crate) async fn open(directory: &Path, begins: &str) -> anyhow::Result<RunsDirectory> {
    if !RunsDirectory::exists(directory) {
        bail!(words::texts().run.no_such_run(begins));
    }
    Ok(RunsDirectory::open(directory).await?)
}

/// The run whose name begins so, and its events.
pub(crate) async fn find(
    journal: &Journal,
    begins: &str,
) -> anyhow::Result<(RunId, Vec<RunEvent>)> {
    let id = find_id(journal, begins).await?;
    let (events, _) = read_events(journal, &id).await?;
    Ok((id, events))
}

/// All runs, newest first.
pub(crate) async fn ids(journal: &Journal) -> anyhow::Result<Vec<RunId>> {
    let mut ids: Vec<RunId> = Vec::new();
    loop {
        let page = journal.runs(ids.last(), 200).await?;
        if page.is_empty() {
            return Ok(ids);
        }
        ids.extend(page.into_iter().map(|summary| summary.first.run));
    }
}

/// The run whose name begins so.
pub(crate) async fn find_id(journal: &Journal, begins: &str) -> anyhow::Result<RunId> {
    let mut found = ids(journal).await?;
    found.retain(|id| id.as_str().starts_with(begins));
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!(words::texts().run.no_such_run(begins)),
        several => bail!(words::texts().run.ambiguous_run(begins, several.len())),
    }
}
