//! TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_server::{Tls, TlsError};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use reqwest::tls::Version;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{World, options, world_with};

/// A certificate for `localhost` in two files; as a client knows it.
fn write(directory: &Path) -> reqwest::Certificate {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = files(directory);
    std::fs::write(certificate, cert.pem()).unwrap();
    std::fs::write(key, signing_key.serialize_pem()).unwrap();
    reqwest::Certificate::from_pem(cert.pem().as_bytes()).unwrap()
}

fn files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("certificate.pem"), directory.join("key.pem"))
}

async fn secure(directory: &Path) -> World {
    let (certificate, key) = files(directory);
    let tls = Tls::open(&certificate, &key).unwrap();
    world_with(options(|options| options.tls = Some(Arc::new(tls)))).await
}

/// The status of an answer to one who believes this certificate alone.
async fn ask(
    world: &World,
    certificate: &reqwest::Certificate,
    version: Version,
) -> reqwest::Result<u16> {
    let http = reqwest::Client::builder()
        .tls_certs_only([certificate.clone()])
        .min_tls_version(version)
        .max_tls_version(version)
        .build()?;
    let url = format!("https://localhost:{}/openapi.json", world.address.port());
    let response = http.get(url).send().await?;
    Ok(response.status().as_u16())
}

#[tokio::test]
async fn clients_talk_by_tls_and_by_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = write(directory.path());
    let world = secure(directory.path()).await;
    for version in [Version::TLS_1_2, Version::TLS_1_3] {
        assert_eq!(ask(&world, &certificate, version).await.unwrap(), 200);
    }
    let plain = world
        .raw(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    assert!(!plain.contains("HTTP/1.1"), "{plain}");
    // What operators look at stays as it is.
    assert!(world.metrics().await.contains("belljar_"));
    world.ends().await;
}

/// A certificate that is replaced is shown soon, without a stop; one that can't be used is not.
#[tokio::test]
async fn waits_a_new_certificate_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let old = write(directory.path());
    let world = secure(directory.path()).await;
    assert_eq!(ask(&world, &old, Version::TLS_1_3).await.unwrap(), 200);
    let (certificate, _) = files(directory.path());
    let before = std::fs::read(&certificate).unwrap();
    std::fs::write(&certificate, "nonsense").unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(ask(&world, &old, Version::TLS_1_3).await.unwrap(), 200);
    std::fs::write(&certificate, before).unwrap();

    let new = write(directory.path());
    let deadline = Instant::now() + Duration::from_secs(15);
    while ask(&world, &new, Version::TLS_1_3).await.is_err() {
        assert!(
            Instant::now() < deadline,
            "the new certificate is not shown"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(ask(&world, &old, Version::TLS_1_3).await.is_err());
    world.ends().await;
}

/// K5: who says nothing, or half of a word, is not waited for.
#[tokio::test]
async fn waits_a_handshake_has_a_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = write(directory.path());
    let world = secure(directory.path()).await;
    let began = Instant::now();
    let mut silent = Vec::new();
    for n in 0..300 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(&[22, 3, 1]).await.unwrap();
        }
        silent.push(stream);
    }
    for mut stream in silent {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(25), stream.read_to_end(&mut rest));
        let _ = end.await.expect("the connection stayed open");
    }
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        ask(&world, &certificate, Version::TLS_1_3).await.unwrap(),
        200
    );
    world.ends().await;
}

#[test]
fn wrong_files_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = files(directory.path());
    let open = || Tls::open(&certificate, &key).unwrap_err();
    let told = |error: &TlsError, path: &Path, what: &str| {
        let text = error.to_string();
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains(what),
            "{text}"
        );
    };
    let missing = open();
    assert!(matches!(missing, TlsError::Io { .. }), "{missing}");
    told(&missing, &certificate, "No such file");
    write(directory.path());
    assert!(Tls::open(&certificate, &key).is_ok());
    // In the place of each other.
    let swapped = Tls::open(&key, &certificate).unwrap_err();
    told(&swapped, &key, "no certificate");
    let own = std::fs::read(&key).unwrap();
    std::fs::copy(&certificate, &key).unwrap();
    told(&open(), &key, "no private key");
    std::fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(matches!(open(), TlsError::Apart { .. }));
    std::fs::write(&key, own).unwrap();
    std::fs::write(&certificate, "nonsense").unwrap();
    told(&open(), &certificate, "no certificate");
}
