//! What a run came to: its answer, the files that it made, and changes of files that it was given.

use std::collections::BTreeMap;
use std::path::Path;

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, ResourceLink, SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use belljar_agent::{Ending, ExitReason};
use belljar_journal::RunId;
use belljar_protocol::{Language, plain, visible};

use crate::client_files::ClientFiles;
use crate::directory::file_uri;
use crate::peer::PeerError;
use crate::permission::permits;
use crate::words::{call_id, fenced, quoted, text};

/// The most files of a run that are named.
const MOST_FILES: usize = 32;

/// The largest text whose changes are shown.
pub(crate) const MAX_DIFF: usize = 1 << 20;

/// The answer with its evidence, or why there is none, and links to the files of the run. `said` is the
/// text of the last reply, as far as it was shown.
pub(crate) fn ending(
    end: &Ending,
    artifacts: &Path,
    said: &str,
    language: Language,
) -> Vec<ContentBlock> {
    let texts = &language.texts().run;
    let mut parts = Vec::new();
    match (&end.answer, &end.last_output) {
        (Some(answer), _) => {
            // Before the answer, so that no reader stops too early.
            let doubts = end.reason.doubts().iter();
            parts.extend(doubts.map(|doubt| texts.unverified(&plain(&doubt.text(language)))));
            if answer.trim() != said.trim() {
                parts.push(plain(answer).into_owned());
            }
        }
        (None, output) => {
            let why = match &end.reason {
                ExitReason::ModelFailed { error } => plain(error).into_owned(),
                reason => reason.text(language),
            };
            parts.push(texts.not_answered(&why));
            if let Some(output) = output {
                let output = fenced("", &plain(output));
                parts.push(format!("{}:\n\n{output}", texts.heading_last_output));
            }
        }
    }
    let evidence = end.evidence.iter();
    let evidence: Vec<String> = evidence
        .map(|found| format!("- {}", plain(&found.text(language))))
        .collect();
    parts.push(evidence.join("\n"));
    let not_kept = end.not_kept.iter();
    parts.extend(not_kept.map(|lost| texts.not_kept(&visible(&lost.path), &visible(&lost.why))));
    if end.not_kept_more > 0 {
        parts.push(texts.more_not_kept(end.not_kept_more));
    }
    if end.artifacts.len() > MOST_FILES {
        let (more, directory) = (end.artifacts.len() - MOST_FILES, artifacts.display());
        parts.push(format!("{more} more files are in {directory}"));
    }
    parts.retain(|part| !part.is_empty());
    let mut blocks = Vec::new();
    if !parts.is_empty() {
        blocks.push(text(format!("{}\n", parts.join("\n\n"))));
    }
    for artifact in end.artifacts.iter().take(MOST_FILES) {
        let uri = file_uri(&artifacts.join(&artifact.path));
        let link = ResourceLink::new(visible(&artifact.path), uri);
        let link = link.size(i64::try_from(artifact.size).ok());
        blocks.push(ContentBlock::ResourceLink(link));
    }
    blocks
}

/// Shows how the run changed texts that it was given, and has the editor write those that the person
/// permits. `given` are the texts by name; what was written is noted there.
pub(crate) async fn offer_changes(
    run: &RunId,
    end: &Ending,
    artifacts: &Path,
    given: &mut BTreeMap<String, String>,
    files: &ClientFiles<'_>,
) -> Result<(), PeerError> {
    let changed = end.artifacts.iter().map(|artifact| &artifact.path);
    for (place, name) in changed.enumerate() {
        let Some(old) = given.get_mut(name) else {
            continue;
        };
        // The run has left there what its session could name, and nothing else.
        let new = std::fs::read(artifacts.join(name)).ok();
        let new = new.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(new) = new.filter(|new| new.len() <= MAX_DIFF && new != old) else {
            continue;
        };
        let id = call_id(run, &format!("file-{place}"));
        let path = files.directory.path().join(name);
        let diff = Diff::new(path.clone(), new.clone()).old_text(old.clone());
        let entry = ToolCall::new(id.clone(), format!("Change {}", quoted(name)))
            .kind(ToolKind::Edit)
            .content(vec![diff.clone().into()])
            .locations(vec![ToolCallLocation::new(path)]);
        let update = |update| files.peer.update(files.session, update);
        update(SessionUpdate::ToolCall(entry.clone())).await?;
        let written = write(name, old, &new, entry.into(), files).await;
        let mut content: Vec<ToolCallContent> = vec![diff.into()];
        let status = match written {
            Ok(()) => {
                *old = new;
                ToolCallStatus::Completed
            }
            Err(why) => {
                content.push(text(format!("Not written: {why}.")).into());
                ToolCallStatus::Failed
            }
        };
        let fields = ToolCallUpdateFields::new().status(status).content(content);
        let changed = ToolCallUpdate::new(id, fields);
        update(SessionUpdate::ToolCallUpdate(changed)).await?;
    }
    Ok(())
}

/// Writes a file, if the person permits it and it is as it was given.
async fn write(
    name: &str,
    old: &str,
    new: &str,
    call: ToolCallUpdate,
    files: &ClientFiles<'_>,
) -> Result<(), String> {
    if !files.can.write_text_file {
        return Err("this editor does not write files for an agent; the link above has it".into());
    }
    if !permits(files.peer, files.session, call).await {
        return Err("it was not permitted".into());
    }
    match files.read(name).await {
        Ok(now) if now == old.as_bytes() => files.write(name, new).await,
        Ok(_) => Err("the file has changed since it was given to the run".into()),
        Err(why) => Err(why.trim_end_matches('.').to_owned()),
    }
}
