//! Messages of a client: the last one is the task of a run, with what was said before, and files for its workspace.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::Value;

use super::errors::{invalid, unsupported};
use crate::api::run_create::{MAX_FILE_BYTES, MAX_FILES, MAX_TASK, is_file_name};
use crate::problem::{Code, Problem};

/// The contents of a message.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message, of a chat or of a response.
#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<ImageUrl>,
    file: Option<FilePart>,
    #[serde(flatten)]
    input_file: FilePart,
}

/// An image: in responses only its address.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ImageUrl {
    Url(String),
    Object { url: String },
}

#[derive(Debug, Default, Deserialize)]
struct FilePart {
    filename: Option<String>,
    file_data: Option<String>,
    file_id: Option<Value>,
    file_url: Option<Value>,
}

/// A file of the workspace: its path and its contents.
pub(super) type GivenFile = (String, Vec<u8>);

/// What a client has said.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    instructions: Vec<String>,
    /// Role and text.
    said: Vec<(&'static str, String)>,
    files: Vec<GivenFile>,
    images: usize,
}

impl Conversation {
    pub(super) fn instruct(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.instructions.push(text.trim().to_owned());
        }
    }

    /// Adds a message.
    pub(super) fn say(&mut self, role: &str, content: Option<Content>) -> Result<(), Problem> {
        let mut text = String::new();
        match content {
            None => {}
            Some(Content::Text(whole)) => text = whole,
            Some(Content::Parts(parts)) => {
                for part in parts {
                    if let Some(more) = self.take(part)? {
                        if !text.is_empty() {
                            text.push('\n');
                        }
                        text.push_str(&more);
                    }
                }
            }
        }
        match role {
            "system" | "developer" => self.instruct(&text),
            "user" => self.said.push(("user", text)),
            "assistant" => self.said.push(("assistant", text)),
            _ => {
                let why = "the roles are `system`, `developer`, `user` and `assistant`";
                return Err(unsupported("messages.role", why));
            }
        }
        Ok(())
    }

    /// Adds code that an earlier run has executed.
    pub(super) fn has_run(&mut self, code: &str) {
        let code = format!("```python\n{}\n```", code.trim_end());
        self.said.push(("assistant", code));
    }

    /// The text of a part, or the name of the file that it has become.
    fn take(&mut self, part: Part) -> Result<Option<String>, Problem> {
        match part.kind.as_str() {
            "text" | "input_text" | "output_text" => Ok(part.text),
            "refusal" => Ok(part.refusal),
            "image_url" | "input_image" => {
                let Some(ImageUrl::Url(url) | ImageUrl::Object { url }) = part.image_url else {
                    return Err(only_data("image_url"));
                };
                let (kind, contents) = data_url(&url).ok_or_else(|| only_data("image_url"))?;
                let kind = kind.strip_prefix("image/").unwrap_or_default();
                let plain = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
                let ending = if plain { kind } else { "bin" };
                self.images += 1;
                let name = format!("image-{}.{ending}", self.images);
                self.add(name, contents).map(Some)
            }
            "file" | "input_file" => {
                let file = part.file.unwrap_or(part.input_file);
                if file.file_id.is_some_and(|id| !id.is_null())
                    || file.file_url.is_some_and(|url| !url.is_null())
                {
                    return Err(only_data("file_data"));
                }
                let data = file.file_data.ok_or_else(|| only_data("file_data"))?;
                let contents = match data_url(&data) {
                    Some((_, contents)) => Some(contents),
                    None => BASE64.decode(&data).ok(),
                };
                let contents = contents.ok_or_else(|| only_data("file_data"))?;
                let name = file.filename.filter(|name| is_file_name(name));
                let why = "it must be a file name, without directories";
                let name = name.ok_or_else(|| invalid("filename", why))?;
                self.add(name, contents).map(Some)
            }
            other => {
                let why = format!("a message cannot have `{}`", other.escape_debug());
                Err(unsupported("messages.content", &why))
            }
        }
    }

    /// Adds a file. Clients send earlier messages again, with their files.
    fn add(&mut self, name: String, contents: Vec<u8>) -> Result<String, Problem> {
        let shown = format!("[file: {name}]");
        match self.files.iter().find(|(known, _)| *known == name) {
            Some((_, known)) if *known == contents => {}
            Some(_) => {
                let why = "two files with different contents have this name";
                return Err(invalid("filename", why));
            }
            None => self.files.push((name, contents)),
        }
        Ok(shown)
    }

    /// The task of the run, and its files.
    pub(super) fn task(self) -> Result<(String, Vec<GivenFile>), Problem> {
        let mut said = self.said;
        let Some(("user", last)) = said.pop() else {
            let why = "the last message must be of the role `user`";
            return Err(invalid("messages", why));
        };
        let mut task = String::new();
        if !self.instructions.is_empty() {
            let all = self.instructions.join("\n\n");
            task = format!("<instructions>\n{all}\n</instructions>\n\n");
        }
        if !said.is_empty() {
            task.push_str("<conversation>\n");
            for (role, text) in &said {
                let _ = write!(task, "{role}: {text}\n\n");
            }
            task.truncate(task.trim_end().len());
            task.push_str("\n</conversation>\n\n");
        }
        task.push_str(&last);
        if task.len() > MAX_TASK {
            let why = format!("all messages together must have at most {MAX_TASK} bytes");
            return Err(invalid("messages", &why));
        }
        Ok((task, self.files))
    }
}

/// Refuses more files than a run may have.
pub(super) fn check_files(files: &[GivenFile]) -> Result<(), Problem> {
    let bytes: u64 = files
        .iter()
        .map(|(_, contents)| contents.len() as u64)
        .sum();
    if files.len() <= MAX_FILES && bytes <= MAX_FILE_BYTES {
        return Ok(());
    }
    let detail =
        format!("a run may have at most {MAX_FILES} files, with {MAX_FILE_BYTES} bytes together");
    Err(Problem::new(Code::FileTooLarge, detail))
}

fn only_data(parameter: &str) -> Problem {
    let why =
        "send the contents as base64, in a `data:` URL; addresses and ids of files are not read";
    unsupported(parameter, why)
}

/// Media type and contents of a `data:` URL.
fn data_url(url: &str) -> Option<(&str, Vec<u8>)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let kind = head.strip_suffix(";base64")?;
    let kind = kind.split(';').next().unwrap_or_default();
    Some((kind, BASE64.decode(data).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spoken(messages: &Value) -> Result<(String, Vec<GivenFile>), Problem> {
        let mut conversation = Conversation::default();
        for message in messages.as_array().unwrap() {
            let content = message.get("content").cloned();
            let content = content.map(|content| serde_json::from_value(content).unwrap());
            conversation.say(message["role"].as_str().unwrap(), content)?;
        }
        conversation.task()
    }

    #[test]
    fn the_last_message_is_the_task() {
        let (task, files) = spoken(&json!([{"role": "user", "content": "Add 1 and 2."}])).unwrap();
        assert_eq!((task.as_str(), files.len()), ("Add 1 and 2.", 0));
        let (task, _) = spoken(&json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "now?"}]},
        ]))
        .unwrap();
        assert_eq!(
            task,
            "<instructions>\nBe brief.\n</instructions>\n\n<conversation>\nuser: Hello\n\nassistant: Hi\n\
             </conversation>\n\nAnd\nnow?"
        );
        for wrong in [
            json!([]),
            json!([{"role": "assistant", "content": "x"}]),
            json!([{"role": "tool", "content": "x"}]),
            json!([{"role": "user", "content": "x".repeat(MAX_TASK + 1)}]),
        ] {
            assert!(spoken(&wrong).is_err());
        }
    }

    #[test]
    fn files_come_as_data_with_plain_names() {
        let message = |part: Value| json!([{"role": "user", "content": [part]}]);
        let data = format!("data:text/csv;base64,{}", BASE64.encode("a,b\n"));
        for part in [
            json!({"type": "file", "file": {"filename": "a.csv", "file_data": data}}),
            json!({"type": "input_file", "filename": "a.csv", "file_data": BASE64.encode("a,b\n")}),
        ] {
            let (task, files) = spoken(&message(part)).unwrap();
            assert_eq!(task, "[file: a.csv]");
            assert_eq!(files, [("a.csv".to_owned(), b"a,b\n".to_vec())]);
        }
        for (kind, name) in [
            ("image/png", "image-1.png"),
            ("image/../../etc/x", "image-1.bin"),
            ("x", "image-1.bin"),
        ] {
            let url = format!("data:{kind};base64,AAAA");
            for url in [json!(url), json!({"url": url})] {
                let part = json!({"type": "image_url", "image_url": url});
                assert_eq!(spoken(&message(part)).unwrap().1[0].0, name);
            }
        }
        for name in ["../x", "a/b", "", "..", "a\u{0}b", "a\\b"] {
            let part = json!({"type": "input_file", "filename": name, "file_data": "AAAA"});
            assert!(spoken(&message(part)).is_err(), "{name}");
        }
        for part in [
            json!({"type": "input_image", "image_url": "https://example.org/a.png"}),
            json!({"type": "input_file", "file_id": "file-1"}),
            json!({"type": "input_file", "filename": "a", "file_data": "?"}),
            json!({"type": "input_audio", "input_audio": {}}),
        ] {
            assert!(spoken(&message(part)).is_err());
        }
        let two = json!([
            {"type": "input_file", "filename": "a", "file_data": "AAAA"},
            {"type": "input_file", "filename": "a", "file_data": "AAAB"},
        ]);
        assert!(spoken(&json!([{"role": "user", "content": two}])).is_err());
    }
}
