//! Tokens: signed words that let their holder reach one port of one session.

use std::time::{Duration, SystemTime};

use ring::hmac;

use super::name::PortName;
use crate::node::{hex, key_of_cluster};

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// In a link, which sets the cookie. Links are kept in histories and logs.
    Link,
    /// In a header or in the cookie.
    Access,
}

impl Purpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Access => "access",
        }
    }

    /// How long a token is valid.
    pub(crate) fn lifetime(self) -> Duration {
        match self {
            Self::Link => Duration::from_mins(5),
            Self::Access => Duration::from_hours(12),
        }
    }
}

/// Signs tokens, with a secret of this process or of a cluster: none outlives it.
#[derive(Debug)]
pub(crate) struct Signer(hmac::Key);

impl Signer {
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        let random = ring::rand::SystemRandom::new();
        Ok(Self(hmac::Key::generate(hmac::HMAC_SHA256, &random)?))
    }

    /// That of all nodes with this secret.
    pub(crate) fn of_cluster(secret: &str) -> Self {
        Self(key_of_cluster(secret, "ports"))
    }

    /// A token of the key with this prefix, and when it ends.
    pub(crate) fn sign(&self, purpose: Purpose, name: &PortName, prefix: &str) -> (String, u64) {
        let ends = now() + purpose.lifetime().as_secs();
        let mac = hmac::sign(&self.0, message(purpose, name, prefix, ends).as_bytes());
        (format!("{ends}.{prefix}.{}", hex(mac.as_ref())), ends)
    }

    /// The prefix of the key that a token was signed for, if it is valid.
    pub(crate) fn check<'a>(
        &self,
        purpose: Purpose,
        name: &PortName,
        token: &'a str,
    ) -> Option<&'a str> {
        let (ends, rest) = token.split_once('.')?;
        let (prefix, mac) = rest.split_once('.')?;
        let ends: u64 = ends.parse().ok()?;
        let mac = unhex(mac)?;
        let message = message(purpose, name, prefix, ends);
        hmac::verify(&self.0, message.as_bytes(), &mac).ok()?;
        (now() < ends).then_some(prefix)
    }
}

fn message(purpose: Purpose, name: &PortName, prefix: &str, ends: u64) -> String {
    let (purpose, port, session) = (purpose.as_str(), name.port, &name.session);
    format!("{purpose}\n{port}\n{session}\n{prefix}\n{ends}")
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(port: u16, session: &str) -> PortName {
        PortName {
            port,
            session: session.to_owned(),
        }
    }

    #[test]
    fn a_token_is_for_one_port_purpose_and_process() {
        let signer = Signer::new().unwrap();
        let own = name(8000, "a");
        let (token, _) = signer.sign(Purpose::Access, &own, "k1");
        assert_eq!(signer.check(Purpose::Access, &own, &token), Some("k1"));
        assert_eq!(signer.check(Purpose::Link, &own, &token), None);
        assert_eq!(
            signer.check(Purpose::Access, &name(8001, "a"), &token),
            None
        );
        assert_eq!(
            signer.check(Purpose::Access, &name(8000, "b"), &token),
            None
        );
        let other = Signer::new().unwrap();
        assert_eq!(other.check(Purpose::Access, &own, &token), None);
        let [one, two, stranger] = ["x", "x", "y"].map(Signer::of_cluster);
        let (shared, _) = one.sign(Purpose::Access, &own, "k1");
        assert_eq!(two.check(Purpose::Access, &own, &shared), Some("k1"));
        assert_eq!(stranger.check(Purpose::Access, &own, &shared), None);
        let (ends, rest) = token.split_once('.').unwrap();
        let later = ends.parse::<u64>().unwrap() + 1;
        for forged in [
            String::new(),
            "..".to_owned(),
            format!("{later}.{rest}"),
            token.replace("k1", "k2"),
            format!("{token}0"),
            token[..token.len() - 1].to_owned(),
        ] {
            assert_eq!(
                signer.check(Purpose::Access, &own, &forged),
                None,
                "{forged}"
            );
        }
    }

    #[test]
    fn a_token_ends() {
        let signer = Signer::new().unwrap();
        let own = name(8000, "a");
        let ends = now();
        let mac = hmac::sign(
            &signer.0,
            message(Purpose::Link, &own, "k1", ends).as_bytes(),
        );
        let token = format!("{ends}.k1.{}", hex(mac.as_ref()));
        assert_eq!(signer.check(Purpose::Link, &own, &token), None);
    }
}
