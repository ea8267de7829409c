//! Names of ports: `PORT-SESSION.DOMAIN`.

/// The longest label before the domain: a port, a session's id, and what separates them.
const LONGEST_LABEL: usize = 48;

/// The longest name that DNS has.
const LONGEST_NAME: usize = 253;

/// Digits of a node's id, and of the rest of a session's id.
const ID_DIGITS: [usize; 2] = [8, 32];

/// The domain below which ports have their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortsDomain(String);

/// A port of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    pub(crate) port: u16,
    pub(crate) session: String,
}

impl PortsDomain {
    /// `None` if it is not a domain name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let is_label = |label: &str| {
            let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| known(byte) || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let last = text.rsplit('.').next()?;
        let is_name = text.split('.').all(is_label)
            // Otherwise it is an address.
            && !last.bytes().all(|byte| byte.is_ascii_digit())
            && text.len() + 1 + LONGEST_LABEL <= LONGEST_NAME;
        is_name.then_some(Self(text))
    }

    /// Whether its names are those of this machine, which browsers take for secure without TLS.
    pub(crate) fn is_local(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }

    /// The port that a `Host` names, with whatever port of the service.
    pub(crate) fn find(&self, host: &str) -> Option<PortName> {
        let host = host.to_ascii_lowercase();
        let name = host.split_once(':').map_or(host.as_str(), |(name, _)| name);
        let label = name.strip_suffix(&self.0)?.strip_suffix('.')?;
        let (port, session) = label.split_once('-')?;
        let is_port = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let (node, rest) = session.split_once('-')?;
        let is_session = [node, rest]
            .iter()
            .zip(ID_DIGITS)
            .all(|(part, digits)| part.len() == digits && part.bytes().all(is_hex));
        (is_port && is_session).then_some(PortName {
            port: port.parse().ok()?,
            session: session.to_owned(),
        })
    }

    /// The host name of a port.
    pub(crate) fn host(&self, name: &PortName) -> String {
        format!("{}-{}.{}", name.port, name.session, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0a1b2c3d-00112233445566778899aabbccddeeff";

    #[test]
    fn names_of_ports_are_exact() {
        let domain = PortsDomain::parse("Ports.Example.org").unwrap();
        let name = PortName {
            port: 8000,
            session: SESSION.to_owned(),
        };
        let host = domain.host(&name);
        assert_eq!(host, format!("8000-{SESSION}.ports.example.org"));
        for host in [
            host.clone(),
            format!("{host}:7878"),
            host.to_ascii_uppercase(),
        ] {
            assert_eq!(domain.find(&host).as_ref(), Some(&name), "{host}");
        }
        for label in [
            String::new(),
            SESSION.to_owned(),
            format!("-{SESSION}"),
            format!("08000-{SESSION}"),
            format!("+8000-{SESSION}"),
            format!("65536-{SESSION}"),
            format!("8000.{SESSION}"),
            format!("8000-{SESSION}0"),
            format!("8000-{}", &SESSION[1..]),
            format!("8000-{}", SESSION.replace('a', "g")),
            format!("x.8000-{SESSION}"),
        ] {
            let host = format!("{label}.ports.example.org");
            assert_eq!(domain.find(&host), None, "{host}");
        }
        for host in [
            format!("8000-{SESSION}xports.example.org"),
            format!("8000-{SESSION}.ports.example.org.evil.org"),
            format!("8000-{SESSION}.example.org"),
            "ports.example.org".to_owned(),
        ] {
            assert_eq!(domain.find(&host), None, "{host}");
        }
    }

    #[test]
    fn a_domain_is_a_name() {
        for good in ["localhost", "ports.localhost", "a-1.example.org"] {
            let local = good.ends_with("localhost");
            let domain = PortsDomain::parse(good).unwrap();
            assert_eq!(domain.is_local(), local, "{good}");
        }
        let long = format!("{}org", "a234567890.".repeat(20));
        for bad in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "*.a",
            "a:1",
            "a/b",
            "-a",
            "127.0.0.1",
            "[::1]",
            "ö",
            &long,
        ] {
            assert_eq!(PortsDomain::parse(bad), None, "{bad}");
        }
    }
}
