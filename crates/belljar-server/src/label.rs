//! What a client knows a session by, and when the session ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::{Code, Problem};

/// Maximum characters of a name, entries of metadata, and characters of a key and of a value.
const MAX_NAME: usize = 100;
pub(crate) const MAX_ENTRIES: usize = 16;
pub(crate) const MAX_KEY: usize = 64;
pub(crate) const MAX_VALUE: usize = 256;
/// Maximum characters of the path of a notebook.
const MAX_PATH: usize = 1024;

/// Name, metadata and end of a session. A name is a label: several sessions may have the same.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) name: Option<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    /// The end of its lease.
    pub(crate) expires: Option<SystemTime>,
    #[serde(default)]
    pub(crate) then: LeaseEnd,
    /// What it is to a client of the wire of E2B's SDKs, if one of them made it.
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxLabel>,
    /// What it is to a client of OpenAI's API, if one of them made it.
    #[serde(default)]
    pub(crate) container: Option<ContainerLabel>,
    /// What it is to a client of Jupyter's wire, if one of them made it.
    #[serde(default)]
    pub(crate) kernel: Option<KernelLabel>,
}

/// A session as a container of OpenAI's API.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ContainerLabel {
    /// Minutes of the lease that each use gives it.
    pub(crate) minutes: u64,
    /// As the client gave it.
    pub(crate) memory_limit: Option<String>,
    /// Runs that began with its files, and whose files it has not got yet.
    pub(crate) runs: Vec<String>,
    /// Paths of files that runs have made.
    pub(crate) made: BTreeSet<String>,
}

/// A session as a kernel of Jupyter's wire.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KernelLabel {
    /// The notebook or console that uses it, if the client named one.
    pub(crate) notebook: Option<NotebookLabel>,
}

/// What Jupyter calls a session: a notebook with a kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NotebookLabel {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) name: String,
    /// `notebook`, `console` or another word of the client.
    pub(crate) kind: String,
}

/// A session as a sandbox of the wire of E2B's SDKs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SandboxLabel {
    /// Prefix of the key that made it, or connected to it last. Its token is worth nothing without that key.
    pub(crate) key: String,
    /// Name of the template, as the client gave it.
    pub(crate) template: String,
    /// Seconds of the lease that a use gives it while it is paused; none if a use does not wake it.
    pub(crate) auto_resume: Option<u64>,
}

/// What a session does at the end of its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaseEnd {
    /// It ends.
    #[default]
    End,
    /// It hibernates, and has no lease until it gets another. Its next use wakes it.
    Sleep,
}

/// Requested changes of a label; what is omitted stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelChange {
    pub(crate) name: Option<String>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    pub(crate) ttl_seconds: Option<u64>,
    /// What comes after them.
    pub(crate) then: LeaseEnd,
    pub(crate) sandbox: Option<SandboxLabel>,
    pub(crate) container: Option<ContainerLabel>,
    pub(crate) kernel: Option<KernelLabel>,
}

impl LabelChange {
    /// The same, if its lease is not longer than this.
    pub(crate) fn within(self, longest: Duration) -> Result<Self, Problem> {
        let longest = longest.as_secs();
        if self.ttl_seconds.is_some_and(|seconds| seconds > longest) {
            let detail = format!("the lease of a session can have at most {longest} seconds");
            return Err(Problem::new(Code::LimitTooHigh, detail));
        }
        Ok(self)
    }
}

/// Which sessions of a list a client wants.
#[derive(Debug, Default)]
pub(crate) struct LabelFilter {
    name: Option<String>,
    entry: Option<(String, String)>,
}

impl Label {
    /// The label with these changes, or nothing is changed.
    pub(crate) fn change(&self, asked: LabelChange, now: SystemTime) -> Result<Self, Problem> {
        let bad = |detail: String| Err(Problem::new(Code::BadBody, detail));
        let mut label = self.clone();
        if let Some(name) = asked.name {
            if !is_text(&name, MAX_NAME) {
                return bad(format!(
                    "`name` must have at most {MAX_NAME} characters, and no control characters"
                ));
            }
            label.name = (!name.is_empty()).then_some(name);
        }
        if let Some(metadata) = asked.metadata {
            if metadata.len() > MAX_ENTRIES {
                return bad(format!(
                    "`metadata` must have at most {MAX_ENTRIES} entries"
                ));
            }
            let is_key = |key: &str| !key.is_empty() && !key.contains('=') && is_text(key, MAX_KEY);
            let mut entries = metadata.iter();
            if !entries.all(|(key, value)| is_key(key) && is_text(value, MAX_VALUE)) {
                return bad(format!(
                    "`metadata` must have keys of 1 to {MAX_KEY} characters without `=`, values of at most \
                     {MAX_VALUE}, and no control characters"
                ));
            }
            label.metadata = metadata;
        }
        if let Some(notebook) = asked.kernel.as_ref().and_then(|it| it.notebook.as_ref())
            && ![&notebook.path, &notebook.name, &notebook.kind]
                .iter()
                .all(|text| is_text(text, MAX_PATH))
        {
            return bad(format!(
                "`path`, `name` and `type` must have at most {MAX_PATH} characters, and no control characters"
            ));
        }
        label.sandbox = asked.sandbox.or(label.sandbox);
        label.container = asked.container.or(label.container);
        label.kernel = asked.kernel.or(label.kernel);
        match asked.ttl_seconds {
            None => {}
            Some(0) => label.expires = None,
            Some(seconds) => {
                label.expires = now.checked_add(Duration::from_secs(seconds));
                label.then = asked.then;
            }
        }
        Ok(label)
    }

    /// What the session is to do, if its lease is over.
    pub(crate) fn due(&self, now: SystemTime) -> Option<LeaseEnd> {
        self.expires.filter(|end| *end <= now).map(|_| self.then)
    }
}

impl LabelFilter {
    /// Sessions of this name, and with this `KEY=VALUE` in their metadata.
    pub(crate) fn new(name: Option<String>, entry: Option<&str>) -> Result<Self, Problem> {
        let entry = match entry.map(|entry| entry.split_once('=')) {
            None => None,
            Some(Some((key, value))) => Some((key.to_owned(), value.to_owned())),
            Some(None) => {
                let detail = "`metadata` must be `KEY=VALUE`";
                return Err(Problem::new(Code::BadQuery, detail));
            }
        };
        Ok(Self { name, entry })
    }

    pub(crate) fn matches(&self, label: &Label) -> bool {
        let has = |(key, value): &(String, String)| label.metadata.get(key) == Some(value);
        (self.name.is_none() || self.name == label.name) && self.entry.as_ref().is_none_or(has)
    }
}

pub(crate) fn is_text(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(own).collect()
    }

    #[test]
    fn a_change_keeps_what_it_leaves_out() {
        let now = SystemTime::UNIX_EPOCH;
        let label = Label::default().change(
            LabelChange {
                name: Some("report".into()),
                metadata: Some(metadata(&[("team", "7")])),
                ttl_seconds: Some(60),
                ..LabelChange::default()
            },
            now,
        );
        let label = label.unwrap();
        let same = label.change(LabelChange::default(), now).unwrap();
        assert_eq!(same.name.as_deref(), Some("report"));
        assert_eq!(same.metadata["team"], "7");
        assert!(same.due(now + Duration::from_secs(59)).is_none());
        assert_eq!(same.due(now + Duration::from_mins(1)), Some(LeaseEnd::End));
        let none = LabelChange {
            name: Some(String::new()),
            metadata: Some(metadata(&[])),
            ttl_seconds: Some(0),
            ..LabelChange::default()
        };
        let none = same.change(none, now).unwrap();
        assert!(none.name.is_none() && none.metadata.is_empty() && none.expires.is_none());
    }

    #[test]
    fn a_label_is_bounded() {
        let refused = |name: Option<String>, metadata, ttl_seconds| {
            let change = LabelChange {
                name,
                metadata,
                ttl_seconds,
                ..LabelChange::default()
            };
            let change = change.within(Duration::from_hours(1));
            let changed =
                change.and_then(|change| Label::default().change(change, SystemTime::UNIX_EPOCH));
            changed.unwrap_err().code
        };
        assert_eq!(refused(Some("x".repeat(101)), None, None), Code::BadBody);
        assert_eq!(refused(Some("a\nb".into()), None, None), Code::BadBody);
        for entries in [
            [("", "v")],
            [("a=b", "v")],
            [("a\0", "v")],
            [("a", "\x1b[2J")],
        ] {
            assert_eq!(refused(None, Some(metadata(&entries)), None), Code::BadBody);
        }
        let many = (0..17).map(|number| (number.to_string(), String::new()));
        assert_eq!(refused(None, Some(many.collect()), None), Code::BadBody);
        let long = Some([("k".to_owned(), "v".repeat(257))].into());
        assert_eq!(refused(None, long, None), Code::BadBody);
        assert_eq!(refused(None, None, Some(3601)), Code::LimitTooHigh);
    }

    #[test]
    fn a_filter_needs_all_that_it_names() {
        let label = Label {
            name: Some("report".into()),
            metadata: metadata(&[("team", "a=b")]),
            ..Label::default()
        };
        let matches = |name: Option<&str>, entry: Option<&str>| {
            let filter = LabelFilter::new(name.map(str::to_owned), entry).unwrap();
            filter.matches(&label)
        };
        assert!(matches(None, None) && matches(Some("report"), Some("team=a=b")));
        assert!(!matches(Some("other"), None) && !matches(Some("report"), Some("team=a")));
        assert!(LabelFilter::new(None, Some("team")).is_err());
    }
}
