//! Files of a session's workspace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::protocol::{MimeType, visible};
use belljar_sandbox::{EntryKind, Error, Session};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::arguments::{
    Encoding, FileDone, FileReport, FilesReport, ListFiles, ReadFile, WriteFile,
};
use crate::report::{MAX_TEXT, refusal, result};
use crate::sessions::SessionEntry;

/// The most files that one listing names.
const MAX_LISTED: usize = 1000;

pub(crate) async fn list(entry: &SessionEntry, args: ListFiles) -> Result<CallToolResult, Error> {
    let path = relative(&entry.session, &args.path);
    let listing = awake(&entry.session, || entry.session.list(&path)).await?;
    let truncated = listing.truncated || listing.entries.len() > MAX_LISTED;
    let files: Vec<FileReport> = listing
        .entries
        .into_iter()
        .take(MAX_LISTED)
        .map(|entry| FileReport {
            path: entry.path,
            kind: match entry.kind {
                EntryKind::File => "file",
                EntryKind::Directory => "directory",
                EntryKind::Other => "other",
            },
            size: entry.size,
        })
        .collect();
    let mut lines: Vec<String> = files
        .iter()
        .map(|file| match file.kind {
            "file" => format!("{} ({} B)", visible(&file.path), file.size),
            kind => format!("{} ({kind})", visible(&file.path)),
        })
        .collect();
    if files.is_empty() {
        lines.push("There are no files.".into());
    }
    if truncated {
        lines.push(format!("There are more: only {} are listed.", files.len()));
    }
    let report = FilesReport {
        session_id: entry.id.clone(),
        files,
        truncated,
    };
    Ok(result(vec![ContentBlock::text(lines.join("\n"))], &report))
}

pub(crate) async fn read(entry: &SessionEntry, args: ReadFile) -> Result<CallToolResult, Error> {
    let (path, contents) = contents(entry, &args.path).await?;
    let report = FileDone {
        session_id: entry.id.clone(),
        size: contents.len() as u64,
        path,
    };
    let block = match (image_type(&contents), String::from_utf8(contents)) {
        (None, Ok(text)) if text.len() > MAX_TEXT => {
            return Ok(refusal(format!(
                "The file has {} bytes of text; at most {MAX_TEXT} can be read at once. Read a part \
                 of it with run_python.",
                text.len()
            )));
        }
        (None, Ok(text)) => ContentBlock::text(text),
        (Some(mime), Ok(bytes)) => ContentBlock::image(BASE64.encode(bytes), mime),
        (Some(mime), Err(bytes)) => ContentBlock::image(BASE64.encode(bytes.as_bytes()), mime),
        (None, Err(bytes)) => {
            let directory = if report.path.starts_with('/') {
                ""
            } else {
                "/workspace/"
            };
            let uri = format!("file://{directory}{}", visible(&report.path));
            let blob = BASE64.encode(bytes.as_bytes());
            ContentBlock::resource(
                ResourceContents::blob(blob, uri).with_mime_type("application/octet-stream"),
            )
        }
    };
    Ok(result(vec![block], &report))
}

pub(crate) async fn write(entry: &SessionEntry, args: WriteFile) -> Result<CallToolResult, Error> {
    let contents = match args.encoding {
        Encoding::Text => args.content.into_bytes(),
        Encoding::Base64 => match BASE64.decode(args.content.trim()) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(refusal(format!("content is not base64: {error}"))),
        },
    };
    let path = relative(&entry.session, &args.path);
    put(entry, &path, &contents).await?;
    let size = contents.len() as u64;
    let text = format!("{} bytes were written to {}", size, visible(&path));
    let report = FileDone {
        session_id: entry.id.clone(),
        path,
        size,
    };
    Ok(result(vec![ContentBlock::text(text)], &report))
}

/// What is in a file, and its path as seen from the workspace.
pub(crate) async fn contents(entry: &SessionEntry, path: &str) -> Result<(String, Vec<u8>), Error> {
    let path = relative(&entry.session, path);
    let contents = awake(&entry.session, || entry.session.get(&path)).await?;
    let contents = entry.session.scrub(contents);
    Ok((path, contents))
}

pub(crate) async fn put(entry: &SessionEntry, path: &str, contents: &[u8]) -> Result<(), Error> {
    awake(&entry.session, || entry.session.put(path, contents)).await
}

/// Does something with the files of a session, which is woken for it if it is hibernated.
async fn awake<T>(session: &Session, act: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match act() {
        Err(Error::Hibernated) => {
            session.wake().await?;
            act()
        }
        result => result,
    }
}

/// The path as seen from the workspace: models often give the one that code sees.
pub(crate) fn relative(session: &Session, path: &str) -> String {
    let directory = session.directory();
    for root in [&*directory.to_string_lossy(), "/workspace"] {
        if let Some(rest) = path.strip_prefix(root)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return rest.trim_start_matches('/').to_owned();
        }
    }
    path.trim_start_matches("./").to_owned()
}

/// By how it begins; the name of a file says nothing certain.
pub(crate) fn image_type(contents: &[u8]) -> Option<&'static str> {
    let known = MimeType::of_contents(contents).filter(|mime| mime.is_image());
    known.map(|mime| mime.name)
}
