//! Who may reach a port: the holder of a key, of a token, or of a cookie that a link has set.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use crate::credentials::{bearer, cookies};
use crate::port_access::{PARAMETER, PortName, Ports, Purpose, TOKEN, host_of};
use crate::problem::{Code, Problem};
use crate::service::{Caller, Service};
use crate::tenants::Scope;

/// The head of a request. Its body can't be shared between threads.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
}

/// How a caller came to a port.
pub(super) enum Entry {
    Credential,
    /// By a valid link: the browser gets a cookie, and comes again.
    Link,
}

pub(super) async fn enter(
    service: &Arc<Service>,
    ports: &Ports,
    name: &PortName,
    head: Head<'_>,
) -> Result<(Caller, Entry), Problem> {
    let headers = head.headers;
    if let Some(key) = bearer(headers).filter(|key| key.starts_with("bj_")) {
        let key = service.find_key(Some(key.to_owned())).await?;
        let caller = Caller::with_scope(key, Some(Scope::Sessions))?;
        return Ok((caller, Entry::Credential));
    }
    let check = |purpose, token: &str| {
        let prefix = ports.signer.check(purpose, name, token);
        prefix.map(str::to_owned)
    };
    if let Some(token) = headers.get(TOKEN) {
        let prefix = token.to_str().ok();
        let prefix = prefix.and_then(|token| check(Purpose::Access, token));
        return Ok((holder(service, prefix).await?, Entry::Credential));
    }
    if head.method == Method::GET
        && let Some(link) = without_link(head.uri).1
        && let Some(prefix) = check(Purpose::Link, link)
    {
        return Ok((holder(service, Some(prefix)).await?, Entry::Link));
    }
    let mut tokens = cookies(headers, ports.cookie());
    let prefix = tokens.find_map(|token| check(Purpose::Access, token));
    let caller = holder(service, prefix).await?;
    if !is_of_own_page(head.method, headers) {
        let detail =
            "the cookie of a port counts for its own pages alone, and over HTTPS or on `localhost`";
        return Err(Problem::new(Code::WrongOrigin, detail));
    }
    Ok((caller, Entry::Credential))
}

/// The caller by the prefix of the key that signed for it.
async fn holder(service: &Arc<Service>, prefix: Option<String>) -> Result<Caller, Problem> {
    let refused = || {
        let detail = "the link, token or cookie of this port is missing or no longer valid; `POST \
                      /v1/sessions/{id}/ports/{port}` of the service returns new ones";
        Problem::new(Code::Unauthorized, detail)
    };
    let key = service
        .tenants
        .find_valid(&prefix.ok_or_else(refused)?)
        .await?;
    Caller::with_scope(key.ok_or_else(refused)?, Some(Scope::Sessions))
}

/// Whether the page that makes a request has the same origin, or the whole tab is led there. A browser sends the cookie
/// with whatever a page makes it ask for, also one of another session: they are of the same site.
fn is_of_own_page(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => Some(value.to_str().unwrap_or_default()),
            (None, _) => None,
            // Browsers send one.
            (Some(_), Some(_)) => Some(""),
        }
    };
    if let Some(origin) = text("origin") {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        return authority.is_some_and(|authority| {
            host_of(headers).is_some_and(|host| host.eq_ignore_ascii_case(authority))
        });
    }
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => true,
        Some(_) => {
            matches!(*method, Method::GET | Method::HEAD)
                && text("sec-fetch-mode") == Some("navigate")
                && text("sec-fetch-dest") == Some("document")
        }
        // A program, which has better ways, or a browser that can't tell: neither TLS nor `localhost`.
        None => false,
    }
}

/// The path and query without the token of a link, and that token.
pub(super) fn without_link(uri: &Uri) -> (String, Option<&str>) {
    let mut token = None;
    let query = uri.query().unwrap_or_default();
    let rest = query.split('&').filter(|pair| {
        let given = pair
            .strip_prefix(PARAMETER)
            .and_then(|value| value.strip_prefix('='));
        token = given.or(token);
        given.is_none()
    });
    let rest: Vec<&str> = rest.collect();
    let rest = rest.join("&");
    let separator = if rest.is_empty() { "" } else { "?" };
    (format!("{}{separator}{rest}", uri.path()), token)
}

/// Sets the cookie, and leads the browser to the same page without the token.
pub(super) fn redirect(
    ports: &Ports,
    name: &PortName,
    caller: &Caller,
    head: Head<'_>,
) -> Response {
    let (token, _) = ports.signer.sign(Purpose::Access, name, &caller.prefix);
    let seconds = Purpose::Access.lifetime().as_secs();
    let secure = if ports.tls { "; Secure" } else { "" };
    // Not `Strict`: the browser follows the redirect as a request of the page that had the link.
    let cookie = format!(
        "{}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}",
        ports.cookie()
    );
    // With the host: a path of two slashes would name another one.
    let host = host_of(head.headers).unwrap_or_default();
    let page = without_link(head.uri).0;
    let location = format!("{}://{host}{page}", ports.scheme());
    let mut response = StatusCode::SEE_OTHER.into_response();
    for (header, value) in [(header::SET_COOKIE, cookie), (header::LOCATION, location)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(header, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn the_token_of_a_link_is_taken_out() {
        for (given, page, token) in [
            ("/", "/", None),
            ("/a?b=1&c", "/a?b=1&c", None),
            ("/a?belljar_token=t", "/a", Some("t")),
            ("/a?b=1&belljar_token=t&c=2", "/a?b=1&c=2", Some("t")),
            ("//evil.org/?belljar_token=t", "//evil.org/", Some("t")),
            ("/a?belljar_token", "/a?belljar_token", None),
        ] {
            let uri: Uri = given.parse().unwrap();
            assert_eq!(without_link(&uri), (page.to_owned(), token), "{given}");
        }
    }

    #[test]
    fn cookies_count_for_own_pages() {
        let is_own = |method: Method, lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("a.localhost:1"));
            for (name, value) in lines {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            is_of_own_page(&method, &headers)
        };
        let get = |lines: &[(&'static str, &str)]| is_own(Method::GET, lines);
        assert!(get(&[("origin", "http://a.localhost:1")]));
        assert!(get(&[("sec-fetch-site", "same-origin")]));
        assert!(get(&[("sec-fetch-site", "none")]));
        let tab = |site, mode, dest| {
            [
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ]
        };
        assert!(get(&tab("cross-site", "navigate", "document")));
        assert!(get(&tab("same-site", "navigate", "document")));
        assert!(!is_own(
            Method::POST,
            &tab("same-site", "navigate", "document")
        ));
        assert!(!get(&tab("same-site", "navigate", "iframe")));
        assert!(!get(&tab("same-site", "no-cors", "script")));
        assert!(!get(&tab("cross-site", "cors", "empty")));
        assert!(!get(&[]));
        for origin in [
            "null",
            "http://a.localhost",
            "http://b.localhost:1",
            "http://localhost:1",
        ] {
            assert!(
                !get(&[("origin", origin), ("sec-fetch-site", "same-origin")]),
                "{origin}"
            );
        }
        let twice = [("origin", "http://a.localhost:1"), ("origin", "http://b")];
        assert!(!get(&twice));
    }
}
