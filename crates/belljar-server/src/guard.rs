//! What every request passes first, and what every answer gets: the id, the name that the service is called
//! by, headers for browsers, counting.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use opentelemetry::global::get_text_map_propagator;
use opentelemetry_http::HeaderExtractor;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::credentials::{bearer, cookies};
use crate::hop::is_passed_on;
use crate::metrics::Answered;
use crate::node::random_hex;
use crate::peers::Connection;
use crate::ports::{self, FromGuest};
use crate::problem::{Code, Problem};
use crate::requests::{MCP, is_name_of, key_of_protocols};
use crate::service::{Caller, Service};
use crate::tenants::Scope;

/// Nothing that is answered is a page, but the files of the interface, which have headers of their own: a
/// browser that is led here shows nothing, runs nothing and keeps nothing.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The header without which the cookie of a browser does not count.
const MARK: &str = "x-belljar";

/// The route of requests to ports of sessions, in metrics and logs.
const PORT: &str = "port";

/// Names that the service may be called by.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// All of them.
    all: Arc<[String]>,
    /// Those that the operator gave.
    given: Arc<[String]>,
    /// Whether ports of sessions have names here.
    ports: bool,
    /// The domain whose names are those of sandboxes.
    domain: Option<String>,
}

impl Hosts {
    /// Those of the address that it listens on, and these.
    pub(crate) fn new(address: IpAddr, names: &[String]) -> Self {
        let given: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let mut all = given.clone();
        if address.is_loopback() || address.is_unspecified() {
            all.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        all.push(match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        Self {
            all: all.into(),
            given: given.into(),
            ports: false,
            domain: None,
        }
    }

    /// With names of ports.
    pub(crate) fn with_ports(self) -> Self {
        Self {
            ports: true,
            ..self
        }
    }

    /// The same with all names of a domain.
    pub(crate) fn with_domain(self, domain: Option<&str>) -> Self {
        let domain = domain.map(str::to_owned);
        Self { domain, ..self }
    }

    /// Whether a `Host` is one of them, with whatever port: a page of another name that is led to this
    /// address can't talk to it.
    fn has(&self, host: &str) -> bool {
        let domain = self.domain.as_deref();
        is_among(&self.all, host) || domain.is_some_and(|domain| is_name_of(host, domain))
    }

    /// Whether a page of this origin is one of ours: of the very service that is called, or of a name that
    /// the operator gave, which a proxy need not pass on.
    fn has_origin(&self, origin: &str, host: &str) -> bool {
        let Some((_, authority)) = origin.split_once("://") else {
            return false;
        };
        authority.eq_ignore_ascii_case(host) || is_among(&self.given, authority)
    }
}

fn is_among(names: &[String], host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

pub(crate) async fn guard(
    State((service, hosts)): State<(Arc<Service>, Hosts)>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(id) = random_hex(8) else {
        return Problem::new(Code::Internal, "no random numbers are available").into_response();
    };
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let port = service.ports.as_ref().filter(|_| hosts.ports);
    let port = port.and_then(|ports| Some((ports, ports.find(request.headers())?)));
    let route = match &port {
        Some(_) => Some(PORT),
        None => route.as_ref().map(MatchedPath::as_str),
    };
    let connection = request.extensions().get::<Arc<Connection>>();
    let client = connection.map(|connection| connection.client.to_string());
    // Empty fields are recorded when they become known.
    let span = tracing::info_span!(
        "request", id, client, %method, route, tenant = Empty, key = Empty, session = Empty, cell = Empty,
        status = Empty, code = Empty
    );
    if request.headers().contains_key("traceparent") {
        let headers = HeaderExtractor(request.headers());
        let caller = get_text_map_propagator(|propagator| propagator.extract(&headers));
        // An error: nobody keeps traces.
        let _ = span.set_parent(caller);
    }
    let is_of_node = connection.is_some_and(|connection| connection.is_of_node());
    let mut response = async {
        if is_passed_on(request.headers()) && !is_of_node && service.has_node_ca() {
            let detail = "`x-belljar-node` is for nodes of the cluster, which show a certificate of its authority";
            return Problem::new(Code::NodeNotTrusted, detail).into_response();
        }
        if let Some((ports, name)) = &port {
            return ports::answer(&service, ports, name, request).await;
        }
        match admit(request.headers(), &hosts) {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    }
    .instrument(span.clone())
    .await;
    if response.extensions().get::<FromGuest>().is_none() {
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.entry(name).or_insert(value);
        }
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert("x-request-id", id);
        }
    }
    let status = response.status();
    let answered = Answered {
        method: &method,
        route,
        status,
        code: response.extensions().get::<Code>().copied(),
        duration: began.elapsed(),
    };
    span.in_scope(|| {
        tracing::info!(
            status = status.as_u16(),
            code = answered.code.map(Code::as_str),
            duration_us = u64::try_from(answered.duration.as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
    });
    span.record("status", status.as_u16());
    if let Some(code) = answered.code {
        span.record("code", code.as_str());
    }
    service.metrics.request(&answered);
    response
}

fn admit(headers: &HeaderMap, hosts: &Hosts) -> Result<(), Problem> {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let Some(host) = host.filter(|host| hosts.has(host)) else {
        let detail = "the header `Host` is not a name of this service; the operator adds names with `--host`";
        return Err(Problem::new(Code::WrongHost, detail));
    };
    // Only browsers send it. A page of another site has no business here, whatever its browser lets it try.
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let ours = |origin: &HeaderValue| {
        let origin = origin.to_str();
        origin.is_ok_and(|origin| hosts.has_origin(origin, host))
    };
    if !origins.all(ours) {
        let detail = "the request is from a page of another site; the operator adds names of the service with `--host`";
        return Err(Problem::new(Code::WrongOrigin, detail));
    }
    Ok(())
}

/// Lets nobody pass without a key, and tells what the tenant may still do.
pub(crate) async fn authorize(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let key = key_of(headers, service.cookie()).or_else(|| key_of_protocols(headers));
    let key = key.map(str::to_owned);
    let is_given = headers.contains_key(header::AUTHORIZATION);
    let key = match &service.demo {
        Some(demo) if !is_given => Ok(demo.clone()),
        _ => service.find_key(key).await,
    };
    match key.and_then(|key| Caller::with_scope(key, scope_of(&request))) {
        Ok(caller) => serve_caller(&service, caller, request, next).await,
        Err(problem) => problem.into_response(),
    }
}

/// Answers a request of this caller.
pub(crate) async fn serve_caller(
    service: &Service,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Response {
    // The key itself is a secret; its prefix names it.
    let span = tracing::Span::current();
    span.record("tenant", caller.tenant.as_str());
    span.record("key", &caller.prefix);
    let tenant = caller.tenant.clone();
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let authenticated = connection.as_ref().map(Connection::authenticate);
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    service.admission.tell(&tenant, response.headers_mut());
    match connection {
        Some(connection) => connection.hold(response, authenticated),
        None => response,
    }
}

/// The key that a request came with: in a header, or in the cookie of a browser that has logged in.
fn key_of<'a>(headers: &'a HeaderMap, cookie: &str) -> Option<&'a str> {
    if headers.contains_key(header::AUTHORIZATION) {
        return bearer(headers);
    }
    // A browser sends cookies with whatever a page makes it ask for; the header that is asked for besides, only with what
    // a page of ours asks for.
    if headers.get(MARK)? != "1" {
        return None;
    }
    cookies(headers, cookie).next()
}

/// The scope that a route needs; an unknown route needs none.
fn scope_of(request: &Request) -> Option<Scope> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    if path == MCP {
        return Some(Scope::Sessions);
    }
    let first = path.strip_prefix("/v1/")?.split('/').next()?;
    match first {
        "sessions" => Some(Scope::Sessions),
        "runs" => Some(Scope::Runs),
        // Who a key belongs to is for whoever has it.
        "me" | "demo" => None,
        // Any other route is for admins only.
        _ => Some(Scope::Admin),
    }
}
