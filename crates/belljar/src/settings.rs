//! What a command works with: flags before environment variables before the settings file before
//! what a provider's profile says. Each value knows where it came from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use belljar_agent::{Approvals, Budget, Dialect, ModelName, Prices, Profile};
use belljar_mcp::ServerSpec;
use belljar_sandbox::EnvironmentStore;
use belljar_sandbox::protocol::Language;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::settings_approvals::policy_names;
use crate::settings_file::{SettingsFile, no_provider};
use crate::settings_list::Setting;
pub(crate) use crate::settings_origin::{Origin, Row};
use crate::words;

/// Tokens of a reply where neither the user nor the profile says.
const MAX_TOKENS: u32 = 2048;

/// Settings that can be given as flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    /// Model, as PROVIDER/MODEL
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Base URL of the model's server [default: the provider's]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// How the model writes actions [default: the provider's]
    #[arg(long, value_enum)]
    dialect: Option<DialectChoice>,
    /// Sampling temperature [default: the server's]
    #[arg(long, value_name = "T", value_parser = amount)]
    temperature: Option<f64>,
    /// Context window: tokens of a conversation and its reply together
    #[arg(long, value_name = "TOKENS")]
    context_window: Option<u32>,
    /// Maximum tokens of one reply
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,
    /// Have the model work out its answer again, differently (two more steps)
    #[arg(long)]
    review: bool,
    /// Which code and tool calls need approval [default: risky at a terminal, else never]
    #[arg(long, value_name = "POLICY", value_parser = policy_names())]
    approve: Option<String>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help = format!("Budget: steps, each a turn of the model [default: {}]", Budget::default().steps))]
    steps: Option<u32>,
    /// Budget: tokens of all requests and replies
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Budget: money, in the currency of the prices (see `belljar config`)
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    money: Option<f64>,
    /// Budget: time of model and tools together, in seconds
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    #[arg(long, value_name = "N",
        help = format!("Budget: tool calls [default: {}]", Budget::default().calls))]
    calls: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectChoice {
    /// Tool calls in the provider's own format
    Native,
    /// One JSON object per reply
    Json,
    /// XML-like tags
    Tags,
    /// Markdown code blocks
    Fenced,
}

impl SettingsArgs {
    /// The same flags with another model. Those about a provider hold for its models only.
    pub(crate) fn with_model(&self, model: &str) -> Self {
        let provider = |name: &str| name.split('/').next().map(str::to_owned);
        let same = self.model.as_deref().and_then(provider) == provider(model);
        let mut flags = self.clone();
        flags.model = Some(model.to_owned());
        if !same {
            flags.base_url = None;
            flags.dialect = None;
            flags.context_window = None;
            flags.max_tokens = None;
        }
        flags
    }

    pub(crate) fn approve(&self) -> Option<&str> {
        self.approve.as_deref()
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "expected a number of 0 or more".into())
}

/// All that holds.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) file: PathBuf,
    pub(crate) language: Language,
    pub(crate) rows: Vec<Row>,
    pub(crate) model: Option<ModelName>,
    /// How the model is talked to, if there is one.
    pub(crate) profile: Option<Profile>,
    pub(crate) dialect: Dialect,
    pub(crate) max_tokens: u32,
    pub(crate) temperature: Option<f64>,
    pub(crate) review: bool,
    pub(crate) budget: Budget,
    pub(crate) approvals: Approvals,
    pub(crate) data_dir: PathBuf,
    pub(crate) runs_dir: PathBuf,
    /// Servers whose tools runs are granted.
    pub(crate) servers: BTreeMap<String, ServerSpec>,
}

/// The settings without flags.
pub(crate) fn load() -> anyhow::Result<Settings> {
    Settings::load(&SettingsArgs::default())
}

impl Settings {
    pub(crate) fn load(flags: &SettingsArgs) -> anyhow::Result<Self> {
        let (of_system, variable) = words::of_system();
        let asked = words::asked();
        let file = SettingsFile::load(asked.unwrap_or(of_system))?;
        let mut layers = Layers {
            file: &file,
            rows: Vec::new(),
        };
        let model = layers.text("model", "model", flags.model.clone(), None);
        let language = layers.text(
            "language",
            "language",
            asked.map(|asked| asked.code().to_owned()),
            Some((
                of_system.code().to_owned(),
                variable.map_or(Origin::Default, Origin::Variable),
            )),
        );
        let language = language.as_deref().and_then(Language::of_locale);
        let language = language.unwrap_or_default();
        let model = model.map(|text| parse_model(&text, language)).transpose()?;
        let mut profile = model
            .as_ref()
            .and_then(|name| Profile::built_in(&name.provider));
        let mut dialect = Dialect::FencedCode;
        let mut max_tokens = MAX_TOKENS;
        if let (Some(name), Some(profile)) = (&model, &mut profile) {
            layers.profile(flags, name, profile)?;
            max_tokens = profile.max_tokens.unwrap_or(MAX_TOKENS);
            dialect = match profile.dialect.as_str() {
                "native" => Dialect::NativeTools,
                "json" => Dialect::JsonAction,
                "tags" => Dialect::Tags,
                _ => Dialect::FencedCode,
            };
        }
        let temperature = layers.number("temperature", flags.temperature, None);
        let review = layers.switch("review", flags.review.then_some(true));
        let approvals = layers.approvals(flags);
        let budget = layers.budget(flags);
        let (data_dir, runs_dir) = layers.directories()?;
        let mut rows = layers.rows;
        rows.extend(file.under("mcp.").map(|(name, (value, line))| Row {
            name: format!("mcp.{name}"),
            value: value.clone(),
            origin: Origin::File(file.path.clone(), *line),
        }));
        let servers = file.servers()?;
        Ok(Self {
            file: file.path,
            language,
            rows,
            model,
            profile,
            dialect,
            max_tokens,
            temperature,
            review,
            budget,
            approvals,
            data_dir,
            runs_dir,
            servers,
        })
    }

    /// The model, how it is talked to, and its price where money is limited.
    pub(crate) fn required_model(&self) -> anyhow::Result<(ModelName, Profile)> {
        let (Some(model), Some(profile)) = (&self.model, &self.profile) else {
            bail!(self.language.texts().settings.no_model);
        };
        if self.budget.money.is_some() && profile.prices.is_none() {
            let file = self.file.display();
            bail!(self.language.texts().settings.no_prices(model, &file));
        }
        Ok((model.clone(), profile.clone()))
    }

    /// The settings for another model: that of a run to resume.
    pub(crate) fn for_model(model: &str, base_url: Option<String>) -> anyhow::Result<Self> {
        Self::load(&SettingsArgs {
            model: Some(model.to_owned()),
            base_url,
            ..SettingsArgs::default()
        })
    }
}

/// A model's name, of a provider that there is.
fn parse_model(text: &str, language: Language) -> anyhow::Result<ModelName> {
    let name = ModelName::parse(text)?;
    if Profile::built_in(&name.provider).is_none() {
        bail!("{}", no_provider(&name.provider, language));
    }
    Ok(name)
}

/// Finds values, and notes where they came from.
pub(crate) struct Layers<'a> {
    file: &'a SettingsFile,
    rows: Vec<Row>,
}

impl Layers<'_> {
    /// The first that has a value: the flag, the variable, the file, what else holds.
    fn find(
        &mut self,
        name: &str,
        key: &str,
        flag: Option<Value>,
        otherwise: Option<(Value, Origin)>,
    ) -> Value {
        let setting = Setting::for_key(key);
        let of_flag = flag.and_then(|value| Some((value, Origin::Flag(setting?.flag?))));
        let of_variable = || {
            let variable = setting?.variable?;
            let value = std::env::var(variable).ok()?;
            (!value.is_empty()).then(|| (value.into(), Origin::Variable(variable)))
        };
        let of_file = || {
            let (value, line) = self.file.get(key)?;
            let origin = Origin::File(self.file.path.clone(), *line);
            Some((value.clone(), origin))
        };
        let found = of_flag.or_else(of_variable).or_else(of_file);
        let (value, origin) = found
            .or(otherwise)
            .unwrap_or((Value::Null, Origin::Default));
        self.rows.push(Row {
            name: name.to_owned(),
            value: value.clone(),
            origin,
        });
        value
    }

    /// What stands after this in the file's names that begin so.
    pub(crate) fn below(&self, prefix: &str) -> Vec<String> {
        let found = self.file.under(prefix);
        found.map(|(name, _)| name.to_owned()).collect()
    }

    pub(crate) fn text(
        &mut self,
        name: &str,
        key: &str,
        flag: Option<String>,
        otherwise: Option<(String, Origin)>,
    ) -> Option<String> {
        let flag = flag.map(Value::from);
        let otherwise = otherwise.map(|(text, origin)| (text.into(), origin));
        let found = self.find(name, key, flag, otherwise);
        found.as_str().map(str::to_owned)
    }

    fn number(
        &mut self,
        name: &str,
        flag: Option<f64>,
        otherwise: Option<(f64, Origin)>,
    ) -> Option<f64> {
        let flag = flag.map(Value::from);
        let otherwise = otherwise.map(|(number, origin)| (number.into(), origin));
        self.find(name, name, flag, otherwise).as_f64()
    }

    fn count(
        &mut self,
        name: &str,
        key: &str,
        flag: Option<u64>,
        otherwise: Option<(u64, Origin)>,
    ) -> Option<u64> {
        let flag = flag.map(Value::from);
        let otherwise = otherwise.map(|(number, origin)| (number.into(), origin));
        self.find(name, key, flag, otherwise).as_u64()
    }

    fn switch(&mut self, name: &str, flag: Option<bool>) -> bool {
        let flag = flag.map(Value::from);
        let otherwise = Some((false.into(), Origin::Default));
        let found = self.find(name, name, flag, otherwise);
        found.as_bool().unwrap_or_default()
    }

    /// What is said of the model's provider. The address and the key's place belong to one provider,
    /// so that a key never goes to another's server by a change of the model.
    fn profile(
        &mut self,
        flags: &SettingsArgs,
        model: &ModelName,
        profile: &mut Profile,
    ) -> anyhow::Result<()> {
        let provider = model.provider.clone();
        let key = |name: &str| format!("providers.{provider}.{name}");
        let usual = |value: String| Some((value, Origin::Profile(provider.clone())));
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let url = self.text(
            "base_url",
            &key("base_url"),
            flags.base_url.clone(),
            usual(profile.base_url.clone()),
        );
        profile.base_url = url.unwrap_or_default();
        profile.key_variable = self.text(
            "key_variable",
            &key("key_variable"),
            None,
            profile.key_variable.clone().and_then(usual),
        );
        let file = self.text("key_file", &key("key_file"), None, None);
        profile.key_file = file.map(PathBuf::from);
        let open = self.find(
            "allow_plain_http",
            &key("allow_plain_http"),
            None,
            Some((false.into(), Origin::Default)),
        );
        profile.allow_plain_http = open.as_bool().unwrap_or_default();
        let dialect = flags.dialect.and_then(|choice| choice.to_possible_value());
        let dialect = dialect.map(|choice| choice.get_name().to_owned());
        let dialect = self.text(
            "dialect",
            &key("dialect"),
            dialect,
            usual(profile.dialect.clone()),
        );
        profile.dialect = dialect.unwrap_or_default();
        let window = self.count(
            "context_window",
            &key("context_window"),
            flags.context_window.map(u64::from),
            Some((
                profile.context_window.into(),
                Origin::Profile(provider.clone()),
            )),
        );
        profile.context_window = window.map_or(profile.context_window, small);
        let most = self.count(
            "max_tokens",
            &key("max_tokens"),
            flags.max_tokens.map(u64::from),
            Some(match profile.max_tokens {
                Some(most) => (most.into(), Origin::Profile(provider.clone())),
                None => (MAX_TOKENS.into(), Origin::Default),
            }),
        );
        profile.max_tokens = most.map(small);
        self.prices(model, profile)
    }

    fn prices(&mut self, model: &ModelName, profile: &mut Profile) -> anyhow::Result<()> {
        let usual = profile.prices;
        let mut price = |name: &str, usual: Option<f64>| {
            let otherwise = usual.map(|price| (price, Origin::Profile(profile.provider.clone())));
            let key = format!("prices.{model}.{name}");
            let row = format!("prices.{name}");
            let otherwise = otherwise.map(|(price, origin)| (price.into(), origin));
            self.find(&row, &key, None, otherwise).as_f64()
        };
        let input = price("input", usual.map(|prices| prices.input));
        let output = price("output", usual.map(|prices| prices.output));
        let cached_input = price("cached_input", usual.and_then(|prices| prices.cached_input));
        let cache_write = price("cache_write", usual.and_then(|prices| prices.cache_write));
        profile.prices = match (input, output) {
            (Some(input), Some(output)) => Some(Prices {
                input,
                output,
                cached_input,
                cache_write,
            }),
            (None, None) if cached_input.is_none() && cache_write.is_none() => None,
            _ => {
                let texts = &self.file.language.texts().settings;
                bail!(texts.incomplete_prices(model, &self.file.path.display()))
            }
        };
        Ok(())
    }

    fn budget(&mut self, flags: &SettingsArgs) -> Budget {
        let usual = Budget::default();
        let mut count = |name: &str, flag: Option<u64>, usual: Option<u32>| {
            let usual = usual.map(|number| (number.into(), Origin::Default));
            self.count(name, name, flag, usual)
        };
        let small = |number: Option<u64>, usual| {
            number.map_or(usual, |number| u32::try_from(number).unwrap_or(u32::MAX))
        };
        let flag = |value: Option<u32>| value.map(u64::from);
        let steps = count("budget.steps", flag(flags.steps), Some(usual.steps));
        let tokens = count("budget.tokens", flags.tokens, None);
        let seconds = count("budget.seconds", flags.seconds, None);
        let calls = count("budget.calls", flag(flags.calls), Some(usual.calls));
        let cell_calls = count("budget.cell_calls", None, Some(usual.cell_calls));
        Budget {
            steps: small(steps, usual.steps),
            calls: small(calls, usual.calls),
            cell_calls: small(cell_calls, usual.cell_calls),
            tokens,
            seconds,
            money: self.number("budget.money", flags.money, None),
            repeats: usual.repeats,
        }
    }

    fn directories(&mut self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let language = self.file.language;
        let mut directory = |name: &str, usual: PathBuf| -> anyhow::Result<PathBuf> {
            let variable = Setting::for_key(name).and_then(|setting| setting.variable);
            let path = variable.and_then(std::env::var_os);
            if let Some(path) = path.filter(|path| path.to_str().is_none()) {
                // Not a text, but a path all the same.
                return Ok(path.into());
            }
            let usual = usual
                .to_str()
                .map(|path| (path.to_owned(), Origin::Default));
            let found = self.text(name, name, None, usual);
            found
                .map(PathBuf::from)
                .ok_or_else(|| anyhow::anyhow!(language.texts().settings.home_invalid(name)))
        };
        let store = EnvironmentStore::open_default()?;
        let parent = store.directory().parent().unwrap_or(store.directory());
        let data = directory("data_dir", parent.to_owned())?;
        let runs = directory("runs_dir", data.join("runs"))?;
        Ok((data, runs))
    }
}
