//! Contents of files: read and written by their paths, with a token or a signed address.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::{Extension, Json as JsonResponse};
use belljar_sandbox::{DiskFull, EntryKind};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use tokio_util::io::ReaderStream;

use super::errors::not_supported;
use super::filesystem::{absolute, status, worded};
use super::links::resolve;
use super::rpc::bad;
use crate::api::files::{attachment, awake, check, in_background, with_files};
use crate::api::form::{Form, reason};
use crate::api::spool::{Spooled, rewound};
use crate::body::{Query, Upload};
use crate::problem::{Code, Problem, disk_full};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// The most files of one request.
const MAX_FILES: usize = 1000;

#[derive(Deserialize)]
pub(super) struct FileAsked {
    path: Option<String>,
    username: Option<String>,
}

/// A file that was written.
#[derive(Serialize)]
pub(super) struct WrittenFile {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
}

impl FileAsked {
    fn check(&self) -> Result<(), Problem> {
        match self.username.as_deref() {
            None | Some("" | "user" | "root") => Ok(()),
            Some(_) => {
                let detail = "the users of a sandbox are `user` and `root`, which is `user` here";
                Err(Problem::new(Code::Unauthorized, detail))
            }
        }
    }
}

/// The sandbox is running.
pub(super) async fn health() -> StatusCode {
    StatusCode::NO_CONTENT
}

pub(super) async fn read(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Extension(entry): Extension<Arc<SessionEntry>>,
    Query(asked): Query<FileAsked>,
) -> Result<Response, Problem> {
    asked.check()?;
    let path = asked.path.ok_or_else(|| bad("`path` is required"))?;
    if status(&entry, &path).await?.kind == EntryKind::Directory {
        return Err(bad(&format!("`{}` is a directory", path.escape_debug())));
    }
    let transfer = service.admission.transfer(&caller.tenant)?;
    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
    let file = with_files(&entry, move |session| {
        session.open(&resolve(session, &path))
    })
    .await?;
    let size = file.metadata().map(|metadata| metadata.len());
    let size = size.map_err(|error| Problem::io("cannot read a file of a sandbox", error))?;
    let kind = "application/octet-stream";
    Ok(attachment(file, size, &name, kind, transfer))
}

pub(super) async fn write(
    State(service): State<Arc<Service>>,
    Extension(entry): Extension<Arc<SessionEntry>>,
    Query(asked): Query<FileAsked>,
    headers: HeaderMap,
    upload: Upload,
) -> Result<JsonResponse<Vec<WrittenFile>>, Problem> {
    asked.check()?;
    if headers
        .keys()
        .any(|name| name.as_str().starts_with("x-metadata-"))
    {
        return Err(not_supported("files have no metadata of their own"));
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let mut file = rewound(upload.file()?)?;
    if let Ok(boundary) = multer::parse_boundary(kind) {
        return write_parts(&service, &entry, asked.path, file, boundary).await;
    }
    if kind != "application/octet-stream" {
        let detail = "send `multipart/form-data` or `application/octet-stream`";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let path = asked.path.ok_or_else(|| bad("`path` is required"))?;
    let mut held = None;
    match text(header::CONTENT_ENCODING) {
        None | Some("identity") => {}
        Some("gzip") => {
            let spooled = Spooled::new(&service, &entry.tenant).await?;
            let most = entry.options.limits.transfer_bytes + 1;
            let spooled = in_background(move || unzip(file, spooled, most)).await?;
            file = rewound(&spooled.file)?;
            held = Some(spooled);
        }
        Some(_) => {
            let detail = "`Content-Encoding` must be `gzip` or `identity`";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
    }
    let written = put(&entry, path, file).await?;
    drop(held);
    Ok(JsonResponse(vec![written]))
}

/// Writes each part of a form. Its name is its path, unless the request has one for the only part.
async fn write_parts(
    service: &Service,
    entry: &SessionEntry,
    path: Option<String>,
    file: File,
    boundary: String,
) -> Result<JsonResponse<Vec<WrittenFile>>, Problem> {
    let body = ReaderStream::new(tokio::fs::File::from_std(file));
    let mut form = Form::new(body, boundary);
    let malformed = |error| bad(&format!("the form cannot be read: {}", reason(&error)));
    let mut written = Vec::new();
    while let Some(mut part) = form.next().await.map_err(malformed)? {
        if written.len() == MAX_FILES || path.is_some() && !written.is_empty() {
            let detail = "a form with `path` has one part, and others at most 1,000";
            return Err(Problem::new(Code::BadBody, detail));
        }
        let name = path.as_deref().or(part.file_name());
        let name = name
            .ok_or_else(|| bad("a part has no file name"))?
            .to_owned();
        let mut spooled = Spooled::new(service, &entry.tenant).await?;
        while let Some(chunk) = part.chunk().await.map_err(malformed)? {
            spooled.write_all(&chunk).map_err(disk_full)?;
        }
        written.push(put(entry, name, rewound(&spooled.file)?).await?);
    }
    Ok(JsonResponse(written))
}

/// Writes a file of the host into the sandbox.
async fn put(entry: &SessionEntry, path: String, file: File) -> Result<WrittenFile, Problem> {
    check(&path)?;
    let session = awake(entry).await?;
    let asked = path.clone();
    let put = in_background(move || Ok(session.put_file(&resolve(&session, &asked), &file)));
    if let Err(problem) = put.await?.map_err(|error| entry.explain(error)) {
        return Err(worded(entry, &path, problem).await);
    }
    let path = absolute(&path);
    Ok(WrittenFile {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        kind: "file",
        path,
    })
}

/// Decompresses at most so many bytes.
fn unzip(file: File, mut spooled: Spooled, most: u64) -> Result<Spooled, Problem> {
    let mut source = MultiGzDecoder::new(file).take(most);
    match io::copy(&mut source, &mut spooled) {
        Ok(_) => Ok(spooled),
        Err(error) if DiskFull::find(&error).is_some() => Err(disk_full(error)),
        Err(_) => Err(bad("the body is not gzip")),
    }
}
