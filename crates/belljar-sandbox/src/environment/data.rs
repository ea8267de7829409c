//! Where environments are kept, and the hashes that their files are named by.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use sha2::{Digest, Sha256};

use super::EnvironmentError;

/// The data directory.
pub(crate) fn data_directory() -> Result<PathBuf, EnvironmentError> {
    if let Some(root) = std::env::var_os("BELLJAR_DATA_DIR").filter(|root| !root.is_empty()) {
        return Ok(root.into());
    }
    let strategy =
        etcetera::choose_base_strategy().map_err(|_| EnvironmentError::NoDataDirectory)?;
    Ok(strategy.data_dir().join("belljar"))
}

/// The SHA-256 of bytes, as hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
