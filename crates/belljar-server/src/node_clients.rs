//! HTTP clients for the other nodes of a cluster.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use belljar_agent::http_client;
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};

use crate::lock::lock;
use crate::problem::Problem;

const CONNECT: Duration = Duration::from_secs(3);

/// Nodes come and go. Those that went are few.
const MOST: usize = 100;

/// A client for each node, by its address: it keeps connections.
#[derive(Debug, Default)]
pub(crate) struct NodeClients(Mutex<HashMap<String, Client>>);

impl NodeClients {
    /// The client for the node with this address.
    pub(crate) fn get(&self, url: &Url) -> Result<Client, Problem> {
        let mut clients = lock(&self.0);
        let origin = url.origin().ascii_serialization();
        if let Some(client) = clients.get(&origin) {
            return Ok(client.clone());
        }
        let client = http_client(HeaderMap::new(), url, CONNECT);
        let client = client.map_err(|error| Problem::internal("a client for nodes", error))?;
        if clients.len() >= MOST {
            clients.clear();
        }
        clients.insert(origin, client.clone());
        Ok(client)
    }
}
