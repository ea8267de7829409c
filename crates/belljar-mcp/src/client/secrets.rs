//! Secrets that were given to a server and must not come back from it: they would get into logs,
//! into the journal, and to a model.

use std::fmt;
use std::sync::Arc;

/// Shorter ones are part of too many harmless words.
const MIN: usize = 6;

const INSTEAD: &[u8] = b"[key]";

/// Secrets, as bytes that are looked for: as they are, and as JSON writes them.
#[derive(Clone, Default)]
pub(super) struct Secrets(Arc<[Vec<u8>]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    pub(super) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut looked_for: Vec<Vec<u8>> = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= MIN) {
            let json = serde_json::to_string(&secret).unwrap_or_default();
            looked_for.push(json.trim_matches('"').into());
            looked_for.push(secret.into_bytes());
        }
        // One may be a part of another.
        looked_for.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        looked_for.dedup();
        Self(looked_for.into())
    }

    /// The same bytes without secrets.
    pub(super) fn scrub(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for secret in &*self.0 {
            let finder = memchr::memmem::Finder::new(secret);
            if finder.find(&bytes).is_none() {
                continue;
            }
            let mut clean = Vec::with_capacity(bytes.len());
            let mut from = 0;
            for at in finder.find_iter(&bytes) {
                clean.extend_from_slice(&bytes[from..at]);
                clean.extend_from_slice(INSTEAD);
                from = at + secret.len();
            }
            clean.extend_from_slice(&bytes[from..]);
            bytes = clean;
        }
        bytes
    }

    /// The same text without secrets.
    pub(super) fn scrub_text(&self, text: String) -> String {
        let clean = self.scrub(text.into_bytes());
        String::from_utf8(clean)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_come_back() {
        let given = ["a\"b\\c-secret", "secret", "tiny"].map(str::to_owned);
        let secrets = Secrets::new(given);
        let said = r#"{"x": "a\"b\\c-secret", "y": "my secrets", "z": "tiny"} a"b\c-secret"#;
        let clean = r#"{"x": "[key]", "y": "my [key]s", "z": "tiny"} [key]"#;
        assert_eq!(secrets.scrub_text(said.into()), clean);
        assert_eq!(format!("{secrets:?}"), "Secrets");
    }
}
