//! Files of a session's workspace.

use std::fs::File;
use std::io::Seek as _;
use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar_journal::failpoint;
use belljar_sandbox::{EntryKind, Error, Session};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};

use super::session_views::seconds;
use super::spool::Spooled;
use crate::body::{Json, Named, Query, Upload};
use crate::problem::{Code, Problem, disk_full};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;

/// Maximum bytes of the paths of a listing.
const MAX_LISTED: usize = 1 << 20;

/// How much of a file is read at once.
const CHUNK: usize = 64 << 10;

/// An entry of a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileView {
    /// Path, relative to the workspace; below `/tmp`, an absolute one.
    path: String,
    kind: FileKind,
    /// Size of a file, in bytes.
    size: u64,
}

/// Status of a file or directory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileStatusView {
    /// Path, as requested.
    path: String,
    kind: FileKind,
    /// Size of a file, in bytes.
    size: u64,
    /// Permissions, as `chmod` takes them.
    mode: u32,
    /// Time of the last change, in seconds since 1970.
    modified_at: u64,
}

/// A file or directory of a session.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PathAsked {
    /// Path, relative to the workspace, or below `/tmp`.
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteAsked {
    /// Whether to delete a directory with its contents.
    #[serde(default)]
    recursive: bool,
}

/// A directory to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MakeDirectory {
    /// Path, relative to the workspace, or below `/tmp`.
    path: String,
}

/// A file or directory to rename.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameFile {
    /// Path, relative to the workspace, or below `/tmp`.
    from: String,
    /// Its new path.
    to: String,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, pipe or socket: listed, never opened.
    Other,
}

impl From<EntryKind> for FileKind {
    fn from(kind: EntryKind) -> Self {
        match kind {
            EntryKind::File => Self::File,
            EntryKind::Directory => Self::Directory,
            EntryKind::Other => Self::Other,
        }
    }
}

/// The entries of a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileList {
    /// Sorted by path.
    files: Vec<FileView>,
    /// Whether the listing is truncated.
    truncated: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DirectoryAsked {
    /// Directory, in the workspace or below `/tmp` [default: the whole workspace].
    pub(super) path: Option<String>,
}

/// Lists the files of a workspace.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/files", tag = "files", operation_id = "list_files",
    params(("id" = String, Path, description = "The session."), DirectoryAsked),
    responses((status = 200, description = "The files.", body = FileList))
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<DirectoryAsked>,
) -> Result<JsonResponse<FileList>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let path = asked.path.unwrap_or_default();
    if !path.is_empty() {
        check(&path)?;
    }
    let listing = with_files(&entry, move |session| session.list(&path)).await?;
    let mut truncated = listing.truncated;
    let (mut files, mut bytes) = (Vec::new(), 0);
    for entry in listing.entries {
        bytes += entry.path.len();
        if bytes > MAX_LISTED {
            truncated = true;
            break;
        }
        files.push(FileView {
            path: entry.path,
            kind: entry.kind.into(),
            size: entry.size,
        });
    }
    Ok(JsonResponse(FileList { files, truncated }))
}

/// Downloads a file.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "get_file",
    params(
        ("id" = String, Path, description = "The session."),
        ("path" = String, Path, description = "Path, relative to the workspace, or below `/tmp`."),
    ),
    responses((status = 200, description = "The file.", content_type = "application/octet-stream"))
)]
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, path)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&path)?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
    let file = with_files(&entry, move |session| session.open(&path)).await?;
    let size = file.metadata().map(|metadata| metadata.len());
    let size = size.map_err(|error| Problem::io("cannot read a file of a workspace", error))?;
    let kind = "application/octet-stream";
    Ok(attachment(file, size, &name, kind, transfer))
}

/// Writes a file atomically, and creates its directories.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "put_file",
    params(
        ("id" = String, Path, description = "The session."),
        ("path" = String, Path, description = "Path, relative to the workspace, or below `/tmp`."),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204, description = "The file is written."))
)]
pub(super) async fn put(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, path)): Named<(String, String)>,
    upload: Upload,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&path)?;
    let session = awake(&entry).await?;
    let put = in_background(move || Ok(session.put_file(&path, upload.file()?)));
    put.await?.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a file or an empty directory; with `recursive`, a directory with its contents.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/files/{*path}", tag = "files", operation_id = "delete_file",
    params(
        ("id" = String, Path, description = "The session."),
        ("path" = String, Path, description = "Path, relative to the workspace, or below `/tmp`."),
        DeleteAsked,
    ),
    responses((status = 204, description = "Deleted."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named((id, path)): Named<(String, String)>,
    Query(asked): Query<DeleteAsked>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&path)?;
    let delete = move |session: &Session| {
        if asked.recursive {
            session.delete_all(&path)
        } else {
            session.delete(&path)
        }
    };
    with_files(&entry, delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Shows the status of a file or directory. Links are not followed.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/stat", tag = "files", operation_id = "stat_file",
    params(("id" = String, Path, description = "The session."), PathAsked),
    responses((status = 200, description = "Its status.", body = FileStatusView))
)]
pub(super) async fn stat(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(PathAsked { path }): Query<PathAsked>,
) -> Result<JsonResponse<FileStatusView>, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&path)?;
    let asked = path.clone();
    let status = with_files(&entry, move |session| session.stat(&asked)).await?;
    Ok(JsonResponse(FileStatusView {
        path,
        kind: status.kind.into(),
        size: status.size,
        mode: status.mode,
        modified_at: seconds(status.modified),
    }))
}

/// Makes a directory and its missing parents. One that exists is no error.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/directories", tag = "files", operation_id = "make_directory",
    params(("id" = String, Path, description = "The session.")),
    request_body = MakeDirectory,
    responses((status = 204, description = "The directory exists."))
)]
pub(super) async fn make_directory(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(MakeDirectory { path }): Json<MakeDirectory>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&path)?;
    with_files(&entry, move |session| session.make_directory(&path)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Renames a file or directory, and makes the missing parents of its new path. A file of that path is replaced.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/rename", tag = "files", operation_id = "rename_file",
    params(("id" = String, Path, description = "The session.")),
    request_body = RenameFile,
    responses((status = 204, description = "Renamed."))
)]
pub(super) async fn rename(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Json(RenameFile { from, to }): Json<RenameFile>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    check(&from)?;
    check(&to)?;
    with_files(&entry, move |session| session.rename(&from, &to)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Downloads the workspace, or a directory, as a tar archive: its regular files and directories.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/archive", tag = "files", operation_id = "download_archive",
    params(("id" = String, Path, description = "The session."), DirectoryAsked),
    responses((status = 200, description = "The archive.", content_type = "application/x-tar"))
)]
pub(super) async fn archive(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<DirectoryAsked>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let path = asked.path.unwrap_or_default();
    check(&path)?;
    let transfer = service.admission.transfer(&caller.tenant)?;
    let session = awake(&entry).await?;
    let spool = service.spool.clone();
    let limit = entry.options.limits.workspace_bytes;
    let disk = service.runs.disk(&caller.tenant).await?;
    let packed = in_background(move || {
        let fault = |error| Problem::io("cannot create an archive", error);
        failpoint::fail("spool.archive").map_err(fault)?;
        let mut spooled = Spooled {
            space: disk.take(0).map_err(disk_full)?,
            file: tempfile::tempfile_in(spool).map_err(fault)?,
        };
        if let Err(error) = session.pack(&path, limit, &mut spooled) {
            return Ok(Err(error));
        }
        let size = spooled.file.stream_position().map_err(fault)?;
        spooled.file.rewind().map_err(fault)?;
        Ok(Ok((spooled, size)))
    });
    let (spooled, size) = packed.await?.map_err(|error| entry.explain(error))?;
    let Spooled { file, space } = spooled;
    let name = format!("{}.tar", entry.id);
    let kind = "application/x-tar";
    Ok(attachment(file, size, &name, kind, (transfer, space)))
}

/// Unpacks a tar archive into the workspace, or into a directory, which is made. Existing files are replaced.
///
/// Only files and directories: an archive with links, devices, or paths that are absolute or have `..` is refused
/// before anything is written.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/archive", tag = "files", operation_id = "upload_archive",
    params(("id" = String, Path, description = "The session."), DirectoryAsked),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 204, description = "The files are written."))
)]
pub(super) async fn unpack(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named<String>,
    Query(asked): Query<DirectoryAsked>,
    upload: Upload,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let path = asked.path.unwrap_or_default();
    check(&path)?;
    let session = awake(&entry).await?;
    let unpacked = in_background(move || Ok(session.unpack(&path, upload.file()?)));
    unpacked.await?.map_err(|error| entry.explain(error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A file as a response: to be saved, never shown. Permits are released at its end. If the file
/// shrinks meanwhile, the response is cut off.
pub(super) fn attachment(
    file: File,
    size: u64,
    name: &str,
    kind: &'static str,
    held: impl Send + 'static,
) -> Response {
    let reader = tokio::fs::File::from_std(file).take(size);
    let stream = ReaderStream::with_capacity(reader, CHUNK);
    let stream = futures_util::StreamExt::inspect(stream, move |_| {
        let _ = &held;
    });
    let mut response = to_save(Body::from_stream(stream), name, kind);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, size.into());
    response
}

/// An answer that a browser saves under a name.
pub(super) fn to_save(body: Body, name: &str, kind: &'static str) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let disposition = format!("attachment; filename*=UTF-8''{}", percent(name));
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

/// All but letters, digits and a few signs as `%XX`.
fn percent(name: &str) -> String {
    use std::fmt::Write as _;
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Refuses what the workspace itself would take as a name, and some client would take for a way out.
pub(super) fn check(path: &str) -> Result<(), Problem> {
    let lower = path.to_ascii_lowercase();
    let why = if path.contains('\\') {
        "it contains `\\`"
    } else if ["%2e", "%2f", "%5c", "%00", "%25"]
        .iter()
        .any(|code| lower.contains(code))
    {
        "it is encoded twice"
    } else {
        return Ok(());
    };
    let detail = format!("the path is not inside the workspace: {why}");
    Err(Problem::new(Code::BadPath, detail))
}

/// The session, woken if it hibernates.
pub(super) async fn awake(entry: &SessionEntry) -> Result<Arc<Session>, Problem> {
    let session = entry.session()?;
    if session.is_hibernated() {
        let woken = session.wake().await;
        woken.map_err(|error| entry.explain(error))?;
    }
    Ok(session)
}

pub(super) async fn with_files<T: Send + 'static>(
    entry: &SessionEntry,
    act: impl FnOnce(&Session) -> Result<T, Error> + Send + 'static,
) -> Result<T, Problem> {
    let session = awake(entry).await?;
    let done = in_background(move || Ok(act(&session))).await?;
    done.map_err(|error| entry.explain(error))
}

/// Does what may block, where it hinders nobody.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal("a task failed", error))?
}
