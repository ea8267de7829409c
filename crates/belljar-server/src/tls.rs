//! TLS, by rustls: certificates that can be replaced while the service runs.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time limit of a handshake. Their number is limited only by that of connections: with few permits,
/// clients would wait for silent ones.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether the files have changed.
const LOOK: Duration = Duration::from_secs(5);

/// Error of loading a TLS certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The files don't belong together.
    #[error("`{}` is not the private key of the first certificate in `{}`", key.display(), certificate.display())]
    Apart {
        /// The file with the key.
        key: PathBuf,
        /// The file with the certificates.
        certificate: PathBuf,
    },
}

/// A TLS certificate and its private key, reloaded when their files change.
///
/// For the nodes of a cluster, it can have their certificate authority as well: then they show each other this
/// certificate, and accept only what that authority has signed.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    node_ca: Option<PathBuf>,
}

/// How TLS is spoken now.
#[derive(Clone, Debug)]
struct Current {
    server: Arc<ServerConfig>,
    /// As a client of other nodes.
    node: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads a certificate chain and its private key, both as PEM.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::read(certificate, key, None)
    }

    /// The same with the certificate authority of the nodes of a cluster: one certificate or several, as PEM. It must
    /// have signed the certificate, for servers and for clients.
    pub fn open_with_node_ca(
        certificate: &Path,
        key: &Path,
        node_ca: &Path,
    ) -> Result<Self, TlsError> {
        Self::read(certificate, key, Some(node_ca))
    }

    fn read(certificate: &Path, key: &Path, node_ca: Option<&Path>) -> Result<Self, TlsError> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            node_ca: node_ca.map(Path::to_owned),
        };
        let current = RwLock::new(Current::read(&files)?);
        Ok(Self { files, current })
    }

    /// Whether only nodes with a certificate of their authority may pass requests on.
    pub(crate) fn has_node_ca(&self) -> bool {
        self.files.node_ca.is_some()
    }

    /// How this node talks to others, if they have an authority.
    pub(crate) fn node_config(&self) -> Option<Arc<ClientConfig>> {
        self.current().node
    }

    fn current(&self) -> Current {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again whenever they have changed. Where they can't be used, what was there before stays.
    pub(crate) async fn follow(&self) {
        let mut seen = self.files.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let stamp = self.files.stamp();
            if stamp == seen {
                continue;
            }
            match Current::read(&self.files) {
                Ok(read) => {
                    let current = self.current.write();
                    *current.unwrap_or_else(PoisonError::into_inner) = read;
                    tracing::info!("TLS certificate reloaded");
                }
                // One of the files may not have been written yet: its change is seen, too.
                Err(error) => {
                    tracing::warn!(%error, "cannot reload the TLS certificate; the old one stays in use");
                }
            }
            seen = stamp;
        }
    }

    /// Agrees with a client on how to talk; `None` if they don't, or not in time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let acceptor = TlsAcceptor::from(self.current().server);
            match acceptor.accept(stream).await {
                Ok(stream) => Some(stream),
                Err(error) => {
                    tracing::debug!(%error, "TLS handshake failed");
                    None
                }
            }
        };
        timeout(HANDSHAKE_TIME, handshake).await.ok().flatten()
    }
}

/// Whether the other side of a connection has shown a certificate. It is one that was accepted.
pub(crate) fn has_certificate(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.peer_certificates().is_some()
}

impl Files {
    /// By what it is seen that a file has changed.
    fn stamp(&self) -> [Option<(u64, i64, i64, u64)>; 3] {
        let files = [
            Some(&self.certificate),
            Some(&self.key),
            self.node_ca.as_ref(),
        ];
        files.map(|path| {
            let data = std::fs::metadata(path?).ok()?;
            Some((data.ino(), data.mtime(), data.mtime_nsec(), data.size()))
        })
    }
}

impl Current {
    fn read(files: &Files) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let failed = |error: rustls::Error| wrong(&files.certificate, &error);
        let shown = Arc::new(read(&files.certificate, &files.key, &provider)?);
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let (config, node) = match &files.node_ca {
            None => (config.with_no_client_auth(), None),
            Some(node_ca) => {
                let roots = Arc::new(read_roots(node_ca)?);
                let verifier = read_verifier(node_ca, &roots, &provider)?;
                check_own(&files.certificate, &shown, &*verifier)?;
                let node = ClientConfig::builder_with_provider(provider);
                let node = node.with_safe_default_protocol_versions().map_err(failed)?;
                let node = node
                    .with_root_certificates(roots)
                    .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(
                        &shown,
                    ))));
                (
                    config.with_client_cert_verifier(verifier),
                    Some(Arc::new(node)),
                )
            }
        };
        let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        // What the listener speaks.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            server: Arc::new(config),
            node,
        })
    }
}

/// The certificates of an authority.
fn read_roots(node_ca: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(node_ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong(node_ca, &error))?;
    }
    Ok(roots)
}

/// Clients without a certificate are those of the API.
fn read_verifier(
    node_ca: &Path,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let verifier = verifier.allow_unauthenticated().build();
    verifier.map_err(|error| wrong(node_ca, &error))
}

/// A node whose certificate others would refuse does not start.
fn check_own(
    path: &Path,
    shown: &CertifiedKey,
    verifier: &dyn ClientCertVerifier,
) -> Result<(), TlsError> {
    let checked = match shown.cert.split_first() {
        Some((own, chain)) => verifier.verify_client_cert(own, chain, UnixTime::now()),
        None => Err(rustls::Error::NoCertificatesPresented),
    };
    let refused =
        |error: rustls::Error| wrong(path, &format!("other nodes would refuse it: {error}"));
    checked.map(drop).map_err(refused)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path);
    let certificates = certificates.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = certificates.map_err(|error| not_pem(path, error))?;
    if certificates.is_empty() {
        return Err(wrong(path, &"it has no certificate (PEM)"));
    }
    Ok(certificates)
}

fn read(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|error| not_pem(key, error))?;
    let private = provider.key_provider.load_private_key(private);
    let private = private.map_err(|error| wrong(key, &error))?;
    let pair = CertifiedKey::new(chain, private);
    match pair.keys_match() {
        Ok(()) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Apart {
            key: key.to_owned(),
            certificate: certificate.to_owned(),
        }),
        Err(error) => Err(wrong(certificate, &error)),
    }
}

fn not_pem(path: &Path, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(source) => TlsError::Io {
            path: path.to_owned(),
            source,
        },
        pem::Error::NoItemsFound => wrong(path, &"it has no private key (PEM, without a password)"),
        error => wrong(path, &error),
    }
}

fn wrong(path: &Path, what: &impl ToString) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        what: what.to_string(),
    }
}
