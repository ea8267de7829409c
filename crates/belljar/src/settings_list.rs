//! Which settings there are, what the value of each may be, and a new settings file.

use std::fmt::Write as _;
use std::path::Path;

use belljar_agent::ModelName;
use belljar_mcp::{Header, Source};
use belljar_sandbox::protocol::Language;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::words::pick;

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

pub(crate) const LANGUAGES: &[&str] = &["en", "zh"];
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

/// A setting: where it stands in the file (`*` is a name that the user gives), what it is, and the
/// line of a new file, in English and Chinese.
pub(crate) struct Setting(
    pub(crate) &'static str,
    pub(crate) Kind,
    pub(crate) &'static str,
    pub(crate) [&'static str; 2],
);

pub(crate) const SETTINGS: &[Setting] = &[
    Setting(
        "model",
        Kind::Model,
        "\"ollama/qwen2.5-coder\"",
        ["Model, as PROVIDER/MODEL", "模型，写作 提供方/模型"],
    ),
    Setting(
        "language",
        Kind::OneOf(LANGUAGES),
        "\"en\"",
        [
            "Language of prompts and messages: en or zh [default: the system's]",
            "提示与消息的语言：en 或 zh [默认：随系统]",
        ],
    ),
    Setting(
        "temperature",
        Kind::Amount,
        "0.0",
        [
            "Sampling temperature [default: the server's]",
            "采样温度 [默认：由服务器决定]",
        ],
    ),
    Setting(
        "review",
        Kind::Switch,
        "true",
        [
            "Have the model work out its answer again, differently (two more steps)",
            "让模型用另一种方法重新求解（多两步）",
        ],
    ),
    Setting(
        "data_dir",
        Kind::Path,
        "\"~/belljar\"",
        ["Directory of environments", "环境目录"],
    ),
    Setting(
        "runs_dir",
        Kind::Path,
        "\"~/belljar/runs\"",
        ["Directory of runs", "任务记录目录"],
    ),
    Setting(
        "budget.steps",
        Kind::Count,
        "20",
        ["Steps, each a turn of the model", "步数，每步为模型的一轮"],
    ),
    Setting(
        "budget.tokens",
        Kind::Count,
        "200000",
        [
            "Tokens of all requests and replies",
            "所有请求与回复的词元总数",
        ],
    ),
    Setting(
        "budget.money",
        Kind::Amount,
        "0.5",
        [
            "Money, in the currency of the prices",
            "费用，货币与价格相同",
        ],
    ),
    Setting(
        "budget.seconds",
        Kind::Count,
        "600",
        [
            "Time of model and tools [seconds]",
            "模型与工具的总时间 [秒]",
        ],
    ),
    Setting(
        "budget.calls",
        Kind::Count,
        "100",
        ["Tool calls", "工具调用次数"],
    ),
    Setting(
        "budget.cell_calls",
        Kind::Count,
        "10000",
        ["Tool calls made by code", "代码调用工具的次数"],
    ),
    Setting(
        "approvals.policy",
        Kind::OneOf(POLICIES),
        "\"risky\"",
        [
            "Which code and tool calls need approval: never, risky or always",
            "哪些代码与工具调用需要批准：never、risky 或 always",
        ],
    ),
    Setting(
        "approvals.tools.*",
        Kind::OneOf(POLICIES),
        "\"always\"",
        ["Policy for one tool, by name", "某个工具的策略"],
    ),
    Setting(
        "approvals.capabilities.*",
        Kind::OneOf(POLICIES),
        "\"always\"",
        [
            "Policy for one capability of code: files_read, files_written, network, processes, deletions, installs, unknown",
            "代码某项能力的策略：files_read、files_written、network、processes、deletions、installs、unknown",
        ],
    ),
    Setting(
        "providers.*.base_url",
        Kind::Text,
        "\"http://127.0.0.1:11434/v1\"",
        ["Base URL of the provider's server", "提供方服务器的地址"],
    ),
    Setting(
        "providers.*.key_variable",
        Kind::Text,
        "\"OLLAMA_API_KEY\"",
        [
            "Environment variable with the API key",
            "存放 API 密钥的环境变量名",
        ],
    ),
    Setting(
        "providers.*.key_file",
        Kind::Path,
        "\"~/.config/belljar/key\"",
        [
            "File with only the API key; takes precedence over the variable",
            "只存放 API 密钥的文件；优先于环境变量",
        ],
    ),
    Setting(
        "providers.*.allow_plain_http",
        Kind::Switch,
        "false",
        [
            "Send the key over plain HTTP to other machines",
            "允许以明文 HTTP 向其他机器发送密钥",
        ],
    ),
    Setting(
        "providers.*.dialect",
        Kind::OneOf(DIALECTS),
        "\"fenced\"",
        [
            "How the provider's models write actions: native, json, tags or fenced",
            "模型书写动作的方式：native、json、tags 或 fenced",
        ],
    ),
    Setting(
        "providers.*.context_window",
        Kind::Count,
        "32768",
        [
            "Context window: tokens of a conversation and its reply together",
            "上下文窗口：对话与回复合计的词元数",
        ],
    ),
    Setting(
        "providers.*.max_tokens",
        Kind::Count,
        "2048",
        ["Maximum tokens of one reply", "一次回复的最大词元数"],
    ),
    Setting(
        "prices.*.input",
        Kind::Amount,
        "0.25",
        ["Price per million input tokens", "每百万输入词元的价格"],
    ),
    Setting(
        "prices.*.output",
        Kind::Amount,
        "2.0",
        ["Price per million output tokens", "每百万输出词元的价格"],
    ),
    Setting(
        "prices.*.cached_input",
        Kind::Amount,
        "0.025",
        [
            "Price per million input tokens read from cache [default: input]",
            "每百万来自缓存的输入词元的价格 [默认：同 input]",
        ],
    ),
    Setting(
        "prices.*.cache_write",
        Kind::Amount,
        "0.25",
        [
            "Price per million input tokens written to cache [default: input]",
            "每百万写入缓存的输入词元的价格 [默认：同 input]",
        ],
    ),
    Setting(
        "mcp.*.command",
        Kind::Words,
        "[\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv/data\"]",
        [
            "Command and arguments of a local MCP server",
            "本地 MCP 服务器的命令及参数",
        ],
    ),
    Setting(
        "mcp.*.env",
        Kind::Sources,
        "{ API_KEY = \"variable:API_KEY\", MODE = \"text:fast\" }",
        [
            "Environment variables of the server: variable:NAME, file:PATH or text:…",
            "服务器的环境变量，写作 variable:名称、file:路径 或 text:…",
        ],
    ),
    Setting(
        "mcp.*.url",
        Kind::Text,
        "\"https://example.org/mcp\"",
        [
            "URL of a remote MCP server, instead of `command`",
            "远程 MCP 服务器的 URL，代替 `command`",
        ],
    ),
    Setting(
        "mcp.*.headers",
        Kind::Headers,
        "{ Authorization = \"Bearer variable:API_KEY\" }",
        [
            "HTTP headers for the server: variable:NAME or file:PATH",
            "发给服务器的 HTTP 请求头，写作 variable:名称 或 file:路径",
        ],
    ),
    Setting(
        "mcp.*.trusted",
        Kind::Switch,
        "false",
        [
            "Trust the server's claim that a tool is read-only",
            "信任服务器关于工具只读的声明",
        ],
    ),
    Setting(
        "mcp.*.tools",
        Kind::Words,
        "[\"read_file\"]",
        ["Granted tools [default: all]", "授予的工具 [默认：全部]"],
    ),
    Setting(
        "mcp.*.direct",
        Kind::Switch,
        "false",
        [
            "Let the model also call the tools directly, without code",
            "允许模型不经代码直接调用工具",
        ],
    ),
    Setting(
        "mcp.*.timeout",
        Kind::Count,
        "60",
        ["Time limit of a call [seconds]", "一次调用的时限 [秒]"],
    ),
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
        let words = match self {
            Self::Text => ["a string in quotes", "引号中的字符串"],
            Self::Model => [
                "a model in quotes, as \"ollama/qwen2.5-coder\"",
                "引号中的模型名，如 \"ollama/qwen2.5-coder\"",
            ],
            Self::Path => [
                "a path in quotes that begins with / or ~/",
                "引号中以 / 或 ~/ 开头的路径",
            ],
            Self::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                let or = pick(language, ["one of ", "其中之一："]);
                return format!("{or}{}", words.join(", "));
            }
            Self::Switch => ["true or false", " true 或 false"],
            Self::Count => [
                "a whole number from 1 to 4294967295, without quotes",
                "不带引号的整数，1 到 4294967295",
            ],
            Self::Amount => [
                "a number of 0 or more, without quotes",
                "不带引号、不小于 0 的数",
            ],
            Self::Words => [
                "a list of strings, as [\"one\", \"two\"]",
                "字符串列表，如 [\"one\", \"two\"]",
            ],
            Self::Sources => [
                "a table of strings, each \"variable:NAME\", \"file:PATH\" or \"text:…\"",
                "由字符串组成的表，每一项写作 \"variable:名称\"、\"file:路径\" 或 \"text:…\"",
            ],
            Self::Headers => [
                "a table of strings, each \"variable:NAME\" or \"file:PATH\", optionally after \"Bearer \"; \
                 never the key itself",
                "由字符串组成的表，每一项写作 \"variable:名称\" 或 \"file:路径\"，前面可加 \"Bearer \"；不要写入密钥本身",
            ],
        };
        pick(language, words).to_owned()
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
    let mut out = String::from(pick(
        language,
        [
            "# Settings of Belljar. Each line is an example; remove the # to use it.\n\
         # `belljar config` shows the effective settings and their sources.\n\
         # Never write a key here: name the variable or file that holds it.\n",
            "# Belljar 的设置。每一行都是示例；去掉 # 即可使用。\n\
         # `belljar config` 显示生效的设置及其来源。\n\
         # 不要把密钥写在这里：请写存放密钥的变量名或文件。\n",
        ],
    ));
    let mut table = "";
    for Setting(pattern, _, example, about) in SETTINGS {
        let (head, name) = pattern.rsplit_once('.').unwrap_or(("", pattern));
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
        let about = pick(language, *about);
        let _ = writeln!(out, "# {name} = {example}  # {about}");
    }
    out
}
