//! The session of a run: started when it is first needed, saved after each cell, loaded when the
//! run resumes.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar_journal::{Blobs, StorageFault, failpoint};
use belljar_protocol::{Fate, Language, NameInfo, Outcome, Status, Walls};
use belljar_sandbox::{BeneathError, Engine, Error, LoadReport, Network, Session, SessionOptions};

use super::{Control, RunError};
use crate::run::{
    CallResult, CellResult, Ending, Parent, Run, RunEvent, Start, TaskFile, cut_middle,
    exception_line, names,
};

/// A session whose variables are larger is not saved after each cell: that would take longer than
/// the cell.
const SAVED_BYTES: u64 = 64 << 20;

/// The longest path of an artifact, and its most directories: whoever removes them later holds each
/// of them open.
const MAX_PATH: usize = 1024;
const MAX_DEPTH: usize = 64;

const DISK_FAILED: &str = "the disk of the service failed";

/// The most bytes of the paths of all artifacts: they are a part of the run's last event.
const MAX_NAMED: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct RunSession {
    engine: Engine,
    options: SessionOptions,
    blobs: Blobs,
    /// Where the snapshots are.
    directory: PathBuf,
    live: Option<Arc<Session>>,
}

impl RunSession {
    pub(super) fn new(
        engine: Engine,
        options: SessionOptions,
        blobs: Blobs,
        directory: PathBuf,
    ) -> Self {
        Self {
            engine,
            options,
            blobs,
            directory,
            live: None,
        }
    }

    /// The snapshot of the session after a cell.
    fn snapshot(&self, cell: u32) -> PathBuf {
        snapshot_in(&self.directory, cell)
    }

    /// Removes all snapshots but the one of this cell, and remains of an interrupted one; 0 for all.
    pub(super) fn keep_snapshot(&self, cell: u32) {
        let kept = self.snapshot(cell);
        for file in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = file.path();
            if path != kept {
                // The directory of artifacts is no file, and stays.
                let _ = fs::remove_file(path);
            }
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
        let (session, note, cells) = self.begin(run).await?;
        let session = Arc::new(session);
        control.watch(&session);
        let manifest = session.manifest().await.unwrap_or_default();
        self.live = Some(session);
        Ok(Some(RunEvent::SessionStarted {
            note,
            cells,
            manifest,
        }))
    }

    /// The session as it was after the run's last cell, if it was saved.
    async fn load(&self, run: &Run) -> Option<(Session, LoadReport)> {
        let path = self.snapshot(run.last_cell());
        if run.last_cell() == 0 || !path.exists() {
            return None;
        }
        let loaded = self.engine.load(&path, self.options.clone()).await.ok();
        loaded.filter(|(_, report)| report.cells == run.last_cell())
    }

    /// A session from the run's snapshot, else a new one; also the message for the model about it,
    /// and how many cells it has run.
    async fn begin(&self, run: &Run) -> Result<(Session, Option<String>, u32), RunError> {
        let language = run.language();
        if let Some((session, report)) = self.load(run).await {
            let note = words_loaded(&missing(&report), language);
            return Ok((session, Some(note), report.cells));
        }
        let parent = run.start().and_then(|start| start.parent.as_deref());
        if let Some(parent) = parent.filter(|_| run.last_cell() == 0) {
            return self.begin_from(parent, run).await;
        }
        // Those of another session, whose cells have the same numbers.
        self.keep_snapshot(0);
        let session = self.fresh(run).await?;
        let note =
            (run.last_cell() > 0).then(|| language.prompts().session_lost(&names(run.manifest())));
        Ok((session, note, 0))
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
    async fn begin_from(
        &self,
        parent: &Parent,
        run: &Run,
    ) -> Result<(Session, Option<String>, u32), RunError> {
        let language = run.language();
        let kept = self.snapshot(parent.kept_cells);
        if parent.kept_cells > 0
            && let Ok((session, report)) = self.engine.load(&kept, self.options.clone()).await
        {
            // The others may have been changed by earlier cells.
            let is_new = |file: &TaskFile| parent.new_files.contains(&file.name);
            self.put_files(&session, run, is_new).await?;
            let missing = missing(&report);
            let note = (!missing.is_empty()).then(|| language.prompts().names_not_kept(&missing));
            return Ok((session, note, report.cells));
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
            return Ok((session, Some(note), 0));
        }
        let mut cells = 0;
        for cell in &code {
            let outcome = session.run(cell.as_str()).await?;
            if outcome.state == Fate::Lost {
                let session = self.fresh(run).await?;
                return Ok((
                    session,
                    Some(language.prompts().session_lost(&names(&parent.manifest))),
                    0,
                ));
            }
            cells = outcome.cell;
        }
        if cells > 0 && make_directory(&self.directory).is_ok() {
            // If the host dies before the first cell, they need not run once more.
            let _ = session.snapshot(&self.snapshot(cells)).await;
        }
        Ok((session, Some(words_run_again(code.len(), language)), cells))
    }

    /// Whether code in it reaches anything outside of it, but for tools.
    pub(super) fn reaches_out(&self) -> bool {
        self.options.network != Network::None || self.engine.walls() == Walls::None
    }

    /// Whether there is a session as it was after the run's last cell, or can be one.
    pub(super) fn can_go_on(&self, run: &Run) -> bool {
        self.live.is_some() || run.last_cell() == 0 || self.snapshot(run.last_cell()).exists()
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

    /// Saves the session after a cell, for resuming the run.
    pub(super) async fn save(&self, cell: u32, manifest: &[NameInfo]) {
        let path = self.snapshot(cell);
        // A cell with this number that a host which died never journaled.
        let _ = fs::remove_file(&path);
        let Some(session) = &self.live else { return };
        let held: u64 = manifest.iter().filter_map(|name| name.size_bytes).sum();
        if held > SAVED_BYTES {
            return;
        }
        let ready = failpoint::fail("runs.save_session");
        let saved = match ready.and_then(|()| make_directory(&self.directory)) {
            Ok(()) => session
                .snapshot(&path)
                .await
                .map(drop)
                .map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = saved {
            tracing::warn!(error, "the session of a run could not be saved");
        }
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
            self.keep_snapshot(0);
            return Ok((true, Vec::new()));
        }
        let (Some(session), Some(cell)) = (&self.live, cell) else {
            return Ok((false, run.manifest().to_vec()));
        };
        // It is of a cell that is taken back. If the host dies now, rather none than that one.
        self.keep_snapshot(0);
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

    /// Copies artifacts out of the session. The list keeps those that still exist and are on disk
    /// now; those that could not be kept are noted, and the run ends nonetheless. After the death
    /// of a host, the session is loaded for it.
    pub(super) async fn keep_artifacts(&mut self, root: &Path, ending: &mut Ending, run: &Run) {
        if ending.artifacts.is_empty() {
            return;
        }
        if self.live.is_none() {
            self.live = self.load(run).await.map(|(session, _)| Arc::new(session));
        }
        let mut named = 0;
        for artifact in std::mem::take(&mut ending.artifacts) {
            named += artifact.path.len();
            let kept = match &self.live {
                Some(_) if named > MAX_NAMED => Err("the run made too many files"),
                Some(session) => keep_artifact(session, root, &artifact.path).await,
                None => Err("the session that had it is gone"),
            };
            match kept {
                Ok(true) => ending.artifacts.push(artifact),
                // The run has removed it since.
                Ok(false) => {}
                Err(why) => ending.note_not_kept(&artifact.path, why),
            }
        }
    }

    /// Ends the session; the snapshot of this cell is kept, 0 for none.
    pub(super) async fn close(&mut self, cell: u32) {
        self.keep_snapshot(cell);
        // Unless the run has left files in it.
        let _ = fs::remove_dir(&self.directory);
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

/// Copies a file of a session below a directory. Returns false if it no longer exists.
async fn keep_artifact(
    session: &Arc<Session>,
    root: &Path,
    name: &str,
) -> Result<bool, &'static str> {
    let path = below(root, name)?;
    let (session, name) = (Arc::clone(session), name.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        let contents = match session.open(&name) {
            Ok(contents) => contents,
            Err(Error::File(BeneathError::NotFound(_))) => return Ok(false),
            Err(Error::File(BeneathError::NotRegular(_))) => {
                return Err("something that is not a regular file took its place");
            }
            Err(Error::FileTooLarge { .. }) => return Err("it is too large"),
            Err(Error::Ended(_)) => return Err("the session that had it has ended"),
            Err(error) => {
                tracing::warn!(%error, "an artifact cannot be read");
                return Err("it could not be read");
            }
        };
        // Code that still runs can make it larger meanwhile.
        let bytes = contents.metadata().map_or(0, |file| file.len());
        keep_file(&path, &mut contents.take(bytes)).map(|()| true)
    });
    copied.await.unwrap_or(Err("it could not be read"))
}

/// Makes the artifacts of a run durable. If the disk fails, they are noted as not kept.
pub(super) async fn sync_artifacts(root: PathBuf, ending: &mut Ending) {
    if ending.artifacts.is_empty() {
        return;
    }
    let synced = tokio::task::spawn_blocking(move || {
        let root = fs::File::open(root)?;
        Ok(rustix::fs::syncfs(root)?)
    });
    let synced = synced
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    if let Err(error) = synced {
        tracing::error!(%error, "artifacts cannot be made durable");
        for artifact in std::mem::take(&mut ending.artifacts) {
            ending.note_not_kept(&artifact.path, DISK_FAILED);
        }
    }
}

/// Writes an artifact, completely or not at all; returns the reason if not.
pub(super) fn keep_file(path: &Path, contents: &mut dyn Read) -> Result<(), &'static str> {
    let mut write = || {
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        failpoint::fail("runs.artifact")?;
        let mut file = fs::File::create(path)?;
        let written = io::copy(contents, &mut file).map(drop);
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
        written
    };
    write().map_err(|error| {
        tracing::error!(%error, path = %path.display(), "an artifact cannot be kept");
        match (StorageFault::from_io(&error), error.kind()) {
            (Some(StorageFault::Full), _) => "the disk of the service was full",
            (Some(StorageFault::Failed), _) => DISK_FAILED,
            (None, ErrorKind::InvalidFilename) => "its path is too long",
            (None, _) => "it could not be written",
        }
    })
}

/// A path below a directory, which need not take all paths that a session can have.
fn below(root: &Path, path: &str) -> Result<PathBuf, &'static str> {
    let mut out = root.to_owned();
    if path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
        return Err("its path is too long");
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." || part.contains('\0') {
            return Err("its path is not one inside the workspace");
        }
        out.push(part);
    }
    Ok(out)
}

/// Where the session of the run with this directory is saved as it was after a cell.
pub(super) fn snapshot_in(directory: &Path, cell: u32) -> PathBuf {
    directory.join(format!("session-{cell}.snapshot"))
}

/// For this user alone.
pub(super) fn make_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
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
