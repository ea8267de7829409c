//! A model that requests can be sent to.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::draft::{Draft, Listener};
use super::error::{ModelError, ModelFault, Phase};
use super::exchange::Exchange;
use super::http::{http_client, is_loopback};
use super::key::ApiKey;
use super::profile::{Profile, Retries, WireFormat};
use super::reply::{Reply, ReplyEvent};
use super::request::ModelRequest;
use super::tokens::{estimate_request_tokens, estimate_tokens};

/// The longest wait before a retry that the server didn't ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The pieces of a scripted reply, and the pause between two: so that it is seen to arrive.
const PIECE: usize = 12;
const BETWEEN: Duration = Duration::from_millis(10);

/// A model that requests can be sent to: a profile, the model's name, and the connection.
#[derive(Clone)]
pub struct Provider {
    profile: Profile,
    model: String,
    endpoint: Endpoint,
}

/// A reply as a function of the request.
type Script = Arc<dyn Fn(&ModelRequest) -> Reply + Send + Sync>;

#[derive(Clone)]
enum Endpoint {
    Server {
        key: Option<ApiKey>,
        url: Url,
        client: reqwest::Client,
    },
    Script(Script),
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("provider", &self.profile.provider)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// A model of a profile. The key is read here, from the profile's file or variable.
    pub fn new(profile: Profile, model: &str) -> Result<Self, ModelError> {
        let key = match (&profile.key_file, &profile.key_variable) {
            (Some(file), _) => ApiKey::from_file(file).map(Some),
            (None, Some(variable)) => ApiKey::from_variable(variable),
            (None, None) => Ok(None),
        };
        let key = key.map_err(unusable)?;
        Self::with_key(profile, model, key)
    }

    /// The same with a key from elsewhere.
    pub fn with_key(
        profile: Profile,
        model: &str,
        key: Option<ApiKey>,
    ) -> Result<Self, ModelError> {
        let name = &profile.provider;
        if key.is_none() && profile.key_required {
            let variable = match profile.key_variable.as_deref() {
                Some(variable) => format!("`{variable}`"),
                None => "of the profile".into(),
            };
            return Err(unusable(format!(
                "`{name}` needs a key, and none is set\nhint: set the variable {variable}, or name a file with the key (`key_file`)"
            )));
        }
        let path = match profile.wire {
            WireFormat::ChatCompletions => "chat/completions",
            WireFormat::Messages => "messages",
        };
        let text = format!("{}/{path}", profile.base_url.trim_end_matches('/'));
        let url = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url.filter(|url| url.username().is_empty() && url.password().is_none())
        else {
            return Err(unusable(format!(
                "the base URL of `{name}` is invalid\nhint: it must look like `https://host/v1`, without user name and password"
            )));
        };
        let in_the_open = url.scheme() == "http" && !is_loopback(&url);
        if key.is_some() && in_the_open && !profile.allow_plain_http {
            return Err(unusable(format!(
                "the key of `{name}` would be sent unencrypted to `{}`\nhint: use https, or set `allow_plain_http` if you trust the network",
                url.host_str().unwrap_or_default()
            )));
        }
        let client = client(&profile, key.as_ref(), &url).map_err(unusable)?;
        Ok(Self {
            profile,
            model: model.to_owned(),
            endpoint: Endpoint::Server { key, url, client },
        })
    }

    /// No model, but a function that replies like one: for demonstrations. It needs no network.
    pub fn scripted(
        provider: &str,
        model: &str,
        script: impl Fn(&ModelRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self {
            profile: Profile::scripted(provider),
            model: model.to_owned(),
            endpoint: Endpoint::Script(Arc::new(script)),
        }
    }

    /// The profile of its server.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The body that is sent for a request. Serialised, it has the same bytes every time.
    pub fn body(&self, request: &ModelRequest) -> Value {
        self.profile.body(&self.model, request)
    }

    /// Sends a request to the model. Parts of the reply are passed on at once; transient faults are
    /// retried, and retries are reported too. Dropping the future cancels the request.
    pub async fn send(
        &self,
        request: &ModelRequest,
        mut on_event: impl FnMut(ReplyEvent) + Send,
    ) -> Result<Reply, ModelError> {
        let (key, url, client) = match &self.endpoint {
            Endpoint::Server { key, url, client } => (key.as_ref(), url, client),
            Endpoint::Script(script) => {
                let mut reply = script(request);
                recite(&reply, &mut on_event).await;
                estimate_missing(&mut reply, request);
                return Ok(reply);
            }
        };
        let body = self.body(request).to_string();
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let post = client.post(url.clone()).body(body.clone());
            let (fault, partial) = match self.attempt(post, key, &mut on_event).await {
                Ok(mut reply) => {
                    estimate_missing(&mut reply, request);
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            let Some(wait) = wait_before_next(
                self.profile.retries,
                &fault,
                attempt,
                started.elapsed(),
                draw(),
            ) else {
                return Err(ModelError {
                    fault,
                    attempts: attempt,
                    partial,
                });
            };
            on_event(ReplyEvent::Retrying {
                after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                why: fault.to_string(),
            });
            sleep(wait).await;
        }
    }

    async fn attempt(
        &self,
        request: reqwest::RequestBuilder,
        key: Option<&ApiKey>,
        listener: Listener<'_>,
    ) -> Result<Reply, (ModelFault, Option<Box<Reply>>)> {
        let exchange = Exchange {
            wire: self.profile.wire,
            model: &self.model,
            key,
            timeouts: self.profile.timeouts,
        };
        let limit_ms = self.profile.timeouts.whole_ms;
        let mut draft = Draft::new(listener);
        let done = timeout(
            Duration::from_millis(limit_ms),
            exchange.run(request, &mut draft),
        )
        .await;
        let done = done.unwrap_or(Err(ModelFault::Timeout {
            phase: Phase::Whole,
            limit_ms,
        }));
        match done.and_then(|()| draft.complete()) {
            Ok(reply) => Ok(reply),
            Err(fault) => Err((fault, draft.partial())),
        }
    }
}

/// Passes on a reply piece by piece, like one from a server.
async fn recite(reply: &Reply, on_event: &mut (impl FnMut(ReplyEvent) + Send)) {
    let mut events = Vec::new();
    let pieces = |text: &str| -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(PIECE);
        pieces.map(|piece| piece.iter().collect()).collect()
    };
    let thinking = pieces(&reply.thinking).into_iter();
    events.extend(thinking.map(|delta| ReplyEvent::Thinking { delta }));
    let text = pieces(&reply.text).into_iter();
    events.extend(text.map(|delta| ReplyEvent::Text { delta }));
    for (index, call) in reply.tool_calls.iter().enumerate() {
        let name = call.name.clone();
        events.push(ReplyEvent::ToolCall { index, name });
        let arguments = pieces(&call.arguments).into_iter();
        events.extend(arguments.map(|delta| ReplyEvent::ToolArguments { index, delta }));
    }
    for event in events {
        on_event(event);
        sleep(BETWEEN).await;
    }
}

fn unusable(why: String) -> ModelError {
    ModelFault::Profile { why }.into()
}

fn client(profile: &Profile, key: Option<&ApiKey>, url: &Url) -> Result<reqwest::Client, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let header = |text: String| {
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| "the key has characters that a header cannot have".to_owned())?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    match (profile.wire, key) {
        (WireFormat::ChatCompletions, Some(key)) => {
            headers.insert(AUTHORIZATION, header(format!("Bearer {}", key.expose()))?);
        }
        (WireFormat::Messages, Some(key)) => {
            headers.insert(
                HeaderName::from_static("x-api-key"),
                header(key.expose().to_owned())?,
            );
        }
        (_, None) => {}
    }
    if profile.wire == WireFormat::Messages {
        headers.insert(
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        );
    }
    let connect = Duration::from_millis(profile.timeouts.connect_ms);
    http_client(headers, url, connect)
}

/// The wait before the next attempt; none if there is no other. `draw` is a random number from 0 to
/// 1: clients that failed together should not come back together.
fn wait_before_next(
    retries: Retries,
    fault: &ModelFault,
    attempt: u32,
    elapsed: Duration,
    draw: f64,
) -> Option<Duration> {
    if !fault.may_pass() || attempt >= retries.attempts {
        return None;
    }
    let doubled = retries
        .first_wait_ms
        .saturating_mul(1 << (attempt - 1).min(20));
    let back_off = Duration::from_millis(doubled)
        .min(LONGEST_WAIT)
        .mul_f64(0.5 + draw / 2.0);
    let asked = fault.retry_after();
    // Never before the time that the server named, and a little after.
    let wait = asked.map_or(back_off, |asked| asked.saturating_add(back_off / 10));
    (elapsed.saturating_add(wait) <= Duration::from_millis(retries.within_ms)).then_some(wait)
}

/// A random number from 0 to 1, good enough to spread clients.
fn draw() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

/// Servers may leave the usage out, or report zero.
fn estimate_missing(reply: &mut Reply, request: &ModelRequest) {
    if reply.usage.input_tokens == 0 {
        reply.usage.input_tokens = estimate_request_tokens(request);
        reply.usage.estimated = true;
    }
    if reply.usage.output_tokens == 0 {
        let calls = reply
            .tool_calls
            .iter()
            .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
        reply.usage.output_tokens =
            estimate_tokens(&reply.text) + estimate_tokens(&reply.thinking) + calls.sum::<u64>();
        reply.usage.estimated = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(retry_after_ms: Option<u64>) -> ModelFault {
        ModelFault::RateLimited {
            said: String::new(),
            retry_after_ms,
        }
    }

    #[test]
    fn waits_double_within_bounds_and_never_undercut_the_server() {
        let retries = Retries {
            attempts: 8,
            first_wait_ms: 1000,
            within_ms: 60_000,
        };
        let wait = |fault: &ModelFault, attempt, elapsed, draw| {
            wait_before_next(retries, fault, attempt, Duration::from_secs(elapsed), draw)
        };
        let second = Duration::from_secs(1);
        assert_eq!(wait(&limited(None), 1, 0, 1.0), Some(second));
        assert_eq!(wait(&limited(None), 1, 0, 0.0), Some(second / 2));
        assert_eq!(wait(&limited(None), 4, 0, 1.0), Some(second * 8));
        assert_eq!(wait(&limited(None), 7, 0, 1.0), Some(LONGEST_WAIT));
        assert_eq!(wait(&limited(None), 8, 0, 1.0), None);
        assert_eq!(wait(&limited(None), 4, 55, 1.0), None);
        assert!(wait(&limited(Some(20_000)), 1, 0, 0.0).unwrap() >= second * 20);
        assert_eq!(wait(&limited(Some(61_000)), 1, 0, 0.0), None);
        assert_eq!(wait(&limited(Some(u64::MAX)), 1, 0, 0.0), None);
        assert_eq!(wait(&ModelFault::Empty, 1, 0, 0.0), None);
    }

    #[tokio::test]
    async fn a_script_is_told_piece_by_piece() {
        let provider = Provider::scripted("demo", "one", |request| Reply {
            text: format!("You sent {} messages, I think.", request.messages.len()),
            ..Reply::default()
        });
        let mut heard = Vec::new();
        let told = |event| match event {
            ReplyEvent::Text { delta } => heard.push(delta),
            other => panic!("{other:?}"),
        };
        let reply = provider.send(&ModelRequest::default(), told).await.unwrap();
        assert_eq!(heard.concat(), reply.text);
        assert!(heard.len() > 2 && reply.usage.estimated);
        assert!(!provider.profile().key_required);
    }

    #[test]
    fn draws_differ_and_stay_in_range() {
        let draws: Vec<f64> = (0..100).map(|_| draw()).collect();
        assert!(draws.iter().all(|draw| (0.0..=1.0).contains(draw)));
        assert!(draws.iter().any(|&draw| draw < 0.5) && draws.iter().any(|&draw| draw > 0.5));
    }
}
