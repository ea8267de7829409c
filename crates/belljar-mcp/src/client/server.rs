//! Opening a connection to a server, and listing its tools.

use std::sync::Arc;
use std::time::Duration;

use belljar_agent::http_client;
use belljar_protocol::visible;
use reqwest::Url;
use reqwest::header::HeaderMap;
use rmcp::model::{ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion, Tool};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, RunningService,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use rmcp::{ClientHandler, RoleClient};
use tokio::time::timeout;

use super::calls;
use super::error::ClientError;
use super::http::Bounded;
use super::limits::{MAX_MESSAGE, ResponsesOnly};
use super::offer::words;
use super::process::Process;
use super::spec::ServerSpec;

/// How long a server has to open a connection, by each of the two methods: `server/discover`, and
/// if that is not answered, `initialize`.
const OPENING: Duration = Duration::from_secs(10);

/// How long it has to list its tools.
const LISTING: Duration = Duration::from_secs(10);

/// The most tools of a server, pages of them, and bytes of their definitions.
const MAX_TOOLS: usize = 500;
const MAX_PAGES: usize = 100;
const MAX_LISTED: usize = 8 << 20;

/// The most characters of a server's message in an error.
const MAX_SAID: usize = 1000;

/// Our own description for a server.
pub(super) struct Us;

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new("belljar", env!("CARGO_PKG_VERSION"));
        info
    }
}

pub(super) type Running = RunningService<RoleClient, Us>;

/// A server that is connected to.
pub(super) struct Server<'a> {
    pub(super) name: &'a str,
    pub(super) spec: &'a ServerSpec,
}

impl Server<'_> {
    /// Starts its program, and opens a connection.
    pub(super) async fn start(
        &self,
        program: &std::path::Path,
        arguments: &[String],
        environment: Vec<(String, std::ffi::OsString)>,
    ) -> Result<(Running, Arc<Process>), ClientError> {
        let started = Process::start(program, arguments, environment, self.spec.secrets());
        let (process, lines) = started.map_err(|error| self.ended(error.to_string()))?;
        let running = self.open(lines, Some(&process)).await?;
        Ok((running, process))
    }

    /// Opens a connection over HTTP.
    pub(super) async fn reach(
        &self,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<Running, ClientError> {
        let client = http_client(headers, url, OPENING).map_err(|why| self.unusable(why))?;
        let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
            .max_sse_event_size(MAX_MESSAGE);
        let client = Bounded {
            client,
            secrets: self.spec.secrets(),
        };
        let transport = StreamableHttpClientTransport::with_client(client, config);
        self.open(transport, None).await
    }

    /// By the newest revision that both know.
    async fn open<T>(&self, transport: T, process: Option<&Process>) -> Result<Running, ClientError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let opening = Us.serve_with_lifecycle(ResponsesOnly::new(transport), lifecycle);
        match timeout(2 * OPENING, opening).await {
            Ok(Ok(running)) => Ok(running),
            Ok(Err(error)) => Err(self.lost(process, &reason(error)).await),
            Err(_) => Err(self.silent("open a connection", 2 * OPENING, process)),
        }
    }

    /// Its tools, page by page.
    pub(super) async fn list(
        &self,
        peer: &Peer<RoleClient>,
        process: Option<&Process>,
    ) -> Result<Vec<Tool>, ClientError> {
        let too_much = |why: String| ClientError::TooMuch {
            server: self.name.to_owned(),
            why,
        };
        let listing = async {
            let (mut tools, mut bytes, mut cursor) = (Vec::new(), 0, None);
            for _ in 0..MAX_PAGES {
                let page = PaginatedRequestParams::default().with_cursor(cursor);
                let page = match peer.list_tools(Some(page)).await {
                    Ok(page) => page,
                    Err(error) => return Err(self.lost(process, &calls::reason(error)).await),
                };
                let size = |tool: &Tool| serde_json::to_vec(tool).map_or(0, |json| json.len());
                bytes += page.tools.iter().map(size).sum::<usize>();
                tools.extend(page.tools);
                if tools.len() > MAX_TOOLS || bytes > MAX_LISTED {
                    return Err(too_much(format!(
                        "at most {MAX_TOOLS} tools, and {MAX_LISTED} bytes of definitions"
                    )));
                }
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return Ok(tools);
                }
            }
            Err(too_much(format!("at most {MAX_PAGES} pages of tools")))
        };
        let listed = timeout(LISTING, listing).await;
        listed.unwrap_or_else(|_| Err(self.silent("list its tools", LISTING, process)))
    }

    /// The connection broke: the program has ended, or speaks another protocol.
    async fn lost(&self, process: Option<&Process>, why: &str) -> ClientError {
        let Some(process) = process else {
            return self.unusable(why.to_owned());
        };
        if let Some(why) = process.given_up.get() {
            return self.unusable(why.clone());
        }
        match process.ending().await {
            Some(status) => self.ended(format!("it ended with {status}{}", said(process))),
            None => self.unusable(format!("{why}{}", said(process))),
        }
    }

    fn silent(
        &self,
        what: &'static str,
        limit: Duration,
        process: Option<&Process>,
    ) -> ClientError {
        ClientError::Silent {
            server: self.name.to_owned(),
            what,
            seconds: limit.as_secs(),
            said: process.map(said).unwrap_or_default(),
        }
    }

    /// A program that could not be started, or ended.
    fn ended(&self, why: String) -> ClientError {
        ClientError::Start {
            server: self.name.to_owned(),
            why,
            command: visible(&self.spec.command.join(" ")).into(),
        }
    }

    fn unusable(&self, why: String) -> ClientError {
        ClientError::Unusable {
            server: self.name.to_owned(),
            why,
        }
    }
}

/// The last lines that a program wrote to standard error.
fn said(process: &Process) -> String {
    match words(&process.said(), MAX_SAID) {
        said if said.is_empty() => String::new(),
        said => format!("; it wrote:\n{said}"),
    }
}

fn reason(error: ClientInitializeError) -> String {
    let why = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return reason(*fallback),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".into(),
        ClientInitializeError::JsonRpcError(error) => error.message.into_owned(),
        ClientInitializeError::TransportError { error, .. } => calls::innermost(&*error.error),
        // They hold the whole of what came.
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_) => "it sent an unexpected answer".into(),
        other => other.to_string(),
    };
    words(&why, MAX_SAID)
}
