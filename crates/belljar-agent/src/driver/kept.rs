//! Replaces markers in an answer by the values that the host keeps.

use belljar_protocol::{Artifact, ArtifactChange, MimeType};

use super::LiveRun;
use super::artifacts::keep_file;
use crate::run::Ending;

/// The longest text that is put into an answer; a longer one is a file.
const MOST_TEXT: u64 = 64 << 10;

/// The longest answer that texts are put into: it is a part of the run's last event.
const MOST_ANSWER: usize = 1 << 20;

impl LiveRun {
    /// Replaces markers in the answer: by the text, or by the name of a file that is among the
    /// artifacts from now on. One that can't be replaced stays, and is noted.
    pub(super) async fn expand_markers(&self, ending: &mut Ending) {
        for (marker, blob) in self.run.kept() {
            let Some(answer) = ending.answer.as_mut() else {
                return;
            };
            let uses = answer.matches(marker.as_str()).count();
            if uses == 0 {
                continue;
            }
            let data = match self.agent.blobs.get(blob).await {
                Ok(data) => data,
                Err(error) => {
                    tracing::error!(%error, marker, "a value of an answer cannot be read");
                    ending.note_not_kept(marker, "it could not be read");
                    continue;
                }
            };
            let fits = is_text(&blob.media_type)
                && blob.bytes <= MOST_TEXT
                && answer.len() + uses * data.len() <= MOST_ANSWER;
            if let Some(text) = std::str::from_utf8(&data).ok().filter(|_| fits) {
                *answer = answer.replace(marker.as_str(), text);
                continue;
            }
            let name = file_name(marker, &blob.media_type);
            let stored = if self.agent.owner.is_some() {
                // A blob of the run already.
                ending.contents.insert(name.clone(), blob.clone());
                Ok(())
            } else {
                keep_file(&self.artifacts().join(&name), &mut &data[..])
            };
            match stored {
                Ok(()) => {
                    *answer = answer.replace(marker.as_str(), &name);
                    ending.artifacts.push(Artifact {
                        path: name,
                        size: blob.bytes,
                        change: ArtifactChange::Created,
                    });
                }
                Err(why) => ending.note_not_kept(&name, why),
            }
        }
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.starts_with("application/json")
}

/// The most letters of a file's name that a marker gives it.
const MOST_NAME: usize = 200;

/// `chart-7.png` for `⟦chart:7⟧`: of a tool's name only what is plain.
fn file_name(marker: &str, media_type: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = marker.chars().map(plain).collect();
    let known = MimeType::named(media_type).and_then(MimeType::extension);
    let unknown = if is_text(media_type) { "txt" } else { "bin" };
    let ending = known.unwrap_or(unknown);
    let name: String = name.trim_matches('-').chars().take(MOST_NAME).collect();
    format!("{name}.{ending}")
}
