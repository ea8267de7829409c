//! Tokens of sandboxes: who has one may use one session, until it ends or its key is revoked.
//!
//! A token is a function of the session's id and a secret of the service, so none is stored, and sessions that outlive
//! the service keep theirs. In a cluster the secret is that of all nodes, so each of them knows a token.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::hmac;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::node::{hex, key_of_cluster, make_private_file, random_hex};

/// What a signed address permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignedUse {
    Read,
    Write,
}

/// A signed address, without its signature.
#[derive(Debug)]
pub(crate) struct SignedFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) user: &'a str,
    pub(crate) usage: SignedUse,
    /// In seconds since 1970.
    pub(crate) expires: Option<u64>,
}

/// Makes and checks tokens.
#[derive(Debug)]
pub(crate) struct SandboxTokens(hmac::Key);

impl SandboxTokens {
    /// Those of the service with this data directory.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let path = data.join("sandbox-tokens");
        make_private_file(&path)?;
        let mut secret = String::new();
        std::fs::File::open(&path)?.read_to_string(&mut secret)?;
        if secret.is_empty() {
            secret = random_hex(32)?;
            let mut file = make_private_file(&path)?;
            file.write_all(secret.as_bytes())?;
            file.sync_all()?;
        }
        if secret.len() != 64 {
            let why = "the file `sandbox-tokens` is not a secret; delete it to make a new one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
    }

    /// Those of all nodes of the cluster with this secret.
    pub(crate) fn of_cluster(secret: &str) -> Self {
        Self(key_of_cluster(secret, "sandboxes"))
    }

    /// The token of this session.
    pub(crate) fn token(&self, session: &str) -> String {
        hex(hmac::sign(&self.0, session.as_bytes()).as_ref())
    }

    pub(crate) fn is_token(&self, session: &str, given: &str) -> bool {
        let token = self.token(session);
        token.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Whether the client that signed this had the token of this session.
    pub(crate) fn is_signature(&self, session: &str, signed: &SignedFile<'_>, given: &str) -> bool {
        let usage = match signed.usage {
            SignedUse::Read => "read",
            SignedUse::Write => "write",
        };
        let token = self.token(session);
        let expires = signed.expires.map(|expires| format!(":{expires}"));
        let expires = expires.unwrap_or_default();
        let text = format!("{}:{usage}:{}:{token}{expires}", signed.path, signed.user);
        let expected = format!("v1_{}", BASE64.encode(Sha256::digest(text)));
        expected.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_of_one_session_and_one_service() {
        let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let tokens = SandboxTokens::open(here.path()).unwrap();
        let token = tokens.token("a");
        assert!(tokens.is_token("a", &token) && !tokens.is_token("b", &token));
        assert!(!tokens.is_token("a", "") && !tokens.is_token("a", &token[1..]));
        // As after a restart.
        let again = SandboxTokens::open(here.path()).unwrap();
        assert!(again.is_token("a", &token));
        let other = SandboxTokens::open(there.path()).unwrap();
        assert!(!other.is_token("a", &token));
        let [one, two, stranger] = ["x", "x", "y"].map(SandboxTokens::of_cluster);
        assert!(two.is_token("a", &one.token("a")) && !stranger.is_token("a", &one.token("a")));
        std::fs::write(there.path().join("sandbox-tokens"), "short").unwrap();
        assert!(SandboxTokens::open(there.path()).is_err());
    }

    #[test]
    fn a_signature_holds_for_what_was_signed() {
        let data = tempfile::tempdir().unwrap();
        let tokens = SandboxTokens::open(data.path()).unwrap();
        let signed = |path: &'static str, usage, expires| SignedFile {
            path,
            user: "",
            usage,
            expires,
        };
        let text = format!("/tmp/x:read::{}:7", tokens.token("a"));
        let given = format!("v1_{}", BASE64.encode(Sha256::digest(text)));
        let holds =
            |session: &str, signed: &SignedFile<'_>| tokens.is_signature(session, signed, &given);
        assert!(holds("a", &signed("/tmp/x", SignedUse::Read, Some(7))));
        assert!(!holds("b", &signed("/tmp/x", SignedUse::Read, Some(7))));
        assert!(!holds("a", &signed("/tmp/y", SignedUse::Read, Some(7))));
        assert!(!holds("a", &signed("/tmp/x", SignedUse::Write, Some(7))));
        assert!(!holds("a", &signed("/tmp/x", SignedUse::Read, Some(8))));
        assert!(!holds("a", &signed("/tmp/x", SignedUse::Read, None)));
    }
}
