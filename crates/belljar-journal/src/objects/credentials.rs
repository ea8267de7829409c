//! Credentials of an object store, from the environment or from a file.

use std::fmt;
use std::path::PathBuf;

use crate::Error;

const MAX_FILE: u64 = 1 << 20;

/// Credentials of an object store. They are shown nowhere.
#[derive(Clone)]
pub struct ObjectCredentials {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

impl fmt::Debug for ObjectCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ObjectCredentials(..)")
    }
}

impl ObjectCredentials {
    /// An access key id and its secret.
    pub fn new(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: secret.into(),
            token: None,
        }
    }

    /// Those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), else those of the
    /// profile `AWS_PROFILE` (default: `default`) in the file `AWS_SHARED_CREDENTIALS_FILE` (default: `~/.aws/credentials`).
    pub fn find() -> Result<Self, Error> {
        Self::find_in(|name| std::env::var(name).ok())
    }

    fn find_in(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let fault = |why: String| Error::ObjectCredentials(why);
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let found = match (given("AWS_ACCESS_KEY_ID"), given("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Self {
                id,
                secret,
                token: given("AWS_SESSION_TOKEN"),
            },
            (None, None) => {
                let home = || Some(PathBuf::from(given("HOME")?).join(".aws/credentials"));
                let named = given("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
                let Some(path) = named.or_else(home) else {
                    return Err(fault("none are in the environment".into()));
                };
                let profile = given("AWS_PROFILE").unwrap_or_else(|| "default".into());
                let unreadable = |why: &dyn fmt::Display| {
                    let path = path.display();
                    fault(format!("none are in the environment, and `{path}`: {why}"))
                };
                let size = std::fs::metadata(&path).map_err(|error| unreadable(&error))?;
                if size.len() > MAX_FILE {
                    return Err(unreadable(&"it is too large"));
                }
                let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&error))?;
                from_file(&text, &profile).ok_or_else(|| {
                    unreadable(&format!(
                        "it has no profile `{profile}` with a key and its secret"
                    ))
                })?
            }
            (Some(_), None) => {
                return Err(fault("`AWS_SECRET_ACCESS_KEY` is missing".into()));
            }
            (None, Some(_)) => return Err(fault("`AWS_ACCESS_KEY_ID` is missing".into())),
        };
        // They become parts of headers.
        let is_plain = |text: &String| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(&found.id) || !is_plain(&found.secret) || !found.token.iter().all(is_plain) {
            return Err(fault("they have spaces or characters beyond ASCII".into()));
        }
        Ok(found)
    }
}

/// The credentials of a profile, in the format of AWS's own programs.
fn from_file(text: &str, profile: &str) -> Option<ObjectCredentials> {
    let (mut id, mut secret, mut token) = (None, None, None);
    let mut is_wanted = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            is_wanted = name.trim() == profile;
        } else if is_wanted && let Some((name, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(ObjectCredentials {
        id: id?,
        secret: secret?,
        token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment
[default]
aws_access_key_id = one
aws_secret_access_key=first=secret
region = eu-west-1

[ other ]
aws_access_key_id = two
aws_secret_access_key = second
aws_session_token = token
[half]
aws_access_key_id = three
";

    fn find(variables: &[(&str, &str)]) -> Result<ObjectCredentials, Error> {
        ObjectCredentials::find_in(|name| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_comes_before_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        std::fs::write(&path, FILE).unwrap();
        let file = ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap());
        let found = find(&[
            file,
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
        ]);
        let found = found.unwrap();
        assert_eq!((found.id.as_str(), found.secret.as_str()), ("a", "b"));
        let found = find(&[file]).unwrap();
        assert_eq!(
            (found.id.as_str(), found.secret.as_str()),
            ("one", "first=secret")
        );
        let found = find(&[file, ("AWS_PROFILE", "other")]).unwrap();
        assert_eq!(found.token.as_deref(), Some("token"));
        assert_eq!(format!("{found:?}"), "ObjectCredentials(..)");
    }

    #[test]
    fn what_is_missing_is_said_without_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        std::fs::write(&path, FILE).unwrap();
        let file = ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap());
        for (variables, why) in [
            (&[][..], "none are in the environment"),
            (&[("HOME", "/nowhere")], "/nowhere/.aws/credentials"),
            (
                &[("AWS_ACCESS_KEY_ID", "hidden")],
                "`AWS_SECRET_ACCESS_KEY` is missing",
            ),
            (
                &[("AWS_SECRET_ACCESS_KEY", "hidden")],
                "`AWS_ACCESS_KEY_ID` is missing",
            ),
            (&[file, ("AWS_PROFILE", "half")], "no profile `half`"),
            (&[file, ("AWS_PROFILE", "none")], "no profile `none`"),
            (
                &[
                    ("AWS_ACCESS_KEY_ID", "hidden\nx: y"),
                    ("AWS_SECRET_ACCESS_KEY", "b"),
                ],
                "spaces",
            ),
        ] {
            let refused = find(variables).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
            assert!(
                !refused.contains("hidden") && !refused.contains("three"),
                "{refused}"
            );
        }
    }
}
