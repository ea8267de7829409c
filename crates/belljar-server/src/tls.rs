//! TLS, by rustls: certificates that can be replaced while the service runs.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
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
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// What is shown to clients now.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read();
        let current = current.unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl Tls {
    /// Reads a certificate chain and its private key, both as PEM.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let read = read(certificate, key, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(read))));
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| wrong(certificate, &error))?;
        let mut config = config
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        // What the listener speaks.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            current,
            config: Arc::new(config),
        })
    }

    /// Reads the files again whenever they have changed. Where they can't be used, what was there before stays.
    pub(crate) async fn follow(&self) {
        let mut seen = self.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let stamp = self.stamp();
            if stamp == seen {
                continue;
            }
            match read(&self.certificate, &self.key, self.config.crypto_provider()) {
                Ok(read) => {
                    let current = self.current.0.write();
                    let mut current = current.unwrap_or_else(std::sync::PoisonError::into_inner);
                    *current = Arc::new(read);
                    tracing::info!("TLS certificate reloaded");
                }
                // One of the two may not have been written yet: its change is seen, too.
                Err(error) => {
                    tracing::warn!(%error, "cannot reload the TLS certificate; the old one stays in use");
                }
            }
            seen = stamp;
        }
    }

    /// By what it is seen that a file has changed.
    fn stamp(&self) -> [Option<(u64, i64, i64, u64)>; 2] {
        [&self.certificate, &self.key].map(|path| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.ino(), data.mtime(), data.mtime_nsec(), data.size()))
        })
    }

    /// Agrees with a client on how to talk; `None` if they don't, or not in time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
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

fn read(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(certificate);
    let chain = chain.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| not_pem(certificate, error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"it has no certificate (PEM)"));
    }
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
