//! What a request or a response loses and gets on its way through a node, to a program in a session or to another node.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use reqwest::Url;

use crate::framing::is_websocket;
use crate::problem::{Code, Problem};

/// Marks a request that was passed on. It is not passed on again.
const PASSED_ON: HeaderName = HeaderName::from_static("x-belljar-node");

/// About one connection, not about a message.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a WebSocket is requested, or agreed to.
pub(crate) fn upgrades(headers: &HeaderMap) -> bool {
    let mut upgrades = headers.get_all(header::UPGRADE).iter();
    upgrades.any(|upgrade| is_websocket(upgrade.as_bytes()))
}

/// Requests a WebSocket, or agrees to one.
pub(crate) fn upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Whether a request comes from another node.
pub(crate) fn is_passed_on(headers: &HeaderMap) -> bool {
    headers.contains_key(PASSED_ON)
}

/// Marks a request as passed on.
pub(crate) fn mark(headers: &mut HeaderMap) {
    headers.insert(PASSED_ON, HeaderValue::from_static("1"));
}

/// The same page of another node.
pub(crate) fn url_at(address: &str, uri: &Uri) -> Result<Url, Problem> {
    // They would be resolved, and the other node would get another path.
    if uri.path().contains('\\') || uri.path().split('/').any(is_dots) {
        let detail = "segments such as `..`, and backslashes, lead to no path of another node";
        return Err(Problem::new(Code::BadPath, detail));
    }
    let page = uri.path_and_query().map_or("/", |page| page.as_str());
    let url = Url::parse(&format!("{address}{page}"));
    url.map_err(|error| Problem::internal("the address of a node", error))
}

/// Whether a segment of a path means its directory or the one above.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

/// Removes what is about one connection.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // Of two lengths, this one did not count.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named.iter().map(String::as_str).chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}
