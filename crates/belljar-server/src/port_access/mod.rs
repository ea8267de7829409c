//! How ports of sessions are named, and what lets somebody reach one.

mod name;
mod token;

use axum::http::{HeaderMap, header};

pub(crate) use name::{PortName, PortsDomain};
pub(crate) use token::Purpose;

use crate::error::ServerError;
use crate::options::ServerOptions;
use token::Signer;

/// The header that has the token of a program.
pub(crate) const TOKEN: &str = "x-belljar-port-token";

/// The parameter that has the token of a link.
pub(crate) const PARAMETER: &str = "belljar_token";

/// The cookie that has the token of a browser. By TLS, browsers accept it from its own host alone.
pub(crate) const PORT_COOKIE: &str = "belljar-port";
pub(crate) const PORT_HOST_COOKIE: &str = "__Host-belljar-port";

/// What the service needs for ports.
#[derive(Debug)]
pub(crate) struct Ports {
    domain: PortsDomain,
    pub(crate) signer: Signer,
    /// Whether browsers come by TLS.
    pub(crate) tls: bool,
    /// Whether some names are those of E2B's wire.
    e2b: bool,
}

/// Ports of the names that clients of E2B's wire call for files, commands and code.
const E2B_PORTS: [u16; 2] = [49983, 49999];

/// What lets somebody reach a port.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) host: String,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) token_ends: u64,
    pub(crate) link: String,
    pub(crate) link_ends: u64,
}

impl Ports {
    /// `None` without a domain.
    pub(crate) fn new(options: &ServerOptions) -> Result<Option<Self>, ServerError> {
        let Some(domain) = &options.ports_domain else {
            return Ok(None);
        };
        let domain = PortsDomain::parse(domain)
            .ok_or_else(|| ServerError::PortsDomain(domain.to_owned()))?;
        let signer = Signer::new().map_err(|_| ServerError::NoRandom)?;
        // Elsewhere than on this machine, a cookie without TLS counts for nothing: a proxy has it.
        let tls = options.tls.is_some() || !domain.is_local();
        Ok(Some(Self {
            domain,
            signer,
            tls,
            e2b: options.e2b,
        }))
    }

    /// The port that a request is for.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<PortName> {
        let name = self.domain.find(host_of(headers)?)?;
        (!self.e2b || !E2B_PORTS.contains(&name.port)).then_some(name)
    }

    /// Takes tokens of all nodes of a cluster.
    pub(crate) fn join(&mut self, secret: &str) {
        self.signer = Signer::of_cluster(secret);
    }

    /// Whether pages of ports could set cookies for the service, unless their names forbid it.
    pub(crate) fn share_cookies(&self) -> bool {
        !self.domain.is_local()
    }

    /// What a key gives to whoever should reach a port. `headers` are of the request for it: the service has the same port
    /// there.
    pub(crate) fn access(&self, name: &PortName, prefix: &str, headers: &HeaderMap) -> Access {
        let mut host = self.domain.host(name);
        if let Some((_, port)) = host_of(headers).and_then(|host| host.rsplit_once(':'))
            && let Ok(port) = port.parse::<u16>()
        {
            host = format!("{host}:{port}");
        }
        let url = format!("{}://{host}/", self.scheme());
        let (token, token_ends) = self.signer.sign(Purpose::Access, name, prefix);
        let (link, link_ends) = self.signer.sign(Purpose::Link, name, prefix);
        Access {
            link: format!("{url}?{PARAMETER}={link}"),
            link_ends,
            host,
            url,
            token,
            token_ends,
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    pub(crate) fn cookie(&self) -> &'static str {
        if self.tls {
            PORT_HOST_COOKIE
        } else {
            PORT_COOKIE
        }
    }
}

pub(crate) fn host_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}
