//! What is answered when something is refused or fails: RFC 9457, with a stable code.
//!
//! The words are ours. What the system said about a fault goes to the log, never to a client.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar_journal::StorageFault;
use belljar_sandbox::{BeneathError, DiskFull, Error, SnapshotError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::{QuotaUse, exceeded};
use crate::tenants::{Quota, TenantsError};

/// When to come again after a fault of the disk, in seconds.
const STORAGE_RETRY: u32 = 5;

/// The page with a section for each code: what it means, and what to do.
pub const ERRORS_PAGE: &str = include_str!("errors.md");

macro_rules! codes {
    ($($variant:ident $code:literal $status:ident $retry:ident $title:literal;)*) => {
        /// What went wrong, in one word that never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As it stands in an answer.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            pub(crate) fn retry(self) -> bool {
                match self { $(Self::$variant => codes!(@ $retry),)* }
            }

            fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
    (@ again) => { true };
    (@ never) => { false };
}

codes! {
    Unauthorized "unauthorized" UNAUTHORIZED never "A valid key is needed";
    ScopeMissing "scope_missing" FORBIDDEN never "The key may not do this";
    WrongOrigin "wrong_origin" FORBIDDEN never "Pages of other sites may not use the service";
    RouteNotFound "route_not_found" NOT_FOUND never "There is no such route";
    SessionNotFound "session_not_found" NOT_FOUND never "There is no such session";
    CellNotFound "cell_not_found" NOT_FOUND never "There is no such cell";
    CheckpointNotFound "checkpoint_not_found" NOT_FOUND never "There is no such checkpoint";
    RunNotFound "run_not_found" NOT_FOUND never "There is no such run";
    StepNotFound "step_not_found" NOT_FOUND never "The run has no such step that has ended";
    ApprovalNotFound "approval_not_found" NOT_FOUND never "Nothing waits for this approval";
    TenantNotFound "tenant_not_found" NOT_FOUND never "There is no such tenant";
    KeyNotFound "key_not_found" NOT_FOUND never "There is no such key";
    FileNotFound "file_not_found" NOT_FOUND never "There is no such file";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED never "The route has no such method";
    BadRequest "bad_request" BAD_REQUEST never "The request is not valid";
    BadBody "bad_body" BAD_REQUEST never "The body is not valid";
    BadQuery "bad_query" BAD_REQUEST never "The query is not valid";
    BadHeader "bad_header" BAD_REQUEST never "A header is not valid";
    BadPath "bad_path" BAD_REQUEST never "The path is not one inside the workspace";
    LimitTooHigh "limit_too_high" BAD_REQUEST never "The service does not give so much";
    PolicyTooWeak "policy_too_weak" BAD_REQUEST never "The service asks a person more often";
    NetworkNotAllowed "network_not_allowed" BAD_REQUEST never "The service does not let sessions reach this";
    ModelNotOffered "model_not_offered" BAD_REQUEST never "The service does not have this model";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE never "The body is too large";
    BodyTimeout "body_timeout" REQUEST_TIMEOUT again "The body did not arrive in time";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE never "The body has another type than is taken here";
    WrongHost "wrong_host" MISDIRECTED_REQUEST never "The service is not called by this name";
    IdempotencyMismatch "idempotency_mismatch" UNPROCESSABLE_ENTITY never "The key was used for another request";
    AnswerGone "answer_gone" GONE never "The request was carried out, and its answer is no longer kept";
    SessionBusy "session_busy" CONFLICT again "The session runs another cell";
    SessionEnded "session_ended" CONFLICT never "The session has ended";
    SessionUnresponsive "session_unresponsive" CONFLICT never "The session did not answer in time";
    NotCopied "not_copied" CONFLICT never "No copy of the session could be made";
    TooManyCheckpoints "too_many_checkpoints" CONFLICT never "The session keeps as many named copies as it may";
    NotForked "not_forked" CONFLICT never "The session could not be forked";
    NotHibernated "not_hibernated" CONFLICT never "The session does not sleep";
    NotRegular "not_regular" CONFLICT never "This is not a regular file";
    FileRefused "file_refused" CONFLICT never "The workspace did not allow this";
    ApprovalChanged "approval_changed" CONFLICT never "The decision is for something else than what waits";
    ApprovalNotCode "approval_not_code" CONFLICT never "Only code can be edited";
    RunEnded "run_ended" CONFLICT never "The run has ended";
    RunNotEnded "run_not_ended" CONFLICT again "The run has not ended";
    RunBusy "run_busy" CONFLICT again "The run is just being taken up or left";
    FileTooLarge "file_too_large" PAYLOAD_TOO_LARGE never "The file is too large to be transferred";
    SnapshotRefused "snapshot_refused" UNPROCESSABLE_ENTITY never "The snapshot can't be loaded";
    UpgradeNeeded "upgrade_needed" UPGRADE_REQUIRED never "This is a WebSocket";
    EventsGone "events_gone" GONE never "Events after this one are no longer kept";
    TooManySessions "too_many_sessions" TOO_MANY_REQUESTS again "The tenant has as many sessions as it may";
    TooManyRuns "too_many_runs" TOO_MANY_REQUESTS again "As many runs of the tenant go on as may";
    TooManyCells "too_many_cells" TOO_MANY_REQUESTS again "As many cells of the tenant run as may";
    TooManyStreams "too_many_streams" TOO_MANY_REQUESTS again "The tenant reads as many streams as it may";
    TooManyTransfers "too_many_transfers" TOO_MANY_REQUESTS again "The tenant sends and gets as many files as it may";
    TooManyRequests "too_many_requests" TOO_MANY_REQUESTS again "As many requests of the tenant are being carried out as may";
    TooManyCreates "too_many_creates" TOO_MANY_REQUESTS again "The tenant starts sessions faster than it may";
    QuotaExceeded "quota_exceeded" TOO_MANY_REQUESTS again "The tenant has used what it may";
    TooManyLogins "too_many_logins" TOO_MANY_REQUESTS again "Too many wrong keys were given";
    NoModel "no_model" CONFLICT never "The service has no model for runs";
    ServiceFull "service_full" SERVICE_UNAVAILABLE again "The service has no place left";
    MemoryShort "memory_short" SERVICE_UNAVAILABLE again "The host is short of memory";
    Draining "draining" SERVICE_UNAVAILABLE again "The service is about to stop";
    SessionNotStarted "session_not_started" SERVICE_UNAVAILABLE again "The session could not be started";
    StorageFull "storage_full" INSUFFICIENT_STORAGE again "The service has no space left on its disk";
    StorageFailed "storage_failed" SERVICE_UNAVAILABLE again "The service can't write to its disk";
    Internal "internal" INTERNAL_SERVER_ERROR never "The service failed";
}

/// A refusal or a fault, on its way to a client.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    retry_after: Option<u32>,
    quota: Option<QuotaUse>,
}

/// A problem as it stands in an answer, as RFC 9457 has it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// Where the page about this code is, on this server.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// What went wrong, in one word that never changes.
    code: &'a str,
    /// What went wrong this time.
    detail: &'a str,
    /// Whether the same request may succeed later.
    retry: bool,
    /// The quota that is used up, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaUse>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after: None,
            quota: None,
        }
    }

    /// Names the quota that is the reason.
    pub(crate) fn about(mut self, quota: QuotaUse) -> Self {
        self.quota = Some(quota);
        self
    }

    /// Says something else about what went wrong this time.
    pub(crate) fn because(mut self, detail: &str) -> Self {
        detail.clone_into(&mut self.detail);
        self
    }

    /// When to come again.
    pub(crate) fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    /// A fault of ours. What it was is for the log.
    pub(crate) fn internal(what: &str, error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "{what}");
        Self::new(
            Code::Internal,
            "this is a fault of the service; its log tells more under the id of the request",
        )
    }

    /// A fault of the disk, where it is one; else a fault of ours. What it was is for the log.
    pub(crate) fn storage(
        what: &str,
        error: impl std::fmt::Display,
        fault: Option<StorageFault>,
    ) -> Self {
        let (code, detail) = match fault {
            Some(StorageFault::Full) => {
                let detail = "nothing was changed; try again when its operator has made space";
                (Code::StorageFull, detail)
            }
            Some(StorageFault::Failed) => {
                let detail = "nothing was changed; its operator finds the cause in the log, under the id of the request";
                (Code::StorageFailed, detail)
            }
            None => return Self::internal(what, error),
        };
        tracing::error!(%error, "{what}");
        Self::new(code, detail).after(STORAGE_RETRY)
    }

    /// The same for an error of the file system.
    pub(crate) fn io(what: &str, error: std::io::Error) -> Self {
        let fault = StorageFault::from_io(&error);
        Self::storage(what, error, fault)
    }

    /// As one sentence, where there is no body to put it into.
    pub(crate) fn words(&self) -> String {
        format!("{}: {}.", self.code.title(), self.detail)
    }

    pub(crate) fn body(&self) -> ProblemBody<'_> {
        ProblemBody {
            kind: format!("/errors/{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code.as_str(),
            detail: &self.detail,
            retry: self.code.retry(),
            quota: self.quota,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Strings and numbers: there is nothing that can't be written.
        let body = serde_json::to_string(&self.body()).unwrap_or_default();
        let mut response = (self.code.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code == Code::UpgradeNeeded {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
        if let Some(seconds) = self.retry_after.or(self.code.retry().then_some(1)) {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        // For the metrics, which count refusals by code.
        response.extensions_mut().insert(self.code);
        response
    }
}

/// What the tenant's quota of disk has no room for.
pub(crate) fn disk_full(error: std::io::Error) -> Problem {
    match DiskFull::find(&error) {
        Some(DiskFull { used, limit }) => exceeded(Quota::DiskBytes, used, limit),
        None => Problem::io("space on disk", error),
    }
}

impl From<TenantsError> for Problem {
    fn from(error: TenantsError) -> Self {
        let fault = error.storage_fault();
        Self::storage("keys, quotas or the audit log", error, fault)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::Io { source, .. } = &error
            && let Some(DiskFull { used, limit }) = DiskFull::find(source)
        {
            return exceeded(Quota::DiskBytes, used, limit);
        }
        let code = match &error {
            Error::Ended(_) => Code::SessionEnded,
            Error::Busy | Error::Asleep | Error::Waiting => Code::SessionBusy,
            Error::NoCheckpoint(_) => Code::CheckpointNotFound,
            Error::TooManyCheckpoints { .. } => Code::TooManyCheckpoints,
            Error::NotCopied(_) => Code::NotCopied,
            Error::NotHibernated(_) => Code::NotHibernated,
            Error::Unresponsive => Code::SessionUnresponsive,
            Error::CellTooLarge { .. } => Code::BodyTooLarge,
            Error::FileTooLarge { .. } => Code::FileTooLarge,
            Error::File(error) => return file(error),
            Error::Snapshot(SnapshotError::Io(source)) | Error::Io { source, .. } => {
                let fault = StorageFault::from_io(source);
                return Self::storage("a session or its snapshot", error, fault);
            }
            Error::Snapshot(_) => Code::SnapshotRefused,
            Error::Fork(why) => {
                tracing::warn!(why, "a session could not be forked");
                return Self::new(Code::NotForked, "the session goes on as it is");
            }
            Error::Cgroup(_)
            | Error::Start(_)
            | Error::Walls(_)
            | Error::Template { .. }
            | Error::Session(_) => {
                tracing::error!(%error, "a session could not be started");
                let detail = "the host could not start a session now; its operator is told more by `belljar doctor`";
                return Self::new(Code::SessionNotStarted, detail).after(5);
            }
            _ => return Self::internal("a session failed", error),
        };
        let detail = match &error {
            // Why it ended may be told in words of the system.
            Error::Ended(_) => "start a new one".to_owned(),
            Error::NotCopied(_) => "the session goes on as it is".to_owned(),
            error => error.to_string(),
        };
        tracing::debug!(%error, "a request was refused");
        Self::new(code, detail)
    }
}

fn file(error: &BeneathError) -> Problem {
    let code = match error {
        BeneathError::BadPath { .. } => Code::BadPath,
        BeneathError::NotFound(_) => Code::FileNotFound,
        BeneathError::NotRegular(_) => Code::NotRegular,
        BeneathError::NoMemory { .. } => Code::FileRefused,
        BeneathError::Io { path, source } => {
            tracing::debug!(%source, "a file of a workspace was refused");
            let why = match source.kind() {
                std::io::ErrorKind::DirectoryNotEmpty => "the directory is not empty",
                std::io::ErrorKind::InvalidFilename => "a part of its name is too long",
                std::io::ErrorKind::StorageFull => "the workspace is full; delete files of it",
                _ => "the workspace may be full, or something else may be in its place",
            };
            let detail = format!("`{}`: {why}", path.escape_debug());
            return Problem::new(Code::FileRefused, detail);
        }
    };
    Problem::new(code, error.to_string())
}
