//! What is answered.

use std::time::Duration;

use serde_json::Value;

/// One answer of the server: a reply of the model, or a fault. Made by one of the first functions,
/// and changed by the others.
#[derive(Debug, Clone)]
pub struct Scripted {
    pub(crate) body: Body,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) before: Duration,
    pub(crate) between: Duration,
    pub(crate) cut_after: Option<usize>,
    pub(crate) hang_after: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Reply(Reply),
    Status { status: u16, message: String },
    EchoKeys { status: u16 },
    Raw { kind: String, body: Vec<u8> },
    Malformed,
    Endless,
    HugeLine { bytes: usize },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) usage: Usage,
    pub(crate) truncated: bool,
    pub(crate) filtered: bool,
    pub(crate) legacy: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Usage {
    /// A quarter of the bytes.
    #[default]
    Counted,
    Given {
        input: u64,
        output: u64,
        cached: u64,
    },
    Missing,
}

impl Scripted {
    fn new(body: Body) -> Self {
        Self {
            body,
            headers: Vec::new(),
            before: Duration::ZERO,
            between: Duration::ZERO,
            cut_after: None,
            hang_after: None,
        }
    }

    /// The model says this.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Body::Reply(Reply {
            text: text.into(),
            ..Reply::default()
        }))
    }

    /// The model calls a tool.
    pub fn call(name: &str, arguments: impl Into<Value>) -> Self {
        Self::text("").and_call(name, arguments)
    }

    /// The model says nothing.
    pub fn empty() -> Self {
        Self::text("")
    }

    /// The server answers with this status and an error of its format.
    pub fn status(status: u16, message: impl Into<String>) -> Self {
        Self::new(Body::Status {
            status,
            message: message.into(),
        })
    }

    /// The server wants to be asked later: status 429, and the text of `Retry-After`.
    pub fn rate_limited(retry_after: &str) -> Self {
        Self::status(429, "too many requests").header("retry-after", retry_after)
    }

    /// The server's error repeats the keys that it was sent.
    pub fn echoing_keys(status: u16) -> Self {
        Self::new(Body::EchoKeys { status })
    }

    /// The server answers with status 200 and this body, whatever the request says.
    pub fn raw(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Body::Raw {
            kind: content_type.to_owned(),
            body: body.into(),
        })
    }

    /// The reply is no JSON.
    pub fn malformed() -> Self {
        Self::new(Body::Malformed)
    }

    /// The reply never ends.
    pub fn endless() -> Self {
        Self::new(Body::Endless)
    }

    /// The reply begins with a line of this many bytes.
    pub fn huge_line(bytes: usize) -> Self {
        Self::new(Body::HugeLine { bytes })
    }

    /// The model calls this tool too. Arguments that are a JSON string are sent as its text, which
    /// then need not be JSON.
    #[must_use]
    pub fn and_call(self, name: &str, arguments: impl Into<Value>) -> Self {
        let arguments = match arguments.into() {
            Value::String(text) => text,
            value => value.to_string(),
        };
        self.reply(|reply| reply.calls.push((name.to_owned(), arguments)))
    }

    /// The model thinks this before.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        self.reply(|reply| reply.thinking = text.into())
    }

    /// The server counts these tokens; `cached` of the input came from its cache.
    #[must_use]
    pub fn usage(self, input: u64, output: u64, cached: u64) -> Self {
        self.reply(|reply| {
            reply.usage = Usage::Given {
                input,
                output,
                cached,
            }
        })
    }

    /// The server counts nothing.
    #[must_use]
    pub fn without_usage(self) -> Self {
        self.reply(|reply| reply.usage = Usage::Missing)
    }

    /// The limit of tokens ends the reply here.
    #[must_use]
    pub fn truncated(self) -> Self {
        self.reply(|reply| reply.truncated = true)
    }

    /// The server's filter ends the reply here.
    #[must_use]
    pub fn filtered(self) -> Self {
        self.reply(|reply| reply.filtered = true)
    }

    /// The call is made in the older form, `function_call`. Chat completions only.
    #[must_use]
    pub fn legacy(self) -> Self {
        self.reply(|reply| reply.legacy = true)
    }

    /// The answer has this header too, as `retry-after` or `location`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Nothing comes for this long.
    #[must_use]
    pub fn slow_first_byte(mut self, wait: Duration) -> Self {
        self.before = wait;
        self
    }

    /// This long passes before every piece but the first.
    #[must_use]
    pub fn slow_chunks(mut self, wait: Duration) -> Self {
        self.between = wait;
        self
    }

    /// The connection is cut after this many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Nothing more comes after this many bytes of the body, but the connection stays.
    #[must_use]
    pub fn hang_after(mut self, bytes: usize) -> Self {
        self.hang_after = Some(bytes);
        self
    }

    fn reply(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        if let Body::Reply(reply) = &mut self.body {
            change(reply);
        }
        self
    }
}
