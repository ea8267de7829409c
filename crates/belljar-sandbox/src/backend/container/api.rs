//! The HTTP interface of a container engine, Docker or Podman: the few requests that sessions need.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::error::ContainerError;

/// How long an engine may take to answer; a busy one needs seconds to start a container.
const PATIENCE: Duration = Duration::from_mins(1);

/// The interface that our requests are written for: Docker 20.10. Later engines answer to it, or to their own least.
const VERSION: (u32, u32) = (1, 41);

/// What an engine may answer at most.
const MAX_ANSWER: usize = 8 << 20;

/// The default address.
pub(crate) const LOCAL: &str = "unix:///var/run/docker.sock";

/// Both directions of a container's standard streams.
pub(super) type Attached = TokioIo<hyper::upgrade::Upgraded>;

#[derive(Clone)]
enum Place {
    Unix(PathBuf),
    Tls {
        host: String,
        port: u16,
        config: Arc<ClientConfig>,
    },
}

/// A container engine.
#[derive(Clone)]
pub(crate) struct EngineApi {
    address: String,
    place: Place,
    /// The prefix of paths.
    version: String,
    /// Whether it is Podman, which ignores some of what Docker's interface has.
    pub(super) is_podman: bool,
}

impl fmt::Debug for EngineApi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EngineApi({} {})", self.address, self.version)
    }
}

impl EngineApi {
    /// Connects to the engine at an address, with the certificates of a directory (`ca.pem`, `cert.pem`, `key.pem`) if it
    /// is not a local socket.
    pub(crate) async fn connect(
        address: &str,
        certificates: Option<&Path>,
    ) -> Result<Self, ContainerError> {
        let mut api = Self {
            address: address.to_owned(),
            place: place(address, certificates)?,
            version: String::new(),
            is_podman: false,
        };
        let told = api
            .call("tell its version", Method::GET, "/version", None)
            .await?;
        let least = told["MinAPIVersion"].as_str().and_then(version_number);
        let (major, minor) = least.map_or(VERSION, |least| least.max(VERSION));
        api.version = format!("/v{major}.{minor}");
        let components = told["Components"].as_array();
        api.is_podman = components.is_some_and(|components| {
            let mut names = components.iter().map(|one| one["Name"].as_str());
            names.any(|name| name == Some("Podman Engine"))
        });
        Ok(api)
    }

    /// What the engine says of its host.
    pub(super) async fn information(&self) -> Result<Value, ContainerError> {
        self.call("describe its host", Method::GET, "/info", None)
            .await
    }

    /// Makes a container; returns its id.
    pub(super) async fn create(&self, body: &Value) -> Result<String, ContainerError> {
        let what = "create a container";
        let made = self.call(what, Method::POST, "/containers/create", Some(body));
        let made = made.await?;
        let id = made["Id"].as_str().unwrap_or_default();
        // It becomes part of paths.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let message = "its answer has no id".to_owned();
            return Err(ContainerError::Engine { what, message });
        }
        Ok(id.to_owned())
    }

    pub(super) async fn start(&self, id: &str) -> Result<(), ContainerError> {
        let path = format!("/containers/{id}/start");
        let started = self.call("start a container", Method::POST, &path, None);
        started.await.map(drop)
    }

    pub(super) async fn inspect(&self, id: &str) -> Result<Value, ContainerError> {
        let path = format!("/containers/{id}/json");
        self.call("describe a container", Method::GET, &path, None)
            .await
    }

    /// Ends a container and removes it. One that is gone is no error.
    pub(super) async fn remove(&self, id: &str) -> Result<(), ContainerError> {
        let what = "remove a container";
        let path = format!("/containers/{id}?force=1&v=1");
        let request = self.request(Method::DELETE, &path, None);
        let answer = self.within(what, self.send(what, request)).await?;
        match answer.status() {
            // It is gone, or on its way.
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(()),
            status if status.is_success() => Ok(()),
            _ => Err(refusal(what, answer).await),
        }
    }

    /// The containers with this label: id and labels.
    pub(super) async fn list(&self, label: &str) -> Result<Vec<Value>, ContainerError> {
        // `{"label":["…"]}`, of which only the quotes and brackets need an escape.
        let path =
            format!("/containers/json?all=1&filters=%7B%22label%22%3A%5B%22{label}%22%5D%7D");
        let listed = self.call("list its containers", Method::GET, &path, None);
        match listed.await? {
            Value::Array(containers) => Ok(containers),
            _ => Ok(Vec::new()),
        }
    }

    /// Attaches to the standard streams of a container that was not started yet.
    pub(super) async fn attach(&self, id: &str) -> Result<Attached, ContainerError> {
        let what = "attach to a container";
        let path = format!("/containers/{id}/attach?stream=1&stdin=1&stdout=1&stderr=1");
        let request = self.request(Method::POST, &path, None);
        let answer = self.within(what, self.send(what, request)).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(what, answer).await);
        }
        let upgraded = hyper::upgrade::on(answer).await;
        let upgraded = upgraded.map_err(|error| broken(what, &error))?;
        Ok(TokioIo::new(upgraded))
    }

    /// Whether memory ran out in a container since then, in seconds of the host's clock. It may be removed by now.
    pub(super) async fn ran_out_of_memory(&self, id: &str, since: u64, until: u64) -> bool {
        let filters =
            format!("%7B%22container%22%3A%5B%22{id}%22%5D%2C%22event%22%3A%5B%22oom%22%5D%7D");
        let path = format!("/events?since={since}&until={until}&filters={filters}");
        let events = self.fetch("list its events", Method::GET, &path, None);
        events
            .await
            .is_ok_and(|events| !events.trim_ascii().is_empty())
    }

    async fn call(
        &self,
        what: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ContainerError> {
        let answer = self.fetch(what, method, path, body).await?;
        Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }

    async fn fetch(
        &self,
        what: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, ContainerError> {
        let request = self.request(method, path, body);
        self.within(what, async {
            let answer = self.send(what, request).await?;
            if !answer.status().is_success() && answer.status() != StatusCode::NOT_MODIFIED {
                return Err(refusal(what, answer).await);
            }
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| ContainerError::Engine {
                what,
                message: error.to_string(),
            })?;
            Ok(body.to_bytes())
        })
        .await
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Request<Full<Bytes>> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        // Our own paths, made of letters: one that is no path is answered by the engine.
        if let Ok(path) = format!("{}{path}", self.version).parse() {
            *request.uri_mut() = path;
        }
        let headers = request.headers_mut();
        for (name, value) in [
            ("host", "engine"),
            ("content-type", "application/json"),
            ("connection", "Upgrade"),
            ("upgrade", "tcp"),
        ] {
            headers.insert(name, hyper::header::HeaderValue::from_static(value));
        }
        if !path.contains("/attach?") {
            headers.remove("connection");
            headers.remove("upgrade");
        }
        request
    }

    async fn within<T>(
        &self,
        what: &'static str,
        act: impl Future<Output = Result<T, ContainerError>>,
    ) -> Result<T, ContainerError> {
        let seconds = PATIENCE.as_secs();
        tokio::time::timeout(PATIENCE, act)
            .await
            .map_err(|_| ContainerError::Silent { what, seconds })?
    }

    async fn send(
        &self,
        what: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ContainerError> {
        match &self.place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                self.exchange(
                    what,
                    stream.map_err(|error| self.unreachable(error))?,
                    request,
                )
                .await
            }
            Place::Tls { host, port, config } => {
                let connect = async {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
                    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                    TlsConnector::from(Arc::clone(config))
                        .connect(name, stream)
                        .await
                };
                let stream = connect.await.map_err(|error| self.unreachable(error))?;
                self.exchange(what, stream, request).await
            }
        }
    }

    async fn exchange(
        &self,
        what: &'static str,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ContainerError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(what, &error))?;
        tokio::spawn(connection.with_upgrades());
        let answer = sender.send_request(request).await;
        answer.map_err(|error| broken(what, &error))
    }

    fn unreachable(&self, source: io::Error) -> ContainerError {
        ContainerError::Unreachable {
            address: self.address.clone(),
            source,
        }
    }
}

fn broken(what: &'static str, error: &hyper::Error) -> ContainerError {
    ContainerError::Engine {
        what,
        message: format!("the connection broke ({error})"),
    }
}

async fn refusal(what: &'static str, answer: Response<Incoming>) -> ContainerError {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), 64 << 10).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    let said: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let words = said["message"].as_str().or(said["cause"].as_str());
    let message = words.map_or_else(
        || status.to_string(),
        |words| belljar_protocol::plain(words).into_owned(),
    );
    ContainerError::Engine { what, message }
}

fn version_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn place(address: &str, certificates: Option<&Path>) -> Result<Place, ContainerError> {
    let bad = |why: String| ContainerError::Address {
        address: address.to_owned(),
        why,
    };
    if let Some(path) = address.strip_prefix("unix://") {
        return Ok(Place::Unix(PathBuf::from(path)));
    }
    let Some(rest) = address.strip_prefix("tcp://") else {
        let why = "it begins with neither `unix://` nor `tcp://`";
        return Err(bad(why.to_owned()));
    };
    let Some(directory) = certificates else {
        let why = "an engine that is not a local socket needs TLS\nhint: set DOCKER_CERT_PATH to the directory of ca.pem, cert.pem and key.pem";
        return Err(bad(why.to_owned()));
    };
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, "2376"));
    let port = port
        .parse()
        .map_err(|_| bad("its port is no number".to_owned()))?;
    let config = tls(directory).map_err(|error| {
        bad(format!(
            "the certificates in {} cannot be used: {error}",
            directory.display()
        ))
    })?;
    Ok(Place::Tls {
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        config: Arc::new(config),
    })
}

fn tls(directory: &Path) -> Result<ClientConfig, Box<dyn std::error::Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(directory.join("ca.pem"))? {
        roots.add(certificate?)?;
    }
    let chain = CertificateDer::pem_file_iter(directory.join("cert.pem"))?;
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(directory.join("key.pem"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> String {
        match place(address, None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{address} was accepted"),
        }
    }

    #[test]
    fn an_address_without_tls_is_refused_unless_it_is_local() {
        assert!(place("unix:///run/x.sock", None).is_ok());
        assert!(refused("tcp://127.0.0.1:2375").contains("needs TLS"));
        assert!(refused("http://127.0.0.1").contains("neither"));
    }

    #[test]
    fn the_interface_is_ours_or_the_engines_least() {
        assert_eq!(version_number("1.44"), Some((1, 44)));
        assert_eq!(version_number("x"), None);
        assert!((1, 44) > VERSION && (1, 9) < VERSION);
    }
}
