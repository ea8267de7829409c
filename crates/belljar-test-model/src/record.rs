//! Recorded requests.

use std::fmt;

use serde_json::Value;

/// Headers that hold keys.
const SECRET: [&str; 3] = ["authorization", "x-api-key", "api-key"];

/// A request, to the byte.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// As `POST`.
    pub method: String,
    /// As `/v1/messages`.
    pub path: String,
    /// Names in lower case, and values; those of keys are hidden.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    keys: Keys,
}

/// Header names and values that are not shown.
#[derive(Clone)]
struct Keys(Vec<(String, String)>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hidden", self.0.len())
    }
}

impl Recorded {
    pub(crate) fn new(method: &str, path: &str, headers: Vec<(String, String)>) -> Self {
        let is_key = |name: &str| SECRET.contains(&name);
        let keys = headers
            .iter()
            .filter(|(name, _)| is_key(name))
            .cloned()
            .collect();
        let shown = headers.into_iter().map(|(name, value)| {
            let value = if is_key(&name) {
                "[hidden]".to_owned()
            } else {
                value
            };
            (name, value)
        });
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: shown.collect(),
            body: Vec::new(),
            keys: Keys(keys),
        }
    }

    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a header, unless it is a key.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Whether a header, that of a key too, had this value.
    pub fn carried(&self, name: &str, value: &str) -> bool {
        find(&self.keys.0, name).or_else(|| self.header(name)) == Some(value)
    }

    /// The keys of the request, one below the other.
    pub(crate) fn echo(&self) -> String {
        let lines: Vec<String> = self
            .keys
            .0
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        lines.join("\n")
    }

    /// Whether the reply should be streamed.
    pub(crate) fn wants_stream(&self) -> bool {
        self.json()["stream"] == true
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}
