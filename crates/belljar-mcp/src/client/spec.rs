//! The settings of a server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use belljar_agent::{ApiKey, is_loopback};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::error::{MAX_NAME, SpecError, ValueError};
use super::secrets::Secrets;

/// Default timeout of a call, in seconds.
const TIMEOUT: u32 = 60;

/// A server: a command to start, or a URL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// The program and its arguments: a name in `PATH`, or a path that begins with `/` or `~/`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Environment variables of the program, in addition to `PATH`, `HOME`, `LANG` and `TMPDIR`.
    #[serde(default)]
    pub env: BTreeMap<String, Source>,
    /// The URL of the server, if it is not started.
    #[serde(default)]
    pub url: Option<String>,
    /// Headers of each request to it.
    #[serde(default)]
    pub headers: BTreeMap<String, Header>,
    /// Whether its hints are trusted: that a tool only reads, or that a repeated call has no
    /// further effect.
    #[serde(default)]
    pub trusted: bool,
    /// Which of its tools are granted; by default all.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Whether the model can call its tools by itself too.
    #[serde(default)]
    pub direct: bool,
    /// Timeout of a call, in seconds; by default 60.
    #[serde(default)]
    pub timeout: Option<u32>,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Source {
    /// `variable:NAME`: an environment variable of ours.
    Variable(String),
    /// `file:PATH`: a file that holds only the value.
    File(PathBuf),
    /// `text:…`: the text itself, which is no secret.
    Text(String),
}

/// The value of a header: `variable:NAME` or `file:PATH`, with `Bearer ` before it if the server
/// wants that.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Header {
    bearer: bool,
    source: Source,
}

impl TryFrom<String> for Source {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        match text.split_once(':') {
            Some(("variable", name)) if is_variable(name) => Ok(Self::Variable(name.into())),
            Some(("file", path)) => absolute(path).map(Self::File).ok_or(SpecError::Path),
            Some(("text", text)) => Ok(Self::Text(text.into())),
            // What was written is not repeated: it may be a key.
            _ => Err(SpecError::Source),
        }
    }
}

impl TryFrom<String> for Header {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        let (bearer, rest) = match text.strip_prefix("Bearer ") {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        match Source::try_from(rest.to_owned()) {
            Ok(source @ (Source::Variable(_) | Source::File(_))) => Ok(Self { bearer, source }),
            // What was written is not repeated: it may be a key.
            _ => Err(SpecError::HeaderSource),
        }
    }
}

/// How a server is reached.
pub(super) enum ServerTransport {
    Start {
        program: PathBuf,
        arguments: Vec<String>,
        environment: Vec<(String, OsString)>,
    },
    Address {
        url: Url,
        headers: HeaderMap,
    },
}

impl ServerSpec {
    /// Checks the name of a server.
    ///
    /// It has no `_` and nothing but ASCII: so the first `_` of `tools.server_tool` ends the server's
    /// name, and no two servers can have one name for two tools, nor names that look alike.
    pub fn check_name(name: &str) -> Result<(), SpecError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if begins && name.len() <= MAX_NAME && name.bytes().all(fits) {
            return Ok(());
        }
        Err(SpecError::Name)
    }

    /// Checks the settings; secrets are not read for that.
    pub fn check(&self, name: &str) -> Result<(), SpecError> {
        Self::check_name(name)?;
        match (&self.command[..], &self.url) {
            ([], None) | ([_, ..], Some(_)) => return Err(SpecError::CommandOrUrl),
            ([], Some(_)) if !self.env.is_empty() => return Err(SpecError::EnvOfUrl),
            ([], Some(url)) => {
                self.address(url)?;
            }
            ([program, ..], None) => {
                find_program(program)?;
                if !self.headers.is_empty() {
                    return Err(SpecError::HeadersOfCommand);
                }
            }
        }
        if let Some(name) = self.env.keys().find(|name| !is_variable(name)) {
            return Err(SpecError::Variable(name.clone()));
        }
        if self
            .timeout
            .is_some_and(|seconds| !(1..=86_400).contains(&seconds))
        {
            return Err(SpecError::Timeout);
        }
        Ok(())
    }

    /// How the server is reached, with the secrets that it takes.
    pub(super) fn transport(&self) -> Result<ServerTransport, SpecError> {
        if let Some(url) = &self.url {
            return Ok(ServerTransport::Address {
                url: self.address(url)?,
                headers: self.header_map()?,
            });
        }
        let (program, arguments) = self.command.split_first().ok_or(SpecError::NoCommand)?;
        // Nothing else of ours: there may be keys among it.
        let mut environment: Vec<(String, OsString)> = ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)))
            .collect();
        for (name, source) in &self.env {
            let value = source.read().map_err(|error| SpecError::Value {
                field: format!("env.{name}"),
                error,
            })?;
            environment.push((name.clone(), value));
        }
        Ok(ServerTransport::Start {
            program: find_program(program)?,
            arguments: arguments.to_vec(),
            environment,
        })
    }

    /// Its secrets.
    pub(super) fn secrets(&self) -> Secrets {
        let env = self.env.values();
        let given = env.chain(self.headers.values().map(|header| &header.source));
        let secret = given.filter(|source| !matches!(source, Source::Text(_)));
        let read = secret.filter_map(|source| source.read().ok()?.into_string().ok());
        Secrets::new(read.map(|text| text.trim().to_owned()))
    }

    /// The timeout of a call.
    pub(super) fn call_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(TIMEOUT).into())
    }

    fn address(&self, text: &str) -> Result<Url, SpecError> {
        let url = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .filter(|url| url.username().is_empty() && url.password().is_none())
            .ok_or(SpecError::Url)?;
        if !self.headers.is_empty() && url.scheme() == "http" && !is_loopback(&url) {
            let host = url.host_str().unwrap_or_default();
            return Err(SpecError::Unencrypted(host.to_owned()));
        }
        for name in self.headers.keys() {
            header_name(name)?;
        }
        Ok(url)
    }

    fn header_map(&self) -> Result<HeaderMap, SpecError> {
        let mut map = HeaderMap::new();
        for (name, header) in &self.headers {
            let key = header.read().map_err(|error| SpecError::Value {
                field: format!("headers.{name}"),
                error,
            })?;
            let text = if header.bearer {
                format!("Bearer {}", key.expose())
            } else {
                key.expose().to_owned()
            };
            let value = HeaderValue::from_str(&text);
            let mut value = value.map_err(|_| SpecError::HeaderValue(name.clone()))?;
            value.set_sensitive(true);
            map.insert(header_name(name)?, value);
        }
        Ok(map)
    }
}

impl Source {
    fn read(&self) -> Result<OsString, ValueError> {
        match self {
            Self::Variable(name) => std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .ok_or_else(|| ValueError::NotSet(name.clone())),
            Self::File(path) => std::fs::read_to_string(path)
                .map(|text| text.trim().into())
                .map_err(|error| ValueError::File {
                    path: path.clone(),
                    error,
                }),
            Self::Text(text) => Ok(text.into()),
        }
    }
}

impl Header {
    fn read(&self) -> Result<ApiKey, ValueError> {
        match &self.source {
            Source::Variable(name) => ApiKey::from_variable(name)
                .map_err(ValueError::Key)?
                .ok_or_else(|| ValueError::NotSet(name.clone())),
            Source::File(path) => ApiKey::from_file(path).map_err(ValueError::Key),
            Source::Text(_) => Err(ValueError::KeyInSettings),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let fits = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(fits)
}

/// Headers that the protocol itself sets can't be set by the user.
fn header_name(name: &str) -> Result<HeaderName, SpecError> {
    let own = [
        "accept",
        "content-type",
        "content-length",
        "host",
        "last-event-id",
    ];
    HeaderName::try_from(name)
        .ok()
        .filter(|name| !own.contains(&name.as_str()) && !name.as_str().starts_with("mcp-"))
        .ok_or_else(|| SpecError::Header(name.to_owned()))
}

fn find_program(program: &str) -> Result<PathBuf, SpecError> {
    let found = if program.contains('/') {
        // A path from where we stand would be a file of the project that we stand in.
        absolute(program)
    } else {
        Some(PathBuf::from(program)).filter(|_| !program.is_empty())
    };
    found.ok_or(SpecError::Program)
}

/// A path that is the same wherever we were started.
fn absolute(path: &str) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(std::env::home_dir()?.join(rest)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(name: &str, spec: Value) -> String {
        match serde_json::from_value::<ServerSpec>(spec) {
            Ok(spec) => spec.check(name).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let command = json!({"command": ["server"]});
        for name in ["", "My", "a_b", "a-b", "1a", "fiłes", &"a".repeat(25)] {
            assert!(fault(name, command.clone()).contains("name"), "{name}");
        }
        for (spec, part) in [
            (json!({}), "either a `command` or a `url`"),
            (
                json!({"command": ["a"], "url": "https://b/"}),
                "either a `command`",
            ),
            (json!({"command": ["./server"]}), "begins with `/` or `~/`"),
            (json!({"command": [""]}), "begins with `/` or `~/`"),
            (
                json!({"command": ["a"], "env": {"A B": "text:x"}}),
                "not a valid name of an environment",
            ),
            (
                json!({"command": ["a"], "env": {"A": "sk-secret"}}),
                "write \"variable:NAME\"",
            ),
            (
                json!({"command": ["a"], "headers": {"x": "variable:K"}}),
                "`headers` are for",
            ),
            (json!({"command": ["a"], "timeout": 0}), "`timeout`"),
            (
                json!({"url": "https://b/", "env": {"A": "text:x"}}),
                "`env` is for",
            ),
            (json!({"url": "ftp://b/"}), "`url` must look like"),
            (
                json!({"url": "https://me:sk-secret@b/"}),
                "`url` must look like",
            ),
            (
                json!({"url": "http://b/", "headers": {"x": "variable:K"}}),
                "unencrypted to `b`",
            ),
            (
                json!({"url": "https://b/", "headers": {"x": "text:sk-secret"}}),
                "a key itself",
            ),
            (
                json!({"url": "https://b/", "headers": {"x": "Bearer sk-secret"}}),
                "a key itself",
            ),
            (
                json!({"url": "https://b/", "headers": {"Mcp-Name": "variable:K"}}),
                "this header cannot be set",
            ),
            (json!({"command": ["a"], "cwd": "/"}), "unknown field"),
        ] {
            let why = fault("files", spec.clone());
            assert!(why.contains(part), "{spec}: {why}");
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn secrets_come_from_where_they_are_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "sk-of-file\n").unwrap();
        let source = format!("file:{}", file.path().display());
        let spec = json!({
            "url": "https://host/mcp",
            "headers": {"Authorization": format!("Bearer {source}"), "X-Key": source.clone()},
        });
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        spec.check("host").unwrap();
        let Ok(ServerTransport::Address { headers, .. }) = spec.transport() else {
            panic!("no address");
        };
        assert_eq!(headers["authorization"], "Bearer sk-of-file");
        assert_eq!(headers["x-key"], "sk-of-file");
        assert!(!format!("{headers:?} {spec:?}").contains("sk-of-file"));

        let spec = json!({"command": ["server"], "env": {"A": source, "B": "text:fast", "C": "variable:NOT_SET_ANYWHERE"}});
        let mut spec: ServerSpec = serde_json::from_value(spec).unwrap();
        spec.check("host").unwrap();
        let why = spec.transport().err().unwrap();
        assert!(matches!(
            &why,
            SpecError::Value {
                error: ValueError::NotSet(_),
                ..
            }
        ));
        assert_eq!(
            why.to_string(),
            "`env.C`: the variable `NOT_SET_ANYWHERE` is not set"
        );
        spec.env.remove("C");
        let Ok(ServerTransport::Start { environment, .. }) = spec.transport() else {
            panic!("no command");
        };
        let names: Vec<&str> = environment.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.ends_with(&["A", "B"]), "{names:?}");
        assert!(
            names
                .iter()
                .all(|name| ["PATH", "HOME", "LANG", "TMPDIR", "A", "B"].contains(name))
        );
        assert_eq!(environment[names.len() - 2].1, "sk-of-file");
    }
}
