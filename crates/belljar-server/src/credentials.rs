//! Where the credentials of a request are.

use axum::http::{HeaderMap, header};

/// The cookie that holds the key of a browser. Where pages of ports could set cookies for the service, it has a name that
/// browsers accept from the service's own host alone.
pub(crate) const COOKIE: &str = "belljar";
pub(crate) const HOST_COOKIE: &str = "__Host-belljar";

/// The only `Authorization`, if it is of the scheme `Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    credential(headers, &["bearer"])
}

/// The only `Authorization`, if it is of one of these schemes.
pub(crate) fn credential<'a>(headers: &'a HeaderMap, schemes: &[&str]) -> Option<&'a str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    let mut known = schemes.iter();
    known
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| key.trim())
}

/// The values of the cookies of a name.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}
