//! HTTP clients for the other nodes of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_agent::http_client_builder;
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use rustls::ClientConfig;

use crate::lock::lock;
use crate::problem::Problem;
use crate::tls::Tls;

const CONNECT: Duration = Duration::from_secs(3);

/// Nodes come and go. Those that went are few.
const MOST: usize = 100;

/// A client for each node, by its address: it keeps connections.
#[derive(Debug)]
pub(crate) struct NodeClients {
    /// With the certificate authority of the nodes, if they have one.
    tls: Option<Arc<Tls>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What they were made with. Files of certificates change.
    config: Option<Arc<ClientConfig>>,
    clients: HashMap<String, Client>,
}

impl NodeClients {
    pub(crate) fn new(tls: Option<Arc<Tls>>) -> Self {
        Self {
            tls,
            known: Mutex::default(),
        }
    }

    /// The client for the node with this address.
    pub(crate) fn get(&self, url: &Url) -> Result<Client, Problem> {
        let failed =
            |error: &dyn ToString| Problem::internal("a client for nodes", error.to_string());
        let config = self.tls.as_ref().and_then(|tls| tls.node_config());
        if config.is_some() && url.scheme() != "https" {
            return Err(failed(&format!("`{url}` has no TLS")));
        }
        let mut known = lock(&self.known);
        if known.config.as_ref().map(Arc::as_ptr) != config.as_ref().map(Arc::as_ptr) {
            known.clients.clear();
            known.config.clone_from(&config);
        }
        let origin = url.origin().ascii_serialization();
        if let Some(client) = known.clients.get(&origin) {
            return Ok(client.clone());
        }
        let mut builder = http_client_builder(HeaderMap::new(), url, CONNECT);
        if let Some(config) = config {
            builder = builder.tls_backend_preconfigured(ClientConfig::clone(&config));
        }
        let client = builder.build().map_err(|error| failed(&error))?;
        if known.clients.len() >= MOST {
            known.clients.clear();
        }
        known.clients.insert(origin, client.clone());
        Ok(client)
    }
}
