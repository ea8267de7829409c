//! Bodies of requests: read whole, within bounds of size and time, before anything is done.

use std::fs::File;
use std::future::poll_fn;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use belljar_journal::failpoint;
use belljar_mcp::count_values;
use belljar_sandbox::DiskSpace;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, sleep_until};

use crate::admission::Permit;
use crate::charged::{self, Charge, SMALL};
use crate::offload::offload;
use crate::pace::Pace;
use crate::problem::{Code, Problem, disk_full};
use crate::service::Service;
use crate::tenants::TenantName;

/// The largest body of JSON. A cell has at most 4 MiB, and more as JSON.
pub(crate) const MAX_JSON: u64 = 8 << 20;

/// The most values of a body of JSON: each takes the memory of many bytes once it is read.
const MAX_VALUES: usize = 100_000;

/// How long a body may pause, and how long it may take. Between the two, it has a [pace](Pace).
const PAUSE: Duration = Duration::from_secs(10);
const PATIENCE_JSON: Duration = Duration::from_secs(30);
const PATIENCE_FILE: Duration = Duration::from_mins(10);

/// A body that comes fast lets other requests run after so many bytes: some 0.2 ms.
const YIELD_AFTER: usize = 256 << 10;

/// The type of a snapshot.
pub(crate) const SNAPSHOT: &str = "application/vnd.belljar.snapshot";

/// What a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Json,
    /// A file of at most so many bytes.
    File(u64),
    /// The same, and what arrives of it counts also if the rest does not.
    Part(u64),
}

/// A body that has arrived whole.
#[derive(Debug)]
pub(crate) struct Upload {
    contents: Contents,
    resources: BodyResources,
    /// Why the rest of a part did not arrive.
    cut_off: Option<Problem>,
}

/// What a body holds for as long as it is there: a permit for a transfer, its bytes in memory, its bytes on disk.
#[derive(Debug, Default)]
pub(crate) struct BodyResources {
    permit: Option<Permit>,
    charge: Option<Charge>,
    space: Option<DiskSpace>,
}

#[derive(Debug)]
enum Contents {
    Memory(Vec<u8>),
    /// Without a name, so that nothing is left of it.
    File(File),
}

impl Takes {
    fn limit(self) -> u64 {
        match self {
            Self::Json => MAX_JSON,
            Self::File(limit) | Self::Part(limit) => limit,
        }
    }

    fn too_large(self) -> Problem {
        let detail = format!("the limit is {} bytes", self.limit());
        Problem::new(Code::BodyTooLarge, detail)
    }

    /// The announced length of a body, which is refused if it is too large.
    pub(crate) fn announced(self, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length| length > self.limit()) {
            return Err(self.too_large());
        }
        Ok(length)
    }
}

impl Upload {
    /// Reads a body, and adds it to the fingerprint. A file goes to the disk, in a directory of ours.
    pub(crate) async fn read(
        headers: &HeaderMap,
        mut body: Body,
        takes: Takes,
        service: &Service,
        tenant: &TenantName,
        mut fingerprint: Option<&mut Sha256>,
    ) -> Result<Self, Problem> {
        let patience = match takes {
            Takes::Json => PATIENCE_JSON,
            Takes::File(_) | Takes::Part(_) => PATIENCE_FILE,
        };
        let announced = takes.announced(headers)?;
        // What counts of a part is what arrives.
        let reserved = announced.filter(|_| !matches!(takes, Takes::Part(_)));
        let fault = |error| Problem::io("cannot store a request body", error);
        let mut resources = BodyResources::default();
        let mut contents = match takes {
            Takes::Json => Contents::Memory(Vec::new()),
            Takes::File(_) | Takes::Part(_) => {
                resources.permit = Some(service.admission.transfer(tenant)?);
                let disk = service.runs.disk(tenant).await?;
                resources.space = Some(disk.take(reserved.unwrap_or(0)).map_err(disk_full)?);
                failpoint::fail("spool.upload").map_err(fault)?;
                Contents::File(tempfile::tempfile_in(&service.spool).map_err(fault)?)
            }
        };
        let deadline = Instant::now() + patience;
        let (mut bytes, mut since_yield) = (0, 0);
        let late = || Problem::new(Code::BodyTimeout, "send it faster");
        let mut pace = Pace::default();
        let mut cut_off = None;
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => Ok(frame),
                () = poll_fn(|context| pace.poll_too_slow(context)) => Err(late()),
                () = sleep(PAUSE) => Err(late()),
                () = sleep_until(deadline) => Err(late()),
            };
            let frame = match frame.map(Option::transpose) {
                Ok(Ok(Some(frame))) => frame,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "request body cut off");
                    cut_off = Some(Problem::new(Code::BadBody, "it was cut off"));
                    break;
                }
                Err(late) => {
                    cut_off = Some(late);
                    break;
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            pace.moved(data.len());
            bytes += data.len() as u64;
            if bytes > takes.limit() {
                return Err(takes.too_large());
            }
            if let (Some(space), None) = (&mut resources.space, reserved) {
                space.grow(data.len() as u64).map_err(disk_full)?;
            }
            if bytes > SMALL as u64 && resources.permit.is_none() {
                resources.permit = Some(service.admission.transfer(tenant)?);
            }
            if let Some(fingerprint) = &mut fingerprint {
                fingerprint.update(&data);
            }
            match &mut contents {
                Contents::Memory(memory) => {
                    if bytes > SMALL as u64 {
                        resources.count(service, tenant, memory.len(), data.len())?;
                    }
                    memory.extend_from_slice(&data);
                }
                // A few kilobytes into the page cache.
                Contents::File(file) => file.write_all(&data).map_err(fault)?,
            }
            since_yield += data.len();
            if since_yield > YIELD_AFTER {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
        }
        if !matches!(takes, Takes::Part(_))
            && let Some(problem) = cut_off
        {
            return Err(problem);
        }
        if let Contents::Memory(memory) = contents {
            let count = offload(memory.len(), move || (count_values(&memory), memory));
            let (values, memory) = count.await;
            if values > MAX_VALUES {
                let detail = format!("it has more than {MAX_VALUES} values");
                return Err(Problem::new(Code::BadBody, detail));
            }
            contents = Contents::Memory(memory);
        }
        Ok(Self {
            contents,
            resources,
            cut_off,
        })
    }

    /// The file that it is.
    pub(crate) fn file(&self) -> Result<&File, Problem> {
        match &self.contents {
            Contents::File(file) => Ok(file),
            Contents::Memory(_) => Err(Problem::internal("a body", "it is not a file")),
        }
    }

    /// The part of a file that it is, what it takes on disk, and why the rest did not arrive.
    pub(crate) fn into_part(self) -> Result<(File, Option<DiskSpace>, Option<Problem>), Problem> {
        match self.contents {
            Contents::File(file) => Ok((file, self.resources.space, self.cut_off)),
            Contents::Memory(_) => Err(Problem::internal("a body", "it is not a file")),
        }
    }

    /// Where the file can be opened, while this is there.
    pub(crate) fn path(&self) -> Result<PathBuf, Problem> {
        Ok(format!("/proc/self/fd/{}", self.file()?.as_raw_fd()).into())
    }

    /// A body of JSON as it came, and what it holds.
    pub(crate) fn into_bytes(self) -> (Vec<u8>, BodyResources) {
        let memory = match self.contents {
            Contents::Memory(memory) => memory,
            Contents::File(_) => Vec::new(),
        };
        (memory, self.resources)
    }

    /// What it says, and the bytes, which are counted for as long as they are there.
    async fn json<T: DeserializeOwned + Send + 'static>(
        self,
    ) -> Result<(T, (Vec<u8>, BodyResources)), Problem> {
        let Contents::Memory(memory) = self.contents else {
            return Err(Problem::internal("a body", "it is a file instead of JSON"));
        };
        let length = memory.len();
        let parse = move || {
            let empty = memory.is_empty().then_some(b"{}".as_slice());
            let parsed = serde_json::from_slice(empty.unwrap_or(&memory));
            (parsed, memory)
        };
        let (parsed, memory) = offload(length, parse).await;
        let parsed = parsed.map_err(|error| Problem::new(Code::BadBody, error.to_string()))?;
        Ok((parsed, (memory, self.resources)))
    }
}

impl BodyResources {
    /// Counts more bytes of a body in memory, and from the first on where none are counted yet.
    fn count(
        &mut self,
        service: &Service,
        tenant: &TenantName,
        before: usize,
        more: usize,
    ) -> Result<(), Problem> {
        if let Some(charge) = &mut self.charge {
            return charge.grow(more).then_some(()).ok_or_else(charged::refusal);
        }
        let charge = service
            .admission
            .charged
            .charge_or_refuse(tenant, before + more);
        self.charge = Some(charge?);
        Ok(())
    }
}

/// The body as it was read, once for each request.
impl<S: Send + Sync> FromRequestParts<S> for Upload {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let upload = parts
            .extensions
            .remove::<SharedUpload>()
            .and_then(SharedUpload::take);
        upload.ok_or_else(|| Problem::internal("a body", "it was not read"))
    }
}

/// Extensions must be clonable; a body is not.
#[derive(Clone, Debug)]
pub(crate) struct SharedUpload(std::sync::Arc<std::sync::Mutex<Option<Upload>>>);

impl SharedUpload {
    pub(crate) fn new(upload: Upload) -> Self {
        Self(std::sync::Arc::new(std::sync::Mutex::new(Some(upload))))
    }

    fn take(self) -> Option<Upload> {
        crate::lock::lock(&self.0).take()
    }
}

/// A body of JSON; none at all is an object without fields.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let upload = Upload::from_request_parts(parts, state).await?;
        upload.json().await.map(|(asked, _)| Self(asked))
    }
}

/// A body of JSON, with the request as it came: it may be for another node.
pub(crate) struct JsonRequest<T>(pub(crate) T, pub(crate) ReadRequest);

/// A request whose body is in memory.
pub(crate) struct ReadRequest {
    pub(crate) parts: Parts,
    bytes: Vec<u8>,
    _resources: BodyResources,
}

impl ReadRequest {
    pub(crate) fn into_request(self) -> Request {
        Request::from_parts(self.parts, Body::from(self.bytes))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for JsonRequest<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let upload = Upload::from_request_parts(parts, state).await?;
        let (asked, (bytes, resources)) = upload.json().await?;
        let read = ReadRequest {
            parts: parts.clone(),
            bytes,
            _resources: resources,
        };
        Ok(Self(asked, read))
    }
}

/// The query of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::new(Code::BadQuery, error.body_text()))?;
        Ok(Self(query.0))
    }
}

/// The parts of a path that stand for something. What can't be one is as what is not there.
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let path = path.map_err(|error| Problem::new(Code::BadRequest, error.body_text()))?;
        Ok(Self(path.0))
    }
}
