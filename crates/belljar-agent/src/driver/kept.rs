//! Puts what the host keeps into the answer, for the markers that stand for it.

use std::fs;

use belljar_protocol::{Artifact, ArtifactChange};

use super::session::make_directory;
use super::{LiveRun, RunError};
use crate::run::Ending;

/// The longest text that is put into an answer; a longer one is a file.
const MOST_TEXT: u64 = 64 << 10;

impl LiveRun {
    /// Replaces markers in the answer: by the text, or by the name of a file that is among the
    /// artifacts from now on.
    pub(super) async fn expand_markers(&self, ending: &mut Ending) -> Result<(), RunError> {
        let Some(answer) = &mut ending.answer else {
            return Ok(());
        };
        for (marker, blob) in self.run.kept() {
            if !answer.contains(marker.as_str()) {
                continue;
            }
            let data = self.agent.blobs.get(blob).await?;
            let text = String::from_utf8(data).map_err(std::string::FromUtf8Error::into_bytes);
            let (data, text) = match text {
                Ok(text) if is_text(&blob.media_type) && blob.bytes <= MOST_TEXT => {
                    (Vec::new(), Some(text))
                }
                Ok(text) => (text.into_bytes(), None),
                Err(data) => (data, None),
            };
            let Some(text) = text else {
                let name = file_name(marker, &blob.media_type);
                let directory = self.artifacts();
                let path = directory.join(&name);
                let file = |source| RunError::File {
                    path: path.clone(),
                    source,
                };
                make_directory(&directory).map_err(file)?;
                fs::write(&path, data).map_err(file)?;
                *answer = answer.replace(marker.as_str(), &name);
                ending.artifacts.push(Artifact {
                    path: name,
                    size: blob.bytes,
                    change: ArtifactChange::Created,
                });
                continue;
            };
            *answer = answer.replace(marker.as_str(), &text);
        }
        Ok(())
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.starts_with("application/json")
}

/// `chart-7.png` for `⟦chart:7⟧`: of a tool's name only what is plain.
fn file_name(marker: &str, media_type: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = marker.chars().map(plain).collect();
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    let ending = match kind {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "text/html" => "html",
        "text/csv" => "csv",
        kind if kind.starts_with("text/") => "txt",
        _ => "bin",
    };
    format!("{}.{ending}", name.trim_matches('-'))
}
