//! The connection file, by which a client says where its kernel listens.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::message::Key;

/// The largest connection file.
const MAX_BYTES: u64 = 64 << 10;

/// Why a connection file can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It can't be read.
    #[error("cannot read the connection file `{path}`: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not a connection file.
    #[error("`{path}` is not a connection file of Jupyter: {error}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// It asks for something else than signed messages over a known transport.
    #[error("the connection file asks for {0}\nhint: let Jupyter write it, with its defaults")]
    Unsupported(String),
}

/// A connection file.
#[derive(Clone, Debug, Deserialize)]
pub struct ConnectionFile {
    #[serde(default = "tcp")]
    transport: String,
    ip: String,
    shell_port: u16,
    control_port: u16,
    iopub_port: u16,
    stdin_port: u16,
    hb_port: u16,
    key: String,
    #[serde(default = "hmac")]
    signature_scheme: String,
}

fn tcp() -> String {
    "tcp".into()
}

fn hmac() -> String {
    "hmac-sha256".into()
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(String, u16),
    /// A local socket.
    Ipc(PathBuf),
}

impl ConnectionFile {
    /// Reads a connection file.
    ///
    /// # Errors
    /// Also if it has no key: anybody on the host could run code.
    pub fn read(path: &Path) -> Result<Self, ConnectionError> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.map_err(|error| ConnectionError::Read {
            path: path.into(),
            error,
        })?;
        let file: Self = serde_json::from_str(&text).map_err(|error| ConnectionError::Content {
            path: path.into(),
            error,
        })?;
        let unsupported = |what: String| Err(ConnectionError::Unsupported(what));
        match () {
            () if !["tcp", "ipc"].contains(&file.transport.as_str()) => {
                unsupported(format!("the transport `{}`", file.transport))
            }
            () if file.signature_scheme != hmac() => {
                unsupported(format!("signatures by `{}`", file.signature_scheme))
            }
            () if file.key.is_empty() => {
                unsupported("no signatures, so that anybody on this host could run code".into())
            }
            () if file.transport == "tcp" && file.ports().contains(&0) => {
                unsupported("port 0, where no client would find the kernel".into())
            }
            () => Ok(file),
        }
    }

    fn ports(&self) -> [u16; 5] {
        [
            self.shell_port,
            self.control_port,
            self.iopub_port,
            self.stdin_port,
            self.hb_port,
        ]
    }

    /// Where shell, control, iopub, stdin and heartbeat listen.
    pub(crate) fn endpoints(&self) -> [Endpoint; 5] {
        self.ports().map(|port| match self.transport.as_str() {
            "ipc" => Endpoint::Ipc(format!("{}-{port}", self.ip).into()),
            _ if self.ip == "*" => Endpoint::Tcp("0.0.0.0".into(), port),
            _ => Endpoint::Tcp(self.ip.clone(), port),
        })
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(self.key.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(change: impl Fn(&mut Value)) -> Result<ConnectionFile, String> {
        let mut content = json!({
            "transport": "tcp", "ip": "127.0.0.1", "shell_port": 1, "control_port": 2, "iopub_port": 3,
            "stdin_port": 4, "hb_port": 5, "key": "k", "signature_scheme": "hmac-sha256", "kernel_name": "belljar",
        });
        change(&mut content);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content.to_string()).unwrap();
        ConnectionFile::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn both_transports_are_known() {
        let file = read(|_| ()).unwrap();
        assert_eq!(file.endpoints()[4], Endpoint::Tcp("127.0.0.1".into(), 5));
        let file = read(|content| {
            content["transport"] = json!("ipc");
            content["ip"] = json!("/tmp/kernel-7-ipc");
        });
        let expected = Endpoint::Ipc("/tmp/kernel-7-ipc-1".into());
        assert_eq!(file.unwrap().endpoints()[0], expected);
    }

    #[test]
    fn a_kernel_without_signatures_is_refused() {
        for (name, value, said) in [
            ("key", json!(""), "anybody on this host could run code"),
            ("signature_scheme", json!("hmac-md5"), "`hmac-md5`"),
            ("transport", json!("udp"), "`udp`"),
            ("shell_port", json!(0), "port 0"),
            ("hb_port", json!("x"), "not a connection file"),
        ] {
            let error = read(|content| content[name] = value.clone()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let error = ConnectionFile::read("/nonexistent".as_ref()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("cannot read the connection file")
        );
    }
}
