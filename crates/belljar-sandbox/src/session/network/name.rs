//! Host names as they are compared: lower case, no dot at the end, and never an address.

use super::{Denial, DeniedReason};

/// The longest name in the domain name system.
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;
/// How much of the name that a session requested is reported.
const TOLD_BYTES: usize = 255;

/// A name that is safe to compare, to resolve and to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostName(String);

/// Why a text is not a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameError {
    NotAscii,
    Address,
    Invalid,
}

impl HostName {
    pub(super) fn parse(text: &str) -> Result<Self, NameError> {
        if !text.is_ascii() {
            return Err(NameError::NotAscii);
        }
        if text.contains([':', '[', ']']) {
            return Err(NameError::Address);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.len() > NAME_BYTES || !name.split('.').all(is_label) {
            return Err(NameError::Invalid);
        }
        // As browsers and the C library see it, a last label that is a number makes the whole an
        // address: `127.1`, `2852039166`, `0xa9fea9fe`, `0251.0376.0251.0376`.
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(NameError::Address);
        }
        Ok(Self(name))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_BYTES).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x");
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Where a request wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: HostName,
    pub(super) port: u16,
}

impl Target {
    pub(super) fn denied(&self, reason: DeniedReason) -> Denial {
        denial(self.host.as_str(), self.port, reason)
    }
}

/// Splits `host`, `host:port` or `[address]:port`. `None` if the port is not a number from 1 up.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Some((text, None));
    };
    if port.ends_with(']') {
        return Some((text, None));
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some((host, Some(port)))
}

/// A denial of the host that a session requested, cleaned.
pub(super) fn denial(host: &str, port: u16, reason: DeniedReason) -> Denial {
    let mut host = host.as_bytes().escape_ascii().to_string();
    host.truncate(TOLD_BYTES);
    Denial { host, port, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_made_equal() {
        for text in ["example.com", "EXAMPLE.com", "Example.Com."] {
            assert_eq!(HostName::parse(text).unwrap().as_str(), "example.com");
        }
        assert!(HostName::parse("xn--bcher-kva.example").is_ok());
        assert!(HostName::parse("_service.example.com").is_ok());
    }

    /// I5: what is no name is no other name either.
    #[test]
    fn what_is_no_name_is_refused() {
        let long_label = "a".repeat(64);
        let long_name = format!("{}com", "abcdefg.".repeat(32));
        for text in [
            "",
            ".",
            "example.com..",
            ".example.com",
            "a..b",
            "-a.com",
            "a-.com",
            "a b.com",
            "user@example.com",
            "example.com/",
            "example%2ecom",
            "a\0.com",
            "a\r\n.com",
            "*.example.com",
            &long_label,
            &long_name,
        ] {
            assert_eq!(HostName::parse(text), Err(NameError::Invalid), "{text:?}");
        }
        for text in ["bücher.example", "exаmple.com", "１２７.0.0.1", "a。com"] {
            assert_eq!(HostName::parse(text), Err(NameError::NotAscii), "{text:?}");
        }
    }

    /// I2: addresses in every spelling.
    #[test]
    fn addresses_are_no_names() {
        for text in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "2852039166",
            "0xA9FEA9FE",
            "0x",
            "0251.0376.0251.0376",
            "0xa9.254.0xa9.0xfe",
            "999.999.999.999",
            "example.1",
            "::1",
            "[::1]",
            "[::ffff:169.254.169.254]",
            "::ffff:a9fe:a9fe",
            "[fd00:ec2::254]",
            "fe80::1%lo",
        ] {
            assert_eq!(HostName::parse(text), Err(NameError::Address), "{text:?}");
        }
    }

    #[test]
    fn ports_are_split_off() {
        assert_eq!(split_port("a.b"), Some(("a.b", None)));
        assert_eq!(split_port("a.b:22"), Some(("a.b", Some(22))));
        assert_eq!(split_port("[::1]:22"), Some(("[::1]", Some(22))));
        assert_eq!(split_port("[::1]"), Some(("[::1]", None)));
        for text in ["a:", "a:0", "a:65536", "a:+80", "a: 80", "a:80a", "a:b@c"] {
            assert_eq!(split_port(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_denial_is_printable_and_short(host: String, port: u16) {
            let denial = denial(&host, port, DeniedReason::InvalidName);
            prop_assert!(denial.host.len() <= TOLD_BYTES);
            prop_assert!(denial.to_string().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }

        #[test]
        fn a_name_stays_itself(text in "(?i)[a-z0-9_.:-]{0,40}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert_eq!(HostName::parse(name.as_str()), Ok(name.clone()));
                prop_assert!(text.parse::<std::net::IpAddr>().is_err());
            }
        }
    }
}
