//! Mutual TLS between the nodes of a cluster.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_server::{Tls, TlsError};
use futures_util::{SinkExt as _, StreamExt as _};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Identity, Method};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::nodes::{BOTH, Cluster};
use crate::postgres;
use crate::support::{Ask as _, Client, World, soon, world_in};

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// A certificate for 127.0.0.1 with these uses, and its key.
    fn issue(&self, uses: &[ExtendedKeyUsagePurpose]) -> (String, String) {
        let address = Ipv4Addr::LOCALHOST.to_string();
        let mut params = CertificateParams::new([address]).unwrap();
        params.extended_key_usages = uses.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes what a node needs, which believes these authorities.
    fn write(&self, directory: &Path, believed: &[&Self]) {
        let (certificate, key) = self.issue(&[
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ]);
        let authorities = believed.iter().map(|one| one.pem.as_str());
        let authorities: String = authorities.collect();
        for (name, text) in [
            ("ca", authorities),
            ("certificate", certificate),
            ("key", key),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }

    /// A program that shows a certificate of this authority, and believes the nodes of the other one.
    fn program(&self, nodes: &Self) -> reqwest::Client {
        let (certificate, key) = self.issue(&[ExtendedKeyUsagePurpose::ClientAuth]);
        let identity = Identity::from_pem(format!("{certificate}{key}").as_bytes());
        nodes
            .believer()
            .identity(identity.unwrap())
            .build()
            .unwrap()
    }

    fn believer(&self) -> reqwest::ClientBuilder {
        let authority = Certificate::from_pem(self.pem.as_bytes()).unwrap();
        reqwest::Client::builder().tls_certs_only([authority])
    }
}

fn open(directory: &Path) -> Result<Tls, TlsError> {
    let file = |name| directory.join(name);
    Tls::open_with_node_ca(&file("certificate"), &file("key"), &file("ca"))
}

/// A node with the files of this directory.
async fn node(cluster: &Cluster, directory: &Path) -> World {
    let mut options = cluster.options();
    options.tls = Some(Arc::new(open(directory).unwrap()));
    world_in(tempfile::tempdir().unwrap(), options).await
}

/// Messages of a WebSocket until the outcome of a cell.
async fn outcome_by_socket(client: &Client, session: &str, code: &str) -> Value {
    let request = client.get(&format!("{session}/ws"));
    let request = request
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
    let upgraded = request.with(101).await.upgrade().await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    let run = json!({"type": "run", "code": code}).to_string();
    socket.send(Message::text(run)).await.unwrap();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(15), socket.next());
        let message = next.await.unwrap().unwrap().unwrap();
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message["kind"] == "outcome" {
            return message["data"].clone();
        }
    }
}

/// Requests, streams, sockets and lists pass between nodes that show each other certificates of their authority. Who shows
/// none is a client, whatever its headers say.
#[tokio::test]
async fn nodes_show_each_other_certificates() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    authority.write(directory.path(), &[&authority]);
    let cluster = Cluster::new(postgres::database(), []);
    let one = node(&cluster, directory.path()).await;
    let two = node(&cluster, directory.path()).await;
    // Programs believe the nodes by the same authority, and show nothing.
    let client = authority.believer().build().unwrap();
    let here = one.client_with("a", &BOTH).await.by_way_of(client.clone());
    let other = two.client_by(here.key.clone()).by_way_of(client);

    let session = here.session().await;
    assert_eq!(other.printed(&session, "x = 20\nprint(x)").await, "20\n");
    let events = other.stream(&session, "for i in range(3): print(i)").await;
    let events = events.rest().await;
    assert_eq!(events.last().unwrap().kind, "outcome", "{events:?}");
    let outcome = outcome_by_socket(&other, &session, "print(x + 1)").await;
    assert_eq!(outcome["stdout"]["text"], "21\n", "{outcome:#}");
    let listed = other.get("/v1/sessions").json_with(200).await;
    assert_eq!(
        listed["sessions"].as_array().unwrap().len(),
        1,
        "{listed:#}"
    );
    assert_eq!(listed.get("unanswered"), None, "{listed:#}");

    // The mark of a request that was passed on is for nodes.
    for (method, path) in [
        (Method::GET, session.as_str()),
        (Method::POST, "/v1/sessions"),
        (Method::GET, "/v1/sessions"),
        (Method::GET, "/openapi.json"),
    ] {
        let forged = here.request(method, path).header("x-belljar-node", "1");
        forged.problem(403, "node_not_trusted").await;
    }
    let of_node = here.by_way_of(authority.program(&authority));
    let passed_on = of_node.get(&session).header("x-belljar-node", "1");
    passed_on.with(200).await;
    let twice = other.by_way_of(authority.program(&authority)).get(&session);
    let twice = twice.header("x-belljar-node", "1");
    twice.problem(404, "session_not_found").await;
    // It is no key.
    let keyless = of_node.without_key(Method::GET, &session);
    let keyless = keyless.header("x-belljar-node", "1");
    keyless.problem(401, "unauthorized").await;
    // Not even the handshake succeeds with another certificate.
    let strange = here.by_way_of(stranger.program(&authority));
    strange.get(&session).send().await.unwrap_err();
    one.ends().await;
    two.ends().await;
}

/// A node with a certificate of another authority is believed neither as a client nor as a server.
#[tokio::test]
async fn a_node_of_another_authority_is_refused() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let [own, strange] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    authority.write(own.path(), &[&authority]);
    // It believes the others.
    stranger.write(strange.path(), &[&stranger, &authority]);
    let cluster = Cluster::new(postgres::database(), []);
    let one = node(&cluster, own.path()).await;
    let two = node(&cluster, strange.path()).await;
    let here = one.client_with("a", &BOTH).await;
    let other = two.client_by(here.key.clone());
    let (kept, wanted) = (here.session().await, other.session().await);
    here.printed(&kept, "x = 1").await;
    // As a server: nothing is sent to it.
    here.get(&wanted).problem(503, "node_lost").await;
    // As a client: with TLS 1.3, it has sent its request when it is refused.
    other.get(&kept).problem(502, "node_broke_off").await;
    let listed = here.get("/v1/sessions").json_with(200).await;
    assert_eq!(
        listed["sessions"].as_array().unwrap().len(),
        1,
        "{listed:#}"
    );
    assert_eq!(listed["unanswered"].as_array().unwrap().len(), 1);
    one.ends().await;
    two.ends().await;
}

/// A node without TLS gets nothing of one that has an authority, and is no node for it.
#[tokio::test]
async fn a_node_without_tls_is_refused() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    authority.write(directory.path(), &[&authority]);
    let cluster = Cluster::new(postgres::database(), []);
    let one = node(&cluster, directory.path()).await;
    let two = cluster.node().await;
    let here = one.client_with("a", &BOTH).await;
    let other = two.client_by(here.key.clone());
    let (kept, wanted) = (here.session().await, other.session().await);
    here.get(&wanted).problem(500, "internal").await;
    other.get(&kept).problem(503, "node_lost").await;
    one.ends().await;
    two.ends().await;
}

/// Certificates and authorities of nodes are read again when their files change, on both sides of a connection.
#[tokio::test]
async fn waits_nodes_change_their_authority() {
    let (old, new) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    old.write(directory.path(), &[&old]);
    let cluster = Cluster::new(postgres::database(), []);
    let one = node(&cluster, directory.path()).await;
    let two = node(&cluster, directory.path()).await;
    let here = one.client_with("a", &BOTH).await;
    let other = two.client_by(here.key.clone());
    let session = here.session().await;
    other.get(&session).with(200).await;
    let is_node = async |of: &Authority, nodes: &Authority| {
        let request = here.by_way_of(of.program(nodes)).get(&session);
        let answer = request.header("x-belljar-node", "1").send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    assert!(is_node(&old, &old).await);
    // Both are believed for a while, as an operator does it: nothing is refused meanwhile.
    old.write(directory.path(), &[&old, &new]);
    soon(async || is_node(&new, &old).await).await;
    other.get(&session).with(200).await;
    new.write(directory.path(), &[&new]);
    soon(async || is_node(&new, &new).await).await;
    soon(async || other.get(&session).send().await.unwrap().status() == 200).await;
    assert!(!is_node(&old, &new).await);
    one.ends().await;
    two.ends().await;
}

/// A certificate that other nodes would refuse is refused at the start.
#[test]
fn a_node_that_others_would_refuse_does_not_start() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let refused = |file: &str, why: &str| {
        let error = open(directory.path()).unwrap_err().to_string();
        let path = directory.path().join(file);
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        assert!(error.contains(why), "{error}");
    };
    authority.write(directory.path(), &[&stranger]);
    refused("certificate", "other nodes would refuse it");
    authority.write(directory.path(), &[]);
    refused("ca", "no certificate");
    authority.write(directory.path(), &[&authority]);
    open(directory.path()).unwrap();
    // Not for clients.
    let (certificate, key) = authority.issue(&[ExtendedKeyUsagePurpose::ServerAuth]);
    std::fs::write(directory.path().join("certificate"), certificate).unwrap();
    std::fs::write(directory.path().join("key"), key).unwrap();
    refused("certificate", "other nodes would refuse it");
}
