//! The allow-list: which hosts and ports a session may reach.

use super::name::{HostName, NameError, Target, split_port};

/// The ports of an entry that names none: HTTP and HTTPS.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// The hosts that a session may reach.
///
/// An entry is a host name, with a port or without (then 80 and 443). `*.` before a name means its
/// subdomains at any depth, but not the name itself. Addresses are never allowed, nor are names
/// that resolve to private addresses.
///
/// ```
/// use belljar_sandbox::AllowList;
///
/// let list = AllowList::parse(["pypi.org:443", "*.pythonhosted.org"])?;
/// # Ok::<(), belljar_sandbox::AllowListError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: HostName,
    /// The subdomains of the name instead of the name.
    subdomains: bool,
    /// The default ports if `None`.
    port: Option<u16>,
}

/// An invalid entry of an allow-list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllowListError {
    /// An address, in any spelling.
    #[error("`{0}` is an address, which sessions cannot use\nhint: list the host by name")]
    Address(String),
    /// A name in another script.
    #[error("`{0}` has letters outside ASCII\nhint: write the name in its `xn--…` form")]
    NotAscii(String),
    /// Everything, or everything below a top-level domain.
    #[error("`{0}` is too wide\nhint: list each host, or the subdomains of one (`*.example.com`)")]
    TooWide(String),
    /// A name without a dot.
    #[error("`{0}` is not a fully qualified name\nhint: add its domain (`host.example.com`)")]
    NotFull(String),
    /// A port that does not exist.
    #[error("the port of `{0}` is not a number from 1 to 65535")]
    Port(String),
    /// Nothing that could be a host name.
    #[error(
        "`{0}` is not a host name\nhint: write `example.com`, `example.com:8443` or `*.example.com`, without `https://` and path"
    )]
    Name(String),
}

impl AllowList {
    /// Reads a list of entries.
    pub fn parse<E: AsRef<str>>(
        entries: impl IntoIterator<Item = E>,
    ) -> Result<Self, AllowListError> {
        let entries: Result<_, _> = entries
            .into_iter()
            .map(|entry| parse_entry(entry.as_ref()))
            .collect();
        entries.map(|entries| Self { entries })
    }

    pub(super) fn allows(&self, target: &Target) -> bool {
        self.entries.iter().any(|entry| entry.covers(target))
    }
}

fn parse_entry(text: &str) -> Result<Entry, AllowListError> {
    let told = || text.to_owned();
    if text.contains('/') {
        return Err(AllowListError::Name(told()));
    }
    // An address of version 6 without brackets has colons too, and no port.
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Err(AllowListError::Address(told()));
    }
    let (host, port) = split_port(text).ok_or_else(|| AllowListError::Port(told()))?;
    let (subdomains, host) = match host.strip_prefix("*.") {
        Some(host) => (true, host),
        None => (false, host),
    };
    if host == "*" {
        return Err(AllowListError::TooWide(told()));
    }
    let name = HostName::parse(host).map_err(|error| match error {
        NameError::NotAscii => AllowListError::NotAscii(told()),
        NameError::Address => AllowListError::Address(told()),
        NameError::Invalid => AllowListError::Name(told()),
    })?;
    match (name.as_str().contains('.'), subdomains) {
        (true, _) => Ok(Entry {
            name,
            subdomains,
            port,
        }),
        (false, true) => Err(AllowListError::TooWide(told())),
        (false, false) => Err(AllowListError::NotFull(told())),
    }
}

impl Entry {
    fn covers(&self, target: &Target) -> bool {
        let (name, host) = (self.name.as_str(), target.host.as_str());
        let covers_host = if self.subdomains {
            host.strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('.'))
        } else {
            host == name
        };
        let covers_port = match self.port {
            Some(port) => target.port == port,
            None => USUAL_PORTS.contains(&target.port),
        };
        covers_host && covers_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allows(entry: &str, host: &str, port: u16) -> bool {
        let host = HostName::parse(host).unwrap();
        AllowList::parse([entry])
            .unwrap()
            .allows(&Target { host, port })
    }

    /// I5: case, trailing dot, apex and wildcard, ports.
    #[test]
    fn an_entry_covers_what_it_says() {
        assert!(allows("example.com", "example.com", 443));
        assert!(allows("example.com", "example.com", 80));
        assert!(allows("Example.COM.", "eXample.com.", 443));
        assert!(!allows("example.com", "example.com", 22));
        assert!(!allows("example.com", "www.example.com", 443));
        assert!(!allows("example.com", "badexample.com", 443));
        assert!(!allows("example.com", "example.com.evil.net", 443));
        assert!(!allows("example.com", "com", 443));

        assert!(allows("example.com:8443", "example.com", 8443));
        assert!(!allows("example.com:8443", "example.com", 443));

        assert!(allows("*.example.com", "a.example.com", 80));
        assert!(allows("*.example.com", "a.b.example.com", 443));
        assert!(!allows("*.example.com", "example.com", 443));
        assert!(!allows("*.example.com", "badexample.com", 443));
        assert!(allows("*.example.com:22", "a.example.com", 22));
        assert!(!allows("*.example.com:22", "a.example.com", 443));

        let host = HostName::parse("example.com").unwrap();
        assert!(!AllowList::default().allows(&Target { host, port: 443 }));
    }

    #[test]
    fn a_wrong_entry_says_what_to_do() {
        type Make = fn(String) -> AllowListError;
        let wrong: &[(&str, Make)] = &[
            ("*", AllowListError::TooWide),
            ("*:443", AllowListError::TooWide),
            ("*.", AllowListError::Name),
            ("*.*", AllowListError::TooWide),
            ("*.com", AllowListError::TooWide),
            ("a.*.com", AllowListError::Name),
            ("*example.com", AllowListError::Name),
            ("localhost", AllowListError::NotFull),
            ("", AllowListError::Name),
            ("https://example.com", AllowListError::Name),
            ("example.com/path", AllowListError::Name),
            ("10.0.0.0/8", AllowListError::Name),
            ("user@example.com", AllowListError::Name),
            ("example.com:0", AllowListError::Port),
            ("example.com:https", AllowListError::Port),
            ("example.com:65536", AllowListError::Port),
            ("93.184.215.14", AllowListError::Address),
            ("93.184.215.14:443", AllowListError::Address),
            ("2852039166", AllowListError::Address),
            ("::1", AllowListError::Address),
            ("fd00:ec2::fefe", AllowListError::Address),
            ("[::1]:443", AllowListError::Address),
            ("*.0.0.1", AllowListError::Address),
            ("bücher.example", AllowListError::NotAscii),
        ];
        for (entry, expected) in wrong {
            let error = AllowList::parse([entry]).unwrap_err();
            assert_eq!(error, expected((*entry).to_owned()));
        }
        // One wrong entry refuses the list.
        assert!(AllowList::parse(["example.com", "*"]).is_err());
        let error = AllowList::parse(["bücher.example"]).unwrap_err();
        assert!(error.to_string().contains("xn--"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}|[*a-z0-9.:/\\[\\]-]{0,40}") {
            if let Ok(list) = AllowList::parse([&text]) {
                prop_assert!(list.entries[0].name.as_str().contains('.'));
            }
        }

        #[test]
        fn a_wildcard_covers_only_subdomains(host in "([a-z]{1,3}\\.){0,3}(ab\\.cd|xab\\.cd|cd)") {
            let expected = host.ends_with(".ab.cd");
            prop_assert_eq!(allows("*.ab.cd", &host, 443), expected);
        }
    }
}
