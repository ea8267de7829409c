//! Files of a workspace that are uploaded in parts, after the tus protocol (1.0, with creation and termination).

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::sync::OwnedMutexGuard;

use super::files::{awake, check, in_background};
use crate::body::{Named, Upload};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::uploads::{PartialUpload, Received};

const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// The type of a part.
pub(crate) const PART: &str = "application/offset+octet-stream";

/// A request of this version of the protocol.
pub(super) struct Tus;

impl<S: Send + Sync> FromRequestParts<S> for Tus {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if parts.headers.get(RESUMABLE) == Some(&VERSION) {
            return Ok(Self);
        }
        let detail = "send the header `Tus-Resumable: 1.0.0`";
        Err(Problem::new(Code::TusVersion, detail))
    }
}

/// Says the version of the protocol with each response.
pub(super) async fn say_version(mut response: Response) -> Response {
    response.headers_mut().insert(RESUMABLE, VERSION);
    response
}

/// Begins an upload in parts. An empty file is written at once.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/uploads", tag = "files", operation_id = "create_upload",
    params(
        ("id" = String, Path, description = "The session."),
        ("Tus-Resumable" = String, Header, description = "`1.0.0`"),
        ("Upload-Length" = u64, Header, description = "Size of the file, in bytes."),
        ("Upload-Metadata" = String, Header, description = "`filename` and, after a space, the path in base64, relative \
         to the workspace or below `/tmp`."),
    ),
    responses((status = 201, description = "The header `Location` has the path of the upload."))
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    _: Tus,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let length = number(&headers, &LENGTH)?;
    let path = file_name(&headers)?;
    check(&path)?;
    let limit = entry.options.limits.transfer_bytes;
    if length > limit {
        let detail = format!("the limit of `transfer_bytes` is {limit} bytes");
        return Err(Problem::new(Code::FileTooLarge, detail));
    }
    entry.session()?;
    let id = entry.uploads.begin(path, length)?;
    if length == 0 {
        let upload = entry.uploads.find(&id)?;
        let received = Arc::clone(&upload.received).lock_owned().await;
        write(&entry, &upload, received).await?;
    }
    let location = format!("/v1/sessions/{}/uploads/{id}", entry.id);
    let location = HeaderValue::try_from(location)
        .map_err(|error| Problem::internal("the address of an upload", error))?;
    let headers = [
        (header::LOCATION, location),
        (OFFSET, HeaderValue::from(0_u64)),
    ];
    Ok((StatusCode::CREATED, headers).into_response())
}

/// Says how much of an upload has arrived.
#[utoipa::path(
    head, path = "/v1/sessions/{id}/uploads/{upload}", tag = "files", operation_id = "show_upload",
    params(
        ("id" = String, Path, description = "The session."),
        ("upload" = String, Path, description = "The upload."),
        ("Tus-Resumable" = String, Header, description = "`1.0.0`"),
    ),
    responses((status = 200, description = "The headers `Upload-Offset` and `Upload-Length` have the bytes that arrived, \
     and all of them."))
)]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    _: Tus,
    Named((id, upload)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    let upload = entry.uploads.find(&upload)?;
    let received = upload.received.lock().await.bytes;
    let headers = [
        (OFFSET, HeaderValue::from(received)),
        (LENGTH, HeaderValue::from(upload.length)),
    ];
    Ok(headers.into_response())
}

/// Adds a part to an upload. With the last one the file is written, atomically.
///
/// What has arrived of a part that is cut off counts: `HEAD` says where to continue.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}/uploads/{upload}", tag = "files", operation_id = "add_to_upload",
    params(
        ("id" = String, Path, description = "The session."),
        ("upload" = String, Path, description = "The upload."),
        ("Tus-Resumable" = String, Header, description = "`1.0.0`"),
        ("Upload-Offset" = u64, Header, description = "Bytes of the file before this part."),
    ),
    request_body(content = Vec<u8>, content_type = "application/offset+octet-stream"),
    responses((status = 204, description = "The header `Upload-Offset` has the bytes that arrived."))
)]
pub(super) async fn add(
    State(service): State<Arc<Service>>,
    caller: Caller,
    _: Tus,
    Named((id, upload)): Named<(String, String)>,
    headers: HeaderMap,
    part: Upload,
) -> Result<Response, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    if headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes) != Some(PART.as_bytes()) {
        let detail = format!("send the header `Content-Type: {PART}`");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let offset = number(&headers, &OFFSET)?;
    let upload = entry.uploads.find(&upload)?;
    let mut received = Arc::clone(&upload.received).lock_owned().await;
    if offset != received.bytes {
        let detail = format!("{} bytes have arrived: continue there", received.bytes);
        return Err(Problem::new(Code::UploadOffset, detail));
    }
    upload.touch();
    let (file, space, cut_off) = part.into_part()?;
    let length = upload.length;
    let added = in_background(move || {
        received.add(file, space, length)?;
        Ok(received)
    });
    let received = added.await?;
    let bytes = received.bytes;
    if bytes == length && !upload.is_complete() {
        write(&entry, &upload, received).await?;
    } else if let Some(problem) = cut_off {
        return Err(problem);
    }
    let headers = [(OFFSET, HeaderValue::from(bytes))];
    Ok((StatusCode::NO_CONTENT, headers).into_response())
}

/// Gives an upload up.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/uploads/{upload}", tag = "files", operation_id = "delete_upload",
    params(
        ("id" = String, Path, description = "The session."),
        ("upload" = String, Path, description = "The upload."),
        ("Tus-Resumable" = String, Header, description = "`1.0.0`"),
    ),
    responses((status = 204, description = "Nothing of it is kept."))
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    caller: Caller,
    _: Tus,
    Named((id, upload)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    let entry = service.sessions.find(&caller.tenant, &id)?;
    entry.uploads.find(&upload)?;
    entry.uploads.remove(&upload);
    Ok(StatusCode::NO_CONTENT)
}

/// Writes the file into the workspace.
async fn write(
    entry: &SessionEntry,
    upload: &PartialUpload,
    mut received: OwnedMutexGuard<Received>,
) -> Result<(), Problem> {
    let session = awake(entry).await?;
    let path = upload.path.clone();
    let put = in_background(move || {
        Ok(received.consume(|file| match file {
            Some(file) => session.put_file(&path, file),
            None => session.put(&path, b""),
        }))
    });
    put.await?.map_err(|error| entry.explain(error))?;
    upload.complete();
    Ok(())
}

/// A number of bytes in a header.
fn number(headers: &HeaderMap, name: &HeaderName) -> Result<u64, Problem> {
    let number = headers
        .get(name)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    number.ok_or_else(|| {
        let detail = format!("send the header `{name}` with a number of bytes");
        Problem::new(Code::BadHeader, detail)
    })
}

/// The name of the file, among pairs of a key and a value in base64.
fn file_name(headers: &HeaderMap) -> Result<String, Problem> {
    let pairs = headers.get(METADATA).and_then(|value| value.to_str().ok());
    let name = pairs.and_then(|pairs| {
        let mut pairs = pairs.split(',').map(str::trim);
        let encoded = pairs.find_map(|pair| pair.strip_prefix("filename "))?;
        String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()
    });
    name.ok_or_else(|| {
        let detail = "send the header `Upload-Metadata: filename …` with the path in base64";
        Problem::new(Code::BadHeader, detail)
    })
}
