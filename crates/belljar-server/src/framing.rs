//! Where a request ends: heads that two programs could read in two ways are refused.
//!
//! Hyper accepts some of them in one of the two ways (of `Content-Length` and `Transfer-Encoding`, it drops the
//! first, so that nobody behind it can tell). A proxy that reads them in the other way would take a part of a body for
//! a request of somebody else. So every head is looked at before hyper gets it, by the parser that hyper has.

/// As many as hyper takes.
const MAX_HEADERS: usize = 100;

/// What the first bytes of a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The beginning of a head.
    Partial,
    /// No head. Hyper refuses it, with the right status.
    Malformed,
    /// A head that can be read in two ways.
    Ambiguous,
    /// A whole head of so many bytes.
    Whole { bytes: usize, body: BodyLength },
}

/// How long the body after a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(u64),
    /// It has chunks, or the connection becomes something else. The answer is the last one of its connection.
    Unknown,
}

impl Head {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Partial) => Self::Partial,
            Err(_) => Self::Malformed,
            // Some end lines at a line feed alone, and some don't.
            Ok(httparse::Status::Complete(length)) if has_bare_line_feed(&bytes[..length]) => {
                Self::Ambiguous
            }
            Ok(httparse::Status::Complete(length)) => match body_length(&request) {
                Some(body) => Self::Whole {
                    bytes: length,
                    body,
                },
                None => Self::Ambiguous,
            },
        }
    }
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().any(|byte| {
        let bare = *byte == b'\n' && before != b'\r';
        before = *byte;
        bare
    })
}

/// How long the body is; `None` where that, or whom the request is for, is said twice.
fn body_length(request: &httparse::Request<'_, '_>) -> Option<BodyLength> {
    let host = at_most_one(request, "host").ok()?;
    let length = at_most_one(request, "content-length").ok()?;
    let coding = at_most_one(request, "transfer-encoding").ok()?;
    let method = request.method.unwrap_or_default();
    if !is_for_host(method, request.path.unwrap_or_default(), host) {
        return None;
    }
    let body = match (length, coding) {
        (None, None) => BodyLength::Known(0),
        (Some(length), None) => BodyLength::Known(digits(length)?),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => BodyLength::Unknown,
        _ => return None,
    };
    let mut upgrades = values(request, "upgrade").into_iter();
    let upgrades = method == "CONNECT" || upgrades.any(is_websocket);
    match body {
        // What comes after the head would be the body, or what it becomes.
        _ if upgrades && body != BodyLength::Known(0) => None,
        _ if upgrades => Some(BodyLength::Unknown),
        _ => Some(body),
    }
}

/// Whether this value of `Upgrade` asks for what the service can become. Others are ignored: some clients ask for HTTP/2 with
/// every request.
pub(crate) fn is_websocket(upgrade: &[u8]) -> bool {
    upgrade
        .to_ascii_lowercase()
        .windows(9)
        .any(|part| part == b"websocket")
}

fn values<'a>(request: &httparse::Request<'_, 'a>, name: &str) -> Vec<&'a [u8]> {
    let named = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value).collect()
}

/// The value of a header, if there is one.
fn at_most_one<'a>(
    request: &httparse::Request<'_, 'a>,
    name: &str,
) -> Result<Option<&'a [u8]>, SaidTwice> {
    match values(request, name)[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.trim_ascii())),
        _ => Err(SaidTwice),
    }
}

/// A header that must be there once is there more often.
struct SaidTwice;

fn digits(value: &[u8]) -> Option<u64> {
    let all = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = all.then(|| std::str::from_utf8(value).ok()).flatten();
    text?.parse().ok()
}

/// Whether the target names no other host than `Host` does.
fn is_for_host(method: &str, target: &str, host: Option<&[u8]>) -> bool {
    if method == "CONNECT" || target == "*" || target.starts_with('/') {
        return true;
    }
    let authority = target.split_once("://").map(|(_, rest)| rest);
    let authority = authority.and_then(|rest| rest.split(['/', '?', '#']).next());
    let (Some(authority), Some(host)) = (authority, host) else {
        return false;
    };
    host.eq_ignore_ascii_case(authority.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Head {
        Head::parse(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
    }

    fn body(lines: &str) -> Option<BodyLength> {
        match parse(lines) {
            Head::Whole { body, .. } => Some(body),
            Head::Ambiguous => None,
            other => panic!("{lines}: {other:?}"),
        }
    }

    #[test]
    fn what_is_said_once_counts() {
        assert_eq!(body(""), Some(BodyLength::Known(0)));
        assert_eq!(body("Content-Length: 12\r\n"), Some(BodyLength::Known(12)));
        let chunked = "transfer-encoding: Chunked \r\n";
        assert_eq!(body(chunked), Some(BodyLength::Unknown));
        let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
        assert_eq!(body(upgrade), Some(BodyLength::Unknown));
        let other = "Upgrade: h2c\r\nContent-Length: 4\r\n";
        assert_eq!(body(other), Some(BodyLength::Known(4)));
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
        let head = Head::Whole {
            bytes: whole.len() - 3,
            body: BodyLength::Known(0),
        };
        assert_eq!(Head::parse(whole), head);
        assert_eq!(Head::parse(b"GET / HT"), Head::Partial);
        assert_eq!(Head::parse(b"\0"), Head::Malformed);
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for lines in [
            "Host: a\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "Content-Length: 4\r\nContent-Length: 4\r\n",
            "Content-Length: 4, 4\r\n",
            "Content-Length: +4\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "X: y\nTransfer-Encoding: chunked\r\n",
            "Upgrade: h2c, WebSocket\r\nContent-Length: 4\r\n",
            "Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(parse(lines), Head::Ambiguous, "{lines}");
        }
        for lines in [" folded\r\n", "Content-Length : 4\r\n", "X: a\rb\r\n"] {
            assert_eq!(parse(lines), Head::Malformed, "{lines}");
        }
    }

    #[test]
    fn a_target_names_no_other_host() {
        let parse = |target: &str, host: &str| {
            Head::parse(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
        };
        for target in ["/a?b", "*", "http://a:1/b", "HTTP://A:1?b", "http://a:1"] {
            let head = parse(target, "a:1");
            assert!(matches!(head, Head::Whole { .. }), "{target}: {head:?}");
        }
        for target in ["http://b/", "http://a:1@b/", "http://a/", "a:1", "http:/a"] {
            assert_eq!(parse(target, "a:1"), Head::Ambiguous, "{target}");
        }
    }
}
