//! What the routes and headers of a request mean before it is routed.

use axum::http::{HeaderMap, Method, header};

use crate::body::Takes;
use crate::options::ServerOptions;
use crate::problem::{Code, Problem};

/// The route of a file of a workspace.
const FILE: &str = "/v1/sessions/{id}/files/{*path}";
/// The route of a file that comes in parts.
const UPLOAD: &str = "/v1/sessions/{id}/uploads/{upload}";
/// The route of a directory as an archive.
const ARCHIVE: &str = "/v1/sessions/{id}/archive";
/// The routes of the files of a sandbox: with headers that name it, and by a signed address.
const SANDBOX_FILES: &str = "/e2b/files";
const SIGNED_FILES: &str = "/files";
/// The route of the files of a container.
const CONTAINER_FILES: &str = "/openai/v1/containers/{id}/files";
/// The route of the Model Context Protocol.
pub(crate) const MCP: &str = "/mcp";
/// The header that names a connection of it.
pub(crate) const MCP_CONNECTION: &str = "mcp-session-id";
/// The route that starts a session from a snapshot.
const FROM_SNAPSHOT: &str = "/v1/sessions/from-snapshot";
const KEY: &str = "belljar.key.";

/// The most bytes of an `Idempotency-Key`.
const MAX_KEY: usize = 255;

/// What the body of a route is.
pub(crate) fn takes(route: &str, options: &ServerOptions) -> Takes {
    match route {
        FILE | SANDBOX_FILES | SIGNED_FILES | CONTAINER_FILES => {
            Takes::File(options.session.limits.transfer_bytes)
        }
        UPLOAD => Takes::Part(options.session.limits.transfer_bytes),
        ARCHIVE => Takes::File(options.session.limits.workspace_bytes),
        // What a session may hold, files included, is in its memory.
        FROM_SNAPSHOT => Takes::File(options.session.limits.memory_bytes),
        _ => Takes::Json,
    }
}

/// Whether a host name is below this domain.
pub(crate) fn is_name_of(host: &str, domain: &str) -> bool {
    let name = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    let below = name.strip_suffix(&domain.to_ascii_lowercase());
    let label = below.and_then(|below| below.strip_suffix('.'));
    label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
}

/// Whether the client requests an event stream.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| {
            let mut types = value
                .split(',')
                .map(|one| one.split(';').next().unwrap_or(one));
            types.any(|one| one.trim().eq_ignore_ascii_case("text/event-stream"))
        })
}

/// The key among the subprotocols that a WebSocket asks for.
pub(crate) fn key_of_protocols(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::UPGRADE)?;
    let mut protocols = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    protocols.find_map(|protocol| protocol.trim().strip_prefix(KEY))
}

/// Whether a request may change something.
pub(crate) fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// The `Idempotency-Key` of a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let fits = |key: &&str| !key.is_empty() && key.len() <= MAX_KEY;
    let key = value.to_str().ok().filter(fits);
    let detail = format!("`Idempotency-Key` must have 1 to {MAX_KEY} visible characters");
    key.map(|key| Some(key.to_owned()))
        .ok_or_else(|| Problem::new(Code::BadHeader, detail))
}
