//! Runs that continue others: after their end, or from one of their steps.

use belljar_journal::{BlobRef, Blobs, RunId};
use belljar_protocol::{Cause, Fate, Outcome, Status};

use super::directory::run_directory;
use super::saved::{copy_session, make_directory, snapshot_in};
use super::{Agent, LiveRun, RunError, read_events};
use crate::dialect::PYTHON;
use crate::run::{Call, Parent, Run, RunEvent, Start, TaskFile, parent_words};

/// A run as it was after one of its steps, with all that the step caused.
fn up_to(events: &[RunEvent], step: u32) -> Result<Run, RunError> {
    let is_later =
        |event: &RunEvent| matches!(event, RunEvent::Asked { step: asked, .. } if *asked > step);
    let run = Run::fold(events.iter().take_while(|event| !is_later(event)))?;
    let last = run.steps().last().filter(|last| last.number == step);
    let is_done = |call: &Call| call.result().is_some();
    match last {
        Some(last) if last.calls.iter().all(is_done) => Ok(run),
        _ => Err(RunError::NoStep(step)),
    }
}

impl Agent {
    /// Starts a run that continues another one: from its end, or from after one of its steps. It
    /// has the session of that moment, and the model gets a summary. The session is the saved one
    /// of that run; otherwise its cells run again.
    pub async fn start_from(
        &self,
        id: RunId,
        mut start: Start,
        parent: &RunId,
        step: Option<u32>,
    ) -> Result<LiveRun, RunError> {
        let agent = self.for_run(&id);
        let before = self.for_run(parent);
        let (events, _) = read_events(&self.journal, parent).await?;
        let whole = Run::fold(&events)?;
        let last = whole.steps().last().map_or(0, |step| step.number);
        let run = match step {
            None => whole.clone(),
            Some(step) => up_to(&events, step)?,
        };
        let step = step.unwrap_or(last);
        let is_last = step == last && run.last_cell() == whole.last_cell();
        let ending = whole.ending().filter(|_| is_last);
        let answer = ending.and_then(|ending| ending.answer.as_deref());
        let old_files = whole.start().map_or(&[][..], |start| &start.files);
        let waiting = run.untouched_parent().map(|parent| &parent.new_files[..]);
        let waiting = waiting.unwrap_or_default();
        let is_new = |file: &&TaskFile| waiting.contains(&file.name) || !old_files.contains(file);
        let new_files = start.files.iter().filter(is_new);
        let mut from = Parent {
            run: parent.to_string(),
            step,
            told: parent_words(&run, answer, start.language),
            manifest: run.manifest().to_vec(),
            kept_cells: 0,
            session: None,
            code: agent.code_of(&run, &before.blobs).await?,
            new_files: new_files.map(|file| file.name.clone()).collect(),
        };
        if ending.is_some() && self.owner.is_some() {
            if let Some(saved) = run.saved_session() {
                let (theirs, ours) = (self.sessions_of(parent), self.sessions_of(&id));
                from.session = copy_session(&theirs, saved, &ours).await?;
                from.kept_cells = run.kept_cell() * u32::from(from.session.is_some());
            }
        } else if ending.is_some() {
            let kept = snapshot_in(&run_directory(&self.directory, parent), run.kept_cell());
            let directory = run_directory(&self.directory, &id);
            let file = |source| RunError::File {
                path: directory.clone(),
                source,
            };
            make_directory(&directory).map_err(file)?;
            let copy = snapshot_in(&directory, run.kept_cell());
            // One that was too large was not kept.
            if tokio::fs::copy(&kept, &copy).await.is_ok() {
                from.kept_cells = run.kept_cell();
            } else {
                let _ = tokio::fs::remove_file(&copy).await;
            }
        }
        start.parent = Some(Box::new(from));
        agent.start_as(id, start).await
    }

    /// The code that made the session of a run: that of cells whose effects are there, those of the
    /// earlier run first. None if it called tools, whose answers can't be had again.
    async fn code_of(&self, run: &Run, blobs: &Blobs) -> Result<Option<BlobRef>, RunError> {
        let Some(start) = run.start().filter(|start| start.granted.is_empty()) else {
            return Ok(None);
        };
        let unread = |source| RunError::Event { seq: 1, source };
        let mut code: Vec<(u32, String)> = Vec::new();
        if let Some(before) = start.parent.as_ref().and_then(|from| from.code.as_ref()) {
            let json = blobs.get(before).await?;
            let before: Vec<String> = serde_json::from_slice(&json).map_err(unread)?;
            code.extend(before.into_iter().map(|code| (0, code)));
        }
        for step in run.steps() {
            for call in step.calls.iter().filter(|call| call.tool == PYTHON) {
                let Some(cell) = call.result().and_then(|result| result.cell.as_ref()) else {
                    continue;
                };
                if cell.lost || step.number < run.session_since() {
                    code.clear();
                    continue;
                }
                let outcome = blobs.get(&cell.outcome).await?;
                let outcome: Outcome = serde_json::from_slice(&outcome).map_err(unread)?;
                if let Fate::Restored { cell } = outcome.state {
                    code.retain(|(number, _)| *number <= cell);
                    continue;
                }
                // One that was interrupted would do again what it was interrupted for.
                let to_its_end = matches!(outcome.status, Status::Success | Status::Failure)
                    && outcome.cause != Cause::Interrupted;
                if to_its_end && let Some(text) = call.code() {
                    code.push((cell.number, text.to_owned()));
                }
            }
        }
        let code: Vec<String> = code.into_iter().map(|(_, code)| code).collect();
        let json = serde_json::to_vec(&code).map_err(unread)?;
        Ok(Some(self.blobs.put(json, "application/json").await?))
    }
}
