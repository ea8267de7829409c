//! Tools of other programs: servers of the Model Context Protocol whose tools code in a run may call.
//!
//! A server is not trusted. Its messages have size limits, requests to it have timeouts, its
//! requests to us are refused, and its texts are made plain before anyone sees them. A tool whose
//! definition differs from the accepted one is not granted.

mod calls;
mod error;
mod http;
mod judge;
mod limits;
mod offer;
mod pins;
mod process;
mod result;
mod secrets;
mod server;
mod spec;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

use belljar_agent::HostTool;
use rmcp::service::ClientCacheConfig;

use calls::Calls;
pub use error::{ClientError, SpecError, ValueError};
use judge::judge;
pub use judge::{OfferedTool, Part, Withheld};
pub use offer::OfferError;
use offer::{Offer, words};
use pins::Pins;
use process::Process;
use server::{Running, Server};
use spec::ServerTransport;
pub use spec::{Header, ServerSpec, Source};

/// The most bytes of the definitions of granted tools.
const MAX_GRANTED: usize = 1 << 20;

/// A connection to a server. The server ends with it, if we started it.
pub struct Connection {
    name: String,
    tools: Vec<(OfferedTool, Option<Offer>)>,
    calls: Calls,
    running: Running,
    process: Option<Arc<Process>>,
}

/// Which tools count as accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Those that were accepted before; all, at the first time.
    AsBefore,
    /// Those that the server offers now, from now on.
    Now,
}

/// Connects to a server of the settings, and compares its tools with the accepted ones, which are
/// kept in the directory `pins`.
///
/// # Errors
/// [`ClientError`], if it is missing or can't be used. A tool that is not granted is not an error.
pub async fn connect(
    name: &str,
    spec: &ServerSpec,
    pins: &Path,
    accept: Accept,
) -> Result<Connection, ClientError> {
    let server = Server { name, spec };
    let transport = spec.check(name).and_then(|()| spec.transport());
    let transport = transport.map_err(|why| ClientError::Settings {
        server: name.to_owned(),
        why,
    })?;
    let (running, process) = match transport {
        ServerTransport::Start {
            program,
            arguments,
            environment,
        } => {
            let (running, process) = server.start(&program, &arguments, environment).await?;
            (running, Some(process))
        }
        ServerTransport::Address { url, headers } => (server.reach(&url, headers).await?, None),
    };
    let peer = running.peer();
    peer.set_response_cache_config(ClientCacheConfig::disabled())
        .await;
    let listed = server.list(peer, process.as_deref()).await?;
    let accepted = accepted(name, pins, Pins::from_tools(&listed), accept)?;
    let tools = judge(name, spec, &listed, &accepted);
    let size = |offer: &Offer| serde_json::to_vec(&offer.stub).map_or(0, |json| json.len());
    let bytes: usize = granted(&tools).map(size).sum();
    if bytes > MAX_GRANTED {
        return Err(ClientError::TooMuch {
            server: name.to_owned(),
            why: format!(
                "{bytes} bytes of descriptions and schemas, at most {MAX_GRANTED}\n\
                 hint: name the tools that you want in `tools` of `[mcp.{name}]`"
            ),
        });
    }
    let weak = process.as_ref().map_or_else(Weak::new, Arc::downgrade);
    let calls = Calls::new(name, peer.clone(), weak, spec.call_timeout());
    Ok(Connection {
        name: name.to_owned(),
        tools,
        calls,
        running,
        process,
    })
}

/// The accepted tools of a server: its current ones if requested, or if none were accepted before.
fn accepted(
    server: &str,
    directory: &Path,
    offered: Pins,
    accept: Accept,
) -> Result<Pins, ClientError> {
    let path = pins::path(directory, server);
    let before = match accept {
        Accept::AsBefore => Pins::load(&path),
        Accept::Now => Ok(None),
    };
    let accepted = before.and_then(|before| match before {
        Some(before) => Ok(before),
        None => offered.save(&path).map(|()| offered),
    });
    accepted.map_err(|error| ClientError::Pins {
        server: server.to_owned(),
        path,
        why: error.to_string(),
    })
}

fn granted(tools: &[(OfferedTool, Option<Offer>)]) -> impl Iterator<Item = &Offer> {
    let granted = tools.iter().filter(|(tool, _)| tool.withheld.is_none());
    granted.filter_map(|(_, offer)| offer.as_ref())
}

impl Connection {
    /// The server's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The granted tools. Their calls fail once the connection is dropped.
    pub fn tools(&self) -> Vec<HostTool> {
        let tool = |offer: &Offer| {
            let calls = self.calls.clone();
            let (tool, schema) = (offer.tool.clone(), offer.stub.result.clone());
            HostTool::new(offer.stub.clone(), offer.effects, move |invocation| {
                let calls = calls.clone();
                calls.call(tool.clone(), invocation, schema.clone())
            })
        };
        granted(&self.tools).map(tool).collect()
    }

    /// All of its tools, granted or not.
    pub fn offered(&self) -> impl Iterator<Item = &OfferedTool> {
        self.tools.iter().map(|(tool, _)| tool)
    }

    /// The protocol revision of the connection.
    pub fn revision(&self) -> String {
        let info = self.running.peer().peer_info();
        info.map(|info| words(info.protocol_version.as_str(), 20))
            .unwrap_or_default()
    }

    /// The id of its process, if we started it.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.id())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
