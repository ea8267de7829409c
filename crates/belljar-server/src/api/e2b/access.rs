//! Who may do what on this wire: keys for the control API, tokens and signed addresses for one sandbox.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_journal::NodePlace;
use serde::Deserialize;

use crate::api::session_views::seconds;
use crate::forward::{elsewhere, refuse_large};
use crate::guard::serve_caller;
use crate::label::{LabelChange, SandboxLabel};
use crate::pass_on::pass_on;
use crate::peers::Connection;
use crate::problem::{Code, Problem};
use crate::requests::is_name_of;
use crate::sandbox_tokens::{SandboxTokens, SignedFile, SignedUse};
use crate::service::{Caller, Service};
use crate::sessions::SessionEntry;
use crate::tenants::Scope;

/// The ports that clients believe a sandbox to have: files and commands, and code.
const PORTS: [&str; 2] = ["49983", "49999"];

/// A key whose digits are the bytes of one of ours: some versions of the SDKs refuse others.
const SPELLED: &str = "e2b_";

/// Lets nobody pass without a key.
pub(super) async fn with_key(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    let key = request.headers().get("x-api-key");
    let key = key.and_then(|key| key.to_str().ok()).and_then(spelled);
    let found = service.find_key(key).await;
    match found.and_then(|key| Caller::with_scope(key, Some(Scope::Sessions))) {
        Ok(caller) => serve_caller(&service, caller, request, next).await,
        Err(problem) if problem.code == Code::Unauthorized => problem
            .because("send `X-API-KEY` with a valid key")
            .into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// The key, in whichever of its two spellings it came.
fn spelled(key: &str) -> Option<String> {
    let Some(digits) = key.strip_prefix(SPELLED) else {
        return Some(key.to_owned());
    };
    let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = pairs.chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// Lets nobody pass without the token of a sandbox, or a signed address of one of its files.
pub(super) async fn with_token(
    State(service): State<Arc<Service>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = match named(&service, &request) {
        Ok(id) => id,
        Err(problem) => return problem.into_response(),
    };
    match elsewhere(&service, request.headers(), &id).await {
        Ok(None) => {}
        Ok(Some(node)) => return pass_on_with_token(&service, &node, request).await,
        Err(problem) => return problem.into_response(),
    }
    match admit(&service, &id).await {
        Ok((caller, entry)) => {
            request.extensions_mut().insert(entry);
            serve_caller(&service, caller, request, next).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Passes a request for a sandbox of another node on. Its tenant is not known here, but its token is right.
async fn pass_on_with_token(
    service: &Arc<Service>,
    node: &NodePlace,
    request: Request,
) -> Response {
    if let Err(problem) = refuse_large(service, &request) {
        return problem.into_response();
    }
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let authenticated = connection.as_ref().map(Connection::authenticate);
    let passed_on = Box::pin(pass_on(service, None, node, request)).await;
    let response = passed_on.unwrap_or_else(IntoResponse::into_response);
    match connection {
        Some(connection) => connection.hold(response, authenticated),
        None => response,
    }
}

/// The id of the sandbox that a request may use, and is for.
fn named(service: &Service, request: &Request) -> Result<String, Problem> {
    let headers = request.headers();
    let name = sandbox_of(headers, service.options.e2b_domain.as_deref());
    let id = permitted(service, request, name.map(|name| name.1));
    let id = id.ok_or_else(|| refused(service, name.map(|name| name.1)))?;
    // Only from here on, so that nobody learns what is there without a token.
    if let Some((port, _)) = name
        && !PORTS.contains(&port)
    {
        let detail = format!(
            "the sandbox is running, but port is not open: {}",
            port.escape_debug()
        );
        return Err(Problem::new(Code::SandboxNotRunning, detail));
    }
    check_user(headers)?;
    Ok(id)
}

async fn admit(service: &Service, id: &str) -> Result<(Caller, Arc<SessionEntry>), Problem> {
    let tenant = service.sessions.tenant_of(id).map_err(|_| gone(id))?;
    let entry = service.sessions.find(&tenant, id).map_err(|_| gone(id))?;
    let sandbox = entry.label().sandbox.ok_or_else(|| gone(id))?;
    if !service.tenants.is_valid(&sandbox.key).await {
        return Err(refused(service, Some(id)));
    }
    match entry.session() {
        Ok(_) => {}
        Err(problem) if problem.code == Code::SessionEnded => return Err(gone(id)),
        Err(problem) => return Err(problem),
    }
    wake(service, &entry, &sandbox)?;
    let caller = Caller {
        tenant,
        prefix: sandbox.key,
        scopes: vec![Scope::Sessions],
    };
    Ok((caller, entry))
}

/// A paused sandbox is as one that is not there, unless its client wanted it to wake by use.
fn wake(service: &Service, entry: &SessionEntry, sandbox: &SandboxLabel) -> Result<(), Problem> {
    if !is_paused(entry) {
        return Ok(());
    }
    let seconds = sandbox.auto_resume.ok_or_else(|| gone(&entry.id))?;
    let change = LabelChange {
        ttl_seconds: Some(seconds),
        then: entry.label().then,
        ..LabelChange::default()
    };
    entry.relabel(change.within(service.options.max_lease)?)
}

/// Whether it hibernates until its client wants it back. One that is only idle still has a lease.
pub(super) fn is_paused(entry: &SessionEntry) -> bool {
    entry.is_hibernated() && entry.label().expires.is_none()
}

/// The id of the sandbox that this request may use.
fn permitted(service: &Service, request: &Request, named: Option<&str>) -> Option<String> {
    let tokens = service.tokens.as_ref()?;
    let headers = request.headers();
    let given = ["x-access-token", "e2b-traffic-access-token"];
    let mut given = given
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok());
    if let Some(id) = named
        && given.any(|given| tokens.is_token(id, given))
    {
        return Some(id.to_owned());
    }
    if !request.uri().path().ends_with("/files") {
        return None;
    }
    signed(service, tokens, request, named)
}

/// A signed address of a file.
#[derive(Debug, Deserialize)]
struct SignedQuery {
    #[serde(default)]
    path: String,
    #[serde(default)]
    username: String,
    signature: String,
    signature_expiration: Option<u64>,
}

/// The sandbox whose token this address was signed with. On one address for all of them, clients leave out which.
fn signed(
    service: &Service,
    tokens: &SandboxTokens,
    request: &Request,
    named: Option<&str>,
) -> Option<String> {
    let Query(query) = Query::<SignedQuery>::try_from_uri(request.uri()).ok()?;
    let expires = query.signature_expiration;
    if expires.is_some_and(|expires| expires < seconds(SystemTime::now())) {
        return None;
    }
    let file = SignedFile {
        path: &query.path,
        user: &query.username,
        usage: match *request.method() {
            Method::GET | Method::HEAD => SignedUse::Read,
            _ => SignedUse::Write,
        },
        expires,
    };
    let is_of = |id: &str| tokens.is_signature(id, &file, &query.signature);
    if let Some(id) = named {
        return is_of(id).then(|| id.to_owned());
    }
    let live = service.sessions.live(0).into_iter();
    let mut sandboxes = live.filter(|entry| entry.label().sandbox.is_some());
    let found = sandboxes.find(|entry| is_of(&entry.id));
    found.map(|entry| entry.id.clone())
}

/// Port and id of the sandbox that a request is for: by its headers, else by the first label of its host.
fn sandbox_of<'a>(headers: &'a HeaderMap, domain: Option<&str>) -> Option<(&'a str, &'a str)> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if let Some(id) = text("e2b-sandbox-id") {
        let port = text("e2b-sandbox-port").unwrap_or(PORTS[0]);
        return Some((port, id));
    }
    let host = text(header::HOST.as_str())?;
    is_name_of(host, domain?).then_some(())?;
    host.split('.').next()?.split_once('-')
}

/// The path below `/e2b` of a request to a name of the domain.
pub(crate) fn rewrite(request: &mut Request, domain: &str) {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_name_of(host, domain) {
        return;
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    if let Ok(uri) = format!("/e2b{path}").parse::<Uri>() {
        *request.uri_mut() = uri;
    }
}

/// Everything in a sandbox is its one user's. Nothing is root's, and what needs that fails by itself.
fn check_user(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(());
    };
    let value = value.to_str().unwrap_or_default();
    let encoded = value.strip_prefix("Basic ").unwrap_or_default();
    let decoded = BASE64.decode(encoded.trim()).unwrap_or_default();
    let user = decoded.split(|byte| *byte == b':').next();
    if matches!(user, Some(b"user" | b"root")) {
        return Ok(());
    }
    let detail = "the users of a sandbox are `user` and `root`, which is `user` here";
    Err(Problem::new(Code::Unauthorized, detail))
}

fn refused(service: &Service, sandbox: Option<&str>) -> Problem {
    let detail = if sandbox.is_some() || service.options.cluster.is_none() {
        "send the access token of the sandbox, or a signed address that has not expired"
    } else {
        "send the access token of the sandbox with the header `E2b-Sandbox-Id`; a signed address needs it as well, or \
         the host name of the sandbox, unless it is sent to the node of the sandbox"
    };
    Problem::new(Code::Unauthorized, detail)
}

/// Clients know a sandbox that is gone by these words.
pub(super) fn gone(id: &str) -> Problem {
    let id: String = id.chars().take(100).collect();
    let detail = format!("the sandbox `{}` was not found", id.escape_debug());
    Problem::new(Code::SandboxNotRunning, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_two_spellings() {
        assert_eq!(spelled("bj_a_b").as_deref(), Some("bj_a_b"));
        assert_eq!(spelled("e2b_626a5f615f62").as_deref(), Some("bj_a_b"));
        for wrong in ["e2b_6", "e2b_zz", "e2b_+1", "e2b_ff", "e2b_é"] {
            assert_eq!(spelled(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_host_names_a_sandbox() {
        let named = |host: &'static str, id: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(id) = id {
                headers.insert("e2b-sandbox-id", id.parse().unwrap());
            }
            let found = sandbox_of(&headers, Some("belljar.test"));
            found.map(|(port, id)| (port.to_owned(), id.to_owned()))
        };
        let some = |port: &str, id: &str| Some((port.to_owned(), id.to_owned()));
        assert_eq!(
            named("49999-a-b.belljar.test:443", None),
            some("49999", "a-b")
        );
        assert_eq!(named("49999-a.belljar.test", Some("x")), some("49983", "x"));
        for other in [
            "belljar.test",
            "49999-a.evil.test",
            "49999-a.xbelljar.test",
            "1-a.b.belljar.test",
        ] {
            assert_eq!(named(other, None), None, "{other}");
        }
    }

    #[test]
    fn only_the_users_of_a_sandbox_are_known() {
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            check_user(&headers).is_ok()
        };
        assert!(check(&format!("Basic {}", BASE64.encode("user:"))));
        assert!(check(&format!("Basic {}", BASE64.encode("root:"))));
        assert!(!check(&format!("Basic {}", BASE64.encode("alice:"))));
        assert!(!check("Basic ???") && !check("Bearer x") && !check(""));
    }
}
