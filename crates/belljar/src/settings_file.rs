//! The settings file: its path and its contents.
//!
//! There is one file, of the user. A file in the directory of a project is not read: whoever wrote it
//! could send the user's keys elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use belljar_agent::{ModelName, Profile};
use belljar_mcp::ServerSpec;
use belljar_sandbox::protocol::Language;
use etcetera::BaseStrategy as _;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::settings_list::{CAPABILITIES, Kind, SETTINGS};

/// What a settings file says.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    /// Where it is, or would be.
    pub(crate) path: PathBuf,
    /// The language of messages about it.
    pub(crate) language: Language,
    /// Each value by its full name, with its line.
    values: BTreeMap<String, (Value, usize)>,
}

/// Where the file is: `$BELLJAR_CONFIG`, or `belljar/config.toml` in the user's configuration
/// directory.
pub(crate) fn path() -> anyhow::Result<PathBuf> {
    if let Some(path) = named() {
        return Ok(path);
    }
    let strategy = etcetera::choose_base_strategy().context("finding the home directory")?;
    Ok(strategy.config_dir().join("belljar/config.toml"))
}

fn named() -> Option<PathBuf> {
    let path = std::env::var_os("BELLJAR_CONFIG").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

impl SettingsFile {
    /// The user's file. None is as good as an empty one, unless it was asked for by name.
    pub(crate) fn load(language: Language) -> anyhow::Result<Self> {
        let path = path()?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, &text, language),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named().is_none() => {
                Ok(Self {
                    path,
                    language,
                    ..Self::default()
                })
            }
            Err(error) => bail!(
                "{}: {error}\n{}",
                path.display(),
                language.texts().settings.named_file,
            ),
        }
    }

    pub(crate) fn parse(path: PathBuf, text: &str, language: Language) -> anyhow::Result<Self> {
        let mut reading = Reading {
            text,
            language,
            values: BTreeMap::new(),
            fault: None,
        };
        match DeTable::parse(text) {
            Ok(table) => reading.table(table.get_ref(), &[], ""),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                reading.fault = Some((at, error.message().to_owned()));
            }
        }
        if let Some((at, what)) = reading.fault {
            bail!("{}:{}: {what}", path.display(), line_of(text, at));
        }
        let values = reading.values;
        Ok(Self {
            path,
            language,
            values,
        })
    }

    /// A value by its full name, and its line.
    pub(crate) fn get(&self, name: &str) -> Option<&(Value, usize)> {
        self.values.get(name)
    }

    /// All values whose names begin so.
    pub(crate) fn under(&self, start: &str) -> impl Iterator<Item = (&str, &(Value, usize))> {
        let values = self.values.iter();
        values.filter_map(move |(name, value)| Some((name.strip_prefix(start)?, value)))
    }

    /// The servers of `[mcp.NAME]`.
    pub(crate) fn servers(&self) -> anyhow::Result<BTreeMap<String, ServerSpec>> {
        let mut tables: BTreeMap<&str, (serde_json::Map<_, _>, usize)> = BTreeMap::new();
        for (name, (value, line)) in self.under("mcp.") {
            if let Some((server, part)) = name.split_once('.') {
                let (table, _) = tables
                    .entry(server)
                    .or_insert((serde_json::Map::new(), *line));
                table.insert(part.to_owned(), value.clone());
            }
        }
        let mut servers = BTreeMap::new();
        for (name, (table, line)) in tables {
            let spec = serde_json::from_value(Value::Object(table));
            let spec = spec.map_err(|error| error.to_string());
            let check = |spec: ServerSpec| match spec.check(name) {
                Ok(()) => Ok(spec),
                Err(error) => Err(error.to_string()),
            };
            let spec = spec.and_then(check);
            let spec = spec.map_err(|why| {
                anyhow::anyhow!("{}:{line}: [mcp.{name}]: {why}", self.path.display())
            })?;
            servers.insert(name.to_owned(), spec);
        }
        Ok(servers)
    }
}

/// A file that is being read. Of several faults, the first is reported.
struct Reading<'a> {
    text: &'a str,
    language: Language,
    values: BTreeMap<String, (Value, usize)>,
    fault: Option<(usize, String)>,
}

impl Reading<'_> {
    fn fault(&mut self, at: usize, what: String) {
        if self.fault.as_ref().is_none_or(|(first, _)| at < *first) {
            self.fault = Some((at, what));
        }
    }

    /// Reads a table whose settings begin with these parts.
    fn table(&mut self, table: &DeTable<'_>, parts: &[&str], name: &str) {
        let mut allowed: Vec<&str> = Vec::new();
        for setting in SETTINGS {
            let mut rest = setting.name.split('.');
            if parts.iter().all(|part| rest.next() == Some(part))
                && let Some(next) = rest.next()
                && !allowed.contains(&next)
            {
                allowed.push(next);
            }
        }
        for (key, value) in table {
            let (at, key) = (key.span().start, key.get_ref().as_ref());
            let full = format!("{name}{key}");
            let part = match (&allowed[..], allowed.iter().find(|part| **part == key)) {
                (["*"], _) => self.own_name(parts, key).map(|()| "*"),
                (_, Some(part)) => Ok(*part),
                (_, None) => Err(self.unknown(&full, key, &allowed)),
            };
            let part = match part {
                Ok(part) => part,
                Err(what) => {
                    self.fault(at, what);
                    continue;
                }
            };
            let parts = [parts, &[part]].concat();
            let pattern = parts.join(".");
            let setting = SETTINGS.iter().find(|setting| setting.name == pattern);
            match (setting, value.get_ref()) {
                (Some(setting), value) => {
                    if let Some(value) = setting.kind.read(value) {
                        let line = line_of(self.text, at);
                        self.values.insert(full, (value, line));
                    } else {
                        let what = self.wrong(&full, setting.kind);
                        self.fault(at, what);
                    }
                }
                (None, DeValue::Table(inner)) => self.table(inner, &parts, &format!("{full}.")),
                (None, _) => {
                    let what = self.language.texts().settings.is_table(&full);
                    self.fault(at, what);
                }
            }
        }
    }

    /// Whether a name that the user gives can be one.
    fn own_name(&self, parts: &[&str], key: &str) -> Result<(), String> {
        match parts {
            ["approvals", "tools"] => return Ok(()),
            ["approvals", _] if CAPABILITIES.contains(&key) => return Ok(()),
            ["approvals", _] => return Err(self.unknown(key, key, CAPABILITIES)),
            _ => {}
        }
        if parts == ["prices"] {
            let name = ModelName::parse(key).map_err(|error| error.to_string())?;
            return self.own_name(&["providers"], &name.provider);
        }
        if parts == ["mcp"] {
            return ServerSpec::check_name(key).map_err(|error| error.to_string());
        }
        if Profile::BUILT_IN.contains(&key) {
            Ok(())
        } else {
            Err(no_provider(key, self.language))
        }
    }

    fn unknown(&self, full: &str, key: &str, allowed: &[&str]) -> String {
        let list = allowed.join(", ");
        let near = nearest(key, allowed, self.language);
        let texts = &self.language.texts().settings;
        texts.no_such_setting(full, &near, &list)
    }

    fn wrong(&self, full: &str, kind: Kind) -> String {
        let expected = kind.expected(self.language);
        let texts = &self.language.texts().settings;
        texts.wrong_value(full, &expected)
    }
}

/// That there is no such provider, and which there are.
pub(crate) fn no_provider(name: &str, language: Language) -> String {
    let near = nearest(name, &Profile::BUILT_IN, language);
    let list = Profile::BUILT_IN.join(", ");
    let texts = &language.texts().settings;
    texts.no_such_provider(name, &near, &list)
}

fn nearest(key: &str, names: &[&str], language: Language) -> String {
    let near = names
        .iter()
        .map(|name| (strsim::jaro_winkler(key, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.8);
    match near {
        Some((_, name)) => language.texts().settings.nearest(name),
        None => String::new(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..text.floor_char_boundary(at)].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings_list::template;

    fn fault(text: &str) -> String {
        SettingsFile::parse("c.toml".into(), text, Language::English)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn faults_are_told_with_line_and_what_is_allowed() {
        let told = fault("model = 'a/b'\n\n[budget]\nstepz = 3\n");
        assert_eq!(
            told,
            "c.toml:4: no such setting: `budget.stepz`\nhint: did you mean `steps`? \
             allowed here: steps, tokens, money, seconds, calls, cell_calls"
        );
        for (text, part) in [
            (
                "modle = 'a/b'",
                "c.toml:1: no such setting: `modle`\nhint: did you mean `model`?",
            ),
            ("model = 'gpt'", "`model` must be a model in quotes"),
            ("review = 1", "`review` must be true or false"),
            (
                "language = 'fr'",
                "`language` must be one of \"en\", \"zh\"",
            ),
            ("budget = 3", "`budget` is a table\nhint: write `[budget]`"),
            (
                "[budget]\nsteps = 0",
                "`budget.steps` must be a whole number from 1",
            ),
            ("[budget]\nsteps = '9'", "c.toml:2: `budget.steps` must be"),
            ("[budget]\nmoney = -1", "a number of 0 or more"),
            ("[budget]\nmoney = nan", "a number of 0 or more"),
            (
                "data_dir = 'here'",
                "a path in quotes that begins with / or ~/",
            ),
            (
                "[providers.openia]\nbase_url = 'x'",
                "did you mean `openai`?",
            ),
            (
                "[prices.\"gpt-5\"]\ninput = 1",
                "is not the name of a model",
            ),
            (
                "[providers.openai]\nkey = 'sk-secret'",
                "no such setting: `providers.openai.key`",
            ),
            ("model = ", "c.toml:1: "),
            ("model = 'a/b'\nmodel = 'a/c'", "c.toml:2: "),
            // Of two, the first in the file.
            ("zzz = 1\naaa = 2", "`zzz`"),
        ] {
            let told = fault(text);
            assert!(told.contains(part), "{text}: {told}");
        }
        assert!(!fault("[providers.openai]\nkey = 'sk-secret'").contains("secret"));
    }

    #[test]
    fn servers_are_read_and_their_faults_told_with_a_line() {
        let servers = |text: &str| {
            let file = SettingsFile::parse("c.toml".into(), text, Language::English);
            file.and_then(|file| file.servers())
        };
        let read = servers(
            "[mcp.files]\ncommand = ['server', '/data']\nenv = { KEY = 'variable:KEY' }\n\
             [mcp.web]\nurl = 'https://host/mcp'\nheaders = { Authorization = 'Bearer file:/key' }\n\
             trusted = true\ntools = ['search']\ntimeout = 5\n",
        );
        let read = read.unwrap();
        assert_eq!(read["files"].command, ["server", "/data"]);
        assert_eq!(read["files"].env.len(), 1);
        assert!(read["web"].trusted && !read["files"].trusted);
        assert_eq!(read["web"].timeout, Some(5));
        for (text, part) in [
            (
                "[mcp.files]\ntrusted = true",
                "c.toml:2: [mcp.files]: give either a `command`",
            ),
            (
                "\n[mcp.my-files]\nurl = 'https://a/'",
                "c.toml:2: a server's name has",
            ),
            ("[mcp.files]\ncommnd = ['a']", "did you mean `command`?"),
            ("[mcp.files]\ncommand = 'a b'", "must be a list of strings"),
            ("[mcp.files]\ncommand = []", "must be a list of strings"),
            ("[mcp.files]\ncommand = ['./a']", "begins with `/` or `~/`"),
            (
                "[mcp.files]\nenv = { A = 'sk-secret' }",
                "`mcp.files.env` must be a table of strings",
            ),
            (
                "[mcp.web]\nheaders = { A = 'Bearer sk-secret' }",
                "never the key itself",
            ),
            (
                "[mcp.web]\nurl = 'https://a/'\nheaders = { Host = 'variable:A' }",
                "this header cannot be set",
            ),
        ] {
            let told = servers(text).unwrap_err().to_string();
            assert!(told.contains(part), "{text}: {told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_new_file_makes_no_setting_and_each_of_its_lines_can_be_used() {
        for language in Language::ALL.iter().copied() {
            let text = template(language);
            let empty = SettingsFile::parse("c".into(), &text, language).unwrap();
            assert_eq!(empty.values.len(), 0);
            let (head, rest) = text.split_at(text.find("# model").unwrap());
            let used = format!("{head}{}", rest.replace("\n# ", "\n").replacen("# ", "", 1));
            let used = SettingsFile::parse("c".into(), &used, language).unwrap();
            assert_eq!(used.values.len(), SETTINGS.len());
        }
    }
}
