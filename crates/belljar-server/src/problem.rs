//! Responses to refused and failed requests: RFC 9457, with a stable code.
//!
//! The words are ours. What the system said about a fault goes to the log, never to a client.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar_journal::StorageFault;
use belljar_sandbox::{
    BeneathError, Capability, DiskFull, Error, PackageError, PortError, SnapshotError, TableError,
    Unsupported,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::{QuotaUse, exceeded};
use crate::tenants::{Quota, TenantsError};

/// Seconds after which a restarted service is there, most likely.
const RESTART: u32 = 5;

/// When to come again after a fault of the disk, in seconds.
const STORAGE_RETRY: u32 = 5;

/// The page with a section for each code: what it means, and what to do.
pub const ERRORS_PAGE: &str = include_str!("errors.md");

macro_rules! codes {
    ($($variant:ident $code:literal $status:ident $retry:ident $title:literal;)*) => {
        /// Stable code of a problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code, as in a response.
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
    Unauthorized "unauthorized" UNAUTHORIZED never "A valid key is required";
    ScopeMissing "scope_missing" FORBIDDEN never "The key lacks a scope";
    PathDenied "path_denied" FORBIDDEN never "The path is out of reach";
    WrongOrigin "wrong_origin" FORBIDDEN never "Cross-origin request refused";
    NodeNotTrusted "node_not_trusted" FORBIDDEN never "Not a node of the cluster";
    RouteNotFound "route_not_found" NOT_FOUND never "No such route";
    SessionNotFound "session_not_found" NOT_FOUND never "No such session";
    CellNotFound "cell_not_found" NOT_FOUND never "No such cell";
    CommandNotFound "command_not_found" NOT_FOUND never "No such command";
    CheckpointNotFound "checkpoint_not_found" NOT_FOUND never "No such checkpoint";
    NamespaceNotFound "namespace_not_found" NOT_FOUND never "No such namespace";
    VariableNotFound "variable_not_found" NOT_FOUND never "No such variable";
    RunNotFound "run_not_found" NOT_FOUND never "No such run";
    StepNotFound "step_not_found" NOT_FOUND never "No such completed step";
    ValueNotFound "value_not_found" NOT_FOUND never "No such value in the answer";
    ApprovalNotFound "approval_not_found" NOT_FOUND never "No such pending approval";
    TenantNotFound "tenant_not_found" NOT_FOUND never "No such tenant";
    ShareNotFound "share_not_found" NOT_FOUND never "No such share link";
    KeyNotFound "key_not_found" NOT_FOUND never "No such key";
    FileNotFound "file_not_found" NOT_FOUND never "No such file";
    UploadNotFound "upload_not_found" NOT_FOUND never "No such upload";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED never "Method not allowed for this route";
    BadRequest "bad_request" BAD_REQUEST never "Invalid request";
    BadBody "bad_body" BAD_REQUEST never "Invalid body";
    BadQuery "bad_query" BAD_REQUEST never "Invalid query";
    BadHeader "bad_header" BAD_REQUEST never "Invalid header";
    BadPath "bad_path" BAD_REQUEST never "The path is not inside the workspace";
    LimitTooHigh "limit_too_high" BAD_REQUEST never "The value exceeds the service's maximum";
    PolicyTooWeak "policy_too_weak" BAD_REQUEST never "The approval policy is weaker than the server's minimum";
    NetworkNotAllowed "network_not_allowed" BAD_REQUEST never "The host is not on the service's allow-list";
    VariableRefused "variable_refused" BAD_REQUEST never "The environment variable or secret is refused";
    PackageNotAllowed "package_not_allowed" BAD_REQUEST never "The package policy does not allow this package";
    MountNotOffered "mount_not_offered" BAD_REQUEST never "The service does not offer this directory";
    PortNotOffered "port_not_offered" BAD_REQUEST never "The service does not offer this port";
    EnvironmentNotOffered "environment_not_offered" BAD_REQUEST never "The service does not offer this environment";
    IsolationNotOffered "isolation_not_offered" BAD_REQUEST never "The service does not offer this isolation";
    IsolationTooWeak "isolation_too_weak" FORBIDDEN never "The isolation is below the tenant's minimum";
    ModelNotOffered "model_not_offered" BAD_REQUEST never "The service does not offer this model";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE never "The body is too large";
    BodyTimeout "body_timeout" REQUEST_TIMEOUT again "The body did not arrive in time";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE never "Unsupported content type";
    WrongHost "wrong_host" MISDIRECTED_REQUEST never "Unknown host name";
    IdempotencyMismatch "idempotency_mismatch" UNPROCESSABLE_ENTITY never "The idempotency key was used for \
     another request";
    AnswerGone "answer_gone" GONE never "The request was executed, and its response is no longer kept";
    SessionBusy "session_busy" CONFLICT again "The session is busy";
    SessionEnded "session_ended" CONFLICT never "The session has ended";
    SessionUnresponsive "session_unresponsive" CONFLICT never "The session does not respond";
    NotCheckpointed "not_checkpointed" CONFLICT never "The checkpoint failed";
    TooManyCheckpoints "too_many_checkpoints" CONFLICT never "Too many named checkpoints in this session";
    NamespaceRefused "namespace_refused" CONFLICT never "The namespace cannot be created or removed";
    NotebookChanged "notebook_changed" CONFLICT never "The notebook has changed";
    NotATable "not_a_table" CONFLICT never "The variable is not a table";
    TableNotRead "table_not_read" CONFLICT never "The table cannot be read";
    NotForked "not_forked" CONFLICT never "The session cannot be forked";
    NotHibernated "not_hibernated" CONFLICT never "The session cannot hibernate";
    NoQuestion "no_question" CONFLICT never "The cell does not wait for this answer";
    CommandRefused "command_refused" CONFLICT never "The command does not accept this";
    NotRegular "not_regular" CONFLICT never "Not a regular file";
    FileExists "file_exists" CONFLICT never "The path already exists";
    FileRefused "file_refused" CONFLICT never "The workspace refused the file operation";
    UploadOffset "upload_offset" CONFLICT never "The upload continues at another offset";
    TusVersion "tus_version" PRECONDITION_FAILED never "Unsupported version of the tus protocol";
    ApprovalChanged "approval_changed" CONFLICT never "The approval has changed";
    ApprovalNotCode "approval_not_code" CONFLICT never "Only code can be edited";
    RunEnded "run_ended" CONFLICT never "The run has ended";
    RunNotEnded "run_not_ended" CONFLICT again "The run has not ended";
    RunNotReproducible "run_not_reproducible" CONFLICT never "The code of the run cannot be run again";
    OtherNode "other_node" CONFLICT again "Another node has this run";
    RunBusy "run_busy" CONFLICT again "The run is being started or left";
    FileTooLarge "file_too_large" PAYLOAD_TOO_LARGE never "The file exceeds the transfer limit";
    CommandNotStarted "command_not_started" UNPROCESSABLE_ENTITY never "The command cannot be started";
    PackageNotInstalled "package_not_installed" UNPROCESSABLE_ENTITY never "The packages cannot be installed";
    ArchiveRefused "archive_refused" UNPROCESSABLE_ENTITY never "The archive is refused";
    SnapshotRefused "snapshot_refused" UNPROCESSABLE_ENTITY never "The snapshot cannot be loaded";
    UpgradeNeeded "upgrade_needed" UPGRADE_REQUIRED never "A WebSocket upgrade is required";
    EventsGone "events_gone" GONE never "These events are no longer kept";
    TooManySessions "too_many_sessions" TOO_MANY_REQUESTS again "Too many sessions for this tenant";
    TooManyRuns "too_many_runs" TOO_MANY_REQUESTS again "Too many concurrent runs for this tenant";
    TooManyCells "too_many_cells" TOO_MANY_REQUESTS again "Too many concurrent cells for this tenant";
    TooManyCommands "too_many_commands" TOO_MANY_REQUESTS again "Too many running commands for this tenant";
    TooManyStreams "too_many_streams" TOO_MANY_REQUESTS again "Too many open streams for this tenant";
    TooManyConnections "too_many_connections" TOO_MANY_REQUESTS again "Too many connections to ports of this session";
    TooManyTransfers "too_many_transfers" TOO_MANY_REQUESTS again "Too many concurrent transfers for this \
     tenant";
    TooManyRequests "too_many_requests" TOO_MANY_REQUESTS again "Too many concurrent requests for this tenant";
    TooManyCreates "too_many_creates" TOO_MANY_REQUESTS again "Session rate limit exceeded";
    QuotaExceeded "quota_exceeded" TOO_MANY_REQUESTS again "Quota exceeded";
    TooManyLogins "too_many_logins" TOO_MANY_REQUESTS again "Too many failed logins";
    NoModel "no_model" CONFLICT never "The service has no model for runs";
    NotSupported "not_supported" NOT_IMPLEMENTED never "Belljar does not have this";
    SandboxNotRunning "sandbox_not_running" BAD_GATEWAY never "The sandbox is not running";
    ServiceFull "service_full" SERVICE_UNAVAILABLE again "The service is at its limit";
    MemoryShort "memory_short" SERVICE_UNAVAILABLE again "The host is short of memory";
    Draining "draining" SERVICE_UNAVAILABLE again "The service is shutting down";
    NodeFenced "node_fenced" SERVICE_UNAVAILABLE again "This node cannot act for its runs now";
    NodeLost "node_lost" SERVICE_UNAVAILABLE again "The node that has it does not run";
    NodeBrokeOff "node_broke_off" BAD_GATEWAY never "The node that has it broke off";
    SessionNotStarted "session_not_started" SERVICE_UNAVAILABLE again "The session cannot be started";
    StorageFull "storage_full" INSUFFICIENT_STORAGE again "The disk of the service is full";
    StorageFailed "storage_failed" SERVICE_UNAVAILABLE again "The service cannot write to its disk";
    PortClosed "port_closed" BAD_GATEWAY again "Nothing listens on this port of the session";
    PortFailed "port_failed" BAD_GATEWAY never "The program on this port sent no valid response";
    PortTimeout "port_timeout" GATEWAY_TIMEOUT again "The program on this port did not respond in time";
    Internal "internal" INTERNAL_SERVER_ERROR never "Internal error of the service";
}

/// A refusal or a fault, on its way to a client.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    retry_after: Option<u32>,
    quota: Option<QuotaUse>,
    out_of_space: bool,
}

/// A problem in a response (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// Path of the page about this code, on this server.
    #[serde(rename = "type")]
    kind: String,
    /// Meaning of the code.
    title: &'a str,
    /// HTTP status of the response.
    status: u16,
    /// Stable code of a problem.
    code: &'a str,
    /// Cause of this problem.
    detail: &'a str,
    /// Whether the same request may succeed later.
    retry: bool,
    /// The exceeded quota, if that is the cause.
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
            out_of_space: false,
        }
    }

    /// Marks a refusal for want of space or memory: other wires have a status of their own for that.
    fn for_space(mut self) -> Self {
        self.out_of_space = true;
        self
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

    /// The seconds that a client is to wait, if the same request may succeed later.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        self.retry_after.or(self.code.retry().then_some(1))
    }

    /// The service stops: the next one takes the request.
    pub(crate) fn draining() -> Self {
        let detail = "no new work is accepted; sessions continue after the restart";
        Self::new(Code::Draining, detail).after(RESTART)
    }

    /// A fault of ours. What it was is for the log.
    pub(crate) fn internal(what: &str, error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "{what}");
        Self::new(
            Code::Internal,
            "the log of the service has the cause, under the id of the request",
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
                let detail = "nothing was changed; retry when the operator has freed space";
                (Code::StorageFull, detail)
            }
            Some(StorageFault::Failed) => {
                let detail = "nothing was changed; the log of the service has the cause, under the id of the \
                 request";
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

/// In the extensions of a response: the request was refused for want of space or memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfSpace;

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
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        // For the metrics, which count refusals by code.
        response.extensions_mut().insert(self.code);
        if self.out_of_space {
            response.extensions_mut().insert(OutOfSpace);
        }
        response
    }
}

/// The problem of a write that exceeds the tenant's disk quota.
pub(crate) fn disk_full(error: std::io::Error) -> Problem {
    match DiskFull::find(&error) {
        Some(DiskFull { used, limit }) => exceeded(Quota::DiskBytes, used, limit),
        None => Problem::io("cannot reserve disk space", error),
    }
}

impl From<TenantsError> for Problem {
    fn from(error: TenantsError) -> Self {
        let fault = error.storage_fault();
        Self::storage("cannot access keys, quotas or the audit log", error, fault)
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
            Error::Detached => return Self::draining(),
            Error::Busy | Error::Hibernated | Error::Waiting => Code::SessionBusy,
            Error::Variable(_) => Code::VariableRefused,
            Error::NoCheckpoint(_) => Code::CheckpointNotFound,
            Error::TooManyCheckpoints { .. } => Code::TooManyCheckpoints,
            Error::NoNamespace(_) => Code::NamespaceNotFound,
            Error::InvalidNamespace(why) => return Self::new(Code::BadBody, *why),
            Error::Namespace(why) => return Self::new(Code::NamespaceRefused, why),
            Error::NotCheckpointed(_)
            | Error::Unsupported(Unsupported(Capability::Checkpoints)) => Code::NotCheckpointed,
            Error::Unsupported(Unsupported(Capability::Forks)) => Code::NotForked,
            Error::NotHibernated(_) => Code::NotHibernated,
            Error::Unsupported(Unsupported(Capability::Ports)) => Code::PortNotOffered,
            Error::Port(error) => port(*error),
            Error::Table(error) => table(error),
            Error::Command(why) => return Self::new(Code::CommandRefused, why),
            Error::Unresponsive => Code::SessionUnresponsive,
            Error::NoCall { .. } => Code::NoQuestion,
            Error::CellTooLarge { .. } | Error::InputTooLong { .. } => Code::BodyTooLarge,
            Error::FileTooLarge { .. } => Code::FileTooLarge,
            Error::File(error) => return file(error),
            Error::Archive(_) => Code::ArchiveRefused,
            Error::TooManyWatches { .. } => Code::TooManyStreams,
            Error::Packages(error) => return packages(error),
            Error::Snapshot(SnapshotError::Io(source)) | Error::Io { source, .. } => {
                let fault = StorageFault::from_io(source);
                return Self::storage("an I/O error in a session or its snapshot", error, fault);
            }
            Error::Snapshot(_) => Code::SnapshotRefused,
            Error::Fork(why) => {
                tracing::warn!(why, "cannot fork a session");
                return Self::new(Code::NotForked, "the session continues unchanged");
            }
            Error::Cgroup(_)
            | Error::Start(_)
            | Error::Walls(_)
            | Error::Template { .. }
            | Error::Container(_)
            | Error::Directory(_)
            | Error::Session(_) => {
                tracing::error!(%error, "cannot start a session");
                let detail = "the host cannot start a session now; if this persists, the operator should run \
                 `belljar doctor`";
                return Self::new(Code::SessionNotStarted, detail).after(5);
            }
            _ => return Self::internal("a session failed", error),
        };
        let detail = match &error {
            // The reason may be a message of the system.
            Error::Ended(_) => "start a new session".to_owned(),
            Error::NotCheckpointed(_) => "the session continues unchanged".to_owned(),
            error => error.to_string(),
        };
        tracing::debug!(%error, "request refused");
        Self::new(code, detail)
    }
}

fn port(error: PortError) -> Code {
    match error {
        PortError::Refused(_) => Code::PortClosed,
        PortError::Unanswered(_) => Code::PortTimeout,
        PortError::TooMany { .. } => Code::TooManyConnections,
        _ => Code::PortNotOffered,
    }
}

fn table(error: &TableError) -> Code {
    match error {
        TableError::NoName(_) => Code::VariableNotFound,
        TableError::NotATable(_) => Code::NotATable,
        TableError::NoColumn(_) | TableError::NotComparable(_) => Code::BadQuery,
        TableError::TooLarge { .. } => Code::FileTooLarge,
        _ => Code::TableNotRead,
    }
}

/// Why packages are not installed. What `uv` printed may name indexes and paths of the host.
fn packages(error: &PackageError) -> Problem {
    let detail = match error {
        PackageError::Denied(name) => {
            let detail = format!("`{name}` is not allowed in this session");
            return Problem::new(Code::PackageNotAllowed, detail);
        }
        PackageError::Off => {
            let detail = "the operator allows packages with `belljar serve --packages`";
            return Problem::new(Code::PackageNotAllowed, detail);
        }
        PackageError::Unsupported(error) => {
            return Problem::new(Code::PackageNotAllowed, error.to_string());
        }
        PackageError::Requirement { .. }
        | PackageError::TooLarge { .. }
        | PackageError::Odd(_)
        | PackageError::Metadata(_) => error.to_string(),
        _ => "no such package, no wheel for this Python, or a conflict with the environment; the log of the \
              service has the cause, under the id of the request"
            .to_owned(),
    };
    tracing::warn!(%error, "packages not installed");
    Problem::new(Code::PackageNotInstalled, detail)
}

fn file(error: &BeneathError) -> Problem {
    let code = match error {
        BeneathError::BadPath { .. } => Code::BadPath,
        BeneathError::Outside(_) => Code::PathDenied,
        BeneathError::NotFound(_) => Code::FileNotFound,
        BeneathError::Exists(_) => Code::FileExists,
        BeneathError::NotRegular(_) => Code::NotRegular,
        BeneathError::TooDeep(_) => Code::FileRefused,
        BeneathError::NoMemory { .. } => {
            return Problem::new(Code::FileRefused, error.to_string()).for_space();
        }
        BeneathError::Io { path, source } => {
            tracing::debug!(%source, "file operation in a workspace refused");
            let (why, may_be_full) = match source.kind() {
                std::io::ErrorKind::DirectoryNotEmpty => ("the directory is not empty", false),
                std::io::ErrorKind::InvalidFilename => {
                    ("a component of the path is too long", false)
                }
                std::io::ErrorKind::InvalidInput => {
                    ("a directory cannot be moved into itself", false)
                }
                std::io::ErrorKind::StorageFull => {
                    ("the workspace is full; delete some files", true)
                }
                _ => {
                    let why = "the workspace may be full, or another entry may be in the way";
                    (why, true)
                }
            };
            let detail = format!("`{}`: {why}", path.escape_debug());
            let problem = Problem::new(Code::FileRefused, detail);
            return if may_be_full {
                problem.for_space()
            } else {
                problem
            };
        }
    };
    Problem::new(code, error.to_string())
}
