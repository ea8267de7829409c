//! The signature of an exported page: proof that nothing was changed since a service wrote it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use tempfile::NamedTempFile;

/// What the last line of a signed page begins and ends with: a comment of HTML.
const BEGINS: &str = "<!-- belljar-signature ed25519 ";
const ENDS: &str = " -->";

/// The key that signs exported pages (Ed25519).
#[derive(Debug)]
pub struct ReportKey(Ed25519KeyPair);

impl ReportKey {
    /// The key in this file, which is made if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(seed) => Self::from_seed(&seed),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut seed = [0; 32];
                let random = SystemRandom::new().fill(&mut seed);
                random.map_err(|_| io::Error::other("no random numbers"))?;
                match write(path, &seed) {
                    // Or another program has just made one.
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
                    _ => Self::from_seed(&fs::read(path)?),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The key that 32 secret bytes make.
    pub fn from_seed(seed: &[u8]) -> io::Result<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        pair.map(Self).map_err(|_| {
            let why =
                "the file of the report key does not have 32 bytes; delete it to make a new one";
            io::Error::new(ErrorKind::InvalidData, why)
        })
    }

    /// The public key, as base64.
    pub fn public(&self) -> String {
        BASE64.encode(self.0.public_key())
    }

    /// The page with its signature at the end.
    pub(super) fn sign(&self, mut page: String) -> String {
        let signature = BASE64.encode(self.0.sign(page.as_bytes()));
        let _ = write!(page, "{BEGINS}{} {signature}{ENDS}", self.public());
        page
    }
}

/// Writes the file as a whole or not at all, for its user alone: half a key would be refused ever after. Replaces nothing.
fn write(path: &Path, seed: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(seed)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Why a page is not what its key signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// It has no signature at its end.
    #[error("the file does not end with a signature: it is no signed page, or its end is missing")]
    Missing,
    /// The signature is not that of this page.
    #[error("the signature does not match: the file was changed after it was signed")]
    Wrong,
}

/// Checks the signature of an exported page, and returns the public key that it was made with. Who has that key is for
/// the reader to know: everybody can sign with a key of their own.
pub fn signer_of(page: &str) -> Result<String, SignatureFault> {
    let signed = page.rfind(BEGINS).ok_or(SignatureFault::Missing)?;
    let (signed, line) = page.split_at(signed);
    let (key, signature) = line
        .strip_prefix(BEGINS)
        // Editors and shells end a file with a line break.
        .and_then(|line| line.trim_end_matches('\n').strip_suffix(ENDS))
        .and_then(|line| line.split_once(' '))
        .ok_or(SignatureFault::Missing)?;
    let bytes = |text: &str| BASE64.decode(text).map_err(|_| SignatureFault::Wrong);
    UnparsedPublicKey::new(&ED25519, bytes(key)?)
        .verify(signed.as_bytes(), &bytes(signature)?)
        .map_err(|_| SignatureFault::Wrong)?;
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_anywhere_is_noticed() {
        let key = ReportKey::from_seed(&[7; 32]).unwrap();
        let page = format!("<p>12 {BEGINS}not the last one{ENDS}</p>\n");
        let signed = key.sign(page.clone());
        assert_eq!(signer_of(&signed), Ok(key.public()));
        assert_eq!(signer_of(&page), Err(SignatureFault::Missing));
        for (at, _) in signed.char_indices() {
            let mut changed = signed.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert!(signer_of(&changed).is_err(), "{at}: {changed}");
        }
        for end in 0..signed.len() {
            assert!(signer_of(&signed[..end]).is_err(), "{end}");
        }
        assert_eq!(signer_of(&format!("{signed}\n")), Ok(key.public()));
        for added in [
            format!("{signed}\n."),
            format!(" {signed}"),
            signed.replace("12", "13"),
        ] {
            assert!(signer_of(&added).is_err(), "{added}");
        }
        let other = ReportKey::from_seed(&[8; 32]).unwrap();
        let theirs = signed.replace(&key.public(), &other.public());
        assert_eq!(signer_of(&theirs), Err(SignatureFault::Wrong));
    }

    #[test]
    fn a_key_is_made_once_and_for_its_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report-key");
        let made: Vec<String> = std::thread::scope(|scope| {
            let open = || ReportKey::open(&path).unwrap().public();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(made.iter().all(|key| *key == made[0]), "{made:?}");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::write(&path, "short").unwrap();
        let error = ReportKey::open(&path).unwrap_err();
        assert!(error.to_string().contains("32 bytes"), "{error}");
    }
}
