//! Keys of model servers.

use std::fmt;
use std::path::Path;

/// A key. It is never shown: neither by `Debug`, nor in an error's text.
#[derive(Clone)]
pub struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

impl ApiKey {
    /// A key from its text, without the white space around it. None if it is empty or has
    /// characters that a header can't carry.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The key that a file holds and nothing else. An error says why not, without what is in it.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("the key file `{}`: {error}", path.display()))?;
        Self::new(&text).ok_or_else(|| {
            format!(
                "the key file `{}` holds no key: one line of letters and digits is expected",
                path.display()
            )
        })
    }

    /// The key that an environment variable holds; none if it is unset or empty.
    pub fn from_variable(name: &str) -> Result<Option<Self>, String> {
        match std::env::var_os(name) {
            Some(text) if !text.is_empty() => text
                .to_str()
                .and_then(Self::new)
                .map(Some)
                .ok_or_else(|| format!("the variable `{name}` holds no key: it has spaces or other characters that no key has")),
            _ => Ok(None),
        }
    }

    /// The key itself, for a header.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text of someone else's without the key.
    pub(super) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, "[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey::new(" sk-secret\n").unwrap();
        assert_eq!(key.expose(), "sk-secret");
        assert_eq!(
            format!("{key:?} {:#?}", Some(&key)),
            "ApiKey Some(\n    ApiKey,\n)"
        );
        assert_eq!(key.scrub("no: Bearer sk-secret!"), "no: Bearer [key]!");
    }

    #[test]
    fn what_no_header_can_carry_is_no_key() {
        for text in ["", " \n", "a b", "a\nb", "schlüssel"] {
            assert!(ApiKey::new(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_key_file_is_read_and_its_faults_are_told_without_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "sk-of-file\n").unwrap();
        assert_eq!(ApiKey::from_file(&path).unwrap().expose(), "sk-of-file");
        std::fs::write(&path, "sk-of file\n").unwrap();
        let why = ApiKey::from_file(&path).unwrap_err();
        assert!(
            why.contains("holds no key") && !why.contains("sk-of"),
            "{why}"
        );
        let why = ApiKey::from_file(&directory.path().join("none")).unwrap_err();
        assert!(why.contains("No such file"), "{why}");
    }
}
