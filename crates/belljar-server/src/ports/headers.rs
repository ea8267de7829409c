//! What headers pass between a client and a program in a session.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::credentials::{COOKIE, HOST_COOKIE};
use crate::hop::remove_hop_by_hop;
use crate::port_access::{PORT_COOKIE, PORT_HOST_COOKIE, TOKEN};

/// Cookies of ours, on whatever host.
const OUR_COOKIES: [&str; 4] = [COOKIE, HOST_COOKIE, PORT_COOKIE, PORT_HOST_COOKIE];

/// Ours, and what proxies tell about the client.
const NOT_FOR_GUESTS: [&str; 8] = [
    TOKEN,
    "x-belljar",
    "x-belljar-node",
    "e2b-traffic-access-token",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-port",
    "x-real-ip",
];

/// What acts beyond the origin that it came from: on cookies of the whole site, on how its host is reached.
const BEYOND_THE_ORIGIN: [&str; 3] = ["alt-svc", "clear-site-data", "strict-transport-security"];

/// The fewest letters and digits of a key's secret part.
const LEAST_SECRET: usize = 32;

/// Removes what a program in a session must not see.
pub(super) fn for_guest(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in NOT_FOR_GUESTS {
        headers.remove(name);
    }
    keep_parts(headers, &header::COOKIE, ';', |pair| {
        let name = pair.split('=').next().unwrap_or(pair).trim();
        !OUR_COOKIES.contains(&name) && !holds_key(pair.as_bytes())
    });
    keep_parts(headers, &header::SEC_WEBSOCKET_PROTOCOL, ',', |protocol| {
        !holds_key(protocol.as_bytes())
    });
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        keep_values(headers, &name, |value| {
            (!holds_key(value.as_bytes())).then(|| value.clone())
        });
    }
}

/// Removes what a program in a session must not tell a browser.
pub(super) fn for_client(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in BEYOND_THE_ORIGIN {
        headers.remove(name);
    }
    keep_values(headers, &header::SET_COOKIE, own_cookie);
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
}

/// A cookie for its own host alone; none if it has the name of one of ours.
fn own_cookie(value: &HeaderValue) -> Option<HeaderValue> {
    let mut parts = value.as_bytes().split(|byte| *byte == b';');
    let pair = parts.next()?;
    let named = pair.split(|byte| *byte == b'=');
    // Browsers send one without a name as its value, which may look like a name.
    let name = named.map(<[u8]>::trim_ascii).find(|part| !part.is_empty());
    let name = name.unwrap_or_default();
    if OUR_COOKIES.iter().any(|ours| ours.as_bytes() == name) {
        return None;
    }
    let is_domain = |part: &&[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"domain")
    };
    let attributes = parts.filter(|part| !is_domain(part));
    let kept: Vec<&[u8]> = std::iter::once(pair).chain(attributes).collect();
    HeaderValue::from_bytes(&kept.join(&b';')).ok()
}

/// Whether there is a key in a text: `bj_PREFIX_SECRET`, or its spelling for E2B's SDKs.
fn holds_key(text: &[u8]) -> bool {
    const SPELLED: &[u8] = b"e2b_626a5f";
    if text.windows(SPELLED.len()).any(|part| part == SPELLED) {
        return true;
    }
    let word = |text: &[u8]| {
        text.iter()
            .take_while(|b| b.is_ascii_alphanumeric())
            .count()
    };
    text.windows(3).enumerate().any(|(start, part)| {
        let rest = &text[start + 3..];
        let prefix = word(rest);
        part == b"bj_"
            && rest.get(prefix) == Some(&b'_')
            && word(&rest[prefix + 1..]) >= LEAST_SECRET
    })
}

/// Keeps parts of a header that is a list.
fn keep_parts(
    headers: &mut HeaderMap,
    name: &HeaderName,
    separator: char,
    keep: impl Fn(&str) -> bool,
) {
    keep_values(headers, name, |value| {
        let text = value.to_str().ok()?;
        let parts = text.split(separator).map(str::trim);
        let kept: Vec<&str> = parts.filter(|part| keep(part)).collect();
        let text = kept.join(&format!("{separator} "));
        HeaderValue::try_from(text)
            .ok()
            .filter(|value| !value.is_empty())
    });
}

/// Changes or removes values of a header.
fn keep_values(
    headers: &mut HeaderMap,
    name: &HeaderName,
    keep: impl Fn(&HeaderValue) -> Option<HeaderValue>,
) {
    let kept: Vec<HeaderValue> = headers.get_all(name).iter().filter_map(keep).collect();
    headers.remove(name);
    for value in kept {
        headers.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn lines(headers: &HeaderMap) -> Vec<(&str, &str)> {
        let all = headers.iter();
        all.map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn guests_get_no_credentials() {
        let key = format!("bj_0011aabb_{}", "ab".repeat(32));
        let mut passed = headers(&[
            ("host", "8000-x.localhost"),
            ("authorization", &format!("Bearer {key}")),
            ("authorization", "Basic dXNlcg=="),
            (
                "cookie",
                &format!("a=1; belljar={key}; belljar-port=t; b=2"),
            ),
            ("cookie", "__Host-belljar-port=t; __Host-belljar=t"),
            ("cookie", &format!("renamed={key}; belljar-portly=3")),
            (
                "sec-websocket-protocol",
                &format!("chat, belljar.key.{key}"),
            ),
            ("x-api-key", &key),
            ("x-belljar-port-token", "t"),
            ("x-belljar", "1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("x-app", "bj_is_no_key"),
        ]);
        for_guest(&mut passed);
        let mut expected = vec![
            ("host", "8000-x.localhost"),
            ("authorization", "Basic dXNlcg=="),
            ("cookie", "a=1; b=2"),
            ("cookie", "belljar-portly=3"),
            ("sec-websocket-protocol", "chat"),
            ("x-app", "bj_is_no_key"),
        ];
        let mut passed = lines(&passed);
        passed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(passed, expected);
    }

    #[test]
    fn guests_act_on_their_own_origin_alone() {
        let mut passed = headers(&[
            ("set-cookie", "a=1; Domain=example.org; Path=/"),
            ("set-cookie", "b=domain; dOmAin ; HttpOnly"),
            ("set-cookie", "belljar=x; Path=/"),
            ("set-cookie", "=belljar-port=x"),
            ("set-cookie", " __Host-belljar = x"),
            ("clear-site-data", "\"cookies\""),
            ("strict-transport-security", "max-age=1"),
            ("alt-svc", "h2=\"evil:443\""),
            ("cross-origin-resource-policy", "cross-origin"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("service-worker-allowed", "/"),
        ]);
        for_client(&mut passed);
        let mut passed = lines(&passed);
        passed.sort_unstable();
        assert_eq!(
            passed,
            [
                ("cross-origin-resource-policy", "same-origin"),
                ("service-worker-allowed", "/"),
                ("set-cookie", "a=1; Path=/"),
                ("set-cookie", "b=domain; HttpOnly"),
            ]
        );
    }
}
