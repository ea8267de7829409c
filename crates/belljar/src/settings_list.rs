//! Which settings there are, what the value of each may be, and a new settings file.

use std::fmt::Write as _;
use std::path::Path;

use belljar_agent::ModelName;
use belljar_mcp::{Header, Source};
use belljar_sandbox::protocol::Language;
use belljar_sandbox::protocol::texts::SettingTexts;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// What a setting's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Model,
    Path,
    OneOf(&'static [&'static str]),
    Switch,
    Count,
    Amount,
    /// A list of texts.
    Words,
    /// Environment variables of a server, and where each comes from.
    Sources,
    /// Headers for a server, and where each comes from.
    Headers,
}

pub(crate) const POLICIES: &[&str] = &["never", "risky", "always"];
/// What code can do, as a message lists it.
pub(crate) const CAPABILITIES: &[&str] = &[
    "files_read",
    "files_written",
    "network",
    "processes",
    "deletions",
    "installs",
    "unknown",
];
const DIALECTS: &[&str] = &["native", "json", "tags", "fenced"];

/// A setting, and where its value can come from. Defaults are those of the types that it becomes a part of.
pub(crate) struct Setting {
    /// Its name in the file; `*` is a name that the user gives.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The value in a new file.
    example: &'static str,
    /// Its text in the catalogue.
    pub(crate) about: fn(&SettingTexts) -> &'static str,
    pub(crate) flag: Option<&'static str>,
    pub(crate) variable: Option<&'static str>,
}

/// A setting of the file alone.
const fn setting(
    name: &'static str,
    kind: Kind,
    example: &'static str,
    about: fn(&SettingTexts) -> &'static str,
) -> Setting {
    Setting {
        name,
        kind,
        example,
        about,
        flag: None,
        variable: None,
    }
}

impl Setting {
    const fn flag(self, flag: &'static str) -> Self {
        Self {
            flag: Some(flag),
            ..self
        }
    }

    const fn variable(self, variable: &'static str) -> Self {
        Self {
            variable: Some(variable),
            ..self
        }
    }

    /// The setting of a full name, such as `providers.ollama.base_url`.
    pub(crate) fn for_key(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|one| match one.name.split_once('*') {
            Some((start, end)) => key.starts_with(start) && key.ends_with(end),
            None => key == one.name,
        })
    }
}

pub(crate) const SETTINGS: &[Setting] = &[
    setting("model", Kind::Model, "\"ollama/qwen2.5-coder\"", |texts| {
        texts.model
    })
    .flag("--model")
    .variable("BELLJAR_MODEL"),
    setting(
        "language",
        Kind::OneOf(Language::CODES),
        "\"en\"",
        |texts| texts.language,
    )
    .flag("--language"),
    setting("temperature", Kind::Amount, "0.0", |texts| {
        texts.temperature
    })
    .flag("--temperature"),
    setting("review", Kind::Switch, "true", |texts| texts.review).flag("--review"),
    setting("data_dir", Kind::Path, "\"~/belljar\"", |texts| {
        texts.data_dir
    })
    .variable("BELLJAR_DATA_DIR"),
    setting("runs_dir", Kind::Path, "\"~/belljar/runs\"", |texts| {
        texts.runs_dir
    })
    .variable("BELLJAR_RUNS_DIR"),
    setting("budget.steps", Kind::Count, "20", |texts| {
        texts.budget_steps
    })
    .flag("--steps"),
    setting("budget.tokens", Kind::Count, "200000", |texts| {
        texts.budget_tokens
    })
    .flag("--tokens"),
    setting("budget.money", Kind::Amount, "0.5", |texts| {
        texts.budget_money
    })
    .flag("--money"),
    setting("budget.seconds", Kind::Count, "600", |texts| {
        texts.budget_seconds
    })
    .flag("--seconds"),
    setting("budget.calls", Kind::Count, "100", |texts| {
        texts.budget_calls
    })
    .flag("--calls"),
    setting("budget.cell_calls", Kind::Count, "10000", |texts| {
        texts.budget_cell_calls
    }),
    setting(
        "approvals.policy",
        Kind::OneOf(POLICIES),
        "\"risky\"",
        |texts| texts.approvals_policy,
    )
    .flag("--approve"),
    setting(
        "approvals.tools.*",
        Kind::OneOf(POLICIES),
        "\"always\"",
        |texts| texts.approvals_tool,
    ),
    setting(
        "approvals.capabilities.*",
        Kind::OneOf(POLICIES),
        "\"always\"",
        |texts| texts.approvals_capability,
    ),
    setting(
        "providers.*.base_url",
        Kind::Text,
        "\"http://127.0.0.1:11434/v1\"",
        |texts| texts.base_url,
    )
    .flag("--base-url")
    .variable("BELLJAR_BASE_URL"),
    setting(
        "providers.*.key_variable",
        Kind::Text,
        "\"OLLAMA_API_KEY\"",
        |texts| texts.key_variable,
    ),
    setting(
        "providers.*.key_file",
        Kind::Path,
        "\"~/.config/belljar/key\"",
        |texts| texts.key_file,
    ),
    setting(
        "providers.*.allow_plain_http",
        Kind::Switch,
        "false",
        |texts| texts.allow_plain_http,
    ),
    setting(
        "providers.*.dialect",
        Kind::OneOf(DIALECTS),
        "\"fenced\"",
        |texts| texts.dialect,
    )
    .flag("--dialect"),
    setting(
        "providers.*.context_window",
        Kind::Count,
        "32768",
        |texts| texts.context_window,
    )
    .flag("--context-window"),
    setting("providers.*.max_tokens", Kind::Count, "2048", |texts| {
        texts.max_tokens
    })
    .flag("--max-tokens"),
    setting("prices.*.input", Kind::Amount, "0.25", |texts| {
        texts.price_input
    }),
    setting("prices.*.output", Kind::Amount, "2.0", |texts| {
        texts.price_output
    }),
    setting("prices.*.cached_input", Kind::Amount, "0.025", |texts| {
        texts.price_cached_input
    }),
    setting("prices.*.cache_write", Kind::Amount, "0.25", |texts| {
        texts.price_cache_write
    }),
    setting(
        "mcp.*.command",
        Kind::Words,
        "[\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv/data\"]",
        |texts| texts.mcp_command,
    ),
    setting(
        "mcp.*.env",
        Kind::Sources,
        "{ API_KEY = \"variable:API_KEY\", MODE = \"text:fast\" }",
        |texts| texts.mcp_env,
    ),
    setting(
        "mcp.*.url",
        Kind::Text,
        "\"https://example.org/mcp\"",
        |texts| texts.mcp_url,
    ),
    setting(
        "mcp.*.headers",
        Kind::Headers,
        "{ Authorization = \"Bearer variable:API_KEY\" }",
        |texts| texts.mcp_headers,
    ),
    setting("mcp.*.trusted", Kind::Switch, "false", |texts| {
        texts.mcp_trusted
    }),
    setting("mcp.*.tools", Kind::Words, "[\"read_file\"]", |texts| {
        texts.mcp_tools
    }),
    setting("mcp.*.direct", Kind::Switch, "false", |texts| {
        texts.mcp_direct
    }),
    setting("mcp.*.timeout", Kind::Count, "60", |texts| {
        texts.mcp_timeout
    }),
];

impl Kind {
    /// The value, if it is one.
    pub(crate) fn read(self, value: &DeValue<'_>) -> Option<Value> {
        match (self, value) {
            (Self::Text, DeValue::String(text)) if !text.is_empty() => Some(text.as_ref().into()),
            (Self::Model, DeValue::String(text)) => {
                ModelName::parse(text).ok()?;
                Some(text.as_ref().into())
            }
            (Self::Path, DeValue::String(text)) => absolute(text),
            (Self::OneOf(words), DeValue::String(text)) => {
                words.contains(&text.as_ref()).then(|| text.as_ref().into())
            }
            (Self::Switch, DeValue::Boolean(on)) => Some((*on).into()),
            (Self::Count, DeValue::Integer(number)) => {
                let number: u32 = number.to_string().parse().ok()?;
                (number > 0).then(|| number.into())
            }
            (Self::Amount, DeValue::Integer(_) | DeValue::Float(_)) => {
                let text = match value {
                    DeValue::Integer(number) => number.to_string(),
                    DeValue::Float(number) => number.to_string(),
                    _ => return None,
                };
                let number: f64 = text.parse().ok()?;
                (number.is_finite() && number >= 0.0).then(|| number.into())
            }
            (Self::Words, DeValue::Array(words)) if !words.is_empty() => {
                let word =
                    |word: &toml::Spanned<DeValue<'_>>| word.get_ref().as_str().map(Value::from);
                words.iter().map(word).collect()
            }
            (Self::Sources, DeValue::Table(table)) => {
                pairs(table, |text| Source::try_from(text).is_ok())
            }
            (Self::Headers, DeValue::Table(table)) => {
                pairs(table, |text| Header::try_from(text).is_ok())
            }
            _ => None,
        }
    }

    pub(crate) fn expected(self, language: Language) -> String {
        let texts = &language.texts().settings;
        let expected = match self {
            Self::Text => texts.expected_text,
            Self::Model => texts.expected_model,
            Self::Path => texts.expected_path,
            Self::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                return texts.expected_one_of(&words.join(", "));
            }
            Self::Switch => texts.expected_switch,
            Self::Count => texts.expected_count,
            Self::Amount => texts.expected_amount,
            Self::Words => texts.expected_words,
            Self::Sources => texts.expected_sources,
            Self::Headers => texts.expected_headers,
        };
        expected.to_owned()
    }
}

/// A table of texts that are each as they should be.
fn pairs(table: &DeTable<'_>, fits: fn(String) -> bool) -> Option<Value> {
    let pair = |(name, text): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let text = text.get_ref().as_str()?;
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        fits(text.to_owned()).then(|| (name.to_string(), Value::from(text)))
    };
    let pairs: Option<serde_json::Map<String, Value>> = table.iter().map(pair).collect();
    pairs.map(Value::Object)
}

/// A path of the file: the same wherever the command is started.
fn absolute(text: &str) -> Option<Value> {
    if let Some(rest) = text.strip_prefix("~/") {
        let home = etcetera::home_dir().ok()?;
        return Some(home.join(rest).to_str()?.into());
    }
    Path::new(text).is_absolute().then(|| text.into())
}

/// A new file: every setting, none of them made.
pub(crate) fn template(language: Language) -> String {
    let mut out = language.texts().settings.template.to_owned();
    let mut table = "";
    for setting in SETTINGS {
        let (head, name) = setting.name.rsplit_once('.').unwrap_or(("", setting.name));
        let name = match head {
            "approvals.tools" => "\"files.delete\"",
            "approvals.capabilities" => "network",
            _ => name,
        };
        if head != table {
            table = head;
            let head = head
                .replace("providers.*", "providers.ollama")
                .replace("prices.*", "prices.\"openai/gpt-5-mini\"")
                .replace("mcp.*", "mcp.files");
            let _ = writeln!(out, "\n# [{head}]");
        }
        let (example, about) = (setting.example, (setting.about)(&language.texts().setting));
        let _ = writeln!(out, "# {name} = {example}  # {about}");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn the_flags_of_config_are_those_of_the_settings() {
        let cli = Cli::command();
        let config = cli.find_subcommand("config").unwrap();
        // `--language` is one of all commands.
        let flags = config.get_arguments().chain(cli.get_arguments());
        let flags = flags.filter_map(clap::Arg::get_long);
        let flags = flags.filter(|flag| !["help", "json"].contains(flag));
        let flags: BTreeSet<String> = flags.map(|flag| format!("--{flag}")).collect();
        let known = SETTINGS.iter().filter_map(|setting| setting.flag);
        assert_eq!(flags, known.map(str::to_owned).collect());
    }

    #[test]
    fn the_help_lists_the_variables_of_the_settings() {
        let help = Cli::command().get_after_help().unwrap().to_string();
        for variable in SETTINGS.iter().filter_map(|setting| setting.variable) {
            assert!(help.contains(&format!("  {variable} ")), "{variable}");
        }
    }

    #[test]
    fn a_full_name_has_its_setting() {
        let name = |key| Setting::for_key(key).map(|setting| setting.name);
        assert_eq!(name("model"), Some("model"));
        assert_eq!(
            name("providers.ollama.base_url"),
            Some("providers.*.base_url")
        );
        assert_eq!(name("prices.openai/gpt-5.1.input"), Some("prices.*.input"));
        assert_eq!(
            name("approvals.tools.files.delete"),
            Some("approvals.tools.*")
        );
        assert_eq!(name("models"), None);
    }
}
