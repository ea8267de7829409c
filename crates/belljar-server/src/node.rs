//! Ids: of this node, of sessions, of requests.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::{fs, io};

use ring::hmac;

/// Random bytes as hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut random[filled..], flags)?;
    }
    Ok(hex(&random))
}

/// A secret for one purpose, which all nodes derive from the secret of their cluster.
pub(crate) fn secret_of_cluster(secret: &str, purpose: &str) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, purpose.as_bytes())
}

pub(crate) fn key_of_cluster(secret: &str, purpose: &str) -> hmac::Key {
    let derived = secret_of_cluster(secret, purpose);
    hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Makes the directory of a service, for its user alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Whether a text can be the id of a node.
pub(crate) fn is_node_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id of the node whose data this is, made once: session ids begin with it, so that a request can be
/// led to its node by looking at it.
pub(crate) fn node_id(data: &Path) -> io::Result<String> {
    let path = data.join("node");
    match fs::read_to_string(&path) {
        Ok(id) if is_node_id(&id) => Ok(id),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file `node` is not an id",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = random_hex(4)?;
            // Whole or not at all, and never over one that another process has just made.
            let mut file = tempfile::Builder::new()
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .tempfile_in(data)?;
            file.write_all(id.as_bytes())?;
            match file.persist_noclobber(&path) {
                Ok(_) => Ok(id),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                    fs::read_to_string(&path)
                }
                Err(error) => Err(error.error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Makes an empty file for its user alone, if there is none.
pub(crate) fn make_private_file(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
