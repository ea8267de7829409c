//! The head of a request to the proxy: what it asks for, and how it is passed on.
//!
//! The head is parsed by `httparse` and written anew, so that the server reads what was checked. Two
//! readings of one head are the whole art of smuggling: what is said twice or in two ways is refused.

use super::name::{HostName, NameError, Target, denial, split_port};
use super::{Denial, DeniedReason};

/// The longest head.
pub(super) const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 128;

/// Headers that are between a client and its proxy.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a session asks of the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// `CONNECT`: a way for TLS to a host.
    Tunnel(Target),
    /// One plain request, and nothing after it on the same connection.
    Plain {
        target: Target,
        /// The head for the server.
        head: Vec<u8>,
        /// How many bytes of body belong to it.
        body_bytes: u64,
    },
}

/// Why a head is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Malformed(&'static str),
    /// A body of unknown length.
    LengthRequired,
    Denied(Denial),
}

impl Request {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Tunnel(target) | Self::Plain { target, .. } => target,
        }
    }

    /// Reads a head up to its empty line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let whole = head.parse(bytes) == Ok(httparse::Status::Complete(bytes.len()));
        let (true, Some(method), Some(path), Some(version)) =
            (whole, head.method, head.path, head.version)
        else {
            return Err(Fault::Malformed("this is not an HTTP request"));
        };

        let host = single(head.headers, "host")?;
        let length = single(head.headers, "content-length")?;
        if single(head.headers, "transfer-encoding")?.is_some() {
            return Err(match length {
                Some(_) => Fault::Malformed("both Content-Length and Transfer-Encoding"),
                None => Fault::LengthRequired,
            });
        }
        let body_bytes = match length {
            Some(length) => parse_length(length).ok_or(Fault::Malformed("bad Content-Length"))?,
            None => 0,
        };

        if method == "CONNECT" {
            // The Host header of a tunnel goes nowhere, and old clients send none.
            return match body_bytes {
                0 => target(path, None).map(Self::Tunnel),
                _ => Err(Fault::Malformed("CONNECT has no body")),
            };
        }

        let (authority, path) = split_absolute(path)?;
        let target = target(authority, Some(80))?;
        let host = host.ok_or(Fault::Malformed("no Host header"))?;
        let host = std::str::from_utf8(host).map_err(|_| Fault::Malformed("bad Host header"))?;
        if self::target(host, Some(80)).as_ref() != Ok(&target) {
            return Err(Fault::Denied(target.denied(DeniedReason::HostMismatch)));
        }
        // The version of the client, since the answer goes to it as it is.
        let line = format!("{method} {path} HTTP/1.{version}");
        let head = write_head(&line, &target, length, head.headers);
        Ok(Self::Plain {
            target,
            head,
            body_bytes,
        })
    }
}

/// The value of a header that may stand there once.
fn single<'a>(
    headers: &[httparse::Header<'a>],
    name: &'static str,
) -> Result<Option<&'a [u8]>, Fault> {
    let mut values = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Fault::Malformed(
            "Host, Content-Length or Transfer-Encoding twice",
        )),
    }
}

/// Digits only: neither `+5` nor `5, 5`.
fn parse_length(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Splits `http://host[:port]/path` into the authority and a path that starts with a slash.
fn split_absolute(text: &str) -> Result<(&str, String), Fault> {
    const SCHEME: &str = "http://";
    let scheme = text.get(..SCHEME.len());
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
        return Err(Fault::Malformed(
            "this is a proxy: request http://host/path, or CONNECT host:port for TLS",
        ));
    }
    let rest = &text[SCHEME.len()..];
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok((authority, path))
}

fn target(authority: &str, usual_port: Option<u16>) -> Result<Target, Fault> {
    let (host, port) = split_port(authority).ok_or(Fault::Malformed("bad port"))?;
    let port = port.or(usual_port).ok_or(Fault::Malformed("no port"))?;
    match HostName::parse(host) {
        Ok(host) => Ok(Target { host, port }),
        Err(error) => {
            let reason = match error {
                NameError::Address => DeniedReason::AddressLiteral,
                NameError::NotAscii | NameError::Invalid => DeniedReason::InvalidName,
            };
            Err(Fault::Denied(denial(host, port, reason)))
        }
    }
}

/// The head as the server gets it. What was checked is written from what was understood.
fn write_head(
    line: &str,
    target: &Target,
    length: Option<&[u8]>,
    headers: &[httparse::Header<'_>],
) -> Vec<u8> {
    let named: Vec<&[u8]> = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("connection"))
        .flat_map(|header| header.value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    let is_dropped = |name: &str| {
        let is = |other: &&str| name.eq_ignore_ascii_case(other);
        ["host", "content-length"].iter().any(is)
            || HOP_BY_HOP.iter().any(is)
            || named
                .iter()
                .any(|other| name.as_bytes().eq_ignore_ascii_case(other))
    };

    let host = target.host.as_str();
    let port = match target.port {
        80 => String::new(),
        port => format!(":{port}"),
    };
    let head = format!("{line}\r\nHost: {host}{port}\r\nConnection: close\r\n");
    let mut head = head.into_bytes();
    let kept = headers
        .iter()
        .filter(|header| !is_dropped(header.name))
        .map(|header| (header.name, header.value));
    let length = length.map(|value| ("Content-Length", value));
    for (name, value) in length.into_iter().chain(kept) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Request, Fault> {
        Request::parse(text.as_bytes())
    }

    fn site(port: u16) -> Target {
        let host = HostName::parse("site.test").unwrap();
        Target { host, port }
    }

    #[test]
    fn a_tunnel_is_understood() {
        for head in [
            "CONNECT site.test:443 HTTP/1.0\r\n\r\n",
            "CONNECT SITE.test.:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
        ] {
            assert_eq!(parse(head), Ok(Request::Tunnel(site(443))));
        }
    }

    #[test]
    fn a_plain_request_is_written_anew() {
        let request = parse(
            "POST HTTP://Site.test:8080?q=1 HTTP/1.0\r\n\
             Accept: */*\r\nConnection: Keep-Alive, X-Secret, host, content-length\r\n\
             X-Secret: 1\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\n\
             hOST: site.test:8080\r\ncontent-length: 5\r\nKeep-Alive: 9\r\nX-Kept: \u{e9}\r\n\r\n",
        );
        let head = "POST /?q=1 HTTP/1.0\r\nHost: site.test:8080\r\nConnection: close\r\n\
                    Content-Length: 5\r\nAccept: */*\r\nX-Kept: \u{e9}\r\n\r\n";
        let expected = Request::Plain {
            target: site(8080),
            head: head.into(),
            body_bytes: 5,
        };
        assert_eq!(request, Ok(expected));

        let request = parse("GET http://site.test HTTP/1.1\r\nHost: site.test:80\r\n\r\n");
        let expected = Request::Plain {
            target: site(80),
            head: b"GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n".into(),
            body_bytes: 0,
        };
        assert_eq!(request, Ok(expected));
    }

    /// I5: heads that two readers may read in two ways.
    #[test]
    fn ambiguous_heads_are_refused() {
        let get = "GET http://site.test/ HTTP/1.1\r\n";
        let with_host = format!("{get}Host: site.test\r\n");
        for head in [
            "\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "GET https://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "GET ftp://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "GET http:/site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "GET http://site.test:x/ HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "GET http://a:b@site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n".to_owned(),
            "CONNECT site.test HTTP/1.1\r\n\r\n".to_owned(),
            "CONNECT site.test:0 HTTP/1.1\r\n\r\n".to_owned(),
            "CONNECT site.test:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n".to_owned(),
            "CONNECT site.test:443 HTTP/2.0\r\n\r\n".to_owned(),
            "GET http://site.test/ HTTP/1.1\nHost: site.test\n\nmore\r\n\r\n".to_owned(),
            format!("{get}\r\n"),
            format!("{with_host}Host: site.test\r\n\r\n"),
            format!("{with_host} folded: yes\r\n\r\n"),
            format!("{with_host}X: a\r\n\tb\r\n\r\n"),
            format!("{with_host}Spaced : a\r\n\r\n"),
            format!("{with_host}X: a\rb\r\n\r\n"),
            format!("{with_host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
            format!("{with_host}Content-Length: 1, 1\r\n\r\n"),
            format!("{with_host}Content-Length: +1\r\n\r\n"),
            format!("{with_host}Content-Length: -1\r\n\r\n"),
            format!("{with_host}Content-Length:\r\n\r\n"),
            format!("{with_host}Content-Length: 18446744073709551616\r\n\r\n"),
            format!("{with_host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("{with_host}{}\r\n", "X: y\r\n".repeat(HEADERS)),
        ] {
            let fault = parse(&head);
            assert!(
                matches!(fault, Err(Fault::Malformed(_))),
                "{head} {fault:?}"
            );
        }
        let chunked = format!("{with_host}Transfer-Encoding: chunked\r\n\r\n");
        assert_eq!(parse(&chunked), Err(Fault::LengthRequired));
    }

    /// I2, I5: targets that are denied before any list is asked.
    #[test]
    fn denials_name_the_target() {
        let cases = [
            (
                "CONNECT [::1]:443",
                "[::1]",
                443,
                DeniedReason::AddressLiteral,
            ),
            (
                "CONNECT 127.1:22",
                "127.1",
                22,
                DeniedReason::AddressLiteral,
            ),
            (
                "GET http://2852039166/",
                "2852039166",
                80,
                DeniedReason::AddressLiteral,
            ),
            (
                "GET http://[::1]/",
                "[::1]",
                80,
                DeniedReason::AddressLiteral,
            ),
            (
                "GET http://a@site.test/",
                "a@site.test",
                80,
                DeniedReason::InvalidName,
            ),
            (
                "CONNECT bücher.test:443",
                r"b\xc3\xbccher.test",
                443,
                DeniedReason::InvalidName,
            ),
            ("GET http:///", "", 80, DeniedReason::InvalidName),
            (
                r"GET http://evil.test\@site.test/",
                r"evil.test\\@site.test",
                80,
                DeniedReason::InvalidName,
            ),
            (
                "GET http://site.test:81/",
                "site.test",
                81,
                DeniedReason::HostMismatch,
            ),
            (
                "GET http://evil.test/",
                "evil.test",
                80,
                DeniedReason::HostMismatch,
            ),
        ];
        for (line, host, port, reason) in cases {
            let host = host.to_owned();
            let denial = Denial { host, port, reason };
            let fault = parse(&format!("{line} HTTP/1.1\r\nHost: site.test\r\n\r\n"));
            assert_eq!(fault, Err(Fault::Denied(denial)), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes: Vec<u8>) {
            let _ = Request::parse(&bytes);
            let _ = Request::parse(&[b"CONNECT ", &bytes[..], b" HTTP/1.1\r\n\r\n"].concat());
            let _ = Request::parse(&[b"GET http://", &bytes[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        }

        /// What is passed on has one head, for the checked host, whatever the headers say.
        #[test]
        fn what_is_passed_on_is_one_head(
            path in "[!-~]{0,20}",
            headers in proptest::collection::vec("(?i)(x|te|host|connection|content-length): [ -~]{0,20}\r\n", 0..4),
        ) {
            let text = format!("GET http://site.test/{path} HTTP/1.1\r\nHost: site.test\r\n{}\r\n", headers.concat());
            if let Ok(Request::Plain { head, body_bytes, .. }) = parse(&text) {
                let mut storage = [httparse::EMPTY_HEADER; HEADERS];
                let mut parsed = httparse::Request::new(&mut storage);
                prop_assert_eq!(parsed.parse(&head), Ok(httparse::Status::Complete(head.len())));
                prop_assert_eq!(single(parsed.headers, "host").unwrap(), Some(&b"site.test"[..]));
                prop_assert_eq!(single(parsed.headers, "connection").unwrap(), Some(&b"close"[..]));
                let length = single(parsed.headers, "content-length").unwrap();
                prop_assert_eq!(length.map_or(Some(0), parse_length), Some(body_bytes));
            }
        }
    }
}
