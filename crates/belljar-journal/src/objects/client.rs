//! Requests to an object store: signed, bounded in time, and repeated where that may help.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{DATE, HeaderMap};
use reqwest::{Method, Response, StatusCode, redirect};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;

use super::address::Address;
use super::credentials::ObjectCredentials;
use super::sign::{self, encode, hex};
use super::xml;
use crate::{BlobHash, Error};

const CONNECT: Duration = Duration::from_secs(5);

/// How long an attempt may take besides its bytes, and the least bytes of each second.
const ATTEMPT: Duration = Duration::from_secs(15);
const LEAST_RATE: u64 = 256 << 10;

/// How often a request is sent at most; the time from the first attempt to the beginning of the last; the first pause.
const ATTEMPTS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// Requests at once: the rest waits.
const AT_ONCE: usize = 32;

/// A signature that is older is taken for a replay. Less is no reason why a request was refused.
const SKEW: i64 = 60;

/// How much of the body of a refusal is read.
const MAX_REFUSAL: usize = 64 << 10;

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// There was no answer, or one that may be another later.
    Unreachable(String),
    /// The store refused it, with this code of S3.
    Refused { status: StatusCode, code: String },
    /// A file of this machine.
    Local(std::io::Error),
}

impl Failure {
    /// Whether there is no such object. A missing bucket is another matter.
    pub(super) fn is_missing(&self) -> bool {
        let Self::Refused { status, code } = self else {
            return false;
        };
        // The answer to `HEAD` has no body, and thus no code.
        *status == StatusCode::NOT_FOUND && matches!(code.as_str(), "" | "NoSuchKey" | "NotFound")
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// None for the bucket itself.
    pub(super) key: Option<&'a str>,
    /// Sorted by name.
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) body: Bytes,
    /// The most bytes of the answer. If there are more, some of them are returned as well.
    pub(super) limit: usize,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    address: Address,
    credentials: ObjectCredentials,
    slots: Semaphore,
    /// How many seconds the store's clock is ahead of this machine's, once that mattered: a node whose clock is wrong
    /// works like the others.
    ahead: AtomicI64,
}

impl Client {
    pub(super) fn new(address: Address, credentials: ObjectCredentials) -> Result<Self, Error> {
        // The program's own choice stands, if it made one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none());
        if address.is_loopback {
            builder = builder.no_proxy();
            if address.endpoint.starts_with("http:") {
                // Reading those of the host takes its time.
                builder = builder.tls_certs_only([]);
            }
        }
        let http = builder.build().map_err(|error| Error::ObjectsUnreachable {
            store: address.endpoint.clone(),
            why: format!(
                "the HTTP client cannot be created, the package `ca-certificates` may be missing: {}",
                root(&error)
            ),
        })?;
        Ok(Self {
            http,
            address,
            credentials,
            slots: Semaphore::new(AT_ONCE),
            ahead: AtomicI64::new(0),
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Carries out a request whose repetition does no harm.
    pub(super) async fn call(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let mut retries = Retries::new();
        loop {
            let bytes = call.body.len().max(call.limit) as u64;
            match in_time(bytes, self.call_once(call)).await {
                Err(failure) if retries.pause(&failure).await => {}
                done => return done,
            }
        }
    }

    async fn call_once(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        // It is never closed.
        let _slot = self.slots.acquire().await;
        let mut response = self.send(call).await?;
        let body = read_up_to(&mut response, call.limit).await?;
        Ok(Answer {
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    /// Writes an object of this size to a file, and returns the hash of its bytes; nothing if it has another size.
    pub(super) async fn download(
        &self,
        key: &str,
        bytes: u64,
        file: &mut File,
    ) -> Result<Option<BlobHash>, Failure> {
        let mut retries = Retries::new();
        loop {
            match in_time(bytes, self.download_once(key, bytes, file)).await {
                Err(failure) if retries.pause(&failure).await => {}
                done => return done,
            }
        }
    }

    async fn download_once(
        &self,
        key: &str,
        bytes: u64,
        file: &mut File,
    ) -> Result<Option<BlobHash>, Failure> {
        let _slot = self.slots.acquire().await;
        file.set_len(0).await.map_err(Failure::Local)?;
        file.rewind().await.map_err(Failure::Local)?;
        let call = Call {
            method: Method::GET,
            key: Some(key),
            query: &[],
            body: Bytes::new(),
            limit: 0,
        };
        let mut response = self.send(&call).await?;
        let (mut hasher, mut read) = (Sha256::new(), 0);
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| unreachable(&error))?
        {
            read += chunk.len() as u64;
            if read > bytes {
                return Ok(None);
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(Failure::Local)?;
        }
        file.flush().await.map_err(Failure::Local)?;
        let hash = BlobHash::from_digest(hasher.finalize().into());
        Ok((read == bytes).then_some(hash))
    }

    /// Sends a request; its answer, if that is a success.
    async fn send(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let address = &self.address;
        let path = match call.key {
            Some(key) => format!("/{}/{}", address.bucket, encode(key, true)),
            None => format!("/{}", address.bucket),
        };
        let pairs = call.query.iter();
        let pairs = pairs.map(|(name, value)| format!("{name}={}", encode(value, false)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let body = hex(&Sha256::digest(&call.body));
        let signed = sign::Signed {
            method: call.method.as_str(),
            host: &address.host,
            path: &path,
            query: &query,
            body: &body,
            region: &address.region,
        };
        let mut url = format!("{}{path}", address.endpoint);
        if !query.is_empty() {
            url = format!("{url}?{query}");
        }
        let mut request = self.http.request(call.method.clone(), url);
        let ahead = self.ahead.load(Ordering::Relaxed);
        let now = OffsetDateTime::now_utc() + time::Duration::seconds(ahead);
        for (name, value) in sign::headers(&signed, &self.credentials, now) {
            request = request.header(name, value);
        }
        if call.method == Method::PUT || call.method == Method::POST {
            request = request.body(call.body.clone());
        }
        let mut response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        // The answer to `HEAD` does not say that this is the reason.
        let drift = store_time(response.headers()).map_or(0, |store| store - now.unix_timestamp());
        let is_skewed = status == StatusCode::FORBIDDEN && drift.abs() > SKEW;
        if is_skewed {
            self.ahead.store(ahead + drift, Ordering::Relaxed);
        }
        let body = read_up_to(&mut response, MAX_REFUSAL).await?;
        let code = xml::code(&String::from_utf8_lossy(&body));
        let is_passing = is_skewed
            || status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || matches!(
                code.as_str(),
                "RequestTimeout" | "SlowDown" | "XAmzContentSHA256Mismatch"
            );
        if is_passing {
            return Err(Failure::Unreachable(format!("it answered {status} {code}")));
        }
        Err(Failure::Refused { status, code })
    }
}

/// When a request is sent again.
struct Retries {
    begun: Instant,
    attempts: u32,
}

impl Retries {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            attempts: 1,
        }
    }

    /// Whether to send it again; waits before that.
    async fn pause(&mut self, failure: &Failure) -> bool {
        let may_pass = matches!(failure, Failure::Unreachable(_));
        if !may_pass || self.attempts == ATTEMPTS || self.begun.elapsed() > PATIENCE {
            return false;
        }
        // Many that failed together don't come back together.
        let chance = RandomState::new().hash_one(self.attempts) % 1000;
        let pause = PAUSE * 4_u32.pow(self.attempts - 1);
        tokio::time::sleep(pause / 2 + pause.mul_f64(f64::from(chance as u32) / 1000.0)).await;
        self.attempts += 1;
        true
    }
}

async fn in_time<T>(
    bytes: u64,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = ATTEMPT + Duration::from_secs(bytes / LEAST_RATE);
    let late = |_| Failure::Unreachable(format!("it did not answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, attempt).await.map_err(late)?
}

async fn read_up_to(response: &mut Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while body.len() <= limit
        && let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| unreachable(&error))?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn unreachable(error: &reqwest::Error) -> Failure {
    Failure::Unreachable(root(error))
}

/// The time of the store, in seconds since 1970.
fn store_time(headers: &HeaderMap) -> Option<i64> {
    let time = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The innermost cause, which says the most.
fn root(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    let mut text = "the request failed".to_owned();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
