//! A prompt as a task with files.

use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ResourceLink,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_protocol::visible;

use crate::client_files::ClientFiles;
use crate::directory::{MAX_FILE, decode};
use crate::words::{fenced, quoted};

/// The longest task, in bytes.
const MAX_TASK: usize = 64 << 10;

/// The most files of a prompt, and bytes of all of them.
const MOST_FILES: usize = 32;
const MAX_BYTES: usize = 128 << 20;

/// Where files go that are not in the directory of the session.
const ELSEWHERE: &str = "resources";

/// The most characters of a name that a URI gives.
const MAX_NAME: usize = 100;

/// What a person asks for.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    pub(crate) task: String,
    pub(crate) files: Vec<PromptFile>,
}

/// A file of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PromptFile {
    /// Its name in the workspace. Files of the session's directory have their name below that.
    pub(crate) name: String,
    pub(crate) contents: Vec<u8>,
    /// Whether it is a whole file of the session's directory.
    pub(crate) is_of_directory: bool,
}

/// Reads a prompt. An error is for the person.
pub(crate) async fn read(
    blocks: Vec<ContentBlock>,
    files: &ClientFiles<'_>,
) -> Result<Prompt, String> {
    let mut prompt = Prompt::default();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => prompt.task.push_str(&text.text),
            ContentBlock::ResourceLink(link) => prompt.link(&link, files).await?,
            ContentBlock::Resource(resource) => prompt.resource(resource, files)?,
            ContentBlock::Image(_) | ContentBlock::Audio(_) => {
                return Err("Prompts cannot have images or audio: name the file instead.".into());
            }
            _ => return Err("The prompt has a part of an unknown kind.".into()),
        }
        if prompt.task.len() > MAX_TASK {
            return Err(format!(
                "The prompt is longer than {MAX_TASK} bytes: put the text into a file, and name the file."
            ));
        }
    }
    if prompt.task.trim().is_empty() {
        return Err("The prompt is empty: say what is to be done.".into());
    }
    Ok(prompt)
}

impl Prompt {
    /// A link: a file to be read, or words.
    async fn link(&mut self, link: &ResourceLink, files: &ClientFiles<'_>) -> Result<(), String> {
        let Some(name) = files.directory.name(&link.uri)? else {
            self.task.push_str(&visible(&link.uri));
            return Ok(());
        };
        let contents = files.read(&name).await?;
        self.task.push_str(&quoted(&name));
        self.add(name, contents, true)
    }

    /// Contents that the editor has sent along.
    fn resource(
        &mut self,
        resource: EmbeddedResource,
        files: &ClientFiles<'_>,
    ) -> Result<(), String> {
        let (uri, contents) = match resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => {
                (text.uri, text.text.into_bytes())
            }
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                let decoded = BASE64.decode(blob.blob);
                let wrong = |_| format!("The contents of {} are not base64.", quoted(&blob.uri));
                (blob.uri.clone(), decoded.map_err(wrong)?)
            }
            _ => return Err("The prompt has a resource of an unknown kind.".into()),
        };
        let name = files.directory.name(&uri)?;
        match (name, uri.split_once('#')) {
            // A selection, not the file.
            (Some(name), Some((_, lines))) => {
                let text = String::from_utf8_lossy(&contents);
                let block = fenced("", &text);
                let (name, lines) = (quoted(&name), visible(lines));
                let _ = write!(self.task, "\n{name} ({lines}):\n{block}\n");
                Ok(())
            }
            (Some(name), None) => {
                self.task.push_str(&quoted(&name));
                self.add(name, contents, true)
            }
            (None, _) => {
                let name = self.free_name(&uri);
                self.task.push_str(&quoted(&name));
                self.add(name, contents, false)
            }
        }
    }

    /// Adds a file; a later one of the same name is the one that counts.
    fn add(
        &mut self,
        name: String,
        contents: Vec<u8>,
        is_of_directory: bool,
    ) -> Result<(), String> {
        if contents.len() as u64 > MAX_FILE {
            let (name, most) = (quoted(&name), MAX_FILE >> 20);
            return Err(format!("The file {name} is larger than {most} MiB."));
        }
        self.files.retain(|file| file.name != name);
        self.files.push(PromptFile {
            name,
            contents,
            is_of_directory,
        });
        let bytes: usize = self.files.iter().map(|file| file.contents.len()).sum();
        if self.files.len() > MOST_FILES || bytes > MAX_BYTES {
            let most = MAX_BYTES >> 20;
            return Err(format!(
                "The prompt has too many files: at most {MOST_FILES}, of {most} MiB together."
            ));
        }
        Ok(())
    }

    /// A name for contents from elsewhere, which no other file of the prompt has.
    fn free_name(&self, uri: &str) -> String {
        let path = uri.split(['#', '?']).next().unwrap_or_default();
        let last = path.trim_end_matches('/').rsplit('/').next();
        let last = decode(last.unwrap_or_default()).unwrap_or_default();
        let plain = |c: char| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        };
        let name: String = last.chars().take(MAX_NAME).map(plain).collect();
        let name = match name.trim_start_matches('.') {
            "" => "resource",
            name => name,
        };
        let mut free = format!("{ELSEWHERE}/{name}");
        let mut number = 1;
        while self.files.iter().any(|file| file.name == free) {
            number += 1;
            free = format!("{ELSEWHERE}/{number}-{name}");
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agent_client_protocol_schema::v1::FileSystemCapabilities;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::directory::{Directory, file_uri};
    use crate::peer::Peer;

    async fn read_in(root: &Path, blocks: Value) -> Result<Prompt, String> {
        let (outgoing, _lines) = mpsc::channel(1);
        let files = ClientFiles {
            peer: &Peer::new(outgoing),
            session: "s",
            directory: &Directory::open(root).unwrap(),
            can: &FileSystemCapabilities::new(),
        };
        read(serde_json::from_value(blocks).unwrap(), &files).await
    }

    #[tokio::test]
    async fn links_and_resources_become_files() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        std::fs::create_dir(root.join("data")).unwrap();
        std::fs::write(root.join("data/a.csv"), "x\n1\n").unwrap();
        let uri = |name: &str| file_uri(&root.join(name));
        let prompt = read_in(
            root,
            json!([
                {"type": "text", "text": "Sum "},
                {"type": "resource_link", "name": "a", "uri": uri("data/a.csv")},
                {"type": "text", "text": " as in "},
                {"type": "resource", "resource": {"uri": uri("b.py"), "text": "print(1)"}},
                {"type": "resource", "resource": {"uri": uri("c.py") + "#L2:3", "text": "y = ```2"}},
                {"type": "resource", "resource": {"uri": "https://x.org/../.hidden%2Fz", "text": "z"}},
                {"type": "resource", "resource": {"uri": "zed:///hidden-z", "blob": "AP8="}},
                {"type": "resource_link", "name": "w", "uri": "https://x.org/a"},
            ]),
        )
        .await
        .unwrap();
        let file = |name: &str, contents: &[u8], is_of_directory| PromptFile {
            name: name.into(),
            contents: contents.into(),
            is_of_directory,
        };
        assert_eq!(
            prompt.files,
            [
                file("data/a.csv", b"x\n1\n", true),
                file("b.py", b"print(1)", true),
                file("resources/hidden-z", b"z", false),
                file("resources/2-hidden-z", b"\0\xff", false),
            ]
        );
        assert_eq!(
            prompt.task,
            "Sum `data/a.csv` as in `b.py`\n`c.py` (L2:3):\n````\ny = ```2\n````\n\
             `resources/hidden-z``resources/2-hidden-z`https://x.org/a"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_given_is_refused_in_words() {
        let scratch = tempfile::tempdir().unwrap();
        let link = |uri: &str| json!([{"type": "text", "text": "x"}, {"type": "resource_link", "name": "a", "uri": uri}]);
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let missing = file_uri(&scratch.path().join("no.csv"));
        for (blocks, why) in [
            (link("file:///etc/passwd"), "is not below the directory"),
            (link(&missing), "does not exist"),
            (text(" \n"), "The prompt is empty"),
            (text(&"x".repeat(MAX_TASK + 1)), "longer than 65536 bytes"),
            (
                json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
                "cannot have images",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "x:y", "blob": "*"}}]),
                "not base64",
            ),
            (
                json!([{"type": "resource", "resource": {"uri": "file:///etc/passwd", "text": ""}}]),
                "is not below the directory",
            ),
            (
                (0..33)
                    .map(|n| json!({"type": "resource", "resource": {"uri": format!("x:/{n}"), "text": ""}}))
                    .collect(),
                "too many files",
            ),
        ] {
            let refused = read_in(scratch.path(), blocks).await.unwrap_err();
            assert!(refused.contains(why), "no {why:?} in {refused}");
        }
    }
}
