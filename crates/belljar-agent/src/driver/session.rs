//! The session of a run: started when it is first needed, saved after each cell, loaded when the
//! run resumes.

use std::sync::Arc;

use belljar_journal::{BlobRef, Blobs};
use belljar_protocol::{Fate, Language, NameInfo, Outcome, Status, Walls};
use belljar_sandbox::{Engine, Error, LoadReport, Network, Session, SessionOptions};

use super::saved::SavedSessions;
use super::{Control, RunError};
use crate::run::{
    CallResult, CellResult, Parent, Run, RunEvent, Start, TaskFile, cut_middle, exception_line,
    names,
};

/// A session whose variables are larger is not saved after each cell: that would take longer than
/// the cell.
const SAVED_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct RunSession {
    engine: Engine,
    options: SessionOptions,
    pub(super) blobs: Blobs,
    pub(super) saved: SavedSessions,
    pub(super) live: Option<Arc<Session>>,
}

/// A session that a run gets.
struct NewSession {
    session: Session,
    /// For the model.
    note: Option<String>,
    /// How many cells it has run.
    cells: u32,
    /// Where it is saved, if an event has to name that.
    saved: Option<BlobRef>,
}

impl RunSession {
    pub(super) fn new(
        engine: Engine,
        options: SessionOptions,
        blobs: Blobs,
        saved: SavedSessions,
    ) -> Self {
        Self {
            engine,
            options,
            blobs,
            saved,
            live: None,
        }
    }

    /// Ensures that there is a session; reports a new one.
    pub(super) async fn ensure(
        &mut self,
        run: &Run,
        control: &Control,
    ) -> Result<Option<RunEvent>, RunError> {
        if self.live.is_some() {
            return Ok(None);
        }
        let new = self.begin(run).await?;
        let session = Arc::new(new.session);
        control.watch(&session);
        let manifest = session.manifest().await.unwrap_or_default();
        self.live = Some(session);
        Ok(Some(RunEvent::SessionStarted {
            note: new.note,
            cells: new.cells,
            manifest,
            session: new.saved,
        }))
    }

    /// The session as it was after the run's last cell, if it was saved.
    pub(super) async fn load(&self, run: &Run) -> Result<Option<(Session, LoadReport)>, RunError> {
        let cell = run.last_cell();
        if cell == 0 {
            return Ok(None);
        }
        let Some(found) = self.saved.find(cell, run.saved_session()).await? else {
            return Ok(None);
        };
        let loaded = self.engine.load(found.path(), self.options.clone()).await;
        Ok(loaded.ok().filter(|(_, report)| report.cells == cell))
    }

    /// A session from the run's snapshot, else a new one.
    async fn begin(&mut self, run: &Run) -> Result<NewSession, RunError> {
        let language = run.language();
        if let Some((session, report)) = self.load(run).await? {
            return Ok(NewSession {
                session,
                note: Some(words_loaded(&missing(&report), language)),
                cells: report.cells,
                saved: run.saved_session().cloned(),
            });
        }
        let parent = run.start().and_then(|start| start.parent.as_deref());
        if let Some(parent) = parent.filter(|_| run.last_cell() == 0) {
            return self.begin_from(parent, run).await;
        }
        // Those of another session, whose cells have the same numbers.
        self.saved.keep_file(0);
        let note = || language.prompts().session_lost(&names(run.manifest()));
        let note = (run.last_cell() > 0).then(note);
        self.begin_anew(run, note).await
    }

    async fn begin_anew(&self, run: &Run, note: Option<String>) -> Result<NewSession, RunError> {
        Ok(NewSession {
            session: self.fresh(run).await?,
            note,
            cells: 0,
            saved: None,
        })
    }

    /// A new session with the files of the task.
    async fn fresh(&self, run: &Run) -> Result<Session, RunError> {
        let session = self.engine.session_with(self.options.clone()).await?;
        self.put_files(&session, run, |_| true).await?;
        Ok(session)
    }

    /// Puts files of the task into a session.
    async fn put_files(
        &self,
        session: &Session,
        run: &Run,
        is_wanted: impl Fn(&TaskFile) -> bool,
    ) -> Result<(), RunError> {
        let files = run.start().map_or(&[][..], |start| &start.files);
        for file in files.iter().filter(|file| is_wanted(file)) {
            let contents = self.blobs.get_file(&file.contents).await?;
            session.put_file(&file.name, &contents)?;
        }
        Ok(())
    }

    /// The session of the run that this one continues: the saved one, else its cells run again.
    async fn begin_from(&mut self, parent: &Parent, run: &Run) -> Result<NewSession, RunError> {
        let language = run.language();
        let (cells, named) = (parent.kept_cells, parent.session.as_ref());
        if cells > 0
            && let Some(found) = self.saved.find(cells, named).await?
            && let Ok((session, report)) =
                self.engine.load(found.path(), self.options.clone()).await
        {
            // The others may have been changed by earlier cells.
            let is_new = |file: &TaskFile| parent.new_files.contains(&file.name);
            self.put_files(&session, run, is_new).await?;
            let missing = missing(&report);
            let note = (!missing.is_empty()).then(|| language.prompts().names_not_kept(&missing));
            let saved = match &parent.session {
                // It lacks the new files.
                Some(_) if !parent.new_files.is_empty() => {
                    self.saved.save(&session, report.cells).await.ok().flatten()
                }
                saved => saved.clone(),
            };
            return Ok(NewSession {
                session,
                note,
                cells: report.cells,
                saved,
            });
        }
        let session = self.fresh(run).await?;
        let mut code: Vec<String> = Vec::new();
        if let Some(blob) = &parent.code {
            let json = self.blobs.get(blob).await?;
            let read = serde_json::from_slice(&json);
            code = read.map_err(|source| RunError::Event { seq: 1, source })?;
        }
        // What a person approved there was for one use, and that was it.
        let asks = |cell: &String| run.approvals().ask_for_code(cell).is_some();
        if code.iter().any(asks) {
            let note = language
                .prompts()
                .session_not_run_again(&names(&parent.manifest));
            return Ok(NewSession {
                session,
                note: Some(note),
                cells: 0,
                saved: None,
            });
        }
        let mut cells = 0;
        for cell in &code {
            let outcome = session.run(cell.as_str()).await?;
            if outcome.state == Fate::Lost {
                let note = language.prompts().session_lost(&names(&parent.manifest));
                return self.begin_anew(run, Some(note)).await;
            }
            cells = outcome.cell;
        }
        let mut saved = None;
        if cells > 0 {
            // If the host dies before the first cell, they need not run once more.
            saved = self.saved.save(&session, cells).await.ok().flatten();
        }
        Ok(NewSession {
            session,
            note: Some(words_run_again(code.len(), language)),
            cells,
            saved,
        })
    }

    /// Whether code in it reaches anything outside of it, but for tools.
    pub(super) fn reaches_out(&self) -> bool {
        self.options.network != Network::None || self.engine.walls() == Walls::None
    }

    /// Whether there is a session as it was after the run's last cell, or can be one.
    pub(super) async fn can_go_on(&self, run: &Run) -> Result<bool, RunError> {
        let cell = run.last_cell();
        if self.live.is_some() || cell == 0 {
            return Ok(true);
        }
        let found = self.saved.find(cell, run.saved_session()).await?;
        Ok(found.is_some())
    }

    /// The session, if it was started.
    pub(super) fn live(&self) -> Option<Arc<Session>> {
        self.live.clone()
    }

    /// It is gone, or is not to be used any more.
    pub(super) fn forget(&mut self) {
        self.live = None;
    }

    /// Makes a result of a cell's outcome.
    pub(super) async fn take_outcome(
        &mut self,
        session: &Session,
        outcome: &Outcome,
        run: &Run,
    ) -> Result<CallResult, RunError> {
        let lost = outcome.state == Fate::Lost;
        let manifest = if lost {
            self.live = None;
            Vec::new()
        } else {
            session.manifest().await.unwrap_or_default()
        };
        let result = self.result(outcome, manifest).await?;
        let mut text = outcome.brief(run.language());
        if let Some(start) = run.start() {
            cap(&mut text, session, outcome, start);
        }
        Ok(CallResult {
            text,
            failed: outcome.status != Status::Success,
            cell: Some(result),
            ..CallResult::default()
        })
    }

    async fn result(
        &self,
        outcome: &Outcome,
        manifest: Vec<NameInfo>,
    ) -> Result<CellResult, RunError> {
        let mut images = Vec::new();
        for display in &outcome.displays {
            for part in &display.parts {
                if part.mime.starts_with("image/") {
                    images.push(self.blobs.put(part.data.clone(), &part.mime).await?);
                }
            }
        }
        let whole =
            serde_json::to_vec(outcome).map_err(|source| RunError::Event { seq: 0, source })?;
        Ok(CellResult {
            number: outcome.cell,
            outcome: self.blobs.put(whole, "application/json").await?,
            output: output_of(outcome),
            error: outcome.exception.as_ref().map(exception_line),
            images,
            artifacts: outcome.artifacts.clone(),
            manifest,
            lost: outcome.state == Fate::Lost,
        })
    }

    /// Saves the session after a cell, for resuming the run; returns what an event has to name, if it has to.
    pub(super) async fn save(&mut self, cell: u32, manifest: &[NameInfo]) -> Option<BlobRef> {
        self.saved.remove_file(cell);
        let session = self.live.clone()?;
        let held: u64 = manifest.iter().filter_map(|name| name.size_bytes).sum();
        if held > SAVED_BYTES {
            return None;
        }
        match self.saved.save(&session, cell).await {
            Ok(saved) => saved,
            Err(error) => {
                tracing::warn!(error, "the session of a run could not be saved");
                None
            }
        }
    }

    /// The same before the event of a change, if that has to name it.
    pub(super) async fn save_before(
        &mut self,
        cell: u32,
        manifest: &[NameInfo],
    ) -> Option<BlobRef> {
        if cell > 0 && self.saved.are_named() {
            self.save(cell, manifest).await
        } else {
            None
        }
    }

    /// After it otherwise. What the run no longer names is removed.
    pub(super) async fn save_after(&mut self, run: &Run) {
        if self.saved.are_named() {
            self.saved.remove_replaced(run);
        } else {
            self.save(run.last_cell(), run.manifest()).await;
        }
    }

    /// Removes what was saved before the last cell.
    pub(super) fn remove_replaced(&mut self, run: &Run) {
        self.saved.remove_replaced(run);
    }

    /// Restores the session to its state after a cell; 0 is before the first. Returns whether that
    /// was possible, and the manifest then.
    pub(super) async fn go_back(
        &mut self,
        cell: Option<u32>,
        run: &Run,
    ) -> Result<(bool, Vec<NameInfo>), RunError> {
        if cell == Some(0) {
            self.live = None;
            self.saved.keep_file(0);
            return Ok((true, Vec::new()));
        }
        let (Some(session), Some(cell)) = (&self.live, cell) else {
            return Ok((false, run.manifest().to_vec()));
        };
        // It is of a cell that is taken back. If the host dies now, rather none than that one.
        self.saved.keep_file(0);
        match session.restore(cell).await {
            Ok(()) => Ok((true, session.manifest().await.unwrap_or_default())),
            Err(Error::NoCheckpoint(_)) => Ok((false, run.manifest().to_vec())),
            Err(Error::Ended(_)) => {
                self.live = None;
                Ok((false, Vec::new()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the session of a run that has ended. What it saved last is kept for this run's follow-ups, if there is one.
    pub(super) async fn close(&mut self, kept: Option<&Run>) {
        self.saved.close(kept).await;
        if let Some(session) = self.live.take().and_then(Arc::into_inner) {
            let _ = session.close().await;
        }
    }
}

/// What a cell printed and displayed, as text.
pub(crate) fn output_of(outcome: &Outcome) -> String {
    let mut output = outcome.transcript.clone();
    for text in outcome.displays.iter().filter_map(|display| display.text()) {
        output.push_str(text);
        output.push('\n');
    }
    output
}

/// Cuts text that is too long for the conversation; the full text is then in a file of the
/// workspace.
fn cap(text: &mut String, session: &Session, outcome: &Outcome, start: &Start) {
    let most = start.result_bytes();
    if text.len() <= most {
        return;
    }
    let name = format!("output-of-cell-{}.txt", outcome.cell);
    let lost = outcome.state == Fate::Lost;
    let kept = !lost && session.put(&name, text.as_bytes()).is_ok();
    cut_middle(text, most, start.language);
    if kept {
        text.push_str(&start.language.prompts().all_in_file(&name));
    }
}

/// Names that a snapshot does not have, and why.
fn missing(report: &LoadReport) -> Vec<String> {
    let names = report.names.iter();
    let missing = names.filter_map(|name| Some(format!("{} ({})", name.name, name.why.as_ref()?)));
    missing.collect()
}

fn words_run_again(cells: usize, language: Language) -> String {
    match cells {
        0 => language.prompts().session_new.to_owned(),
        _ => language.prompts().session_run_again(cells),
    }
}

fn words_loaded(missing: &[String], language: Language) -> String {
    match missing {
        [] => language.prompts().session_loaded.to_owned(),
        _ => language.prompts().session_loaded_without(missing),
    }
}
