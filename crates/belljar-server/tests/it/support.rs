//! A service for one test, and clients of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_sandbox::{
    Engine, EngineSet, Environment, EnvironmentSpec, EnvironmentStore, SessionOptions,
};
use belljar_server::{NewKey, Scope, Server, ServerOptions, Tenants};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::spread::{Balancer, spread};

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) server: Arc<Server>,
    pub(crate) data: tempfile::TempDir,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
    scheme: &'static str,
    http: reqwest::Client,
    /// Those of all nodes.
    admins: Vec<SocketAddr>,
}

/// Somebody with a key.
#[derive(Clone)]
pub(crate) struct Client {
    scheme: &'static str,
    address: SocketAddr,
    http: reqwest::Client,
    pub(crate) key: NewKey,
}

pub(crate) fn bare() -> Environment {
    let store = EnvironmentStore::open_default().unwrap();
    store.load("bare").unwrap_or_else(|_| {
        // Another test may be faster.
        let made = store.create(&EnvironmentSpec::new("bare".to_owned()), &mut |_| {});
        made.or_else(|_| store.load("bare")).unwrap()
    })
}

pub(crate) async fn world() -> World {
    world_with(ServerOptions::default()).await
}

pub(crate) async fn world_with(options: ServerOptions) -> World {
    world_in(tempfile::tempdir().unwrap(), options).await
}

/// A service with the data that another one left.
pub(crate) async fn world_in(data: tempfile::TempDir, options: ServerOptions) -> World {
    world_of_engines(|| Engine::builder(bare()).build(), data, options).await
}

/// A service with these engines, on each of its nodes.
pub(crate) async fn world_of_engines<E: Into<EngineSet>>(
    engines: impl Fn() -> E,
    data: tempfile::TempDir,
    mut options: ServerOptions,
) -> World {
    // The client wants one, also where it speaks plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let scheme = if options.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let directories = spread(data.path(), &mut options);
    let mut nodes = Vec::new();
    for directory in &directories {
        nodes.push(Node::new(engines().into(), directory, scheme, options.clone()).await);
    }
    let address = nodes[0].listener.local_addr().unwrap();
    let balancer = match &nodes[..] {
        [_] => None,
        nodes => {
            let addresses = nodes.iter().map(|node| node.listener.local_addr().unwrap());
            Some(Balancer::start(addresses.collect()).await)
        }
    };
    let admins: Vec<_> = nodes.iter().map(|node| node.admin).collect();
    let server = Arc::clone(&nodes[0].server);
    let (stop, stopped) = oneshot::channel();
    let stopped = stopped.shared();
    let address = balancer.as_ref().map_or(address, |all| all.address);
    let task = tokio::spawn(async move {
        let serving = nodes.into_iter().map(|node| {
            let stop = stopped.clone().map(|_| ());
            let Node {
                server,
                listener,
                admin_listener,
                ..
            } = node;
            async move { server.serve(listener, admin_listener, stop).await }
        });
        let ended = join_all(serving).await;
        drop(balancer);
        ended.into_iter().collect()
    });
    let mut http = reqwest::Client::builder()
        // Whom a client believes is for tests of TLS.
        .tls_danger_accept_invalid_certs(scheme == "https");
    if admins.len() > 1 {
        // Each request goes to the next node.
        http = http.pool_max_idle_per_host(0);
    }
    World {
        address,
        admin: admins[0],
        server,
        data,
        stop: Some(stop),
        task,
        scheme,
        http: http.build().unwrap(),
        admins,
    }
}

/// A service before it serves.
struct Node {
    server: Arc<Server>,
    listener: TcpListener,
    /// A demonstration has none.
    admin_listener: Option<TcpListener>,
    admin: SocketAddr,
}

impl Node {
    async fn new(
        engines: EngineSet,
        data: &Path,
        scheme: &str,
        mut options: ServerOptions,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tenants = match &mut options.cluster {
            Some(cluster) => {
                cluster.address = format!("{scheme}://{address}");
                Box::pin(Tenants::connect(&cluster.database)).await
            }
            None => Tenants::open(data).await,
        };
        let tenants = tenants.unwrap();
        tenants.first_key().await.unwrap();
        let is_demo = options.demo;
        let server = Box::pin(Server::new(engines, tenants, data, options)).await;
        let admin_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            server: Arc::new(server.unwrap()),
            listener,
            admin: admin_listener.local_addr().unwrap(),
            admin_listener: (!is_demo).then_some(admin_listener),
        }
    }
}

/// With fewer milliseconds for a cell, so that tests of limits are short.
pub(crate) fn options(change: impl FnOnce(&mut ServerOptions)) -> ServerOptions {
    let mut options = ServerOptions {
        session: SessionOptions::default(),
        ..ServerOptions::default()
    };
    change(&mut options);
    options
}

impl World {
    pub(crate) async fn client(&self, tenant: &str) -> Client {
        self.client_with(tenant, &[Scope::Sessions]).await
    }

    pub(crate) async fn client_with(&self, tenant: &str, scopes: &[Scope]) -> Client {
        let tenant = tenant.parse().unwrap();
        let key = self
            .server
            .tenants()
            .create_key(&tenant, scopes, None)
            .await;
        Client {
            scheme: self.scheme,
            address: self.address,
            http: self.http.clone(),
            key: key.unwrap(),
        }
    }

    /// Somebody with a key that was made before.
    pub(crate) fn client_by(&self, key: NewKey) -> Client {
        Client {
            scheme: self.scheme,
            address: self.address,
            http: self.http.clone(),
            key,
        }
    }

    /// Somebody who asks at the address of admins.
    pub(crate) async fn admin(&self, scopes: &[Scope]) -> Client {
        let client = self.client_with("operators", scopes).await;
        Client {
            // It is on loopback.
            scheme: "http",
            address: self.admin,
            ..client
        }
    }

    /// Tells the service to stop and waits until it has; its data.
    pub(crate) async fn ends(mut self) -> tempfile::TempDir {
        let _ = self.stop.take().unwrap().send(());
        let ended = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        ended.expect("the service did not stop").unwrap().unwrap();
        self.data
    }

    /// What the server says to these bytes, until it closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let ended = tokio::time::timeout(Duration::from_secs(25), read).await;
        ended.expect("the connection stayed open").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) async fn metrics(&self) -> String {
        self.metrics_of(self.admin).await
    }

    async fn metrics_of(&self, admin: SocketAddr) -> String {
        let url = format!("http://{admin}/metrics");
        self.http
            .get(url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }
}

impl Client {
    /// The same by way of another HTTP client.
    pub(crate) fn by_way_of(&self, http: reqwest::Client) -> Self {
        Self {
            http,
            ..self.clone()
        }
    }

    /// The same with another key.
    pub(crate) fn with_key(&self, text: &str) -> Self {
        let mut other = self.clone();
        text.clone_into(&mut other.key.text);
        other
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.without_key(method, path).bearer_auth(&self.key.text)
    }

    pub(crate) fn without_key(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}://{}{path}", self.scheme, self.address);
        self.http.request(method, url)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that tests write `json!` without `&`"
    )]
    pub(crate) fn post(&self, path: &str, body: Value) -> RequestBuilder {
        self.request(Method::POST, path).json(&body)
    }

    pub(crate) fn put(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.request(Method::PUT, path).body(body)
    }

    pub(crate) fn delete(&self, path: &str) -> RequestBuilder {
        self.request(Method::DELETE, path)
    }

    /// Starts a session; its path.
    pub(crate) async fn session(&self) -> String {
        let session = self.post("/v1/sessions", json!({})).json_with(201).await;
        format!("/v1/sessions/{}", session["id"].as_str().unwrap())
    }

    /// Runs a cell to its end; its outcome.
    pub(crate) async fn run(&self, session: &str, code: &str) -> Value {
        self.post(&format!("{session}/cells"), json!({"code": code}))
            .json_with(200)
            .await
    }

    pub(crate) async fn printed(&self, session: &str, code: &str) -> String {
        let outcome = self.run(session, code).await;
        assert_eq!(outcome["status"], "success", "{outcome:#}");
        outcome["stdout"]["text"].as_str().unwrap().to_owned()
    }

    /// Starts a cell whose events come as a stream.
    pub(crate) async fn stream(&self, session: &str, code: &str) -> Events {
        let request = self.post(&format!("{session}/cells"), json!({"code": code}));
        Events::from_request(request.header("accept", "text/event-stream")).await
    }
}

#[allow(async_fn_in_trait, reason = "for the tests alone")]
pub(crate) trait Ask {
    async fn with(self, status: u16) -> Response;
    async fn json_with(self, status: u16) -> Value;
    async fn problem(self, status: u16, code: &str) -> Value;
}

impl Ask for RequestBuilder {
    async fn with(self, status: u16) -> Response {
        let response = self.send().await.unwrap();
        if response.status().as_u16() != status {
            let (got, url) = (response.status(), response.url().clone());
            panic!("{url}: {got} {}", response.text().await.unwrap());
        }
        response
    }

    async fn json_with(self, status: u16) -> Value {
        self.with(status).await.json().await.unwrap()
    }

    async fn problem(self, status: u16, code: &str) -> Value {
        let response = self.with(status).await;
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        let retry_after = response.headers().contains_key("retry-after");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], code, "{problem:#}");
        assert_eq!(problem["type"], format!("/errors/{code}"));
        assert_eq!(problem["status"], status);
        assert_eq!(problem["retry"], retry_after, "{problem:#}");
        // That of a session may be named.
        let text = problem.to_string().replace("`/tmp`", "");
        for leak in ["/tmp", "/proc", "/root", "os error", ".rs:", "sqlite"] {
            assert!(!text.contains(leak), "{text}");
        }
        problem
    }
}

/// A stream of events that is being read.
pub(crate) struct Events {
    response: Response,
    text: String,
}

/// One event: its number, its kind, what it says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Events {
    pub(crate) async fn from_request(request: RequestBuilder) -> Self {
        let response = request.with(200).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            text: String::new(),
        }
    }

    /// The next event; `None` where the stream ends.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let start = format!("{name}: ");
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(&start).map(str::to_owned))
                };
                let Some(id) = field("id") else {
                    continue;
                };
                return Some(Told {
                    id: id.parse().unwrap(),
                    kind: field("event").unwrap(),
                    data: serde_json::from_str(&field("data").unwrap()).unwrap(),
                });
            }
            let chunk = self.response.chunk().await.ok()??;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await {
            all.push(told);
        }
        all
    }
}

/// Waits until it is so, with time for a machine that is starved.
pub(crate) async fn soon(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never was so");
}

/// Permits of one kind that the tenant with the most has taken, on all nodes together.
pub(crate) async fn taken(world: &World, kind: &str) -> u64 {
    let mut taken = 0;
    for admin in &world.admins {
        let metrics = world.metrics_of(*admin).await;
        let line = metrics.lines().find(|line| {
            line.contains(&format!("kind=\"{kind}\""))
                && line.contains("of=\"tenant\"")
                && line.contains("used")
        });
        let line = line.unwrap_or_else(|| panic!("{metrics}"));
        taken += line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    }
    taken
}

pub(crate) async fn until_free(world: &World, kind: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while taken(world, kind).await > 0 {
        assert!(Instant::now() < deadline, "{kind} are not given back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
